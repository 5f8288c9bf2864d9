//! Ending attempts.

use std::collections::BTreeSet;

use punctual_core::job::{AttemptOutcome, JobState, Next, Transition};
use punctual_core::{LeaseId, NodeId, Timestamp};
use punctual_store::{Settled, Settlement, Settlements, rules};
use rusqlite::{Connection, params};

use crate::error::Outcome;
use crate::places::{self, End, Ended, Seat, Taken};
use crate::rows::{self, Bound, Fields, Read};
use crate::{jobs, queues, sql};

/// An attempt whose lease row was just deleted.
pub(crate) struct Held {
    lease: LeaseId,
    node: NodeId,
    taken: Taken,
    claimed_at: Timestamp,
    cancel: Option<String>,
}

impl Held {
    /// What `lease_take` tells, but for the seat, which may have to be salvaged.
    pub(crate) fn read(item: &Settlement, taken: Taken, row: &impl Fields) -> Read<Held> {
        Ok(Held {
            lease: item.lease,
            // Who reports is who ran it, also if the row cannot say so.
            node: rows::node_id(row, 0).unwrap_or(NodeId::from_bytes([0; 16])),
            taken,
            claimed_at: rows::instant(row, 9)?,
            cancel: rows::text_opt(row, 10),
        })
    }

    /// What becomes of the attempt, and the seat that its job goes on with.
    pub(crate) fn follow(&mut self, item: &Settlement) -> Transition {
        let mut transition = rules::with_cancel(&item.transition, self.cancel.as_deref());
        let seat = &mut self.taken.seat;
        if !self.taken.is_readable {
            seat.attempt += 1;
            transition = rules::without_further_attempt(transition);
        }
        seat.spent += u32::from(item.transition.outcome.counts());
        seat.crashes += u32::from(transition.outcome == AttemptOutcome::Abandoned);
        seat.flags = rules::flags_after(seat.flags, &transition);
        transition
    }

    pub(crate) fn seat(&mut self) -> &mut Seat {
        &mut self.taken.seat
    }

    /// How its job ends with it.
    pub(crate) fn end<'a>(
        &self,
        now: Timestamp,
        item: &'a Settlement,
        transition: &'a Transition,
    ) -> End<'a> {
        End {
            state: rules::final_state(transition.next),
            at: now,
            attempt: Some((self.lease, self.node, self.claimed_at)),
            error: transition.error.as_deref(),
            result: item.result.as_ref(),
        }
    }

    /// What `attempt_insert` is told.
    pub(crate) fn attempt<'a>(
        &'a self,
        now: Timestamp,
        item: &'a Settlement,
        transition: &'a Transition,
    ) -> [Bound<'a>; 8] {
        [
            rows::blob(item.job.as_bytes()),
            self.taken.seat.attempt.into(),
            rows::blob(self.lease.as_bytes()),
            rows::blob(self.node.as_bytes()),
            transition.outcome.code().into(),
            self.claimed_at.as_micros().into(),
            now.as_micros().into(),
            rows::or_null(transition.error.as_deref()),
        ]
    }
}

pub(crate) fn settle(
    db: &Connection,
    now: Timestamp,
    batch: &[Settlement],
) -> Outcome<Settlements> {
    let mut settlements =
        Settlements { at: now, answers: Vec::new(), frees: false, has_room: false };
    let mut queues = BTreeSet::new();
    for item in batch {
        let ItemAnswer { settled, frees, queue } = settle_one(db, now, item)?;
        settlements.answers.push(settled);
        settlements.frees |= frees;
        queues.extend(queue);
    }
    for queue in &queues {
        settlements.has_room |= queues::is_limited(db, queue)?;
    }
    Ok(settlements)
}

/// The result of one settlement.
pub(crate) struct ItemAnswer {
    pub(crate) settled: Settled,
    /// Another job of the schedule waits for the job that ended.
    frees: bool,
    /// The queue of the attempt, if the settlement was applied.
    queue: Option<String>,
}

impl ItemAnswer {
    fn unapplied(settled: Settled) -> ItemAnswer {
        ItemAnswer { settled, frees: false, queue: None }
    }
}

/// Settles one attempt.
pub(crate) fn settle_one(
    db: &Connection,
    now: Timestamp,
    item: &Settlement,
) -> Outcome<ItemAnswer> {
    match take(db, item)? {
        Some(mut held) => {
            let (state, frees) = apply(db, now, item, &mut held)?;
            for job in &item.then {
                // `rules::check_settlements` rejects follow-up jobs with unique keys.
                jobs::enqueue_unkeyed(db, now, job)?;
            }
            let queue = Some(held.taken.seat.queue);
            Ok(ItemAnswer { settled: Settled::Applied(state), frees, queue })
        }
        None if is_recorded(db, item)? => Ok(ItemAnswer::unapplied(Settled::Already)),
        None => Ok(ItemAnswer::unapplied(Settled::Fenced)),
    }
}

/// Deletes the lease's row, if it is there.
fn take(db: &Connection, item: &Settlement) -> Outcome<Option<Held>> {
    let mut statement = db.prepare_cached(sql::LEASE_TAKE)?;
    let mut found = statement.query([item.job.as_bytes(), item.lease.as_bytes()])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let taken = Taken::read(db, item.job, row, 1)?;
    Ok(Some(Held::read(item, taken, row)?))
}

fn apply(
    db: &Connection,
    now: Timestamp,
    item: &Settlement,
    held: &mut Held,
) -> Outcome<(JobState, bool)> {
    let transition = held.follow(item);
    if transition.outcome != AttemptOutcome::Succeeded {
        record(db, now, item, held, &transition)?;
    }
    match transition.next {
        Next::Ready => Ok((held.seat().in_line(db, item.job)?, false)),
        Next::After(wait) => {
            held.seat().due_at = now + wait;
            Ok((held.seat().at_timer(db, item.job)?, false))
        }
        Next::Succeeded | Next::Failed | Next::Cancelled => {
            let end = held.end(now, item, &transition);
            Ok((end.state, held.seat().end(db, item.job, &end)?))
        }
    }
}

/// Notes an attempt that did not end in success.
fn record(
    db: &Connection,
    now: Timestamp,
    item: &Settlement,
    held: &Held,
    transition: &Transition,
) -> Outcome<()> {
    if transition.outcome == AttemptOutcome::Snoozed {
        let forget = params![item.job.as_bytes(), transition.outcome.code()];
        db.prepare_cached(sql::ATTEMPT_FORGET)?.execute(forget)?;
    }
    db.prepare_cached(sql::ATTEMPT_INSERT)?.execute(held.attempt(now, item, transition))?;
    Ok(())
}

/// Is this lease's own outcome written down already?
fn is_recorded(db: &Connection, item: &Settlement) -> Outcome<bool> {
    let outcome = item.transition.outcome;
    if outcome == AttemptOutcome::Succeeded
        && let Some(ended) = places::ended(db, item.job)?
        && has_succeeded(item, &ended)
    {
        return Ok(true);
    }
    let recorded = params![item.job.as_bytes(), item.lease.as_bytes(), outcome.code()];
    Ok(db.prepare_cached(sql::ATTEMPT_RECORDED)?.exists(recorded)?)
}

/// Did the job end with this very attempt, and well?
pub(crate) fn has_succeeded(item: &Settlement, ended: &Ended) -> bool {
    ended.state == JobState::Succeeded && ended.lease == Some(item.lease)
}
