//! What all stores have in common, for those who write one: the same decisions, the same words.

use std::time::Duration;

use punctual_core::job::{
    AttemptOutcome, JobState, Next, Outcome, RetryPolicy, Standing, Transition, decide, is_expired,
};
use punctual_core::schedule::Facts;
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp, hash};

use crate::{
    Actor, AuditAction, ErrorKind, Json, NewJob, Result, RollupCount, Schedule, Settlement,
    SlotDecision, SlotPlan, StoreError, bugs, limits,
};

/// Checks how many there are.
pub fn check_count(count: usize, most: usize, what: &str) -> Result<()> {
    if count <= most {
        return Ok(());
    }
    let message =
        format!("too many {what}: {count}, maximum {most} per request; split the request");
    Err(StoreError::new(ErrorKind::Limit, message))
}

/// Where a job stands in its queue: earlier ranks go first.
pub fn rank(due_at: Timestamp, priority: i16) -> Timestamp {
    let ahead = i64::from(priority) * limits::SECONDS_PER_PRIORITY * 1_000_000;
    Timestamp::from_micros(due_at.as_micros().saturating_sub(ahead))
}

/// A schedule that is due since less than this goes before those that are behind.
pub const FRESH: Duration = punctual_core::schedule::ON_TIME;

/// Held slots are examined again after this time at the earliest: a cluster whose node does not return
/// must not plan them all the time.
pub const HELD_WAIT_MIN: Duration = Duration::from_secs(30);
/// And after this time at the latest. A join makes them due at once, so that this is a safeguard.
pub const HELD_WAIT_MAX: Duration = Duration::from_secs(15 * 60);

/// When held slots are examined again: after as long as they have been held, within bounds. The first
/// time also finds a node that joined while they became held, which no lock prevents.
pub fn held_wait(since: Timestamp, now: Timestamp) -> Duration {
    now.since(since).clamp(HELD_WAIT_MIN, HELD_WAIT_MAX)
}

/// Up to `most` of what is due: fresh ones before those that are behind, which have at least a
/// tenth, so that none waits for ever.
pub fn fresh_first<T>(mut fresh: Vec<T>, mut behind: Vec<T>, most: usize) -> Vec<T> {
    let reserved = behind.len().min(most.div_ceil(10));
    fresh.truncate(most - reserved);
    behind.truncate(most - fresh.len());
    fresh.append(&mut behind);
    fresh
}

/// The stamp of a schedule after a write: a higher one, by how much depends on the instant. If it
/// were counted, it would be handed out again after a failover to an older state, and a plan or a
/// change made from the state that was lost would seem to fit.
pub fn next_stamp(stamp: i64, now: Timestamp) -> i64 {
    if bugs::has_lax_plans() {
        return stamp.wrapping_add(1);
    }
    let step = hash::mix(now.as_micros().unsigned_abs()) >> 44;
    stamp.wrapping_add(1 + i64::try_from(step).unwrap_or(0))
}

/// Who calls off the unfinished jobs of a schedule, and why.
pub fn overlap_actor(slot: Timestamp) -> Actor {
    Actor::new("punctual", &format!("overlap = cancel_running: slot {slot} is due"))
}

/// What is written down of a job or schedule whose row cannot be read.
pub const UNREADABLE: &str = "its database row cannot be read";

/// A schedule whose row cannot be read, as it is shown: with what can be read of it, which is
/// enough to disable, mend or delete it.
pub fn unreadable(schedule: Schedule) -> Schedule {
    Schedule { spec: Json::null(), set_aside: Some(UNREADABLE.to_owned()), ..schedule }
}

/// What a test makes unreadable, as damage or a foreign hand would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spoil {
    /// A job's body: what a worker needs to know.
    Body(JobId),
    /// A job's tags, which its body holds as a list.
    Tags(JobId),
    /// How often a job was tried, where it waits or runs.
    Seat(JobId),
    /// The lease that a job runs under.
    Lease(JobId),
    /// The list of a schedule's unfinished jobs: this job stands there, whatever became of it.
    Unfinished(JobId),
    /// A schedule's definition.
    Schedule(ScheduleId),
}

