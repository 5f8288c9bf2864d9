//! What a receiver gets, and what is kept of its answer.

use std::time::Duration;

use punctual::remote::{Failed, Held, Holder};
use punctual::{ErrorKind, JobState, LeaseId, LogLevel, Order, Timestamp};
use punctual_http::Config;
use punctual_secrets::{Secrets, Source};
use serde_json::{Value, json};

use crate::{OK, Receiver, ended, loopback, node};

#[tokio::test]
async fn a_request_says_which_job_and_attempt_it_is_of() {
    let receiver = Receiver::answering(OK).await;
    let punctual = node(loopback()).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let payload = json!({
        "url": format!("{}/hook/{{{{job.id}}}}?n={{{{attempt}}}}", receiver.url),
        "headers": {"x-job": "<{{job.id}}>", "user-agent": "mine"},
        "body": {"id": "{{job.id}}", "due": "{{due_at}}"},
    });
    let job = punctual.enqueue(Order::of_kind("http", &payload).trace(trace)).await.unwrap();
    let finished = punctual.wait(job.id).await.unwrap();
    assert_eq!(finished.state, JobState::Succeeded, "{:?}", finished.error);
    assert_eq!(finished.result::<Value>().unwrap(), json!({"status": 200}), "no body is kept");
    let seen = &receiver.seen()[0];
    let id = job.id.to_string();
    assert_eq!(seen.line, format!("POST /hook/{id}?n=1 HTTP/1.1"));
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!(body["id"], id);
    for (name, value) in [
        ("idempotency-key", id.as_str()),
        ("punctual-attempt", "1"),
        ("punctual-fence", "1"),
        ("traceparent", trace),
        ("x-job", &format!("<{id}>")),
        ("user-agent", "mine"),
        ("content-type", "application/json"),
        ("host", receiver.url.trim_start_matches("http://")),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    punctual.stop().await;
}

/// Writes a file that only its owner can read, as a secret must be.
fn write_private(path: &std::path::Path, value: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, value).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn secrets_sign_and_open_but_are_not_kept() {
    let echoing = "HTTP/1.1 200 OK\r\ncontent-length: 27\r\n\r\nyou sent Bearer canary-4711";
    let receiver = Receiver::answering(echoing).await;
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, value: &str| {
        let path = directory.path().join(name);
        write_private(&path, value);
        let source = Source::file(path).for_http(std::slice::from_ref(&receiver.url));
        (name.to_owned(), source.unwrap())
    };
    let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let secrets = Secrets::from_config([file("token", "canary-4711\n"), file("key", key)]).unwrap();
    let punctual = node(Config { secrets, ..loopback() }).await;
    let payload = json!({
        "url": receiver.url,
        "headers": {"authorization": "Bearer secret://token"},
        "text": "hello",
        "sign": "secret://key",
        "store_response": true,
    });
    let finished = ended(&punctual, payload, 1).await;
    let result = finished.result::<Value>().unwrap();
    assert_eq!(result["body"], "you sent Bearer •••", "a secret that comes back is masked");
    let seen = &receiver.seen()[0];
    assert_eq!(seen.header("authorization"), Some("Bearer canary-4711"));
    assert_eq!(seen.header("webhook-id"), seen.header("idempotency-key"));
    assert!(seen.header("webhook-signature").unwrap().starts_with("v1,"));
    assert!(seen.header("webhook-timestamp").unwrap().parse::<u64>().is_ok());
    let detail = format!("{:?}", punctual.admin().job(finished.id).await.unwrap());
    assert!(!detail.contains("canary-4711"), "{detail}");
    punctual.stop().await;
}

#[tokio::test]
async fn a_secret_goes_nowhere_that_it_does_not_name() {
    let receiver = Receiver::answering(OK).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    write_private(&path, "canary-4711");
    let elsewhere = Source::file(&path).for_http(&["https://api.example".to_owned()]).unwrap();
    let all = [("elsewhere", elsewhere), ("kept", Source::file(&path))];
    let punctual = node(Config { secrets: Secrets::from_config(all).unwrap(), ..loopback() }).await;
    for name in ["elsewhere", "kept"] {
        let secret = format!("secret://{name}");
        for payload in [
            json!({ "url": receiver.url, "headers": {"authorization": secret} }),
            json!({ "url": format!("{}/?q={secret}", receiver.url) }),
            json!({ "url": receiver.url, "body": [{"deep": secret}] }),
            json!({ "url": receiver.url, "text": secret, "templates": false }),
            json!({ "url": receiver.url, "sign": secret }),
        ] {
            let finished = ended(&punctual, payload, 1).await;
            let error = finished.error.unwrap();
            let told = format!("secret `{name}` must not be sent to `{}`", receiver.url);
            assert!(error.contains(&told), "{error}");
        }
    }
    assert_eq!(receiver.seen().len(), 0);
    punctual.stop().await;
}

#[tokio::test]
async fn a_host_that_is_also_a_secret_is_masked_in_every_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("host");
    write_private(&path, "127.0.0.1");
    for status in [404, 500, 503] {
        let answer = format!("HTTP/1.1 {status} No\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n");
        let receiver = Receiver::answering(answer.leak()).await;
        let secrets = Secrets::from_config([("host", Source::file(path.clone()))]).unwrap();
        let punctual = node(Config { secrets, ..loopback() }).await;
        let error = ended(&punctual, json!({ "url": receiver.url }), 1).await.error.unwrap();
        assert!(error.starts_with("`http://•••:") && !error.contains("127.0.0.1"), "{error}");
        punctual.stop().await;
    }
}

