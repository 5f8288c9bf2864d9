//! What people look at.

use punctual_core::job::{AttemptOutcome, JobState};
use punctual_core::{JobId, LeaseId, NodeId, ScheduleId, Timestamp};
use punctual_store::{
    AttemptView, AuditCursor, AuditView, Cursor, Hold, JobDetail, JobFilter, JobView, Json,
    LogCursor, LogView, Page, Pager, RevisionCursor, RevisionView, RollupCount, RollupCursor,
    RollupFilter, Schedule, SlotCursor, SlotView, Source, limits,
};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::connection::{Bound, Conn};
use crate::error::Outcome;
use crate::rows::{self, Instant, Read};
use crate::sql::{self, Statement};

/// All rows of a statement.
pub(crate) async fn all<T>(
    conn: &mut Conn,
    statement: &Statement,
    bound: Bound<'_>,
    read: impl Fn(&Row) -> Read<T>,
) -> Outcome<Vec<T>> {
    conn.query(statement, bound).await?.iter().map(read).collect()
}

/// How many rows a page of this size reads: one more, to know whether there is a next.
pub(crate) fn page_rows(most: usize) -> i64 {
    rows::count(most.clamp(1, limits::PAGE_MAX) + 1)
}

pub(crate) async fn schedules(
    conn: &mut Conn,
    tenant: &str,
    after: Option<&str>,
    most: usize,
) -> Outcome<Vec<Schedule>> {
    let most = rows::count(most.min(limits::PAGE_MAX));
    let after = after.unwrap_or_default();
    all(conn, &sql::SCHEDULES, &[&tenant, &after, &most], rows::schedule).await
}

pub(crate) async fn schedules_of(
    conn: &mut Conn,
    tenant: &str,
    set: &str,
    after: Option<&str>,
    most: usize,
) -> Outcome<Vec<Schedule>> {
    let most = rows::count(most.min(limits::PAGE_MAX));
    let after = after.unwrap_or_default();
    all(conn, &sql::SCHEDULES_OF, &[&tenant, &set, &after, &most], rows::schedule).await
}

pub(crate) async fn log(
    conn: &mut Conn,
    job: JobId,
    after: Option<LogCursor>,
    most: usize,
) -> Outcome<Page<LogView, LogCursor>> {
    // Both count from 1.
    let at = after.unwrap_or(LogCursor(0, 0));
    log_page(conn, &sql::LOG, job, at, most).await
}

pub(crate) async fn newest_log(
    conn: &mut Conn,
    job: JobId,
    before: Option<LogCursor>,
    most: usize,
) -> Outcome<Page<LogView, LogCursor>> {
    let at = before.unwrap_or(LogCursor(u32::MAX, u32::MAX));
    log_page(conn, &sql::LOG_NEWEST, job, at, most).await
}

async fn log_page(
    conn: &mut Conn,
    statement: &'static Statement,
    job: JobId,
    LogCursor(attempt, line): LogCursor,
    most: usize,
) -> Outcome<Page<LogView, LogCursor>> {
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let bound: Bound<'_> = &[&job.as_uuid(), &number(attempt), &number(line), &page_rows(most)];
    let views = all(conn, statement, bound, rows::log_line).await?;
    Ok(Page::take(views.into_iter(), most, LogView::cursor))
}

pub(crate) async fn slots(
    conn: &mut Conn,
    id: ScheduleId,
    after: Option<SlotCursor>,
    most: usize,
) -> Outcome<Page<SlotView, SlotCursor>> {
    let SlotCursor(slot, run) = after.unwrap_or(SlotCursor(Timestamp::MAX, i32::MAX));
    let bound: Bound<'_> = &[&id.as_uuid(), &Instant(slot), &run, &page_rows(most)];
    let views = all(conn, &sql::SLOTS, bound, rows::slot).await?;
    Ok(Page::take(views.into_iter(), most, |view| SlotCursor(view.slot, view.run)))
}

