//! What happened, kept by an account of its own: it knows nothing of how a store works, only
//! what was asked, what was answered, and what handlers did. Everything that breaks a promise is
//! a violation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual_core::job::{AttemptOutcome, JobState, Next, Transition};
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp, hash};
use punctual_store::*;

use crate::clock::Clock;
use crate::counts::Counts;

mod belief;
mod expiry;
mod ledger;
mod overdue;
mod schedules;
mod takeover;

pub(crate) use ledger::Kept;
use schedules::{Course, Made, decides_slots};
use takeover::Crashes;

/// After this many crashes of its node a job must be over.
const CRASHES_MAX: u32 = 3;

/// How long a process keeps a job that finds no place.
const GIVEN_BACK_AFTER: Duration = Duration::from_secs(1);

/// The account of one run.
pub(crate) struct Record {
    clock: Arc<Clock>,
    /// Handlers that a process may run at once.
    max_running: usize,
    /// Is everything told while it happens?
    is_told: bool,
    book: Mutex<Book>,
}

/// What the database should hold. It goes back when the database does.
#[derive(Clone, Default)]
pub(crate) struct Past {
    jobs: BTreeMap<JobId, Account>,
    terms: BTreeMap<String, (i64, Nonce)>,
    /// Who led while slots were decided.
    leaders: BTreeMap<i64, NodeId>,
    courses: BTreeMap<ScheduleId, Course>,
}

#[derive(Clone)]
struct Account {
    max_attempts: u32,
    attempt: u32,
    spent: u32,
    crashes: u32,
    held: Option<(LeaseId, u32)>,
    /// Has somebody called it off while it ran?
    is_unwanted: bool,
    due: Option<Timestamp>,
    /// No attempt may begin later.
    expires_at: Option<Timestamp>,
    over: Option<JobState>,
    /// The schedule that made it.
    made: Option<Made>,
}

impl Account {
    fn new(job: &NewJob, due_at: Timestamp, made: Option<Made>) -> Account {
        Account {
            max_attempts: job.max_attempts,
            attempt: 0,
            spent: 0,
            crashes: 0,
            held: None,
            is_unwanted: false,
            due: Some(due_at),
            expires_at: job.start_within.map(|length| due_at + length),
            over: None,
            made,
        }
    }
}

#[derive(Default)]
struct Book {
    past: Past,
    submitted: BTreeSet<JobId>,
    /// What the database has said the time is.
    times: Vec<Timestamp>,
    /// When a lease was given, in whichever history of the database.
    leased: BTreeMap<(JobId, LeaseId), Duration>,
    begun: BTreeMap<Execution, Duration>,
    ended: BTreeMap<Execution, How>,
    running: BTreeSet<Execution>,
    /// Under which id a process lives.
    nodes: BTreeMap<u32, NodeId>,
    /// Jobs that a process has been given and has not begun, and since when.
    waiting: BTreeMap<u32, BTreeMap<(JobId, LeaseId), Duration>>,
    /// When a process's handlers ended lately.
    ends: BTreeMap<u32, VecDeque<Duration>>,
    frozen: BTreeMap<u32, Duration>,
    /// When the database's clock or its history last jumped.
    disturbed: Option<Duration>,
    has_stepped_back: bool,
    /// When the database's clock was first stepped.
    stepped: Option<Duration>,
    /// By how much the database's clock is ahead of the true one, in microseconds, for all that a
    /// process has reason to believe.
    believed: BTreeMap<u32, i64>,
    crashes: Crashes,
    trace: u64,
    violations: Vec<String>,
    pub(crate) counts: Counts,
}

/// One attempt as its process ran it.
type Execution = (JobId, LeaseId, u32);

/// How a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It said that it is done.
    Done,
    /// It returned an error.
    Failed,
    /// It panicked.
    Panicked,
    /// It asked to be called again.
    Snoozed,
    /// It was dropped where it was.
    Dropped,
}

impl Record {
    /// An empty account.
    pub(crate) fn new(clock: Arc<Clock>, max_running: usize, is_told: bool) -> Record {
        Record { clock, max_running, is_told, book: Mutex::default() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("single thread")
    }

    /// Adds something to the trace, by which two runs of one seed are compared.
    pub(crate) fn trace(&self, what: &str) {
        let at = self.clock.elapsed().as_micros() as u64;
        if self.is_told {
            eprintln!("{:>9.3} s  {what}", at as f64 / 1e6);
        }
        let mut book = self.book();
        book.trace = hash::mix(book.trace ^ hash::seed(what) ^ hash::mix(at));
    }

    /// The hash of everything that happened.
    pub(crate) fn hash(&self) -> u64 {
        self.book().trace
    }

    /// How often things happened.
    pub(crate) fn counts(&self) -> Counts {
        self.book().counts
    }

    /// Counts something.
    pub(crate) fn count(&self, what: impl FnOnce(&mut Counts)) {
        what(&mut self.book().counts);
    }

    /// What broke a promise.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.book().violations.clone()
    }

