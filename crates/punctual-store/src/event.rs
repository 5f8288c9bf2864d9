//! What has happened, in the order of its instants: made from what is kept anyway, so that nothing is
//! written twice and nobody who was away misses anything.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use punctual_core::{JobId, ScheduleId, Timestamp};

use crate::{AuditView, JobView, LeaderChange, Page, Pager, SlotView, limits};

/// Something that has happened and is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A job has ended. One that is made ready again has not, any more.
    Ended(JobView),
    /// A slot was decided.
    Decided {
        /// The schedule.
        schedule: ScheduleId,
        /// Its name; none once it is deleted.
        name: Option<String>,
        /// What became of the slot.
        slot: SlotView,
    },
    /// A node began to lead.
    Led(LeaderChange),
    /// Somebody did something.
    Did(AuditView),
}

impl Event {
    /// Where a reader goes on after it.
    pub fn cursor(&self) -> EventCursor {
        let (at, key) = match self {
            Event::Ended(job) => {
                (job.finished_at.unwrap_or(job.created_at), EventKey::Ended(job.id))
            }
            Event::Decided { schedule, slot, .. } => {
                (slot.decided_at, EventKey::Decided(*schedule, slot.slot, slot.run))
            }
            Event::Led(change) => (change.at, EventKey::Led(change.role.clone(), change.term)),
            Event::Did(audit) => (audit.at, EventKey::Did(audit.id)),
        };
        EventCursor { at, key }
    }
}

/// Where events go on: after the one of this instant and key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventCursor {
    /// When it happened.
    pub at: Timestamp,
    /// Which of that instant it is.
    pub key: EventKey,
}

/// Tells the events of one instant apart, and puts them in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKey {
    /// Before all of that instant.
    Start,
    /// A job that ended.
    Ended(JobId),
    /// A slot that was decided, and its run.
    Decided(ScheduleId, Timestamp, i32),
    /// A role, and its term that began.
    Led(String, i64),
    /// An entry of the audit.
    Did(i64),
}

/// No job or schedule has this id.
const NIL: [u8; 16] = [0; 16];

impl EventCursor {
    /// Before all that happens at this instant.
    pub fn at(at: Timestamp) -> EventCursor {
        EventCursor { at, key: EventKey::Start }
    }

    /// Where those of one sort go on that stands before or after the cursor's own at one instant.
    fn of_other(&self, is_before: bool) -> Timestamp {
        if is_before { self.at + Duration::from_micros(1) } else { self.at }
    }

    /// Where ended jobs go on.
    pub fn ended(&self) -> (Timestamp, JobId) {
        match self.key {
            EventKey::Ended(job) => (self.at, job),
            _ => (self.of_other(self.key > EventKey::Start), JobId::from_bytes(NIL)),
        }
    }

    /// Where the ledgers of all schedules go on.
    pub fn decided(&self) -> (Timestamp, ScheduleId, Timestamp, i32) {
        match self.key {
            EventKey::Decided(schedule, slot, run) => (self.at, schedule, slot, run),
            _ => {
                let at = self.of_other(matches!(self.key, EventKey::Led(..) | EventKey::Did(_)));
                (at, ScheduleId::from_bytes(NIL), Timestamp::MIN, -1)
            }
        }
    }

    /// Where changes of leadership go on.
    pub fn led(&self) -> (Timestamp, &str, i64) {
        match &self.key {
            EventKey::Led(role, term) => (self.at, role, *term),
            key => (self.of_other(matches!(key, EventKey::Did(_))), "", -1),
        }
    }

    /// Where the audit goes on.
    pub fn did(&self) -> (Timestamp, i64) {
        match self.key {
            EventKey::Did(id) => (self.at, id),
            _ => (self.at, -1),
        }
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_micros();
        match &self.key {
            EventKey::Start => write!(f, "{at}"),
            EventKey::Ended(job) => write!(f, "{at}.job.{job}"),
            EventKey::Decided(schedule, slot, run) => {
                write!(f, "{at}.slot.{schedule}.{}.{run}", slot.as_micros())
            }
            EventKey::Led(role, term) => write!(f, "{at}.leader.{term}.{role}"),
            EventKey::Did(id) => write!(f, "{at}.audit.{id}"),
        }
    }
}

