//! Ending attempts.

use punctual_core::job::{AttemptOutcome, JobState, Next};
use punctual_core::{LeaseId, NodeId, Timestamp};
use punctual_store::{Settled, Settlement, Settlements, rules};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Outcome;
use crate::places::{self, End, Seat};
use crate::rows::{self, Read};
use crate::sql;

/// An attempt whose lease row was just deleted.
struct Held {
    lease: LeaseId,
    node: NodeId,
    seat: Seat,
    claimed_at: Timestamp,
    cancel: Option<String>,
}

pub(crate) fn settle(
    db: &Connection,
    now: Timestamp,
    batch: &[Settlement],
) -> Outcome<Settlements> {
    let answers = batch.iter().map(|item| settle_one(db, now, item)).collect::<Outcome<_>>()?;
    Ok(Settlements { at: now, answers })
}

pub(crate) fn settle_one(db: &Connection, now: Timestamp, item: &Settlement) -> Outcome<Settled> {
    let held = db
        .prepare_cached(sql::LEASE_TAKE)?
        .query_row([item.job.as_bytes(), item.lease.as_bytes()], |row| read_held(row, item.lease))
        .optional()?;
    match held {
        Some(held) => Ok(Settled::Applied(apply(db, now, item, held)?)),
        None if is_recorded(db, item)? => Ok(Settled::Already),
        None => Ok(Settled::Fenced),
    }
}

fn read_held(row: &Row, lease: LeaseId) -> Read<Held> {
    Ok(Held {
        lease,
        node: rows::node_id(row, 0)?,
        seat: Seat::read(row, 1)?,
        claimed_at: rows::instant(row, 9)?,
        cancel: row.get(10)?,
    })
}

fn apply(db: &Connection, now: Timestamp, item: &Settlement, held: Held) -> Outcome<JobState> {
    let transition = rules::with_cancel(&item.transition, held.cancel.as_deref());
    let (outcome, error) = (transition.outcome, transition.error.as_deref());
    if outcome != AttemptOutcome::Succeeded {
        record(db, now, item, &held, outcome, error)?;
    }
    let mut seat = held.seat;
    seat.spent += u32::from(item.transition.outcome.counts());
    seat.crashes += u32::from(outcome == AttemptOutcome::Abandoned);
    match transition.next {
        Next::Ready => seat.in_line(db, item.job),
        Next::After(wait) => {
            seat.due_at = now + wait;
            seat.at_timer(db, item.job)
        }
        Next::Succeeded | Next::Failed | Next::Cancelled => {
            let state = rules::final_state(transition.next);
            let attempt = Some((held.lease, held.node, held.claimed_at));
            let end = End { state, at: now, attempt, error, result: item.result.as_ref() };
            seat.end(db, item.job, &end)?;
            Ok(state)
        }
    }
}

/// Notes an attempt that did not end in success.
fn record(
    db: &Connection,
    now: Timestamp,
    item: &Settlement,
    held: &Held,
    outcome: AttemptOutcome,
    error: Option<&str>,
) -> Outcome<()> {
    if outcome == AttemptOutcome::Snoozed {
        let forget = params![item.job.as_bytes(), outcome.code()];
        db.prepare_cached(sql::ATTEMPT_FORGET)?.execute(forget)?;
    }
    db.prepare_cached(sql::ATTEMPT_INSERT)?.execute(params![
        item.job.as_bytes(),
        held.seat.attempt,
        held.lease.as_bytes(),
        held.node.as_bytes(),
        outcome.code(),
        held.claimed_at.as_micros(),
        now.as_micros(),
        error,
    ])?;
    Ok(())
}

/// Is this lease's own outcome written down already?
fn is_recorded(db: &Connection, item: &Settlement) -> Outcome<bool> {
    let outcome = item.transition.outcome;
    if outcome == AttemptOutcome::Succeeded
        && let Some(ended) = places::ended(db, item.job)?
        && ended.state == JobState::Succeeded
        && ended.lease == Some(item.lease)
    {
        return Ok(true);
    }
    let recorded = params![item.job.as_bytes(), item.lease.as_bytes(), outcome.code()];
    Ok(db.prepare_cached(sql::ATTEMPT_RECORDED)?.exists(recorded)?)
}
