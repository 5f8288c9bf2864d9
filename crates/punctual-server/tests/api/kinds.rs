//! Kinds that nobody knows.

use axum::http::StatusCode;
use punctual::{Order, Punctual};
use punctual_server::{Server, UnknownKinds};
use serde_json::{Value, json};

use crate::{Answer, World};

fn is_refused(answer: &Answer, pointer: &str, advice: &str) {
    let said = (answer.status, &answer.body["code"], &answer.body["errors"][0]["pointer"]);
    let wanted = (StatusCode::UNPROCESSABLE_ENTITY, &json!("unknown_kind"), &json!(pointer));
    assert_eq!(said, wanted, "{}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(detail.contains(advice), "{detail}");
    assert!(answer.body["hint"].as_str().unwrap().contains("allow_unknown_kind=true"));
}

/// A server without handlers of its own, on what this node keeps.
async fn producer(store: &std::path::Path) -> World {
    let builder = Punctual::sqlite(store).producer().await.unwrap();
    World::of(builder.start().await.unwrap(), None)
}

#[tokio::test]
async fn a_kind_that_nobody_knows_is_refused_with_its_place_and_what_was_meant() {
    let world = World::new().await;
    let job = world.say("POST /jobs", r#"{"kind":"ecko"}"#).await;
    is_refused(&job, "/kind", "unknown job kind `ecko`");
    is_refused(&job, "/kind", "did you mean `echo`?");
    let far = world.say("POST /jobs", r#"{"kind":"something"}"#).await;
    is_refused(&far, "/kind", "known kinds: echo, fail");
    let batch = r#"{"jobs":[{"kind":"echo"},{"kind":"fial"}]}"#;
    is_refused(&world.say("POST /jobs:batch", batch).await, "/jobs/1/kind", "`fail`");
    assert_eq!(world.say("GET /jobs", "").await.body["items"], json!([]), "nothing is written");
    let schedule = r#"{"when":["0 8 * * *"],"job":{"kind":"ecko"}}"#;
    is_refused(&world.say("PUT /schedules/s", schedule).await, "/job/kind", "`echo`");
    let good = r#"{"when":["0 8 * * *"],"job":{"kind":"echo"}}"#;
    assert_eq!(world.say("PUT /schedules/s", good).await.status, StatusCode::CREATED);
    let change = r#"{"job":{"kind":"ecko"}}"#;
    is_refused(&world.say("PATCH /schedules/s", change).await, "/job/kind", "`echo`");
}

#[tokio::test]
async fn whoever_means_it_is_obeyed_and_a_schedule_keeps_its_kind() {
    let world = World::new().await;
    let made = world.say("POST /jobs?allow_unknown_kind=true", r#"{"kind":"later"}"#).await;
    assert_eq!(made.status, StatusCode::CREATED);
    // There is a job of it now: somebody meant it.
    assert_eq!(world.say("POST /jobs", r#"{"kind":"later"}"#).await.status, StatusCode::CREATED);
    let batch = r#"{"jobs":[{"kind":"much-later"}]}"#;
    let batch = world.say("POST /jobs:batch?allow_unknown_kind=true", batch).await;
    assert_eq!(batch.status, StatusCode::OK);
    let body = r#"{"when":["0 8 * * *"],"job":{"kind":"yearly"}}"#;
    let made = world.say("PUT /schedules/s?allow_unknown_kind=true", body).await;
    assert_eq!(made.status, StatusCode::CREATED);
    let other = r#"{"when":["0 9 * * *"],"job":{"kind":"yearly"}}"#;
    assert_eq!(world.say("PUT /schedules/s", other).await.status, StatusCode::OK);
    assert_eq!(world.say("PATCH /schedules/s", r#"{"tz":"UTC"}"#).await.status, StatusCode::OK);
    let lenient =
        Server { unknown_kinds: UnknownKinds::Allow, ..Server::new(world.punctual.clone()) };
    let lenient = World { punctual: world.punctual, router: lenient.router() };
    assert_eq!(lenient.say("POST /jobs", r#"{"kind":"any"}"#).await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn what_a_node_serves_or_the_history_has_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("kinds.db");
    let world = producer(&store).await;
    let ask = r#"{"kind":"echo","payload":1}"#;
    is_refused(&world.say("POST /jobs", ask).await, "/kind", "no kinds are known yet");
    // A node that has just joined is known at once.
    let builder = Punctual::sqlite(&store).await.unwrap().handle(crate::echo);
    let node = builder.start().await.unwrap();
    let made = world.say("POST /jobs", ask).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
    let id = made.body["id"].as_str().unwrap().to_owned();
    world.say(&format!("GET /jobs/{id}/wait?timeout=20s"), "").await;
    node.stop().await;
    // Also while its only worker is away, for one who has not seen it.
    let another = producer(&store).await;
    assert_eq!(another.say("POST /jobs", ask).await.status, StatusCode::CREATED);
    // The library orders what it likes.
    another.punctual.enqueue(Order::of_kind("anything", &Value::Null)).await.unwrap();
}

#[tokio::test]
async fn a_worker_elsewhere_is_a_node_like_any_other() {
    let world = World::new().await;
    let greet = r#"{"kind":"greet"}"#;
    is_refused(&world.say("POST /jobs", greet).await, "/kind", "`greet`");
    let claim = json!({
        "node": "6f0c1a52-2f0e-4f0e-9d57-0c3b1f6f2f10", "name": "py", "queues": ["other"],
        "kinds": ["greet"],
    });
    let claimed = world.say("POST /claims", &claim.to_string()).await;
    assert_eq!(claimed.status, StatusCode::OK, "{}", claimed.body);
    assert_eq!(world.say("POST /jobs", greet).await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn files_are_warned_about_and_applied() {
    let world = World::new().await;
    let body = r#"{"schedules":[
        {"name":"good","definition":{"when":["0 8 * * *"],"job":{"kind":"echo"}}},
        {"name":"early","definition":{"when":["0 8 * * *"],"job":{"kind":"ecko"}}}]}"#;
    let answer = world.say("PUT /sets/team", body).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.body["added"], 2);
    let warnings = answer.body["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1);
    let warning = warnings[0].as_str().unwrap();
    assert!(
        warning.starts_with("schedule `early`: unknown job kind") && warning.contains("`echo`")
    );
}
