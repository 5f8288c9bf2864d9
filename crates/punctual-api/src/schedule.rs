//! Schedules and their slots.

use punctual::{Definition, RevisionView, Seen, SlotRun, SlotView, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::job::value;
use crate::list::text;
use crate::problem::FieldError;
use crate::queue::Paused;

/// A schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// Its name for ever.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Who its jobs act for.
    pub owner: String,
    /// The set that it belongs to; empty if it was made by hand.
    pub set: String,
    /// What it is told.
    pub definition: Value,
    /// Its rules in words; null if it cannot be read.
    pub means: Option<String>,
    /// Counts definitions, from 1.
    pub revision: i64,
    /// Another once somebody changes it; give it as `If-Match` to change only what you have seen.
    pub etag: String,
    /// Is it planned at all?
    pub enabled: bool,
    /// Who paused it, while it is.
    pub pause: Option<Paused>,
    /// Why it cannot be planned, while it cannot.
    pub set_aside: Option<String>,
    /// The next slot to decide.
    pub next_slot: Option<String>,
    /// The last slot that was decided.
    pub last_slot: Option<String>,
    /// When it was created.
    pub created_at: String,
    /// When it was last changed by somebody.
    pub changed_at: String,
    /// Its newest slots, newest first, if `history` was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<RecentSlot>>,
}

/// What a schedule is told: when it is due, what becomes of slots that could not be fired in time,
/// and the job that a slot becomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleBody {
    /// Cron expressions, `@every DURATION` or `@at INSTANT`; at least one.
    pub when: Vec<String>,
    /// The zone, by its IANA name; UTC if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    /// May expressions have a field for seconds?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<bool>,
    /// No slot before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// No slot after this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// `end` or `skip`: a time that the clocks skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_gap: Option<String>,
    /// `first`, `second` or `both`: a time that the clocks repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_fold: Option<String>,
    /// Jobs start up to this long after their slot, spread by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// `none`, `latest` or `all`: what becomes of slots that nobody fired in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// How late a slot may be caught up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_window: Option<String>,
    /// How many slots are caught up, the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_limit: Option<u32>,
    /// How many jobs a second begin while slots are caught up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_pace: Option<u32>,
    /// Are slots of paused time missed, instead of skipped on purpose?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_paused: Option<bool>,
    /// `allow`, `skip`, `queue_one`, `queue_all` or `cancel_running`: what becomes of a slot while
    /// an earlier job is unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
    /// `any`, `every_node`, `node NAME` or `label KEY=VALUE`: which nodes run its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_on: Option<String>,
    /// After so many failed jobs in a row it is paused; if nothing is said, it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_after_failures: Option<u32>,
    /// When it does not fire, in its zone: `2027-12-24`, `2027-12-24..2028-01-02`, `12-25` of every
    /// year, `Sat`, or `Sat 00:00-Mon 06:00`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// `skip` or `next_working_day`: what becomes of a slot that `exclude` has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_excluded: Option<String>,
    /// The job that a slot becomes.
    pub job: ScheduleJob,
}

/// The job that a slot becomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleJob {
    /// Which handler it is for.
    pub kind: String,
    /// What the handler is given.
    #[serde(default)]
    pub payload: Value,
    /// Where it waits; `default` if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// −100 to 100, higher first.
    #[serde(default)]
    pub priority: i16,
    /// The most counted attempts; 5 if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The most time for one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// The most time for all attempts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// No attempt starts later than this after the job was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_within: Option<String>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The waits between attempts: `fixed`, `linear` or `exponential`, a first wait, and perhaps a
    /// longest, such as `exponential 10s to 1h`; if nothing is said, as its kind or the node is told.
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

/// A decided slot, or a run of slots skipped alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Slot {
    /// The slot, or the first of the run.
    pub slot: String,
    /// The last of the run.
    pub end: Option<String>,
    /// How many slots it stands for.
    pub count: u64,
    /// What became of it.
    pub outcome: String,
    /// Why.
    pub reason: Option<String>,
    /// The job that it became.
    pub job: Option<String>,
    /// The term that decided it.
    pub term: i64,
    /// The node that led it.
    pub node: String,
    /// The schedule's revision then.
    pub revision: i64,
    /// When it was decided.
    pub decided_at: String,
}

/// A decided slot, and how its job goes or went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecentSlot {
    /// As in the ledger.
    #[serde(flatten)]
    pub slot: Slot,
    /// `running`, or how the job ended; null while it waits, if there is none, and once it is pruned.
    pub job_state: Option<String>,
}

/// One definition of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Revision {
    /// Its number, from 1.
    pub revision: i64,
    /// The definition.
    pub definition: Value,
    /// Who made it.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: String,
    /// When the next one took its place.
    pub superseded_at: Option<String>,
}

/// Slots that lie ahead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NextSlots {
    /// In order.
    pub next: Vec<String>,
    /// Those of them that are there instead of an excluded one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<MovedSlot>,
}

/// A slot that is there instead of an excluded one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MovedSlot {
    /// When it is.
    pub slot: String,
    /// When it would have been, the last if there are several.
    pub from: String,
}

/// A job that was made by hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Ran {
    /// The job.
    pub job: String,
}

/// How many slots lie ahead, by length of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Upcoming {
    /// In order; those without a slot are left out.
    pub buckets: Vec<UpcomingBucket>,
    /// Were there more schedules than were looked at?
    pub is_cut: bool,
}

/// The slots of one length of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UpcomingBucket {
    /// Its beginning.
    pub from: String,
    /// How many slots it has.
    pub slots: u64,
}

impl Schedule {
    /// As it is at this time.
    pub fn at(schedule: punctual::Schedule, now: Timestamp) -> Schedule {
        let definition = Definition::parse(schedule.spec.as_str()).ok();
        let rule = definition.and_then(|definition| definition.rule(&schedule.name).ok());
        let etag = format!("\"{}\"", Seen::of(&schedule));
        Schedule {
            id: schedule.id.to_string(),
            means: rule.map(|rule| {
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
            pause: Paused::at(schedule.pause.as_ref(), now),
            set_aside: schedule.set_aside,
            next_slot: text(schedule.next_slot),
            last_slot: text(schedule.last_slot),
            created_at: schedule.created_at.to_string(),
            changed_at: schedule.changed_at.to_string(),
            history: None,
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
