//! What people look at.

use punctual_core::job::{AttemptOutcome, JobState};
use punctual_core::{JobId, NodeId, ScheduleId, Timestamp};
use punctual_store::{
    AttemptView, AuditCursor, AuditView, Cursor, JobDetail, JobFilter, JobView, Json, Page,
    RevisionCursor, RevisionView, RollupCount, RollupCursor, RollupFilter, Schedule, SlotCursor,
    SlotView, limits,
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
fn page_rows(most: usize) -> i64 {
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
    let bound: Bound<'_> = &[
        &Instant(from.minute),
        &from.metric,
        &from.queue,
        &from.kind,
        &Instant(filter.to),
        &filter.metric,
        &page_rows(most),
    ];
    let counts = all(conn, &sql::ROLLUPS, bound, rows::rollup).await?;
    Ok(Page::take(counts.into_iter(), most, RollupCount::cursor))
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

/// A list of jobs as a statement, with the values of its parameters.
pub(crate) struct JobList {
    pub(crate) text: String,
    bound: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
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
    let Some(list) = job_list(conn.texts().schema(), filter, after, most) else {
        return Ok(Page { items: Vec::new(), next: None });
    };
    let found = conn.query_text(&list.text, &list.bound()).await?;
    let views = found.iter().map(rows::job_view).collect::<Read<Vec<_>>>()?;
    // Joins find each job in its one place, in one snapshot; none is left out.
    Ok(Page::take(views.into_iter().flatten(), most, |view| filter.cursor(view)))
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

/// The list for a filter; none if no job can be in that state.
pub(crate) fn job_list(
    schema: &str,
    filter: &JobFilter,
    after: Option<Cursor>,
    most: usize,
) -> Option<JobList> {
    let driver = driver(filter)?;
    let mut terms = Vec::new();
    let mut bound: Vec<(Box<dyn ToSql + Sync + Send>, Type)> =
        vec![(Box::new(page_rows(most)), Type::INT8)];
    let mut term = |text: &str, values: Vec<(Box<dyn ToSql + Sync + Send>, Type)>| {
        let mut text = text.to_owned();
        for value in values {
            bound.push(value);
            text = text.replacen("$_", &format!("${}", bound.len()), 1);
        }
        terms.push(text);
    };
    let text = |text: &String| -> Vec<(Box<dyn ToSql + Sync + Send>, Type)> {
        vec![(Box::new(text.clone()), Type::TEXT)]
    };
    if let Some(queue) = &filter.queue {
        term("j.queue = $_", text(queue));
    }
    if let Some(kind) = &filter.kind {
        term("j.kind = $_", text(kind));
    }
    if let Some(tenant) = &filter.tenant {
        term("j.tenant = $_", text(tenant));
    }
    if let Some(schedule) = &filter.schedule {
        term("j.schedule = $_", vec![(Box::new(schedule.as_uuid()), Type::UUID)]);
    }
    if let Some(tag) = &filter.tag {
        term("j.tags ? $_", text(tag));
    }
    if let Some(Cursor { ended, job }) = after {
        let job: (Box<dyn ToSql + Sync + Send>, Type) = (Box::new(job.as_uuid()), Type::UUID);
        match ended.filter(|_| filter.is_by_end()) {
            None => term(&format!("{} < $_", driver.order), vec![job]),
            Some(ended) => {
                let ended = (Box::new(Instant(ended)) as Box<_>, Type::TIMESTAMPTZ);
                term("(s.finished_at, s.job) < ($_, $_)", vec![ended, job]);
            }
        }
    }
    if filter.tenant.as_ref().is_some_and(|tenant| !tenant.is_empty()) {
        terms.push("j.tenant <> ''".to_owned());
    }
    terms.extend(driver.state);
    if terms.is_empty() {
        terms.push("true".to_owned());
    }
    let order = match filter.is_by_end() {
        true => format!("s.finished_at DESC, {} DESC", driver.order),
        false => format!("{} DESC", driver.order),
    };
    let text = sql::JOBS
        .text
        .replace("{from}", &driver.from)
        .replace("{where}", &terms.join("\n  AND "))
        .replace("{order}", &order);
    Some(JobList { text: sql::qualify(&text, schema), bound })
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
    let state = filter.state.map(|state| match state {
        JobState::Ready => "r.attempt IS NOT NULL".to_owned(),
        JobState::Scheduled => "t.attempt <= 0".to_owned(),
        JobState::Retrying => "t.attempt > 0".to_owned(),
        JobState::Running => "l.attempt IS NOT NULL".to_owned(),
        ended => format!("d.outcome = {}", rows::end_code(ended)),
    });
    Some(Driver { from: "{schema}.job AS j".to_owned(), order: "j.id", state })
}

/// The list of one state is driven by the table of that state.
fn by_state(state: JobState) -> Driver {
    let (table, term) = match state {
        JobState::Ready => ("job_ready", None),
        JobState::Scheduled => ("job_timer", Some("s.attempt <= 0".to_owned())),
        JobState::Retrying => ("job_timer", Some("s.attempt > 0".to_owned())),
        JobState::Running => ("job_lease", None),
        ended => ("job_done", Some(format!("s.outcome = {}", rows::end_code(ended)))),
    };
    Driver {
        from: format!(
            "{{schema}}.{table} AS s\n\
             JOIN LATERAL (SELECT * FROM {{schema}}.job AS b WHERE b.id = s.job OFFSET 0) AS j ON true"
        ),
        order: "s.job",
        state: term,
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

/// A job without its earlier attempts, and the attempt that is under way or that succeeded.
fn read_detail(row: &Row) -> Read<Option<(JobDetail, Option<AttemptView>)>> {
    let Some(view) = rows::job_view(row)? else { return Ok(None) };
    let claimed_at = rows::instant_opt(row, 26)?;
    let outcome = match view.state {
        JobState::Succeeded => Some(AttemptOutcome::Succeeded),
        _ => None,
    };
    let is_last = matches!(view.state, JobState::Running | JobState::Succeeded);
    let node = rows::get::<Option<Uuid>>(row, 25)?;
    let last = claimed_at.filter(|_| is_last).map(|claimed_at| AttemptView {
        attempt: view.attempt,
        node: node.map(|node| NodeId::from_bytes(node.into_bytes())),
        claimed_at,
        ended_at: view.finished_at,
        outcome,
        error: None,
    });
    let detail = JobDetail {
        owner: rows::get(row, 19)?,
        tags: rows::list(row, 20).unwrap_or_default(),
        trace: rows::get(row, 21)?,
        spent: rows::shown(row, 22)?,
        crashes: rows::shown(row, 23)?,
        cancel_asked: rows::get(row, 24)?,
        result: rows::get::<Option<String>>(row, 27)?.map(Json::from_canonical),
        payload: rows::json(row, 28)?,
        progress: rows::progress(row, 29)?,
        attempts: Vec::new(),
        view,
    };
    Ok(Some((detail, last)))
}
