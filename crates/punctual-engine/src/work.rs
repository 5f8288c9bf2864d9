//! What a node holds: claims under way, jobs that wait for a place, jobs at work, and outcomes
//! that are not durable yet. All other parts of the engine meet here and nowhere else.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual_core::job::{AttemptOutcome, Outcome, RetryPolicy, Standing, Transition, decide};
use punctual_core::{JobId, LeaseId, format_duration};
use punctual_store::bugs::{Bug, is_planted};
use punctual_store::{ClaimedJob, Json, NewJob, Progress, Settlement, limits};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::claimer::PASS_MAX;
use crate::counts::{Finished, Waited};
use crate::env::Env;
use crate::handler::Ended;
use crate::places::{Pace, Place, Places};
use crate::shortage::Shortage;
use crate::stop::{Stop, StopReason};
use crate::telemetry;

mod deadlines;

/// Outcomes that may wait to become durable. A crash repeats their jobs, so there are not many;
/// but enough to fill one settle while another is under way.
const UNSETTLED_MAX: usize = limits::SETTLE_MAX;

/// How long a job that was fetched ahead may wait for a place. Its like end within a few
/// milliseconds, or it would not have been fetched; if they stopped doing so, others may have room.
const AHEAD_MAX: Duration = Duration::from_secs(1);

/// An attempt: one job under one lease.
pub(crate) type Key = (JobId, LeaseId);

pub(crate) struct Work {
    env: Arc<dyn Env>,
    give_up: Duration,
    cancel_grace: Duration,
    /// How often the watchdog looks at deadlines without being woken.
    watched_every: Duration,
    policy: RetryPolicy,
    places: Arc<Places>,
    state: Mutex<State>,
    /// When the last heartbeat that succeeded was sent, in microseconds.
    beaten: AtomicU64,
    settled_total: AtomicU64,
    pub(crate) wakes: Wakes,
}

/// Who is woken by what.
#[derive(Clone, Default)]
pub(crate) struct Wakes {
    /// The claimer: there is room, or there may be work.
    pub(crate) claimer: Arc<Notify>,
    /// The settler: there is an outcome.
    pub(crate) settler: Arc<Notify>,
    /// The watchdog: there is an earlier deadline.
    pub(crate) watchdog: Arc<Notify>,
    /// The promoter: there is an earlier timer.
    pub(crate) promoter: Arc<Notify>,
    /// The scheduler: a schedule or a term has changed.
    pub(crate) scheduler: Arc<Notify>,
    /// The scribe: there is a line.
    pub(crate) scribe: Arc<Notify>,
    /// Whoever waits for the last job to be over.
    emptied: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// Leases that the node knows of, with the number of their jobs it holds. A claim that is
    /// under way counts as one more.
    leases: BTreeMap<LeaseId, usize>,
    held: BTreeMap<Key, Held>,
    waiting: VecDeque<ClaimedJob>,
    /// What the watchdog looks at next.
    deadlines: BTreeSet<(Duration, Key)>,
    /// Tasks that were dropped and may not be gone yet.
    leaving: BTreeMap<Key, (AbortHandle, String)>,
    outcomes: VecDeque<Settlement>,
    settling: usize,
    /// Set once the node shuts down: nothing starts any more.
    is_closed: bool,
    /// When attempts that still run are dropped, once the node shuts down.
    drops_at: Option<Duration>,
    pace: Pace,
    shortage: Shortage,
}

struct Held {
    kind: String,
    queue: String,
    standing: Standing,
    policy: Option<RetryPolicy>,
    /// When the claim was sent, which is when the database's clock stood at or before
    /// `standing.claimed_at`.
    claimed: Duration,
    phase: Phase,
    stop: Arc<Stop>,
    task: Option<AbortHandle>,
    said: Option<Progress>,
    /// Did the handler write its success itself?
    is_settled: bool,
    waited: Option<Waited>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    /// Until then, by a limit of this length.
    Running(Duration, Duration),
    /// It was told to stop and is dropped then.
    Stopping(Duration),
    /// Its outcome waits to be durable.
    Ended,
}

