//! Schedules.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual::{
    Admin, Definition, ErrorDetails, ErrorKind, Receipt, RevisionCursor, ScheduleId, Seen,
    SlotCursor, Timestamp,
};
use punctual_api::{
    FieldError, List, MovedSlot, NextSlots, PauseRequest, Problem, RecentSlot, Revision,
    RunNowResponse, Schedule, ScheduleBody, Slot, Upcoming, UpcomingBucket, text,
};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{admin, realign, repeat};
use crate::ask::{Body, MaybeBody, Meant, Name, Paging, Query, instant, length};
use crate::fault::{Answer, ErrorResponse, Fault};
use crate::server::App;
use crate::status;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, put, patch, delete))
        .routes(routes!(run))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(enable))
        .routes(routes!(disable))
        .routes(routes!(realign::realign))
        .routes(routes!(next))
        .routes(routes!(slots))
        .routes(routes!(revisions))
        .routes(routes!(upcoming))
}

/// Optional parts of the response.
#[derive(Clone, Copy, Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Beside {
    /// Number of newest slots to include for each schedule, at most 30; higher values are reduced.
    /// Default: 0.
    #[serde(default)]
    history: Option<usize>,
}

/// Which schedules come first.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Sorted {
    /// `name`, or `next`: schedules with a next slot, earliest first, on a single page. Default:
    /// `name`.
    #[serde(default)]
    order: Option<String>,
}

/// Newest slots of a schedule: as many as the dashboard draws.
const HISTORY_MAX: usize = 30;
/// Schedules whose newest slots a store reads at once.
const RECENT_AT_ONCE: usize = 100;

/// Schedules as they are now, with what is wanted beside them.
async fn told(
    admin: &Admin,
    schedules: Vec<punctual::Schedule>,
    beside: Beside,
) -> Result<Vec<Schedule>, Fault> {
    let most = beside.history.filter(|most| *most > 0).map(|most| most.min(HISTORY_MAX));
    let mut recent: HashMap<ScheduleId, Vec<RecentSlot>> = HashMap::new();
    if let Some(most) = most {
        let ids: Vec<ScheduleId> = schedules.iter().map(|schedule| schedule.id).collect();
        for ids in ids.chunks(RECENT_AT_ONCE) {
            for run in admin.recent_slots(ids, most).await? {
                recent.entry(run.schedule).or_default().push(run.into());
            }
        }
    }
    let now = admin.now().await?;
    let told = |schedule: punctual::Schedule| {
        let history = most.map(|_| recent.remove(&schedule.id).unwrap_or_default());
        Schedule { history, ..Schedule::at(schedule, now) }
    };
    Ok(schedules.into_iter().map(told).collect())
}

/// List schedules
///
/// Sorted by name, or by next slot with `order=next`.
#[utoipa::path(
    get, path = "/api/v1/schedules", tag = "schedules",
    params(Paging, Sorted, Beside),
    responses(
        (status = 200, description = "One page of schedules", body = List<Schedule>),
        ErrorResponse,
    ),
)]
async fn list(
    State(app): State<App>,
    Query(paging): Query<Paging>,
    Query(sorted): Query<Sorted>,
    Query(beside): Query<Beside>,
) -> Answer<List<Schedule>> {
    let most = paging.most();
    let admin = app.punctual().admin();
    let schedules = match sorted.order.as_deref() {
        None | Some("name") => admin.schedules(paging.cursor.as_deref(), most).await?,
        Some("next") if paging.cursor.is_none() => {
            let items = told(&admin, admin.upcoming(most).await?, beside).await?;
            return Ok(Json(List { items, next_cursor: None }));
        }
        Some("next") => {
            let detail = "`order=next` returns a single page; omit `cursor`";
            return Err(Fault::unreadable("cursor", detail));
        }
        Some(order) => {
            let detail = format!("unknown order `{order}`; expected name or next");
            return Err(Fault::unreadable("order", detail));
        }
    };
    let last = schedules.last().filter(|_| schedules.len() == most);
    let next_cursor = last.map(|schedule| schedule.name.clone());
    Ok(Json(List { items: told(&admin, schedules, beside).await?, next_cursor }))
}

