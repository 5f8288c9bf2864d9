//! Nodes, leaders, counters, the audit.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use punctual::{AuditCursor, RollupFilter, Timestamp};
use punctual_api::{AuditEntry, Capabilities, Leader, List, Node, Series, SeriesPoint, Term, text};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ask::{Paging, Query, instant, length};
use crate::fault::{Answer, ErrorResponse, Fault};
use crate::server::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(nodes))
        .routes(routes!(leaders))
        .routes(routes!(series))
        .routes(routes!(audits))
        .routes(routes!(capabilities))
}

/// List nodes
///
/// Includes nodes that were declared dead, until they are deleted.
#[utoipa::path(
    get, path = "/api/v1/nodes", tag = "cluster",
    responses((status = 200, description = "The nodes", body = List<Node>), ErrorResponse),
)]
async fn nodes(State(app): State<App>) -> Answer<List<Node>> {
    let nodes = app.punctual().admin().nodes().await?;
    Ok(Json(List::whole(nodes.into_iter().map(Node::from).collect())))
}

/// Terms that are told of each role.
const CHANGES_TOLD: usize = 20;

/// List leaders
///
/// Returns the leader of each role and its last 20 terms.
#[utoipa::path(
    get, path = "/api/v1/leaders", tag = "cluster",
    responses((status = 200, description = "The leaders", body = List<Leader>), ErrorResponse),
)]
async fn leaders(State(app): State<App>) -> Answer<List<Leader>> {
    let admin = app.punctual().admin();
    let (now, nodes) = (admin.now().await?, admin.nodes().await?);
    let mut leaders = Vec::new();
    for leader in admin.leaders().await? {
        let changes = admin.leader_changes(&leader.fence.role, CHANGES_TOLD).await?;
        let node = nodes.iter().find(|node| node.info.id == leader.node);
        leaders.push(Leader {
            node: leader.node.to_string(),
            name: node.map(|node| node.info.name.clone()),
            term: leader.fence.term,
            since: leader.since.to_string(),
            until: leader.until.to_string(),
            is_valid: leader.until > now,
            changes: changes.into_iter().map(Term::from).collect(),
            role: leader.fence.role,
        });
    }
    Ok(Json(List::whole(leaders)))
}

/// Which counters to show.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Start of the time range (RFC 3339). Default: one hour before `to`.
    #[serde(default)]
    from: Option<String>,
    /// End of the time range, exclusive (RFC 3339). Default: now.
    #[serde(default)]
    to: Option<String>,
    /// Only this metric, such as `succeeded` or `failed`. Default: all attempt outcomes.
    #[serde(default)]
    metric: Option<String>,
    /// Length of a bucket in whole minutes, such as `5m`. Default: `1m`.
    #[serde(default)]
    bucket: Option<String>,
}

/// Rows that one answer is made from.
const ROWS_MAX: usize = 50_000;

/// Get attempt counters
///
/// Counts attempt outcomes by time bucket. The counters have a resolution of one minute.
#[utoipa::path(
    get, path = "/api/v1/stats/series", tag = "cluster",
    params(Which),
    responses((status = 200, description = "The counters", body = Series), ErrorResponse),
)]
async fn series(State(app): State<App>, Query(which): Query<Which>) -> Answer<Series> {
    let admin = app.punctual().admin();
    let now = admin.now().await?;
    let hour = Duration::from_secs(3_600);
    let to = instant("to", which.to.as_deref())?.unwrap_or(now);
    let hour_before = Timestamp::from_micros(to.as_micros() - 3_600_000_000);
    let from = instant("from", which.from.as_deref())?.unwrap_or(hour_before);
    let bucket = length("bucket", which.bucket.as_deref())?.unwrap_or(hour / 60);
    let minutes = i64::try_from(bucket.as_secs() / 60).unwrap_or(i64::MAX);
    if minutes == 0 || bucket.as_secs() % 60 != 0 {
        return Err(Fault::invalid("bucket", "`bucket` must be a whole number of minutes"));
    }
    let filter = RollupFilter { from, to, metric: which.metric };
    let mut sums: BTreeMap<(Timestamp, String), (i64, i64)> = BTreeMap::new();
    let (mut after, mut rows) = (None, 0);
    loop {
        let page = admin.rollups(&filter, after.as_ref(), 500).await?;
        rows += page.items.len();
        // Lengths by bucket are thirty metrics more, for whoever names them.
        let is_outcome = |metric: &str| metric.parse::<punctual::AttemptOutcome>().is_ok();
        let is_asked = |metric: &str| filter.metric.is_some() || is_outcome(metric);
        for row in page.items.into_iter().filter(|row| is_asked(&row.metric)) {
            let length = minutes.saturating_mul(60_000_000);
            let start = row.minute.as_micros().div_euclid(length) * length;
            let sum = sums.entry((Timestamp::from_micros(start), row.metric)).or_default();
            *sum = (sum.0 + row.count, sum.1 + row.sum);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
        if rows >= ROWS_MAX {
            return Err(Fault::invalid(
                "from",
                "too much data; use a shorter time range or a single metric",
            ));
        }
    }
    let points = sums.into_iter().map(|((at, metric), (count, took))| SeriesPoint {
        at: at.to_string(),
        metric,
        count,
        total_duration_ms: took / 1_000,
    });
    Ok(Json(Series { points: points.collect() }))
}

/// List audit entries
///
/// Newest first.
#[utoipa::path(
    get, path = "/api/v1/audit", tag = "cluster",
    params(Paging),
    responses(
        (status = 200, description = "One page of audit entries", body = List<AuditEntry>),
        ErrorResponse,
    ),
)]
async fn audits(State(app): State<App>, Query(paging): Query<Paging>) -> Answer<List<AuditEntry>> {
    let after = paging.after(|text| text.parse().ok().map(AuditCursor))?;
    let page = app.punctual().admin().audits(after, paging.most()).await?;
    let next_cursor = text(page.next.map(|AuditCursor(id)| id));
    Ok(Json(List { items: page.items.into_iter().map(AuditEntry::from).collect(), next_cursor }))
}

/// Get server capabilities
///
/// Returns the version, database and roles of this server.
#[utoipa::path(
    get, path = "/api/v1/capabilities", tag = "cluster",
    responses((status = 200, description = "The capabilities", body = Capabilities), ErrorResponse),
)]
async fn capabilities(State(app): State<App>) -> Answer<Capabilities> {
    let schema = app.punctual().admin().schema().await?;
    Ok(Json(Capabilities {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        backend: schema.backend.to_owned(),
        database: schema.database,
        schema: schema.version,
        roles: app.server.roles.clone(),
        requires_token: app.server.token.is_some(),
    }))
}
