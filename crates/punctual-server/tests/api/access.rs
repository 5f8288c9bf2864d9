//! Who may ask.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use punctual::Punctual;
use punctual_server::{Server, Token};

use crate::World;

async fn status(world: &World, headers: &[(&str, &str)]) -> StatusCode {
    let mut request = Request::get("/api/v1/nodes");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.ask(request.body(Body::empty()).unwrap()).await.status
}

#[tokio::test]
async fn without_a_token_only_this_machine_is_answered_by_its_own_name() {
    let world = World::of(Punctual::memory().start().await.unwrap(), None);
    for host in ["localhost", "LOCALHOST:7347", "127.0.0.1:7347", "127.1.2.3", "[::1]:7347"] {
        assert_eq!(status(&world, &[("host", host)]).await, StatusCode::OK, "{host}");
    }
    let strangers = [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "",
        "[::2]",
    ];
    for host in strangers {
        assert_eq!(status(&world, &[("host", host)]).await, StatusCode::FORBIDDEN, "{host}");
    }
}

#[tokio::test]
async fn with_a_token_whoever_knows_it_is_answered() {
    let token = Token::new("0123456789abcdef").unwrap();
    let world = World::of(Punctual::memory().start().await.unwrap(), Some(token));
    let good = [("authorization", "Bearer 0123456789abcdef"), ("host", "jobs.example")];
    assert_eq!(status(&world, &good).await, StatusCode::OK);
    for wrong in
        ["Bearer 0123456789abcdee", "Bearer ", "Basic 0123456789abcdef", "0123456789abcdef"]
    {
        let headers = [("authorization", wrong), ("host", "localhost")];
        assert_eq!(status(&world, &headers).await, StatusCode::UNAUTHORIZED, "{wrong}");
    }
    assert_eq!(status(&world, &[("host", "localhost")]).await, StatusCode::UNAUTHORIZED);
    // Nobody else is told either what cannot be done.
    let wrong = Request::delete("/api/v1/nodes").body(Body::empty()).unwrap();
    assert_eq!(world.ask(wrong).await.status, StatusCode::UNAUTHORIZED);
    // Whoever looks after the process needs none.
    let live = Request::get("/healthz/live").body(Body::empty()).unwrap();
    assert_eq!(world.ask(live).await.status, StatusCode::OK);
    insta::assert_snapshot!(Token::new("short").unwrap_err(), @"the token is too short: 5 characters, minimum 16; generate one with `openssl rand -hex 32`");
}

#[tokio::test]
async fn a_server_that_is_read_only_changes_nothing() {
    let open = World::new().await;
    open.say("PUT /schedules/s", r#"{"when":["0 8 * * *"],"job":{"kind":"echo"}}"#).await;
    let server = Server { read_only: true, ..Server::new(open.punctual.clone()) };
    let world = World { punctual: open.punctual.clone(), router: server.router() };
    let changes = [
        ("POST /jobs", r#"{"kind":"echo"}"#),
        ("PUT /schedules/t", r#"{"when":["0 8 * * *"],"job":{"kind":"echo"}}"#),
        ("PATCH /schedules/s", r#"{"tz":"Europe/Paris"}"#),
        ("DELETE /schedules/s", ""),
        ("POST /schedules/s/run", ""),
        ("POST /queues/mail/pause", "{}"),
        ("POST /operations", r#"{"action":"retry","q":"state:failed"}"#),
        ("POST /claims", r#"{"name":"w","version":"1","kinds":["echo"]}"#),
    ];
    for (what, body) in changes {
        let refused = world.say(what, body).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{what}: {}", refused.body);
        assert_eq!(refused.headers["content-type"], "application/problem+json", "{what}");
        assert_eq!(refused.body["code"], "read_only", "{what}");
        assert!(refused.body["hint"].as_str().unwrap().contains("read_only"), "{what}");
    }
    for (what, body) in [("GET /schedules/s", ""), ("POST /cron/explain", r#"{"expr":"@daily"}"#)] {
        assert_eq!(world.say(what, body).await.status, StatusCode::OK, "{what}");
    }
    assert_eq!(world.say("GET /jobs", "").await.body["items"], serde_json::json!([]));
}

#[tokio::test]
async fn a_page_of_another_site_changes_nothing() {
    let world = World::new().await;
    let site = [("sec-fetch-site", "cross-site")];
    let refused = world.with("POST /jobs", &site, r#"{"kind":"echo"}"#).await;
    assert_eq!(
        (refused.status, refused.body["code"].as_str()),
        (StatusCode::FORBIDDEN, Some("cross_site"))
    );
    let own = [("sec-fetch-site", "same-origin")];
    assert_eq!(
        world.with("POST /jobs", &own, r#"{"kind":"echo"}"#).await.status,
        StatusCode::CREATED
    );
}