/// Why something is done.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Because {
    /// Reason, for the revision and the audit log.
    #[serde(default)]
    pub(super) why: String,
}

/// A schedule as it is now, with its `ETag`.
async fn tagged(
    admin: &Admin,
    status: StatusCode,
    schedule: punctual::Schedule,
) -> Result<Response, Fault> {
    Ok(with_etag(status, Schedule::at(schedule, admin.now().await?)))
}

fn with_etag(status: StatusCode, schedule: Schedule) -> Response {
    let etag = HeaderValue::from_str(&schedule.etag);
    let mut response = (status, Json(schedule)).into_response();
    if let Ok(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// Get a schedule
///
/// The response has an `ETag` header for conditional changes.
#[utoipa::path(
    get, path = "/api/v1/schedules/{name}", tag = "schedules",
    params(("name" = String, Path, description = "Name of the schedule"), Beside),
    responses((status = 200, description = "The schedule", body = Schedule), ErrorResponse),
)]
async fn show(
    State(app): State<App>,
    Name(name): Name,
    Query(beside): Query<Beside>,
) -> Result<Response, Fault> {
    let admin = app.punctual().admin();
    let schedule = admin.schedule(&name).await?;
    let told = told(&admin, vec![schedule], beside).await?.pop();
    Ok(with_etag(StatusCode::OK, told.ok_or_else(|| Fault::bug("the schedule could not be read"))?))
}

/// What a request has seen of a schedule.
fn seen(headers: &HeaderMap) -> Result<Option<Seen>, Fault> {
    let Some(given) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text = given.to_str().unwrap_or("");
    if text == "*" {
        return Ok(None);
    }
    let seen = text.trim_matches('"').parse();
    seen.map(Some).map_err(|error| {
        Fault::unreadable(
            "If-Match",
            format!("{error} in `If-Match`; pass the `etag` value unchanged"),
        )
    })
}

/// Distinguishes a stale change from other conflicts, if the request named the version that it changes.
fn refused(error: punctual::Error, seen: Option<Seen>) -> Fault {
    if seen.is_some() && matches!(error.details(), Some(ErrorDetails::Changed { .. })) {
        let title = "Precondition failed";
        return Fault::from(Problem::new(412, "stale", title, error.to_string()));
    }
    error.into()
}

fn checked(app: &App, body: &ScheduleBody) -> Result<Definition, Fault> {
    let definition = body.definition();
    let definition = definition.map_err(|wrong| Fault::invalid(&wrong.pointer, wrong.detail))?;
    app.check(&definition.job.kind, &definition.job.payload, "/job/payload")?;
    Ok(definition)
}

/// A kind that the schedule has already may stay, whether anybody knows it or not.
async fn check_kind(
    app: &App,
    definition: &Definition,
    before: Option<&punctual::Schedule>,
    meant: Meant,
) -> Result<(), Fault> {
    let kind = definition.job.kind.as_str();
    let before = before.and_then(|schedule| Definition::parse(schedule.spec.as_str()).ok());
    match before.is_some_and(|before| before.job.kind == kind) {
        true => Ok(()),
        false => app.check_kind(kind, "/job", meant).await,
    }
}