impl Held {
    /// The end of an attempt that had to stop. An error that a shutdown hides is logged, since nothing else
    /// shows it.
    fn stopped(&self, job: JobId, reason: StopReason, ended: &Ended) -> Ended {
        if let (StopReason::Shutdown, Some(error)) = (reason, ended.error()) {
            let Held { kind, queue, standing, .. } = self;
            telemetry::released_at_shutdown(kind, queue, job, standing.attempt, error);
        }
        Ended::from(stopped(reason))
    }
}

/// What is to be written about the end of an attempt.
struct Ending {
    transition: Transition,
    result: Option<Json>,
    then: Vec<NewJob>,
    is_settled: bool,
}

impl From<Transition> for Ending {
    fn from(transition: Transition) -> Ending {
        Ending { transition, result: None, then: Vec::new(), is_settled: false }
    }
}

/// What is wrong with an attempt whose success was written in a transaction that came to nothing.
const NOT_COMMITTED: &str = "the transaction that settled the job was not committed; commit it \
                             before the handler returns";

impl Work {
    pub(crate) fn new(
        env: Arc<dyn Env>,
        config: &crate::Config,
        places: Arc<Places>,
        wakes: Wakes,
    ) -> Work {
        let timing = &config.timing;
        places.tell(wakes.claimer.clone());
        let work = Work {
            give_up: timing.give_up,
            cancel_grace: timing.cancel_grace,
            watched_every: timing.beat,
            policy: config.policy,
            places,
            state: Mutex::default(),
            beaten: AtomicU64::new(0),
            settled_total: AtomicU64::new(0),
            wakes,
            env,
        };
        work.beaten_at(work.env.elapsed());
        work
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    // Touch with the store

    /// A heartbeat that was sent then has succeeded.
    pub(crate) fn beaten_at(&self, sent: Duration) {
        let was_in_touch = self.is_in_touch();
        self.beaten.store(u64::try_from(sent.as_micros()).unwrap_or(u64::MAX), Ordering::Release);
        if !was_in_touch {
            self.wakes.claimer.notify_one();
        }
    }

    /// When the node has to give up its work unless a heartbeat succeeds.
    pub(crate) fn trusted_until(&self) -> Duration {
        Duration::from_micros(self.beaten.load(Ordering::Acquire)) + self.give_up
    }

    pub(crate) fn is_in_touch(&self) -> bool {
        self.env.elapsed() < self.trusted_until()
    }

    // Claiming

    /// How many jobs can be claimed: those that can start at once, and a few that soon can.
    pub(crate) fn room(&self) -> usize {
        let mut state = self.lock();
        if state.is_closed || state.unsettled() >= UNSETTLED_MAX || !self.is_in_touch() {
            return 0;
        }
        if is_planted(Bug::ClaimBeyondCapacity) {
            return limits::CLAIM_MAX;
        }
        let now = self.env.elapsed();
        if state.shortage.is_paused(now) {
            return 0;
        }
        let ahead = state.pace.ahead(now);
        (self.places.free() + ahead).saturating_sub(state.waiting.len()).min(PASS_MAX)
    }

    /// Did the node pause claiming within the last minute, because it lacked resources?
    pub(crate) fn lacks_resources(&self) -> bool {
        self.lock().shortage.is_recent(self.env.elapsed())
    }

    /// How many jobs were settled so far.
    pub(crate) fn settled_total(&self) -> u64 {
        self.settled_total.load(Ordering::Acquire)
    }

    /// How many jobs of a queue the node holds that are not over yet.
    pub(crate) fn held_of(&self, queue: &str) -> usize {
        let state = self.lock();
        let counts = |held: &&Held| held.phase != Phase::Ended && held.queue == queue;
        state.held.values().filter(counts).count()
    }

    /// A claim under this lease is about to be sent.
    pub(crate) fn claiming(&self, lease: LeaseId) {
        *self.lock().leases.entry(lease).or_default() += 1;
    }

    /// The claim has ended, with these jobs. A claim without an answer may have taken jobs that
    /// nobody here knows of; the next heartbeat tells.
    pub(crate) fn claimed(&self, lease: LeaseId, sent: Duration, jobs: Vec<ClaimedJob>) {
        let mut state = self.lock();
        for job in jobs {
            *state.leases.entry(job.lease).or_default() += 1;
            let held = Held {
                kind: job.kind.clone(),
                queue: job.queue.clone(),
                standing: job.standing(),
                policy: None,
                claimed: sent,
                phase: Phase::Waiting,
                stop: Arc::default(),
                task: None,
                said: None,
                is_settled: false,
                waited: Waited::of(&job),
            };
            state.held.insert((job.id, job.lease), held);
            state.waiting.push_back(job);
        }
        state.forget_lease(lease);
        if state.is_closed {
            self.give_back_waiting(&mut state);
        }
        self.tell_if_empty(&state);
    }

    /// The leases that the node knows of.
    pub(crate) fn leases(&self) -> Vec<LeaseId> {
        self.lock().leases.keys().copied().collect()
    }

    /// Ends when the node holds no job and no claim is under way that could bring one.
    pub(crate) async fn emptied(&self) {
        loop {
            let emptied = self.wakes.emptied.notified();
            if self.lock().leases.is_empty() {
                return;
            }
            emptied.await;
        }
    }

    fn tell_if_empty(&self, state: &State) {
        if state.leases.is_empty() {
            self.wakes.emptied.notify_waiters();
        }
    }

    /// How many jobs the node holds.
    pub(crate) fn held(&self) -> usize {
        self.lock().held.len()
    }

    // Running

    /// The next job to start, and a place for it. Nothing starts while the node is out of touch:
    /// by the time it has thawed or is connected again, the job may be another's.
    pub(crate) fn next(&self) -> Option<(ClaimedJob, Place)> {
        let mut state = self.lock();
        if state.waiting.is_empty() || state.is_closed || state.unsettled() >= UNSETTLED_MAX {
            return None;
        }
        if !self.is_in_touch() {
            self.give_back_waiting(&mut state);
            return None;
        }
        let place = self.places.take()?;
        state.waiting.pop_front().map(|job| (job, place))
    }

    /// The time on the clock of the node.
    pub(crate) fn elapsed(&self) -> Duration {
        self.env.elapsed()
    }

    /// What the database's clock shows by now, as far as this attempt can tell.
    pub(crate) fn now(&self, key: Key) -> Option<punctual_core::Timestamp> {
        self.lock().held.get(&key).map(|held| self.time_of(held))
    }

    fn time_of(&self, held: &Held) -> punctual_core::Timestamp {
        held.standing.claimed_at + self.env.elapsed().saturating_sub(held.claimed)
    }

    /// An attempt starts and may take so long; none if it has been given back meanwhile.
    pub(crate) fn started(
        &self,
        key: Key,
        limit: Duration,
        policy: Option<RetryPolicy>,
    ) -> Option<Arc<Stop>> {
        let mut state = self.lock();
        let held = state.held.get_mut(&key).filter(|held| held.phase == Phase::Waiting)?;
        let until = self.env.elapsed().saturating_add(limit);
        held.phase = Phase::Running(until, limit);
        held.policy = policy;
        let stop = held.stop.clone();
        self.watch(&mut state, until, key);
        // The shutdown may have begun since the attempt was taken from those that wait.
        if let Some(drops_at) = state.drops_at {
            stop.announce_shutdown(drops_at);
        }
        Some(stop)
    }

    /// The task in which an attempt runs.
    pub(crate) fn runs_as(&self, key: Key, task: AbortHandle) {
        match self.lock().held.get_mut(&key).filter(|held| held.phase != Phase::Ended) {
            Some(held) => held.task = Some(task),
            // It was given up before it could be known.
            None => task.abort(),
        }
    }

    pub(crate) fn progress(&self, job: JobId, lease: LeaseId, percent: Option<u8>, note: String) {
        if let Some(held) = self.lock().held.get_mut(&(job, lease)) {
            held.said = Some(Progress { job, lease, percent, note });
        }
    }

    /// What was said since the last time.
    pub(crate) fn take_progress(&self) -> Vec<Progress> {
        let mut state = self.lock();
        let said = state.held.values_mut().filter_map(|held| held.said.take());
        said.take(limits::PROGRESS_MAX).collect()
    }

    /// It was not told; what was said since is newer.
    pub(crate) fn put_back_progress(&self, said: Vec<Progress>) {
        let mut state = self.lock();
        for progress in said {
            if let Some(held) = state.held.get_mut(&(progress.job, progress.lease)) {
                held.said.get_or_insert(progress);
            }
        }
    }

    // Ending

    /// An attempt has ended by itself. Once it had to stop, its errors follow from the reason and do not
    /// count. After a shutdown was announced the attempt may continue, so that only the error of a
    /// handler that has seen it does not count. A panic counts in both cases: no handler panics because it
    /// was asked to stop.
    pub(crate) fn ended(&self, key: Key, ended: Ended) {
        let mut state = self.lock();
        let now = self.env.elapsed();
        let State { held, pace, shortage, .. } = &mut *state;
        let Some(held) = held.get(&key).filter(|held| held.phase != Phase::Ended) else {
            telemetry::late_result();
            return;
        };
        if let Phase::Running(until, limit) = held.phase {
            pace.ended(now, now.saturating_add(limit).saturating_sub(until));
        }
        let Ended { outcome, result, then, is_settled } = match held.stop.reason() {
            Some(reason) if is_due_to(reason, &ended.outcome) => {
                held.stopped(key.0, reason, &ended)
            }
            None if held.stop.is_shutdown_seen() && matches!(ended.outcome, Outcome::Fail(_)) => {
                held.stopped(key.0, StopReason::Shutdown, &ended)
            }
            _ => bounded(ended),
        };
        if let Outcome::OutOfResources(error) = &outcome {
            telemetry::lacked_resources(key.0, &held.kind, error, shortage.note(now));
        }
        // If the handler's own transaction was committed, the lease is gone and nothing comes of
        // this any more.
        let outcome = match outcome {
            Outcome::Done if is_settled => Outcome::Fail(NOT_COMMITTED.to_owned()),
            outcome => outcome,
        };
        let policy = held.policy.as_ref().unwrap_or(&self.policy);
        let transition = decide(&held.standing, outcome, policy, self.time_of(held));
        let ending = Ending { transition, result, then, is_settled };
        self.end(&mut state, key, ending);
    }

    /// An attempt cannot be started here after all.
    pub(crate) fn gives_back(&self, key: Key) {
        self.give_back(&mut self.lock(), key);
    }

    /// An attempt ends without having started.
    pub(crate) fn refused(&self, key: Key, transition: Transition) {
        let mut state = self.lock();
        if let Some(held) = state.held.get_mut(&key) {
            held.waited = None;
        }
        self.end(&mut state, key, Ending::from(transition));
    }

    fn end(&self, state: &mut State, key: Key, ending: Ending) {
        let Some(held) = state.held.get_mut(&key) else { return };
        if held.phase == Phase::Ended {
            return;
        }
        if let Phase::Running(until, _) | Phase::Stopping(until) = held.phase {
            state.deadlines.remove(&(until, key));
        }
        held.phase = Phase::Ended;
        let (job, lease) = key;
        let Ending { transition, result, then, is_settled } = ending;
        held.is_settled = is_settled;
        state.outcomes.push_back(Settlement { job, lease, transition, result, then });
        self.wakes.settler.notify_one();
    }

    /// Somebody called these jobs off.
    pub(crate) fn cancel(&self, jobs: &[JobId]) {
        let mut state = self.lock();
        for job in jobs {
            let of_job =
                (*job, LeaseId::from_bytes([0; 16]))..=(*job, LeaseId::from_bytes([255; 16]));
            let keys: Vec<Key> = state.held.range(of_job).map(|(key, _)| *key).collect();
            for key in keys {
                self.stop(&mut state, key, StopReason::Cancelled);
            }
        }
    }

    /// Everything has to stop.
    pub(crate) fn stop_all(&self, reason: StopReason) {
        let mut state = self.lock();
        self.give_back_waiting(&mut state);
        let keys: Vec<Key> = state.held.keys().copied().collect();
        for key in keys {
            self.stop(&mut state, key, reason);
        }
    }

    /// Drops everything that was told to stop and has not.
    pub(crate) fn drop_all(&self) {
        let mut state = self.lock();
        let is_stopping = |held: &Held| matches!(held.phase, Phase::Stopping(_));
        let stopping = state.held.iter().filter(|(_, held)| is_stopping(held));
        let keys: Vec<Key> = stopping.map(|(key, _)| *key).collect();
        for key in keys {
            self.drop_task(&mut state, key);
        }
    }

    /// Nothing starts any more, and what has not started is given back.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        self.give_back_waiting(&mut state);
    }

