//! Ending attempts.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use punctual_core::job::{JobState, Next};
use punctual_core::{JobId, LeaseId, Timestamp};
use punctual_store::{At, Json, Result, Settled, Settlement, Settlements, limits, rules};
use uuid::Uuid;

use crate::connection::Conn;
use crate::enqueue::take;
use crate::error::Outcome;
use crate::gather::{Request, Work, answer_all};
use crate::pool::Pool;
use crate::retry::attempt;
use crate::rows;
use crate::sql;
use crate::store::Shared;

/// The settlements of one call.
type Call = (At, Vec<Settlement>);

/// Settles attempts.
pub(crate) struct Settle {
    pub(crate) pool: Pool,
    pub(crate) shared: Arc<Shared>,
}

impl Work for Settle {
    type Ask = Call;
    type Answer = Settlements;

    fn rows((_, batch): &Call) -> usize {
        batch.len()
    }

    async fn run(self: &Arc<Self>, mut batch: Vec<Request<Self>>) {
        let calls: Vec<Call> = batch.iter_mut().map(|request| take(&mut request.ask)).collect();
        let mut answers = Vec::with_capacity(calls.len());
        for group in calls.chunk_by(|(one, _), (other, _)| one == other) {
            answers.extend(self.write(group).await);
        }
        answer_all(batch, answers);
    }
}

impl Settle {
    async fn write(&self, calls: &[Call]) -> Vec<Result<Settlements>> {
        match self.write_together(calls).await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            // A value that PostgreSQL refuses must not keep the others out.
            Err(error) if error.kind() == punctual_store::ErrorKind::Invalid && calls.len() > 1 => {
                let mut answers = Vec::new();
                for call in calls {
                    let written = self.write_together(std::slice::from_ref(call)).await;
                    answers.extend(match written {
                        Ok(written) => written.into_iter().map(Ok).collect(),
                        Err(error) => vec![Err(error)],
                    });
                }
                answers
            }
            Err(error) => calls.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn write_together(&self, calls: &[Call]) -> Result<Vec<Settlements>> {
        let at = calls.first().map_or(At::Database, |(at, _)| *at);
        let items: Vec<&Settlement> = calls.iter().flat_map(|(_, batch)| batch).collect();
        let ended = attempt!(self.pool, Harmless, conn => settle(conn, at, &items))?;
        if ended.answers.contains(&Settled::Applied(JobState::Ready)) {
            self.shared.put_in_line();
        }
        let mut answers = ended.answers.into_iter();
        let parts = calls.iter().map(|(_, batch)| Settlements {
            at: ended.now,
            answers: answers.by_ref().take(batch.len()).collect(),
        });
        Ok(parts.collect())
    }
}

/// What became of settlements.
pub(crate) struct Ended {
    pub(crate) now: Timestamp,
    pub(crate) answers: Vec<Settled>,
}

/// Settles a batch in one statement; in several, and one transaction, if it names a job more than
/// once, since what the first does to a job the second must see.
async fn settle(conn: &mut Conn, at: At, items: &[&Settlement]) -> Outcome<Ended> {
    let rounds = rounds(items);
    let is_one = rounds.len() <= 1;
    if !is_one {
        conn.begin().await?;
    }
    let ended = settle_rounds(conn, at, items, rounds).await?;
    if !is_one {
        conn.commit().await?;
    }
    Ok(ended)
}

/// Settles inside a transaction of the caller's.
pub(crate) async fn settle_within(
    conn: &mut Conn,
    now: Timestamp,
    items: &[Settlement],
) -> Outcome<Ended> {
    let items: Vec<&Settlement> = items.iter().collect();
    let rounds = rounds(&items);
    settle_rounds(conn, At::Fixed(now), &items, rounds).await
}

/// The items by how often their job was named before.
fn rounds(items: &[&Settlement]) -> Vec<Vec<usize>> {
    let mut named: HashMap<JobId, usize> = HashMap::new();
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let round = named.entry(item.job).or_default();
        if rounds.len() == *round {
            rounds.push(Vec::new());
        }
        rounds[*round].push(index);
        *round += 1;
    }
    for round in &mut rounds {
        round.sort_by_key(|index| items[*index].job);
    }
    rounds
}

async fn settle_rounds(
    conn: &mut Conn,
    mut at: At,
    items: &[&Settlement],
    rounds: Vec<Vec<usize>>,
) -> Outcome<Ended> {
    let mut ended = Ended { now: Timestamp::EPOCH, answers: vec![Settled::Fenced; items.len()] };
    if rounds.is_empty() {
        let row = conn.query_one(&sql::NOW, &[&rows::at(at)]).await?;
        ended.now = rows::instant(&row, 0)?;
    }
    for round in rounds {
        settle_round(conn, at, items, &round, &mut ended).await?;
        at = At::Fixed(ended.now);
    }
    Ok(ended)
}

async fn settle_round(
    conn: &mut Conn,
    at: At,
    items: &[&Settlement],
    round: &[usize],
    ended: &mut Ended,
) -> Outcome<()> {
    let columns = Columns::of(round.iter().map(|index| items[*index]));
    let found = conn
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
    let mut applied: HashMap<(JobId, LeaseId), JobState> = HashMap::new();
    for row in &found {
        ended.now = rows::instant(row, 0)?;
        if rows::get::<Option<Uuid>>(row, 1)?.is_some() {
            let state = rows::state(row, 3)?;
            applied.insert((rows::job_id(row, 1)?, rows::lease_id(row, 2)?), state);
        }
    }
    let mut open = Vec::new();
    for index in round {
        let item = items[*index];
        match applied.get(&(item.job, item.lease)) {
            Some(state) => ended.answers[*index] = Settled::Applied(*state),
            None => open.push(*index),
        }
    }
    for index in recorded(conn, items, &open).await? {
        ended.answers[index] = Settled::Already;
    }
    Ok(())
}

/// Which items have their own outcome written down already.
async fn recorded(
    conn: &mut Conn,
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
    let found = conn.query(&sql::ATTEMPT_RECORDED, &[&jobs, &leases, &outcomes]).await?;
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
            columns.jobs.push(item.job.as_uuid());
            columns.leases.push(item.lease.as_uuid());
            columns.outcomes.push(item.transition.outcome.code());
            columns.nexts.push(next.code());
            columns.delays.push(delay);
            columns
                .errors
                .push(error.map(|error| rows::text(limits::cut(error, limits::ERROR_BYTES_MAX))));
            columns.results.push(item.result.as_ref().map(Json::as_str));
        }
        columns
    }
}
