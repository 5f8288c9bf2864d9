//! What the dashboard promises to browsers, proxies and whoever embeds it.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode, header};
use punctual::{Ctx, Definition, Job, JobFilter, Punctual, Retention, ServedQueue};
use punctual_server::{Bulk, OPERATIONS, Server, Token, handle_operations};
use tower::ServiceExt;

use crate::{Echo, Fail, echo, fail};

pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

async fn ask(router: &Router, request: axum::http::request::Builder, body: &str) -> Page {
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    Page { status, headers, text: String::from_utf8_lossy(&bytes).into_owned() }
}

pub(crate) async fn get(router: &Router, path: &str) -> Page {
    ask(router, Request::get(path).header("host", "localhost"), "").await
}

pub(crate) async fn post(
    router: &Router,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Page {
    let mut request = Request::post(path).header("host", "localhost");
    request = request.header("content-type", "application/x-www-form-urlencoded");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    ask(router, request, body).await
}

async fn server(token: Option<Token>, read_only: bool) -> (Punctual, Router) {
    let punctual = Punctual::memory().start().await.unwrap();
    punctual
        .admin()
        .create_schedule("nightly", &Definition::new("0 2 * * *", "echo"))
        .await
        .unwrap();
    let roles = vec!["api".into()];
    let server = Server { roles, token, read_only, ..Server::new(punctual.clone()) };
    (punctual, server.router())
}

#[tokio::test]
async fn every_page_tells_browsers_what_they_may_do() {
    let (_punctual, router) = server(None, false).await;
    for path in [
        "/",
        "/schedules",
        "/schedules/nightly",
        "/jobs",
        "/timeline",
        "/queues",
        "/nodes",
        "/activity",
        "/settings",
        "/tools/cron",
        "/schedules/none",
    ] {
        let page = get(&router, path).await;
        let expected =
            if path == "/schedules/none" { StatusCode::NOT_FOUND } else { StatusCode::OK };
        assert_eq!(page.status, expected, "{path}: {}", page.text);
        let header = |name| page.headers.get(name).unwrap().to_str().unwrap();
        let policy = header(header::CONTENT_SECURITY_POLICY);
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"));
        assert_eq!(header(header::X_CONTENT_TYPE_OPTIONS), "nosniff");
        assert_eq!(header(header::CACHE_CONTROL), "no-store");
        assert!(!page.text.contains(" style="), "{path}");
        assert!(page.text.starts_with("<!DOCTYPE html>"), "{path}");
    }
    let api = get(&router, "/api/v1/schedules/none").await;
    assert_eq!(api.headers[header::CONTENT_TYPE], "application/problem+json");
}

/// The addresses that a page leads to.
pub(crate) fn addresses(text: &str) -> Vec<String> {
    let after = |name: &str| {
        let beginning = format!(" {name}=\"");
        let parts = text.split(beginning.as_str()).skip(1);
        parts.filter_map(|part| part.split('"').next().map(str::to_owned)).collect::<Vec<_>>()
    };
    ["href", "src", "action", "data-events"]
        .into_iter()
        .flat_map(after)
        .filter(|it| !it.starts_with('#'))
        .collect()
}

/// What a browser that keeps this cookie would be shown: it sends the cookie to its path and below.
async fn visit(router: &Router, cookie: &str, path: &str) -> Page {
    let mut parts = cookie.split("; ");
    let pair = parts.next().unwrap();
    let below = parts.find_map(|part| part.strip_prefix("Path=")).unwrap_or("/");
    let rest = path.split('?').next().unwrap().strip_prefix(below);
    let is_sent =
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || below.ends_with('/'));
    let mut request = Request::get(path).header("host", "localhost");
    if is_sent {
        request = request.header("cookie", pair);
    }
    ask(router, request, "").await
}

