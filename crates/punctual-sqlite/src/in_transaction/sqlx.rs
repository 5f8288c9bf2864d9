//! The same in a transaction of sqlx: the store's statements, parameters and decisions, in an order
//! that has to be written twice because sqlx must be awaited. The tests hold both to one answer.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::job::{AttemptOutcome, JobState, Next};
use punctual_store::{
    At, ClusterKey, EnqueueAnswer, Enqueued, ErrorKind, NewJob, Rejection, Result, Settled,
    Settlement, StoreError, limits, rules,
};
use rusqlite::ffi;
use rusqlite::types::{FromSql, ToSql, ToSqlOutput, Type, Value, ValueRef};
use sqlx::error::BoxDynError;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow, SqliteValueRef};
use sqlx::{Arguments, Connection, Decode, Row as _, Sqlite, TypeInfo, ValueRef as _};

use super::{check, not_begun, tell};
use crate::clock::instant;
use crate::error::{Fault, Outcome};
use crate::places::{Ended, HAS_KEY, IS_LIVE, Seat, Taken, timer_state};
use crate::rows::{self, Bound, Fields, Read};
use crate::settle::{Held, has_succeeded};
use crate::{cluster_key, expiry, jobs, migrate, sql};

/// Writes jobs in a transaction of sqlx, as [`enqueue`](super::enqueue) does.
pub async fn enqueue_sqlx(db: &mut SqliteConnection, at: At, jobs: &[NewJob]) -> Result<Enqueued> {
    rules::check_count(jobs.len(), limits::ENQUEUE_MAX, "jobs")?;
    let file = checked(db).await?;
    let written = async {
        // A savepoint: whole or not at all, also if the caller stops waiting and commits.
        let mut part = db.begin().await.map_err(fault)?;
        let now = instant(at);
        let mut key = None;
        let mut answers = Vec::with_capacity(jobs.len());
        for job in jobs {
            answers.push(enqueue_one(&mut part, &mut key, now, job).await?);
        }
        part.commit().await.map_err(fault)?;
        Ok(Enqueued { at: now, answers })
    };
    written.await.map_err(|fault: Fault| tell(&fault, file.as_deref()))
}

/// Settles an attempt in a transaction of sqlx, as [`settle`](super::settle) does.
pub async fn settle_sqlx(db: &mut SqliteConnection, at: At, item: &Settlement) -> Result<Settled> {
    rules::check_settlements(std::slice::from_ref(item))?;
    let file = checked(db).await?;
    let settled = async {
        let mut part = db.begin().await.map_err(fault)?;
        let settled = settle_one(&mut part, instant(at), item).await?;
        part.commit().await.map_err(fault)?;
        Ok(settled)
    };
    settled.await.map_err(|fault: Fault| tell(&fault, file.as_deref()))
}

/// The file of a connection; none if it has none.
pub async fn file_of_sqlx(db: &mut SqliteConnection) -> Result<Option<PathBuf>> {
    let listed = row(db, "PRAGMA database_list", []).await.map_err(|fault| tell(&fault, None))?;
    let file = listed.map(|main| rows::text(&main, 2)).filter(|file| !file.is_empty());
    Ok(file.map(PathBuf::from))
}

/// Is a transaction open, on a file with our tables?
async fn checked(db: &mut SqliteConnection) -> Result<Option<PathBuf>> {
    let file = file_of_sqlx(db).await?;
    if !db.is_in_transaction() {
        return Err(not_begun(file.as_deref()));
    }
    let found = version(db).await.map_err(|fault| tell(&fault, file.as_deref()))?;
    check(file.as_deref(), found)?;
    Ok(file)
}

async fn version(db: &mut SqliteConnection) -> Outcome<(i64, i64)> {
    let has_meta = row(db, migrate::HAS_META, []).await?;
    if has_meta.and_then(|row| rows::or_none(&row, 0)) != Some(true) {
        return Ok((0, 0));
    }
    let mut numbers = [0, 0];
    for (number, name) in numbers.iter_mut().zip([migrate::VERSION, migrate::BREAKING]) {
        let found = row(db, sql::META_GET, [name.into()]).await?;
        *number = found.map(|row| row.read(0)).transpose()?.unwrap_or(0);
    }
    Ok(numbers.into())
}

/// The key of the file, read when it is first needed.
async fn file_key<'k>(
    db: &mut SqliteConnection,
    key: &'k mut Option<ClusterKey>,
) -> Outcome<&'k ClusterKey> {
    let known = match key.take() {
        Some(known) => known,
        None => {
            let found = row(db, sql::CLUSTER_KEY, []).await?;
            cluster_key::parse(found.map(|row| row.read(0)).transpose()?)?
        }
    };
    Ok(key.insert(known))
}