pub(crate) async fn audits(
    conn: &mut Conn,
    after: Option<AuditCursor>,
    most: usize,
) -> Outcome<Page<AuditView, AuditCursor>> {
    let before = after.map_or(i64::MAX, |AuditCursor(id)| id);
    let views = all(conn, &sql::AUDITS, &[&before, &page_rows(most)], rows::audit).await?;
    Ok(Page::take(views.into_iter(), most, |view| AuditCursor(view.id)))
}

pub(crate) async fn rollups(
    conn: &mut Conn,
    filter: &RollupFilter,
    after: Option<&RollupCursor>,
    most: usize,
) -> Outcome<Page<RollupCount, RollupCursor>> {
    // No metric's name is empty, so that this comes before all of the first minute.
    let start = RollupCursor {
        minute: filter.from,
        metric: String::new(),
        queue: String::new(),
        kind: String::new(),
    };
    let from = after.map_or(&start, |after| after.max(&start));
    let rows = match filter.metric {
        None => page_rows(most),
        Some(_) => rows::count(limits::EXAMINE_MAX + 1),
    };
    let bound: Bound<'_> =
        &[&Instant(from.minute), &from.metric, &from.queue, &from.kind, &Instant(filter.to), &rows];
    let mut pager = Pager::new(most);
    for count in all(conn, &sql::ROLLUPS, bound, rows::rollup).await? {
        let is_asked = filter.metric.as_ref().is_none_or(|asked| *asked == count.metric);
        if !pager.take(count.cursor(), Some(count).filter(|_| is_asked)) {
            break;
        }
    }
    Ok(pager.page())
}

pub(crate) async fn revisions(
    conn: &mut Conn,
    id: ScheduleId,
    after: Option<RevisionCursor>,
    most: usize,
) -> Outcome<Page<RevisionView, RevisionCursor>> {
    let before = after.map_or(i64::MAX, |RevisionCursor(revision)| revision);
    let bound: Bound<'_> = &[&id.as_uuid(), &before, &page_rows(most)];
    let views = all(conn, &sql::REVISIONS, bound, rows::revision).await?;
    Ok(Page::take(views.into_iter(), most, |view| RevisionCursor(view.revision)))
}

/// A value of a parameter, and its type.
type Value = (Box<dyn ToSql + Sync + Send>, Type);

/// A list of jobs as a statement, with the values of its parameters.
pub(crate) struct JobList {
    pub(crate) text: String,
    bound: Vec<Value>,
}

impl JobList {
    pub(crate) fn bound(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.bound.iter().map(|(value, of)| (&**value as &(dyn ToSql + Sync), of.clone())).collect()
    }
}

pub(crate) async fn jobs(
    conn: &mut Conn,
    filter: &JobFilter,
    after: Option<Cursor>,
    most: usize,
) -> Outcome<Page<JobView, Cursor>> {
    let most = most.clamp(1, limits::PAGE_MAX);
    let mut page = Page { items: Vec::new(), next: None };
    let source = filter.source();
    let list = job_list(conn.texts().schema(), source, filter, after, most);
    // By rows, not by items: a job that is nowhere is not shown, and must not hide those after it.
    for (seen, row) in conn.query_text(&list.text, &list.bound()).await?.iter().enumerate() {
        let number: i64 = rows::get(row, 21)?;
        if seen == most || number > rows::count(limits::EXAMINE_MAX) {
            let ended = rows::instant_opt(row, 23)?.filter(|_| filter.is_by_end());
            page.next = Some(Cursor { ended, job: rows::job_id(row, 22)? });
            break;
        }
        page.items.extend(rows::job_view(row)?);
    }
    Ok(page)
}

/// Terms of a statement, and the values that are bound to it.
struct Terms {
    terms: Vec<String>,
    bound: Vec<Value>,
}

impl Terms {
    /// Adds a term, in which `$_` stands for the next value.
    fn add(&mut self, term: &str, values: impl IntoIterator<Item = Value>) {
        let mut term = term.to_owned();
        for value in values {
            self.bound.push(value);
            term = term.replacen("$_", &format!("${}", self.bound.len()), 1);
        }
        self.terms.push(term);
    }

