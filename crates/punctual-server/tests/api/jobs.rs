//! Jobs: enqueued, waited for, listed, retried.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::json;

use crate::World;

#[tokio::test]
async fn a_job_is_enqueued_done_and_shown() {
    let world = World::new().await;
    let made = world.say("POST /jobs", r#"{"kind":"echo","payload":{"a":1},"tags":["t"]}"#).await;
    assert_eq!((made.status, &made.body["is_new"]), (StatusCode::CREATED, &json!(true)));
    let id = made.body["id"].as_str().unwrap().to_owned();
    let ended = world.say(&format!("GET /jobs/{id}/wait?timeout=20s"), "").await;
    assert_eq!(ended.body["state"], "succeeded");
    assert_eq!(ended.body["result"], json!({"a": 1}));
    assert_eq!(ended.body["tags"], json!(["t"]));
    let listed = world.say("GET /jobs?q=kind:echo%20tag:t", "").await;
    assert_eq!(listed.body["items"][0]["id"], json!(id));
    assert_eq!(listed.body["next_cursor"], json!(null));
    world.punctual.stop().await;
    let log = world.say(&format!("GET /jobs/{id}/log"), "").await;
    assert_eq!(log.body["items"][0]["text"], "said it");
}

#[tokio::test]
async fn a_failed_job_is_found_explained_and_retried() {
    let world = World::new().await;
    let made = world.say("POST /jobs", r#"{"kind":"fail","payload":{}}"#).await;
    let id = made.body["id"].as_str().unwrap().to_owned();
    let ended = world.say(&format!("GET /jobs/{id}/wait"), "").await;
    assert_eq!(
        (&ended.body["state"], &ended.body["error"]),
        (&json!("failed"), &json!("asked to fail"))
    );
    let failed = world.say("GET /jobs?state=failed", "").await;
    assert_eq!(failed.body["items"][0]["id"], json!(id));
    let why = world.say(&format!("GET /why/jobs/{id}"), "").await;
    assert!(why.body["text"].as_str().unwrap().contains("asked to fail"), "{}", why.body);
    let retried = world.say(&format!("POST /jobs/{id}/retry"), "").await;
    assert_eq!(retried.status, StatusCode::OK);
    world.say(&format!("GET /jobs/{id}/wait"), "").await;
    let again = world.say(&format!("POST /jobs/{id}/cancel"), "").await;
    assert_eq!(again.body["state"], "failed", "it has ended, and stays so");
}

#[tokio::test]
async fn a_request_with_a_key_makes_one_job() {
    let world = World::new().await;
    let key = [("idempotency-key", "order-7")];
    let body = r#"{"kind":"echo","payload":7}"#;
    let first = world.with("POST /jobs", &key, body).await;
    let again = world.with("POST /jobs", &key, body).await;
    assert_eq!((first.status, again.status), (StatusCode::CREATED, StatusCode::OK));
    assert_eq!(first.body["id"], again.body["id"]);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    // Whatever is different: it is another request.
    let others = [
        r#"{"kind":"echo","payload":8}"#,
        r#"{"kind":"fail","payload":7}"#,
        r#"{"kind":"echo","payload":7,"queue":"other"}"#,
        r#"{"kind":"echo","payload":7,"delay":"10h"}"#,
    ];
    for other in others {
        let answer = world.with("POST /jobs", &key, other).await;
        let said = (answer.status, &answer.body["code"]);
        assert_eq!(said, (StatusCode::UNPROCESSABLE_ENTITY, &json!("key_reused")), "{other}");
    }
    assert_eq!(world.say("GET /jobs", "").await.body["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_process_that_stops_says_so() {
    let world = World::new().await;
    world.punctual.stop().await;
    let answer = world.say("POST /jobs", r#"{"kind":"echo"}"#).await;
    let said = (answer.status, &answer.body["code"]);
    assert_eq!(said, (StatusCode::SERVICE_UNAVAILABLE, &json!("stopping")));
    assert_eq!(answer.headers["retry-after"], "1");
    let ready = Request::builder()
        .uri("/healthz/ready")
        .header("host", "localhost")
        .body(Body::empty())
        .unwrap();
    assert_eq!(world.ask(ready).await.body["code"], "stopping");
}

#[tokio::test]
async fn a_batch_has_an_answer_for_each_and_may_be_repeated() {
    let world = World::new().await;
    let key = [("idempotency-key", "batch-1")];
    let body = r#"{"jobs":[{"kind":"echo","payload":1},{"kind":"echo","priority":500},{"kind":"echo","payload":3}]}"#;
    let first = world.with("POST /jobs:batch", &key, body).await;
    let jobs = first.body["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 3);
    assert_eq!(
        jobs[1]["error"],
        "job of kind `echo`: priority must be between -100 and 100, got 500"
    );
    let again = world.with("POST /jobs:batch", &key, body).await;
    assert_eq!(again.body["jobs"][0]["id"], jobs[0]["id"]);
    assert_eq!(again.body["jobs"][0]["is_new"], json!(false));
    assert_eq!(first.body["jobs"][0]["is_new"], json!(true));
    // Another batch under that key is refused before anything of it is written.
    let longer = r#"{"jobs":[{"kind":"echo","payload":1},{"kind":"echo"},{"kind":"echo","payload":3},{"kind":"echo","payload":4}]}"#;
    let refused = world.with("POST /jobs:batch", &key, longer).await;
    assert_eq!(refused.body["code"], "key_reused", "{}", refused.body);
    assert_eq!(world.say("GET /jobs", "").await.body["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn waiting_jobs_are_moved_and_lists_go_on() {
    let world = World::new().await;
    for number in 0..5 {
        let body = format!(r#"{{"kind":"echo","payload":{number},"delay":"1h"}}"#);
        world.say("POST /jobs", &body).await;
    }
    let page = world.say("GET /jobs?limit=3&state=scheduled", "").await;
    let cursor = page.body["next_cursor"].as_str().unwrap();
    let rest = world.say(&format!("GET /jobs?limit=3&state=scheduled&cursor={cursor}"), "").await;
    let count = |list: &serde_json::Value| list["items"].as_array().unwrap().len();
    assert_eq!((count(&page.body), count(&rest.body)), (3, 2));
    let id = page.body["items"][0]["id"].as_str().unwrap();
    let moved = world.say(&format!("PATCH /jobs/{id}"), r#"{"queue":"other","priority":9}"#).await;
    assert_eq!((&moved.body["queue"], &moved.body["priority"]), (&json!("other"), &json!(9)));
}
