//! What has happened.

use punctual::Event as Happened;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::Job;
use crate::list::text;
use crate::node::{Audit, Term};
use crate::schedule::Slot;

/// What events are about.
pub const TOPICS: [&str; 4] = ["jobs", "schedules", "leaders", "audit"];

/// Something that has happened: of the last four fields, the one of its topic is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its place among all events: give it as `Last-Event-ID` to go on after it.
    pub id: String,
    /// When it happened.
    pub at: String,
    /// `jobs`, `schedules`, `leaders` or `audit`.
    pub topic: String,
    /// A job that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
    /// A slot that was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotEvent>,
    /// A term that has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<LeaderEvent>,
    /// What somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
}

/// A slot that was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SlotEvent {
    /// The schedule, by its id.
    pub schedule: String,
    /// The schedule's name; null once it is deleted.
    pub name: Option<String>,
    /// As in its ledger.
    #[serde(flatten)]
    pub slot: Slot,
}

/// A term that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaderEvent {
    /// The role.
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