/// An answer that leads there.
fn leads(status: u16, to: &str) -> &'static str {
    format!("HTTP/1.1 {status} Moved\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").leak()
}

#[tokio::test]
async fn redirects_are_followed_only_if_asked_and_take_no_credentials_along() {
    let end = Receiver::answering(OK).await;
    let start = Receiver::answering(leads(307, &format!("{}/end", end.url))).await;
    let punctual = node(loopback()).await;
    let mut payload = json!({ "url": start.url, "headers": {"authorization": "Bearer x"} });
    let stayed = ended(&punctual, payload.clone(), 1).await;
    assert!(stayed.error.unwrap().contains("follow_redirects"));
    assert_eq!(end.seen().len(), 0);
    payload["follow_redirects"] = json!(1);
    assert_eq!(ended(&punctual, payload, 1).await.state, JobState::Succeeded);
    let seen = &end.seen()[0];
    assert_eq!(seen.line, "POST /end HTTP/1.1");
    assert_eq!((seen.header("authorization"), seen.header("punctual-lease")), (None, None));
    assert!(seen.header("idempotency-key").is_some());
    punctual.stop().await;
}

#[tokio::test]
async fn no_body_leaves_its_origin() {
    let end = Receiver::answering(OK).await;
    let punctual = node(loopback()).await;
    for (status, method) in [(307, "POST"), (308, "PATCH"), (302, "PUT")] {
        let start = Receiver::answering(leads(status, &end.url)).await;
        let payload = json!({
            "url": start.url, "method": method, "text": "private", "follow_redirects": 3,
        });
        let finished = ended(&punctual, payload, 3).await;
        assert_eq!(start.seen().len(), 1, "{status}: no further attempt can do better");
        let error = finished.error.unwrap().replace(&start.url, "START").replace(&end.url, "END");
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @"redirect from `START` to `END` not followed: the body would be sent to another origin; use the target URL if this is intended");
        }
    }
    assert_eq!(end.seen().len(), 0);
    // What leads on as a question takes no body along.
    let start = Receiver::answering(leads(303, &end.url)).await;
    let payload = json!({ "url": start.url, "text": "private", "follow_redirects": 1 });
    assert_eq!(ended(&punctual, payload, 1).await.error, None);
    let seen = &end.seen()[0];
    assert_eq!((seen.line.as_str(), seen.body.as_str()), ("GET / HTTP/1.1", ""));
    punctual.stop().await;
}