async fn enqueue_one(
    db: &mut SqliteConnection,
    key: &mut Option<ClusterKey>,
    now: Timestamp,
    job: &NewJob,
) -> Outcome<EnqueueAnswer> {
    if let Err(message) = job.check_enqueued() {
        return Ok(EnqueueAnswer::Rejected(Rejection::Invalid(message)));
    }
    let job = match &job.unique {
        Some(_) => file_key(db, key).await?.with_key(job),
        None => Cow::Borrowed(job),
    };
    let job = &*job;
    if let Some(name) = job.stored_key() {
        if row(db, sql::JOB_EXISTS, [rows::blob(job.id.as_bytes())]).await?.is_some() {
            return Ok(EnqueueAnswer::Created);
        }
        let hash = file_key(db, key).await?.hash(job);
        if execute(db, sql::KEY_TAKE, jobs::key_values(now, job, &name, &hash)).await? == 0 {
            let by = [job.tenant.as_str().into(), name.as_str().into()];
            let holder = one_row(db, sql::KEY_HOLDER, by).await?;
            return Ok(jobs::held_by(jobs::read_holder(&holder)?, hash));
        }
    }
    enqueue_unkeyed(db, now, job).await?;
    Ok(EnqueueAnswer::Created)
}

/// Writes a job that was checked and has no unique key, or has taken it.
async fn enqueue_unkeyed(db: &mut SqliteConnection, now: Timestamp, job: &NewJob) -> Outcome<()> {
    let id = || rows::blob(job.id.as_bytes());
    if execute(db, sql::JOB_INSERT, jobs::body_values(now, job)).await? == 0 {
        return Ok(());
    }
    if let Some(deadline) = expiry::deadline_values(now, job) {
        execute(db, sql::DEADLINE_INSERT, deadline).await?;
    }
    if let Some(origin) = &job.origin {
        let live = [rows::blob(origin.schedule.as_bytes()), id()];
        execute(db, sql::LIVE_INSERT, live).await?;
    }
    let seat = jobs::seat(now, job, job.origin.is_some());
    match seat.due_at > now {
        true => execute(db, sql::TIMER_INSERT, seat.timer(&job.id)).await?,
        false => execute(db, sql::READY_INSERT, seat.line(&job.id)).await?,
    };
    Ok(())
}

async fn settle_one(
    db: &mut SqliteConnection,
    now: Timestamp,
    item: &Settlement,
) -> Outcome<Settled> {
    let by = [rows::blob(item.job.as_bytes()), rows::blob(item.lease.as_bytes())];
    let Some(row) = row(db, sql::LEASE_TAKE, by).await? else {
        let is_recorded = is_recorded(db, item).await?;
        return Ok(if is_recorded { Settled::Already } else { Settled::Fenced });
    };
    let taken = match Seat::read(&row, 1) {
        Ok(seat) => Taken { seat, is_readable: true },
        Err(_) => {
            let last = [rows::blob(item.job.as_bytes())];
            let last = one_row(db, sql::ATTEMPT_LAST, last).await?;
            Taken { seat: Seat::salvaged(last.read(0)?, &row, 1)?, is_readable: false }
        }
    };
    let state = apply(db, now, item, Held::read(item, taken, &row)?).await?;
    for job in &item.then {
        enqueue_unkeyed(db, now, job).await?;
    }
    Ok(Settled::Applied(state))
}

async fn apply(
    db: &mut SqliteConnection,
    now: Timestamp,
    item: &Settlement,
    mut held: Held,
) -> Outcome<JobState> {
    let job = || rows::blob(item.job.as_bytes());
    let transition = held.follow(item);
    if transition.outcome == AttemptOutcome::Snoozed {
        let snooze = transition.outcome.code().into();
        execute(db, sql::ATTEMPT_FORGET, [job(), snooze]).await?;
    }
    if transition.outcome != AttemptOutcome::Succeeded {
        execute(db, sql::ATTEMPT_INSERT, held.attempt(now, item, &transition)).await?;
    }
    match transition.next {
        Next::Ready => {
            execute(db, sql::READY_INSERT, held.seat().line(&item.job)).await?;
            Ok(JobState::Ready)
        }
        Next::After(wait) => {
            held.seat().due_at = now + wait;
            execute(db, sql::TIMER_INSERT, held.seat().timer(&item.job)).await?;
            Ok(timer_state(held.seat().attempt))
        }
        Next::Succeeded | Next::Failed | Next::Cancelled => {
            let end = held.end(now, item, &transition);
            let seat = held.seat();
            execute(db, sql::DONE_INSERT, seat.done(&item.job, &end)).await?;
            if seat.flags & HAS_KEY != 0 {
                execute(db, sql::KEY_RELEASE, [job()]).await?;
            }
            if seat.flags & IS_LIVE != 0 {
                // Whoever waits for it goes on with the next promote.
                row(db, sql::LIVE_DELETE, [job()]).await?;
            }
            Ok(end.state)
        }
    }
}