    /// All terms so far as one, which holds if there is none.
    fn all(&mut self) -> String {
        let terms = std::mem::take(&mut self.terms);
        if terms.is_empty() { "true".to_owned() } else { terms.join(" AND ") }
    }
}

fn text(text: &str) -> [Value; 1] {
    [(Box::new(text.to_owned()), Type::TEXT)]
}

/// The list for a filter, with its values. What it goes through is in the order of an index.
pub(crate) fn job_list(
    schema: &str,
    source: Source<'_>,
    filter: &JobFilter,
    after: Option<Cursor>,
    most: usize,
) -> JobList {
    let limits: [Value; 2] = [
        (Box::new(page_rows(most)), Type::INT8),
        (Box::new(rows::count(limits::EXAMINE_MAX + 1)), Type::INT8),
    ];
    let mut terms = Terms { terms: Vec::new(), bound: Vec::from(limits) };
    let (table, job) = go_through(source, &mut terms);
    let ended = if filter.is_by_end() { "finished_at" } else { "NULL::timestamptz" };
    if let Some(Cursor { ended, job: after }) = after {
        let after: Value = (Box::new(after.as_uuid()), Type::UUID);
        match ended.filter(|_| filter.is_by_end()) {
            None => terms.add(&format!("{job} < $_"), [after]),
            Some(ended) => {
                let ended: Value = (Box::new(Instant(ended)), Type::TIMESTAMPTZ);
                terms.add(&format!("(finished_at, {job}) < ($_, $_)"), [ended, after]);
            }
        }
    }
    let (order, line) = match filter.is_by_end() {
        true => ("s.ended DESC, s.job DESC", "ended DESC, job DESC"),
        false => ("s.job DESC", "job DESC"),
    };
    let source = format!(
        "SELECT {job} AS job, {ended} AS ended FROM {{schema}}.{table} WHERE {} ORDER BY {line}",
        terms.all()
    );
    ask(filter, &mut terms);
    let statement = sql::JOBS
        .text
        .replace("{source}", &source)
        .replace("{asked}", &terms.all())
        .replace("{line}", line)
        .replace("{order}", order);
    JobList { text: sql::qualify(&statement, schema), bound: terms.bound }
}

/// What a list goes through: a table, its column of the job, and what holds for all of it.
fn go_through(source: Source<'_>, terms: &mut Terms) -> (&'static str, &'static str) {
    match source {
        Source::All => ("job", "id"),
        Source::Schedule(schedule) => {
            terms.add("schedule = $_", [(Box::new(schedule.as_uuid()) as Box<_>, Type::UUID)]);
            ("job", "id")
        }
        Source::Queue(queue) => {
            terms.add("queue = $_", text(queue));
            ("job", "id")
        }
        Source::Tenant(tenant) => {
            terms.add("tenant = $_ AND tenant <> ''", text(tenant));
            ("job", "id")
        }
        Source::Ready => ("job_ready", "job"),
        Source::Timers => ("job_timer", "job"),
        Source::Blocked => ("job_wait", "job"),
        Source::Running => ("job_lease", "job"),
        Source::Ended => ("job_done", "job"),
        Source::Failed => {
            terms.add("outcome = 2", []);
            ("job_done", "job")
        }
        Source::Cancelled => {
            terms.add("outcome = 3", []);
            ("job_done", "job")
        }
    }
}