/// Create or replace a schedule
///
/// A new definition takes effect from now on. Each request creates a revision, even if the
/// definition is the same. With `If-Match`, the schedule is replaced only if it has not changed
/// since it was read. With `If-None-Match: *`, it is only created.
#[utoipa::path(
    put, path = "/api/v1/schedules/{name}", tag = "schedules",
    request_body = ScheduleBody,
    params(
        ("name" = String, Path, description = "Name of the schedule"),
        Because,
        Meant,
        (
            "If-Match" = Option<String>,
            Header,
            description = "`etag` of the schedule; fails with 412 if it has changed",
        ),
        (
            "If-None-Match" = Option<String>,
            Header,
            description = "`*`: fails with 412 if the schedule exists",
        ),
    ),
    responses(
        (status = 200, description = "Schedule replaced", body = Schedule),
        (status = 201, description = "Schedule created", body = Schedule),
        ErrorResponse,
    ),
)]
async fn put(
    State(app): State<App>,
    Name(name): Name,
    Query(because): Query<Because>,
    Query(meant): Query<Meant>,
    headers: HeaderMap,
    Body(body): Body<ScheduleBody>,
) -> Result<Response, Fault> {
    let (seen, definition) = (seen(&headers)?, checked(&app, &body)?);
    let admin = admin(&app, &headers, &because.why);
    let must_exist = headers.contains_key(header::IF_MATCH);
    let must_be_new = headers.contains_key(header::IF_NONE_MATCH);
    match admin.schedule(&name).await {
        Ok(_) if must_be_new => {
            let detail = format!("schedule `{name}` already exists");
            Err(Fault::from(Problem::new(412, "exists", "Already exists", detail)))
        }
        Ok(before) => {
            check_kind(&app, &definition, Some(&before), meant).await?;
            let schedule = admin.define_schedule(&name, &definition, seen).await;
            let schedule = schedule.map_err(|error| refused(error, seen))?;
            tagged(&admin, StatusCode::OK, schedule).await
        }
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => {
            check_kind(&app, &definition, None, meant).await?;
            let schedule = admin.create_schedule(&name, &definition).await;
            let schedule = schedule.map_err(|error| refused(error, None))?;
            tagged(&admin, StatusCode::CREATED, schedule).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Update a schedule
///
/// Applies a JSON merge patch (RFC 7396) to the definition, sent as `application/json`; `null`
/// resets a field to its default. The change takes effect from now on.
#[utoipa::path(
    patch, path = "/api/v1/schedules/{name}", tag = "schedules",
    request_body = Object,
    params(
        ("name" = String, Path, description = "Name of the schedule"),
        Because,
        Meant,
        (
            "If-Match" = Option<String>,
            Header,
            description = "`etag` of the schedule; fails with 412 if it has changed",
        ),
    ),
    responses((status = 200, description = "The updated schedule", body = Schedule), ErrorResponse),
)]
async fn patch(
    State(app): State<App>,
    Name(name): Name,
    Query(because): Query<Because>,
    Query(meant): Query<Meant>,
    headers: HeaderMap,
    Body(changes): Body<Value>,
) -> Result<Response, Fault> {
    let admin = admin(&app, &headers, &because.why);
    let schedule = admin.schedule(&name).await?;
    // What was read is what is changed, whatever the caller has seen.
    let seen = Some(seen(&headers)?.unwrap_or(Seen::of(&schedule)));
    if !changes.is_object() {
        let detail = "the body must be a JSON object with the fields to change";
        return Err(Fault::invalid("", detail));
    }
    let unreadable = |error: serde_json::Error| Fault::invalid("", error.to_string());
    let mut whole: Value = serde_json::from_str(schedule.spec.as_str()).map_err(unreadable)?;
    merge(&mut whole, changes);
    let body: Result<ScheduleBody, _> = serde_path_to_error::deserialize(without_nulls(whole));
    let body = body.map_err(|error| {
        let wrong = FieldError::of(error);
        Fault::invalid(&wrong.pointer, wrong.detail)
    })?;
    let definition = checked(&app, &body)?;
    check_kind(&app, &definition, Some(&schedule), meant).await?;
    let changed = admin.define_schedule(&name, &definition, seen).await;
    tagged(&admin, StatusCode::OK, changed.map_err(|error| refused(error, seen))?).await
}

/// A JSON merge patch; null takes a field away.
fn merge(whole: &mut Value, changes: Value) {
    match (whole, changes) {
        (Value::Object(whole), Value::Object(changes)) => {
            for (name, change) in changes {
                match change {
                    Value::Null => drop(whole.remove(&name)),
                    change => merge(whole.entry(name).or_insert(Value::Null), change),
                }
            }
        }
        (whole, changes) => *whole = changes,
    }
}

/// A definition is kept with every choice written down, also those that were left open.
fn without_nulls(whole: Value) -> Value {
    match whole {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        whole => whole,
    }
}

/// Delete a schedule
///
/// Jobs and ledger entries of the schedule are kept, but they can no longer be listed by its name;
/// its revisions are deleted. `If-Match` is ignored.
#[utoipa::path(
    delete, path = "/api/v1/schedules/{name}", tag = "schedules",
    params(("name" = String, Path, description = "Name of the schedule"), Because),
    responses((status = 204, description = "Schedule deleted"), ErrorResponse),
)]
async fn delete(
    State(app): State<App>,
    Name(name): Name,
    Query(because): Query<Because>,
    headers: HeaderMap,
) -> Result<StatusCode, Fault> {
    admin(&app, &headers, &because.why).delete_schedule(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Run a schedule now
///
/// Creates one job immediately, in addition to the regular slots, also while the schedule is
/// paused. With an `Idempotency-Key`, the request can be repeated for 24 hours without creating a
/// second job.
#[utoipa::path(
    post, path = "/api/v1/schedules/{name}/run", tag = "schedules",
    params(
        ("name" = String, Path, description = "Name of the schedule"),
        (
            "Idempotency-Key" = Option<String>,
            Header,
            description = "Key for repeating the request safely: 1 to 200 ASCII characters",
        ),
    ),
    responses(
        (status = 201, description = "Job created", body = RunNowResponse),
        (
            status = 200,
            description = "The job of the first request with this key",
            body = RunNowResponse,
        ),
        ErrorResponse,
    ),
)]
async fn run(
    State(app): State<App>,
    Name(name): Name,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let admin = admin(&app, &headers, "");
    let receipt = match repeat::key(&headers, "")? {
        Some(key) => admin.run_once(&name, &key).await,
        None => admin.run_now(&name).await.map(|id| Receipt { id, is_new: true }),
    };
    let receipt = receipt.map_err(|error| repeat::refused(error, &headers))?;
    Ok(repeat::answer(receipt, &headers, RunNowResponse { job: receipt.id.to_string() }))
}

