//! What handlers note: steps and logs.

use std::borrow::Cow;

use punctual_core::{JobId, LeaseId, Timestamp};
use punctual_store::{At, Json, LogLine, StepAnswer, StepView, limits, rules};
use uuid::Uuid;

use crate::connection::{Bound, Conn, first};
use crate::error::Outcome;
use crate::lists::all;
use crate::rows::{self, Instant};
use crate::sql;

/// The lease is locked first, so that what is looked at next stays so.
pub(crate) async fn save_step(
    conn: &mut Conn,
    at: At,
    job: JobId,
    lease: LeaseId,
    name: &str,
    result: &Json,
) -> Outcome<StepAnswer> {
    let bound: Bound<'_> = &[&rows::at(at), &job.as_uuid(), &lease.as_uuid()];
    let held = conn.begin_with(&sql::LEASE_HOLD, bound).await?;
    let Some(row) = held.first() else {
        conn.rollback().await?;
        return Ok(StepAnswer::Fenced);
    };
    let now = Instant(rows::instant(row, 0)?);
    let most = rows::count(limits::STEPS_MAX);
    let bound: Bound<'_> = &[&job.as_uuid(), &name, &now, &result.as_str(), &most];
    let saved = conn.commit_with(&sql::STEP_SAVE, bound).await?;
    let row = first(saved, "step_save")?;
    match (rows::get::<Option<String>>(&row, 0)?, rows::get(&row, 1)?) {
        (Some(kept), _) => Ok(StepAnswer::Already(Json::from_canonical(kept))),
        (None, true) => Ok(StepAnswer::Saved),
        (None, false) => Err(rules::too_many_steps(job).into()),
    }
}

pub(crate) async fn steps(conn: &mut Conn, job: JobId) -> Outcome<Vec<StepView>> {
    let mut steps = all(conn, &sql::STEPS, &[&job.as_uuid()], rows::step).await?;
    // They come by name, and a stable sort keeps them so where instants are equal.
    steps.sort_by_key(|step| step.at);
    Ok(steps)
}

pub(crate) async fn write_log(conn: &mut Conn, at: At, lines: &[LogLine]) -> Outcome<Timestamp> {
    // Within the bounds both fit.
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let jobs: Vec<Uuid> = lines.iter().map(|line| line.job.as_uuid()).collect();
    let attempts: Vec<i32> = lines.iter().map(|line| number(line.attempt)).collect();
    let numbers: Vec<i32> = lines.iter().map(|line| number(line.number)).collect();
    let levels: Vec<i16> = lines.iter().map(|line| line.level.code()).collect();
    let texts: Vec<Cow<'_, str>> = lines
        .iter()
        .map(|line| rows::text(limits::cut(&line.text, limits::LOG_LINE_BYTES_MAX)))
        .collect();
    let bound: Bound<'_> = &[&rows::at(at), &jobs, &attempts, &numbers, &levels, &texts];
    rows::instant(&conn.query_one(&sql::LOG_INSERT, bound).await?, 0)
}
