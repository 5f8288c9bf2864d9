//! Nodes, leaders, counters, the audit.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use punctual::{AuditCursor, RollupFilter, Timestamp};
use punctual_api::{
    Audit, Capabilities, Leader, List, Node, Problem, Series, SeriesPoint, Term, text,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ask::{Paging, Query, instant, length};
use crate::fault::{Answer, Fault};
use crate::server::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(nodes))
        .routes(routes!(leaders))
        .routes(routes!(series))
        .routes(routes!(audits))
        .routes(routes!(capabilities))
}

/// The nodes
#[utoipa::path(get, path = "/api/v1/nodes", tag = "cluster",
    responses((status = 200, body = List<Node>), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn nodes(State(app): State<App>) -> Answer<List<Node>> {
    let nodes = app.punctual().admin().nodes().await?;
    Ok(Json(List::whole(nodes.into_iter().map(Node::from).collect())))
}

/// Terms that are told of each role.
const CHANGES_TOLD: usize = 20;

/// Who leads what, and who did before
#[utoipa::path(get, path = "/api/v1/leaders", tag = "cluster",
    responses((status = 200, body = List<Leader>), (status = "default", body = Problem, content_type = "application/problem+json")))]
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
            is_led: leader.until > now,
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
    /// From then on; an hour ago if nothing is said.
    #[serde(default)]
    from: Option<String>,
    /// Before then; until now if nothing is said.
    #[serde(default)]
    to: Option<String>,
    /// Only this one, such as `succeeded` or `failed`.
    #[serde(default)]
    metric: Option<String>,
    /// By this length of time, in whole minutes; one if nothing is said.
    #[serde(default)]
    bucket: Option<String>,
}

/// Rows that one answer is made from.
const ROWS_MAX: usize = 50_000;

/// How attempts ended, over time, from the counters of each minute
#[utoipa::path(get, path = "/api/v1/stats/series", tag = "cluster", params(Which),
    responses((status = 200, body = Series), (status = "default", body = Problem, content_type = "application/problem+json")))]
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
        return Err(Fault::invalid(
            "bucket",
            "counters are kept by the minute; take whole minutes",
        ));
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
                "that is too much at once; take less time, or one metric",
            ));
        }
    }
    let points = sums.into_iter().map(|((at, metric), (count, took))| SeriesPoint {
        at: at.to_string(),
        metric,
        count,
        took_ms: took / 1_000,
    });
    Ok(Json(Series { points: points.collect() }))
}

/// Who did what, newest first
#[utoipa::path(get, path = "/api/v1/audit", tag = "cluster", params(Paging),
    responses((status = 200, body = List<Audit>), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn audits(State(app): State<App>, Query(paging): Query<Paging>) -> Answer<List<Audit>> {
    let after = paging.after(|text| text.parse().ok().map(AuditCursor))?;
    let page = app.punctual().admin().audits(after, paging.most()).await?;
    let next_cursor = text(page.next.map(|AuditCursor(id)| id));
    Ok(Json(List { items: page.items.into_iter().map(Audit::from).collect(), next_cursor }))
}

/// What this server can do
#[utoipa::path(get, path = "/api/v1/capabilities", tag = "cluster",
    responses((status = 200, body = Capabilities), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn capabilities(State(app): State<App>) -> Answer<Capabilities> {
    let schema = app.punctual().admin().schema().await?;
    Ok(Json(Capabilities {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        backend: schema.backend.to_owned(),
        database: schema.database,
        schema: schema.version,
        roles: app.server.roles.clone(),
        needs_token: app.server.token.is_some(),
    }))
}