    /// Notes a broken promise.
    pub(crate) fn violate(&self, what: String) {
        let at = self.clock.elapsed();
        self.book().violate(at, what);
    }

    /// What the database should hold, for going back to it.
    pub(crate) fn past(&self) -> Past {
        self.book().past.clone()
    }

    /// The database went back to an older state.
    pub(crate) fn went_back(&self, past: Past) {
        self.trace("went back");
        let mut book = self.book();
        book.past = past;
        book.disturbed = Some(self.clock.elapsed());
        book.counts.failovers += 1;
    }

    /// The database's clock was stepped.
    pub(crate) fn stepped(&self, micros: i64) {
        self.trace(&format!("stepped {micros}"));
        let now = self.clock.elapsed();
        let mut book = self.book();
        book.disturbed = Some(now);
        book.stepped.get_or_insert(now);
        book.has_stepped_back |= micros < 0;
        book.counts.steps += 1;
    }

    /// From here on nothing is as it was before.
    pub(crate) fn disturb(&self) {
        self.trace("disturbed");
        self.book().disturbed = Some(self.clock.elapsed());
    }

    /// A process was frozen or thawed.
    pub(crate) fn frozen(&self, process: u32) {
        self.trace(&format!("frozen {process}"));
        self.book().frozen.insert(process, self.clock.elapsed());
    }

    // What the database did

    /// Jobs are about to be submitted.
    pub(crate) fn submits(&self, jobs: &[NewJob]) {
        let mut book = self.book();
        for job in jobs {
            let is_new = book.submitted.insert(job.id);
            book.counts.jobs += u64::from(is_new);
        }
    }

    pub(crate) fn enqueued(&self, jobs: &[NewJob], enqueued: &Enqueued) {
        let mut book = self.book();
        for (job, answer) in jobs.iter().zip(&enqueued.answers) {
            if *answer == EnqueueAnswer::Created && !book.past.jobs.contains_key(&job.id) {
                let made = book.past.made_by_hand(job);
                let due_at = job.delay.due_at(enqueued.at);
                book.past.jobs.insert(job.id, Account::new(job, due_at, made));
            }
        }
    }

    /// Jobs that were written with a settlement are owed from then on.
    pub(crate) fn followed(&self, batch: &[Settlement], answer: &Settlements) {
        let applied = batch
            .iter()
            .zip(&answer.answers)
            .filter(|(_, settled)| matches!(settled, Settled::Applied(_)));
        let jobs: Vec<NewJob> = applied.flat_map(|(item, _)| item.then.clone()).collect();
        self.submits(&jobs);
        let answers = vec![EnqueueAnswer::Created; jobs.len()];
        self.enqueued(&jobs, &Enqueued { at: answer.at, answers });
    }

    pub(crate) fn claimed(&self, process: u32, claimed: &Claimed) {
        for job in &claimed.jobs {
            self.trace(&format!("claimed by {process}: {} {}", job.id, job.lease));
        }
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        for job in &claimed.jobs {
            book.leased.insert((job.id, job.lease), now);
            let in_the_way = book.past.in_the_way(job.id);
            let Some(account) = book.past.jobs.get_mut(&job.id) else {
                book.violate(now, format!("job {} was claimed but never enqueued", job.id));
                continue;
            };
            let mut wrong = Vec::new();
            if let Some(other) = in_the_way {
                wrong.push(format!("must wait for job {other} of its schedule"));
            }
            if let Some((lease, holder)) = account.held {
                wrong.push(format!("is leased to process {holder} under {lease}"));
            }
            if let Some(over) = account.over {
                wrong.push(format!("is {over}"));
            }
            if job.attempt != account.attempt + 1 {
                wrong.push(format!(
                    "had {} attempts, but this is attempt {}",
                    account.attempt, job.attempt
                ));
            }
            if account.spent >= account.max_attempts {
                wrong.push(format!("has used all {} attempts", account.max_attempts));
            }
            if account.crashes >= CRASHES_MAX {
                wrong.push(format!("has crashed {} times", account.crashes));
            }
            if let Some(due) = account.due.filter(|due| *due > claimed.at && !book.has_stepped_back)
            {
                wrong.push(format!("is due at {due}, but the time is {}", claimed.at));
            }
            account.attempt = job.attempt;
            account.held = Some((job.lease, process));
            account.due = None;
            for wrong in wrong {
                book.violate(now, format!("job {} was claimed by {process} but {wrong}", job.id));
            }
        }
    }

