//! Decides which failed passes of a service are logged: an error when it begins, once a minute while
//! it lasts, and its end. A full disk or a lost database fails several passes a second.

use std::time::Duration;

/// The shortest time between two lines about the same error.
const REMIND_EVERY: Duration = Duration::from_secs(60);

/// A service has recovered when its last failed pass is so long ago. Passes that have nothing to write
/// succeed in between.
const RECOVERED_AFTER: Duration = Duration::from_secs(5);

/// Different errors that are known at the same time. Further ones count as known.
const ERRORS_MAX: usize = 8;

/// The failures of a service since it last worked.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    errors: Vec<String>,
    failed_at: Duration,
    logged_at: Duration,
    /// Failed passes since the last line.
    unlogged: u64,
    /// Failed passes in all.
    total: u64,
}

/// What to log about a failed pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureLine {
    /// An error that was not seen before.
    New,
    /// The error lasts; so many passes failed since the last line.
    Reminder(u64),
    /// Nothing that an operator has to know.
    Repeated,
}

impl FailureLog {
    /// A pass failed at this time.
    pub(crate) fn failed(&mut self, error: &str, now: Duration) -> FailureLine {
        if now.saturating_sub(self.failed_at) >= REMIND_EVERY {
            // Nothing was heard of it for so long that it is another failure.
            *self = FailureLog::default();
        }
        self.failed_at = now;
        self.total += 1;
        self.unlogged += 1;
        let is_new = !self.errors.iter().any(|known| known == error);
        if is_new && self.errors.len() < ERRORS_MAX {
            self.errors.push(error.to_owned());
            (self.logged_at, self.unlogged) = (now, 0);
            return FailureLine::New;
        }
        if now.saturating_sub(self.logged_at) < REMIND_EVERY {
            return FailureLine::Repeated;
        }
        self.logged_at = now;
        FailureLine::Reminder(std::mem::take(&mut self.unlogged))
    }

    /// A pass succeeded at this time. Returns how many passes failed, if that is over.
    pub(crate) fn succeeded(&mut self, now: Duration) -> Option<u64> {
        if self.total == 0 || now.saturating_sub(self.failed_at) < RECOVERED_AFTER {
            return None;
        }
        Some(std::mem::take(self).total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_error_is_logged_when_it_begins_once_a_minute_and_when_it_is_over() {
        let mut log = FailureLog::default();
        assert_eq!(log.succeeded(s(1_000)), None);
        let lines: Vec<_> = (1_000..1_125)
            .map(|second| (second, log.failed("disk full", s(second))))
            .filter(|(_, line)| *line != FailureLine::Repeated)
            .collect();
        assert_eq!(
            lines,
            [
                (1_000, FailureLine::New),
                (1_060, FailureLine::Reminder(60)),
                (1_120, FailureLine::Reminder(60))
            ]
        );
        assert_eq!(log.succeeded(s(1_128)), None);
        assert_eq!(log.succeeded(s(1_129)), Some(125));
        assert_eq!(log.succeeded(s(1_130)), None);
        assert_eq!(log.failed("disk full", s(1_131)), FailureLine::New);
    }

    #[test]
    fn passes_that_succeed_in_between_do_not_begin_a_failure_anew() {
        let mut log = FailureLog::default();
        let line = |log: &mut FailureLog, second| {
            let line = log.failed("disk full", s(second));
            assert_eq!(log.succeeded(s(second)), None);
            line
        };
        assert_eq!(line(&mut log, 1_000), FailureLine::New);
        assert!((1_001..1_060).all(|second| line(&mut log, second) == FailureLine::Repeated));
        assert_eq!(line(&mut log, 1_060), FailureLine::Reminder(60));
    }

    #[test]
    fn each_of_two_errors_that_alternate_is_logged_once() {
        let mut log = FailureLog::default();
        assert_eq!(log.failed("refused", s(1_000)), FailureLine::New);
        assert_eq!(log.failed("no response", s(1_001)), FailureLine::New);
        assert_eq!(log.failed("refused", s(1_002)), FailureLine::Repeated);
        assert_eq!(log.failed("no response", s(1_003)), FailureLine::Repeated);
    }

    #[test]
    fn a_failure_after_a_minute_without_one_is_new() {
        let mut log = FailureLog::default();
        assert_eq!(log.failed("refused", s(1_000)), FailureLine::New);
        assert_eq!(log.failed("refused", s(1_060)), FailureLine::New);
    }
}
