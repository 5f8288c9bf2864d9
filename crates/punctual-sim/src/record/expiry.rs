//! Start deadlines: no attempt begins after them, and no job waits past them once the maintenance
//! leader has looked.

use std::time::Duration;

use punctual_core::job::{EXPIRED, JobState};
use punctual_core::{JobId, Timestamp};
use punctual_store::{ClaimedJob, ExpireResponse, Fence};

use super::{Account, Book, Record};

impl Record {
    /// Waiting jobs were ended because of their start deadline.
    pub(crate) fn expired(&self, fence: &Fence, response: &ExpireResponse) {
        for job in &response.jobs {
            self.trace(&format!("expired {} {}", job.job, job.error));
        }
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        let term = book.past.terms.get(&fence.role).copied();
        if response.led && term.is_some_and(|term| term != (fence.term, fence.nonce)) {
            let what = format!("term {} ended jobs, but {term:?} is the last term", fence.term);
            book.violate(now, what);
        }
        for expired in &response.jobs {
            book.counts.expired += 1;
            let id = expired.job;
            let Some(account) = book.past.jobs.get_mut(&id) else {
                book.violate(now, format!("job {id} expired but was never enqueued"));
                continue;
            };
            let mut wrong = Vec::new();
            if let Some((lease, holder)) = account.held {
                wrong.push(format!("is leased to process {holder} under {lease}"));
            }
            if let Some(over) = account.over {
                wrong.push(format!("is {over}"));
            }
            if !account.is_late(response.at) {
                let deadline = account.expires_at;
                wrong.push(format!("has until {deadline:?}, and the time is {}", response.at));
            }
            if expired.error != EXPIRED {
                wrong.push(format!("has the error {:?}", expired.error));
            }
            account.over = Some(JobState::Failed);
            for wrong in wrong {
                book.violate(now, format!("job {id} expired but {wrong}"));
            }
        }
        if response.led && !response.is_more {
            book.check_swept(now, response.at);
        }
    }

    /// An attempt must not begin after the start deadline, by the account's own clock since the claim.
    pub(super) fn check_start(&self, book: &mut Book, job: &ClaimedJob) {
        let (Some(expires_at), now) = (job.expires_at, self.clock.elapsed()) else { return };
        let Some(leased) = book.leased.get(&(job.id, job.lease)).copied() else { return };
        let begun = job.claimed_at + now.saturating_sub(leased);
        if begun > expires_at {
            let what = format!("job {} began at {begun}, but had until {expires_at}", job.id);
            book.violate(now, what);
        }
    }

    /// A job that has waited past its start deadline for longer than this.
    pub(crate) fn late_job(&self, now: Timestamp, patience: Duration) -> Option<JobId> {
        let book = self.book();
        let is_late = |account: &Account| account.is_waiting() && account.is_late(now - patience);
        book.past.jobs.iter().find(|(_, account)| is_late(account)).map(|(id, _)| *id)
    }
}

impl Account {
    fn is_waiting(&self) -> bool {
        self.held.is_none() && self.over.is_none()
    }

    /// Has the start deadline passed?
    fn is_late(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| now > expires_at)
    }
}

impl Book {
    /// All deadlines were checked at this instant. A job that was claimed before may be checked later.
    fn check_swept(&mut self, now: Duration, at: Timestamp) {
        let is_left =
            |account: &Account| account.is_waiting() && account.attempt == 0 && account.is_late(at);
        let left = self.past.jobs.iter().filter(|(_, account)| is_left(account));
        let left: Vec<JobId> = left.map(|(id, _)| *id).collect();
        for id in left {
            self.violate(now, format!("job {id} still waits after its start deadline was checked"));
        }
    }
}
