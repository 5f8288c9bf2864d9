//! Ending attempts.

use punctual_core::job::{AttemptOutcome, JobState, Next};
use punctual_core::{LeaseId, NodeId, Timestamp};
use punctual_store::{Settled, Settlement, Settlements, rules};
use rusqlite::{Connection, params};

use crate::error::Outcome;
use crate::places::{self, End, Taken};
use crate::{rows, sql};

/// An attempt whose lease row was just deleted.
struct Held {
    lease: LeaseId,
    node: NodeId,
    taken: Taken,
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
    match take(db, item)? {
        Some(held) => Ok(Settled::Applied(apply(db, now, item, held)?)),
        None if is_recorded(db, item)? => Ok(Settled::Already),
        None => Ok(Settled::Fenced),
    }
}

/// Deletes the lease's row, if it is there.
fn take(db: &Connection, item: &Settlement) -> Outcome<Option<Held>> {
    let mut statement = db.prepare_cached(sql::LEASE_TAKE)?;
    let mut found = statement.query([item.job.as_bytes(), item.lease.as_bytes()])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let held = Held {
        lease: item.lease,
        // Who reports is who ran it, also if the row cannot say so.
        node: rows::node_id(row, 0).unwrap_or(NodeId::from_bytes([0; 16])),
        taken: Taken::read(db, item.job, row, 1)?,
        claimed_at: rows::instant(row, 9)?,
        cancel: rows::text_opt(row, 10),
    };
    Ok(Some(held))
}

fn apply(db: &Connection, now: Timestamp, item: &Settlement, mut held: Held) -> Outcome<JobState> {
    let mut transition = rules::with_cancel(&item.transition, held.cancel.as_deref());
    if !held.taken.is_readable {
        held.taken.seat.attempt += 1;
        transition = rules::without_further_attempt(transition);
    }
    let (outcome, error) = (transition.outcome, transition.error.as_deref());
    if outcome != AttemptOutcome::Succeeded {
        record(db, now, item, &held, outcome, error)?;
    }
    let mut seat = held.taken.seat;
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
        held.taken.seat.attempt,
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
