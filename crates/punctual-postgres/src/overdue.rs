//! Ends attempts of remote workers that exceed their time.

use std::time::Duration;

use punctual_core::job::{RetryPolicy, Standing};
use punctual_core::{LeaseId, Timestamp};
use punctual_store::{At, OverdueJob, Settled, Settlement, rules};
use tokio_postgres::Row;

use crate::connection::{Bound, Conn};
use crate::error::Outcome;
use crate::rows::{self, Instant, Read};
use crate::settle::settle_within;
use crate::sql;

/// An attempt that exceeds its time.
struct Overdue {
    standing: Standing,
    lease: LeaseId,
    queue: String,
    kind: String,
    cancel: Option<String>,
    facts: Option<String>,
    limit: Duration,
}

/// Ends them inside a transaction that is under way.
pub(crate) async fn end(
    conn: &mut Conn,
    now: Timestamp,
    policy: &RetryPolicy,
    most: usize,
) -> Outcome<Vec<OverdueJob>> {
    let (label, value) = rules::REMOTE_LABEL;
    let label = rows::list_text(&[label, value]);
    let usual = rows::micros(rules::REMOTE_TIMEOUT);
    let bound: Bound<'_> = &[&Instant(now), &label, &usual, &rows::count(most)];
    let found = conn.query(&sql::LEASE_OVERDUE, bound).await?;
    let (mut items, mut ended) = (Vec::new(), Vec::new());
    for row in &found {
        let Overdue { standing, lease, queue, kind, cancel, facts, limit } = read(row)?;
        let transition = rules::time_out(&standing, limit, policy, facts.as_deref(), now);
        let applied = rules::with_cancel(&transition, cancel.as_deref());
        let (job, claimed_at) = (standing.job, standing.claimed_at);
        items.push(Settlement { job, lease, transition, result: None, then: Vec::new() });
        ended.push(OverdueJob {
            job,
            attempt: standing.attempt,
            queue,
            kind,
            claimed_at,
            limit,
            next: applied.next,
            error: applied.error,
        });
    }
    if items.is_empty() {
        return Ok(ended);
    }
    // A worker may have settled one since it was read.
    let settled = settle_within(conn, At::Fixed(now), &items).await?;
    let answers = ended.into_iter().zip(settled.answers);
    let applied = answers.filter(|(_, answer)| matches!(answer, Settled::Applied(_)));
    Ok(applied.map(|(overdue, _)| overdue).collect())
}

fn read(row: &Row) -> Read<Overdue> {
    let standing = Standing {
        job: rows::job_id(row, 0)?,
        attempt: rows::natural(row, 2)?,
        spent: rows::natural(row, 3)?,
        crashes: rows::natural(row, 4)?,
        resource_releases: 0,
        max_attempts: rows::natural(row, 9).unwrap_or(u32::MAX),
        used: rows::length_opt(row, 12)?.unwrap_or_default(),
        claimed_at: rows::instant(row, 5)?,
        budget: rows::length_opt(row, 10)?,
        expires_at: rows::instant_opt(row, 11)?,
    };
    Ok(Overdue {
        standing,
        lease: rows::lease_id(row, 1)?,
        queue: rows::get(row, 7)?,
        kind: rows::get(row, 8)?,
        cancel: rows::get(row, 6)?,
        facts: rows::get(row, 13)?,
        limit: rows::length_opt(row, 14)?.unwrap_or_default(),
    })
}
