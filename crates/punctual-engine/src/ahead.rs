//! Looks for schedules that are ahead of the clock, on the node that leads the schedules.
//!
//! They are left behind by a clock that was ahead and was set back. So the leader looks for them when
//! its term begins and when the database clock goes back, and then once a minute until it finds no more.
//! It is a service of its own, because no slot may wait for a search or fail with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_store::{AHEAD_MIN, Result, Store, limits};
use tokio::sync::Notify;

use crate::config::Timing;
use crate::env::Env;
use crate::leader::{Roles, SCHEDULER};
use crate::service::{Report, Rest, Service, within};
use crate::telemetry;

/// How often the leader counts the schedules that are ahead, while there are any.
const SEARCH_AGAIN: Duration = Duration::from_secs(60);

/// When schedules that are ahead of the clock were last searched.
#[derive(Debug, Default)]
pub(crate) struct AheadWatch {
    seen: Mutex<Seen>,
    /// Wakes the search.
    pub(crate) wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Seen {
    term: Option<i64>,
    /// What the database clock said last, and the node's own at that time.
    last: Option<(Timestamp, Duration)>,
    /// Has a term begun or the clock gone back since the last search?
    is_news: bool,
    /// When to search again because the last search found some.
    again_at: Option<Duration>,
}

impl AheadWatch {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of the database clock, as the leader read it in this term. Wakes the search if one
    /// is due.
    pub(crate) fn look(&self, term: i64, database: Timestamp, own: Duration) {
        let mut seen = self.lock();
        let is_back = seen.last.is_some_and(|(last, last_own)| {
            database + AHEAD_MIN < last + own.saturating_sub(last_own)
        });
        seen.is_news |= is_back || seen.term != Some(term);
        seen.term = Some(term);
        seen.last = Some((database, own));
        if seen.is_due(own) {
            self.wake.notify_one();
        }
    }

    /// What the database clock says at this time of the node's own clock, if a search is due.
    fn due(&self, own: Duration) -> Option<Timestamp> {
        let seen = self.lock();
        let (database, last_own) = seen.last.filter(|_| seen.is_due(own))?;
        Some(database + own.saturating_sub(last_own))
    }

    /// A search at this time of the node's own clock has found so many. Returns whether to log it: once
    /// for each term and each step back, not for each search.
    fn searched(&self, own: Duration, found: usize) -> bool {
        let mut seen = self.lock();
        seen.again_at = (found > 0).then(|| own + SEARCH_AGAIN);
        std::mem::take(&mut seen.is_news) && found > 0
    }
}

impl Seen {
    fn is_due(&self, own: Duration) -> bool {
        self.is_news || self.again_at.is_some_and(|again_at| own >= again_at)
    }
}

/// Counts the schedules that are ahead of the clock.
pub(crate) struct AheadSearch {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) timing: Timing,
    pub(crate) watch: Arc<AheadWatch>,
}

#[async_trait]
impl Service for AheadSearch {
    fn name(&self) -> &'static str {
        "ahead_search"
    }

    /// Searches if a search is due. One that fails is due again.
    ///
    /// # Errors
    ///
    /// Returns the store's error. It says nothing about the term.
    async fn run_once(&mut self) -> Result<Report> {
        let idle = Report::new(0, Rest::UntilWoken);
        if self.roles.current(SCHEDULER).is_none() {
            return Ok(idle);
        }
        let Some(now) = self.watch.due(self.env.elapsed()) else { return Ok(idle) };
        let call = self.store.schedules_ahead(now, limits::PAGE_MAX);
        let ahead = within(&*self.env, self.timing.call, call).await?;
        let is_news = self.watch.searched(self.env.elapsed(), ahead.schedules.len());
        telemetry::schedules_ahead(&ahead, is_news);
        Ok(idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Whether a search is due after the leader has read this.
    fn look(watch: &AheadWatch, term: i64, database: Timestamp, own: Duration) -> bool {
        watch.look(term, database, own);
        let due = watch.due(own);
        assert!(due.is_none_or(|now| now == database), "{due:?}");
        due.is_some()
    }

    #[test]
    fn a_search_is_due_once_when_a_term_begins_and_when_the_clock_goes_back() {
        let watch = AheadWatch::default();
        assert_eq!(watch.due(s(0)), None);
        assert!(look(&watch, 1, START, s(0)));
        assert!(look(&watch, 1, START + s(1), s(1)), "the search failed");
        assert_eq!(watch.due(s(3)), Some(START + s(3)), "the search comes two seconds later");
        assert!(!watch.searched(s(1), 0));
        assert!(!look(&watch, 1, START + s(2), s(2)));
        assert!(!look(&watch, 1, START + s(7_203), s(3)), "a step forward does not count");
        assert!(!look(&watch, 1, START + s(7_200), s(4)), "a few seconds are slewed");
        assert!(look(&watch, 1, START + s(5), s(5)));
        assert!(watch.searched(s(5), 3));
        assert!(!look(&watch, 1, START + s(6), s(6)));
        assert!(look(&watch, 1, START + s(65), s(65)), "there are still some");
        assert!(!watch.searched(s(65), 2), "that was logged");
        assert!(look(&watch, 2, START + s(66), s(66)));
        assert!(watch.searched(s(66), 2));
        assert!(look(&watch, 2, START + s(126), s(126)));
        watch.searched(s(126), 0);
        assert!(!look(&watch, 2, START + s(999), s(999)));
    }

    #[test]
    fn a_process_that_was_suspended_sees_no_step() {
        let watch = AheadWatch::default();
        look(&watch, 1, START, s(0));
        watch.searched(s(0), 0);
        assert!(!look(&watch, 1, START + s(3_600), s(3_600)));
    }
}