/// Checks a settle against the bounds.
pub fn check_settlements(batch: &[Settlement]) -> Result<()> {
    check_count(batch.len(), limits::SETTLE_MAX, "settlements")?;
    for item in batch {
        let bytes = item.result.as_ref().map_or(0, |result| result.as_str().len());
        if bytes > limits::RESULT_BYTES_MAX {
            let message = format!(
                "the result of job {} is too large: {bytes} bytes, maximum {}; store it outside \
                 the job and return a reference",
                item.job,
                limits::RESULT_BYTES_MAX
            );
            return Err(StoreError::new(ErrorKind::Limit, message));
        }
        check_then(&item.then)?;
    }
    Ok(())
}

/// Checks the jobs that are written with a settlement. None of them has an answer of its own, so
/// that none may need one.
fn check_then(then: &[NewJob]) -> Result<()> {
    // It is refused for ever, unlike a bound of the moment.
    check_count(then.len(), limits::THEN_MAX, "follow-up jobs in a settlement")
        .map_err(|error| StoreError::invalid(error.to_string()))?;
    for job in then {
        let refused = match job {
            NewJob { unique: Some(_), .. } => Some("a unique key"),
            NewJob { origin: Some(_), .. } => Some("a schedule as its origin"),
            _ => None,
        };
        let kind = limits::cut(&job.kind, limits::NAME_BYTES_MAX);
        if let Some(what) = refused {
            let message = format!(
                "follow-up job `{kind}` has {what}, which is not supported in a settlement; \
                 enqueue it from the handler instead"
            );
            return Err(StoreError::invalid(message));
        }
        job.check().map_err(|why| {
            StoreError::invalid(format!("follow-up job `{kind}` in a settlement: {why}"))
        })?;
    }
    Ok(())
}

/// Checks the result of a step against the bounds.
pub fn check_step(name: &str, result: &Json) -> Result<()> {
    limits::check_name("step name", name, false).map_err(StoreError::invalid)?;
    let (bytes, most) = (result.as_str().len(), limits::RESULT_BYTES_MAX);
    if bytes <= most {
        return Ok(());
    }
    let message = format!(
        "the result of step `{name}` is too large: {bytes} bytes, maximum {most}; store it \
         outside the job and keep a reference"
    );
    Err(StoreError::new(ErrorKind::Limit, message))
}

/// The error of a job that has as many steps as it may.
pub fn too_many_steps(job: JobId) -> StoreError {
    let message = format!(
        "job {job} already has {} steps, the maximum; combine several steps into one",
        limits::STEPS_MAX
    );
    StoreError::new(ErrorKind::Limit, message)
}

/// Checks a release against the bounds.
pub fn check_release(leases: &[LeaseId]) -> Result<()> {
    check_count(leases.len(), limits::LEASES_MAX, "leases")
}

/// Checks a fire against the bounds.
pub fn check_plans(plans: &[SlotPlan]) -> Result<()> {
    check_count(plans.len(), limits::FIRE_MAX, "schedules")?;
    let mut total = 0;
    for plan in plans {
        if let SlotDecision::Advance { slots, .. } = &plan.decision {
            check_count(slots.len(), limits::PLAN_SLOTS_MAX, "slots of one schedule")?;
            total += slots.len();
        }
    }
    check_count(total, limits::FIRE_SLOTS_MAX, "slots")
}

/// Checks a schedule's definition against the bound.
pub fn check_spec(spec: &Json) -> Result<()> {
    let (bytes, most) = (spec.as_str().len(), limits::SPEC_BYTES_MAX);
    if bytes <= most {
        return Ok(());
    }
    let message = format!(
        "the definition is too large: {bytes} bytes, maximum {most}; pass a reference in the \
         payload"
    );
    Err(StoreError::new(ErrorKind::Limit, message))
}

