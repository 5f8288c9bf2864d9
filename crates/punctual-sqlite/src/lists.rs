//! What people look at.

use punctual_core::job::{AttemptOutcome, JobState};
use punctual_core::{JobId, ScheduleId};
use punctual_store::{
    AttemptView, AuditCursor, AuditView, Cursor, JobDetail, JobFilter, JobView, Json, Page,
    RevisionCursor, RevisionView, RollupCount, RollupCursor, RollupFilter, Schedule, SlotCursor,
    SlotView, limits,
};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Params, Row, params, params_from_iter};

use crate::error::Outcome;
use crate::rows::{self, Read};
use crate::sql;

/// All rows of a statement that can be read.
pub(crate) fn all<T>(
    db: &Connection,
    statement: &str,
    bound: impl Params,
    read: impl Fn(&Row) -> Read<T>,
) -> Outcome<Vec<T>> {
    let mut statement = db.prepare_cached(statement)?;
    let mut found = statement.query(bound)?;
    let mut items = Vec::new();
    while let Some(row) = found.next()? {
        items.extend(read(row).ok());
    }
    Ok(items)
}

/// The first `most` rows of a statement, without those that cannot be read, and where to go on. The
/// statement is asked for one row more, to know whether there is any.
fn page<T, C>(
    db: &Connection,
    statement: &str,
    bound: impl Params,
    most: usize,
    cursor: impl Fn(&Row) -> Read<C>,
    read: impl Fn(&Row) -> Read<Option<T>>,
) -> Outcome<Page<T, C>> {
    let mut statement = db.prepare_cached(statement)?;
    let mut found = statement.query(bound)?;
    let (mut items, mut last) = (Vec::new(), None);
    for _ in 0..page_size(most) {
        let Some(row) = found.next()? else { return Ok(Page { items, next: None }) };
        last = Some(cursor(row)?);
        items.extend(read(row).ok().flatten());
    }
    let next = if found.next()?.is_some() { last } else { None };
    Ok(Page { items, next })
}

fn page_size(most: usize) -> usize {
    most.clamp(1, limits::PAGE_MAX)
}

/// How many rows a page of this size reads.
fn page_rows(most: usize) -> i64 {
    rows::rows(page_size(most) + 1)
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
    let bound = params![id.as_bytes(), slot, run, page_rows(most)];
    let cursor = |row: &Row| Ok(SlotCursor(rows::instant(row, 0)?, row.get(1)?));
    page(db, sql::SLOTS, bound, most, cursor, |row| rows::slot(row).map(Some))
}

pub(crate) fn audits(
    db: &Connection,
    after: Option<AuditCursor>,
    most: usize,
) -> Outcome<Page<AuditView, AuditCursor>> {
    let before = after.map_or(i64::MAX, |AuditCursor(id)| id);
    let bound = params![before, page_rows(most)];
    let cursor = |row: &Row| Ok(AuditCursor(row.get(0)?));
    page(db, sql::AUDITS, bound, most, cursor, |row| rows::audit(row).map(Some))
}

pub(crate) fn revisions(
    db: &Connection,
    id: ScheduleId,
    after: Option<RevisionCursor>,
    most: usize,
) -> Outcome<Page<RevisionView, RevisionCursor>> {
    let before = after.map_or(i64::MAX, |RevisionCursor(revision)| revision);
    let bound = params![id.as_bytes(), before, page_rows(most)];
    let cursor = |row: &Row| Ok(RevisionCursor(row.get(0)?));
    page(db, sql::REVISIONS, bound, most, cursor, |row| rows::revision(row).map(Some))
}

