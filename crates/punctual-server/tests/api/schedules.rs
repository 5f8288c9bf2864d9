//! Schedules: made, changed, paused, run, looked at.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::World;

const DAILY: &str =
    r#"{"when":["0 8 * * *"],"tz":"Europe/Paris","job":{"kind":"echo","payload":1}}"#;

#[tokio::test]
async fn a_schedule_lives_from_creation_to_deletion() {
    let world = World::new().await;
    let made = world.say("PUT /schedules/daily%20report", DAILY).await;
    assert_eq!((made.status, &made.body["name"]), (StatusCode::CREATED, &json!("daily report")));
    assert_eq!(made.headers["etag"], made.body["etag"].as_str().unwrap());
    assert_eq!(made.body["description"], "at 08:00 every day");
    let next = world.say("GET /schedules/daily%20report/next?n=3", "").await;
    assert_eq!(next.body["next"].as_array().unwrap().len(), 3);
    let paused = world.say("POST /schedules/daily%20report/pause", r#"{"why":"holidays"}"#).await;
    assert_eq!(paused.body["pause"]["why"], "holidays");
    let why = world.say("GET /why/schedules/daily%20report", "").await;
    assert_eq!(why.body["reasons"][0]["code"], "paused_schedule");
    let resumed = world.say("POST /schedules/daily%20report/resume", "").await;
    assert_eq!((resumed.status, &resumed.body["pause"]), (StatusCode::OK, &Value::Null));
    let ran = world.say("POST /schedules/daily%20report/run", "").await;
    let job = ran.body["job"].as_str().unwrap();
    let ended = world.say(&format!("GET /jobs/{job}/wait"), "").await;
    assert_eq!(ended.body["state"], "succeeded");
    let of_it = world.say("GET /jobs?schedule=daily%20report", "").await;
    assert_eq!(of_it.body["items"][0]["id"], json!(job));
    let gone = world.say("DELETE /schedules/daily%20report", "").await;
    assert_eq!((gone.status, gone.body), (StatusCode::NO_CONTENT, Value::String(String::new())));
    let missing = world.say("GET /schedules/daily%20report", "").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn each_change_says_who_and_why_and_enabling_fires_nothing() {
    let world = World::new().await;
    world.say("PUT /schedules/daily?why=asked%20for", DAILY).await;
    let changed = world
        .with(
            "PATCH /schedules/daily?why=on%20every%20machine",
            &[("punctual-actor", "ada")],
            r#"{"run_on":"every_node"}"#,
        )
        .await;
    assert_eq!(changed.body["definition"]["run_on"], "every_node");
    let revisions = world.say("GET /schedules/daily/revisions", "").await;
    let told: Vec<(&str, &str)> = revisions.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["who"].as_str().unwrap(), it["why"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("ada", "on every machine"), ("api", "asked for")]);
    let disabled = world.say("POST /schedules/daily/disable?why=moved", "").await;
    assert_eq!(disabled.body["enabled"], false);
    let enabled = world.say("POST /schedules/daily/enable", "").await;
    assert_eq!(enabled.body["enabled"], true);
    let slots = world.say("GET /schedules/daily/slots", "").await;
    assert_eq!(slots.body["items"], json!([]));
    let audits = world.say("GET /audit", "").await;
    let of_it = audits.body["items"].as_array().unwrap().iter();
    assert!(of_it.clone().any(|it| it["action"] == "disable schedule" && it["why"] == "moved"));
    let wrong = world.say("PATCH /schedules/daily", r#"{"run_on":"everywhere"}"#).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    let detail = wrong.body.to_string();
    assert!(
        detail.contains("expected one of any, every_node, node NAME, label KEY=VALUE"),
        "{detail}"
    );
}

/// With the clock of a test nothing is ahead; `schedules_fire_again_after_the_clock_of_the_host_was_ahead` in
/// the tests of the product has a schedule that is.
#[tokio::test]
async fn a_schedule_that_is_not_ahead_of_the_clock_is_not_realigned() {
    let world = World::new().await;
    let created = world.say("PUT /schedules/daily", DAILY).await;
    assert_eq!(created.body["ahead_until"], json!(null));
    for path in ["daily/realign", "daily/realign?dry_run=true"] {
        let refused = world.say(&format!("POST /schedules/{path}"), "").await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{path}: {}", refused.body);
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains("is not ahead of the database clock"), "{detail}");
    }
    let unknown = world.say("POST /schedules/weekly/realign", "").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_change_of_what_somebody_else_changed_is_refused() {
    let world = World::new().await;
    let seen = world.say("PUT /schedules/daily", DAILY).await;
    let etag = seen.body["etag"].as_str().unwrap().to_owned();
    let changed =
        world.with("PATCH /schedules/daily", &[("if-match", &etag)], r#"{"tz":"UTC"}"#).await;
    assert_eq!(
        (changed.status, &changed.body["definition"]["tz"]),
        (StatusCode::OK, &json!("UTC"))
    );
    let late = world
        .with("PATCH /schedules/daily", &[("if-match", &etag)], r#"{"tz":"Asia/Tokyo"}"#)
        .await;
    assert_eq!(
        (late.status, &late.body["code"]),
        (StatusCode::PRECONDITION_FAILED, &json!("stale"))
    );
    let late = world.with("PUT /schedules/daily", &[("if-match", &etag)], DAILY).await;
    assert_eq!(late.status, StatusCode::PRECONDITION_FAILED);
    let taken = world.with("PUT /schedules/daily", &[("if-none-match", "*")], DAILY).await;
    assert_eq!(
        (taken.status, &taken.body["code"]),
        (StatusCode::PRECONDITION_FAILED, &json!("exists"))
    );
    let revisions = world.say("GET /schedules/daily/revisions", "").await;
    assert_eq!(revisions.body["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn slots_and_what_lies_ahead_are_told() {
    let world = World::new().await;
    let often = r#"{"when":["@every 1s"],"job":{"kind":"echo"}}"#;
    world.say("PUT /schedules/often", often).await;
    let slots = loop {
        let slots = world.say("GET /schedules/often/slots", "").await;
        if !slots.body["items"].as_array().unwrap().is_empty() {
            break slots;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(slots.body["items"][0]["outcome"], "fired");
    let ahead = "GET /upcoming?from=2027-01-01T00:00:00Z&to=2027-01-01T02:00:00Z&bucket=1h";
    let ahead = world.say(ahead, "").await;
    let counts: Vec<u64> = ahead.body["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["slots"].as_u64().unwrap())
        .collect();
    assert_eq!(counts, [3_600, 3_600]);
    let all = "GET /upcoming?from=0001-01-02T00:00:00Z&to=9999-12-30T00:00:00Z&bucket=90000h";
    let refused = world.say(all, "").await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
}

#[tokio::test]
async fn a_pause_that_is_over_is_none() {
    let world = World::new().await;
    // Whether the leader has looked at it since does not matter: its next slot is hours away.
    world.say("PUT /schedules/daily", DAILY).await;
    let paused = world.say("POST /schedules/daily/pause", r#"{"why":"holidays"}"#).await;
    assert_eq!(paused.body["pause"]["why"], "holidays");
    assert_eq!(world.say("POST /schedules/daily/resume", "").await.body["pause"], Value::Null);
    assert_eq!(world.say("GET /schedules/daily", "").await.body["pause"], Value::Null);
    let listed = world.say("GET /schedules", "").await;
    assert_eq!(listed.body["items"][0]["pause"], Value::Null);
    let set = format!(r#"{{"schedules":[{{"name":"daily","definition":{DAILY}}}]}}"#);
    let applied = world.say("PUT /sets/mine?adopt=true&dry_run=true", &set).await;
    assert_eq!(applied.body["steps"][0]["pause"], Value::Null, "{}", applied.body);
    let gone = r#"{"until":"2020-01-01T00:00:00Z"}"#;
    let queue = world.say("POST /queues/mail/pause", gone).await;
    assert_eq!((queue.status, &queue.body["pause"]), (StatusCode::OK, &Value::Null));
}

#[tokio::test]
async fn the_newest_slots_are_told_beside_with_how_their_jobs_went() {
    let world = World::new().await;
    for (name, kind) in [("bad", "fail"), ("good", "echo"), ("rare", "echo")] {
        let when = if name == "rare" { "@at 2099-01-01T00:00:00Z" } else { "@every 1s" };
        let body = format!(r#"{{"when":["{when}"],"job":{{"kind":"{kind}","payload":{{}}}}}}"#);
        assert_eq!(world.say(&format!("PUT /schedules/{name}"), &body).await.status, 201);
    }
    let listed = loop {
        let listed = world.say("GET /schedules?history=3", "").await;
        let states = |index: usize| listed.body["items"][index]["history"].as_array().unwrap();
        let has_ended = |index| states(index).iter().any(|slot| slot["job_state"] != Value::Null);
        if has_ended(0) && has_ended(1) {
            break listed;
        }
        tokio::task::yield_now().await;
    };
    let of = |index: usize| &listed.body["items"][index]["history"];
    for (index, state) in [(0, "failed"), (1, "succeeded")] {
        let slots = of(index).as_array().unwrap();
        let known = slots.iter().map(|it| &it["job_state"]).find(|it| it.is_string());
        assert!([state, "running"].iter().any(|it| known.unwrap() == it), "{slots:?}");
        assert_eq!(slots[0]["outcome"], "fired");
    }
    assert_eq!(of(2), &json!([]));
    let one = world.say("GET /schedules/bad?history=1", "").await;
    assert_eq!(one.body["history"].as_array().unwrap().len(), 1);
    assert!(world.say("GET /schedules/bad", "").await.body.get("history").is_none());
    // By what is next: the one that is due once comes last, though its name does not.
    world.say("PUT /schedules/z", r#"{"when":["@every 1h"],"job":{"kind":"echo"}}"#).await;
    let next = world.say("GET /schedules?order=next", "").await;
    let names: Vec<&Value> =
        next.body["items"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names[2..], ["z", "rare"], "{names:?}");
    let wrong = world.say("GET /schedules?order=luck", "").await;
    assert_eq!(wrong.body["errors"][0]["pointer"], "order", "{}", wrong.body);
}

#[tokio::test]
async fn a_run_that_is_asked_for_again_makes_no_second_job() {
    let world = World::new().await;
    world.say("PUT /schedules/daily", DAILY).await;
    world.say("PUT /schedules/other", DAILY).await;
    let key = [("idempotency-key", "run-7")];
    let first = world.with("POST /schedules/daily/run", &key, "").await;
    assert_eq!(first.status, StatusCode::CREATED, "{}", first.body);
    assert!(first.headers.get("idempotency-replayed").is_none());
    // A definition that has changed meanwhile makes it no other request.
    world.say("PATCH /schedules/daily", r#"{"job":{"payload":2}}"#).await;
    let again = world.with("POST /schedules/daily/run", &key, "").await;
    assert_eq!((again.status, &again.body), (StatusCode::OK, &first.body));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let other = world.with("POST /schedules/other/run", &key, "").await;
    assert_eq!(
        (other.status, &other.body["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("key_reused"))
    );
    let bare = world.say("POST /schedules/daily/run", "").await;
    assert_ne!(bare.body["job"], first.body["job"]);
    let made = world.say("GET /jobs?schedule=daily", "").await;
    assert_eq!(made.body["items"].as_array().unwrap().len(), 2);
    let audits = world.say("GET /audit", "").await;
    let runs = audits.body["items"].as_array().unwrap().iter();
    assert_eq!(runs.filter(|it| it["action"] == "run schedule").count(), 2, "{}", audits.body);
    world.say("PATCH /schedules/other", r#"{"run_on":"every_node"}"#).await;
    let key = [("idempotency-key", "run-8")];
    let first = world.with("POST /schedules/other/run", &key, "").await;
    assert_eq!(first.status, StatusCode::CREATED, "{}", first.body);
    let again = world.with("POST /schedules/other/run", &key, "").await;
    assert_eq!((again.status, again.body), (StatusCode::OK, first.body));
}

#[tokio::test]
async fn what_lies_ahead_begins_where_a_pause_ends() {
    let world = World::new().await;
    let hourly = r#"{"when":["30 * * * *"],"exclude":["2027-01-02"],"job":{"kind":"echo"}}"#;
    world.say("PUT /schedules/hourly", hourly).await;
    let counts = async || {
        let ask = "GET /upcoming?from=2027-01-01T00:00:00Z&to=2027-01-03T01:00:00Z&bucket=12h";
        let ahead = world.say(ask, "").await;
        let buckets = ahead.body["buckets"].as_array().unwrap().iter();
        let of = |it: &Value| (it["from"].as_str().unwrap()[..13].to_owned(), it["slots"].as_u64());
        buckets.map(of).collect::<Vec<_>>()
    };
    let of = |hour: &str, slots| (hour.to_owned(), Some(slots));
    let last = of("2027-01-03T00", 1);
    assert_eq!(counts().await, [of("2027-01-01T00", 12), of("2027-01-01T12", 12), last.clone()]);
    let until = r#"{"until":"2027-01-01T20:30:00Z"}"#;
    world.say("POST /schedules/hourly/pause", until).await;
    assert_eq!(counts().await, [of("2027-01-01T12", 4), last]);
    world.say("POST /schedules/hourly/pause", "{}").await;
    assert_eq!(counts().await, []);
    world.say("POST /schedules/hourly/resume", "").await;
    assert_eq!(counts().await.len(), 3);
}

#[tokio::test]
async fn an_expression_is_explained() {
    let world = World::new().await;
    let asked = r#"{"expr":"30 2 * * *","tz":"Europe/Paris","from":"2027-03-27T12:00:00Z","n":2}"#;
    let told = world.say("POST /cron/explain", asked).await;
    assert_eq!(told.body["description"], "at 02:30 every day");
    assert_eq!(told.body["next"], json!(["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]));
}
