//! Queues, nodes, leaders, the audit, health.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use punctual::{Order, Punctual};
use serde_json::json;

use crate::World;

#[tokio::test]
async fn a_queue_is_paused_limited_and_resumed_and_the_audit_knows_by_whom() {
    let world = World::new().await;
    let by = [("punctual-actor", "ada")];
    let paused =
        world.with("POST /queues/default/pause", &by, r#"{"why":"the mail server is down"}"#).await;
    assert_eq!(paused.body["pause"]["by"], "ada");
    world.say("POST /jobs", r#"{"kind":"echo"}"#).await;
    let queues = world.say("GET /queues", "").await;
    assert_eq!(queues.body["items"][0]["kinds"][0]["ready"], json!(1));
    let limited = world.with("PATCH /queues/default", &by, r#"{"max_running":3}"#).await;
    assert_eq!(limited.body["limits"]["max_running"], json!(3));
    let resumed = world.with("POST /queues/default/resume", &by, "").await;
    assert_eq!(resumed.body["pause"], json!(null));
    let audit = world.say("GET /audit", "").await;
    let told: Vec<&str> = audit.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["action"].as_str().unwrap())
        .collect();
    assert_eq!(told, ["resume queue", "limit queue", "pause queue"]);
}

#[tokio::test]
async fn the_cluster_tells_of_itself() {
    let world = World::new().await;
    let nodes = world.say("GET /nodes", "").await;
    assert_eq!(nodes.body["items"][0]["kinds"], json!(["echo", "fail"]));
    while world.say("GET /leaders", "").await.body["items"].as_array().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    let capable = world.say("GET /capabilities", "").await;
    assert_eq!(
        (&capable.body["backend"], &capable.body["requires_token"]),
        (&json!("memory"), &json!(false))
    );
    let series = world.say("GET /stats/series", "").await;
    assert_eq!(series.status, StatusCode::OK);
    let healthy = world.say("GET /doctor", "").await;
    assert_eq!(healthy.body["is_healthy"], json!(true), "{}", healthy.body);
}

#[tokio::test]
async fn health_and_metrics_are_there_for_machines() {
    let world = World::new().await;
    let get =
        |path: &str| Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
    assert_eq!(world.ask(get("/healthz/live")).await.status, StatusCode::OK);
    assert_eq!(world.ask(get("/healthz/ready")).await.status, StatusCode::OK);
    world.say("POST /jobs", r#"{"kind":"echo","delay":"1h"}"#).await;
    let metrics = world.ask(get("/metrics")).await;
    let line = r#"punctual_queue_depth{queue="default",kind="echo",state="scheduled"} 1"#;
    assert!(metrics.body.as_str().unwrap().contains(line), "{}", metrics.body);
}

/// More pairs of queue and kind than one page of counts has.
#[tokio::test]
async fn totals_on_pages_cover_all_queues() {
    let punctual = Punctual::memory().start().await.unwrap();
    let order = |number| Order::of_kind("echo", &number).queue(&format!("queue-{number:03}"));
    punctual.enqueue_many((0..600).map(order)).await.unwrap();
    let world = World::of(punctual, None);
    let page = async |path: &str| {
        let page = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        world.ask(page).await.body.as_str().unwrap().to_owned()
    };
    let ready = r#"<div class="label">Ready</div><div class="value">600</div>"#;
    let overview = page("/").await;
    assert!(overview.contains(ready), "{overview}");
    let jobs = page("/jobs").await;
    assert!(jobs.contains(r#"data-count="ready">600<"#), "{jobs}");
    let queues = page("/queues").await;
    assert!(queues.contains("q-queue-000") && queues.contains("q-queue-599"), "{queues}");
}
