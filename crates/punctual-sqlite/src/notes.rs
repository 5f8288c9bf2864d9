//! What handlers note: steps and logs.

use punctual_core::{JobId, LeaseId, Timestamp};
use punctual_store::{Json, LogLine, StepAnswer, StepView, limits, rules};
use rusqlite::{Connection, params};

use crate::error::Outcome;
use crate::lists::all;
use crate::{rows, sql};

pub(crate) fn save_step(
    db: &Connection,
    now: Timestamp,
    job: JobId,
    lease: LeaseId,
    name: &str,
    result: &Json,
) -> Outcome<StepAnswer> {
    let id = job.as_bytes();
    if !db.prepare_cached(sql::LEASE_HELD)?.exists([id, lease.as_bytes()])? {
        return Ok(StepAnswer::Fenced);
    }
    let mut kept = db.prepare_cached(sql::STEP)?;
    let mut found = kept.query(params![id, name])?;
    match found.next()? {
        // One that cannot be read is done again, and gives way.
        Some(row) => {
            if let Ok(result) = rows::json(row, 0) {
                return Ok(StepAnswer::Already(result));
            }
        }
        None => {
            let count: i64 =
                db.prepare_cached(sql::STEP_COUNT)?.query_row([id], |row| row.get(0))?;
            if count >= rows::rows(limits::STEPS_MAX) {
                return Err(rules::too_many_steps(job).into());
            }
        }
    }
    drop(found);
    db.prepare_cached(sql::STEP_PUT)?.execute(params![
        id,
        name,
        now.as_micros(),
        result.as_str()
    ])?;
    Ok(StepAnswer::Saved)
}

pub(crate) fn steps(db: &Connection, job: JobId) -> Outcome<Vec<StepView>> {
    let mut steps = all(db, sql::STEPS, [job.as_bytes()], rows::step)?;
    // They come by name, and a stable sort keeps them so where instants are equal.
    steps.sort_by_key(|step| step.at);
    Ok(steps)
}

pub(crate) fn write_log(db: &Connection, now: Timestamp, lines: &[LogLine]) -> Outcome<Timestamp> {
    let mut insert = db.prepare_cached(sql::LOG_INSERT)?;
    for line in lines {
        let kept = line.kept(now);
        insert.execute(params![
            line.job.as_bytes(),
            kept.attempt,
            kept.number,
            kept.level.code(),
            kept.at.as_micros(),
            kept.text,
        ])?;
    }
    Ok(now)
}