    /// Tells all running attempts that the node shuts down, and that they are dropped then.
    pub(crate) fn announce_shutdown(&self, drops_at: Duration) {
        let mut state = self.lock();
        state.drops_at = Some(drops_at);
        for held in state.held.values() {
            if matches!(held.phase, Phase::Running(..)) {
                held.stop.announce_shutdown(drops_at);
            }
        }
    }

    /// Tells an attempt to stop. What has not started is given back at once.
    fn stop(&self, state: &mut State, key: Key, reason: StopReason) {
        let drops_at = state.drops_at.unwrap_or(Duration::MAX);
        let Some(held) = state.held.get_mut(&key) else { return };
        match held.phase {
            Phase::Waiting => {
                state.waiting.retain(|job| (job.id, job.lease) != key);
                self.give_back(state, key);
            }
            Phase::Running(until, _) => {
                let dropped_at = (self.env.elapsed() + self.cancel_grace).min(drops_at);
                held.stop.request(reason, dropped_at);
                held.phase = Phase::Stopping(dropped_at);
                state.deadlines.remove(&(until, key));
                self.watch(state, dropped_at, key);
            }
            Phase::Stopping(_) | Phase::Ended => {}
        }
    }

    fn give_back_waiting(&self, state: &mut State) {
        for job in std::mem::take(&mut state.waiting) {
            self.give_back(state, (job.id, job.lease));
        }
    }

