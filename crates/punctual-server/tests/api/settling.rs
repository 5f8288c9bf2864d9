//! Settling many jobs of a remote worker in one request.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::World;

const NODE: &str = "6f0c1a52-2f0e-4f0e-9d57-0c3b1f6f2f10";

/// Enqueues this many jobs for a remote worker and claims them.
async fn claimed(world: &World, count: usize) -> Vec<String> {
    let claim = json!({
        "node": NODE, "name": "py", "queues": ["far"], "kinds": ["remote"], "max": count,
    })
    .to_string();
    world.say("POST /claims", &claim).await;
    for _ in 0..count {
        let job = r#"{"kind":"remote","queue":"far","payload":1}"#;
        assert_eq!(world.say("POST /jobs", job).await.status, StatusCode::CREATED);
    }
    let answer = world.say("POST /claims", &claim).await;
    let leases = answer.body["leases"].as_array().unwrap();
    assert_eq!(leases.len(), count, "{}", answer.body);
    leases.iter().map(|it| it["lease"].as_str().unwrap().to_owned()).collect()
}

async fn settle(world: &World, leases: Value) -> Value {
    let answer = world.say("POST /leases:settle", &json!({"leases": leases}).to_string()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.body["results"].clone()
}

#[tokio::test]
async fn one_request_settles_many_leases_and_answers_each() {
    let world = World::new().await;
    let leases = claimed(&world, 4).await;
    let ends = json!([
        {"lease": leases[0], "complete": {"result": {"n": 1}}},
        {"lease": leases[1], "fail": {"error": "no such address", "retry": false}},
        {"lease": leases[2], "fail": {"error": "busy", "retry_after": "1m"}},
        {"lease": leases[3], "snooze": {"for": "10m"}},
    ]);
    let results = settle(&world, ends.clone()).await;
    let states: Vec<_> = results.as_array().unwrap().iter().map(|it| &it["state"]).collect();
    assert_eq!(states, ["succeeded", "failed", "retrying", "retrying"], "{results}");
    let job = |index: usize| results[index]["job"].as_str().unwrap().to_owned();
    let done = world.say(&format!("GET /jobs/{}", job(0)), "").await.body;
    assert_eq!((&done["state"], &done["result"]), (&json!("succeeded"), &json!({"n": 1})));
    let failed = world.say(&format!("GET /jobs/{}", job(1)), "").await.body;
    assert_eq!(failed["error"], "no such address", "{failed}");
    // The response may have been lost.
    assert_eq!(settle(&world, ends).await, results);
}

#[tokio::test]
async fn a_lost_lease_does_not_stop_the_other_results() {
    let world = World::new().await;
    let leases = claimed(&world, 2).await;
    // A claim that does not name a lease gives it back.
    let claim = json!({"node": NODE, "name": "py", "queues": ["none"], "kinds": ["remote"],
        "leases": [leases[1]]});
    world.say("POST /claims", &claim.to_string()).await;
    let ends = json!([
        {"lease": leases[0], "complete": {}},
        {"lease": leases[1], "complete": {}},
    ]);
    let results = settle(&world, ends).await;
    assert_eq!(results[0]["state"], Value::Null, "{results}");
    assert_eq!(results[0]["error"]["code"], "lease_lost", "{results}");
    assert_eq!((&results[1]["state"], &results[1]["error"]), (&json!("succeeded"), &Value::Null));
}

#[tokio::test]
async fn a_request_that_settles_nothing_names_the_place_and_changes_nothing() {
    let world = World::new().await;
    let lease = claimed(&world, 1).await.remove(0);
    let good = json!({"lease": lease, "complete": {}});
    let cases = [
        (json!({"lease": lease}), "/leases/0"),
        (json!({"lease": lease, "complete": {}, "snooze": {"for": "1m"}}), "/leases/0"),
        (json!({"lease": lease, "snooze": {"for": "soon"}}), "/leases/0/snooze/for"),
        (
            json!({"lease": lease, "fail": {"error": "", "retry": false, "retry_after": "1s"}}),
            "/leases/0/fail/retry_after",
        ),
        (json!({"lease": "x", "complete": {}}), "/leases/0/lease"),
        (good.clone(), "/leases/1/lease"),
    ];
    for (bad, pointer) in cases {
        let body = json!({"leases": [bad, good]}).to_string();
        let answer = world.say("POST /leases:settle", &body).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", answer.body);
        assert_eq!(answer.body["errors"][0]["pointer"], pointer, "{}", answer.body);
    }
    let many = vec![good.clone(); 1_001];
    let answer = world.say("POST /leases:settle", &json!({"leases": many}).to_string()).await;
    assert!(answer.body["detail"].as_str().unwrap().starts_with("too many leases: 1001"));
    assert_eq!(settle(&world, json!([good])).await[0]["state"], "succeeded");
}
