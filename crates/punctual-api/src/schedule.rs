//! Schedules and their slots.

use punctual::{Definition, Realigned, RevisionView, Seen, SlotRun, SlotView, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::job::value;
use crate::list::text;
use crate::problem::FieldError;
use crate::queue::Pause;

/// A schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// Id of the schedule.
    pub id: String,
    /// Name of the schedule.
    pub name: String,
    /// Owner: the user or team on whose behalf the jobs run.
    pub owner: String,
    /// Set that manages the schedule. Empty if it was created manually.
    pub set: String,
    /// Definition of the schedule.
    pub definition: Value,
    /// The expressions in plain English. Null if the definition is invalid.
    pub description: Option<String>,
    /// Number of the current definition, starting at 1. Every PUT and PATCH creates a revision,
    /// even if the definition is the same.
    pub revision: i64,
    /// Version of the schedule. Send it as `If-Match` with PUT or PATCH to change the schedule only
    /// if it has not been changed since. It changes with every change, including pause and resume,
    /// but not when a slot fires.
    pub etag: String,
    /// False if the schedule is disabled.
    pub enabled: bool,
    /// The current pause. Null if the schedule is not paused.
    pub pause: Option<Pause>,
    /// Why the schedule is quarantined. Null if it is not quarantined.
    pub quarantine_reason: Option<String>,
    /// The next slot to process. Null if no slots remain.
    pub next_slot: Option<String>,
    /// Set while due slots, from `next_slot` on, wait for a live node that can run them.
    pub held: Option<HeldSlots>,
    /// The last slot that was decided.
    pub last_slot: Option<String>,
    /// Set while slots later than the database clock are decided, because the clock was ahead and was set
    /// back: the last of them. The schedule does not fire before. `POST /schedules/{name}/realign`
    /// discards these decisions.
    #[serde(default)]
    pub ahead_until: Option<String>,
    /// Time at which the schedule was created.
    pub created_at: String,
    /// Time of the last change by a user or a client.
    pub changed_at: String,
    /// The newest slots, newest first. Present only if `history` was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<RecentSlot>>,
}

/// Due slots that are undecided because no live node can run them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldSlots {
    /// Queue of the nodes that could run them, such as `@db-1`; `@*` for `run_on = every_node`.
    pub queue: String,
    /// Since when slots are held.
    pub since: String,
    /// Time at which the `missed` policy applies to the first of them if no such node joins. Null if the
    /// definition is invalid.
    pub until: Option<String>,
}

/// The definition of a schedule: when it is due, how missed and overlapping slots are handled, and
/// the job to create for each slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct ScheduleBody {
    /// Expressions: cron, `@every DURATION` or `@at TIME`. At least 1, at most 20.
    pub when: Vec<String>,
    /// Time zone, as an IANA name such as `Europe/Paris`. Default: `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    /// Allow cron expressions with six or seven fields, the first being seconds. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<bool>,
    /// No slots before this time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// No slots after this time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// How to handle local times that do not exist because clocks go forward: `end` (run once at
    /// the end of the gap) or `skip`. Default: `end`, or `skip` if the minute or hour is a wildcard
    /// such as `*` or `*/15`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_gap: Option<String>,
    /// How to handle local times that occur twice because clocks go back: `first`, `second` or
    /// `both`. Default: `first`, or `both` if the minute or hour is a wildcard such as `*` or
    /// `*/15`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_fold: Option<String>,
    /// Maximum delay of a job after its slot, such as `30s`. The delay is derived from the schedule
    /// name and the slot. Default: `0s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// Slots that were not fired in time: `none` (no job), `latest` (one job, for the newest slot)
    /// or `all` (one job per slot, up to `missed_limit`). Default: `latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// Maximum age of a missed slot that is still caught up, at least `1m`. Default: `1d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_window: Option<String>,
    /// Maximum number of missed slots to catch up, newest first, 1 to 1,000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_limit: Option<u32>,
    /// Jobs started per second while catching up, 1 to 1,000. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_pace: Option<u32>,
    /// Treat slots during a pause as missed instead of skipping them. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_paused: Option<bool>,
    /// What to do at a slot while an earlier job of the schedule is unfinished: `allow` (run in
    /// parallel), `skip` (no job), `queue_one` (wait; at most one job waits), `queue_all` (wait) or
    /// `cancel_running` (cancel the earlier job, then run). Default: `skip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
    /// Nodes that run the jobs: `any`, `every_node`, `node NAME` or `label KEY=VALUE`. Default:
    /// `any`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_on: Option<String>,
    /// Pause the schedule after this number of failed jobs in a row, 1 to 100. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_after_failures: Option<u32>,
    /// Dates and times without slots, in the time zone of the schedule: `2027-12-24`,
    /// `2027-12-24..2028-01-02`, `12-25` (every year), `Sat`, or `Sat 00:00-Mon 06:00`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// What to do with an excluded slot: `skip`, or `next_working_day` (move it to the next day
    /// that is not excluded at that time). Default: `skip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_excluded: Option<String>,
    /// The job to create for each slot.
    pub job: ScheduleJob,
}