    /// Gives back what was fetched ahead and has waited for too long.
    pub(crate) fn give_back_late(&self) {
        let mut state = self.lock();
        let late = self.env.elapsed().saturating_sub(AHEAD_MAX);
        while let Some(key) = state.waiting.front().map(|job| (job.id, job.lease)) {
            if state.held.get(&key).is_some_and(|held| held.claimed > late) {
                return;
            }
            state.waiting.pop_front();
            self.give_back(&mut state, key);
        }
    }

    fn give_back(&self, state: &mut State, key: Key) {
        let Some(held) = state.held.get(&key) else { return };
        let transition =
            decide(&held.standing, Outcome::Released, &self.policy, self.time_of(held));
        self.end(state, key, Ending::from(transition));
    }

    // For tests that take a node step by step

    /// Has everything ended that was claimed?
    pub(crate) fn is_still(&self) -> bool {
        self.lock().held.values().all(|held| held.phase == Phase::Ended)
    }

    /// How the attempts ended whose outcome is not durable yet, and whether the handler has written
    /// its success itself.
    pub(crate) fn outcomes(&self) -> Vec<(JobId, AttemptOutcome, bool)> {
        let state = self.lock();
        let told = state.outcomes.iter().map(|item| {
            let held = state.held.get(&(item.job, item.lease));
            (item.job, item.transition.outcome, held.is_some_and(|held| held.is_settled))
        });
        told.collect()
    }