    /// The answer to a claim that was sent then has reached its process. It may hold what it can
    /// run, and as much again as has ended lately.
    pub(crate) fn delivered(&self, process: u32, node: NodeId, sent: Duration, claimed: &Claimed) {
        self.trace(&format!("{} jobs reach {process}", claimed.jobs.len()));
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        if book.nodes.get(&process) != Some(&node) {
            // Asked for in an earlier life, whose work nobody does any more.
            return;
        }
        let waiting = book.waiting.entry(process).or_default();
        // A job that comes too late never begins and says so only when it is settled.
        let will_begin = |job: &&ClaimedJob| job.expires_at.is_none() && job.budget.is_none();
        let given = claimed.jobs.iter().filter(will_begin);
        waiting.extend(given.map(|job| ((job.id, job.lease), now)));
        // What finds no place for a second is given back, and waits for a settle to be sent.
        let waiting = waiting.values().filter(|since| **since + GIVEN_BACK_AFTER > now).count();
        let running = book.running.iter().filter(|(.., of)| *of == process).count();
        let ends = book.ends.entry(process).or_default();
        while ends.front().is_some_and(|end| *end + Duration::from_millis(100) < sent) {
            ends.pop_front();
        }
        // Some may be given back and wait for a settle to be sent, which cannot be seen here.
        let most = 3 * self.max_running + ends.len();
        if waiting + running > most && !claimed.jobs.is_empty() {
            book.violate(
                now,
                format!(
                    "process {process} holds {waiting} claimed jobs that wait, with {running} \
                     running; it can run {most} soon"
                ),
            );
        }
    }

    /// A process begins anew under another id: what it was given before is not its own any more.
    pub(crate) fn joins(&self, process: u32, node: NodeId) {
        let mut book = self.book();
        book.waiting.remove(&process);
        book.nodes.insert(process, node);
    }

    /// A process is about to say how these ended: they wait no more.
    pub(crate) fn settles(&self, process: u32, batch: &[Settlement]) {
        if let Some(waiting) = self.book().waiting.get_mut(&process) {
            for item in batch {
                waiting.remove(&(item.job, item.lease));
            }
        }
    }

    pub(crate) fn settled(&self, process: u32, batch: &[Settlement], answer: &Settlements) {
        for (item, settled) in batch.iter().zip(&answer.answers) {
            let Transition { outcome, next, .. } = &item.transition;
            self.trace(&format!(
                "settled by {process}: {} {outcome} {next:?} {settled:?}",
                item.job
            ));
        }
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        for (item, settled) in batch.iter().zip(&answer.answers) {
            let (job, lease) = (item.job, item.lease);
            let holder = book.past.jobs.get(&job).and_then(|account| account.held);
            let state = match settled {
                Settled::Applied(state) => *state,
                Settled::Already | Settled::Fenced => {
                    book.counts.fenced += u64::from(*settled == Settled::Fenced);
                    if holder == Some((lease, process)) {
                        let what = format!("job {job}: its holder {process} received {settled:?}");
                        book.violate(now, what);
                    }
                    continue;
                }
            };
            book.check_honest(now, process, item);
            let Some(account) = book.past.jobs.get_mut(&job) else { continue };
            let held = account.held.take();
            let outcome = item.transition.outcome;
            account.spent += u32::from(outcome.counts());
            let expected = match item.transition.next {
                Next::Ready | Next::After(_) if account.is_unwanted => Some(JobState::Cancelled),
                Next::Ready | Next::After(_) => None,
                ended => Some(rules::final_state(ended)),
            };
            account.over = expected;
            if let (None, Next::After(wait)) = (expected, item.transition.next) {
                account.due = Some(answer.at + wait);
            }
            if expected != Some(state).filter(|state| state.is_final()) {
                let what = format!("job {job} moved to {state}, expected {expected:?}");
                book.violate(now, what);
            }
            if held != Some((lease, process)) {
                book.violate(
                    now,
                    format!("job {job}: {outcome} of process {process} under {lease} was accepted, but the job was held by {held:?}"),
                );
            }
        }
    }