/// The job that a schedule creates for each slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct ScheduleJob {
    /// Kind of the job. It selects the handler.
    pub kind: String,
    /// Payload for the handler: any JSON value. The whole definition of a schedule, including the
    /// payload, can have at most 64 KiB.
    #[serde(default)]
    pub payload: Value,
    /// Queue of the job. The name is not checked: a job in a queue that no node serves waits.
    /// Default: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Priority, -100 to 100. Each point counts as 60 seconds of waiting. Default: 0.
    #[serde(default)]
    pub priority: i16,
    /// Maximum number of attempts, 1 to 1,000. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Maximum run time of one attempt. Default: set by the node, normally `15m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Maximum total time for all attempts, such as `2h`. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Start deadline: an attempt must start within this time after the job is due, such as `10m`.
    /// Otherwise the job fails. Default: no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_within: Option<String>,
    /// Tags to filter jobs by, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Wait between attempts: `fixed`, `linear` or `exponential`, the first wait and optionally the
    /// longest, such as `exponential 10s to 1h`. Default: set by the kind or the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
}

impl ScheduleBody {
    /// The definition that it means; the error says which word is none, and where.
    pub fn definition(&self) -> Result<Definition, FieldError> {
        let unwritable = |error: serde_json::Error| FieldError {
            pointer: String::new(),
            detail: error.to_string(),
        };
        let value = serde_json::to_value(self).map_err(unwritable)?;
        serde_path_to_error::deserialize(value).map_err(FieldError::of)
    }
}

/// A decided slot, or a range of consecutive slots with the same outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Slot {
    /// The slot, or the first slot of the range.
    pub slot: String,
    /// The last slot of the range. Null for a single slot. The slots of a pause are one range,
    /// which is recorded when the pause ends.
    pub end: Option<String>,
    /// Number of slots in the range.
    pub count: u64,
    /// `fired`, `caught_up`, `skipped_overlap`, `skipped_paused`, `skipped_excluded`,
    /// `missed` or `coalesced`.
    pub outcome: String,
    /// Reason for the outcome.
    pub reason: Option<String>,
    /// Id of the job created for the slot.
    pub job: Option<String>,
    /// Leader term that decided the slot.
    pub term: i64,
    /// Id of the node that decided the slot.
    pub node: String,
    /// Revision of the schedule at that time.
    pub revision: i64,
    /// Time at which the slot was decided.
    pub decided_at: String,
}

/// A decided slot with the state of its job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecentSlot {
    /// The slot, as in the ledger.
    #[serde(flatten)]
    pub slot: Slot,
    /// `running` or the final state of the job. Null if the job is waiting, has been deleted after
    /// its retention period, or was never created.
    pub job_state: Option<String>,
}

/// One revision of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Revision {
    /// Number of the revision, starting at 1.
    pub revision: i64,
    /// The definition.
    pub definition: Value,
    /// Actor that created the revision.
    pub who: String,
    /// Reason that the actor gave.
    pub why: String,
    /// Time at which the revision was created.
    pub at: String,
    /// Time at which the next revision replaced it. Null for the current revision.
    pub superseded_at: Option<String>,
}

/// The next slots of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NextSlots {
    /// The slots, earliest first.
    pub next: Vec<String>,
    /// Slots in `next` that replace an excluded slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<MovedSlot>,
}

/// A slot that replaces an excluded slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MovedSlot {
    /// The new time.
    pub slot: String,
    /// The excluded time. If several slots moved to the same time, the last of them.
    pub from: String,
}

