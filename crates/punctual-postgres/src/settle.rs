//! Ending attempts.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use punctual_core::job::{JobState, Next};
use punctual_core::{JobId, LeaseId, Timestamp};
use punctual_store::{At, Json, NewJob, Result, Settled, Settlement, Settlements, limits, rules};
use uuid::Uuid;

use crate::bodies::Bodies;
use crate::connection::Conn;
use crate::error::Outcome;
use crate::gather::{Call, Together};
use crate::pool::Pool;
use crate::retry::run;
use crate::rounds::rounds;
use crate::rows;
use crate::session::Session;
use crate::sql;
use crate::store::Shared;

/// Settles attempts.
pub(crate) struct Settle {
    pub(crate) pool: Pool,
    pub(crate) shared: Arc<Shared>,
}

impl Together for Settle {
    type Item = Settlement;
    type Answer = Settlements;

    fn rows(batch: &[Settlement]) -> usize {
        batch.iter().map(|item| 1 + item.then.len()).sum()
    }

    async fn write(&self, at: At, calls: &[Call<Settlement>]) -> Result<Vec<Settlements>> {
        let items: Vec<&Settlement> = calls.iter().flat_map(|(_, batch)| batch).collect();
        let ended = run!(self.pool, settle, conn => settle(conn, at, &items))?;
        let written = followers(&items, &ended.answers);
        if !written.is_empty() {
            self.shared.enqueued(ended.now, written.into_iter());
        }
        if ended.answers.contains(&Settled::Applied(JobState::Ready)) {
            self.shared.put_in_line();
        } else if ended.has_room.contains(&true) {
            self.shared.wake.tell_work(false);
        }
        let mut answers = ended.answers.into_iter();
        let (mut frees, mut has_room) = (ended.frees.into_iter(), ended.has_room.into_iter());
        let parts = calls.iter().map(|(_, batch)| Settlements {
            at: ended.now,
            answers: answers.by_ref().take(batch.len()).collect(),
            frees: frees.by_ref().take(batch.len()).fold(false, |any, frees| any | frees),
            has_room: has_room.by_ref().take(batch.len()).fold(false, |any, has| any | has),
        });
        Ok(parts.collect())
    }
}

/// What became of settlements.
pub(crate) struct Ended {
    pub(crate) now: Timestamp,
    pub(crate) answers: Vec<Settled>,
    /// Whether a job of the ended one's schedule waits for it.
    frees: Vec<bool>,
    /// Whether it ended in a queue with a limit for all nodes.
    pub(crate) has_room: Vec<bool>,
}

/// Settles a batch in one statement; in several, and one transaction, if it names a job more than
/// once, since what the first does to a job the second must see, or if jobs follow.
async fn settle(conn: &mut Conn, at: At, items: &[&Settlement]) -> Outcome<Ended> {
    let rounds = ordered_rounds(items);
    let is_one = rounds.len() <= 1 && items.iter().all(|item| item.then.is_empty());
    if !is_one {
        conn.begin().await?;
    }
    let ended = settle_rounds(conn, at, items, rounds).await?;
    if !is_one {
        conn.commit().await?;
    }
    Ok(ended)
}

/// Settles inside a transaction that is under way.
pub(crate) async fn settle_within(
    session: &mut impl Session,
    at: At,
    items: &[Settlement],
) -> Outcome<Ended> {
    let items: Vec<&Settlement> = items.iter().collect();
    let rounds = ordered_rounds(&items);
    settle_rounds(session, at, &items, rounds).await
}

/// The items by how often their job was named before, each time in the order of jobs.
fn ordered_rounds(items: &[&Settlement]) -> Vec<Vec<usize>> {
    let mut rounds = rounds(items.iter().map(|item| item.job));
    for round in &mut rounds {
        round.sort_by_key(|index| items[*index].job);
    }
    rounds
}

async fn settle_rounds(
    session: &mut impl Session,
    mut at: At,
    items: &[&Settlement],
    rounds: Vec<Vec<usize>>,
) -> Outcome<Ended> {
    let mut ended = Ended {
        now: Timestamp::EPOCH,
        answers: vec![Settled::Fenced; items.len()],
        frees: vec![false; items.len()],
        has_room: vec![false; items.len()],
    };
    if rounds.is_empty() {
        let row = session.query_one(&sql::NOW, &[&rows::at(at)]).await?;
        ended.now = rows::instant(&row, 0)?;
    }
    for round in rounds {
        settle_round(session, at, items, &round, &mut ended).await?;
        at = At::Fixed(ended.now);
    }
    for part in followers(items, &ended.answers).chunks(limits::ENQUEUE_MAX) {
        let mut bodies = Bodies::default();
        part.iter().for_each(|job| bodies.push(job, false));
        bodies.write_within(session, ended.now).await?;
    }
    Ok(ended)
}

