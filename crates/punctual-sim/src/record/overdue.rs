//! Attempts of remote workers that exceed their time, as the maintenance leader ends them.

use punctual_core::job::Next;
use punctual_store::{Reaped, rules};

use super::Record;

impl Record {
    /// Attempts were ended because of their time. By the account's own clock, none may end early.
    pub(crate) fn timed_out(&self, answer: &Reaped) {
        for overdue in &answer.overdue {
            self.trace(&format!("timed out {} {:?}", overdue.job, overdue.next));
        }
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        for overdue in &answer.overdue {
            book.counts.timed_out += 1;
            let Some(account) = book.past.jobs.get_mut(&overdue.job) else { continue };
            let held = account.held.take();
            account.spent += 1;
            match overdue.next {
                Next::After(wait) => account.due = Some(answer.at + wait),
                Next::Ready => {}
                ended => account.over = Some(rules::final_state(ended)),
            }
            let Some((lease, _)) = held else {
                let what = format!("job {} was timed out, but no process held it", overdue.job);
                book.violate(now, what);
                continue;
            };
            let leased = book.leased.get(&(overdue.job, lease)).copied().unwrap_or_default();
            let is_known = book.disturbed.is_none_or(|disturbed| disturbed < leased);
            if is_known && now < leased + overdue.limit {
                let (job, took) = (overdue.job, now - leased);
                book.violate(now, format!("job {job} was timed out early, after {took:?}"));
            }
        }
    }
}