/// A realigned schedule, or the preview of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RealignResponse {
    /// Name of the schedule.
    pub schedule: String,
    /// True if nothing was changed.
    pub dry_run: bool,
    /// Decisions about slots after this time are discarded: the database clock.
    pub after: String,
    /// The last slot that was decided before the realignment.
    pub until: String,
    /// Number of slots that are undecided after the realignment and fire at their time.
    pub slots: u64,
    /// True if there are more than `slots`.
    pub is_partial: bool,
    /// The earliest of the discarded decisions, at most 5. Jobs that they created are kept. Empty if
    /// `is_partial`. A decision that also covers earlier slots is kept for those.
    pub discarded: Vec<Slot>,
    /// The next slot after the realignment. Null if no slots remain.
    pub next_slot: Option<String>,
}

/// The job created by a manual run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunNowResponse {
    /// Id of the job.
    pub job: String,
}

/// Numbers of future slots by time bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Upcoming {
    /// The buckets, earliest first. Buckets without slots are omitted.
    pub buckets: Vec<UpcomingBucket>,
    /// True if only the first 2,000 schedules were counted.
    pub is_truncated: bool,
}

/// The slots of one time bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UpcomingBucket {
    /// Start of the bucket.
    pub from: String,
    /// Number of slots in the bucket.
    pub slots: u64,
}

impl Schedule {
    /// As it is at this time.
    pub fn at(schedule: punctual::Schedule, now: Timestamp) -> Schedule {
        let definition = Definition::parse(schedule.spec.as_str()).ok();
        let rule = definition.and_then(|definition| definition.rule(&schedule.name).ok());
        let etag = format!("\"{}\"", Seen::of(&schedule));
        let ahead_until = schedule.ahead_until(now);
        let until =
            rule.as_ref().zip(schedule.next_slot).map(|(rule, slot)| slot + rule.hold_for());
        let held = schedule.held.map(|held| HeldSlots {
            queue: held.queue,
            since: held.since.to_string(),
            until: text(until),
        });
        Schedule {
            id: schedule.id.to_string(),
            description: rule.map(|rule| {
                let rules: Vec<String> =
                    rule.spec.whens().iter().map(|when| when.describe()).collect();
                rules.join("; ")
            }),
            definition: value(&schedule.spec),
            name: schedule.name,
            owner: schedule.owner,
            set: schedule.set,
            revision: schedule.revision,
            etag,
            enabled: schedule.enabled,
            pause: Pause::at(schedule.pause.as_ref(), now),
            quarantine_reason: schedule.set_aside,
            next_slot: text(schedule.next_slot),
            held,
            last_slot: text(schedule.last_slot),
            ahead_until: text(ahead_until),
            created_at: schedule.created_at.to_string(),
            changed_at: schedule.changed_at.to_string(),
            history: None,
        }
    }
}

impl RealignResponse {
    /// What a realignment did, or would do.
    pub fn new(realigned: Realigned, dry_run: bool) -> RealignResponse {
        RealignResponse {
            schedule: realigned.schedule.name,
            dry_run,
            after: realigned.after.to_string(),
            until: realigned.until.to_string(),
            slots: realigned.slots,
            is_partial: realigned.is_partial,
            discarded: realigned.discarded.into_iter().map(Slot::from).collect(),
            next_slot: text(realigned.next_slot),
        }
    }
}

impl From<SlotRun> for RecentSlot {
    fn from(run: SlotRun) -> RecentSlot {
        RecentSlot { slot: run.slot.into(), job_state: text(run.run.map(|run| run.state)) }
    }
}

impl From<SlotView> for Slot {
    fn from(view: SlotView) -> Slot {
        Slot {
            slot: view.slot.to_string(),
            end: text(view.end),
            count: view.count,
            outcome: view.outcome.to_string(),
            reason: view.reason,
            job: text(view.job),
            term: view.term,
            node: view.node.to_string(),
            revision: view.revision,
            decided_at: view.decided_at.to_string(),
        }
    }
}

impl From<RevisionView> for Revision {
    fn from(view: RevisionView) -> Revision {
        Revision {
            revision: view.revision,
            definition: value(&view.spec),
            who: view.who,
            why: view.why,
            at: view.at.to_string(),
            superseded_at: text(view.superseded_at),
        }
    }
}
