//! Many jobs at once.

use axum::http::StatusCode;
use punctual::{Punctual, ServedQueue};
use punctual_server::{OPERATIONS, handle_operations};
use serde_json::{Value, json};

use crate::{World, echo, fail};

/// A server that does operations.
async fn world() -> World {
    let builder = handle_operations(Punctual::memory().handle(echo).handle(fail));
    let queues = ["default", OPERATIONS].map(ServedQueue::new);
    World::of(builder.queues(queues).start().await.unwrap(), None)
}

async fn enqueue(world: &World, body: &str, count: usize) -> Vec<String> {
    let batch = format!(r#"{{"jobs":[{}]}}"#, vec![body; count].join(","));
    let jobs = world.say("POST /jobs:batch", &batch).await.body["jobs"].clone();
    jobs.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

/// Asks for an operation, and waits until it has ended.
async fn operate(world: &World, body: &Value) -> Value {
    let by = [("punctual-actor", "ada")];
    let asked = world.with("POST /operations", &by, &body.to_string()).await;
    assert_eq!(asked.status, StatusCode::CREATED, "{}", asked.body);
    let id = asked.body["id"].as_str().unwrap();
    world.say(&format!("GET /jobs/{id}/wait"), "").await;
    world.say(&format!("GET /operations/{id}"), "").await.body
}

async fn states(world: &World, ids: &[String]) -> Vec<String> {
    let mut states = Vec::new();
    for id in ids {
        let job = world.say(&format!("GET /jobs/{id}"), "").await.body;
        states.push(job["state"].as_str().unwrap().to_owned());
    }
    states
}

#[tokio::test]
async fn an_operation_that_is_asked_for_again_is_the_same() {
    let world = world().await;
    let (key, body) = ([("idempotency-key", "mend")], r#"{"action":"retry","q":"kind:fail"}"#);
    let first = world.with("POST /operations", &key, body).await;
    assert_eq!(first.status, StatusCode::CREATED, "{}", first.body);
    let again = world.with("POST /operations", &key, body).await;
    assert_eq!((again.status, &again.body["id"]), (StatusCode::OK, &first.body["id"]));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let other = r#"{"action":"cancel","q":"kind:fail"}"#;
    let other = world.with("POST /operations", &key, other).await;
    assert_eq!(other.body["code"], "key_reused", "{}", other.body);
    let all = world.say("GET /operations", "").await;
    assert_eq!(all.body["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn all_that_failed_is_retried_once_and_nothing_else() {
    let world = world().await;
    let ids = enqueue(&world, r#"{"kind":"fail","payload":{}}"#, 120).await;
    let other = enqueue(&world, r#"{"kind":"fail","payload":{},"tags":["keep"]}"#, 1).await;
    for id in ids.iter().chain(&other) {
        world.say(&format!("GET /jobs/{id}/wait"), "").await;
    }
    // They fail again at once, and are not tried a third time by the same operation.
    let done = operate(&world, &json!({"action": "retry", "q": "state:failed kind:fail"})).await;
    assert_eq!(done["state"], "succeeded", "{done}");
    assert_eq!(done["result"], json!({"done": 121, "skipped": 0, "reasons": []}));
    assert_eq!((&done["who"], &done["q"]), (&json!("ada"), &json!("state:failed kind:fail")));
    for id in &ids {
        world.say(&format!("GET /jobs/{id}/wait"), "").await;
        let job = world.say(&format!("GET /jobs/{id}"), "").await.body;
        assert_eq!(job["attempt"], json!(2));
    }
    let audit = world.say("GET /audit", "").await.body;
    assert_eq!(audit["items"][0]["who"], "ada");
    let list = world.say("GET /operations", "").await.body;
    assert_eq!(list["items"][0]["id"], done["id"]);
}

#[tokio::test]
async fn waiting_jobs_are_moved_and_cancelled_even_while_their_queue_is_paused() {
    let world = world().await;
    world.say("POST /queues/default/pause", "{}").await;
    let ids = enqueue(&world, r#"{"kind":"echo","tags":["old"]}"#, 70).await;
    let kept = enqueue(&world, r#"{"kind":"echo"}"#, 3).await;
    let moved = json!({"action": "move", "q": "tag:old", "to": {"queue": "slow", "priority": 5}});
    assert_eq!(operate(&world, &moved).await["result"]["done"], json!(70));
    let job = world.say(&format!("GET /jobs/{}", ids[0]), "").await.body;
    assert_eq!((&job["queue"], &job["priority"]), (&json!("slow"), &json!(5)));
    let done = operate(&world, &json!({"action": "cancel", "q": "queue:slow"})).await;
    assert_eq!(done["result"]["done"], json!(70));
    assert!(states(&world, &ids).await.iter().all(|state| state == "cancelled"));
    assert!(states(&world, &kept).await.iter().all(|state| state == "ready"));
}

#[tokio::test]
async fn an_operation_that_has_not_begun_can_be_called_off() {
    let world = world().await;
    world.say(&format!("POST /queues/{OPERATIONS}/pause"), "{}").await;
    let asked = world.say("POST /operations", r#"{"action":"cancel","q":"kind:echo"}"#).await.body;
    let path = format!("/operations/{}", asked["id"].as_str().unwrap());
    assert_eq!(asked["state"], "ready");
    assert_eq!(world.say(&format!("DELETE {path}"), "").await.body["state"], "cancelled");
    let job = enqueue(&world, r#"{"kind":"echo"}"#, 1).await.remove(0);
    let other = world.say(&format!("GET /operations/{job}"), "").await;
    assert_eq!(other.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_operation_that_makes_no_sense_is_refused() {
    let world = world().await;
    for (body, place, says) in [
        (json!({"action": "dance", "q": "kind:echo"}), "/action", "unknown action `dance`"),
        (json!({"action": "cancel", "q": " "}), "/q", "the filter must not be empty"),
        (json!({"action": "retry", "q": "state:ready"}), "/q", "state:failed or state:cancelled"),
        (json!({"action": "cancel", "q": "state:failed"}), "/q", "only unfinished jobs"),
        (json!({"action": "move", "q": "kind:echo"}), "/to", "nothing to change"),
        (
            json!({"action": "cancel", "q": "kind:a", "to": {"priority": 1}}),
            "/to",
            "only allowed with action `move`",
        ),
        (json!({"action": "cancel", "q": "color:red"}), "q", "unknown filter"),
    ] {
        let answer = world.say("POST /operations", &body.to_string()).await;
        assert!(answer.status.is_client_error(), "{body}: {}", answer.body);
        assert_eq!(answer.body["errors"][0]["pointer"], place, "{}", answer.body);
        assert!(answer.body["detail"].as_str().unwrap().contains(says), "{}", answer.body);
    }
}