/// Pause a schedule
///
/// Slots during the pause are skipped, or treated as missed if `missed_paused` is set. They are
/// recorded in the ledger when the pause ends. The reason is `why` in the body.
#[utoipa::path(
    post, path = "/api/v1/schedules/{name}/pause", tag = "schedules",
    params(("name" = String, Path, description = "Name of the schedule")),
    request_body(
        content = ref("#/components/schemas/PauseRequest"),
        content_type = "application/json",
        description = "Can be omitted",
    ),
    responses((status = 200, description = "The paused schedule", body = Schedule), ErrorResponse),
)]
async fn pause(
    State(app): State<App>,
    Name(name): Name,
    headers: HeaderMap,
    MaybeBody(ask): MaybeBody<PauseRequest>,
) -> Result<Response, Fault> {
    let until = instant("/until", ask.until.as_deref())?;
    let admin = admin(&app, &headers, &ask.why);
    let schedule = admin.pause_schedule(&name, until).await?;
    tagged(&admin, StatusCode::OK, schedule).await
}

/// Resume a schedule
///
/// Ends the pause: slots fire again from now on. The reason is the parameter `why`. A disabled
/// schedule is also enabled. A quarantined schedule stays quarantined; enable it instead.
#[utoipa::path(
    post, path = "/api/v1/schedules/{name}/resume", tag = "schedules",
    params(("name" = String, Path, description = "Name of the schedule"), Because),
    responses((status = 200, description = "The schedule", body = Schedule), ErrorResponse),
)]
async fn resume(
    State(app): State<App>,
    Name(name): Name,
    Query(because): Query<Because>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let admin = admin(&app, &headers, &because.why);
    let schedule = admin.resume_schedule(&name).await?;
    let schedule = match schedule.enabled {
        true => schedule,
        false => admin.enable_schedule(&name).await?,
    };
    tagged(&admin, StatusCode::OK, schedule).await
}

