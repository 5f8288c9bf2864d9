//! Job counts by queue and kind: read from `queue_count`, which the leader of the role `maintenance`
//! replaces now and then while there are many jobs, and otherwise counted for the request, up to a bound.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::{
    At, CountRequest, CountResponse, QueueCounts, QueueStats, StatsCursor, limits,
};

use crate::connection::{Bound, Conn};
use crate::error::Outcome;
use crate::leaders;
use crate::lists::{all, page_rows};
use crate::rows::{self, Instant};
use crate::sql;

/// The longest that counting all jobs may take at first, and after counts that took longer: the limit doubles
/// after each of them, so that counting succeeds with any number of jobs. A million jobs in a thousand
/// queues take about a second on an idle server.
const COUNT_TIME: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(1_920));
/// How much longer the response is awaited: the server ends the statement first and says so.
const COUNT_PATIENCE: Duration = Duration::from_secs(5);

/// The time limit of the next count of all jobs.
pub(crate) struct CountTime(Mutex<Duration>);

impl Default for CountTime {
    fn default() -> CountTime {
        CountTime(Mutex::new(COUNT_TIME.0))
    }
}

impl CountTime {
    fn get(&self) -> Duration {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A count did not end within the limit.
    pub(crate) fn exceeded(&self) {
        let mut limit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *limit = (*limit * 2).min(COUNT_TIME.1);
    }

    /// Starts with another limit; for tests.
    #[cfg(test)]
    pub(crate) fn set(&self, limit: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = limit;
    }
}

pub(crate) async fn queue_stats(
    conn: &mut Conn,
    after: Option<&StatsCursor>,
    most: usize,
) -> Outcome<QueueCounts> {
    if let Some(page) = stored(conn, after, most).await? {
        return Ok(page);
    }
    let rows = rows::count(limits::COUNT_REQUEST_MAX + 1);
    let stats = all(conn, &sql::QUEUE_STATS_LIVE, &[&rows], rows::queue_stats).await?;
    Ok(QueueCounts::live(stats, after, most))
}

/// The counts of all jobs, if there are at most [`limits::COUNT_LIVE_MAX`].
async fn few(conn: &mut Conn) -> Outcome<Option<Vec<QueueStats>>> {
    let most = rows::count(limits::COUNT_LIVE_MAX + 1);
    let stats = all(conn, &sql::QUEUE_STATS_LIVE, &[&most], rows::queue_stats).await?;
    let jobs: u64 = stats.iter().map(QueueStats::jobs).sum();
    Ok((jobs <= limits::COUNT_LIVE_MAX as u64).then_some(stats))
}

/// A page of the stored counts, if there are any.
async fn stored(
    conn: &mut Conn,
    after: Option<&StatsCursor>,
    most: usize,
) -> Outcome<Option<QueueCounts>> {
    let (queue, kind) = after.map_or(("", ""), |after| (after.queue.as_str(), after.kind.as_str()));
    let found = conn.query(&sql::QUEUE_STATS, &[&queue, &kind, &page_rows(most)]).await?;
    let Some(first) = found.first() else { return Ok(None) };
    let counted_at = rows::instant(first, 9)?;
    let mut stats = Vec::with_capacity(found.len());
    for row in &found {
        if rows::get::<Option<&str>>(row, 0)?.is_some() {
            stats.push(rows::queue_stats(row)?);
        }
    }
    Ok(Some(QueueCounts::page(stats.into_iter(), most, Some(counted_at))))
}

/// What has to be stored.
pub(crate) enum Change {
    /// There are few jobs and no stored counts.
    None(u64),
    /// There are few jobs; the stored counts are not read any more.
    Remove(u64),
    /// There are many jobs.
    Replace,
}

/// Decides whether jobs have to be counted. Reads a bounded number of rows.
pub(crate) async fn examine(conn: &mut Conn) -> Outcome<Change> {
    let Some(stats) = few(conn).await? else { return Ok(Change::Replace) };
    let jobs = stats.iter().map(QueueStats::jobs).sum();
    let has_stored = stored(conn, None, 1).await?.is_some();
    Ok(if has_stored { Change::Remove(jobs) } else { Change::None(jobs) })
}

/// Counts all jobs, with the instant of the snapshot.
pub(crate) async fn count(
    conn: &mut Conn,
    at: At,
    time: &CountTime,
) -> Outcome<(Timestamp, Vec<QueueStats>)> {
    let limit = time.get();
    let begun = conn.begin_snapshot_with(&sql::NOW, &[&rows::at(at)]).await?;
    let now = rows::instant(&crate::connection::first(begun, "now")?, 0)?;
    // Behind a pooler the session has none of our settings.
    conn.script(&format!(
        "SET LOCAL statement_timeout = {}; SET LOCAL enable_seqscan = off; SET LOCAL jit = off",
        limit.as_millis()
    ))
    .await?;
    conn.be_patient(limit + COUNT_PATIENCE);
    let stats = all(conn, &sql::QUEUE_COUNT, &[], rows::queue_stats).await?;
    conn.commit().await?;
    Ok((now, stats))
}

/// Replaces the stored counts under the term of the request.
pub(crate) async fn store(
    conn: &mut Conn,
    at: At,
    request: &CountRequest,
    counted_at: Timestamp,
    stats: &[QueueStats],
    jobs: u64,
) -> Outcome<CountResponse> {
    let (_, renewed) = leaders::begin_renewed(conn, at, &request.fence, request.lease).await?;
    if renewed.is_none() {
        conn.rollback().await?;
        return Ok(CountResponse { led: false, jobs });
    }
    conn.query(&sql::QUEUE_COUNT_DELETE, &[]).await?;
    let queues: Vec<&str> = stats.iter().map(|stats| stats.queue.as_str()).collect();
    let kinds: Vec<&str> = stats.iter().map(|stats| stats.kind.as_str()).collect();
    let numbers = |of: fn(&QueueStats) -> u64| -> Vec<i64> {
        stats.iter().map(|stats| i64::try_from(of(stats)).unwrap_or(i64::MAX)).collect()
    };
    let oldest: Vec<Option<Instant>> =
        stats.iter().map(|stats| stats.oldest_due_at.map(Instant)).collect();
    let bound: Bound<'_> = &[
        &queues,
        &kinds,
        &numbers(|stats| stats.ready),
        &numbers(|stats| stats.scheduled),
        &numbers(|stats| stats.retrying),
        &numbers(|stats| stats.blocked),
        &numbers(|stats| stats.running),
        &numbers(|stats| stats.failed),
        &oldest,
        &Instant(counted_at),
    ];
    conn.commit_with(&sql::QUEUE_COUNT_INSERT, bound).await?;
    Ok(CountResponse { led: true, jobs })
}