impl FromStr for EventCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<EventCursor, String> {
        read(text).ok_or_else(|| {
            let shown: String = text.chars().take(120).collect();
            format!("invalid event id `{shown}`; pass the `id` of an event unchanged")
        })
    }
}

fn read(text: &str) -> Option<EventCursor> {
    let mut parts = text.splitn(3, '.');
    let at = Timestamp::from_micros(parts.next()?.parse().ok()?);
    let Some(sort) = parts.next() else { return Some(EventCursor::at(at)) };
    let rest = parts.next()?;
    let key = match sort {
        "job" => EventKey::Ended(rest.parse().ok()?),
        "slot" => {
            let mut parts = rest.splitn(3, '.');
            let schedule = parts.next()?.parse().ok()?;
            let slot = Timestamp::from_micros(parts.next()?.parse().ok()?);
            EventKey::Decided(schedule, slot, parts.next()?.parse().ok()?)
        }
        "leader" => {
            let (term, role) = rest.split_once('.')?;
            EventKey::Led(role.to_owned(), term.parse().ok()?)
        }
        "audit" => EventKey::Did(rest.parse().ok()?),
        _ => return None,
    };
    Some(EventCursor { at, key })
}

/// A row that may be an event: one that cannot be read still has its place.
pub type EventRow = (EventCursor, Option<Event>);

/// How many rows of each sort a page of this size needs: one more, to know whether there is a next.
pub fn event_rows(most: usize) -> usize {
    most.clamp(1, limits::PAGE_MAX) + 1
}

/// One page of several sorts of events, each read in order up to [`event_rows`].
pub fn merge_events(sorts: Vec<Vec<EventRow>>, most: usize) -> Page<Event, EventCursor> {
    let is_truncated = |rows: &&Vec<EventRow>| rows.len() >= event_rows(most);
    // Behind the last row of a sort that was cut there may be others of it.
    let known =
        sorts.iter().filter(is_truncated).filter_map(|rows| rows.last()).map(|row| &row.0).min();
    let known = known.cloned();
    let mut rows: Vec<EventRow> = sorts.into_iter().flatten().collect();
    rows.retain(|(cursor, _)| known.as_ref().is_none_or(|known| cursor <= known));
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    let mut pager = Pager::new(most);
    for (cursor, event) in rows {
        if !pager.take(cursor, event) {
            return pager.page();
        }
    }
    let page = pager.page();
    Page { next: page.next.or(known), ..page }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_prints_what_it_parses() {
        let at = Timestamp::from_seconds(1_800_000_000);
        let keys = [
            EventKey::Start,
            EventKey::Ended(JobId::mint(at, [7; 10])),
            EventKey::Decided(ScheduleId::mint(at, [8; 10]), at, 2),
            EventKey::Led("scheduler/0.a".to_owned(), 7),
            EventKey::Did(9),
        ];
        for key in keys {
            let cursor = EventCursor { at, key };
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for text in ["", "x", "1.", "1.job", "1.job.7", "1.slot.a.b.c", "1.audit.x", "1.what.1"] {
            assert!(text.parse::<EventCursor>().is_err(), "{text}");
        }
    }

    #[test]
    fn each_sort_goes_on_after_the_cursor() {
        let at = Timestamp::from_seconds(1_800_000_000);
        let later = at + Duration::from_micros(1);
        let start = EventCursor::at(at);
        assert_eq!((start.ended().0, start.decided().0, start.led().0), (at, at, at));
        let led = EventCursor { at, key: EventKey::Led("r".to_owned(), 1) };
        assert_eq!((led.ended().0, led.decided().0, led.did().0), (later, later, at));
        assert_eq!(led.led(), (at, "r", 1));
    }
}
