//! What people look at.

use punctual_core::job::{AttemptOutcome, JobState};
use punctual_core::{JobId, ScheduleId};
use punctual_store::{
    AttemptView, AuditCursor, AuditView, Cursor, Hold, JobDetail, JobFilter, JobView, Json,
    LogCursor, LogView, Page, Pager, RevisionCursor, RevisionView, RollupCount, RollupCursor,
    RollupFilter, Schedule, SlotCursor, SlotView, Source, limits,
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

/// A page of the rows of a statement, which has them in order and is read no further than needed.
/// A row whose place in the list cannot be read is left out, and so is one that `read` has nothing
/// to show of.
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
    let mut pager = Pager::new(most);
    while let Some(row) = found.next()? {
        if let Ok(cursor) = cursor(row)
            && !pager.take(cursor, read(row).ok().flatten())
        {
            break;
        }
    }
    Ok(pager.page())
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

pub(crate) fn schedules_of(
    db: &Connection,
    tenant: &str,
    set: &str,
    after: Option<&str>,
    most: usize,
) -> Outcome<Vec<Schedule>> {
    let most = rows::rows(most.min(limits::PAGE_MAX));
    let bound = params![tenant, set, after.unwrap_or(""), most];
    all(db, sql::SCHEDULES_OF, bound, rows::schedule)
}

pub(crate) fn log(
    db: &Connection,
    job: JobId,
    after: Option<LogCursor>,
    most: usize,
) -> Outcome<Page<LogView, LogCursor>> {
    // Both count from 1.
    let at = after.unwrap_or(LogCursor(0, 0));
    log_page(db, sql::LOG, job, at, most)
}

pub(crate) fn newest_log(
    db: &Connection,
    job: JobId,
    before: Option<LogCursor>,
    most: usize,
) -> Outcome<Page<LogView, LogCursor>> {
    let at = before.unwrap_or(LogCursor(u32::MAX, u32::MAX));
    log_page(db, sql::LOG_NEWEST, job, at, most)
}

fn log_page(
    db: &Connection,
    statement: &str,
    job: JobId,
    LogCursor(attempt, number): LogCursor,
    most: usize,
) -> Outcome<Page<LogView, LogCursor>> {
    let bound = params![job.as_bytes(), attempt, number];
    let cursor = |row: &Row| Ok(LogCursor(row.get(0)?, row.get(1)?));
    page(db, statement, bound, most, cursor, |row| rows::log_line(row).map(Some))
}

pub(crate) fn slots(
    db: &Connection,
    id: ScheduleId,
    after: Option<SlotCursor>,
    most: usize,
) -> Outcome<Page<SlotView, SlotCursor>> {
    let (slot, run) =
        after.map_or((i64::MAX, i32::MAX), |SlotCursor(slot, run)| (slot.as_micros(), run));
    let bound = params![id.as_bytes(), slot, run];
    let cursor = |row: &Row| Ok(SlotCursor(rows::instant(row, 0)?, row.get(1)?));
    page(db, sql::SLOTS, bound, most, cursor, |row| rows::slot(row).map(Some))
}

pub(crate) fn audits(
    db: &Connection,
    after: Option<AuditCursor>,
    most: usize,
) -> Outcome<Page<AuditView, AuditCursor>> {
    let before = after.map_or(i64::MAX, |AuditCursor(id)| id);
    let cursor = |row: &Row| Ok(AuditCursor(row.get(0)?));
    page(db, sql::AUDITS, [before], most, cursor, |row| rows::audit(row).map(Some))
}

pub(crate) fn revisions(
    db: &Connection,
    id: ScheduleId,
    after: Option<RevisionCursor>,
    most: usize,
) -> Outcome<Page<RevisionView, RevisionCursor>> {
    let before = after.map_or(i64::MAX, |RevisionCursor(revision)| revision);
    let bound = params![id.as_bytes(), before];
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
    ];
    let cursor = |row: &Row| Ok(rows::rollup(row)?.cursor());
    let asked = |row: &Row| Ok(Some(rows::rollup(row)?).filter(|_| row.get(6) == Ok(true)));
    page(db, sql::ROLLUPS, bound, most, cursor, asked)
}

