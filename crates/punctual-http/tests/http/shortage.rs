//! A process that has no descriptor left for its requests.

use std::fs::File;
use std::process::Command;

use punctual::{AttemptOutcome, JobId, JobState, Order, Punctual};
use punctual_http::Config;
use punctual_secrets::{Secrets, Source};
use serde_json::{Value, json};

use crate::{OK, Receiver, loopback, network, node};

/// Says that this process has few descriptors.
const INSIDE: &str = "PUNCTUAL_TEST_FEW_DESCRIPTORS";

/// Runs the test of this name again in a process with few descriptors, unless this is that process.
fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let status = Command::new("sh")
        .args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""])
        .arg(own)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "the test failed in its own process; see above");
    false
}

/// Takes all descriptors that this process may still open.
fn take_all() -> Vec<File> {
    let mut taken = Vec::new();
    loop {
        match File::open("/dev/null") {
            Ok(file) => taken.push(file),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(24), "{error}");
                return taken;
            }
        }
    }
}

async fn enqueue(punctual: &Punctual, payload: &Value) -> JobId {
    let order = Order::of_kind("http", payload).max_attempts(1);
    punctual.enqueue(order).await.unwrap().id
}

/// The error of the first attempt, which must not count.
/// Without an attempt the test never ends, and the runner says so.
async fn released(punctual: &Punctual, job: JobId) -> String {
    loop {
        let found = punctual.admin().job(job).await.unwrap();
        if let Some(first) = found.attempts.first().filter(|first| first.outcome.is_some()) {
            assert_eq!(
                (first.outcome, found.spent),
                (Some(AttemptOutcome::Released), 0),
                "{first:?}"
            );
            return first.error.clone().unwrap();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_lack_of_descriptors_releases_the_job_without_counting_the_attempt() {
    if !is_inside("shortage::a_lack_of_descriptors_releases_the_job_without_counting_the_attempt") {
        return;
    }
    let receiver = Receiver::answering(OK).await;
    let place = receiver.url.strip_prefix("http://").unwrap();
    let port = place.strip_prefix("127.0.0.1:").unwrap();
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "hunter22").unwrap();
    let source = Source::file(secret.path()).for_http(std::slice::from_ref(&receiver.url)).unwrap();
    let secrets = Secrets::from_config([("token", source)]).unwrap();
    let named = || Config { allow: vec!["localhost".into(), "127.0.0.0/8".into()], ..loopback() };
    let cases = [
        (loopback(), json!({ "url": receiver.url })),
        (named(), json!({ "url": format!("http://localhost:{port}") })),
        (
            Config { secrets, ..loopback() },
            json!({ "url": receiver.url, "headers": { "authorization": "secret://token" } }),
        ),
    ];
    // A node each: three such attempts would pause one node.
    let mut nodes = Vec::new();
    for (config, payload) in cases {
        nodes.push((node(config).await, payload));
    }
    // Whether an address is its own, this process learns only with a descriptor.
    let listeners = vec![format!("0.0.0.0:{port}").parse().unwrap()];
    let own = node(Config { listeners, ..loopback() }).await;
    let taken = take_all();
    let blocked = enqueue(&own, &json!({ "url": receiver.url })).await;
    let error = released(&own, blocked).await;
    assert!(error.contains("cannot check whether 127.0.0.1 is an address of this"), "{error}");
    let mut jobs = Vec::new();
    for (punctual, payload) in &nodes {
        jobs.push(enqueue(punctual, payload).await);
    }
    for ((punctual, _), job) in nodes.iter().zip(&jobs) {
        let error = released(punctual, *job).await;
        assert!(error.contains("Too many open files"), "{error}");
    }
    drop(taken);
    for ((punctual, _), job) in nodes.iter().zip(&jobs) {
        let finished = punctual.wait(*job).await.unwrap();
        assert_eq!(finished.state, JobState::Succeeded, "{:?}", finished.error);
        let found = punctual.admin().job(*job).await.unwrap();
        assert_eq!(found.spent, 1);
    }
    let finished = own.wait(blocked).await.unwrap();
    assert_eq!(finished.state, JobState::Failed);
    assert!(finished.error.unwrap().contains("the address of this punctual server"));
    own.stop().await;
    assert_eq!(receiver.seen().len(), jobs.len());
    for (punctual, _) in nodes {
        punctual.stop().await;
    }
}

#[tokio::test]
async fn without_descriptors_no_public_address_of_an_interface_is_reached() {
    const TEST: &str = "shortage::without_descriptors_no_public_address_of_an_interface_is_reached";
    if !network::is_inside(TEST) || !is_inside(TEST) {
        return;
    }
    let trap = network::Trap::default();
    trap.listen(80).await;
    let punctual = node(Config::default()).await;
    let taken = take_all();
    let job = enqueue(&punctual, &json!({ "url": "http://8.8.4.4/" })).await;
    let error = released(&punctual, job).await;
    assert!(error.contains("cannot check whether 8.8.4.4 is an address of this"), "{error}");
    drop(taken);
    let finished = punctual.wait(job).await.unwrap();
    assert_eq!(finished.state, JobState::Failed);
    let error = finished.error.unwrap();
    assert!(error.contains("it is an address of this machine"), "{error}");
    assert_eq!(trap.count("8.8.4.4"), 0);
    punctual.stop().await;
}
