//! Requests that are wrong, and what they are told.

use axum::http::StatusCode;

use crate::World;

async fn check(world: &World, what: &str, body: &str) -> String {
    let answer = world.say(what, body).await;
    assert_eq!(answer.headers["content-type"], "application/problem+json", "{what} {body}");
    assert_eq!(answer.body["status"], answer.status.as_u16(), "{what}");
    let pointer = answer.body["errors"][0]["pointer"].as_str().unwrap_or("-").to_owned();
    let detail = answer.body["detail"].as_str().unwrap();
    format!("{} {} at {pointer:?}: {detail}", answer.status.as_u16(), answer.body["code"])
}

#[tokio::test]
async fn each_mistake_is_told_with_its_place() {
    let world = World::new().await;
    let job = |body: &'static str| check(&world, "POST /jobs", body);
    insta::assert_snapshot!(job("{").await, @r#"400 "unreadable" at "": EOF while parsing an object at line 1 column 1"#);
    insta::assert_snapshot!(job("[]").await, @r#"422 "invalid" at "": invalid length 0, expected an object at line 1 column 2"#);
    insta::assert_snapshot!(job(r#"{"kind":"echo","payload":1} x"#).await, @r#"400 "unreadable" at "": trailing characters at line 1 column 29"#);
    insta::assert_snapshot!(job(r#"{"payload":1}"#).await, @r#"422 "invalid" at "": missing field `kind` at line 1 column 13"#);
    insta::assert_snapshot!(job(r#"{"kind":7}"#).await, @r#"422 "invalid" at "/kind": invalid type: integer `7`, expected a string at line 1 column 9"#);
    insta::assert_snapshot!(job(r#"{"kind":""}"#).await, @r#"422 "invalid" at "/kind": `kind` must not be empty"#);
    insta::assert_snapshot!(job(r#"{"kind":"echo","priority":1e9}"#).await, @r#"422 "invalid" at "/priority": invalid type: floating point `1000000000.0`, expected i16 at line 1 column 29"#);
    insta::assert_snapshot!(job(r#"{"kind":"echo","priority":300}"#).await, @r#"422 "invalid" at "/priority": job of kind `echo`: priority must be between -100 and 100, got 300"#);
    insta::assert_snapshot!(job(r#"{"kind":"echo","delay":"soon"}"#).await, @r#"422 "invalid" at "/delay": invalid duration `soon`; use a value such as 90s, 15m, 1h30m or 2d"#);
    insta::assert_snapshot!(job(r#"{"kind":"echo","at":"tomorrow"}"#).await, @r#"422 "invalid" at "/at": invalid time `tomorrow`; expected RFC 3339, such as 2027-03-28T01:00:00Z or 2027-03-28T03:00:00+02:00"#);
    insta::assert_snapshot!(job(r#"{"kind":"echo","delay":"1h","at":"2027-01-01T00:00:00Z"}"#).await, @r#"422 "invalid" at "/at": `delay` and `at` cannot be combined"#);
    insta::assert_snapshot!(job(r#"{"kind":"echo","unique_for":"1h"}"#).await, @r#"422 "invalid" at "/unique_for": `unique_for` requires `unique_key`"#);
    let schedule = |body: &'static str| check(&world, "PUT /schedules/s", body);
    insta::assert_snapshot!(schedule(r#"{"when":["61 * * * *"],"job":{"kind":"echo"}}"#).await, @r#"422 "invalid" at "/when/0": `when[0]`: `61 * * * *`: minute: must be between 0 and 59, got 61 (hint: the highest value is 59)"#);
    insta::assert_snapshot!(schedule(r#"{"when":["0 8 * * *"],"tz":"Europe/Pariss","job":{"kind":"echo"}}"#).await, @r#"422 "invalid" at "/tz": `tz`: unknown time zone `Europe/Pariss`; did you mean `Europe/Paris`?"#);
    insta::assert_snapshot!(schedule(r#"{"when":["0 8 * * *"],"overlap":"maybe","job":{"kind":"echo"}}"#).await, @r#"422 "invalid" at "/overlap": unknown overlap policy `maybe`; expected one of allow, skip, queue_one, queue_all, cancel_running"#);
    insta::assert_snapshot!(schedule(r#"{"when":[],"job":{"kind":"echo"}}"#).await, @r#"422 "invalid" at "/when": `when`: missing; add an expression such as `0 8 * * MON-FRI`"#);
    insta::assert_snapshot!(schedule(r#"{"when":["0 8 * * *"],"job":{"kind":"echo","priorty":1}}"#).await, @r#"422 "invalid" at "/job/priorty": unknown field `priorty`, expected one of `kind`, `payload`, `queue`, `priority`, `max_attempts`, `timeout`, `budget`, `start_within`, `tags`, `backoff` at line 1 column 52"#);
    insta::assert_snapshot!(schedule(r#"{"when":["0 8 * * *"],"job":{"kind":"echo","priority":300}}"#).await, @r#"422 "invalid" at "/job/priority": `job.priority`: priority must be between -100 and 100, got 300"#);
    let set = r#"{"schedules":[{"name":"a","definition":{"when":["0 8 * * *"],"missed":"some","job":{"kind":"echo"}}}]}"#;
    let told = check(&world, "PUT /sets/mine", set).await;
    assert!(told.starts_with(r#"422 "invalid" at "/schedules/0/definition/missed": "#), "{told}");
    world.say("PUT /schedules/s", r#"{"when":["0 8 * * *"],"job":{"kind":"echo"}}"#).await;
    for (change, pointer) in [
        ("[]", ""),
        (r#"{"tz":7}"#, "/tz"),
        (r#"{"colour":"red"}"#, "/colour"),
        (r#"{"overlap":"maybe"}"#, "/overlap"),
        (r#"{"when":["0 8 * * *","61 * * * *"]}"#, "/when/1"),
        (r#"{"job":{"priority":"high"}}"#, "/job/priority"),
        (r#"{"job":{"tags":["a",1]}}"#, "/job/tags/1"),
    ] {
        let told = check(&world, "PATCH /schedules/s", change).await;
        assert!(told.starts_with(&format!(r#"422 "invalid" at {pointer:?}: "#)), "{told}");
    }
    let ask = |what: &'static str| check(&world, what, "");
    insta::assert_snapshot!(ask("GET /jobs/7").await, @r#"400 "unreadable" at "id": invalid id `7`; expected a UUID such as 01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10"#);
    insta::assert_snapshot!(ask("GET /jobs/01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10").await, @r#"404 "not_found" at "-": job 01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10 not found; it never existed, or it was deleted after its retention period"#);
    insta::assert_snapshot!(ask("GET /jobs?state=done").await, @r#"400 "unreadable" at "state": unknown job state `done`; expected one of scheduled, ready, retrying, blocked, running, succeeded, failed, cancelled"#);
    insta::assert_snapshot!(ask("GET /jobs?q=colour:red").await, @r#"400 "unreadable" at "q": unknown filter `colour:red`; use state:VALUE, queue:VALUE, kind:VALUE, schedule:VALUE or tag:VALUE"#);
    insta::assert_snapshot!(ask("GET /jobs?limit=many").await, @r#"400 "unreadable" at "?": Failed to deserialize query string: limit: invalid digit found in string"#);
    insta::assert_snapshot!(ask("GET /jobs?stat=failed").await, @r#"400 "unknown_parameter" at "stat": unknown query parameter `stat` for GET /api/v1/jobs; did you mean `state`?"#);
    insta::assert_snapshot!(ask("GET /schedules?colour=red&limit=1").await, @r#"400 "unknown_parameter" at "colour": unknown query parameter `colour` for GET /api/v1/schedules; expected one of limit, cursor, order, history"#);
    insta::assert_snapshot!(ask("POST /jobs/01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10/retry?force=true").await, @r#"400 "unknown_parameter" at "force": unknown query parameter `force` for POST /api/v1/jobs/{id}/retry; this operation has no query parameters"#);
    insta::assert_snapshot!(ask("GET /jobs?cursor=x").await, @r#"400 "unreadable" at "cursor": invalid cursor `x`; pass `next_cursor` of the previous page, or omit it"#);
    insta::assert_snapshot!(ask("GET /schedules/none").await, @r#"404 "not_found" at "-": schedule `none` not found"#);
    insta::assert_snapshot!(ask("GET /nothing").await, @r#"404 "not_found" at "-": unknown path `/api/v1/nothing`; see /api/openapi.json"#);
    insta::assert_snapshot!(ask("DELETE /nodes").await, @r#"405 "wrong_method" at "-": method DELETE is not allowed for `/api/v1/nodes`"#);
}

#[tokio::test]
async fn a_body_that_is_too_large_or_no_json_is_refused() {
    let world = World::new().await;
    let large = format!(r#"{{"kind":"echo","payload":"{}"}}"#, "x".repeat(2_000_000));
    insta::assert_snapshot!(check(&world, "POST /jobs", &large).await, @r#"413 "too_large" at "-": the request body is larger than 1048576 bytes"#);
    let id = "01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10";
    let logs = format!("POST /leases/{id}.{id}.1/logs");
    insta::assert_snapshot!(check(&world, &logs, &large).await, @r#"413 "too_large" at "-": the request body is larger than 1048576 bytes"#);
    let payload = format!(r#"{{"kind":"echo","payload":"{}"}}"#, "x".repeat(300_000));
    insta::assert_snapshot!(check(&world, "POST /jobs", &payload).await, @r#"422 "invalid" at "/payload": job of kind `echo`: payload is too large: 300002 bytes, maximum 262144; store the data outside the job and pass a reference"#);
    let text = crate::request("POST /jobs", &[]).header("content-type", "text/plain");
    let mut request = text.body(axum::body::Body::from("kind=echo")).unwrap();
    request.headers_mut().remove("content-type");
    let answer = world.ask(request).await;
    assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let deep = format!(r#"{{"kind":"echo","payload":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    assert_eq!(world.say("POST /jobs", &deep).await.status, StatusCode::BAD_REQUEST);
}