pub(crate) fn jobs(
    db: &Connection,
    filter: &JobFilter,
    after: Option<Cursor>,
    most: usize,
) -> Outcome<Page<JobView, Cursor>> {
    let source = filter.source();
    let (statement, bound) = jobs_statement(source, filter, after);
    let cursor = |row: &Row| {
        let ended = if filter.is_by_end() { rows::instant_opt(row, 19)? } else { None };
        Ok(Cursor { ended, job: rows::job_id(row, 0)? })
    };
    let asked = |row: &Row| match row.get(21)? {
        Some(true) => rows::job_view(row),
        _ => Ok(None),
    };
    page(db, &statement, params_from_iter(bound), most, cursor, asked)
}

/// Terms of a statement, and the values that are bound to it.
#[derive(Default)]
struct Terms {
    terms: Vec<String>,
    bound: Vec<Value>,
}

impl Terms {
    /// Adds a term, in which `?_` stands for the next value.
    fn add(&mut self, term: &str, values: impl IntoIterator<Item = Value>) {
        let mut term = term.to_owned();
        for value in values {
            self.bound.push(value);
            term = term.replacen("?_", &format!("?{}", self.bound.len()), 1);
        }
        self.terms.push(term);
    }

    /// All terms so far as one, which holds if there is none.
    fn all(&mut self) -> String {
        let terms = std::mem::take(&mut self.terms);
        if terms.is_empty() { "1".to_owned() } else { terms.join("\n  AND ") }
    }
}

/// The list for a filter, with its values. What it goes through is in the order of an index; the
/// rest of the filter is a column, so that whoever reads knows how many rows were passed over.
pub(crate) fn jobs_statement(
    source: Source,
    filter: &JobFilter,
    after: Option<Cursor>,
) -> (String, Vec<Value>) {
    let mut terms = Terms::default();
    let from = drive(source, &mut terms);
    let (from, order) = match from {
        From::Body(index) => (format!("punctual_job AS j{index}"), "j.id"),
        From::Place(table) => {
            let place = format!("punctual_job_{table}");
            (format!("{place}\nCROSS JOIN punctual_job AS j ON j.id = s.job"), "s.job")
        }
    };
    if let Some(Cursor { ended, job }) = after {
        let job = Value::Blob(job.as_bytes().to_vec());
        match ended.filter(|_| filter.is_by_end()) {
            None => terms.add(&format!("{order} < ?_"), [job]),
            Some(ended) => {
                let ended = Value::Integer(ended.as_micros());
                terms.add("(s.finished_at, s.job) < (?_, ?_)", [ended, job]);
            }
        }
    }
    let within = terms.all();
    ask(filter, &mut terms);
    let order = match filter.is_by_end() {
        true => format!("s.finished_at DESC, {order}"),
        false => order.to_owned(),
    };
    let statement = sql::JOBS
        .replace("{asked}", &terms.all())
        .replace("{from}", &from)
        .replace("{within}", &within)
        .replace("{order}", &order);
    (statement, terms.bound)
}

