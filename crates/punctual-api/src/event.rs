//! What has happened.

use punctual::Event as Happened;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::Job;
use crate::list::text;
use crate::node::{AuditEntry, Term};
use crate::schedule::Slot;

/// What events are about.
pub const TOPICS: [&str; 4] = ["jobs", "schedules", "leaders", "audit"];

/// An event. Exactly one of `job`, `slot`, `leader` and `audit` is present, according to `topic`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Position in the event stream. Send it as `Last-Event-ID` to continue after this event.
    pub id: String,
    /// Time of the event.
    pub at: String,
    /// `jobs`, `schedules`, `leaders` or `audit`. The event names in the stream are `job`, `slot`,
    /// `leader` and `audit`.
    pub topic: String,
    /// The job that finished. Other changes of jobs are not events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
    /// The slot that was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotEvent>,
    /// The leader term that started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<LeaderEvent>,
    /// The audit entry that was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditEntry>,
}

/// A decided slot and its schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SlotEvent {
    /// Id of the schedule.
    pub schedule: String,
    /// Name of the schedule. Null if the schedule has been deleted.
    pub name: Option<String>,
    /// The slot, as in the ledger.
    #[serde(flatten)]
    pub slot: Slot,
}

/// The start of a leader term.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaderEvent {
    /// The role, such as `scheduler/0` or `maintenance`.
    pub role: String,
    /// The term.
    #[serde(flatten)]
    pub term: Term,
}

impl From<Happened> for Event {
    fn from(happened: Happened) -> Event {
        let cursor = happened.cursor();
        let mut event = Event {
            id: cursor.to_string(),
            at: cursor.at.to_string(),
            topic: String::new(),
            job: None,
            slot: None,
            leader: None,
            audit: None,
        };
        let topic = match happened {
            Happened::Ended(job) => {
                event.job = Some(job.into());
                "jobs"
            }
            Happened::Decided { schedule, name, slot } => {
                let schedule = schedule.to_string();
                event.slot = Some(SlotEvent { schedule, name: text(name), slot: slot.into() });
                "schedules"
            }
            Happened::Led(change) => {
                let role = change.role.clone();
                event.leader = Some(LeaderEvent { role, term: change.into() });
                "leaders"
            }
            Happened::Did(audit) => {
                event.audit = Some(audit.into());
                "audit"
            }
        };
        event.topic = topic.to_owned();
        event
    }
}
