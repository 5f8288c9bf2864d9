//! Ends jobs that wait past their start deadline, so that they do not hold their schedule and their
//! unique key until a node claims them.
//!
//! Runs on the node that holds the `maintenance` role, when the promoter has found a deadline that has
//! passed. Without jobs that have a deadline there is nothing to do. It is a service of its own, because
//! timers must not wait for it. Claims refuse such jobs themselves, so a job never starts late, however
//! late this runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use punctual_store::{ExpireRequest, Promoted, Result, Store};
use tokio::sync::Notify;

use crate::batch::BatchSize;
use crate::config::Timing;
use crate::counts::Counts;
use crate::database::Database;
use crate::env::Env;
use crate::leader::{MAINTENANCE, Roles};
use crate::service::{Report, Rest, Service, within};
use crate::telemetry;

/// Maximum deadlines checked in one transaction. Larger batches delay other writers.
pub(crate) const EXPIRE_MAX: usize = 500;

/// Whether start deadlines have passed that are not checked yet.
#[derive(Default)]
pub(crate) struct PassedDeadlines {
    has_any: AtomicBool,
    /// Wakes the expirer.
    pub(crate) wake: Arc<Notify>,
}

impl PassedDeadlines {
    /// Notes what a promote found.
    pub(crate) fn note(&self, promoted: &Promoted) {
        if promoted.next_deadline.is_some_and(|deadline| deadline < promoted.at) {
            self.has_any.store(true, Ordering::Release);
            self.wake.notify_one();
        }
    }
}

pub(crate) struct Expirer {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) database: Arc<Database>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) passed: Arc<PassedDeadlines>,
    /// Wakes the promoter: the end of a job may unblock others of its schedule.
    pub(crate) promoter: Arc<Notify>,
    pub(crate) size: BatchSize,
    pub(crate) timing: Timing,
}

#[async_trait]
impl Service for Expirer {
    fn name(&self) -> &'static str {
        "expirer"
    }

    /// Ends one batch of jobs if the node leads and a deadline has passed. After a timeout the next batch
    /// is half as large.
    ///
    /// While the database clock is not trusted nothing ends: a clock that is hours ahead for a moment
    /// would end the jobs of hours.
    ///
    /// # Errors
    ///
    /// Returns the store's error. The node then stops leading until the store confirms its term.
    async fn run_once(&mut self) -> Result<Report> {
        let idle = Report::new(0, Rest::UntilWoken);
        if !self.passed.has_any.swap(false, Ordering::AcqRel) || self.database.is_clock_held() {
            return Ok(idle);
        }
        let Some(fence) = self.roles.current(MAINTENANCE) else { return Ok(idle) };
        let limit = self.size.get();
        let request = ExpireRequest {
            fence,
            lease: self.timing.leader_lease,
            // As long as it takes at most until the job of a node that dies can be claimed again.
            recheck_after: self.timing.dead,
            limit,
        };
        let call = self.store.expire(self.env.at(), &request);
        let response = match within(&*self.env, self.timing.call, call).await {
            Ok(response) => response,
            Err(error) => {
                if error.is_timeout() {
                    self.size.shrink(limit);
                }
                self.passed.has_any.store(true, Ordering::Release);
                self.roles.unsure(std::slice::from_ref(&request.fence));
                return Err(error);
            }
        };
        self.size.grow();
        if !response.led {
            self.roles.lost(&request.fence);
            return Ok(idle);
        }
        telemetry::jobs_expired(response.at, &response.jobs);
        for job in &response.jobs {
            self.counts.expired(response.at, &job.queue, &job.kind);
        }
        if response.is_more {
            self.passed.has_any.store(true, Ordering::Release);
        }
        let jobs = response.jobs.len();
        if jobs > 0 {
            self.promoter.notify_one();
        }
        Ok(Report::new(jobs, if response.is_more { Rest::None } else { Rest::UntilWoken }))
    }
}
