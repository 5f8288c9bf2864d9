//! Stopping: what runs may finish, what does not goes back at no cost, and haste is possible.

use std::sync::{Arc, Mutex};

use punctual_conformance::Fault;
use punctual_core::job::{JobState, Outcome};
use punctual_engine::{Attempt, Config, Ended, MAINTENANCE, StopReason};
use punctual_store::{NewJob, Store};
use tokio::sync::Notify;

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn what_runs_may_finish_and_nothing_new_starts() {
    let world = World::new();
    let gate = Gate::new();
    let jobs = world.enqueue_some("mail", 5).await;
    let node = world.start(config("a", 2), on("mail", gate.handler())).await;
    world.until("two run", || gate.began().len() == 2).await;
    node.stop();
    world.pass(s(10)).await;
    gate.open(2);
    assert_eq!(world.soon(node.stopped()).await.unsettled, 0);
    for job in &jobs[..2] {
        assert_eq!(world.state(*job).await, JobState::Succeeded);
    }
    for job in &jobs[2..] {
        let detail = world.detail(*job).await;
        assert_eq!((detail.view.state, detail.spent), (JobState::Ready, 0));
    }
    assert_eq!(gate.began().len(), 2);
    assert_eq!(world.nodes().await, [], "it has left");
}

#[tokio::test(start_paused = true)]
async fn what_was_fetched_ahead_is_given_back_at_once() {
    let world = World::new();
    let gate = Gate::new();
    world.enqueue_some("fast", 100).await;
    let slow = world.enqueue_some("slow", 20).await;
    let handlers = and(on("fast", done), "slow", gate.handler());
    let node = world.start(config("a", 5), handlers).await;
    world.until("the places are taken", || gate.began().len() == 5).await;
    assert!(world.stats("slow").await.running > 5, "some are fetched ahead");
    node.stop();
    world.pass(ms(1)).await;
    let stats = world.stats("slow").await;
    assert_eq!((stats.running, stats.ready), (5, 15));
    gate.open(5);
    world.soon(node.stopped()).await;
    for job in slow {
        let detail = world.detail(job).await;
        assert_eq!((detail.spent, detail.crashes), (u32::from(gate.began().contains(&job)), 0));
    }
}

#[tokio::test(start_paused = true)]
async fn what_outlasts_the_grace_is_told_dropped_and_given_back_at_no_cost() {
    let world = World::new();
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let log = reasons.clone();
    let stubborn = move |attempt: Attempt| {
        let log = log.clone();
        async move {
            let reason = attempt.stopped().await;
            log.lock().unwrap().push(reason);
            std::future::pending().await
        }
    };
    let config = Config { shutdown_grace: s(20), ..config("a", 2) };
    let node = world.start(config, on("mail", stubborn)).await;
    // With a single attempt: were it burnt, the job would have failed.
    let job = world.enqueue(NewJob { max_attempts: 1, ..world.job("mail") }).await;
    world.comes_to(job, JobState::Running).await;
    node.stop();
    let start = world.now();
    assert_eq!(world.soon(node.stopped()).await.unsettled, 0);
    let took = world.now() - start;
    assert!((s(23)..s(24)).contains(&took), "{took:?}");
    assert_eq!(*reasons.lock().unwrap(), [StopReason::Shutdown]);
    let detail = world.detail(job).await;
    assert_eq!((detail.view.state, detail.spent, detail.crashes), (JobState::Ready, 0, 0));
    assert_eq!(world.outcomes(job).await, ["released"]);
    assert_eq!(world.nodes().await, []);
}

#[tokio::test(start_paused = true)]
async fn the_second_request_stops_at_once() {
    let world = World::new();
    let node = world.start(config("a", 2), on("mail", hangs)).await;
    let job = world.enqueue(NewJob { max_attempts: 1, ..world.job("mail") }).await;
    world.comes_to(job, JobState::Running).await;
    node.stop();
    world.pass(s(2)).await;
    let start = world.now();
    node.stop_now();
    assert_eq!(world.soon(node.stopped()).await.unsettled, 0);
    assert!(world.now() - start <= ms(10), "{:?}", world.now() - start);
    let detail = world.detail(job).await;
    assert_eq!((detail.view.state, detail.spent), (JobState::Ready, 0));
}

