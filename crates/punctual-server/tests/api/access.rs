//! Who may ask.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::{FutureExt, stream};
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

#[tokio::test]
async fn a_request_with_the_origin_of_another_site_changes_nothing() {
    let world = World::new().await;
    let schedule = r#"{"when":["0 8 * * *"],"job":{"kind":"echo"}}"#;
    assert_eq!(world.say("PUT /schedules/s", schedule).await.status, StatusCode::CREATED);
    let changes = [
        ("POST /schedules/s/run", ""),
        ("POST /schedules/s/pause", ""),
        ("POST /queues/default/pause", ""),
        ("PUT /schedules/t", schedule),
        ("PATCH /schedules/s", r#"{"tz":"Europe/Paris"}"#),
        ("DELETE /schedules/s", ""),
    ];
    for origin in ["http://evil.example", "null", "http://localhost", "http://localhost:73"] {
        for (what, body) in changes {
            let refused = world.with(what, &[("origin", origin)], body).await;
            assert_eq!(refused.status, StatusCode::FORBIDDEN, "{what} {origin}: {}", refused.body);
            assert_eq!(refused.body["code"], "cross_site", "{what} {origin}");
        }
        let read = world.with("GET /schedules/s", &[("origin", origin)], "").await;
        assert_eq!(read.status, StatusCode::OK, "{origin}");
    }
    let own = [("origin", "http://localhost:7347")];
    let run = world.with("POST /schedules/s/run", &own, "").await;
    assert_eq!(run.status, StatusCode::CREATED, "{}", run.body);
}

#[tokio::test]
async fn a_host_that_only_begins_like_this_machine_is_refused() {
    let world = World::of(Punctual::memory().start().await.unwrap(), None);
    for host in ["[::1]evil.com", "[::1]:evil", "localhost:evil", "127.0.0.1:80:evil", "[::1"] {
        assert_eq!(status(&world, &[("host", host)]).await, StatusCode::FORBIDDEN, "{host}");
    }
}

#[tokio::test]
async fn the_name_of_the_scheme_has_no_case() {
    let token = Token::new("0123456789abcdef").unwrap();
    let world = World::of(Punctual::memory().start().await.unwrap(), Some(token));
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let value = format!("{scheme} 0123456789abcdef");
        assert_eq!(status(&world, &[("authorization", &value)]).await, StatusCode::OK, "{scheme}");
    }
}

