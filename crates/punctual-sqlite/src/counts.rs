//! Job counts by queue and kind: read from `queue_count`, which the leader of the role `maintenance`
//! replaces now and then while there are many jobs, and otherwise counted for the request, up to a bound.

use punctual_core::Timestamp;
use punctual_store::{CountRequest, QueueCounts, QueueStats, StatsCursor, limits};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::error::Outcome;
use crate::rows::{self, Read};
use crate::{leaders, sql};

pub(crate) fn queue_stats(
    db: &Connection,
    after: Option<&StatsCursor>,
    most: usize,
) -> Outcome<QueueCounts> {
    let Some(counted_at) = counted_at(db)? else {
        let rows = rows::rows(limits::COUNT_REQUEST_MAX + 1);
        let stats = read(db, sql::QUEUE_STATS_LIVE, [rows])?;
        return Ok(QueueCounts::live(stats, after, most));
    };
    let (queue, kind) = after.map_or(("", ""), |after| (after.queue.as_str(), after.kind.as_str()));
    let rows = rows::rows(most.clamp(1, limits::PAGE_MAX) + 1);
    let stats = read(db, sql::QUEUE_STATS, params![queue, kind, rows])?;
    Ok(QueueCounts::page(stats.into_iter(), most, Some(counted_at)))
}

/// The counts of all jobs, if there are at most [`limits::COUNT_LIVE_MAX`].
fn few(db: &Connection) -> Outcome<Option<Vec<QueueStats>>> {
    let most = rows::rows(limits::COUNT_LIVE_MAX + 1);
    let stats = read(db, sql::QUEUE_STATS_LIVE, [most])?;
    let jobs: u64 = stats.iter().map(QueueStats::jobs).sum();
    Ok((jobs <= limits::COUNT_LIVE_MAX as u64).then_some(stats))
}

/// The counts of all jobs, however many there are.
pub(crate) fn all(db: &Connection) -> Outcome<Vec<QueueStats>> {
    read(db, sql::QUEUE_COUNT, [])
}

/// When the stored counts were counted, if there are any.
fn counted_at(db: &Connection) -> Outcome<Option<Timestamp>> {
    let mut statement = db.prepare_cached(sql::QUEUE_COUNTED)?;
    Ok(statement.query_row([], |row| rows::instant(row, 0)).optional()?)
}

/// Counts that have to be stored.
pub(crate) struct Counts {
    /// By queue and kind; empty if there are so few jobs that nothing reads stored counts.
    stats: Vec<QueueStats>,
    pub(crate) jobs: u64,
    /// Do they differ from what is stored?
    pub(crate) is_changed: bool,
}

impl Counts {
    /// The rows that are written.
    pub(crate) fn rows(&self) -> usize {
        self.stats.len() + 1
    }
}

/// Counts all jobs, unless there are few and nothing is stored.
pub(crate) fn count(db: &Connection) -> Outcome<Counts> {
    let sum = |stats: &[QueueStats]| stats.iter().map(QueueStats::jobs).sum();
    if let Some(stats) = few(db)? {
        let is_changed = counted_at(db)?.is_some();
        return Ok(Counts { jobs: sum(&stats), stats: Vec::new(), is_changed });
    }
    let stats = all(db)?;
    Ok(Counts { jobs: sum(&stats), stats, is_changed: true })
}

/// Replaces the stored counts under the term of the request; false if the term is over.
pub(crate) fn store(
    db: &Connection,
    now: Timestamp,
    request: &CountRequest,
    counted_at: Timestamp,
    counts: &Counts,
) -> Outcome<bool> {
    if leaders::renew(db, now, &request.fence, request.lease)?.is_none() {
        return Ok(false);
    }
    db.prepare_cached(sql::QUEUE_COUNT_DELETE)?.execute([])?;
    let mut insert = db.prepare_cached(sql::QUEUE_COUNT_INSERT)?;
    for stats in &counts.stats {
        insert.execute(params![
            stats.queue,
            stats.kind,
            number(stats.ready),
            number(stats.scheduled),
            number(stats.retrying),
            number(stats.blocked),
            number(stats.running),
            number(stats.failed),
            stats.oldest_due_at.map(Timestamp::as_micros),
            counted_at.as_micros(),
        ])?;
    }
    Ok(true)
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn read(db: &Connection, statement: &str, bound: impl Params) -> Outcome<Vec<QueueStats>> {
    let mut statement = db.prepare_cached(statement)?;
    let mut found = statement.query(bound)?;
    let mut stats = Vec::new();
    while let Some(row) = found.next()? {
        // A name that cannot be read is left out.
        if let (Ok(queue), Ok(kind)) = (row.get(0), row.get(1)) {
            stats.push(one(row, queue, kind)?);
        }
    }
    Ok(stats)
}

fn one(row: &Row, queue: String, kind: String) -> Read<QueueStats> {
    Ok(QueueStats {
        queue,
        kind,
        ready: row.get(2)?,
        scheduled: row.get(3)?,
        retrying: row.get(4)?,
        blocked: row.get(5)?,
        running: row.get(6)?,
        failed: row.get(7)?,
        oldest_due_at: rows::instant_opt(row, 8)?,
    })
}