/// What a list is read from.
enum From {
    /// The bodies, by this index.
    Body(&'static str),
    /// The table of one place, and its index.
    Place(&'static str),
}

/// What a list goes through, and what holds for all of it.
fn drive(source: Source, terms: &mut Terms) -> From {
    let text = |text: &str| [Value::Text(text.to_owned())];
    match source {
        Source::All => From::Body(""),
        Source::Schedule(schedule) => {
            terms.add("j.schedule = ?_", [Value::Blob(schedule.as_bytes().to_vec())]);
            From::Body(" INDEXED BY punctual_job_by_schedule")
        }
        Source::Queue(queue) => {
            terms.add("j.queue = ?_", text(queue));
            From::Body(" INDEXED BY punctual_job_by_queue")
        }
        Source::Tenant(tenant) => {
            terms.add("j.tenant = ?_ AND j.tenant <> ''", text(tenant));
            From::Body(" INDEXED BY punctual_job_by_tenant")
        }
        Source::Ready => From::Place("ready AS s INDEXED BY punctual_job_ready_job"),
        Source::Timers => From::Place("timer AS s INDEXED BY punctual_job_timer_job"),
        Source::Blocked => From::Place("wait AS s INDEXED BY punctual_job_wait_job"),
        Source::Running => From::Place("lease AS s"),
        Source::Ended => From::Place("done AS s"),
        Source::Failed => {
            terms.add("s.outcome = 2", []);
            From::Place("done AS s INDEXED BY punctual_job_done_died")
        }
        Source::Cancelled => {
            terms.add("s.outcome = 3", []);
            From::Place("done AS s INDEXED BY punctual_job_done_cancelled")
        }
    }
}

/// What a filter asks for, as terms about one row.
fn ask(filter: &JobFilter, terms: &mut Terms) {
    let text = |text: &String| [Value::Text(text.clone())];
    if let Some(state) = filter.state {
        match state {
            JobState::Ready => terms.add("r.job IS NOT NULL", []),
            JobState::Scheduled => terms.add("t.attempt <= 0", []),
            JobState::Retrying => terms.add("t.attempt > 0", []),
            JobState::Blocked => terms.add("w.job IS NOT NULL", []),
            JobState::Running => terms.add("l.job IS NOT NULL", []),
            ended => terms.add("d.outcome = ?_", [Value::Integer(rows::end_code(ended))]),
        }
    }
    if let Some(queue) = &filter.queue {
        terms.add("j.queue = ?_", text(queue));
    }
    if let Some(kind) = &filter.kind {
        terms.add("j.kind = ?_", text(kind));
    }
    if let Some(tenant) = &filter.tenant {
        terms.add("j.tenant = ?_", text(tenant));
    }
    if let Some(schedule) = &filter.schedule {
        terms.add("j.schedule = ?_", [Value::Blob(schedule.as_bytes().to_vec())]);
    }
    if let Some(tag) = &filter.tag {
        // Only a CASE promises that what is no JSON is not looked at.
        let has_tag = "CASE WHEN json_valid(j.tags)
    THEN EXISTS (SELECT 1 FROM json_each(j.tags) WHERE value = ?_) END";
        terms.add(has_tag, text(tag));
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

fn read_hold(row: &Row) -> Option<Hold> {
    let lease = rows::lease_id(row, 34).ok()?;
    let [timeout, budget] = [rows::length_opt(row, 35).ok()?, rows::length_opt(row, 36).ok()?];
    Some(Hold { lease, timeout, budget, fresh_after: rows::or_none(row, 37)? })
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
    let last = rows::instant_opt(row, 28)?.filter(|_| is_last).map(|claimed_at| AttemptView {
        attempt: view.attempt,
        node: rows::node_id(row, 27).ok(),
        claimed_at,
        ended_at: view.finished_at,
        outcome,
        error: None,
    });
    let detail = JobDetail {
        owner: rows::text(row, 21),
        payload: rows::json(row, 30).unwrap_or_else(|_| Json::null()),
        result: rows::or_none(row, 29).map(Json::from_canonical),
        tags: rows::list(row, 22).unwrap_or_default(),
        trace: rows::text_opt(row, 23),
        spent: rows::or_none(row, 24).unwrap_or(0),
        crashes: rows::or_none(row, 25).unwrap_or(0),
        expires_at: rows::instant_opt(row, 38)?,
        cancel_requested: row.get(26)?,
        progress: rows::progress(row, 31)?,
        hold: read_hold(row),
        attempts: Vec::new(),
        view,
    };
    Ok(Some((detail, last)))
}