    /// The outcomes of the first of them are lost, as if their node had died.
    pub(crate) fn lose_outcomes(&self, most: usize) {
        let mut state = self.lock();
        let State { held, outcomes, .. } = &mut *state;
        for item in outcomes.iter_mut().take(most) {
            let Some(held) = held.get(&(item.job, item.lease)) else { continue };
            let policy = held.policy.as_ref().unwrap_or(&self.policy);
            let transition = decide(&held.standing, Outcome::Abandoned, policy, self.time_of(held));
            *item = Settlement { transition, result: None, then: Vec::new(), ..item.clone() };
        }
    }

    // Settling

    /// Up to `most` outcomes to make durable, oldest first.
    pub(crate) fn take_outcomes(&self, most: usize) -> Vec<Settlement> {
        let mut state = self.lock();
        let count = state.outcomes.len().min(most);
        let batch: Vec<Settlement> = state.outcomes.drain(..count).collect();
        state.settling += batch.len();
        batch
    }

    /// They could not be made durable, or nobody knows: they are to be tried again.
    pub(crate) fn put_back(&self, batch: Vec<Settlement>) {
        let mut state = self.lock();
        state.settling -= batch.len();
        for item in batch.into_iter().rev() {
            state.outcomes.push_front(item);
        }
    }