#[tokio::test]
async fn a_refusal_names_the_way_to_authenticate() {
    let token = Token::new("0123456789abcdef").unwrap();
    let world = World::of(Punctual::memory().start().await.unwrap(), Some(token));
    for path in ["/api/v1/nodes", "/api/openapi.json", "/metrics"] {
        let refused = world.ask(Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(refused.headers["www-authenticate"], "Bearer", "{path}");
    }
    // Those of the dashboard as well, which are pages.
    for what in ["POST /logout", "POST /ui/act/queues/default/pause", "GET /ui/events"] {
        let (method, path) = what.split_once(' ').unwrap();
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let refused = world.ask(request.body(Body::empty()).unwrap()).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{what}");
        assert_eq!(refused.headers["www-authenticate"], "Bearer", "{what}");
    }
    let refused = sign_in(&world, Body::from("token=wrong")).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
}

/// Sends the form that anyone may send.
async fn sign_in(world: &World, body: Body) -> crate::Answer {
    let request = Request::post("/login").header("host", "localhost");
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    world.ask(request.body(body).unwrap()).await
}

#[tokio::test]
async fn the_number_of_sign_in_forms_that_are_read_is_limited() {
    let token = Token::new("0123456789abcdef").unwrap();
    let world = World::of(Punctual::memory().start().await.unwrap(), Some(token));
    let form = || Body::from("token=0123456789abcdef");
    // Forms that never end.
    let pending = || stream::pending::<Result<Vec<u8>, std::convert::Infallible>>();
    let unfinished = (0..512).map(|_| Box::pin(sign_in(&world, Body::from_stream(pending()))));
    let mut unfinished: Vec<_> = unfinished.collect();
    for form in &mut unfinished {
        assert!(form.now_or_never().is_none());
    }
    let refused = sign_in(&world, form()).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers["retry-after"], "1");
    assert!(refused.body.as_str().unwrap().contains("Too many sign-ins"), "{}", refused.body);
    unfinished.pop();
    assert_eq!(sign_in(&world, form()).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn no_response_is_stored_or_handed_to_other_sites() {
    let world = World::new().await;
    let paths = [
        "/api/v1/nodes",
        "/api/v1/jobs/7",
        "/api/v1/nothing",
        "/api/openapi.json",
        "/metrics",
        "/healthz/live",
        "/healthz/ready",
        "/",
    ];
    for path in paths {
        for host in ["localhost", "evil.example"] {
            let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
            let headers = world.ask(request).await.headers;
            assert_eq!(headers["x-content-type-options"], "nosniff", "{path} {host}");
            assert_eq!(headers["cross-origin-resource-policy"], "same-origin", "{path} {host}");
            assert_eq!(headers["cache-control"], "no-store", "{path} {host}");
        }
    }
}

#[tokio::test]
async fn refusals_streams_and_files_have_the_same_headers() {
    let token = Token::new("0123456789abcdef").unwrap();
    let world = World::of(Punctual::memory().start().await.unwrap(), Some(token));
    let login = Request::get("/login").header("host", "localhost").body(Body::empty()).unwrap();
    let login = world.ask(login).await.body;
    let (_, style) = login.as_str().unwrap().split_once("rel=\"stylesheet\" href=\"").unwrap();
    let (style, _) = style.split_once('"').unwrap();
    let (signed_in, forever) = ("Bearer 0123456789abcdef", "public, max-age=31536000, immutable");
    let check = async |what: &str, authorization: &str, body: String, expected: (u16, &str)| {
        let (method, path) = what.split_once(' ').unwrap();
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("authorization", authorization);
        let request = request.header("content-type", "application/json");
        // The body of a stream does not end.
        let response = world.respond(request.body(Body::from(body)).unwrap()).await;
        let headers = response.headers();
        let cache_control = headers["cache-control"].to_str().unwrap();
        assert_eq!((response.status().as_u16(), cache_control), expected, "{what}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{what}");
        assert_eq!(headers["cross-origin-resource-policy"], "same-origin", "{what}");
    };
    let too_large = format!("{{\"kind\":\"{}\"}}", "a".repeat(1 << 20));
    for (what, authorization, expected) in [
        (&*format!("GET {style}"), "", (200, forever)),
        ("GET /ui/0/app.js", "", (404, "no-store")),
        ("GET /", "", (303, "no-store")),
        ("GET /api/v1/nodes", "", (401, "no-store")),
        ("POST /logout", "", (401, "no-store")),
        ("GET /ui/events", "", (401, "no-store")),
        ("GET /ui/events", signed_in, (200, "no-cache")),
        ("GET /api/v1/events", signed_in, (200, "no-cache")),
        ("DELETE /api/v1/nodes", signed_in, (405, "no-store")),
        ("DELETE /login", "", (405, "no-store")),
    ] {
        check(what, authorization, String::new(), expected).await;
    }
    check("POST /api/v1/jobs", signed_in, too_large, (413, "no-store")).await;
    world.punctual.stop().await;
    check("GET /healthz/ready", signed_in, String::new(), (503, "no-store")).await;
}

#[tokio::test]
async fn only_authenticated_requests_learn_why_the_server_is_not_ready() {
    let token = Token::new("0123456789abcdef").unwrap();
    let world = World::of(Punctual::memory().start().await.unwrap(), Some(token));
    let ready = async |authorization: &str| {
        let request = Request::get("/healthz/ready").header("authorization", authorization);
        world.ask(request.body(Body::empty()).unwrap()).await
    };
    assert_eq!(ready("").await.body, "ok\n");
    world.punctual.stop().await;
    for stranger in ["", "Bearer 0123456789abcdee"] {
        let answer = ready(stranger).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{stranger}");
        assert_eq!(answer.body, "unavailable\n", "{stranger}");
    }
    let answer = ready("Bearer 0123456789abcdef").await;
    assert_eq!((answer.status.as_u16(), answer.body["code"].as_str()), (503, Some("stopping")));
}

/// A body that fails the test when more of it is read than this.
fn body_of(pieces: usize, most: usize) -> Body {
    let mut read = 0;
    Body::from_stream(stream::iter((0..pieces).map(move |_| {
        read += 1;
        assert!(read <= most, "{read} KiB were read");
        Ok::<_, std::convert::Infallible>(vec![b'a'; 1_024])
    })))
}

#[tokio::test]
async fn a_sign_in_form_is_refused_before_it_is_read_as_a_whole() {
    let token = Token::new("0123456789abcdef").unwrap();
    let world = World::of(Punctual::memory().start().await.unwrap(), Some(token));
    let sign_in = async |body: Body| sign_in(&world, body).await.status;
    assert_eq!(sign_in(Body::from("a".repeat(8_193))).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(sign_in(body_of(900, 9)).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(sign_in(body_of(8, 8)).await, StatusCode::UNAUTHORIZED);
    // The other forms and the API need a token before their body is read.
    for path in ["/ui/act/queues/default/pause", "/logout", "/api/v1/jobs"] {
        let request = Request::post(path).header("host", "localhost");
        let refused = world.ask(request.body(body_of(900, 0)).unwrap()).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{path}");
    }
}
