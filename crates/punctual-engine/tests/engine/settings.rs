//! Every setting does what it says; `f18` in the faults of earlier systems lists them all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_conformance::Fault;
use punctual_core::job::{JobState, Outcome, SlotOutcome};
use punctual_core::schedule::{ON_TIME, Overlap};
use punctual_core::{ScheduleId, Timestamp};
use punctual_engine::{Attempt, Config, Env, MAINTENANCE, Timing};
use punctual_store::{
    Actor, At, Fence, JobDetail, Json, NewSchedule, Retention, SlotDecision, SlotPlan, SlotRow,
    Store,
};

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn a_node_says_of_itself_what_it_was_told() {
    let world = World::new();
    let config = Config {
        version: "7.1".to_owned(),
        labels: vec![("zone".to_owned(), "eu".to_owned())],
        ..serving(&["mail", "cron"], config("anna", 3))
    };
    let node = world.start(config, on("send", done)).await;
    let [seen] = &world.nodes().await[..] else { panic!("one node") };
    let info = &seen.info;
    assert_eq!((info.id, info.name.as_str(), info.version.as_str()), (node.node(), "anna", "7.1"));
    assert_eq!(
        (&info.queues[..], &info.kinds[..]),
        (&["@anna", "@zone=eu", "mail", "cron"].map(str::to_owned)[..], &["send".to_owned()][..])
    );
    assert_eq!(info.labels, [("zone".to_owned(), "eu".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn only_a_node_that_maintains_looks_after_the_store() {
    let world = World::new();
    let idle = Config { maintains: false, schedules: false, ..config("a", 3) };
    let node = world.start(idle, on("mail", done)).await;
    world.pass(s(60)).await;
    assert!(!node.leadership(MAINTENANCE).is_leader());
    for method in ["acquire", "promote", "reap", "prune"] {
        assert_eq!(node.line.calls(method), 0, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_policy_is_that_of_failed_and_of_abandoned_jobs() {
    let world = World::new();
    let watching = Config { policy: retry_after(s(33)), ..producer("watcher") };
    let watcher = world.start(watching, on("none", done)).await;
    world.soon(watcher.leadership(MAINTENANCE).won()).await;
    let config = Config { policy: retry_after(s(11)), maintains: false, ..config("a", 3) };
    let fails = ends(Outcome::Fail("no".to_owned()));
    let node = world.start(config, and(on("fails", fails), "hangs", hangs)).await;
    let failed = world.enqueue(world.job("fails")).await;
    let abandoned = world.enqueue(world.job("hangs")).await;
    let wait = |detail: JobDetail| {
        let ended_at = detail.attempts[0].ended_at.unwrap();
        detail.view.due_at.unwrap().since(ended_at)
    };
    assert_eq!(wait(world.comes_to(failed, JobState::Retrying).await), s(11));
    world.comes_to(abandoned, JobState::Running).await;
    world.kill(node).await;
    assert_eq!(wait(world.comes_to(abandoned, JobState::Retrying).await), s(33));
}

#[tokio::test(start_paused = true)]
async fn history_is_kept_for_as_long_as_was_told() {
    let world = World::new();
    let day = |days: u64| s(days * 86_400);
    let retention = Retention {
        finished: day(2),
        failed: day(4),
        ledger: day(6),
        records: day(8),
        nodes: day(10),
    };
    let keeping = Config { retention, ..config("a", 3) };
    let failure = ends(Outcome::FailForGood("no".to_owned()));
    let node = world.start(keeping, and(on("mail", done), "bad", failure)).await;
    let fence = world.soon(node.leadership(MAINTENANCE).won()).await;
    world.pass(s(20)).await;
    let jobs = [world.job("mail"), world.job("bad")];
    world.enqueue_all(&jobs).await;
    world.comes_to(jobs[0].id, JobState::Succeeded).await;
    world.comes_to(jobs[1].id, JobState::Failed).await;
    let slots = one_slot(&world, &fence).await;
    let dead = world.start(Config { maintains: false, ..config("b", 1) }, on("none", done)).await;
    world.kill(dead).await;
    world.pass(s(120)).await;
    let mut went = BTreeMap::new();
    for today in 0..=12 {
        let mut gone = Vec::new();
        for (name, job) in [("finished", jobs[0].id), ("failed", jobs[1].id)] {
            gone.push((name, world.memory.job(job).await.unwrap().is_none()));
        }
        gone.push(("ledger", world.memory.slots(slots, None, 10).await.unwrap().items.is_empty()));
        gone.push(("records", world.counted().await == 0));
        gone.push(("nodes", world.nodes().await.len() == 1));
        for (name, _) in gone.into_iter().filter(|(_, is_gone)| *is_gone) {
            went.entry(name).or_insert(today);
        }
        world.skip_days(1);
        world.pass(s(130)).await;
    }
    let expected = [("finished", 2), ("failed", 4), ("ledger", 6), ("records", 8), ("nodes", 10)];
    assert_eq!(went, expected.into());
}

/// A schedule with one decided slot.
async fn one_slot(world: &World, fence: &Fence) -> ScheduleId {
    let now = world.memory.now(At::Database).await.unwrap();
    let new = NewSchedule {
        id: ScheduleId::mint(now, [1; 10]),
        tenant: String::new(),
        name: "nightly".to_owned(),
        owner: String::new(),
        set: String::new(),
        shard: 0,
        enabled: true,
        spec: Json::null(),
        next_slot: Some(Timestamp::from_seconds(now.floor_seconds())),
        actor: Actor::new("ana", "needed"),
    };
    let schedule = world.memory.create_schedule(At::Database, &new).await.unwrap();
    let row = SlotRow {
        slot: new.next_slot.unwrap(),
        end: None,
        count: 1,
        outcome: SlotOutcome::Missed,
        reason: None,
        job: None,
    };
    let plan = SlotPlan {
        schedule: schedule.id,
        stamp: schedule.stamp,
        decision: SlotDecision::Advance {
            overlap: Overlap::Allow,
            slots: vec![row],
            next_slot: None,
            hold_for: ON_TIME,
        },
    };
    world.memory.fire(At::Database, fence, s(5), &[plan]).await.unwrap();
    assert_eq!(world.memory.slots(schedule.id, None, 10).await.unwrap().items.len(), 1);
    schedule.id
}

/// How often a leading node calls a method in ten minutes, with a job now and then.
async fn calls(timing: Timing, method: &str) -> usize {
    let world = World::new();
    let node = world.start(Config { timing, ..config("a", 3) }, on("mail", done)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    world.pass(s(100)).await;
    node.line.take_calls();
    for _ in 0..10 {
        // Counts to roll up, but not by the work that polling finds.
        world.enqueue(world.job("mail")).await;
        world.pass(s(60)).await;
    }
    node.line.take_calls().get(method).copied().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn each_period_sets_how_often_its_service_works() {
    type Change = fn(&mut Timing, Duration);
    let periods: [(&str, &str, Change); 5] = [
        ("beat", "beat", |timing, period| timing.beat = period),
        ("reap", "reap", |timing, period| timing.reap = period),
        ("promote", "promote", |timing, period| timing.promote = period),
        ("prune", "prune", |timing, period| timing.prune = period),
        ("poll", "claim", |timing, period| timing.poll = period),
    ];
    for (setting, method, change) in periods {
        for period in [ms(500), s(2)] {
            let mut timing = timing();
            change(&mut timing, period);
            let expected = (600.0 / period.as_secs_f64()) as usize;
            let seen = calls(timing, method).await;
            let spread = expected / 10 + 25;
            assert!(
                seen.abs_diff(expected) <= spread,
                "{setting} of {period:?}: {seen} calls where {expected} are due"
            );
        }
    }
    // Ten jobs in ten minutes are rolled up in at most so many parts as there are jobs.
    assert_eq!(calls(Timing { roll_up: s(5), ..timing() }, "roll_up").await, 10);
    assert!((2..=3).contains(&calls(Timing { roll_up: s(250), ..timing() }, "roll_up").await));
}

/// From the loss of its connection: when a node stops its work, when it drops it, when it stops
/// leading, when another leads, and when its jobs are taken back.
async fn after_the_cut(timing: Timing) -> [Duration; 5] {
    let world = World::new();
    let stops = Arc::new(Mutex::new(None));
    let (log, env) = (stops.clone(), world.env.clone());
    let stubborn = move |attempt: Attempt| {
        let (log, env) = (log.clone(), env.clone());
        async move {
            attempt.stopped().await;
            *log.lock().unwrap() = Some(env.elapsed());
            std::future::pending().await
        }
    };
    let node = world.start(Config { timing, ..config("a", 1) }, on("mail", stubborn)).await;
    let led = node.leadership(MAINTENANCE);
    world.soon(led.won()).await;
    let other = world.start(Config { timing, ..producer("b") }, on("none", done)).await;
    let job = world.enqueue(world.job("mail")).await;
    world.pass(s(30)).await;
    node.line.suffer(|_| Fault::Silence);
    let cut = world.now();
    world.soon(led.lost()).await;
    let lost = world.now() - cut;
    world.soon(other.leadership(MAINTENANCE).won()).await;
    let replaced = world.now() - cut;
    world.until("it stops", || stops.lock().unwrap().is_some()).await;
    let stopped = stops.lock().unwrap().unwrap() - cut;
    world.until("it is dropped", || node.health().free == 1).await;
    let dropped = world.now() - cut;
    world.comes_to(job, JobState::Retrying).await;
    [stopped, dropped, lost, replaced, world.now() - cut]
}

#[tokio::test(start_paused = true)]
async fn each_patience_is_as_long_as_it_was_told() {
    let check = |what: &str, seen: Duration, expected: Duration| {
        // From a heartbeat up to a second before the cut, to a look up to three seconds late.
        let range = expected.saturating_sub(s(1))..=expected + s(3);
        assert!(range.contains(&seen), "{what}: {seen:?} where {expected:?} is due");
    };
    let base = Timing { call: s(1), ..timing() };
    let [stopped, dropped, _, replaced, reaped] = after_the_cut(base).await;
    check("give_up", stopped, s(10));
    check("cancel_grace", dropped, s(13));
    check("leader_lease", replaced, s(5));
    // The new leader continues the count of the time in which the database was reachable.
    check("dead", reaped, s(15));

    let changed = Timing { give_up: s(20), cancel_grace: s(10), dead: s(40), ..base };
    let [stopped, dropped, _, _, reaped] = after_the_cut(changed).await;
    check("give_up", stopped, s(20));
    check("cancel_grace", dropped, s(30));
    check("dead", reaped, s(40));

    let longer = Timing { leader_lease: s(15), call: s(20), ..base };
    let [_, _, lost, replaced, _] = after_the_cut(longer).await;
    check("leader_margin of 1 s", lost, s(14));
    check("leader_lease", replaced, s(15));
    let [_, _, lost, ..] = after_the_cut(Timing { leader_margin: s(8), ..longer }).await;
    check("leader_margin of 8 s", lost, s(7));
    // With a short patience the doubt comes before the lease ends.
    let [_, _, lost, ..] = after_the_cut(Timing { call: s(2), ..longer }).await;
    check("call", lost, s(3));
}
