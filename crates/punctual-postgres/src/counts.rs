//! Job counts by queue and kind: read from `queue_count`, which the leader of the role `maintenance`
//! replaces now and then while there are many jobs, and otherwise counted for the request.

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

/// The longest that counting all jobs may take, in milliseconds. A million jobs in a thousand queues
/// take about a second on an idle server.
const COUNT_MS: u32 = 30_000;
/// How long the answer is waited for: the server ends the statement first and says so.
const COUNT_PATIENCE: Duration = Duration::from_secs(35);

pub(crate) async fn queue_stats(
    conn: &mut Conn,
    after: Option<&StatsCursor>,
    most: usize,
) -> Outcome<QueueCounts> {
    if let Some(page) = stored(conn, after, most).await? {
        return Ok(page);
    }
    if let Some(stats) = few(conn).await? {
        return Ok(QueueCounts::live(stats, after, most));
    }
    Ok(QueueCounts::live(all(conn, &sql::QUEUE_COUNT, &[], rows::queue_stats).await?, after, most))
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
pub(crate) async fn count(conn: &mut Conn, at: At) -> Outcome<(Timestamp, Vec<QueueStats>)> {
    let begun = conn.begin_snapshot_with(&sql::NOW, &[&rows::at(at)]).await?;
    let now = rows::instant(&crate::connection::first(begun, "now")?, 0)?;
    // Behind a pooler the session has none of our settings.
    conn.script(&format!(
        "SET LOCAL statement_timeout = {COUNT_MS}; SET LOCAL enable_seqscan = off; \
         SET LOCAL jit = off"
    ))
    .await?;
    conn.be_patient(COUNT_PATIENCE);
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