/// Enable a schedule
///
/// Enables a disabled or quarantined schedule from now on.
#[utoipa::path(
    post, path = "/api/v1/schedules/{name}/enable", tag = "schedules",
    params(("name" = String, Path, description = "Name of the schedule"), Because),
    responses((status = 200, description = "The enabled schedule", body = Schedule), ErrorResponse),
)]
async fn enable(
    State(app): State<App>,
    Name(name): Name,
    Query(because): Query<Because>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let admin = admin(&app, &headers, &because.why);
    let schedule = admin.enable_schedule(&name).await;
    tagged(&admin, StatusCode::OK, schedule.map_err(|error| refused(error, None))?).await
}

/// Disable a schedule
///
/// No slots fire until the schedule is enabled.
#[utoipa::path(
    post, path = "/api/v1/schedules/{name}/disable", tag = "schedules",
    params(("name" = String, Path, description = "Name of the schedule"), Because),
    responses(
        (status = 200, description = "The disabled schedule", body = Schedule),
        ErrorResponse,
    ),
)]
async fn disable(
    State(app): State<App>,
    Name(name): Name,
    Query(because): Query<Because>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let admin = admin(&app, &headers, &because.why);
    let schedule = admin.disable_schedule(&name).await?;
    tagged(&admin, StatusCode::OK, schedule).await
}

/// How many slots to show.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Count {
    /// Number of slots. Default 10, maximum 1,000; higher values are reduced.
    #[serde(default)]
    n: Option<usize>,
}

/// List the next slots of a schedule
///
/// Excluded slots are omitted. Slots that replace an excluded slot are also listed in `moved`.
#[utoipa::path(
    get, path = "/api/v1/schedules/{name}/next", tag = "schedules",
    params(("name" = String, Path, description = "Name of the schedule"), Count),
    responses((status = 200, description = "The next slots", body = NextSlots), ErrorResponse),
)]
async fn next(
    State(app): State<App>,
    Name(name): Name,
    Query(count): Query<Count>,
) -> Answer<NextSlots> {
    let most = count.n.unwrap_or(10).min(1_000);
    let next = app.punctual().admin().next_slots(&name, most).await?;
    let moved = app.punctual().admin().moved_slots(&name, &next).await?.into_iter();
    let moved = moved
        .map(|(slot, from)| MovedSlot { slot: slot.to_string(), from: from.to_string() })
        .collect();
    Ok(Json(NextSlots { next: next.iter().map(ToString::to_string).collect(), moved }))
}

/// List the decided slots of a schedule
///
/// Reads the ledger, newest slot first. Consecutive slots with the same outcome and reason, such as
/// those of a pause, are one entry with `count` and `end`.
#[utoipa::path(
    get, path = "/api/v1/schedules/{name}/slots", tag = "schedules",
    params(("name" = String, Path, description = "Name of the schedule"), Paging),
    responses((status = 200, description = "One page of slots", body = List<Slot>), ErrorResponse),
)]
async fn slots(
    State(app): State<App>,
    Name(name): Name,
    Query(paging): Query<Paging>,
) -> Answer<List<Slot>> {
    let after = paging.after(|text| {
        let (slot, run) = text.split_once('.')?;
        Some(SlotCursor(Timestamp::from_micros(slot.parse().ok()?), run.parse().ok()?))
    })?;
    let page = app.punctual().admin().slots(&name, after, paging.most()).await?;
    let next = page.next.map(|SlotCursor(slot, run)| format!("{}.{run}", slot.as_micros()));
    Ok(Json(List { items: page.items.into_iter().map(Slot::from).collect(), next_cursor: next }))
}

/// List the revisions of a schedule
///
/// Newest first.
#[utoipa::path(
    get, path = "/api/v1/schedules/{name}/revisions", tag = "schedules",
    params(("name" = String, Path, description = "Name of the schedule"), Paging),
    responses(
        (status = 200, description = "One page of revisions", body = List<Revision>),
        ErrorResponse,
    ),
)]
async fn revisions(
    State(app): State<App>,
    Name(name): Name,
    Query(paging): Query<Paging>,
) -> Answer<List<Revision>> {
    let after = paging.after(|text| text.parse().ok().map(RevisionCursor))?;
    let page = app.punctual().admin().revisions(&name, after, paging.most()).await?;
    let next = text(page.next.map(|RevisionCursor(revision)| revision));
    Ok(Json(List {
        items: page.items.into_iter().map(Revision::from).collect(),
        next_cursor: next,
    }))
}

