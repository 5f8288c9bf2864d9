//! What people look at.

use punctual_core::job::{AttemptOutcome, JobState};
use punctual_core::{JobId, ScheduleId};
use punctual_store::{
    AttemptView, AuditCursor, AuditView, Cursor, JobDetail, JobFilter, JobView, Json, Page,
    RollupCount, RollupFilter, Schedule, SlotCursor, SlotView, limits,
};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Params, Row, params, params_from_iter};

use crate::error::Outcome;
use crate::rows::{self, Read};
use crate::sql;

/// All rows of a statement.
pub(crate) fn all<T>(
    db: &Connection,
    statement: &str,
    bound: impl Params,
    read: impl FnMut(&Row) -> Read<T>,
) -> Outcome<Vec<T>> {
    Ok(db.prepare_cached(statement)?.query_map(bound, read)?.collect::<Read<_>>()?)
}

/// How many rows a page of this size reads: one more, to know whether there is a next.
fn page_rows(most: usize) -> i64 {
    rows::rows(most.clamp(1, limits::PAGE_MAX) + 1)
}

pub(crate) fn schedules(
    db: &Connection,
    tenant: &str,
    after: Option<&str>,
    most: usize,
) -> Outcome<Vec<Schedule>> {
    let most = rows::rows(most.min(limits::PAGE_MAX));
    all(db, sql::SCHEDULES, params![tenant, after.unwrap_or(""), most], rows::schedule)
}

pub(crate) fn slots(
    db: &Connection,
    id: ScheduleId,
    after: Option<SlotCursor>,
    most: usize,
) -> Outcome<Page<SlotView, SlotCursor>> {
    let (slot, run) =
        after.map_or((i64::MAX, i32::MAX), |SlotCursor(slot, run)| (slot.as_micros(), run));
    let views =
        all(db, sql::SLOTS, params![id.as_bytes(), slot, run, page_rows(most)], rows::slot)?;
    Ok(Page::take(views.into_iter(), most, |view| SlotCursor(view.slot, view.run)))
}

pub(crate) fn audits(
    db: &Connection,
    after: Option<AuditCursor>,
    most: usize,
) -> Outcome<Page<AuditView, AuditCursor>> {
    let before = after.map_or(i64::MAX, |AuditCursor(id)| id);
    let views = all(db, sql::AUDITS, params![before, page_rows(most)], rows::audit)?;
    Ok(Page::take(views.into_iter(), most, |view| AuditCursor(view.id)))
}

pub(crate) fn rollups(db: &Connection, filter: &RollupFilter) -> Outcome<Vec<RollupCount>> {
    let asked = params![filter.from.as_micros(), filter.to.as_micros(), filter.metric];
    all(db, sql::ROLLUPS, asked, rows::rollup)
}

pub(crate) fn jobs(
    db: &Connection,
    filter: &JobFilter,
    after: Option<Cursor>,
    most: usize,
) -> Outcome<Page<JobView, Cursor>> {
    let Some((statement, mut bound)) = jobs_statement(filter, after) else {
        return Ok(Page { items: Vec::new(), next: None });
    };
    bound[0] = Value::Integer(page_rows(most));
    let views = all(db, &statement, params_from_iter(bound), rows::job_view)?;
    Ok(Page::take(views.into_iter(), most, |view| filter.cursor(view)))
}

/// What a list of jobs is driven by: the table and index that hold the fewest jobs which are
/// not asked for.
struct Driver {
    from: String,
    /// The column that the list is ordered by.
    order: &'static str,
    /// What holds for the state that is asked for.
    state: Option<String>,
}

/// The list for a filter, with its parameters, of which the first is the number of rows; none
/// if no job can be in that state.
pub(crate) fn jobs_statement(
    filter: &JobFilter,
    after: Option<Cursor>,
) -> Option<(String, Vec<Value>)> {
    let driver = driver(filter)?;
    let mut terms = vec!["1".to_owned()];
    let mut bound = vec![Value::Null];
    let mut term = |text: &str, values: Vec<Value>| {
        let mut text = text.to_owned();
        for value in values {
            bound.push(value);
            text = text.replacen("?_", &format!("?{}", bound.len()), 1);
        }
        terms.push(text);
    };
    let text = |text: &String| vec![Value::Text(text.clone())];
    if let Some(queue) = &filter.queue {
        term("j.queue = ?_", text(queue));
    }
    if let Some(kind) = &filter.kind {
        term("j.kind = ?_", text(kind));
    }
    if let Some(tenant) = &filter.tenant {
        term("j.tenant = ?_", text(tenant));
    }
    if let Some(schedule) = &filter.schedule {
        term("j.schedule = ?_", vec![Value::Blob(schedule.as_bytes().to_vec())]);
    }
    if let Some(tag) = &filter.tag {
        term("EXISTS (SELECT 1 FROM json_each(j.tags) WHERE value = ?_)", text(tag));
    }
    if let Some(Cursor { ended, job }) = after {
        let job = Value::Blob(job.as_bytes().to_vec());
        match ended.filter(|_| filter.is_by_end()) {
            None => term(&format!("{} < ?_", driver.order), vec![job]),
            Some(ended) => {
                let ended = Value::Integer(ended.as_micros());
                term("(s.finished_at, s.job) < (?_, ?_)", vec![ended, job]);
            }
        }
    }
    if filter.tenant.as_ref().is_some_and(|tenant| !tenant.is_empty()) {
        terms.push("j.tenant <> ''".to_owned());
    }
    terms.extend(driver.state);
    let order = match filter.is_by_end() {
        true => format!("s.finished_at DESC, {}", driver.order),
        false => driver.order.to_owned(),
    };
    let statement = sql::JOBS
        .replace("{from}", &driver.from)
        .replace("{where}", &terms.join("\n  AND "))
        .replace("{order}", &order);
    Some((statement, bound))
}

