//! Touch with the store: what a node does when it loses it, and what it tells while it has it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use punctual_conformance::Fault;
use punctual_core::job::{JobState, Outcome};
use punctual_engine::{Attempt, Config, Ended, Env, StopReason};
use punctual_store::Store;
use tokio::sync::Notify;

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_beat_stops_its_work_before_others_may_take_it() {
    let world = World::new();
    let stops = Arc::new(Mutex::new(Vec::new()));
    let (log, env) = (stops.clone(), world.env.clone());
    let handler = move |attempt: Attempt| {
        let (log, env) = (log.clone(), env.clone());
        async move {
            let reason = attempt.stopped().await;
            log.lock().unwrap().push((reason, env.elapsed()));
            Ended::from(Outcome::Fail("interrupted".to_owned()))
        }
    };
    let watcher = world.start(producer("watcher"), on("mail", done)).await;
    let leads = watcher.leadership(punctual_engine::MAINTENANCE);
    world.soon(leads.won()).await;
    let node =
        world.start(Config { maintains: false, ..config("a", 3) }, on("mail", handler)).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    world.pass(s(30)).await;
    let last_beat = world.nodes().await.iter().map(|node| node.seen_at).max().unwrap();
    let cut_at = world.now();
    node.line.cut();
    world.until("it stops", || !stops.lock().unwrap().is_empty()).await;
    let [(reason, at)] = stops.lock().unwrap()[..] else { panic!("one stop") };
    assert_eq!(reason, StopReason::OutOfTouch);
    let limit = timing().give_up;
    assert!((limit - s(1)..=limit).contains(&(at - cut_at)), "after {:?}", at - cut_at);
    assert!(!node.health().is_in_touch);
    // The others take the job only later.
    assert_eq!(world.state(job).await, JobState::Running);
    world.comes_to(job, JobState::Retrying).await;
    let reaped_at = world.detail(job).await.attempts[0].ended_at.unwrap();
    assert!(reaped_at.since(last_beat) > timing().dead, "{reaped_at} after {last_beat}");
}

#[tokio::test(start_paused = true)]
async fn a_node_out_of_touch_takes_no_work_and_goes_on_when_it_is_back() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.pass(s(5)).await;
    let id = node.node();
    // Only heartbeats are lost.
    node.line.fail(&["beat"], Fault::Request);
    world.until("it gives up", || !node.health().is_in_touch).await;
    let job = world.enqueue(world.job("mail")).await;
    world.pass(s(3)).await;
    assert_eq!(world.detail(job).await.view.attempt, 0);
    node.line.heal();
    let start = world.now();
    world.comes_to(job, JobState::Succeeded).await;
    assert!(world.now() - start <= s(2), "after {:?}", world.now() - start);
    assert_eq!(node.node(), id, "nobody was there to declare it dead");
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_gets_no_answer_counts_as_failed() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.pass(s(5)).await;
    node.line.fail(&["beat"], Fault::Silence);
    let start = world.now();
    world.until("it gives up", || !node.health().is_in_touch).await;
    assert!(world.now() - start <= timing().give_up + ms(5));
    node.line.heal();
    world.until("it is back", || node.health().is_in_touch).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_declared_dead_comes_back_under_a_new_id() {
    let world = World::new();
    let gate = Gate::new();
    let watcher = world.start(producer("watcher"), on("mail", done)).await;
    world.soon(watcher.leadership(punctual_engine::MAINTENANCE).won()).await;
    let config = Config { maintains: false, policy: retry_after(s(1)), ..config("a", 3) };
    let node = world.start(config, on("mail", gate.handler())).await;
    let job = world.enqueue(world.job("mail")).await;
    world.until("it runs", || gate.began().len() == 1).await;
    world.pass(s(20)).await;
    let first_id = node.node();
    node.line.cut();
    world.comes_to(job, JobState::Retrying).await;
    let dead: Vec<_> = world.nodes().await;
    assert!(dead.iter().any(|node| node.info.id == first_id && node.dead_at.is_some()));
    node.line.heal();
    gate.open(10);
    world.until("it is another", || node.node() != first_id).await;
    let detail = world.comes_to(job, JobState::Succeeded).await;
    assert_eq!((detail.crashes, detail.spent), (1, 2));
    assert_eq!(detail.attempts[0].node, Some(first_id));
    assert_eq!(detail.attempts[1].node, Some(node.node()));
    assert_eq!(world.outcomes(job).await, ["abandoned", "succeeded"]);
    assert!(node.health().is_in_touch && node.health().free == 3);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_dead_node_is_noticed_without_a_heartbeat() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    let first_id = node.node();
    // As after a failover to a state in which it has never joined.
    world.memory.restore(punctual_store::memory::Memory::new(|| START).snapshot());
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Succeeded).await;
    assert_ne!(node.node(), first_id);
}

