//! What is in the queues, counted up to a bound.

use std::collections::BTreeMap;

use punctual_store::{Page, Pager, QueueStats, StatsCursor, limits};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Error, Row, ToSql, params};

use crate::error::Outcome;
use crate::rows::{self, Read};
use crate::sql;

/// A text as it stands in its row, also if it cannot be read: to go on after it takes its bytes.
struct RawText(Vec<u8>);

impl RawText {
    fn new(text: &str) -> RawText {
        RawText(text.as_bytes().to_vec())
    }

    fn read(row: &Row, at: usize) -> Read<RawText> {
        match row.get_ref(at)? {
            ValueRef::Text(bytes) => Ok(RawText(bytes.to_vec())),
            other => Err(Error::InvalidColumnType(at, "text".to_owned(), other.data_type())),
        }
    }
}

impl ToSql for RawText {
    fn to_sql(&self) -> Read<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(&self.0)))
    }
}

/// The queues and kinds in which something is, and how many jobs of each run.
type Running = BTreeMap<StatsCursor, u64>;

pub(crate) fn queue_stats(
    db: &Connection,
    after: Option<StatsCursor>,
    most: usize,
) -> Outcome<Page<QueueStats, StatsCursor>> {
    let mut places = running(db)?;
    places.retain(|place, _| after.as_ref().is_none_or(|after| place > after));
    for statement in
        [sql::STATS_READY_NEXT, sql::STATS_TIMER_NEXT, sql::STATS_WAIT_NEXT, sql::STATS_DONE_NEXT]
    {
        add_places(db, statement, after.as_ref(), most, &mut places)?;
    }
    let mut pager = Pager::new(most);
    for (place, running) in places {
        let stats = count(db, &place, running)?;
        if !pager.take(place, Some(stats)) {
            break;
        }
    }
    Ok(pager.page())
}

fn running(db: &Connection) -> Outcome<Running> {
    let mut statement = db.prepare_cached(sql::STATS_RUNNING)?;
    let mut found = statement.query([])?;
    let mut running = Running::new();
    while let Some(row) = found.next()? {
        // A name that cannot be read is left out.
        if let (Ok(queue), Ok(kind)) = (row.get(0), row.get(1)) {
            running.insert(StatsCursor { queue, kind }, row.get(2)?);
        }
    }
    Ok(running)
}

/// Adds the places that a statement finds, step by step; one more than a page has, to know whether
/// there is another.
fn add_places(
    db: &Connection,
    statement: &str,
    after: Option<&StatsCursor>,
    most: usize,
    places: &mut Running,
) -> Outcome<()> {
    let mut last = match after {
        Some(StatsCursor { queue, kind }) => (RawText::new(queue), RawText::new(kind)),
        None => (RawText::new(""), RawText::new("")),
    };
    let mut statement = db.prepare_cached(statement)?;
    for _ in 0..=most.clamp(1, limits::PAGE_MAX) {
        let mut found = statement.query((&last.0, &last.1))?;
        let Some(row) = found.next()? else { break };
        if let (Ok(queue), Ok(kind)) = (row.get(0), row.get(1)) {
            places.entry(StatsCursor { queue, kind }).or_default();
        }
        last = (RawText::read(row, 0)?, RawText::read(row, 1)?);
    }
    Ok(())
}

fn count(db: &Connection, place: &StatsCursor, running: u64) -> Outcome<QueueStats> {
    let bound = params![place.queue, place.kind, rows::rows(limits::COUNT_MAX)];
    let (queue, kind) = (place.queue.clone(), place.kind.clone());
    Ok(db.prepare_cached(sql::STATS)?.query_row(bound, |row| {
        Ok(QueueStats {
            queue,
            kind,
            ready: row.get(0)?,
            scheduled: row.get(2)?,
            retrying: row.get(3)?,
            blocked: row.get(4)?,
            running: running.min(limits::COUNT_MAX as u64),
            failed: row.get(5)?,
            oldest_due_at: rows::instant_opt(row, 1)?,
        })
    })?)
}