/// Checks counters against the bounds.
pub fn check_counts(counts: &[RollupCount]) -> Result<()> {
    check_count(counts.len(), limits::ROLLUP_MAX, "counters")?;
    for count in counts {
        for (what, name, may_be_empty) in [
            ("metric", &count.metric, false),
            ("queue", &count.queue, true),
            ("kind", &count.kind, true),
        ] {
            limits::check_name(what, name, may_be_empty).map_err(StoreError::invalid)?;
        }
        let most = limits::ROLLUP_VALUE_MAX;
        for value in [count.count, count.sum] {
            if !(-most..=most).contains(&value) {
                let message =
                    format!("counter values must be between -{most} and {most}, got {value}");
                return Err(StoreError::invalid(message));
            }
        }
    }
    Ok(())
}

/// What is written for an attempt whose job is given back.
pub const RELEASED: Transition =
    Transition { outcome: AttemptOutcome::Released, next: Next::Ready, error: None };

/// In the flags of a stored job, the lowest of four bits that count the releases for lack of resources. They
/// are in the flags because nearly no job has any.
pub const RESOURCE_RELEASE_FLAG: i64 = 32;
/// The four bits.
pub const RESOURCE_RELEASE_FLAGS: i64 = 15 * RESOURCE_RELEASE_FLAG;

/// How often a job with these flags was released for lack of resources.
pub const fn resource_releases(flags: i64) -> u32 {
    ((flags & RESOURCE_RELEASE_FLAGS) / RESOURCE_RELEASE_FLAG).unsigned_abs() as u32
}

/// The flags of a job after this transition.
pub fn flags_after(flags: i64, transition: &Transition) -> i64 {
    let is_counted =
        transition.is_resource_release() && flags & RESOURCE_RELEASE_FLAGS < RESOURCE_RELEASE_FLAGS;
    if is_counted { flags + RESOURCE_RELEASE_FLAG } else { flags }
}

/// What is written for an attempt whose worker was asked to stop: there is no further one.
pub fn with_cancel(transition: &Transition, cancel: Option<&str>) -> Transition {
    let error = transition
        .error
        .as_deref()
        .map(|error| limits::cut(error, limits::ERROR_BYTES_MAX).to_owned());
    match cancel {
        Some(reason) if !transition.next.is_final() => Transition {
            outcome: match transition.outcome {
                AttemptOutcome::Abandoned => AttemptOutcome::Abandoned,
                _ => AttemptOutcome::Cancelled,
            },
            next: Next::Cancelled,
            error: Some(reason.to_owned()),
        },
        _ => Transition { error, ..*transition },
    }
}

/// What is written for an attempt of a job of which nobody knows how often it was tried: its end
/// counts, but it is not tried again.
pub fn without_further_attempt(transition: Transition) -> Transition {
    match transition.next.is_final() {
        true => transition,
        false => Transition {
            next: Next::Failed,
            error: Some(UNREADABLE.to_owned()),
            outcome: transition.outcome,
        },
    }
}

/// The state of a job that went to an end.
pub fn final_state(next: Next) -> JobState {
    match next {
        Next::Succeeded => JobState::Succeeded,
        Next::Cancelled => JobState::Cancelled,
        Next::Failed | Next::Ready | Next::After(_) => JobState::Failed,
    }
}

/// Start deadlines are checked at least this often, so that the list of deadlines does not keep
/// finished jobs for years.
const DEADLINE_CHECK_MAX: Duration = Duration::from_secs(86_400);

/// After which instant the start deadline of a job is checked first.
pub fn first_check(expires_at: Timestamp, now: Timestamp) -> Timestamp {
    expires_at.min(now + DEADLINE_CHECK_MAX)
}

/// After which instant the start deadline of an unfinished job is checked again. A job whose deadline
/// has passed runs, or is being moved at this moment.
pub fn next_check(expires_at: Timestamp, now: Timestamp, recheck_after: Duration) -> Timestamp {
    if is_expired(Some(expires_at), now) {
        now + recheck_after
    } else {
        first_check(expires_at, now)
    }
}