/// Is this lease's own outcome written down already?
async fn is_recorded(db: &mut SqliteConnection, item: &Settlement) -> Outcome<bool> {
    let job = || rows::blob(item.job.as_bytes());
    let outcome = item.transition.outcome;
    if outcome == AttemptOutcome::Succeeded
        && let Some(ended) = row(db, sql::DONE_LOOK, [job()]).await?
        && has_succeeded(item, &Ended::read(&ended)?)
    {
        return Ok(true);
    }
    let recorded = [job(), rows::blob(item.lease.as_bytes()), outcome.code().into()];
    Ok(row(db, sql::ATTEMPT_RECORDED, recorded).await?.is_some())
}

/// Runs a statement, and says how many rows it changed.
async fn execute<const N: usize>(
    db: &mut SqliteConnection,
    text: &'static str,
    bound: [Bound<'_>; N],
) -> Outcome<u64> {
    let query = sqlx::query_with(text, arguments(&bound)?);
    Ok(query.execute(db).await.map_err(fault)?.rows_affected())
}

/// The first row of an answer, if there is one.
async fn row<const N: usize>(
    db: &mut SqliteConnection,
    text: &'static str,
    bound: [Bound<'_>; N],
) -> Outcome<Option<Values>> {
    let query = sqlx::query_with(text, arguments(&bound)?);
    query.fetch_optional(db).await.map_err(fault)?.map(|row| Values::read(&row)).transpose()
}

/// The row of an answer that always has one.
async fn one_row<const N: usize>(
    db: &mut SqliteConnection,
    text: &'static str,
    bound: [Bound<'_>; N],
) -> Outcome<Values> {
    Ok(row(db, text, bound).await?.ok_or(rusqlite::Error::QueryReturnedNoRows)?)
}

fn arguments(bound: &[Bound<'_>]) -> Outcome<SqliteArguments> {
    let mut arguments = SqliteArguments::default();
    for value in bound {
        let added = match value.to_sql()? {
            ToSqlOutput::Borrowed(ValueRef::Integer(number)) => arguments.add(number),
            ToSqlOutput::Borrowed(ValueRef::Real(number)) => arguments.add(number),
            ToSqlOutput::Borrowed(ValueRef::Text(text)) => {
                arguments.add(String::from_utf8_lossy(text).into_owned())
            }
            ToSqlOutput::Borrowed(ValueRef::Blob(bytes)) => arguments.add(bytes.to_vec()),
            _ => arguments.add(None::<i64>),
        };
        added.map_err(|error| StoreError::invalid(error.to_string()))?;
    }
    Ok(arguments)
}

/// An error of sqlx as one of rusqlite: SQLite's codes are the same, and are explained once.
fn fault(error: sqlx::Error) -> Fault {
    let code = error.as_database_error().and_then(|error| error.code()?.parse().ok());
    match code {
        Some(code) => {
            let said = error.as_database_error().map(|error| error.message().to_owned());
            Fault::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), said))
        }
        None => {
            let message = format!("the sqlx connection is not usable ({error}); open a new one");
            let unusable = StoreError::new(ErrorKind::Unreachable, message);
            Fault::Store(unusable.caused_by(Arc::new(error)))
        }
    }
}

/// A row of sqlx as values that are read like those of rusqlite.
struct Values(Vec<Value>);

impl Values {
    fn read(row: &SqliteRow) -> Outcome<Values> {
        let value = |at| {
            let value = row.try_get_raw(at)?;
            let of = value.type_info().name().to_owned();
            let read = match of.as_str() {
                // Where there is nothing, sqlx tells the type of the column.
                _ if value.is_null() => Ok(Value::Null),
                "INTEGER" => decode(value).map(Value::Integer),
                "REAL" => decode(value).map(Value::Real),
                // A text that is none is shown as its bytes, which no reader takes for a text.
                "TEXT" => decode(value).map(|bytes| {
                    String::from_utf8(bytes)
                        .map_or_else(|error| Value::Blob(error.into_bytes()), Value::Text)
                }),
                _ => decode(value).map(Value::Blob),
            };
            read.map_err(sqlx::Error::Decode)
        };
        let values: sqlx::Result<_> = (0..row.len()).map(value).collect();
        Ok(Values(values.map_err(fault)?))
    }
}

fn decode<'r, T: Decode<'r, Sqlite>>(
    value: SqliteValueRef<'r>,
) -> std::result::Result<T, BoxDynError> {
    T::decode(value)
}

impl Fields for Values {
    fn value(&self, at: usize) -> Read<ValueRef<'_>> {
        self.0.get(at).map(ValueRef::from).ok_or(rusqlite::Error::InvalidColumnIndex(at))
    }

    fn read<T: FromSql>(&self, at: usize) -> Read<T> {
        T::column_result(self.value(at)?).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(at, Type::Null, Box::new(error))
        })
    }
}
