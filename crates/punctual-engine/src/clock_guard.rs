//! Watches the database's clock for steps: a clock that runs away must not fire the slots of hours
//! to come.

use std::time::Duration;

use punctual_core::Timestamp;

/// By how much the database's clock may gain on the node's own between two looks.
pub(crate) const STEP_MAX: Duration = Duration::from_secs(60);
/// A clock that was stepped is believed once it has gone right for so long.
pub(crate) const BELIEVED_AFTER: Duration = Duration::from_secs(120);

/// What the database's clock said, and the node's own when that was asked for: the answer may lie for
/// hours in a process that is suspended.
#[derive(Clone, Copy, Debug)]
struct Look {
    database: Timestamp,
    own: Duration,
}

impl Look {
    /// The most that the database's clock should say by now.
    fn expected(self, own: Duration) -> Timestamp {
        self.database + own.saturating_sub(self.own)
    }
}

/// Compares the database's clock with one of the node's own that only goes forward.
#[derive(Debug, Default)]
pub(crate) struct ClockGuard {
    trusted: Option<Look>,
    /// Since when a clock that was stepped forward has gone right again.
    stepped: Option<Look>,
}

impl ClockGuard {
    /// The instant up to which slots may be decided, by what the database's clock said in answer to a
    /// question that was sent then.
    pub(crate) fn up_to(
        &mut self,
        database: Timestamp,
        sent: Duration,
        own: Duration,
    ) -> Timestamp {
        let look = Look { database, own: sent };
        let is_ahead = |of: Look| database > of.expected(own) + STEP_MAX;
        // A step back needs no guard: what was decided is decided, and what comes waits.
        let Some(trusted) = self.trusted.filter(|trusted| is_ahead(*trusted)) else {
            (self.trusted, self.stepped) = (Some(look), None);
            return database;
        };
        match self.stepped.filter(|stepped| !is_ahead(*stepped)) {
            Some(stepped) if own.saturating_sub(stepped.own) >= BELIEVED_AFTER => {
                (self.trusted, self.stepped) = (Some(look), None);
                database
            }
            Some(_) => trusted.expected(own) + STEP_MAX,
            None => {
                self.stepped = Some(look);
                trusted.expected(own) + STEP_MAX
            }
        }
    }

    /// The jump because of which the database's clock is not trusted: by how much, and when it was
    /// seen, by the time that was expected then.
    pub(crate) fn jump(&self) -> Option<(Duration, Timestamp)> {
        let (stepped, trusted) = (self.stepped?, self.trusted?);
        let expected = trusted.expected(stepped.own);
        Some((stepped.database.since(expected), expected))
    }

    /// Is the database's clock held to be wrong?
    pub(crate) fn is_held(&self) -> bool {
        self.stepped.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Looks without anything lost on the way.
    fn up_to(guard: &mut ClockGuard, database: Timestamp, own: Duration) -> Timestamp {
        guard.up_to(database, own, own)
    }

    #[test]
    fn a_clock_that_goes_right_is_trusted() {
        let mut guard = ClockGuard::default();
        for second in 0..100 {
            assert_eq!(up_to(&mut guard, START + s(second), s(second)), START + s(second));
        }
        assert_eq!(up_to(&mut guard, START + s(159), s(100)), START + s(159));
        assert!(!guard.is_held());
    }

    #[test]
    fn a_step_forward_is_followed_slowly_until_it_is_believed() {
        let mut guard = ClockGuard::default();
        up_to(&mut guard, START, s(0));
        let hour = s(3_600);
        assert_eq!(up_to(&mut guard, START + hour, s(1)), START + s(61));
        assert!(guard.is_held());
        assert_eq!(guard.jump(), Some((hour - s(1), START + s(1))));
        assert_eq!(up_to(&mut guard, START + hour + s(100), s(101)), START + s(161));
        assert_eq!(up_to(&mut guard, START + hour + s(121), s(122)), START + hour + s(121));
        assert!(!guard.is_held());
        assert_eq!(guard.jump(), None);
    }

    #[test]
    fn a_second_step_begins_the_wait_anew() {
        let mut guard = ClockGuard::default();
        up_to(&mut guard, START, s(0));
        up_to(&mut guard, START + s(3_600), s(1));
        assert_eq!(up_to(&mut guard, START + s(7_200), s(100)), START + s(160));
        assert_eq!(up_to(&mut guard, START + s(7_250), s(150)), START + s(210));
        assert_eq!(up_to(&mut guard, START + s(7_320), s(220)), START + s(7_320));
    }

    #[test]
    fn a_step_back_is_taken_as_it_is() {
        let mut guard = ClockGuard::default();
        up_to(&mut guard, START + s(3_600), s(0));
        assert_eq!(up_to(&mut guard, START, s(1)), START);
        assert_eq!(up_to(&mut guard, START + s(30), s(31)), START + s(30));
        assert!(!guard.is_held());
    }

    #[test]
    fn a_step_that_is_taken_back_is_forgotten() {
        let mut guard = ClockGuard::default();
        up_to(&mut guard, START, s(0));
        up_to(&mut guard, START + s(3_600), s(1));
        assert_eq!(up_to(&mut guard, START + s(2), s(2)), START + s(2));
        assert!(!guard.is_held());
    }

    #[test]
    fn an_answer_that_lay_in_a_suspended_process_is_no_step() {
        let mut guard = ClockGuard::default();
        let hour = 3_600;
        assert_eq!(guard.up_to(START, s(0), s(hour)), START);
        assert_eq!(up_to(&mut guard, START + s(hour + 1), s(hour + 1)), START + s(hour + 1));
        assert!(!guard.is_held());
    }
}
