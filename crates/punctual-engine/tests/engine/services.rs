//! Services beside each other: one that fails or panics is tried again and stops nobody else.

use std::sync::atomic::{AtomicUsize, Ordering};

use punctual_conformance::Fault;
use punctual_core::job::{JobState, Outcome};
use punctual_engine::{Attempt, Config, Ended, MAINTENANCE};
use punctual_store::{Delay, NewJob};

use crate::logging::Logged;
use crate::world::*;

/// What the services of an idle node with the maintenance role ask of the store.
const ASKED: [&str; 7] = ["acquire", "beat", "claim", "prune", "promote", "reap", "settle"];

#[tokio::test(start_paused = true)]
async fn whichever_call_fails_all_others_go_on() {
    for broken in ASKED {
        for is_panic in [false, true] {
            let world = World::new();
            let node = world.start(config("a", 3), on("mail", done)).await;
            world.soon(node.leadership(MAINTENANCE).won()).await;
            world.enqueue_some("mail", 3).await;
            world.pass(s(60)).await;
            node.line.suffer(move |method| match method {
                _ if method != broken => Fault::None,
                _ if is_panic => panic!("the driver has a bug"),
                _ => Fault::Request,
            });
            node.line.take_calls();
            // Less than it takes a node to give up for want of heartbeats.
            let before: Vec<_> = world.enqueue_some("mail", 3).await;
            world.pass(s(8)).await;
            let during = node.line.take_calls();
            // Without heartbeats nobody leads, and so nobody reaps or promotes.
            let needed = match broken {
                "beat" => &["beat", "claim", "settle"][..],
                "claim" => &["beat", "claim", "promote", "reap"],
                "acquire" | "prune" => &["beat", "claim", "promote", "reap", "settle"],
                _ => &["beat", "claim", "promote", "reap", "settle"],
            };
            for method in needed {
                assert!(
                    during.contains_key(method),
                    "no {method} while {broken} fails (by panic: {is_panic}): {during:?}"
                );
            }
            // And once it works again, so does the node.
            node.line.heal();
            let job = world.enqueue(world.job("mail")).await;
            for job in before.into_iter().chain([job]) {
                let detail = world.comes_to(job, JobState::Succeeded).await;
                assert_eq!((detail.spent, detail.crashes), (1, 0), "{broken} {is_panic}");
            }
            world.soon(node.leadership(MAINTENANCE).won()).await;
            let start = world.now();
            node.stop();
            assert_eq!(node.stopped().await.unsettled, 0, "{broken} {is_panic}");
            assert!(world.now() - start <= s(1), "{broken} {is_panic}: {:?}", world.now() - start);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_promotion_that_fails_is_tried_again_with_pauses() {
    let world = World::new();
    let retries =
        |_: Attempt| async { Ended::from(Outcome::RetryAfter(ms(300), "not yet".to_owned())) };
    let node = world.start(config("a", 3), on("mail", retries)).await;
    node.line.fail(&["promote"], Fault::Request);
    world.enqueue(world.job("mail")).await;
    node.line.take_calls();
    world.pass(s(60)).await;
    let calls = node.line.take_calls();
    assert!((30..=150).contains(&calls["promote"]), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_limit_or_a_wait_beyond_all_time_is_no_trouble() {
    let world = World::new();
    let snoozes = |_: Attempt| async { Ended::from(Outcome::Snooze(std::time::Duration::MAX)) };
    let node = Config { timeout: std::time::Duration::MAX, ..config("a", 3) };
    let mut handlers = on("mail", done);
    handlers.add("later", snoozes);
    let _node = world.start(node, handlers).await;
    let (now, later) = (world.job("mail"), world.job("later"));
    let later = world.enqueue(later).await;
    let now = world.enqueue(now).await;
    world.comes_to(now, JobState::Succeeded).await;
    world.comes_to(later, JobState::Retrying).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_given_up_and_the_others_go_on() {
    for broken in ["claim", "settle", "promote", "reap", "prune"] {
        let world = World::new();
        let node = world.start(config("a", 3), on("mail", done)).await;
        world.soon(node.leadership(MAINTENANCE).won()).await;
        world.pass(s(60)).await;
        node.line.fail(
            match broken {
                "claim" => &["claim"],
                "settle" => &["settle"],
                "promote" => &["promote"],
                "reap" => &["reap"],
                _ => &["prune"],
            },
            Fault::Silence,
        );
        node.line.take_calls();
        let job = world.enqueue(world.job("mail")).await;
        world.pass(s(9)).await;
        let during = node.line.take_calls();
        assert!(during["beat"] >= 8, "{broken}: {during:?}");
        node.line.heal();
        let detail = world.comes_to(job, JobState::Succeeded).await;
        assert_eq!((detail.spent, detail.crashes), (1, 0), "{broken}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_waits_longer_from_time_to_time() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.pass(s(5)).await;
    node.line.fail(&["beat"], Fault::Request);
    node.line.take_calls();
    world.pass(s(60)).await;
    let tries = node.line.take_calls()["beat"];
    assert!((60..=130).contains(&tries), "{tries} tries in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_near_retry_is_made_in_time_by_the_node_that_wrote_it() {
    let world = World::new();
    let leader = world.start(producer("leader"), on("none", done)).await;
    world.soon(leader.leadership(MAINTENANCE).won()).await;
    let retries = |attempt: Attempt| async move {
        let wait = ms(100) * attempt.job.attempt;
        let retry = Outcome::RetryAfter(wait, "not yet".to_owned());
        Ended::from(if attempt.job.attempt < 5 { retry } else { Outcome::Done })
    };
    let worker = Config { maintains: false, ..config("worker", 3) };
    let node = world.start(worker, on("mail", retries)).await;
    // The leader promotes nothing, and would look only once a second.
    leader.line.fail(&["promote"], Fault::Request);
    world.pass(ms(4_321)).await;
    let job = world.enqueue(world.job("mail")).await;
    let detail = world.comes_to(job, JobState::Succeeded).await;
    for (number, pair) in (1..).zip(detail.attempts.windows(2)) {
        let wait = pair[1].claimed_at.since(pair[0].ended_at.unwrap());
        let due = ms(100) * number;
        assert!((due..due + ms(25)).contains(&wait), "attempt {number} waited {wait:?}");
    }
    // It looks for its own timers only.
    assert!(node.line.calls("promote") <= 8, "{} looks", node.line.calls("promote"));
}

#[tokio::test(start_paused = true)]
async fn the_leader_makes_delayed_jobs_ready_when_they_are_due() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.start(config("a", 9), on("mail", gate.handler())).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    world.pass(s(3)).await;
    let start = world.now();
    for wait in [ms(1_500), s(40), ms(2_700)] {
        world.enqueue(NewJob { delay: Delay::For(wait), ..world.job("mail") }).await;
    }
    for (count, wait) in [(1, ms(1_500)), (2, ms(2_700)), (3, s(40))] {
        world.until("it is due", || gate.began().len() == count).await;
        let after = world.now() - start;
        assert!((wait..=wait + ms(20)).contains(&after), "due at {wait:?}, ran at {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_promotion_that_fails_is_not_forgotten() {
    let world = World::new();
    let retries = |attempt: Attempt| async move {
        let retry = Outcome::RetryAfter(ms(300), "not yet".to_owned());
        Ended::from(if attempt.job.attempt == 1 { retry } else { Outcome::Done })
    };
    let worker = Config { maintains: false, ..config("worker", 3) };
    let node = world.start(worker, on("mail", retries)).await;
    let failures = AtomicUsize::new(0);
    node.line.suffer(move |method| match method {
        "promote" if failures.fetch_add(1, Ordering::Relaxed) < 3 => Fault::Request,
        _ => Fault::None,
    });
    let job = world.enqueue(world.job("mail")).await;
    let start = world.now();
    world.comes_to(job, JobState::Succeeded).await;
    assert!(world.now() - start <= s(3), "{:?}", world.now() - start);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_for_minutes_logs_it_once_a_minute_and_its_recovery() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    let logged = Logged::start();
    node.line.fail(&["promote"], Fault::Request);
    world.pass(s(150)).await;
    node.line.heal();
    world.pass(s(30)).await;
    let text = logged.text();
    let count = |message: &str| {
        let is_of_service = |line: &&str| line.contains("service=\"promoter\"");
        text.lines().filter(is_of_service).filter(|line| line.contains(message)).count()
    };
    assert_eq!(count("service pass failed, retrying"), 1, "{text}");
    assert_eq!(count("service passes still fail, retrying"), 2, "{text}");
    assert_eq!(count("service recovered"), 1, "{text}");
    assert_eq!(text.matches("became leader").count(), 0, "{text}");
}