#[tokio::test(start_paused = true)]
async fn the_second_request_does_not_wait_for_a_store_that_hangs() {
    let world = World::new();
    let node = world.start(config("a", 2), on("mail", hangs)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    node.line.suffer(|_| Fault::Silence);
    node.stop();
    world.pass(ms(100)).await;
    let start = world.now();
    node.stop_now();
    let stopped = world.soon(node.stopped()).await;
    let took = world.now() - start;
    assert!(took <= timing().call + ms(10), "{took:?}");
    assert_eq!(stopped.unsettled, 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_dropped_stops_at_once() {
    let world = World::new();
    let node = world.start(config("a", 2), on("mail", hangs)).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    drop(node);
    let detail = world.comes_to(job, JobState::Ready).await;
    assert_eq!((detail.spent, detail.crashes), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_under_way_at_the_stop_is_given_back() {
    let world = World::new();
    let node = world.start(config("a", 2), on("mail", done)).await;
    world.pass(s(5)).await;
    let letting_go = Arc::new(Notify::new());
    node.line.fail(&["claim"], Fault::Held(letting_go.clone()));
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    node.stop();
    world.pass(ms(500)).await;
    letting_go.notify_one();
    assert_eq!(world.soon(node.stopped()).await.unsettled, 0);
    let detail = world.detail(job).await;
    assert_eq!((detail.view.state, detail.spent, detail.crashes), (JobState::Ready, 0, 0));
    assert_eq!(world.nodes().await, [], "it has left");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_is_lost_at_the_stop_is_given_back() {
    let world = World::new();
    let node = world.start(config("a", 2), on("mail", done)).await;
    world.pass(s(5)).await;
    node.line.fail(&["claim"], Fault::Reply);
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    node.stop();
    assert_eq!(world.soon(node.stopped()).await.unsettled, 0);
    let detail = world.detail(job).await;
    assert_eq!((detail.view.state, detail.spent, detail.crashes), (JobState::Ready, 0, 0));
    assert_eq!(world.nodes().await, [], "it has left");
}

#[tokio::test(start_paused = true)]
async fn leadership_is_handed_over_before_the_drain() {
    let world = World::new();
    let node = world.start(config("a", 2), on("mail", hangs)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    let other = world.start(config("b", 2), on("none", done)).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    world.pass(s(30)).await;
    node.stop();
    let start = world.now();
    world.soon(other.leadership(MAINTENANCE).won()).await;
    assert!(world.now() - start <= ms(200), "{:?}", world.now() - start);
    assert!(!node.leadership(MAINTENANCE).is_leader());
    assert_eq!(world.state(job).await, JobState::Running, "it still drains");
}

#[tokio::test(start_paused = true)]
async fn a_role_won_while_the_node_stops_is_given_up_at_once() {
    let world = World::new();
    let node = world.start(config("a", 2), on("mail", hangs)).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    let letting_go = Arc::new(Notify::new());
    node.line.fail(&["acquire"], Fault::Held(letting_go.clone()));
    let role = node.lead("reports");
    world.pass(ms(10)).await;
    node.stop();
    world.pass(ms(10)).await;
    letting_go.notify_one();
    world.pass(ms(10)).await;
    assert!(!role.is_leader());
    let leaders = world.memory.leaders().await.unwrap();
    let reports = leaders.iter().find(|leader| leader.fence.role == "reports").unwrap();
    assert!(reports.until <= START + (world.now() - s(3_600)), "{reports:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_store_is_away_ends_and_says_what_is_left() {
    let world = World::new();
    let polite = |attempt: Attempt| async move {
        attempt.stopped().await;
        Ended::from(Outcome::Done)
    };
    let config = Config { shutdown_grace: s(5), ..config("a", 2) };
    let node = world.start(config, on("mail", polite)).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    node.line.cut();
    node.stop();
    let start = world.now();
    assert_eq!(world.soon(node.stopped()).await.unsettled, 1);
    let took = world.now() - start;
    assert!(took <= s(5) + timing().cancel_grace + timing().call * 3, "{took:?}");
}