/// Which time to look at.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Ahead {
    /// Start of the time range (RFC 3339). Default: now.
    #[serde(default)]
    from: Option<String>,
    /// End of the time range, exclusive (RFC 3339), at most 400 days after `from`. Default: 24
    /// hours after `from`.
    #[serde(default)]
    to: Option<String>,
    /// Length of a bucket, such as `1h`. A range can have at most 1,000 buckets. Default: `1h`.
    #[serde(default)]
    bucket: Option<String>,
}

/// Schedules that are looked at for what lies ahead.
const AHEAD_SCHEDULES_MAX: usize = 2_000;
/// Lengths of time that are counted.
const BUCKETS_MAX: u128 = 1_000;
/// The longest time that is counted: a year and a bit.
const AHEAD_MAX: Duration = Duration::from_secs(400 * 86_400);

/// Count future slots
///
/// Counts the slots of all schedules by time bucket.
#[utoipa::path(
    get, path = "/api/v1/upcoming", tag = "schedules",
    params(Ahead),
    responses((status = 200, description = "The counts", body = Upcoming), ErrorResponse),
)]
async fn upcoming(State(app): State<App>, Query(ahead): Query<Ahead>) -> Answer<Upcoming> {
    let admin = app.punctual().admin();
    let from = match instant("from", ahead.from.as_deref())? {
        Some(from) => from,
        None => admin.now().await?,
    };
    let day = Duration::from_secs(86_400);
    let to = instant("to", ahead.to.as_deref())?.unwrap_or(from + day);
    let bucket = length("bucket", ahead.bucket.as_deref())?.unwrap_or(Duration::from_secs(3_600));
    if bucket.is_zero() || to.since(from).as_micros() / bucket.as_micros().max(1) > BUCKETS_MAX {
        return Err(Fault::invalid(
            "bucket",
            format!(
                "more than {BUCKETS_MAX} buckets; use a longer `bucket` or a shorter time range"
            ),
        ));
    }
    if to.since(from) > AHEAD_MAX {
        return Err(Fault::invalid("to", "the time range is longer than 400 days"));
    }
    let mut counts: BTreeMap<Timestamp, u64> = BTreeMap::new();
    let (mut after, mut looked_at) = (None::<String>, 0);
    loop {
        let schedules = admin.schedules(after.as_deref(), 500).await?;
        let Some(last) = schedules.last() else { break };
        after = Some(last.name.clone());
        looked_at += schedules.len();
        // Counting takes its time, and not that of those who wait for other answers.
        let count = tokio::task::spawn_blocking(move || {
            count_ahead(&mut counts, &schedules, from, to, bucket);
            counts
        });
        counts = count.await.map_err(|_| Fault::bug("the future slots could not be counted"))?;
        if looked_at >= AHEAD_SCHEDULES_MAX {
            break;
        }
    }
    let buckets =
        counts.into_iter().map(|(from, slots)| UpcomingBucket { from: from.to_string(), slots });
    Ok(Json(Upcoming {
        buckets: buckets.collect(),
        is_truncated: looked_at >= AHEAD_SCHEDULES_MAX,
    }))
}

/// Adds the slots of these schedules to those of each bucket.
fn count_ahead(
    counts: &mut BTreeMap<Timestamp, u64>,
    schedules: &[punctual::Schedule],
    begin: Timestamp,
    to: Timestamp,
    bucket: Duration,
) {
    for schedule in schedules {
        let Some(from) = status::fires_from(schedule, begin) else { continue };
        let Ok(definition) = Definition::parse(schedule.spec.as_str()) else { continue };
        let Ok(rule) = definition.rule(&schedule.name) else { continue };
        let mut start = begin;
        while start < to {
            let end = (start + bucket).min(to);
            match rule.count(start.max(from), end.max(from)) {
                0 => {}
                count => *counts.entry(start).or_default() += count,
            }
            start = end;
        }
    }
}