/// Every link of a page leads somewhere, and stays below the base.
async fn follow(router: &Router, cookie: &str, base: &str, path: &str) {
    let page = visit(router, cookie, path).await;
    assert_eq!(page.status, StatusCode::OK, "{path}");
    let addresses = addresses(&page.text);
    assert!(addresses.len() > 10);
    for address in &addresses {
        let rest = address.strip_prefix(base);
        let is_below = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        assert!(is_below && rest != Some("/"), "{path} leads to {address}");
    }
    // Buttons are not looked at, and events never end.
    let others = ["/ui/act/", "/logout", "/ui/events"];
    for address in addresses.iter().filter(|it| !others.iter().any(|other| it.contains(other))) {
        let there = visit(router, cookie, &address.replace("&amp;", "&")).await;
        assert_eq!(there.status, StatusCode::OK, "{path} leads to {address}");
        if address.contains("/ui/") {
            let kept = &there.headers[header::CACHE_CONTROL];
            assert_eq!(kept, "public, max-age=31536000, immutable", "{address}");
        }
    }
}

#[tokio::test]
async fn it_can_be_nested_anywhere() {
    const SECRET: &str = "0123456789abcdef";
    let base = "/ops/jobs";
    for token in [None, Some(Token::new(SECRET).unwrap())] {
        let has_token = token.is_some();
        let (_punctual, inner) = server(token, false).await;
        let router = Router::new().nest(base, inner);
        let mut cookie = String::new();
        if has_token {
            let sent_away = get(&router, base).await;
            assert_eq!(sent_away.headers[header::LOCATION], "/ops/jobs/login?next=%2F");
            let form = format!("token={SECRET}&next=/");
            let signed_in = post(&router, "/ops/jobs/login", &[], &form).await;
            assert_eq!(signed_in.headers[header::LOCATION], base);
            cookie = signed_in.headers[header::SET_COOKIE].to_str().unwrap().to_owned();
            let elsewhere = visit(&router, &cookie, "/ops/other").await;
            assert_eq!(elsewhere.status, StatusCode::NOT_FOUND);
        }
        for path in ["", "/schedules", "/schedules/nightly", "/queues/a%2Fb", "/jobs?q=nonsense"] {
            follow(&router, &cookie, base, &format!("{base}{path}")).await;
        }
        let session = cookie.split(';').next().unwrap();
        let run = "/ops/jobs/ui/act/schedules/nightly/run";
        for (back, place) in
            [("/schedules?q=x", "/ops/jobs/schedules?q=x&did=ran"), ("/", "/ops/jobs?did=ran")]
        {
            let page = post(&router, run, &[("cookie", session)], &format!("back={back}")).await;
            assert_eq!(page.status, StatusCode::SEE_OTHER);
            assert_eq!(page.headers[header::LOCATION], place);
        }
    }
}

#[tokio::test]
async fn the_first_steps_lead_to_where_the_page_was_asked_for() {
    let punctual = Punctual::memory().start().await.unwrap();
    let router = Server::new(punctual.clone()).router();
    let nested = Router::new().nest("/ops", router.clone());
    let at = |host| Request::get("/").header("host", host);
    let page = ask(&router, at("127.0.0.1:7347"), "").await;
    assert!(page.text.contains("POST http://127.0.0.1:7347/api/v1/jobs -H"), "{}", page.text);
    assert!(!page.text.contains("--server"), "{}", page.text);
    let page = ask(&router, at("[::1]:9000"), "").await;
    assert!(page.text.contains("POST http://[::1]:9000/api/v1/jobs -H"), "{}", page.text);
    assert!(page.text.contains("--wait --server http://[::1]:9000<"), "{}", page.text);
    let request = Request::get("/ops").header("host", "localhost");
    let page = ask(&nested, request.header("x-forwarded-proto", "https"), "").await;
    assert!(page.text.contains("POST https://localhost/ops/api/v1/jobs -H"), "{}", page.text);
    // Nothing that a shell would take for more than an address. Without a token, it is refused.
    let token = Token::new("0123456789abcdef").unwrap();
    let router = Server { token: Some(token), ..Server::new(punctual.clone()) }.router();
    let request = Request::get("/").header("host", "localhost:80;reboot");
    let page = ask(&router, request.header("authorization", "Bearer 0123456789abcdef"), "").await;
    assert!(page.text.contains("POST http://127.0.0.1:7347/api/v1/jobs -H"), "{}", page.text);
}