    pub(crate) fn reaped(&self, fence: &Fence, answer: &Reaped) {
        if !answer.dead.is_empty() || !answer.jobs.is_empty() {
            self.trace(&format!("reaped {:?} of {:?}", answer.jobs, answer.dead));
        }
        self.timed_out(answer);
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        let term = book.past.terms.get(&fence.role).copied();
        if answer.led && term.is_some_and(|term| term != (fence.term, fence.nonce)) {
            book.violate(
                now,
                format!("term {} reclaimed jobs, but {term:?} is the last term", fence.term),
            );
        }
        book.crashes.reclaimed(now, answer);
        for reaped in &answer.jobs {
            book.counts.reaped += 1;
            let Some(account) = book.past.jobs.get_mut(&reaped.job) else { continue };
            let held = account.held.take();
            account.spent += 1;
            account.crashes += 1;
            match reaped.next {
                Next::After(wait) => account.due = Some(answer.at + wait),
                Next::Ready => {}
                ended => account.over = Some(rules::final_state(ended)),
            }
            if held.is_none() {
                book.violate(
                    now,
                    format!("job {} was reclaimed, but no process held it", reaped.job),
                );
            }
        }
    }

    pub(crate) fn released(&self, process: u32, answer: &Released) {
        self.trace(&format!("given back by {process}: {:?}", answer.jobs));
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        for job in &answer.jobs {
            book.counts.strays += 1;
            let Some(account) = book.past.jobs.get_mut(job) else { continue };
            let held = account.held.take();
            account.over = account.is_unwanted.then_some(JobState::Cancelled);
            if held.is_none_or(|(_, holder)| holder != process) {
                let what = format!("job {job} was released by {process}, but held by {held:?}");
                book.violate(now, what);
            }
            if let Some((lease, _)) = held
                && book.running.contains(&(*job, lease, process))
            {
                book.violate(
                    now,
                    format!("job {job} was released by {process} but still runs there"),
                );
            }
        }
    }

    pub(crate) fn cancelled(&self, job: JobId, answer: CancelAnswer) {
        if let Some(account) = self.book().past.jobs.get_mut(&job) {
            match answer {
                CancelAnswer::Cancelled => account.over = Some(JobState::Cancelled),
                CancelAnswer::Asked => account.is_unwanted = true,
                CancelAnswer::Ended(_) | CancelAnswer::NotFound => {}
            }
        }
    }

    pub(crate) fn acquired(&self, role: &str, node: NodeId, nonce: Nonce, answer: &Acquired) {
        let now = self.clock.elapsed();
        let mut book = self.book();
        if let Acquired::Won { term, .. } = answer {
            if decides_slots(role) {
                book.past.leaders.insert(*term, node);
            }
            let last = book.past.terms.insert(role.to_owned(), (*term, nonce));
            if role == MAINTENANCE && last != Some((*term, nonce)) {
                book.crashes.began(now, node);
            }
            // Asking again with the nonce of a term answers that term; others are new.
            if let Some((last, by)) = last
                && *term <= last
                && (*term, nonce) != (last, by)
            {
                book.violate(now, format!("term {term} of {role} was won after term {last}"));
            }
        }
    }

    // What handlers did

    /// A handler begins.
    pub(crate) fn begins(&self, process: u32, job: &ClaimedJob) {
        self.trace(&format!("begin {process} {} {}", job.id, job.attempt));
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        book.counts.attempts += 1;
        self.check_start(book, job);
        let execution = (job.id, job.lease, process);
        if let Some(waiting) = book.waiting.get_mut(&process) {
            waiting.remove(&(job.id, job.lease));
        }
        if book.begun.insert(execution, now).is_some() {
            book.violate(now, format!("job {} started twice under lease {}", job.id, job.lease));
        }
        let others: Vec<Execution> =
            book.running.iter().filter(|(id, ..)| *id == job.id).copied().collect();
        for other in others {
            let since = book.begun.get(&other).copied().unwrap_or_default();
            let was_frozen = book.frozen.get(&other.2).is_some_and(|frozen| *frozen >= since);
            // If one of the leases was given in a history that is no more, nobody could know.
            let leased = |lease: LeaseId| book.leased.get(&(job.id, lease)).copied();
            let leased = leased(other.1).min(leased(job.lease)).unwrap_or_default();
            let was_disturbed = book.disturbed.is_some_and(|disturbed| disturbed >= leased);
            if !was_frozen && !was_disturbed {
                book.violate(
                    now,
                    format!(
                        "job {} runs in process {process} while it runs in process {}",
                        job.id, other.2
                    ),
                );
            }
        }
        book.running.insert(execution);
        let running = book.running.iter().filter(|(.., of)| *of == process).count();
        if running > self.max_running {
            book.violate(
                now,
                format!("process {process} runs {running} handlers at the same time"),
            );
        }
    }

