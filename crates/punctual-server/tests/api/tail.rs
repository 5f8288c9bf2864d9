//! A log that is watched while it is written.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::World;

const EVENTS: (&str, &str) = ("accept", "text/event-stream");

#[tokio::test]
async fn a_watched_log_ends_with_its_job() {
    let world = World::new().await;
    let made = world.say("POST /jobs", r#"{"kind":"echo","payload":1,"delay":"300ms"}"#).await;
    let log = format!("GET /jobs/{}/log", made.body["id"].as_str().unwrap());
    let told = world.with(&log, &[EVENTS], "").await;
    assert_eq!(told.headers["content-type"], "text/event-stream");
    let Value::String(events) = told.body else { panic!("no text: {}", told.body) };
    let events: Vec<&str> = events.split_terminator("\n\n").collect();
    let [line, end] = events[..] else { panic!("{events:?}") };
    assert!(line.contains("event: line") && line.contains("id: 1.1"), "{line}");
    let data = line.lines().find_map(|field| field.strip_prefix("data: ")).unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!((&data["text"], &data["number"]), (&json!("said it"), &json!(1)));
    assert_eq!(end, "event: end\ndata: {\"state\":\"succeeded\"}");

    // Whoever has seen it all is told the end alone.
    let rest = world.with(&log, &[EVENTS, ("last-event-id", "1.1")], "").await;
    assert_eq!(rest.body, json!(format!("{end}\n\n")));
    let nobody = "GET /jobs/01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10/log";
    assert_eq!(world.with(nobody, &[EVENTS], "").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_payload_that_is_known_to_be_wrong_is_refused() {
    let world = World::new().await.checked();
    let refused = world.say("POST /jobs", r#"{"kind":"echo","payload":"bad"}"#).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused.body["errors"][0]["pointer"], "/payload", "{}", refused.body);
    let batch = r#"{"jobs":[{"kind":"echo","payload":1},{"kind":"echo","payload":"bad"}]}"#;
    let refused = world.say("POST /jobs:batch", batch).await;
    assert_eq!(refused.body["errors"][0]["pointer"], "/jobs/1/payload", "{}", refused.body);
    let schedule = |payload: &str| {
        format!(r#"{{"when":["@every 1h"],"job":{{"kind":"echo","payload":{payload}}}}}"#)
    };
    let refused = world.say("PUT /schedules/s", &schedule("\"bad\"")).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    assert_eq!(refused.body["errors"][0]["pointer"], "/job/payload", "{}", refused.body);
    assert_eq!(world.say("PUT /schedules/s", &schedule("1")).await.status, StatusCode::CREATED);
    let refused = world.say("PATCH /schedules/s", r#"{"job":{"payload":"bad"}}"#).await;
    assert_eq!(refused.body["errors"][0]["pointer"], "/job/payload", "{}", refused.body);
    assert_eq!(world.say("GET /jobs", "").await.body["items"], json!([]));
}