#[tokio::test(start_paused = true)]
async fn jobs_of_a_claim_whose_answer_was_lost_are_given_back_at_no_cost() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.pass(s(5)).await;
    let claims = AtomicUsize::new(0);
    node.line.suffer(move |method| {
        let is_first = method == "claim" && claims.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first { Fault::Reply } else { Fault::None }
    });
    let jobs = world.enqueue_some("mail", 3).await;
    world.pass(ms(1)).await;
    for job in &jobs {
        assert_eq!(world.state(*job).await, JobState::Running, "taken, and nobody knows");
    }
    let start = world.now();
    for job in jobs {
        let detail = world.comes_to(job, JobState::Succeeded).await;
        assert_eq!((detail.view.attempt, detail.spent, detail.crashes), (2, 1, 0));
    }
    assert!(world.now() - start <= s(2), "after {:?}", world.now() - start);
    assert_eq!(node.line.calls("release"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_under_way_is_no_stray() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.pass(s(5)).await;
    let letting_go = Arc::new(Notify::new());
    node.line.fail(&["claim"], Fault::Held(letting_go.clone()));
    let job = world.enqueue(world.job("mail")).await;
    // Two heartbeats pass before the claim is answered.
    world.pass(ms(2_500)).await;
    letting_go.notify_one();
    let detail = world.comes_to(job, JobState::Succeeded).await;
    assert_eq!((detail.view.attempt, node.line.calls("release")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_with_the_next_heartbeat_also_after_one_was_lost() {
    let world = World::new();
    let steps = Arc::new(Notify::new());
    let step = steps.clone();
    let handler = move |attempt: Attempt| {
        let step = step.clone();
        async move {
            for percent in [10, 20, 250] {
                attempt.progress(Some(percent), &format!("at {percent}"));
                step.notified().await;
            }
            Ended::from(Outcome::Done)
        }
    };
    let node = world.start(config("a", 3), on("mail", handler)).await;
    let job = world.enqueue(world.job("mail")).await;
    let said = |detail: punctual_store::JobDetail| {
        detail.progress.map(|progress| (progress.percent, progress.note))
    };
    world.pass(s(2)).await;
    assert_eq!(said(world.detail(job).await), Some((Some(10), "at 10".to_owned())));
    node.line.fail(&["beat"], Fault::Request);
    steps.notify_one();
    world.pass(s(3)).await;
    assert_eq!(said(world.detail(job).await), Some((Some(10), "at 10".to_owned())));
    node.line.heal();
    world.pass(s(2)).await;
    assert_eq!(said(world.detail(job).await), Some((Some(20), "at 20".to_owned())));
    steps.notify_one();
    world.pass(s(2)).await;
    assert_eq!(said(world.detail(job).await), Some((Some(100), "at 250".to_owned())));
    steps.notify_one();
    world.comes_to(job, JobState::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_thaws_with_its_node_never_overlaps_with_its_successor() {
    let world = World::new();
    let running = Arc::new(Mutex::new(BTreeMap::new()));
    let handler = |name: &'static str| {
        let (running, env) = (running.clone(), world.env.clone());
        move |attempt: Attempt| {
            let (running, env) = (running.clone(), env.clone());
            async move {
                running.lock().unwrap().insert(name, ());
                assert_eq!(running.lock().unwrap().len(), 1, "two attempts at once");
                let reason = tokio::select! {
                    reason = attempt.stopped() => Some(reason),
                    () = env.sleep(s(60)) => None,
                };
                running.lock().unwrap().remove(name);
                let stopped = Outcome::Fail("stopped".to_owned());
                Ended::from(if reason.is_some() { stopped } else { Outcome::Done })
            }
        }
    };
    let other = world.start(config("b", 3), on("none", done)).await;
    world.soon(other.leadership(punctual_engine::MAINTENANCE).won()).await;
    let first = Config { maintains: false, ..config("a", 3) };
    let node = world.start(first, on("mail", handler("a"))).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    let _third = world.start(config("c", 3), on("mail", handler("c"))).await;
    node.line.cut();
    let detail = world.comes_to(job, JobState::Succeeded).await;
    assert_eq!(detail.crashes, 1);
    assert_eq!(world.memory.nodes().await.unwrap().len(), 3);
}