/// What a filter asks for, as terms about one row.
fn ask(filter: &JobFilter, terms: &mut Terms) {
    if let Some(state) = filter.state {
        match state {
            JobState::Ready => terms.add("r.job IS NOT NULL", []),
            JobState::Scheduled => terms.add("t.attempt <= 0", []),
            JobState::Retrying => terms.add("t.attempt > 0", []),
            JobState::Blocked => terms.add("w.job IS NOT NULL", []),
            JobState::Running => terms.add("l.job IS NOT NULL", []),
            ended => terms.add(&format!("d.outcome = {}", rows::end_code(ended)), []),
        }
    }
    if let Some(queue) = &filter.queue {
        terms.add("j.queue = $_", text(queue));
    }
    if let Some(kind) = &filter.kind {
        terms.add("j.kind = $_", text(kind));
    }
    if let Some(tenant) = &filter.tenant {
        terms.add("j.tenant = $_", text(tenant));
    }
    if let Some(schedule) = &filter.schedule {
        terms.add("j.schedule = $_", [(Box::new(schedule.as_uuid()) as Box<_>, Type::UUID)]);
    }
    if let Some(tag) = &filter.tag {
        terms.add("j.tags ? $_", text(tag));
    }
}

/// One job with its attempts, all of one moment.
pub(crate) async fn job(conn: &mut Conn, id: JobId) -> Outcome<Option<JobDetail>> {
    let id = id.as_uuid();
    let found = conn.begin_snapshot_with(&sql::JOB, &[&id]).await?;
    let attempts = conn.commit_with(&sql::ATTEMPTS, &[&id]).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let Some((mut detail, last)) = read_detail(row)? else { return Ok(None) };
    detail.attempts = attempts.iter().map(read_attempt).collect::<Read<_>>()?;
    detail.attempts.extend(last);
    Ok(Some(detail))
}

fn read_attempt(row: &Row) -> Read<AttemptView> {
    Ok(AttemptView {
        attempt: rows::shown(row, 0)?,
        node: Some(rows::node_id(row, 1)?),
        claimed_at: rows::instant(row, 2)?,
        ended_at: Some(rows::instant(row, 3)?),
        outcome: rows::attempt_outcome(row, 4)?,
        error: rows::get(row, 5)?,
    })
}

fn read_hold(row: &Row) -> Option<Hold> {
    // The lease of nobody is what a foreign hand has written.
    let lease = rows::get::<Option<Uuid>>(row, 34).ok()?.filter(|lease| !lease.is_nil())?;
    let lease = LeaseId::from_bytes(lease.into_bytes());
    let [timeout, budget] = [rows::length_opt(row, 35).ok()?, rows::length_opt(row, 36).ok()?];
    Some(Hold { lease, timeout, budget, fresh_after: rows::shown(row, 37).ok()? })
}

/// A job without its earlier attempts, and the attempt that is under way or that succeeded.
fn read_detail(row: &Row) -> Read<Option<(JobDetail, Option<AttemptView>)>> {
    let Some(view) = rows::job_view(row)? else { return Ok(None) };
    let claimed_at = rows::instant_opt(row, 28)?;
    let outcome = match view.state {
        JobState::Succeeded => Some(AttemptOutcome::Succeeded),
        _ => None,
    };
    let is_last = matches!(view.state, JobState::Running | JobState::Succeeded);
    let node = rows::get::<Option<Uuid>>(row, 27)?;
    let last = claimed_at.filter(|_| is_last).map(|claimed_at| AttemptView {
        attempt: view.attempt,
        node: node.map(|node| NodeId::from_bytes(node.into_bytes())),
        claimed_at,
        ended_at: view.finished_at,
        outcome,
        error: None,
    });
    let detail = JobDetail {
        owner: rows::get(row, 21)?,
        tags: rows::list(row, 22).unwrap_or_default(),
        trace: rows::get(row, 23)?,
        spent: rows::shown(row, 24)?,
        crashes: rows::shown(row, 25)?,
        expires_at: rows::instant_opt(row, 38)?,
        cancel_requested: rows::get(row, 26)?,
        result: rows::get::<Option<String>>(row, 29)?.map(Json::from_canonical),
        payload: rows::json(row, 30)?,
        progress: rows::progress(row, 31)?,
        hold: read_hold(row),
        attempts: Vec::new(),
        view,
    };
    Ok(Some((detail, last)))
}