    /// They are durable, or another's: the node holds these jobs no longer.
    pub(crate) fn settled(&self, batch: &[Settlement]) -> Vec<Option<Finished>> {
        let mut state = self.lock();
        state.settling -= batch.len();
        let now = self.env.elapsed();
        let mut forget = |item: &Settlement| {
            let held = state.held.remove(&(item.job, item.lease))?;
            state.forget_lease(item.lease);
            let took = now.saturating_sub(held.claimed);
            let Held { queue, kind, standing, is_settled, waited, .. } = held;
            Some(Finished { queue, kind, attempt: standing.attempt, took, is_settled, waited })
        };
        let finished = batch.iter().map(&mut forget).collect();
        self.tell_if_empty(&state);
        self.settled_total.fetch_add(batch.len() as u64, Ordering::AcqRel);
        self.wakes.claimer.notify_one();
        finished
    }
}

impl State {
    fn unsettled(&self) -> usize {
        self.outcomes.len() + self.settling
    }

    /// One job or claim less under a lease.
    fn forget_lease(&mut self, lease: LeaseId) {
        if let Some(count) = self.leases.get_mut(&lease) {
            *count -= 1;
            if *count == 0 {
                self.leases.remove(&lease);
            }
        }
    }
}

/// What an attempt that was told to stop ended in. Only a timeout is its own fault; the store
/// knows who called a job off and makes a released attempt of such a job a cancelled one.
fn stopped(reason: StopReason) -> Outcome {
    match reason {
        StopReason::TimedOut(limit) => Outcome::TimedOut(limit),
        StopReason::Shutdown if is_planted(Bug::DrainBurnsAttempts) => {
            Outcome::Fail("the node is shutting down".to_owned())
        }
        StopReason::Cancelled | StopReason::Shutdown | StopReason::OutOfTouch => Outcome::Released,
    }
}

/// Can an attempt end so because it had to stop?
fn is_due_to(reason: StopReason, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Done => false,
        Outcome::Panicked(_) => reason != StopReason::Shutdown,
        _ => true,
    }
}

/// A result that is too large to keep would be refused with its whole batch; and the work would
/// be as large the next time.
fn bounded(ended: Ended) -> Ended {
    let bytes = ended.result.as_ref().map_or(0, |result| result.as_str().len());
    if bytes <= limits::RESULT_BYTES_MAX {
        return ended;
    }
    let message = format!(
        "the result is too large: {bytes} bytes, maximum {}; store it outside the job and return a \
         reference",
        limits::RESULT_BYTES_MAX
    );
    Ended::from(Outcome::FailForGood(message))
}

/// How long an attempt may take, given what the job says and what the node says.
pub(crate) fn time_limit(job: &ClaimedJob, usual: Duration) -> Duration {
    let limit = job.timeout.unwrap_or(usual);
    job.budget.map_or(limit, |budget| limit.min(budget.saturating_sub(job.used)))
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let give_up = format_duration(self.give_up);
        f.debug_struct("Work").field("held", &self.held()).field("give_up", &give_up).finish()
    }
}
