//! Stopping: what runs may finish, what does not goes back at no cost, and haste is possible.

use std::sync::{Arc, Mutex};

use punctual_conformance::Fault;
use punctual_core::job::{JobState, Outcome};
use punctual_engine::{Attempt, Config, Ended, Env, MAINTENANCE, StopReason};
use punctual_store::{NewJob, Store};
use tokio::sync::Notify;

use crate::logging::Logged;
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
    assert!((s(20)..=s(21)).contains(&took), "{took:?}");
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
    assert!(took <= s(6), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_learns_of_a_shutdown_at_its_start_and_may_finish_within_the_grace() {
    let world = World::new();
    let (env, seen) = (world.env.clone(), Arc::new(Mutex::new(Vec::new())));
    let log = seen.clone();
    let finishes = move |attempt: Attempt| {
        let (env, log) = (env.clone(), log.clone());
        async move {
            assert_eq!((attempt.stop_reason(), attempt.time_left()), (None, None));
            let reason = attempt.stopped().await;
            assert_eq!(attempt.stop_reason(), Some(reason));
            log.lock().unwrap().push((reason, env.elapsed(), attempt.time_left()));
            env.sleep(s(15)).await;
            Ended::from(Outcome::Done)
        }
    };
    let config = Config { shutdown_grace: s(20), ..config("a", 2) };
    let node = world.start(config, on("mail", finishes)).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    node.stop();
    let start = world.now();
    assert_eq!(world.soon(node.stopped()).await.unsettled, 0);
    assert_eq!(*seen.lock().unwrap(), [(StopReason::Shutdown, start, Some(s(20)))]);
    assert_eq!(world.state(job).await, JobState::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_uses_the_grace_must_stop_shortly_before_its_end() {
    let world = World::new();
    let (env, seen) = (world.env.clone(), Arc::new(Mutex::new(Vec::new())));
    let log = seen.clone();
    let stops_late = move |attempt: Attempt| {
        let (env, log) = (env.clone(), log.clone());
        async move {
            let reason = attempt.must_stop().await;
            log.lock().unwrap().push((reason, env.elapsed(), attempt.time_left()));
            Ended::from(Outcome::Fail("interrupted".to_owned()))
        }
    };
    let config = Config { shutdown_grace: s(20), ..config("a", 2) };
    let node = world.start(config, on("mail", stops_late)).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    node.stop();
    let grace = timing().cancel_grace;
    let asked = world.now() + s(20) - grace;
    world.soon(node.stopped()).await;
    assert_eq!(*seen.lock().unwrap(), [(StopReason::Shutdown, asked, Some(grace))]);
    assert_eq!(world.outcomes(job).await, ["released"]);
}

#[tokio::test(start_paused = true)]
async fn during_the_grace_a_timeout_and_a_cancel_reach_a_handler_that_was_told_of_the_shutdown() {
    let world = World::new();
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let log = reasons.clone();
    let listens = move |attempt: Attempt| {
        let log = log.clone();
        async move {
            assert_eq!(attempt.stopped().await, StopReason::Shutdown);
            let reason = attempt.must_stop().await;
            log.lock().unwrap().push(reason);
            Ended::from(Outcome::Fail("interrupted".to_owned()))
        }
    };
    let node = world.start(config("a", 2), on("mail", listens)).await;
    let slow = NewJob { timeout: Some(s(5)), max_attempts: 1, ..world.job("mail") };
    let slow = world.enqueue(slow).await;
    let unwanted = world.enqueue(world.job("mail")).await;
    world.comes_to(slow, JobState::Running).await;
    world.comes_to(unwanted, JobState::Running).await;
    node.stop();
    world.pass(s(1)).await;
    world.cancel(unwanted).await;
    assert_eq!(world.soon(node.stopped()).await.unsettled, 0);
    let reasons = reasons.lock().unwrap().clone();
    assert_eq!(reasons, [StopReason::Cancelled, StopReason::TimedOut(s(5))]);
    assert_eq!(world.outcomes(slow).await, ["timed_out"]);
    assert_eq!(world.state(slow).await, JobState::Failed);
    assert_eq!(world.state(unwanted).await, JobState::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn an_error_during_the_grace_is_the_shutdowns_only_if_the_handler_has_seen_it() {
    let world = World::new();
    let env = world.env.clone();
    let unaware = move |_: Attempt| {
        let env = env.clone();
        async move {
            env.sleep(s(10)).await;
            Ended::from(Outcome::Fail("no such user".to_owned()))
        }
    };
    let aware = |attempt: Attempt| async move {
        attempt.stopped().await;
        Ended::from(Outcome::Fail("interrupted".to_owned()))
    };
    let decided = |attempt: Attempt| async move {
        attempt.stopped().await;
        Ended::from(Outcome::FailForGood("no such user".to_owned()))
    };
    let panics = |attempt: Attempt| async move {
        attempt.must_stop().await;
        panic!("index out of bounds")
    };
    let handlers = and(and(on("unaware", unaware), "aware", aware), "decided", decided);
    let logged = Logged::start();
    let node = world.start(config("a", 4), and(handlers, "panics", panics)).await;
    let mut jobs = Vec::new();
    for kind in ["unaware", "aware", "decided", "panics"] {
        let job = world.enqueue(NewJob { max_attempts: 1, ..world.job(kind) }).await;
        world.comes_to(job, JobState::Running).await;
        jobs.push(job);
    }
    node.stop();
    world.soon(node.stopped()).await;
    assert_eq!(world.outcomes(jobs[0]).await, ["failed"]);
    assert_eq!(world.outcomes(jobs[1]).await, ["released"]);
    assert_eq!(world.outcomes(jobs[2]).await, ["failed"]);
    // A bug is not hidden by the shutdown.
    assert_eq!(world.outcomes(jobs[3]).await, ["panicked"]);
    let text = logged.text().replace(&jobs[1].to_string(), "JOB");
    let event = "WARN attempt released at shutdown after an error kind=\"aware\" \
                 queue=\"default\" job=JOB attempt=1 error=\"interrupted\"";
    assert_eq!(text.matches("attempt released at shutdown").count(), 1, "{text}");
    assert!(text.contains(event), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_dropped_ends_within_a_second_although_its_store_hangs() {
    let world = World::new();
    let node = world.start(config("a", 2), on("mail", hangs)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    node.line.suffer(|_| Fault::Silence);
    let (ended, start) = (node.ended(), world.now());
    drop(node);
    world.soon(ended).await;
    assert!(world.now() - start <= s(1), "{:?}", world.now() - start);
}

#[tokio::test(start_paused = true)]
async fn a_stop_takes_at_most_the_grace_and_a_second_whatever_happens() {
    for grace in [s(0), s(1), s(20)] {
        for fault in [Fault::None, Fault::Request, Fault::Silence] {
            let world = World::new();
            let config = Config { shutdown_grace: grace, ..config("a", 3) };
            let node = world.start(config, on("mail", hangs)).await;
            world.soon(node.leadership(MAINTENANCE).won()).await;
            let job = world.enqueue(world.job("mail")).await;
            world.comes_to(job, JobState::Running).await;
            let is_reachable = matches!(fault, Fault::None);
            node.line.suffer(move |_| fault.clone());
            node.stop();
            let start = world.now();
            let stopped = world.soon(node.stopped()).await;
            let took = world.now() - start;
            assert!(took <= grace + s(1), "{grace:?} {took:?}");
            assert_eq!(stopped.unsettled, usize::from(!is_reachable));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_a_node_that_was_declared_dead_takes_no_longer() {
    let world = World::new();
    let hasty = Config { shutdown_grace: s(0), ..config("a", 1) };
    let node = world.start(hasty, on("mail", hangs)).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    node.line.cut();
    let _other = world.start(serving(&["other"], config("b", 1)), on("other", done)).await;
    world.comes_to(job, JobState::Retrying).await;
    // It learns of its death, and cannot join again.
    node.line.fail(&["join"], Fault::Silence);
    world.pass(s(2)).await;
    node.stop();
    let start = world.now();
    world.soon(node.stopped()).await;
    let took = world.now() - start;
    assert!(took <= s(1), "{took:?}");
}

/// Panics when an event with this text is logged, as a log writer may.
struct Panics(&'static str);

impl tracing::Subscriber for Panics {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            if field.name() == "message" {
                text = format!("{value:?}");
            }
        });
        assert_ne!(text, self.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_node_that_panics_while_it_stops_has_stopped() {
    let world = World::new();
    let node = world.start(config("a", 1), on("mail", done)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    let panics = tracing::subscriber::set_default(Panics("no longer leader"));
    node.stop();
    let start = world.now();
    world.soon(node.stopped()).await;
    assert!(world.now() - start <= s(1), "{:?}", world.now() - start);
    drop(panics);
}
