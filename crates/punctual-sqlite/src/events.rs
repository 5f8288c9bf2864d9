//! What has happened, in the order of its instants.

use punctual_core::{ScheduleId, Timestamp};
use punctual_store::{Event, EventCursor, EventKey, EventRow, Page, event_rows, merge_events};
use rusqlite::{Connection, Row, params};

use crate::error::Outcome;
use crate::lists::all;
use crate::rows::{self, Read};
use crate::sql;

pub(crate) fn events(
    db: &Connection,
    after: &EventCursor,
    until: Timestamp,
    most: usize,
) -> Outcome<Page<Event, EventCursor>> {
    let (until, count) = (until.as_micros(), rows::rows(event_rows(most)));
    let (at, job) = after.ended();
    let bound = params![at.as_micros(), job.as_bytes(), until, count];
    let ended = all(db, sql::EVENT_ENDED, bound, ended)?;
    let (at, schedule, slot, run) = after.decided();
    let bound = params![at.as_micros(), schedule.as_bytes(), slot.as_micros(), run, until, count];
    let decided = all(db, sql::EVENT_SLOTS, bound, decided)?;
    let (at, role, term) = after.led();
    let bound = params![at.as_micros(), role, term, until, count];
    let led = all(db, sql::EVENT_LEADERS, bound, led)?;
    let (at, id) = after.did();
    let bound = params![at.as_micros(), id, until, count];
    let did = all(db, sql::EVENT_AUDITS, bound, did)?;
    Ok(merge_events(vec![ended, decided, led, did], most))
}

/// A job that cannot be read has its place and is not shown.
fn ended(row: &Row) -> Read<EventRow> {
    let key = EventKey::Ended(rows::job_id(row, 21)?);
    let cursor = EventCursor { at: rows::instant(row, 19)?, key };
    Ok((cursor, rows::job_view(row).ok().flatten().map(Event::Ended)))
}

fn decided(row: &Row) -> Read<EventRow> {
    let schedule = ScheduleId::from_bytes(row.get(11)?);
    let key = EventKey::Decided(schedule, rows::instant(row, 0)?, row.get(1)?);
    let cursor = EventCursor { at: rows::instant(row, 10)?, key };
    let name = rows::text_opt(row, 12);
    let event = rows::slot(row).ok().map(|slot| Event::Decided { schedule, name, slot });
    Ok((cursor, event))
}

fn led(row: &Row) -> Read<EventRow> {
    let event = Event::Led(rows::leader_change(row)?);
    Ok((event.cursor(), Some(event)))
}

fn did(row: &Row) -> Read<EventRow> {
    let event = Event::Did(rows::audit(row)?);
    Ok((event.cursor(), Some(event)))
}
