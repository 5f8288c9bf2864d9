//! Sets: desired state, applied whole.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::World;

fn body(names: &[&str]) -> String {
    let schedule = |name: &&str| json!({"name": name, "definition": {"when": ["0 8 * * *"], "job": {"kind": "echo"}}});
    json!({"schedules": names.iter().map(schedule).collect::<Vec<Value>>()}).to_string()
}

#[tokio::test]
async fn a_set_is_looked_at_applied_and_pruned() {
    let world = World::new().await;
    let look = world.say("PUT /sets/ops?dry_run=true", &body(&["a", "b"])).await;
    assert_eq!((look.status, &look.body["added"]), (StatusCode::OK, &json!(2)));
    assert_eq!(world.say("GET /sets/ops", "").await.body["items"], json!([]));
    let done = world.say("PUT /sets/ops", &body(&["a", "b"])).await;
    assert_eq!((&done.body["added"], &done.body["dry_run"]), (&json!(2), &json!(false)));
    let again = world.say("PUT /sets/ops", &body(&["a", "b"])).await;
    assert_eq!((&again.body["unchanged"], &again.body["changed"]), (&json!(2), &json!(0)));
    let kept = world.say("GET /sets/ops?limit=1", "").await;
    assert_eq!(
        (&kept.body["items"][0]["set"], &kept.body["next_cursor"]),
        (&json!("ops"), &json!("a"))
    );

    let other = body(&["a"]).replace("0 8", "30 8");
    let left = world.say("PUT /sets/ops", &other).await;
    let told = (&left.body["changed"], &left.body["kept"], &left.body["deleted"]);
    assert_eq!(told, (&json!(1), &json!(1), &json!(0)));
    let change = &left.body["steps"][0];
    let field = json!({"field": "when", "from": ["0 8 * * *"], "to": ["30 8 * * *"]});
    assert_eq!(change["fields"], json!([field]));
    assert_ne!(change["next_before"], change["next_after"]);
    let pruned = world.say("PUT /sets/ops?prune=true", &other).await;
    assert_eq!(pruned.body["deleted"], 1);
    assert_eq!(world.say("GET /schedules/b", "").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_is_wrong_is_told_by_its_place_and_nothing_is_written() {
    let world = World::new().await;
    let by_hand = r#"{"when":["0 8 * * *"],"job":{"kind":"echo"}}"#;
    world.say("PUT /schedules/b", by_hand).await;
    let never = body(&["a", "b", "c"]).replacen("0 8 * * *", "0 8 31 2 *", 1);
    let refused = world.say("PUT /sets/ops", &never).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    let places: Vec<&str> = refused.body["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["pointer"].as_str().unwrap())
        .collect();
    assert_eq!(places, ["/schedules/0/definition/when", "/schedules/1"]);
    assert_eq!(world.say("GET /schedules/c", "").await.status, StatusCode::NOT_FOUND);
    let taken = world.say("PUT /sets/ops", &body(&["b"])).await;
    assert_eq!(taken.status, StatusCode::CONFLICT);
    let adopted = world.say("PUT /sets/ops?adopt=true", &body(&["b"])).await;
    assert_eq!(adopted.body["steps"][0]["adopted"], true);
    let codes = world.say("PUT /sets/code:shop", &body(&["x"])).await;
    assert_eq!(codes.status, StatusCode::UNPROCESSABLE_ENTITY);
    let unknown = world.say("PUT /sets/ops", r#"{"schedule":[]}"#).await;
    assert_eq!(unknown.status, StatusCode::UNPROCESSABLE_ENTITY);
}
