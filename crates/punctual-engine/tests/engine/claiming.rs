//! What a node takes: as much as can start, in the order it was told, as soon as it is told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use punctual_conformance::Fault;
use punctual_core::Timestamp;
use punctual_core::job::{JobState, Outcome};
use punctual_engine::{Attempt, Config, Ended, QueueOrder, ServedQueue, Timing};
use punctual_store::memory::Memory;
use punctual_store::{Actor, At, NewJob, QueueChange, QueueLimits, Store, limits};
use tokio::sync::Notify;

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn no_more_is_claimed_than_can_start() {
    let world = World::new();
    let gate = Gate::new();
    world.enqueue_some("mail", 10).await;
    let node = world.start(config("a", 3), on("mail", gate.handler())).await;
    world.until("three run", || gate.began().len() == 3).await;
    for ended in 1..=7 {
        // Slow jobs: each takes longer than the engine looks back for its pace.
        world.pass(s(1)).await;
        let stats = world.stats("mail").await;
        assert_eq!((stats.running, stats.ready), (3, 8 - ended));
        assert_eq!(node.health().free, 0);
        gate.open(1);
        world.until("the next one runs", || gate.began().len() as u64 == 3 + ended).await;
    }
}

#[tokio::test(start_paused = true)]
async fn long_jobs_that_end_together_do_not_make_others_wait_here() {
    let world = World::new();
    let gate = Gate::new();
    let ids = world.enqueue_some("mail", 30).await;
    let _node = world.start(config("a", 10), on("mail", gate.handler())).await;
    world.until("ten run", || gate.began().len() == 10).await;
    world.pass(s(60)).await;
    gate.open(10);
    world.until("ten more run", || gate.began().len() == 20).await;
    world.pass(ms(1)).await;
    let stats = world.stats("mail").await;
    assert_eq!((stats.running, stats.ready), (10, 10));
    assert_eq!(world.state(ids[25]).await, JobState::Ready);
}