/// The jobs that are written with the settlements that were applied, each once.
fn followers<'a>(items: &[&'a Settlement], answers: &[Settled]) -> Vec<&'a NewJob> {
    let applied = items
        .iter()
        .zip(answers)
        .filter(|(_, settled)| matches!(settled, Settled::Applied(_)))
        .flat_map(|(item, _)| &item.then);
    let mut seen = HashSet::new();
    applied.filter(|job| seen.insert(job.id)).collect()
}

async fn settle_round(
    session: &mut impl Session,
    at: At,
    items: &[&Settlement],
    round: &[usize],
    ended: &mut Ended,
) -> Outcome<()> {
    let columns = Columns::of(round.iter().map(|index| items[*index]));
    let found = session
        .query(
            &sql::SETTLE,
            &[
                &rows::at(at),
                &columns.jobs,
                &columns.leases,
                &columns.outcomes,
                &columns.nexts,
                &columns.delays,
                &columns.errors,
                &columns.results,
                &rules::UNREADABLE,
            ],
        )
        .await?;
    let mut applied: HashMap<(JobId, LeaseId), (JobState, bool, bool)> = HashMap::new();
    for row in &found {
        ended.now = rows::instant(row, 0)?;
        if rows::get::<Option<Uuid>>(row, 1)?.is_some() {
            let became = (rows::state(row, 3)?, rows::get(row, 4)?, rows::get(row, 5)?);
            applied.insert((rows::job_id(row, 1)?, rows::lease_id(row, 2)?), became);
        }
    }
    let mut open = Vec::new();
    for index in round {
        let item = items[*index];
        match applied.get(&(item.job, item.lease)) {
            Some((state, frees, has_room)) => {
                ended.answers[*index] = Settled::Applied(*state);
                ended.frees[*index] = *frees;
                ended.has_room[*index] = *has_room;
            }
            None => open.push(*index),
        }
    }
    for index in recorded(session, items, &open).await? {
        ended.answers[index] = Settled::Already;
    }
    Ok(())
}

/// Which items have their own outcome written down already.
async fn recorded(
    session: &mut impl Session,
    items: &[&Settlement],
    open: &[usize],
) -> Outcome<HashSet<usize>> {
    if open.is_empty() {
        return Ok(HashSet::new());
    }
    let jobs: Vec<Uuid> = open.iter().map(|index| items[*index].job.as_uuid()).collect();
    let leases: Vec<Uuid> = open.iter().map(|index| items[*index].lease.as_uuid()).collect();
    let outcomes: Vec<i16> =
        open.iter().map(|index| items[*index].transition.outcome.code()).collect();
    let found = session.query(&sql::ATTEMPT_RECORDED, &[&jobs, &leases, &outcomes]).await?;
    let mut recorded = HashSet::new();
    for row in &found {
        let number: i64 = rows::get(row, 0)?;
        recorded.extend(usize::try_from(number - 1).ok().and_then(|place| open.get(place)));
    }
    Ok(recorded)
}

/// Settlements as columns.
#[derive(Default)]
struct Columns<'a> {
    jobs: Vec<Uuid>,
    leases: Vec<Uuid>,
    outcomes: Vec<i16>,
    nexts: Vec<i16>,
    delays: Vec<Option<i64>>,
    errors: Vec<Option<Cow<'a, str>>>,
    results: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn of(items: impl Iterator<Item = &'a Settlement>) -> Columns<'a> {
        let mut columns = Columns::default();
        for item in items {
            let (next, delay) = match item.transition.next {
                Next::Ready => (JobState::Ready, None),
                Next::After(wait) => (JobState::Retrying, Some(rows::micros(wait))),
                Next::Succeeded => (JobState::Succeeded, None),
                Next::Failed => (JobState::Failed, None),
                Next::Cancelled => (JobState::Cancelled, None),
            };
            let error = item.transition.error.as_deref();
            let row = columns.jobs.len();
            columns.jobs.push(item.job.as_uuid());
            columns.leases.push(item.lease.as_uuid());
            columns.outcomes.push(item.transition.outcome.code());
            columns.nexts.push(next.code());
            rows::put(&mut columns.delays, row, delay);
            let error = error.map(|error| rows::text(limits::cut(error, limits::ERROR_BYTES_MAX)));
            rows::put(&mut columns.errors, row, error);
            rows::put(&mut columns.results, row, item.result.as_ref().map(Json::as_str));
        }
        columns
    }
}