#[tokio::test]
async fn who_was_sent_away_and_comes_back_shows_nothing_again() {
    let first = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let start = format!("http://{}", first.local_addr().unwrap());
    let away = Receiver::answering(leads(307, &format!("{start}/chosen"))).await;
    let receiver = Receiver::at(first, leads(307, &away.url));
    let punctual = node(loopback()).await;
    let payload = json!({
        "url": start, "method": "GET", "headers": {"authorization": "Bearer x"},
        "follow_redirects": 2,
    });
    ended(&punctual, payload, 1).await;
    let seen = receiver.seen();
    let shown = |at: usize| {
        let has = |name: &str| seen[at].header(name).is_some();
        (seen[at].line.as_str(), has("authorization"), has("punctual-lease"))
    };
    assert_eq!(shown(0), ("GET / HTTP/1.1", true, true));
    assert_eq!(shown(1), ("GET /chosen HTTP/1.1", false, false));
    punctual.stop().await;
}

/// Where it was sent it may be sent on: that is no way back to what may be shown.
#[tokio::test]
async fn who_was_sent_away_and_on_shows_nothing_there() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let away = format!("http://{}", listener.local_addr().unwrap());
    let receiver = Receiver::at(listener, leads(307, &format!("{away}/further")));
    let start = Receiver::answering(leads(307, &away)).await;
    let punctual = node(loopback()).await;
    let payload = json!({
        "url": start.url, "method": "GET", "headers": {"authorization": "Bearer x"},
        "follow_redirects": 2,
    });
    ended(&punctual, payload, 1).await;
    let lines: Vec<String> = receiver.seen().iter().map(|seen| seen.line.clone()).collect();
    assert_eq!(lines, ["GET / HTTP/1.1", "GET /further HTTP/1.1"]);
    for seen in receiver.seen() {
        assert_eq!((seen.header("authorization"), seen.header("punctual-lease")), (None, None));
    }
    punctual.stop().await;
}

/// A name that somebody made up is good for nothing, whichever part of it is wrong.
#[tokio::test]
async fn only_the_name_of_the_lease_as_it_was_told_settles_a_job_later() {
    let accepted = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
    let receiver = Receiver::answering(accepted).await;
    let punctual = node(loopback()).await;
    let order = Order::of_kind("http", &json!({ "url": receiver.url }));
    let job = punctual.enqueue(order).await.unwrap().id;
    let seen = loop {
        match receiver.seen().pop() {
            Some(seen) => break seen,
            None => tokio::task::yield_now().await,
        }
    };
    let told: Held = seen.header("punctual-lease").unwrap().parse().unwrap();
    let node = punctual.admin().nodes().await.unwrap()[0].info.id;
    let lease = LeaseId::mint(Timestamp::from_seconds(1_800_000_000), [7; 10]);
    let remote = punctual.remote();
    for held in [
        Held { lease, ..told },
        Held { attempt: told.attempt + 1, ..told },
        // The node beats for itself, and nobody else does.
        Held { by: Some(Holder { node }), ..told },
    ] {
        let line = vec![(LogLevel::Info, "not mine".to_owned())];
        let failed = Failed { error: "no".to_owned(), retry: false, retry_after: None };
        let answers = [
            remote.heartbeat(&held, None).await.map(drop),
            remote.write_log(&held, Some(1), line).await.map(drop),
            remote.fail(&held, failed).await.map(drop),
            remote.snooze(&held, Duration::from_secs(1)).await.map(drop),
            remote.complete(&held, None).await.map(drop),
        ];
        for (index, answer) in answers.into_iter().enumerate() {
            let kind = answer.map_err(|error| error.kind());
            assert_eq!(kind, Err(ErrorKind::Fenced), "{index} of {held}");
        }
    }
    assert!(punctual.admin().log(job, None, 10).await.unwrap().items.is_empty());
    assert_eq!(remote.complete(&told, None).await.unwrap(), JobState::Succeeded);
    assert_eq!(punctual.wait(job).await.unwrap().state, JobState::Succeeded);
    punctual.stop().await;
}

#[tokio::test]
async fn a_large_answer_is_bounded() {
    let body = "\"".repeat(3 * 1_024 * 1_024);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let receiver = Receiver::answering(answer.leak()).await;
    let punctual = node(loopback()).await;
    let payload = json!({ "url": receiver.url, "store_response": true });
    let finished = ended(&punctual, payload, 1).await;
    let result = finished.result::<Value>().unwrap();
    assert_eq!(result["is_truncated"], true);
    let length = result["body"].as_str().unwrap().len();
    assert!((1_000..=64 * 1_024).contains(&length), "{length}");
    punctual.stop().await;
}