#[tokio::test]
async fn pages_are_compressed_for_clients_with_a_token_only() {
    let token = Token::new("0123456789abcdef").unwrap();
    let (punctual, without_token) = server(None, false).await;
    let with_token = Server { token: Some(token), ..Server::new(punctual.clone()) }.router();
    let encoding = async |router: &Router, path: &str, authorization: &str| {
        let request = Request::get(path).header("host", "localhost");
        let request = request.header("accept-encoding", "gzip");
        let page = ask(router, request.header("authorization", authorization), "").await;
        page.headers.get(header::CONTENT_ENCODING).cloned()
    };
    let signed_in = "Bearer 0123456789abcdef";
    assert_eq!(encoding(&with_token, "/schedules", signed_in).await.unwrap(), "gzip");
    // Anyone may ask for these, and a compressor takes much memory.
    let login = ask(&with_token, Request::get("/login").header("host", "localhost"), "").await;
    let (_, style) = login.text.split_once("rel=\"stylesheet\" href=\"").unwrap();
    let (style, _) = style.split_once('"').unwrap();
    for path in ["/login", style, "/schedules", "/ui/events"] {
        assert_eq!(encoding(&with_token, path, "").await, None, "{path}");
    }
    assert_eq!(encoding(&without_token, "/schedules", "").await, None);
}

#[tokio::test]
async fn a_long_address_is_no_part_of_the_sign_in_form() {
    let token = Token::new("0123456789abcdef").unwrap();
    let (_punctual, router) = server(Some(token), false).await;
    for (length, is_kept) in [(1_024, true), (1_025, false)] {
        let next = "x".repeat(length);
        let login = format!("/login?next={next}");
        let page = ask(&router, Request::get(login).header("host", "localhost"), "").await;
        assert_eq!(page.text.contains(&next), is_kept, "{length}");
    }
}

