//! Counts jobs by queue and kind for pages, commands and metrics.
//!
//! Runs on the node that holds the `maintenance` role. While there are few jobs, requests count for
//! themselves and nothing is stored. With more jobs the counts are stored in `queue_count`, so that
//! a request costs the same with a million jobs as with a thousand.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_store::{CountRequest, Result, Store};

use crate::config::Timing;
use crate::env::Env;
use crate::leader::{MAINTENANCE, Roles};
use crate::service::{Report, Rest, Service, within};
use crate::telemetry;

/// The shortest pause between two counts: the numbers are for people and for scrapes.
const COUNT_PAUSE: Duration = Duration::from_secs(2);
/// A pause lasts at least this many times as long as the count before it, so that counting takes
/// less than 5 % of one connection, however many jobs there are.
const COUNT_PAUSE_FACTOR: u32 = 20;
/// The longest wait for one count. The store ends a count that takes too long itself, and gives the next
/// one more time, up to half an hour.
const COUNT_PATIENCE: Duration = Duration::from_secs(2_000);

/// Stores the number of jobs by queue and kind.
pub(crate) struct QueueCounter {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) timing: Timing,
}

/// How long to pause after a count that took this long.
fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(COUNT_PAUSE_FACTOR).max(COUNT_PAUSE)
}

#[async_trait]
impl Service for QueueCounter {
    fn name(&self) -> &'static str {
        "queue_counter"
    }

    async fn run_once(&mut self) -> Result<Report> {
        let Some(fence) = self.roles.current(MAINTENANCE) else {
            return Ok(Report::new(0, Rest::AtMost(COUNT_PAUSE)));
        };
        let request = CountRequest { fence, lease: self.timing.leader_lease };
        let began = self.env.elapsed();
        let call = self.store.count_queues(self.env.at(), &request);
        let counted = within(&*self.env, COUNT_PATIENCE, call).await;
        let pause = pause_after(self.env.elapsed().saturating_sub(began));
        match counted {
            Ok(counted) => {
                if !counted.led {
                    self.roles.lost(&request.fence);
                }
                Ok(Report::new(0, Rest::AtMost(pause)))
            }
            // A count that failed after a long time must not be repeated at once, and says nothing
            // about the term: the same counts may be stored again.
            Err(error) => {
                telemetry::failed(self.name(), &error);
                Ok(Report::new(0, Rest::Pause(pause)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_takes_a_small_share_of_the_time() {
        for (took, pause) in [(0, 2_000), (100, 2_000), (101, 2_020), (3_000, 60_000)] {
            let took = Duration::from_millis(took);
            assert_eq!(pause_after(took), Duration::from_millis(pause), "{took:?}");
        }
        assert_eq!(pause_after(Duration::MAX), Duration::MAX);
    }
}
