//! Ends jobs that wait past their start deadline, so that they do not hold their schedule and their
//! unique key until a node claims them.
//!
//! Runs on the node that holds the `maintenance` role, as a part of the promoter: a promote returns when
//! the next deadline must be checked. Without jobs that have a deadline there is nothing to do. Claims
//! refuse such jobs themselves, so a job never starts late, however late this runs.

use std::sync::Arc;
use std::time::Duration;

use punctual_store::{ExpireRequest, Promoted, Result, Store};

use crate::config::Timing;
use crate::counts::Counts;
use crate::database::Database;
use crate::env::Env;
use crate::leader::{MAINTENANCE, Roles};
use crate::service::within;
use crate::telemetry;

/// Deadlines checked in one transaction. Larger batches delay other writers.
const EXPIRE_AT_ONCE: usize = 500;

pub(crate) struct Expirer {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) database: Arc<Database>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) timing: Timing,
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expired {
    /// Jobs that were ended.
    pub(crate) jobs: usize,
    /// Whether another pass should follow immediately: more deadlines have passed, or jobs of the same
    /// schedules can be unblocked.
    pub(crate) is_more: bool,
}

impl Expirer {
    /// Ends one batch of jobs if the node leads and a deadline has passed. `promoted` was requested at
    /// `sent`.
    ///
    /// While the database clock is not trusted nothing ends: a clock that is hours ahead for a moment
    /// would end the jobs of hours.
    ///
    /// # Errors
    ///
    /// Returns the store's error. The node then stops leading until the store confirms its term.
    pub(crate) async fn run(&self, promoted: &Promoted, sent: Duration) -> Result<Expired> {
        self.database.told_time(promoted.at, sent);
        let has_passed = promoted.next_deadline.is_some_and(|deadline| deadline < promoted.at);
        if !has_passed || self.database.is_clock_held() {
            return Ok(Expired::default());
        }
        let Some(fence) = self.roles.current(MAINTENANCE) else { return Ok(Expired::default()) };
        let request = ExpireRequest {
            fence,
            lease: self.timing.leader_lease,
            // As long as it takes at most until the job of a node that dies can be claimed again.
            recheck_after: self.timing.dead,
            limit: EXPIRE_AT_ONCE,
        };
        let call = self.store.expire(self.env.at(), &request);
        let response = match within(&*self.env, self.timing.call, call).await {
            Ok(response) => response,
            Err(error) => {
                self.roles.unsure(std::slice::from_ref(&request.fence));
                return Err(error);
            }
        };
        if !response.led {
            self.roles.lost(&request.fence);
            return Ok(Expired::default());
        }
        telemetry::jobs_expired(response.at, &response.jobs);
        for job in &response.jobs {
            self.counts.expired(response.at, &job.queue, &job.kind);
        }
        let jobs = response.jobs.len();
        Ok(Expired { jobs, is_more: jobs > 0 || response.is_more })
    }
}
