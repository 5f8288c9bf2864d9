//! What has happened, for whoever wants to know it soon.

use std::time::Duration;

use punctual_store::{Event, EventCursor, Page, Topic};

use crate::admin::Admin;
use crate::error::Result;
#[cfg(feature = "postgres")]
use crate::transaction::Backend;

/// The longest that a transaction on PostgreSQL takes from its instant to its commit: a statement is
/// ended after two seconds. What is younger may still get an older neighbour.
#[cfg(feature = "postgres")]
const SETTLED: Duration = Duration::from_millis(2_500);

/// Whoever waits for news looks by itself after this long: that a job has ended is not hinted.
const LOOK: Duration = Duration::from_millis(500);

impl Admin {
    /// What has happened after this, oldest first: jobs that ended, slots that were decided, terms
    /// that began, what people did. Nothing is told before all that is older has been, so that a
    /// reader who goes on at the last cursor misses nothing; on PostgreSQL that takes two and a half
    /// seconds.
    pub async fn events(
        &self,
        after: &EventCursor,
        most: usize,
    ) -> Result<Page<Event, EventCursor>> {
        let until = self.events_until().await?.at;
        Ok(self.shared().store.events(after, until, most).await?)
    }

    /// The end of what [`events`](Admin::events) tells now.
    pub async fn events_until(&self) -> Result<EventCursor> {
        let now = self.now().await?;
        // Elsewhere one transaction commits before the next begins.
        #[cfg(feature = "postgres")]
        if matches!(self.shared().backend, Backend::Postgres(_)) {
            return Ok(EventCursor::at(now - SETTLED));
        }
        Ok(EventCursor::at(now))
    }

    /// Ends when something may have happened, or a moment later.
    pub async fn news(&self) {
        let shared = self.shared();
        let mut hints =
            [Topic::Work, Topic::Roles, Topic::Schedules].map(|topic| shared.store.hints(topic));
        let [work, roles, schedules] = &mut hints;
        tokio::select! {
            () = work.heard() => {}
            () = roles.heard() => {}
            () = schedules.heard() => {}
            () = shared.env.sleep(LOOK) => {}
        }
    }
}
