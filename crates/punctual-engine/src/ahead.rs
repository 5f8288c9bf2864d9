//! Tells the leader of the schedules when to look for schedules that are ahead of the clock.
//!
//! They are left behind by a clock that was ahead and was set back. So the leader looks for them when
//! its term begins and when the database clock goes back, and then once a minute until it finds no more.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::AHEAD_MIN;

/// When schedules that are ahead of the clock were last searched.
#[derive(Debug, Default)]
pub(crate) struct AheadWatch {
    term: Option<i64>,
    /// What the database clock said last, and the node's own at that time.
    last: Option<(Timestamp, Duration)>,
    /// Has a term begun or the clock gone back since the last search?
    is_news: bool,
    /// When to search again because the last search found some.
    again_at: Option<Duration>,
}

/// How often the leader counts the schedules that are ahead, while there are any.
const SEARCH_AGAIN: Duration = Duration::from_secs(60);

impl AheadWatch {
    /// Takes note of the database clock, as the leader read it in this term. Returns whether to
    /// search now; the caller confirms the search with [`AheadWatch::searched`].
    pub(crate) fn look(&mut self, term: i64, database: Timestamp, own: Duration) -> bool {
        let is_back = self.last.is_some_and(|(last, last_own)| {
            database + AHEAD_MIN < last + own.saturating_sub(last_own)
        });
        self.is_news |= is_back || self.term != Some(term);
        self.term = Some(term);
        self.last = Some((database, own));
        self.is_news || self.again_at.is_some_and(|again_at| own >= again_at)
    }

    /// A search at this time of the node's own clock has found so many. Returns whether to log it: once
    /// for each term and each step back, not for each search.
    pub(crate) fn searched(&mut self, own: Duration, found: usize) -> bool {
        self.again_at = (found > 0).then(|| own + SEARCH_AGAIN);
        std::mem::take(&mut self.is_news) && found > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_search_is_due_once_when_a_term_begins_and_when_the_clock_goes_back() {
        let mut watch = AheadWatch::default();
        assert!(watch.look(1, START, s(0)));
        assert!(watch.look(1, START + s(1), s(1)), "the search failed");
        assert!(!watch.searched(s(1), 0));
        assert!(!watch.look(1, START + s(2), s(2)));
        assert!(!watch.look(1, START + s(7_203), s(3)), "a step forward does not count");
        assert!(!watch.look(1, START + s(7_200), s(4)), "a few seconds are slewed");
        assert!(watch.look(1, START + s(5), s(5)));
        assert!(watch.searched(s(5), 3));
        assert!(!watch.look(1, START + s(6), s(6)));
        assert!(watch.look(1, START + s(65), s(65)), "there are still some");
        assert!(!watch.searched(s(65), 2), "that was logged");
        assert!(watch.look(2, START + s(66), s(66)));
        assert!(watch.searched(s(66), 2));
        assert!(watch.look(2, START + s(126), s(126)));
        watch.searched(s(126), 0);
        assert!(!watch.look(2, START + s(999), s(999)));
    }

    #[test]
    fn a_process_that_was_suspended_sees_no_step() {
        let mut watch = AheadWatch::default();
        watch.look(1, START, s(0));
        watch.searched(s(0), 0);
        assert!(!watch.look(1, START + s(3_600), s(3_600)));
    }
}