#[tokio::test]
async fn a_form_of_another_site_changes_nothing() {
    let (punctual, router) = server(None, false).await;
    let run = "/ui/act/schedules/nightly/run";
    for headers in [
        [("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "same-site")],
        [("origin", "http://evil.example")],
        [("origin", "null")],
        [("origin", "http://localhost:81")],
    ] {
        let page = post(&router, run, &headers, "").await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{headers:?}");
        assert!(page.text.contains("Cross-site request rejected"));
    }
    assert_eq!(punctual.admin().jobs(&Default::default(), None, 10).await.unwrap().items.len(), 0);
    let page = post(&router, run, &[("origin", "http://localhost")], "back=//evil.example/").await;
    assert_eq!(page.headers[header::LOCATION], "/schedules/nightly?did=ran");
    let stranger = ask(&router, Request::get("/").header("host", "evil.example"), "").await;
    assert_eq!(stranger.status, StatusCode::FORBIDDEN);
    // Nothing is changed by looking.
    let looked = get(&router, run).await;
    assert_eq!(looked.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_read_only_server_shows_no_button_and_refuses() {
    let (punctual, router) = server(None, true).await;
    for path in ["/schedules/nightly", "/jobs", "/queues/default"] {
        let page = get(&router, path).await;
        assert!(page.text.contains("read-only"), "{path}");
        assert!(!page.text.contains("method=\"post\""), "{path}");
    }
    for action in ["run", "pause", "resume", "disable"] {
        let page = post(&router, &format!("/ui/act/schedules/nightly/{action}"), &[], "").await;
        assert_eq!(page.status, StatusCode::FORBIDDEN);
        assert!(page.text.contains("read-only"));
    }
    assert_eq!(post(&router, "/jobs", &[], "action=retry").await.status, StatusCode::FORBIDDEN);
    assert_eq!(punctual.admin().jobs(&Default::default(), None, 10).await.unwrap().items.len(), 0);
}

#[tokio::test]
async fn with_a_token_people_sign_in() {
    const SECRET: &str = "0123456789abcdef";
    let (punctual, router) = server(Some(Token::new(SECRET).unwrap()), false).await;
    let sent_away = get(&router, "/schedules?q=a%20b").await;
    assert_eq!(sent_away.status, StatusCode::SEE_OTHER);
    assert_eq!(sent_away.headers[header::LOCATION], "/login?next=%2Fschedules%3Fq%3Da%2520b");
    assert_eq!(get(&router, "/ui/events").await.status, StatusCode::UNAUTHORIZED);
    let run = "/ui/act/schedules/nightly/run";
    assert_eq!(post(&router, run, &[], "").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(get(&router, "/login").await.status, StatusCode::OK);
    let wrong = post(&router, "/login", &[], "token=wrong").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert!(!wrong.headers.contains_key(header::SET_COOKIE));

    let form = format!("who=ada&token={SECRET}&next=/schedules");
    let signed_in = post(&router, "/login", &[], &form).await;
    assert_eq!(signed_in.headers[header::LOCATION], "/schedules");
    let cookie = signed_in.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(
        cookie.contains("HttpOnly")
            && cookie.contains("SameSite=Strict")
            && !cookie.contains(SECRET),
        "{cookie}"
    );
    let session = cookie.split(';').next().unwrap();
    let page = post(&router, run, &[("cookie", session)], "").await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);
    let entry = &punctual.admin().audits(None, 1).await.unwrap().items[0].entry;
    assert_eq!((entry.actor.who.as_str(), entry.action.as_str()), ("ada", "run schedule"));

    // Nobody can make one up, change the name in it, or make it last longer.
    let value = session.split_once('=').unwrap().1;
    let parts: Vec<&str> = value.split('.').collect();
    let forged = [
        format!("{}.{}.{}", parts[0], "626f62", parts[2]),
        format!("{}.{}.{}", i64::MAX, parts[1], parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}.{}", parts[0], parts[1], "00".repeat(32)),
        "..".to_owned(),
        String::new(),
    ];
    for value in forged {
        let cookie = format!("punctual_session={value}");
        let page =
            ask(&router, Request::get("/").header("host", "x").header("cookie", &cookie), "").await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{cookie}");
    }
    // The next place is one of ours.
    let own = [("cookie", session)];
    for next in [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        // Browsers leave these out.
        "/%09/evil.example",
        "/%0a/evil.example",
        "/%0d%0a/evil.example",
        "/jobs%00",
    ] {
        let form = format!("token={SECRET}&next={next}");
        let page = post(&router, "/login", &[], &form).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{next}");
        assert_eq!(page.headers[header::LOCATION], "/", "{next}");
        let page = post(&router, run, &own, &format!("back={next}")).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{next}");
        assert_eq!(page.headers[header::LOCATION], "/schedules/nightly?did=ran", "{next}");
    }
}

#[tokio::test]
async fn what_a_form_says_wrongly_is_told_as_a_page() {
    let (_punctual, router) = server(None, false).await;
    let cases = [
        (
            "/ui/act/schedules/nightly/pause",
            "until=yesterday",
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid time <code>yesterday</code>",
        ),
        (
            "/ui/act/schedules/nightly/dance",
            "",
            StatusCode::NOT_FOUND,
            "Unknown action <code>dance</code>",
        ),
        (
            "/ui/act/schedules/nightli/run",
            "",
            StatusCode::NOT_FOUND,
            "did you mean <code>nightly</code>?",
        ),
        ("/ui/act/jobs/7/retry", "", StatusCode::BAD_REQUEST, "Invalid id"),
        (
            "/ui/act/queues/a/limit",
            "max_running=many",
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid limit <code>many</code>",
        ),
        ("/jobs", "action=retry", StatusCode::UNPROCESSABLE_ENTITY, "select at least one"),
        ("/operations", "action=dance&q=tag:a", StatusCode::UNPROCESSABLE_ENTITY, "Unknown action"),
        (
            "/operations",
            "action=retry",
            StatusCode::UNPROCESSABLE_ENTITY,
            "filter must not be empty",
        ),
        ("/operations", "action=move&q=tag:a", StatusCode::UNPROCESSABLE_ENTITY, "set a queue"),
    ];
    for (path, body, status, words) in cases {
        let page = post(&router, path, &[], body).await;
        assert_eq!(page.status, status, "{path}");
        assert!(page.text.contains(words) && page.text.contains("<h1>"), "{path}: {}", page.text);
    }
}

/// A page, once it says this.
pub(crate) async fn once(router: &Router, path: &str, words: &str) -> Page {
    let mut look = tokio::time::interval(std::time::Duration::from_millis(10));
    for _ in 0..2_000 {
        let page = get(router, path).await;
        if page.text.contains(words) {
            return page;
        }
        look.tick().await;
    }
    panic!("{path} never says `{words}`")
}

#[tokio::test]
async fn all_that_match_are_done_in_the_background() {
    let builder = handle_operations(Punctual::memory().handle(echo).handle(fail));
    let punctual =
        builder.queues(["default", OPERATIONS].map(ServedQueue::new)).start().await.unwrap();
    let (admin, router) = (punctual.admin(), Server::new(punctual.clone()).router());
    let mut ids = Vec::new();
    for _ in 0..60 {
        let id = punctual.enqueue(&Fail {}).await.unwrap().id;
        punctual.wait(id).await.ok();
        ids.push(id);
    }
    let list = get(&router, "/jobs?q=state:failed+kind:fail").await;
    let places: Vec<String> =
        addresses(&list.text).into_iter().filter(|it| it.contains("/operations/new")).collect();
    // What failed cannot be cancelled or moved.
    assert_eq!(places, ["/operations/new?action=retry&amp;q=state%3Afailed%20kind%3Afail"]);
    assert!(!get(&router, "/jobs").await.text.contains("/operations/new"));
    let question = get(&router, &places[0].replace("&amp;", "&")).await;
    assert!(question.text.contains("60 jobs match now."), "{}", question.text);
    assert!(question.text.contains("<code>state:failed kind:fail</code>"), "{}", question.text);

    // It is there to be followed before anybody does it.
    admin.pause_queue(OPERATIONS, None).await.unwrap();
    let form = "action=retry&q=state:failed+kind:fail&why=the+disk+is+back";
    let refused = post(&router, "/operations", &[("sec-fetch-site", "cross-site")], form).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let begun = post(&router, "/operations", &[("punctual-actor", "ada")], form).await;
    assert_eq!(begun.status, StatusCode::SEE_OTHER, "{}", begun.text);
    let place = begun.headers[header::LOCATION].to_str().unwrap().to_owned();
    let waiting = get(&router, &place).await;
    for words in
        ["Started in the background", "is paused", "Cancel operation", "the disk is back", "ada"]
    {
        assert!(waiting.text.contains(words), "no `{words}` in {}", waiting.text);
    }
    assert!(waiting.text.contains("data-events=\"/ui/events?watch=job%3A"), "{}", waiting.text);
    let cancelled = post(&router, "/operations", &[], form).await;
    let other = cancelled.headers[header::LOCATION].to_str().unwrap();
    let other = other.split(['/', '?']).nth(2).unwrap();
    post(&router, &format!("/ui/act/jobs/{other}/cancel"), &[], "").await;
    let cancelled = get(&router, &format!("/operations/{other}")).await.text;
    assert!(cancelled.contains("cancelled") && !cancelled.contains("Cancel operation"));

    admin.resume_queue(OPERATIONS).await.unwrap();
    let done = once(&router, &place, "<b>60</b> changed, <b>0</b> skipped.").await;
    assert!(!done.text.contains("Cancel operation"), "{}", done.text);
    for id in ids {
        punctual.wait(id).await.ok();
        assert_eq!(admin.job(id).await.unwrap().attempts.len(), 2);
    }
    let told = admin.audits(None, 100).await.unwrap().items;
    let by_ada = told.iter().filter(|it| it.entry.actor.who == "ada");
    let whys: Vec<&str> = by_ada.map(|it| it.entry.actor.why.as_str()).collect();
    assert!(!whys.is_empty() && whys.iter().all(|why| *why == "the disk is back"), "{whys:?}");

    // Waiting jobs are moved.
    let later = Echo(serde_json::json!(1)).order().delay(std::time::Duration::from_secs(3_600));
    let later = punctual.enqueue(later).await.unwrap().id;
    let form = "action=move&q=state:scheduled&queue=slow&priority=7&due=2h";
    let begun = post(&router, "/operations", &[], form).await;
    let place = begun.headers[header::LOCATION].to_str().unwrap();
    once(&router, place, "<b>1</b> changed").await;
    let moved = admin.job(later).await.unwrap().view;
    assert_eq!((moved.queue.as_str(), moved.priority), ("slow", 7));

    // Whoever may only look is offered nothing and begins nothing.
    let reader = Server { read_only: true, ..Server::new(punctual.clone()) }.router();
    assert!(!get(&reader, "/jobs?q=state:failed").await.text.contains("/operations/new"));
    for path in ["/operations/new?action=retry&q=state:failed", place] {
        let page = get(&reader, path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(!page.text.contains("method=\"post\""), "{path}");
    }
    let form = "action=retry&q=state:failed";
    assert_eq!(post(&reader, "/operations", &[], form).await.status, StatusCode::FORBIDDEN);
    let of_bulk = JobFilter { kind: Some("punctual.bulk".to_owned()), ..JobFilter::default() };
    assert_eq!(admin.jobs(&of_bulk, None, 10).await.unwrap().items.len(), 3);
}

/// An operation that stays where it is until it is called off.
async fn stay(_: Bulk, cx: Ctx) -> Result<(), punctual::BoxError> {
    cx.progress(40, "24 of 60 retried");
    cx.cancelled().await;
    Err("stopped: 24 of 60 retried".into())
}

#[tokio::test]
async fn an_operation_shows_how_far_it_is_and_can_be_called_off() {
    let punctual = Punctual::memory().handle(stay).start().await.unwrap();
    let router = Server::new(punctual).router();
    let begun = post(&router, "/operations", &[], "action=retry&q=state:failed").await;
    let place = begun.headers[header::LOCATION].to_str().unwrap();
    let page = once(&router, place, "24 of 60 retried").await.text;
    assert!(page.contains("<progress max=\"100\" value=\"40\""), "{page}");
    let cancel = addresses(&page).into_iter().find(|it| it.ends_with("/cancel")).unwrap();
    assert!(cancel.starts_with("/operations/"), "{cancel}");
    let question = get(&router, &cancel).await.text;
    assert!(question.contains("Cancel this operation?"), "{question}");
    let cancel = addresses(&question).into_iter().find(|it| it.ends_with("/cancel")).unwrap();
    let own = place.split('?').next().unwrap();
    assert!(question.contains(&format!("name=\"back\" value=\"{own}\"")), "{question}");
    let cancelled = post(&router, &cancel, &[], &format!("back={own}")).await;
    let back = cancelled.headers[header::LOCATION].to_str().unwrap();
    assert!(back.starts_with("/operations/") && back.ends_with("?did=cancelled"), "{back}");
    let page = once(&router, back, "⊘</span>cancelled").await.text;
    assert!(!page.contains("Cancel operation"), "{page}");
}

#[tokio::test]
async fn settings_tell_what_is_in_force_or_nothing() {
    let days = |days: u64| std::time::Duration::from_secs(days * 86_400);
    let retention = Retention { finished: days(3), failed: days(41), ..Retention::default() };
    let keeper = Punctual::memory().retention(retention).start().await.unwrap();
    let page = get(&Server::new(keeper).router(), "/settings").await.text;
    assert!(page.contains("<dd>3 d</dd>") && page.contains("<dd>41 d</dd>"), "{page}");
    let worker = Punctual::memory().retention(retention).never_leads().start().await.unwrap();
    let page = get(&Server::new(worker).router(), "/settings").await.text;
    assert!(!page.contains("Retention"), "{page}");
}