/// What the reason of a cancelled job begins with, unless its handler cancelled it.
pub const CANCELLED_BY: &str = "cancelled by ";

/// What is written down of who called a job off.
pub fn cancel_reason(actor: &Actor) -> String {
    let reason = format!("{CANCELLED_BY}{}: {}", actor.who, actor.why);
    limits::cut(&reason, limits::ERROR_BYTES_MAX).to_owned()
}

/// A lease that ends much later than any lease lasts was given before the clock was set back;
/// it counts as one given now.
pub fn clamp_lease(until: Timestamp, now: Timestamp, lease: Duration) -> Timestamp {
    if until > now + lease + lease { now + lease } else { until }
}

/// What a renewal or a new term adds to the watched time of a role: the time since the last renewal,
/// at most one lease. After more than one and a half leases the database may have been unreachable,
/// and nothing is added; half a lease is enough for another node to take over from a dead leader.
pub fn watched_since(renewed_at: Timestamp, now: Timestamp, lease: Duration) -> Duration {
    let gap = now.since(renewed_at);
    if gap > lease * 3 / 2 { Duration::ZERO } else { gap.min(lease) }
}

/// What becomes of a nonce when its term is resigned: nothing that is still under way under the
/// old one may renew the term or write.
pub fn resigned(nonce: Nonce) -> Nonce {
    Nonce::from_bytes(nonce.as_bytes().map(|byte| !byte))
}

/// The error of a node that claims although it is dead or was never there.
pub fn not_alive(node: NodeId) -> StoreError {
    let message = format!("node {node} is dead or unknown; join again with a new id");
    StoreError::new(ErrorKind::Fenced, message)
}

/// The error of a node that leaves before it has given its jobs back.
pub fn still_at_work(node: NodeId, leases: u64) -> StoreError {
    let message = format!(
        "node {node} still holds {leases} jobs; settle or release them before the node leaves"
    );
    StoreError::new(ErrorKind::Conflict, message)
}

/// The error of a set that is to change a schedule which is not its own.
pub fn not_of_set(name: &str, set: &str) -> StoreError {
    let message = format!(
        "schedule `{name}` does not belong to set `{set}`; a set can change only its own \
         schedules; change the schedule directly, or use another name"
    );
    StoreError::invalid(message)
}

/// What the audit says of a schedule that gets this name and becomes one of this set.
pub fn placed(schedule: &Schedule, name: &str, set: &str) -> Vec<AuditAction> {
    let renamed = (schedule.name != name).then_some(AuditAction::RenameSchedule);
    let adopted = (schedule.set != set).then_some(AuditAction::AdoptSchedule);
    renamed.into_iter().chain(adopted).collect()
}

/// The error of a name that is taken.
pub fn name_taken(name: &str) -> StoreError {
    let message = format!("schedule `{name}` already exists; change it, or use another name");
    StoreError::new(ErrorKind::Conflict, message)
}

/// The label of a node that is a remote worker: a server claims and settles for it.
pub const REMOTE_LABEL: (&str, &str) = ("remote", "http");

/// How long an attempt of a remote worker may take if its job does not say: as for other nodes.
pub const REMOTE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// How long an attempt of a remote worker may take: its own time, within what is left of its job's.
pub fn remote_limit(
    timeout: Option<Duration>,
    budget: Option<Duration>,
    used: Duration,
) -> Duration {
    let left = budget.map_or(Duration::MAX, |budget| budget.saturating_sub(used));
    timeout.unwrap_or(REMOTE_TIMEOUT).min(left)
}

/// The transition of an attempt that exceeded its time. The schedule of the job (`facts`) can set the
/// waits between attempts.
pub fn time_out(
    standing: &Standing,
    limit: Duration,
    policy: &RetryPolicy,
    facts: Option<&str>,
    now: Timestamp,
) -> Transition {
    let backoff = facts.and_then(Facts::backoff_of).unwrap_or(policy.backoff);
    decide(standing, Outcome::TimedOut(limit), &RetryPolicy { backoff }, now)
}