fn driver(filter: &JobFilter) -> Option<Driver> {
    if matches!(filter.state, Some(JobState::Blocked | JobState::Skipped)) {
        return None;
    }
    let has_tenant = filter.tenant.as_ref().is_some_and(|tenant| !tenant.is_empty());
    let has_body_index = filter.queue.is_some() || filter.schedule.is_some() || has_tenant;
    match filter.state {
        // Few jobs fail, and they are listed by when they did.
        Some(JobState::Failed) => return Some(by_state(JobState::Failed)),
        // A schedule has few jobs, whatever their state.
        _ if filter.schedule.is_some() => {}
        // Most jobs of any filter have ended well: the body's index is the better one.
        Some(JobState::Succeeded | JobState::Cancelled) if has_body_index => {}
        Some(state) => return Some(by_state(state)),
        None => {}
    }
    let from = if filter.schedule.is_some() {
        "punctual_job AS j INDEXED BY punctual_job_by_schedule"
    } else if filter.queue.is_some() {
        "punctual_job AS j INDEXED BY punctual_job_by_queue"
    } else if has_tenant {
        "punctual_job AS j INDEXED BY punctual_job_by_tenant"
    } else {
        "punctual_job AS j"
    };
    // `coalesce` keeps SQLite from turning the joins around.
    let state = filter.state.map(|state| match state {
        JobState::Ready => "coalesce(r.attempt, -1) >= 0".to_owned(),
        JobState::Scheduled => "coalesce(t.attempt, -1) = 0".to_owned(),
        JobState::Retrying => "coalesce(t.attempt, -1) > 0".to_owned(),
        JobState::Running => "coalesce(l.attempt, -1) >= 0".to_owned(),
        ended => format!("coalesce(d.outcome, -1) = {}", rows::end_code(ended)),
    });
    Some(Driver { from: from.to_owned(), order: "j.id", state })
}

/// The list of one state is driven by the table of that state.
fn by_state(state: JobState) -> Driver {
    let (table, term) = match state {
        JobState::Ready => ("ready AS s INDEXED BY punctual_job_ready_job", None),
        JobState::Scheduled => {
            ("timer AS s INDEXED BY punctual_job_timer_job", Some("s.attempt = 0".to_owned()))
        }
        JobState::Retrying => {
            ("timer AS s INDEXED BY punctual_job_timer_job", Some("s.attempt > 0".to_owned()))
        }
        JobState::Running => ("lease AS s", None),
        JobState::Failed => {
            ("done AS s INDEXED BY punctual_job_done_died", Some("s.outcome = 2".to_owned()))
        }
        ended => ("done AS s", Some(format!("s.outcome = {}", rows::end_code(ended)))),
    };
    Driver {
        from: format!("punctual_job_{table}\nCROSS JOIN punctual_job AS j ON j.id = s.job"),
        order: "s.job",
        state: term,
    }
}

pub(crate) fn job(db: &Connection, id: JobId) -> Outcome<Option<JobDetail>> {
    let mut statement = db.prepare_cached(sql::JOB)?;
    let found = statement.query_row([id.as_bytes()], read_detail).optional()?;
    let Some((mut detail, last)) = found else { return Ok(None) };
    detail.attempts = all(db, sql::ATTEMPTS, [id.as_bytes()], read_attempt)?;
    detail.attempts.extend(last);
    Ok(Some(detail))
}

fn read_attempt(row: &Row) -> Read<AttemptView> {
    Ok(AttemptView {
        attempt: row.get(0)?,
        node: Some(rows::node_id(row, 1)?),
        claimed_at: rows::instant(row, 2)?,
        ended_at: Some(rows::instant(row, 3)?),
        outcome: Some(rows::attempt_outcome(row, 4)?),
        error: row.get(5)?,
    })
}

/// A job without its earlier attempts, and the attempt that is under way or that succeeded.
fn read_detail(row: &Row) -> Read<(JobDetail, Option<AttemptView>)> {
    let view = rows::job_view(row)?;
    let claimed_at = rows::instant_opt(row, 26)?;
    let outcome = match view.state {
        JobState::Succeeded => Some(AttemptOutcome::Succeeded),
        _ => None,
    };
    let is_last = matches!(view.state, JobState::Running | JobState::Succeeded);
    let last = match claimed_at.filter(|_| is_last) {
        None => None,
        Some(claimed_at) => Some(AttemptView {
            attempt: view.attempt,
            node: row.get::<_, Option<[u8; 16]>>(25)?.map(punctual_core::NodeId::from_bytes),
            claimed_at,
            ended_at: view.finished_at,
            outcome,
            error: None,
        }),
    };
    let detail = JobDetail {
        owner: row.get(19)?,
        payload: rows::json(row, 28)?,
        result: row.get::<_, Option<String>>(27)?.map(Json::from_canonical),
        tags: rows::list(row, 20)?,
        trace: row.get(21)?,
        spent: row.get(22)?,
        crashes: row.get(23)?,
        cancel_asked: row.get(24)?,
        progress: rows::progress(row, 29)?,
        attempts: Vec::new(),
        view,
    };
    Ok((detail, last))
}
