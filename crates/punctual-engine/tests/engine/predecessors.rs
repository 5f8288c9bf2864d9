//! Faults of earlier systems, each by its scenario and with the right behaviour.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_conformance::Fault;
use punctual_core::JobId;
use punctual_core::job::{AttemptOutcome, Backoff, JobState, Outcome, RetryPolicy, Spread};
use punctual_engine::{
    Attempt, Config, Ended, Env, MAINTENANCE, QueueOrder, ServedQueue, StopReason, Timing,
};
use punctual_store::{
    Actor, At, AuditEntry, JobFilter, Json, NewJob, QueueChange, QueueLimits, RequeueAnswer,
    Retention, Store, rules::Spoil,
};

use crate::world::*;

fn quick(name: &str, max_running: usize) -> Config {
    Config { policy: retry_after(s(1)), ..config(name, max_running) }
}

/// A node that leads and does no work, so that others may die.
async fn watcher(world: &World) -> Node {
    let config = Config { policy: retry_after(s(1)), ..producer("watcher") };
    let node = world.start(config, on("none", done)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    node
}

/// A handler that notes whose turn it was and takes this long.
fn takes(
    world: &World,
    time: Duration,
    runs: &Arc<Mutex<Vec<JobId>>>,
) -> impl punctual_engine::Handler + use<> {
    let (env, runs) = (world.env.clone(), runs.clone());
    move |attempt: Attempt| {
        runs.lock().unwrap().push(attempt.job.id);
        let nap = env.sleep(time);
        async {
            nap.await;
            Ended::from(Outcome::Done)
        }
    }
}

/// Jobs that panicked, killed their process or had no handler went round for ever.
#[tokio::test(start_paused = true)]
async fn f4_poison_jobs_reach_the_dead_letters() {
    let world = World::new();
    let _watcher = watcher(&world).await;
    let node = world
        .start(quick("a", 3), on("panics", |_: Attempt| async { panic!("boom") as Ended }))
        .await;
    let job = world.enqueue(NewJob { max_attempts: 3, ..world.job("panics") }).await;
    let unknown = world.enqueue(world.job("unknown")).await;
    let detail = world.comes_to(job, JobState::Failed).await;
    assert_eq!(world.outcomes(job).await, ["panicked"; 3]);
    assert_eq!(detail.view.error.as_deref(), Some("the handler panicked: boom"));
    world.kill(node).await;
    // However many attempts it has: three dead processes are enough.
    let killer = world.enqueue(NewJob { max_attempts: 100, ..world.job("kills") }).await;
    for crash in 1..=3 {
        let node = world.start(quick("b", 3), on("kills", hangs)).await;
        world.comes_to(killer, JobState::Running).await;
        world.kill(node).await;
        let state = if crash < 3 { JobState::Retrying } else { JobState::Failed };
        assert_eq!(world.comes_to(killer, state).await.crashes, crash);
    }
    assert_eq!(world.outcomes(killer).await, ["abandoned"; 3]);
    let detail = world.detail(unknown).await;
    assert_eq!((detail.view.state, detail.view.attempt), (JobState::Ready, 0));
}

/// Full workers claimed, released and woke each other at the database's round-trip rate.
#[tokio::test(start_paused = true)]
async fn f6_a_saturated_node_asks_for_nothing() {
    let world = World::new();
    let jobs: Vec<NewJob> = (0..50)
        .map(|number| NewJob {
            queue: if number % 2 == 0 { "cron" } else { "default" }.to_owned(),
            ..world.job("mail")
        })
        .collect();
    world.enqueue_all(&jobs).await;
    let cron = ServedQueue { max_running: Some(2), ..ServedQueue::new("cron") };
    let queues = vec![cron, ServedQueue::new("default")];
    let mut nodes = Vec::new();
    for name in ["a", "b"] {
        let config = Config { queues: queues.clone(), ..config(name, 4) };
        nodes.push(world.start(config, on("mail", hangs)).await);
    }
    world.pass(s(5)).await;
    assert_eq!(world.stats("mail").await.running, 8);
    for node in &nodes {
        assert_eq!(node.health().free, 0);
        node.line.take_calls();
    }
    // New work tells everybody, and nobody asks for what cannot start.
    for _ in 0..60 {
        world.enqueue(world.job("mail")).await;
        world.pass(s(1)).await;
    }
    for node in &nodes {
        let calls = node.line.take_calls();
        assert_eq!(calls.get("claim"), None, "{calls:?}");
        assert_eq!((calls.get("settle"), calls.get("release")), (None, None), "{calls:?}");
    }
}

/// A success that came while somebody cancelled was dropped, and the job ended as cancelled.
#[tokio::test(start_paused = true)]
async fn f8_a_finished_job_has_succeeded_whoever_cancels_meanwhile() {
    let world = World::new();
    let finishes = |attempt: Attempt| async move {
        assert_eq!(attempt.stopped().await, StopReason::Cancelled);
        let result = Json::parse(r#"{"sent":true}"#).unwrap();
        Ended { result: Some(result), ..Outcome::Done.into() }
    };
    let _node = world.start(quick("a", 3), on("mail", finishes)).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    world.cancel(job).await;
    let detail = world.comes_to(job, JobState::Succeeded).await;
    assert_eq!(detail.result.unwrap().as_str(), r#"{"sent":true}"#);
    world.pass(s(60)).await;
    assert_eq!(world.state(job).await, JobState::Succeeded);
}

/// The drain was dead code; the pool was closed under running handlers, whose work was done twice.
/// (That a real SIGTERM does this is shown by `punctual-bench worker-kill`.)
#[tokio::test(start_paused = true)]
async fn f9_a_clean_stop_waits_for_what_runs_and_writes_it_down() {
    let world = World::new();
    let runs = Arc::default();
    let jobs = world.enqueue_some("mail", 6).await;
    let node = world.start(quick("a", 3), on("mail", takes(&world, s(12), &runs))).await;
    world.until("three run", || runs.lock().unwrap().len() == 3).await;
    world.pass(s(3)).await;
    node.stop();
    let start = world.now();
    assert_eq!(world.soon(node.stopped()).await.unsettled, 0);
    assert!((s(8)..s(10)).contains(&(world.now() - start)));
    let states: Vec<JobState> = {
        let mut states = Vec::new();
        for job in &jobs {
            states.push(world.state(*job).await);
        }
        states
    };
    assert_eq!(states[..3], [JobState::Succeeded; 3]);
    assert_eq!(states[3..], [JobState::Ready; 3]);
    let _next = world.start(quick("b", 3), on("mail", takes(&world, s(12), &runs))).await;
    for job in &jobs {
        world.comes_to(*job, JobState::Succeeded).await;
    }
    assert_eq!(*runs.lock().unwrap(), jobs, "each ran once");
}

/// A slow heart was judged by a fast one's measure, and a node once dead stayed so.
#[tokio::test(start_paused = true)]
async fn f14_nodes_of_different_pace_leave_each_other_alive_and_the_dead_come_back() {
    let world = World::new();
    let slow = Timing { beat: s(4), leader_lease: s(6), ..timing() };
    let fast = Timing { beat: ms(200), ..timing() };
    let slow = world.start(Config { timing: slow, ..config("slow", 1) }, on("mail", done)).await;
    let fast = world.start(Config { timing: fast, ..config("fast", 1) }, on("mail", done)).await;
    let ids = [slow.node(), fast.node()];
    world.pass(s(600)).await;
    assert_eq!([slow.node(), fast.node()], ids);
    assert!(world.nodes().await.iter().all(|node| node.dead_at.is_none()));
    slow.line.cut();
    world.pass(s(60)).await;
    slow.line.heal();
    world.until("it is back", || slow.node() != ids[0] && slow.health().is_in_touch).await;
    world.pass(s(60)).await;
    let alive: BTreeSet<_> = world
        .nodes()
        .await
        .iter()
        .filter(|node| node.dead_at.is_none())
        .map(|node| node.info.id)
        .collect();
    assert_eq!(alive, [slow.node(), fast.node()].into());
}

/// Idle workers made thirty commits a second, and each swept what one should.
#[tokio::test(start_paused = true)]
async fn f15_an_idle_node_beats_and_the_leader_looks_after_the_store_and_that_is_all() {
    let world = World::new();
    let leader = world.start(config("leader", 10), on("mail", done)).await;
    world.soon(leader.leadership(MAINTENANCE).won()).await;
    let other = world.start(config("other", 10), on("mail", done)).await;
    world.pass(s(120)).await;
    leader.line.take_calls();
    other.line.take_calls();
    world.pass(s(60)).await;
    let mut calls = other.line.take_calls();
    assert!(calls.remove("beat").unwrap() <= 60);
    // Looks that find nothing write nothing; they are for stores that give no hints.
    assert!(calls.remove("claim").unwrap() <= 12);
    assert_eq!(calls, BTreeMap::new());
    let mut calls = leader.line.take_calls();
    assert!(calls.remove("beat").unwrap() <= 60);
    assert!(calls.remove("claim").unwrap() <= 12);
    assert!(calls.remove("promote").unwrap() <= 60);
    assert!(calls.remove("reap").unwrap() <= 30);
    assert!(calls.remove("count_queues").unwrap() <= 30);
    assert!(calls.remove("prune").unwrap() <= 1);
    assert!(calls.remove("due").unwrap() <= 2);
    // Whose jobs fail again and again.
    assert!(calls.remove("now").unwrap() <= 12);
    assert!(calls.remove("upkeep_jobs").unwrap() <= 12);
    assert_eq!(calls, BTreeMap::new());
}

/// Dead letters went after seven days, cancelled rows and the ledger never.
#[tokio::test(start_paused = true)]
async fn f17_dead_letters_stay_ninety_days_and_everything_goes_at_its_age() {
    let world = World::new();
    let failure = ends(Outcome::FailForGood("no".to_owned()));
    let node = world.start(config("a", 3), and(on("mail", done), "bad", failure)).await;
    let retention = Retention::default();
    let day = |days: u64| s(days * 86_400);
    assert_eq!((retention.finished, retention.failed), (day(14), day(90)));
    let done = world.enqueue(world.job("mail")).await;
    let failed = world.enqueue(world.job("bad")).await;
    let waiting = world.enqueue(world.job("nobody's")).await;
    let cancelled = world.enqueue(world.job("nobody's")).await;
    world.cancel(cancelled).await;
    world.comes_to(done, JobState::Succeeded).await;
    world.comes_to(failed, JobState::Failed).await;
    let entry = AuditEntry {
        actor: Actor::new("ana", "why not"),
        action: "look".into(),
        subject: "x".to_owned(),
    };
    world.memory.audit(At::Database, &entry).await.unwrap();
    let kept = async || {
        let mut kept = Vec::new();
        for (name, job) in
            [("done", done), ("cancelled", cancelled), ("failed", failed), ("waiting", waiting)]
        {
            if world.memory.job(job).await.unwrap().is_some() {
                kept.push(name);
            }
        }
        if !world.memory.audits(None, 10).await.unwrap().items.is_empty() {
            kept.push("audit");
        }
        if world.counted().await > 0 {
            kept.push("counts");
        }
        kept
    };
    world.pass(s(130)).await;
    world.skip_days(13);
    world.pass(s(130)).await;
    let all = ["done", "cancelled", "failed", "waiting", "audit", "counts"];
    assert_eq!(kept().await, all);
    world.skip_days(1);
    world.pass(s(130)).await;
    assert_eq!(kept().await, all[2..]);
    world.skip_days(75);
    world.pass(s(130)).await;
    assert_eq!(kept().await, all[2..]);
    world.skip_days(1);
    world.pass(s(130)).await;
    assert_eq!(kept().await, all[3..]);
    world.skip_days(275);
    world.pass(s(130)).await;
    assert_eq!(kept().await, ["waiting"]);
    assert!(node.health().is_in_touch, "a clock that leaps kills nobody");
    assert_eq!(world.nodes().await.len(), 1);
}

/// A setting, and the test that fails if it does nothing.
type Shown = (&'static str, &'static str);

/// Ten settings were read by nobody.
#[test]
fn f18_every_setting_has_a_test_that_fails_without_it() {
    // A setting that is added has to be added here, too.
    let Config {
        name: _,
        version: _,
        labels: _,
        queues: _,
        order: _,
        max_running: _,
        maintains: _,
        schedules: _,
        timeout: _,
        policy: _,
        retention: _,
        shutdown_grace: _,
        timing:
            Timing {
                beat: _,
                call: _,
                give_up: _,
                cancel_grace: _,
                dead: _,
                leader_lease: _,
                leader_margin: _,
                reap: _,
                promote: _,
                schedule: _,
                prune: _,
                roll_up: _,
                poll: _,
            },
    } = Config::default();
    let ServedQueue { name: _, weight: _, max_running: _ } = ServedQueue::new("mail");
    let Retention { finished: _, failed: _, ledger: _, records: _, nodes: _ } =
        Retention::default();
    let shown: [Shown; 31] = [
        ("name, version, labels", "a_node_says_of_itself_what_it_was_told"),
        ("queues", "a_node_that_serves_no_queue_claims_nothing"),
        ("order: strict", "in_strict_order_the_second_queue_waits_for_the_first"),
        (
            "order: weighted, weight",
            "in_weighted_order_queues_come_first_by_their_weights_and_none_starves",
        ),
        ("queue's max_running", "a_queue_runs_no_more_than_its_own_limit_and_refills_at_once"),
        ("max_running", "no_more_is_claimed_than_can_start"),
        ("maintains", "only_a_node_that_maintains_looks_after_the_store"),
        ("schedules", "only_a_node_that_schedules_fires"),
        ("schedule", "a_leader_looks_for_what_nobody_told_of"),
        ("timeout", "the_nodes_timeout_holds_where_the_job_has_none"),
        ("policy", "the_policy_is_that_of_failed_and_of_abandoned_jobs"),
        ("handler's policy", "a_handlers_own_policy_goes_before_the_nodes"),
        ("shutdown_grace", "what_outlasts_the_grace_is_told_dropped_and_given_back_at_no_cost"),
        (
            "retention: finished, failed, records",
            "f17_dead_letters_stay_ninety_days_and_everything_goes_at_its_age",
        ),
        ("retention: as told", "history_is_kept_for_as_long_as_was_told"),
        ("retention: nodes", "history_is_kept_for_as_long_as_was_told"),
        ("retention: ledger", "history_is_kept_for_as_long_as_was_told"),
        ("beat", "each_period_sets_how_often_its_service_works"),
        ("reap", "each_period_sets_how_often_its_service_works"),
        ("promote", "each_period_sets_how_often_its_service_works"),
        ("prune", "each_period_sets_how_often_its_service_works"),
        ("roll_up", "each_period_sets_how_often_its_service_works"),
        ("poll", "each_period_sets_how_often_its_service_works"),
        ("call", "each_patience_is_as_long_as_it_was_told"),
        ("give_up", "each_patience_is_as_long_as_it_was_told"),
        ("cancel_grace", "each_patience_is_as_long_as_it_was_told"),
        ("dead", "each_patience_is_as_long_as_it_was_told"),
        ("leader_lease", "each_patience_is_as_long_as_it_was_told"),
        ("leader_margin", "each_patience_is_as_long_as_it_was_told"),
        ("job's timeout", "an_attempt_that_takes_too_long_is_told_and_then_dropped"),
        ("job's budget", "all_attempts_together_stay_within_the_budget"),
    ];
    let sources = [
        include_str!("claiming.rs"),
        include_str!("outcomes.rs"),
        include_str!("scheduling.rs"),
        include_str!("stopping.rs"),
        include_str!("predecessors.rs"),
        include_str!("settings.rs"),
    ];
    for (setting, test) in shown {
        let written = format!("async fn {test}(");
        assert!(sources.iter().any(|source| source.contains(&written)), "{setting}: no {test}");
    }
}

/// Backoff had no jitter and wrapped to nothing past attempt 32, a timeout always waited a minute,
/// and an owned job could not be cancelled. (Overlap of schedules comes with the scheduler.)
#[tokio::test(start_paused = true)]
async fn f19_waits_vary_never_wrap_and_an_owned_job_can_be_cancelled() {
    let world = World::new();
    let backoff = Backoff { cap: s(20), spread: Spread::Half, ..Backoff::default() };
    let policy = RetryPolicy { backoff };
    let fails = ends(Outcome::Fail("no".to_owned()));
    let handlers = and(on("fails", fails), "hangs", hangs);
    let _node = world.start(Config { policy, ..config("a", 9) }, handlers).await;
    let job = world.enqueue(NewJob { max_attempts: 40, ..world.job("fails") }).await;
    let slow = NewJob { timeout: Some(s(1)), max_attempts: 8, ..world.job("hangs") };
    let slow = world.enqueue(slow).await;
    for (job, attempts) in [(job, 40), (slow, 8)] {
        let detail = world.comes_to(job, JobState::Failed).await;
        assert_eq!(detail.attempts.len(), attempts);
        let waits: Vec<Duration> = detail
            .attempts
            .windows(2)
            .map(|pair| pair[1].claimed_at.since(pair[0].ended_at.unwrap()))
            .collect();
        for (index, wait) in waits.iter().enumerate() {
            let whole = s(5 << index.min(5)).min(s(20));
            assert!((whole / 2..=whole + s(1)).contains(wait), "wait {index}: {wait:?}");
        }
        let late: BTreeSet<u128> = waits[3..].iter().map(|wait| wait.as_millis() / 20).collect();
        assert!(late.len() > (waits.len() - 3) * 2 / 3, "they hardly vary: {waits:?}");
    }
    let owned = NewJob { owner: "ana".to_owned(), tenant: "acme".to_owned(), ..world.job("hangs") };
    let owned = world.enqueue(owned).await;
    world.comes_to(owned, JobState::Running).await;
    world.cancel(owned).await;
    world.comes_to(owned, JobState::Cancelled).await;
}

/// A panic left the claim held and its heartbeat going, or ended scheduling; so did work that
/// could not be begun.
#[tokio::test(start_paused = true)]
async fn c8_after_a_panic_nothing_is_held_and_all_goes_on() {
    let world = World::new();
    let panics = |attempt: Attempt| async move {
        attempt.progress(Some(50), "half-way");
        panic!("boom") as Ended
    };
    let node = world.start(quick("a", 1), and(on("panics", panics), "mail", done)).await;
    let bad = world.enqueue(NewJob { max_attempts: 1, ..world.job("panics") }).await;
    let unreadable = world.enqueue(world.job("mail")).await;
    world.memory.spoil(Spoil::Body(unreadable));
    let expired = NewJob { start_within: Some(s(0)), ..world.job("mail") };
    let expired = world.enqueue(expired).await;
    let good = world.enqueue(world.job("mail")).await;
    world.comes_to(good, JobState::Succeeded).await;
    for job in [bad, unreadable] {
        world.comes_to(job, JobState::Failed).await;
    }
    assert!(world.state(expired).await.is_final());
    let health = node.health();
    assert_eq!((health.held, health.free), (0, 1));
    assert_eq!(world.nodes().await[0].running, 0, "no lease is left");
}

/// One task ran at a time, whatever the setting; all ready ones were loaded without limit or order.
#[tokio::test(start_paused = true)]
async fn c9_as_many_run_at_once_as_may_and_no_more_are_loaded() {
    let world = World::new();
    let runs = Arc::default();
    let jobs = world.enqueue_some("mail", 100).await;
    let urgent = world.enqueue(NewJob { priority: 50, ..world.job("mail") }).await;
    let start = world.now();
    let node = world.start(config("a", 20), on("mail", takes(&world, s(10), &runs))).await;
    let mut most_running = 0;
    while world.stats("mail").await.ready > 0 {
        world.pass(ms(500)).await;
        most_running = most_running.max(world.stats("mail").await.running);
    }
    for job in &jobs {
        world.comes_to(*job, JobState::Succeeded).await;
    }
    let took = world.now() - start;
    assert!((s(60)..s(63)).contains(&took), "{took:?} for 101 jobs of 10 s, 20 at a time");
    assert_eq!(most_running, 20);
    let runs = runs.lock().unwrap();
    assert_eq!(runs[0], urgent);
    assert_eq!(runs[1..], jobs, "in their order");
    assert!(node.line.calls("claim") < 60, "{} claims", node.line.calls("claim"));
}

/// One worker claimed the whole queue; rows waited as claimed until they were taken back, ran
/// twice, and failed without ever having run.
#[tokio::test(start_paused = true)]
async fn q1_what_is_claimed_runs_once_and_others_get_their_part() {
    let world = World::new();
    let (by_a, by_b) = (Arc::default(), Arc::default());
    let jobs = world.enqueue_some("mail", 40).await;
    let _a = world.start(quick("a", 2), on("mail", takes(&world, s(100), &by_a))).await;
    world.until("two run", || by_a.lock().unwrap().len() == 2).await;
    assert_eq!(world.stats("mail").await.ready, 38);
    let _b = world.start(quick("b", 2), on("mail", takes(&world, s(100), &by_b))).await;
    world.pass(s(1_200)).await;
    for job in &jobs {
        let detail = world.comes_to(*job, JobState::Succeeded).await;
        assert_eq!((detail.view.attempt, detail.crashes), (1, 0));
    }
    let parts = (by_a.lock().unwrap().len(), by_b.lock().unwrap().len());
    assert_eq!(parts, (20, 20));
}

/// A worker that started set every claimed row to failed, its neighbours' too.
#[tokio::test(start_paused = true)]
async fn q3_a_start_leaves_the_work_of_others_alone_and_a_crash_fails_nothing() {
    let world = World::new();
    let runs = Arc::default();
    let jobs = world.enqueue_some("mail", 4).await;
    let first = world.start(quick("a", 2), on("mail", takes(&world, s(60), &runs))).await;
    world.until("two run", || runs.lock().unwrap().len() == 2).await;
    // A rolling restart beside it.
    for round in 0..3 {
        let name = format!("b{round}");
        let other = world.start(quick(&name, 2), on("none", done)).await;
        world.pass(s(5)).await;
        other.stop();
        world.soon(other.stopped()).await;
    }
    for job in &jobs[..2] {
        assert_eq!(world.state(*job).await, JobState::Running);
    }
    world.kill(first).await;
    let _last = world.start(quick("c", 4), on("mail", takes(&world, s(60), &runs))).await;
    for job in &jobs {
        let detail = world.comes_to(*job, JobState::Succeeded).await;
        assert!(detail.crashes <= 1 && detail.spent <= 2);
    }
    // And what did fail can be tried again.
    let _node =
        world.start(quick("d", 1), on("bad", ends(Outcome::FailForGood("no".into())))).await;
    let bad = world.enqueue(world.job("bad")).await;
    world.comes_to(bad, JobState::Failed).await;
    let actor = Actor::new("ana", "mended");
    let answer = world.memory.requeue(At::Database, &[bad], &actor).await.unwrap();
    assert_eq!(answer, [RequeueAnswer::Requeued]);
    assert_eq!(world.comes_to(bad, JobState::Failed).await.view.attempt, 2);
}

/// A hung job held its permit for ever, and the drain waited without limit. (There is no hook for
/// failed jobs: they are listed, and kept.)
#[tokio::test(start_paused = true)]
async fn q4_a_hung_job_is_timed_out_and_neither_keeps_its_place_nor_a_stop() {
    let world = World::new();
    let config = Config { timeout: s(30), shutdown_grace: s(10), ..quick("a", 1) };
    let node = world.start(config, and(on("hangs", hangs), "mail", done)).await;
    let hung = world.enqueue(NewJob { max_attempts: 2, ..world.job("hangs") }).await;
    let mail = world.enqueue(world.job("mail")).await;
    let start = world.now();
    world.comes_to(mail, JobState::Succeeded).await;
    assert!(world.now() - start <= s(34), "{:?}", world.now() - start);
    world.comes_to(hung, JobState::Running).await;
    node.stop();
    let start = world.now();
    world.soon(node.stopped()).await;
    assert!(world.now() - start <= s(14), "{:?}", world.now() - start);
    let detail = world.detail(hung).await;
    assert_eq!((detail.view.state, detail.spent), (JobState::Ready, 1));
    assert_eq!(world.outcomes(hung).await, ["timed_out", "released"]);
}

/// Handlers were known by the compiler's name of a type: a renamed job went round for ever.
#[tokio::test(start_paused = true)]
async fn q6_a_renamed_job_waits_untouched_for_who_knows_its_name() {
    let world = World::new();
    let old = world.enqueue(NewJob { max_attempts: 1, ..world.job("app::Send") }).await;
    let _node = world.start(quick("a", 3), on("mail.send", done)).await;
    world.pass(s(3_600)).await;
    let detail = world.detail(old).await;
    assert_eq!((detail.view.state, detail.view.attempt), (JobState::Ready, 0));
    assert_eq!(world.stats("app::Send").await.ready, 1, "it can be seen to wait");
    let _both = world.start(quick("b", 3), and(on("mail.send", done), "app::Send", done)).await;
    world.comes_to(old, JobState::Succeeded).await;
}

/// Errors of settling were ignored: a finished job whose row could not be deleted ran again.
#[tokio::test(start_paused = true)]
async fn q10_a_settlement_that_fails_is_repeated_and_the_job_runs_once() {
    let world = World::new();
    let runs = Arc::default();
    let node = world.start(quick("a", 5), on("mail", takes(&world, ms(1), &runs))).await;
    let mut rounds = 0;
    node.line.suffer(move |method| {
        rounds += usize::from(method == "settle");
        match method {
            "settle" if rounds % 3 == 1 => Fault::Request,
            "settle" if rounds % 3 == 2 => Fault::Reply,
            _ => Fault::None,
        }
    });
    let mut jobs = Vec::new();
    for _ in 0..20 {
        jobs.push(world.enqueue(world.job("mail")).await);
        world.pass(ms(100)).await;
    }
    for job in &jobs {
        let detail = world.comes_to(*job, JobState::Succeeded).await;
        assert_eq!(detail.view.attempt, 1);
    }
    assert_eq!(*runs.lock().unwrap(), jobs);
    assert!(node.line.calls("settle") > 20);
}

/// One global queue for each process, no id, no history of success, panic text thrown away, and a
/// strict order that starved.
#[tokio::test(start_paused = true)]
async fn q12_nodes_share_a_process_serve_many_queues_and_keep_what_happened() {
    let (one, two) = (World::new(), World::new());
    let gate = Gate::new();
    let queues = ["a", "b", "c"];
    let served = Config { order: QueueOrder::Weighted, ..serving(&queues, quick("one", 1)) };
    let _one = one.start(served, on("mail", gate.handler())).await;
    let panics = on("mail", |_: Attempt| async { panic!("exact words") as Ended });
    let _two = two.start(quick("two", 1), panics).await;
    let mut jobs = Vec::new();
    for _ in 0..40 {
        for queue in queues {
            jobs.push(NewJob { queue: queue.to_owned(), ..one.job("mail") });
        }
    }
    one.enqueue_all(&jobs).await;
    gate.open(jobs.len());
    // In another store of the same process.
    let other = two.enqueue(NewJob { max_attempts: 1, ..two.job("mail") }).await;
    for job in &jobs {
        let detail = one.comes_to(job.id, JobState::Succeeded).await;
        let [attempt] = &detail.attempts[..] else { panic!("{detail:?}") };
        assert_eq!(attempt.outcome, Some(AttemptOutcome::Succeeded));
        assert!(attempt.node.is_some() && attempt.ended_at.is_some());
    }
    let detail = two.comes_to(other, JobState::Failed).await;
    assert_eq!(detail.view.error.as_deref(), Some("the handler panicked: exact words"));
    for queue in queues {
        let first = gate.queues().iter().position(|seen| seen == queue);
        assert!(first.is_some_and(|first| first < 60), "{queue} waited for the others to be empty");
    }
}

/// The guard of what runs was kept in one process and leaked at a panic; finished tasks were kept.
#[tokio::test(start_paused = true)]
async fn n7_what_may_run_follows_from_what_runs_and_nothing_piles_up() {
    let world = World::new();
    let _watcher = watcher(&world).await;
    let limits = QueueLimits { max_running: Some(1) };
    let actor = Actor::new("ana", "one at a time");
    let change = QueueChange::Limit(limits);
    world.memory.change_queue(At::Database, "default", &change, &actor).await.unwrap();
    let panics = |attempt: Attempt| async move {
        if attempt.job.attempt == 1 {
            panic!("boom");
        }
        Ended::from(Outcome::Done)
    };
    let node = world.start(quick("a", 5), and(on("mail", panics), "hangs", hangs)).await;
    for _ in 0..5 {
        let job = world.enqueue(world.job("mail")).await;
        world.comes_to(job, JobState::Succeeded).await;
    }
    // The one seat is taken with its holder's death and free again when that is noticed.
    let hung = world.enqueue(world.job("hangs")).await;
    world.comes_to(hung, JobState::Running).await;
    let next = world.enqueue(NewJob { queue: "default".to_owned(), ..world.job("mail") }).await;
    world.pass(s(30)).await;
    assert_eq!(world.state(next).await, JobState::Ready);
    world.kill(node).await;
    let second = world.start(quick("b", 5), on("mail", panics)).await;
    world.comes_to(next, JobState::Succeeded).await;
    // Thousands of jobs later a node holds nothing.
    let no_limit = QueueChange::Limit(QueueLimits::default());
    world.memory.change_queue(At::Database, "default", &no_limit, &actor).await.unwrap();
    let many = world.enqueue_some("mail", 500).await;
    for job in many {
        world.comes_to(job, JobState::Succeeded).await;
    }
    world.until("nothing is held", || second.health().held == 0).await;
    assert_eq!(second.health().free, 5);
}

/// History was one file for each node, with failures of no length, without what was aborted, and
/// one busy schedule drove the others out. A stop aborted everything.
#[tokio::test(start_paused = true)]
async fn n11_history_is_shared_whole_and_true() {
    let world = World::new();
    let env = world.env.clone();
    let slow_failure = move |_: Attempt| {
        let nap = env.sleep(s(7));
        async {
            nap.await;
            Ended::from(Outcome::FailForGood("after a while".to_owned()))
        }
    };
    let handlers = and(and(on("fails", slow_failure), "hangs", hangs), "busy", done);
    let config = Config { shutdown_grace: s(1), ..quick("a", 4) };
    let node = world.start(config, handlers.clone()).await;
    let failed = world.enqueue(world.job("fails")).await;
    let detail = world.comes_to(failed, JobState::Failed).await;
    let took = detail.attempts[0].ended_at.unwrap().since(detail.attempts[0].claimed_at);
    assert!((s(7)..s(8)).contains(&took), "{took:?}");
    world.enqueue_some("busy", 900).await;
    let stopped = world.enqueue(world.job("hangs")).await;
    let called_off = world.enqueue(world.job("hangs")).await;
    world.comes_to(called_off, JobState::Running).await;
    world.comes_to(stopped, JobState::Running).await;
    world.cancel(called_off).await;
    world.comes_to(called_off, JobState::Cancelled).await;
    node.stop();
    world.soon(node.stopped()).await;
    // Another node knows all of it.
    let next = world.start(quick("b", 4), handlers).await;
    world.comes_to(stopped, JobState::Running).await;
    assert_eq!(world.outcomes(failed).await, ["failed"]);
    assert_eq!(world.outcomes(called_off).await, ["cancelled"]);
    let detail = world.detail(stopped).await;
    assert_eq!(detail.attempts[0].outcome, Some(AttemptOutcome::Released));
    assert_ne!(detail.attempts[0].node, detail.attempts[1].node);
    assert_eq!(detail.attempts[1].node, Some(next.node()));
    let filter = JobFilter { kind: Some("fails".to_owned()), ..JobFilter::default() };
    assert_eq!(world.memory.jobs(&filter, None, 10).await.unwrap().items.len(), 1);
}