pub(crate) fn rollups(
    db: &Connection,
    filter: &RollupFilter,
    after: Option<RollupCursor>,
    most: usize,
) -> Outcome<Page<RollupCount, RollupCursor>> {
    // No metric is empty, so that nothing stands before the first of a minute.
    let after = after.filter(|after| after.minute >= filter.from).unwrap_or(RollupCursor {
        minute: filter.from,
        metric: String::new(),
        queue: String::new(),
        kind: String::new(),
    });
    let bound = params![
        after.minute.as_micros(),
        after.metric,
        after.queue,
        after.kind,
        filter.to.as_micros(),
        filter.metric,
        page_rows(most),
    ];
    let cursor = |row: &Row| Ok(rows::rollup(row)?.cursor());
    page(db, sql::ROLLUPS, bound, most, cursor, |row| rows::rollup(row).map(Some))
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
    let cursor = |row: &Row| {
        let ended = if filter.is_by_end() { rows::instant_opt(row, 17)? } else { None };
        Ok(Cursor { ended, job: rows::job_id(row, 0)? })
    };
    page(db, &statement, params_from_iter(bound), most, cursor, rows::job_view)
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
        // Only a CASE promises that what is no JSON is not looked at.
        let has_tag = "CASE WHEN json_valid(j.tags)
    THEN EXISTS (SELECT 1 FROM json_each(j.tags) WHERE value = ?_) END";
        term(has_tag, text(tag));
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
        JobState::Ready => "coalesce(r.job, '') <> ''".to_owned(),
        JobState::Scheduled => "coalesce(t.attempt, 1) <= 0".to_owned(),
        JobState::Retrying => "coalesce(t.attempt, 0) > 0".to_owned(),
        JobState::Running => "coalesce(l.job, '') <> ''".to_owned(),
        ended => format!("coalesce(d.outcome, -1) = {}", rows::end_code(ended)),
    });
    Some(Driver { from: from.to_owned(), order: "j.id", state })
}

/// The list of one state is driven by the table of that state.
fn by_state(state: JobState) -> Driver {
    let (table, term) = match state {
        JobState::Ready => ("ready AS s INDEXED BY punctual_job_ready_job", None),
        JobState::Scheduled => {
            ("timer AS s INDEXED BY punctual_job_timer_job", Some("s.attempt <= 0".to_owned()))
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
    let found = statement.query_row([id.as_bytes()], read_detail).optional()?.flatten();
    let Some((mut detail, last)) = found else { return Ok(None) };
    detail.attempts = all(db, sql::ATTEMPTS, [id.as_bytes()], read_attempt)?;
    detail.attempts.extend(last);
    Ok(Some(detail))
}

fn read_attempt(row: &Row) -> Read<AttemptView> {
    Ok(AttemptView {
        attempt: row.get(0)?,
        node: rows::node_id(row, 1).ok(),
        claimed_at: rows::instant(row, 2)?,
        ended_at: Some(rows::instant(row, 3)?),
        outcome: rows::attempt_outcome(row, 4),
        error: rows::text_opt(row, 5),
    })
}

/// A job without its earlier attempts, as far as it can be read, and the attempt that is under way
/// or that succeeded.
fn read_detail(row: &Row) -> Read<Option<(JobDetail, Option<AttemptView>)>> {
    let Some(view) = rows::job_view(row)? else { return Ok(None) };
    let outcome = match view.state {
        JobState::Succeeded => Some(AttemptOutcome::Succeeded),
        _ => None,
    };
    let is_last = matches!(view.state, JobState::Running | JobState::Succeeded);
    let last = rows::instant_opt(row, 26)?.filter(|_| is_last).map(|claimed_at| AttemptView {
        attempt: view.attempt,
        node: rows::node_id(row, 25).ok(),
        claimed_at,
        ended_at: view.finished_at,
        outcome,
        error: None,
    });
    let detail = JobDetail {
        owner: rows::text(row, 19),
        payload: rows::json(row, 28).unwrap_or_else(|_| Json::null()),
        result: rows::or_none(row, 27).map(Json::from_canonical),
        tags: rows::list(row, 20).unwrap_or_default(),
        trace: rows::text_opt(row, 21),
        spent: rows::or_none(row, 22).unwrap_or(0),
        crashes: rows::or_none(row, 23).unwrap_or(0),
        cancel_asked: row.get(24)?,
        progress: rows::progress(row, 29)?,
        attempts: Vec::new(),
        view,
    };
    Ok(Some((detail, last)))
}