    /// A handler has ended.
    pub(crate) fn ends(&self, process: u32, job: JobId, lease: LeaseId, how: How) {
        self.trace(&format!("end {process} {job} {how:?}"));
        let now = self.clock.elapsed();
        let mut book = self.book();
        let execution = (job, lease, process);
        book.running.remove(&execution);
        book.ended.insert(execution, how);
        book.ends.entry(process).or_default().push_back(now);
    }

    /// A process is gone with everything in it.
    pub(crate) fn died(&self, process: u32) {
        self.trace(&format!("died {process}"));
        let mut book = self.book();
        book.running.retain(|(.., of)| *of != process);
        book.waiting.remove(&process);
    }

    /// How many attempts each process has begun.
    pub(crate) fn begun_by(&self) -> BTreeMap<u32, usize> {
        let mut count = BTreeMap::new();
        for (.., process) in self.book().begun.keys() {
            *count.entry(*process).or_default() += 1;
        }
        count
    }

    /// Has the database's clock or its history jumped lately?
    pub(crate) fn is_disturbed(&self, lately: Duration) -> bool {
        let now = self.clock.elapsed();
        self.book().disturbed.is_some_and(|disturbed| now < disturbed + lately)
    }

    // The end

    /// Compares the store with the account; `is_drained` if everything must be over.
    pub(crate) fn compare(&self, details: &[JobDetail], is_drained: bool) {
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        let stored: BTreeMap<JobId, &JobDetail> =
            details.iter().map(|detail| (detail.view.id, detail)).collect();
        let mut wrong = Vec::new();
        let is_made = |id: &JobId| book.past.jobs.get(id).is_some_and(|it| it.made.is_some());
        let is_wanted = |id: &JobId| book.submitted.contains(id) || is_made(id);
        for id in stored.keys().filter(|id| !is_wanted(id)) {
            wrong.push(format!("job {id} is stored but was never submitted"));
        }
        for (id, account) in &book.past.jobs {
            let Some(detail) = stored.get(id) else {
                wrong.push(format!("job {id} was acknowledged and is lost"));
                continue;
            };
            let state = detail.view.state;
            if account.over != Some(state).filter(|state| state.is_final()) {
                wrong.push(format!("job {id} is {state}, expected {:?}", account.over));
            }
            if is_drained && !state.is_final() {
                wrong.push(format!("job {id} is still {state}"));
            }
            if (detail.spent, detail.crashes) != (account.spent, account.crashes) {
                wrong.push(format!(
                    "job {id} has {} counted attempts and {} crashes, expected {} and {}",
                    detail.spent, detail.crashes, account.spent, account.crashes
                ));
            }
            let numbers: Vec<u32> = detail.attempts.iter().map(|attempt| attempt.attempt).collect();
            if !numbers.is_sorted_by(|a, b| a < b) {
                wrong.push(format!("job {id} has a gap in its attempts: {numbers:?}"));
            }
        }
        for wrong in wrong {
            book.violate(now, wrong);
        }
    }
}

impl Book {
    fn violate(&mut self, at: Duration, what: String) {
        if self.violations.len() < 10 {
            self.violations.push(format!("{:>9.3} s  {what}", at.as_secs_f64()));
        }
    }

    /// An outcome that counts must be what the handler did.
    fn check_honest(&mut self, now: Duration, process: u32, item: &Settlement) {
        let execution = (item.job, item.lease, process);
        let how = self.ended.get(&execution).copied();
        let is_honest = match item.transition.outcome {
            AttemptOutcome::Succeeded => how == Some(How::Done),
            AttemptOutcome::Failed => how == Some(How::Failed),
            AttemptOutcome::Panicked => how == Some(How::Panicked),
            AttemptOutcome::Snoozed => how == Some(How::Snoozed),
            AttemptOutcome::TimedOut => self.begun.contains_key(&execution),
            AttemptOutcome::Released => how != Some(How::Done),
            AttemptOutcome::Cancelled => !self.begun.contains_key(&execution),
            AttemptOutcome::Abandoned => false,
        };
        if !is_honest {
            let outcome = item.transition.outcome;
            self.violate(
                now,
                format!(
                    "job {}: {outcome} is reported for an attempt of {process} that ended in \
                     {how:?}",
                    item.job
                ),
            );
        }
    }
}
