//! Ends attempts of remote workers that exceed their time.

use std::time::Duration;

use punctual_core::job::{RetryPolicy, Standing};
use punctual_core::{LeaseId, Timestamp};
use punctual_store::{OverdueJob, Settlement, rules};
use rusqlite::{Connection, Row, params};

use crate::error::Outcome;
use crate::rows::{self, Read};
use crate::{settle, sql};

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

pub(crate) fn end(
    db: &Connection,
    now: Timestamp,
    policy: &RetryPolicy,
    most: usize,
) -> Outcome<Vec<OverdueJob>> {
    let (label, value) = rules::REMOTE_LABEL;
    let label = rows::list_text(&[label, value]);
    let usual = i64::try_from(rules::REMOTE_TIMEOUT.as_micros()).unwrap_or(i64::MAX);
    let mut statement = db.prepare_cached(sql::LEASE_OVERDUE)?;
    let bound = params![now.as_micros(), label, usual, rows::rows(most)];
    // An attempt that cannot be read has no time; it is dropped with its node.
    let found: Vec<Option<Overdue>> =
        statement.query_map(bound, |row| Ok(read(row).ok()))?.collect::<Read<_>>()?;
    let mut ended = Vec::new();
    for overdue in found.into_iter().flatten() {
        let Overdue { standing, lease, queue, kind, cancel, facts, limit } = overdue;
        let transition = rules::time_out(&standing, limit, policy, facts.as_deref(), now);
        let applied = rules::with_cancel(&transition, cancel.as_deref());
        let (job, claimed_at) = (standing.job, standing.claimed_at);
        let item = Settlement { job, lease, transition, result: None, then: Vec::new() };
        settle::settle_one(db, now, &item)?;
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
    Ok(ended)
}

fn read(row: &Row) -> Read<Overdue> {
    let micros = |index: usize| -> Read<Duration> {
        Ok(Duration::from_micros(row.get::<_, i64>(index)?.unsigned_abs()))
    };
    let standing = Standing {
        job: rows::job_id(row, 0)?,
        attempt: row.get(2)?,
        spent: row.get(3)?,
        crashes: row.get(4)?,
        resource_releases: 0,
        max_attempts: row.get(9).unwrap_or(u32::MAX),
        used: micros(12)?,
        claimed_at: rows::instant(row, 5)?,
        budget: rows::length_opt(row, 10).unwrap_or(None),
        expires_at: rows::instant_opt(row, 11)?,
    };
    Ok(Overdue {
        standing,
        lease: rows::lease_id(row, 1)?,
        queue: rows::text(row, 7),
        kind: rows::text(row, 8),
        cancel: rows::text_opt(row, 6),
        facts: rows::text_opt(row, 13),
        limit: micros(14)?,
    })
}