#[tokio::test(start_paused = true)]
async fn fast_jobs_are_fetched_ahead_and_what_cannot_start_after_all_is_given_back() {
    let world = World::new();
    let gate = Gate::new();
    // A hundred jobs of a few milliseconds set the pace, and then come some that hang.
    let env = world.env.clone();
    let fast = move |_: Attempt| {
        let nap = punctual_engine::Env::sleep(&*env, ms(5));
        async {
            nap.await;
            Ended::from(Outcome::Done)
        }
    };
    world.enqueue_some("fast", 100).await;
    let slow = world.enqueue_some("slow", 60).await;
    let handlers = and(on("fast", fast), "slow", gate.handler());
    let _node = world.start(config("a", 5), handlers).await;
    world.until("all places are taken by slow ones", || gate.began().len() == 5).await;
    let ahead = world.stats("slow").await.running;
    assert!((6..=60).contains(&ahead), "{ahead} are held");
    // Others could do what waits here.
    let other = Gate::new();
    let _other = world.start(config("b", 100), on("slow", other.handler())).await;
    world.until("the other node does the rest", || other.began().len() == 55).await;
    // Nothing was burnt by waiting.
    gate.open(5);
    other.open(55);
    for job in slow {
        let detail = world.comes_to(job, JobState::Succeeded).await;
        assert_eq!(detail.spent, 1, "{detail:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_a_handler_is_never_claimed() {
    let world = World::new();
    let unknown = world.enqueue(world.job("parcel")).await;
    let known = world.enqueue(world.job("mail")).await;
    let _node = world.start(config("a", 3), on("mail", done)).await;
    world.comes_to(known, JobState::Succeeded).await;
    world.pass(s(60)).await;
    let detail = world.detail(unknown).await;
    assert_eq!((detail.view.state, detail.view.attempt), (JobState::Ready, 0));
    // And is done once somebody can.
    let _other = world.start(config("b", 3), on("parcel", done)).await;
    world.comes_to(unknown, JobState::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_serves_no_queue_claims_nothing() {
    let world = World::new();
    let job = world.enqueue(world.job("mail")).await;
    let node = world.start(producer("a"), on("mail", done)).await;
    world.pass(s(30)).await;
    assert_eq!(world.state(job).await, JobState::Ready);
    assert_eq!(node.line.calls("claim"), 0);
}

fn in_queue(world: &World, queue: &str) -> NewJob {
    NewJob { queue: queue.to_owned(), ..world.job("mail") }
}

#[tokio::test(start_paused = true)]
async fn in_strict_order_the_second_queue_waits_for_the_first() {
    let world = World::new();
    let gate = Gate::new();
    let jobs: Vec<NewJob> =
        ["low", "low", "high", "high", "high"].map(|queue| in_queue(&world, queue)).to_vec();
    world.enqueue_all(&jobs).await;
    let config = Config { order: QueueOrder::Strict, ..serving(&["high", "low"], config("a", 1)) };
    let _node = world.start(config, on("mail", gate.handler())).await;
    gate.open(5);
    world.until("all are done", || gate.began().len() == 5).await;
    assert_eq!(gate.queues(), ["high", "high", "high", "low", "low"]);
}

#[tokio::test(start_paused = true)]
async fn in_weighted_order_queues_come_first_by_their_weights_and_none_starves() {
    let world = World::new();
    let gate = Gate::new();
    let mut jobs = Vec::new();
    for _ in 0..600 {
        jobs.push(in_queue(&world, "heavy"));
        jobs.push(in_queue(&world, "light"));
    }
    world.enqueue_all(&jobs).await;
    let heavy = ServedQueue { weight: 3, ..ServedQueue::new("heavy") };
    let queues = vec![heavy, ServedQueue::new("light")];
    let config = Config { order: QueueOrder::Weighted, queues, ..config("a", 1) };
    let _node = world.start(config, on("mail", gate.handler())).await;
    for count in 1..=400 {
        gate.open(1);
        world.until("the next one runs", || gate.began().len() > count).await;
        // Slow enough that nothing is fetched ahead.
        world.pass(ms(200)).await;
    }
    let light = gate.queues().iter().filter(|queue| *queue == "light").count();
    assert!((70..130).contains(&light), "{light} of 400 where a hundred are due");
}

#[tokio::test(start_paused = true)]
async fn a_queue_runs_no_more_than_its_own_limit_and_refills_at_once() {
    let world = World::new();
    let gate = Gate::new();
    let jobs: Vec<NewJob> = (0..30).map(|_| in_queue(&world, "few")).collect();
    world.enqueue_all(&jobs).await;
    let few = ServedQueue { max_running: Some(2), ..ServedQueue::new("few") };
    // Beside a queue that has room and no jobs.
    let queues = vec![few, ServedQueue::new("many")];
    let config = Config { order: QueueOrder::Strict, queues, ..config("a", 50) };
    let _node = world.start(config, on("mail", gate.handler())).await;
    world.until("two run", || gate.began().len() == 2).await;
    for done in 1..=20 {
        world.pass(ms(100)).await;
        assert_eq!((gate.began().len(), world.stats("mail").await.running), (done + 1, 2));
        gate.open(1);
        let start = world.now();
        world.until("another one runs", || gate.began().len() == done + 2).await;
        assert!(world.now() - start <= ms(10), "after {:?}", world.now() - start);
    }
    let other = world.enqueue(in_queue(&world, "many")).await;
    world.until("the other queue is not held up", || gate.began().contains(&other)).await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_limited_for_all_nodes_goes_on_as_soon_as_a_job_ends() {
    let world = World::new();
    let limit = QueueChange::Limit(QueueLimits { max_running: Some(1) });
    let actor = Actor::new("ana", "one at a time");
    world.memory.change_queue(At::Database, "default", &limit, &actor).await.unwrap();
    let gate = Gate::new();
    let node = world.start(config("a", 10), on("mail", gate.handler())).await;
    world.pass(s(100)).await;
    let jobs = world.enqueue_some("mail", 20).await;
    gate.open(20);
    let start = world.now();
    for job in jobs {
        world.comes_to(job, JobState::Succeeded).await;
    }
    assert!(world.now() - start <= ms(200), "{:?}", world.now() - start);
    // And then it is as idle as before.
    node.line.take_calls();
    world.pass(s(60)).await;
    assert!(node.line.calls("claim") <= 20, "{} looks", node.line.calls("claim"));
}

/// The clock advances only when no task can run, so that no wait of a claimer can end in between.
#[tokio::test(start_paused = true)]
async fn the_next_job_of_a_limited_queue_starts_without_a_poll_on_any_node() {
    let world = World::new();
    let limit = QueueChange::Limit(QueueLimits { max_running: Some(1) });
    let actor = Actor::new("ana", "one at a time");
    world.memory.change_queue(At::Database, "default", &limit, &actor).await.unwrap();
    let gate = Gate::new();
    // Each node has one permit, so that either of them can run the next job.
    let first = world.start(config("a", 1), on("mail", gate.handler())).await;
    let second = world.start(config("b", 1), on("mail", gate.handler())).await;
    world.enqueue_some("mail", 20).await;
    world.until("the first one runs", || gate.began().len() == 1).await;
    for done in 1..20 {
        // So long that both have polled, and wait for their longest time.
        world.pass(s(30)).await;
        assert_eq!((gate.began().len(), world.stats("mail").await.running), (done, 1));
        let polls = first.line.calls("claim") + second.line.calls("claim");
        gate.open(1);
        world.pass(ms(1)).await;
        assert_eq!(gate.began().len(), done + 1, "the next job waits for a poll");
        let looks = first.line.calls("claim") + second.line.calls("claim") - polls;
        assert!(looks <= 4, "{looks} claims for one job");
    }
}

/// A queue that another claim has locked may have a job and room for it: it is not treated as empty,
/// which would leave the room unused until the next poll.
#[tokio::test(start_paused = true)]
async fn a_queue_that_another_claim_has_locked_is_claimed_again_soon() {
    let world = World::new();
    let limit = QueueChange::Limit(QueueLimits { max_running: Some(1) });
    let actor = Actor::new("ana", "one at a time");
    world.memory.change_queue(At::Database, "default", &limit, &actor).await.unwrap();
    let gate = Gate::new();
    let node = world.start(config("a", 10), on("mail", gate.handler())).await;
    // So long that it polls as rarely as it can.
    world.pass(s(100)).await;
    world.memory.contend(3);
    node.line.take_calls();
    world.enqueue_some("mail", 1).await;
    let start = world.now();
    world.until("it runs", || gate.began().len() == 1).await;
    assert!(world.now() - start <= ms(150), "after {:?}", world.now() - start);
    assert!(node.line.calls("claim") <= 6, "{} claims", node.line.calls("claim"));
}

#[tokio::test(start_paused = true)]
async fn room_for_more_than_one_claim_is_filled_by_two_at_once() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.start(config("a", 2 * limits::CLAIM_MAX), on("mail", gate.handler())).await;
    world.pass(s(1)).await;
    let (replies, calls) = (Arc::new(Notify::new()), node.line.calls("claim"));
    node.line.fail(&["claim"], Fault::Held(replies.clone()));
    world.enqueue_some("mail", 3 * limits::CLAIM_MAX).await;
    world.until("both are sent", || node.line.calls("claim") == calls + 2).await;
    assert_eq!(gate.began().len(), 0);
    node.line.heal();
    replies.notify_waiters();
    world.until("all places are taken", || gate.began().len() == 2 * limits::CLAIM_MAX).await;
    world.pass(s(1)).await;
    assert_eq!(world.stats("mail").await.running, 2 * limits::CLAIM_MAX as u64);
}

#[tokio::test(start_paused = true)]
async fn what_one_of_two_claims_brings_runs_although_the_other_failed() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.start(config("a", 2 * limits::CLAIM_MAX), on("mail", gate.handler())).await;
    world.pass(s(1)).await;
    let mut failed = 0;
    node.line.suffer(move |method| {
        failed += usize::from(method == "claim");
        if method == "claim" && failed == 1 { Fault::Request } else { Fault::None }
    });
    let start = world.now();
    world.enqueue_some("mail", 2 * limits::CLAIM_MAX).await;
    world.until("one half runs", || gate.began().len() == limits::CLAIM_MAX).await;
    assert!(world.now() - start <= ms(10), "after {:?}", world.now() - start);
    world.until("the other half runs", || gate.began().len() == 2 * limits::CLAIM_MAX).await;
}

#[tokio::test(start_paused = true)]
async fn two_claims_keep_to_the_limit_of_a_queue() {
    let world = World::new();
    let gate = Gate::new();
    let few = ServedQueue { max_running: Some(301), ..ServedQueue::new("few") };
    let one = ServedQueue { max_running: Some(1), ..ServedQueue::new("one") };
    let queues = vec![one, few];
    let config = Config { order: QueueOrder::Strict, queues, ..config("a", 2 * limits::CLAIM_MAX) };
    for queue in ["few", "one"] {
        let jobs: Vec<NewJob> = (0..500).map(|_| in_queue(&world, queue)).collect();
        world.enqueue_all(&jobs).await;
    }
    let _node = world.start(config, on("mail", gate.handler())).await;
    world.until("all that may runs", || gate.began().len() == 302).await;
    world.pass(s(10)).await;
    assert_eq!(gate.began().len(), 302);
    assert_eq!(gate.queues().iter().filter(|queue| *queue == "one").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_gave_all_it_was_asked_for_is_asked_again_at_once() {
    let world = World::new();
    let gate = Gate::new();
    for (queue, jobs) in [("first", 100), ("few", 500)] {
        let jobs: Vec<NewJob> = (0..jobs).map(|_| in_queue(&world, queue)).collect();
        world.enqueue_all(&jobs).await;
    }
    // One claim is full of both, the other has its half of what the second may give.
    let few = ServedQueue { max_running: Some(250), ..ServedQueue::new("few") };
    let queues = vec![ServedQueue::new("first"), few];
    let config = Config { order: QueueOrder::Strict, queues, ..config("a", 2 * limits::CLAIM_MAX) };
    let start = world.now();
    let _node = world.start(config, on("mail", gate.handler())).await;
    world.until("all that may runs", || gate.began().len() == 350).await;
    assert!(world.now() - start <= ms(10), "after {:?}", world.now() - start);
}

#[tokio::test(start_paused = true)]
async fn a_hint_wakes_an_idle_node_at_once() {
    let world = World::new();
    let gate = Gate::new();
    let _node = world.start(config("a", 3), on("mail", gate.handler())).await;
    world.pass(s(300)).await;
    let start = world.now();
    world.enqueue_some("mail", 1).await;
    world.until("it runs", || gate.began().len() == 1).await;
    assert!(world.now() - start <= ms(5), "after {:?}", world.now() - start);
}

#[tokio::test(start_paused = true)]
async fn without_hints_an_idle_node_looks_often_at_first_and_then_as_seldom_as_it_was_told() {
    let world = World::new();
    let gate = Gate::new();
    let poll = s(4);
    let config = Config { timing: Timing { poll, ..timing() }, ..config("a", 3) };
    let node = world.start(config, on("mail", gate.handler())).await;
    world.pass(s(1)).await;
    let early = node.line.take_calls()["claim"];
    assert!((4..=6).contains(&early), "{early} looks in the first second");
    world.pass(s(300)).await;
    let late = node.line.take_calls()["claim"];
    assert!((74..=80).contains(&late), "{late} looks in five minutes");
    // A job that nobody tells of is found at the next look.
    let elsewhere = Memory::new(|| Timestamp::EPOCH);
    elsewhere.restore(world.memory.snapshot());
    elsewhere.enqueue(At::Fixed(START + s(301)), &[world.job("mail")]).await.unwrap();
    world.memory.restore(elsewhere.snapshot());
    let start = world.now();
    world.until("it runs", || gate.began().len() == 1).await;
    assert!(world.now() - start <= poll + ms(5));
    // Where one came unannounced, the next may: it looks often again.
    node.line.take_calls();
    world.pass(s(1)).await;
    let again = node.line.take_calls()["claim"];
    assert!((4..=6).contains(&again), "{again} looks in the second after it found a job");
}

#[tokio::test(start_paused = true)]
async fn jobs_start_in_the_order_of_their_ranks() {
    let world = World::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let jobs: Vec<NewJob> =
        [0, 5, -5, 100].map(|priority| NewJob { priority, ..world.job("mail") }).to_vec();
    world.enqueue_all(&jobs).await;
    let log = seen.clone();
    let handler = move |attempt: Attempt| {
        log.lock().unwrap().push(attempt.job.priority);
        async { Ended::from(Outcome::Done) }
    };
    let _node = world.start(config("a", 1), on("mail", handler)).await;
    world.until("all are done", || seen.lock().unwrap().len() == 4).await;
    assert_eq!(*seen.lock().unwrap(), [100, 5, 0, -5]);
}

#[tokio::test(start_paused = true)]
async fn nodes_share_the_work_and_no_job_runs_twice() {
    let world = World::new();
    let runs = Arc::new(Mutex::new(BTreeMap::new()));
    let handler = |name: &'static str| {
        let (runs, env) = (runs.clone(), world.env.clone());
        move |attempt: Attempt| {
            runs.lock().unwrap().entry(attempt.job.id).or_insert_with(Vec::new).push(name);
            let nap = punctual_engine::Env::sleep(&*env, ms(20));
            async {
                nap.await;
                Ended::from(Outcome::Done)
            }
        }
    };
    let _a = world.start(config("a", 5), on("mail", handler("a"))).await;
    let _b = world.start(config("b", 5), on("mail", handler("b"))).await;
    let jobs = world.enqueue_some("mail", 500).await;
    for job in &jobs {
        world.comes_to(*job, JobState::Succeeded).await;
    }
    let runs = runs.lock().unwrap();
    assert!(runs.len() == 500 && runs.values().all(|by| by.len() == 1), "{runs:?}");
    let by_a = runs.values().filter(|by| by[0] == "a").count();
    assert!((150..=350).contains(&by_a), "{by_a} of 500 on one of two nodes");
}
