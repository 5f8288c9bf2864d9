//! What has happened, in the order of its instants.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::{Event, EventCursor, EventKey, EventRow, Page, event_rows, merge_events};
use tokio_postgres::Row;

use crate::connection::{Bound, Conn};
use crate::error::Outcome;
use crate::lists::all;
use crate::rows::{self, Instant, Read};
use crate::sql;

pub(crate) async fn events(
    conn: &mut Conn,
    after: &EventCursor,
    until: Timestamp,
    most: usize,
) -> Outcome<Page<Event, EventCursor>> {
    let until = match horizon(conn).await? {
        Some(open) => until.min(open - Duration::from_micros(1)),
        None => until,
    };
    let (until, count) = (Instant(until), rows::count(event_rows(most)));
    let (at, job) = after.ended();
    let bound: Bound<'_> = &[&Instant(at), &job.as_uuid(), &until, &count];
    let ended = all(conn, &sql::EVENT_ENDED, bound, ended).await?;
    let (at, schedule, slot, run) = after.decided();
    let bound: Bound<'_> =
        &[&Instant(at), &schedule.as_uuid(), &Instant(slot), &run, &until, &count];
    let decided = all(conn, &sql::EVENT_SLOTS, bound, decided).await?;
    let (at, role, term) = after.led();
    let bound: Bound<'_> = &[&Instant(at), &role, &term, &until, &count];
    let led = all(conn, &sql::EVENT_LEADERS, bound, led).await?;
    let (at, id) = after.did();
    let bound: Bound<'_> = &[&Instant(at), &id, &until, &count];
    let did = all(conn, &sql::EVENT_AUDITS, bound, did).await?;
    Ok(merge_events(vec![ended, decided, led, did], most))
}

/// A transaction of the caller's own that has been open for longer is not waited for: a session that
/// somebody forgot must not stop all news.
const WAITED_FOR: Duration = Duration::from_secs(300);

/// Since when a transaction is open that may still commit events of the past.
async fn horizon(conn: &mut Conn) -> Outcome<Option<Timestamp>> {
    let bound: Bound<'_> = &[&WAITED_FOR.as_secs_f64()];
    let found = all(conn, &sql::EVENT_HORIZON, bound, |row| rows::instant_opt(row, 0)).await?;
    Ok(found.into_iter().next().flatten())
}

/// A job that cannot be read has its place and is not shown.
fn ended(row: &Row) -> Read<EventRow> {
    let key = EventKey::Ended(rows::job_id(row, 21)?);
    let cursor = EventCursor { at: rows::instant(row, 19)?, key };
    Ok((cursor, rows::job_view(row).ok().flatten().map(Event::Ended)))
}

fn decided(row: &Row) -> Read<EventRow> {
    let schedule = rows::schedule_id(row, 11)?;
    let key = EventKey::Decided(schedule, rows::instant(row, 0)?, rows::get(row, 1)?);
    let cursor = EventCursor { at: rows::instant(row, 10)?, key };
    let name = rows::get::<Option<String>>(row, 12)?;
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
