//! Slots that no live node can run: they stay undecided until a node can, or until the policy for missed
//! slots gives them up.

use std::time::Duration;

use punctual_core::job::{Outcome, SlotOutcome};
use punctual_core::schedule::{Definition, Missed, Overlap};
use punctual_core::{ScheduleId, Timestamp};
use punctual_engine::{Manner, Wanted};
use punctual_store::{Pause, Schedule};

use super::{START, Stage, ana, minutely};

const MINUTE: Duration = Duration::from_secs(60);

/// Every minute on node b.
fn on_b(missed: Missed) -> Definition {
    Definition {
        run_on: "node b".to_owned(),
        missed,
        missed_window: "5m".to_owned(),
        overlap: Overlap::Allow,
        ..minutely()
    }
}

fn minute(number: u32) -> Timestamp {
    START + MINUTE * number
}

async fn reread(stage: &Stage, schedule: &Schedule) -> Schedule {
    stage.store().schedule(schedule.id).await.unwrap().expect("the schedule exists")
}

/// The outcomes of these many slots, the first of which is after a minute. Each must have just one.
async fn outcomes(stage: &Stage, id: ScheduleId, slots: u32) -> Vec<SlotOutcome> {
    let mut outcomes = Vec::new();
    for view in stage.ledger(id).await {
        let first = minute(outcomes.len() as u32 + 1);
        let count = u32::try_from(view.count).unwrap();
        let last = first + MINUTE * (count - 1);
        assert_eq!((view.slot, view.end.unwrap_or(view.slot)), (first, last), "{view:?}");
        outcomes.resize(outcomes.len() + count as usize, view.outcome);
    }
    assert_eq!(outcomes.len(), slots as usize);
    outcomes
}

/// A clean restart of the only node lost slots that a crash keeps.
pub async fn a_slot_during_a_clean_restart_of_its_node_fires(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    for missed in [Missed::None, Missed::Latest, Missed::All] {
        let b = stage.worker("b", &[]).await;
        let schedule = stage.create(missed.as_str(), &on_b(missed)).await;
        stage.run(55, &mut [&mut leader]).await;
        stage.store().leave(stage.at(), b).await.unwrap();
        stage.run(10, &mut [&mut leader]).await;
        assert_eq!(stage.ledger(schedule.id).await, []);
        let b = stage.worker("b", &[]).await;
        stage.run(1, &mut [&mut leader]).await;
        let ledger = stage.ledger(schedule.id).await;
        assert_eq!((ledger.len(), ledger[0].outcome), (1, SlotOutcome::Fired));
        let jobs = stage.claim_as(b, &["@b"]).await;
        assert_eq!(jobs.len(), 1);
        stage.settle(&jobs[0], Outcome::Done).await;
        stage.schedules().disable("", missed.as_str(), &ana()).await.unwrap();
        stage.store().leave(stage.at(), b).await.unwrap();
        stage.run(54, &mut [&mut leader]).await;
    }
}

/// They wait for the node, also when it takes minutes to return.
pub async fn held_slots_are_caught_up_when_their_node_returns(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    let b = stage.worker("b", &[]).await;
    let schedule = stage.create("named", &on_b(Missed::All)).await;
    stage.run(60, &mut [&mut leader]).await;
    stage.store().leave(stage.at(), b).await.unwrap();
    stage.run(150, &mut [&mut leader]).await;
    assert_eq!(outcomes(stage, schedule.id, 1).await, [SlotOutcome::Fired]);
    let waiting = reread(stage, &schedule).await;
    assert_eq!(waiting.next_slot, Some(minute(2)), "it is the first undecided slot");
    let held = waiting.held.expect("slots are held");
    assert_eq!((held.queue.as_str(), held.since), ("@b", minute(2)));

    let b = stage.worker("b", &[]).await;
    stage.run(1, &mut [&mut leader]).await;
    assert_eq!(
        outcomes(stage, schedule.id, 3).await,
        [SlotOutcome::Fired, SlotOutcome::CaughtUp, SlotOutcome::Fired]
    );
    let after = reread(stage, &schedule).await;
    assert_eq!((after.next_slot, after.held), (Some(minute(4)), None));
    assert_eq!(stage.claim_as(b, &["@b"]).await.len(), 3);
    stage.run(60, &mut [&mut leader]).await;
    assert_eq!(outcomes(stage, schedule.id, 4).await[3], SlotOutcome::Fired);
}

/// A node that never comes back leaves no slot without an outcome.
pub async fn held_slots_are_given_up_by_the_policy(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    let mut schedules = Vec::new();
    for missed in [Missed::None, Missed::Latest, Missed::All] {
        schedules.push(stage.create(missed.as_str(), &on_b(missed)).await.id);
    }
    stage.run(20 * 60, &mut [&mut leader]).await;
    for (id, reason, lag) in [
        (schedules[0], "missed = none; waited for node `b`", 90),
        (schedules[1], "more than missed_window = 5m late; waited for node `b`", 330),
        (schedules[2], "more than missed_window = 5m late; waited for node `b`", 330),
    ] {
        let ledger = stage.ledger(id).await;
        for view in &ledger {
            assert_eq!(view.outcome, SlotOutcome::Missed);
            assert_eq!(view.reason.as_deref(), Some(reason));
        }
        let last = ledger.last().map(|view| view.end.unwrap_or(view.slot)).unwrap();
        assert!(stage.now().since(last) <= Duration::from_secs(lag) + MINUTE, "{last}");
    }
    stage.worker("b", &[]).await;
    stage.run(1, &mut [&mut leader]).await;
    let newest = |outcomes: Vec<SlotOutcome>| outcomes[14..].to_vec();
    let (missed, fired) = (SlotOutcome::Missed, SlotOutcome::Fired);
    assert_eq!(
        newest(outcomes(stage, schedules[0], 20).await),
        [missed, missed, missed, missed, missed, fired]
    );
    let merged = SlotOutcome::Coalesced;
    assert_eq!(
        newest(outcomes(stage, schedules[1], 20).await),
        [missed, merged, merged, merged, merged, fired],
    );
    let caught_up = SlotOutcome::CaughtUp;
    assert_eq!(
        newest(outcomes(stage, schedules[2], 20).await),
        [missed, caught_up, caught_up, caught_up, caught_up, fired]
    );
}

/// The reason names the change and the node.
pub async fn a_change_of_a_schedule_decides_its_held_slots(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    let schedules = stage.schedules();
    let mut ids = Vec::new();
    for name in ["disabled", "edited", "deleted"] {
        ids.push(stage.create(name, &on_b(Missed::All)).await.id);
    }
    let set = |names: &[&str]| -> Vec<Wanted> {
        let wanted = |name: &&str| Wanted {
            name: (*name).to_owned(),
            definition: on_b(Missed::All),
            enabled: true,
            renamed_from: None,
        };
        names.iter().map(wanted).collect()
    };
    let manner = Manner { prune: true, ..Manner::default() };
    schedules.apply("", "files", &set(&["removed"]), manner, &ana()).await.unwrap();
    ids.push(schedules.get("", "removed").await.unwrap().id);
    let declared = [("declared".to_owned(), on_b(Missed::All))].into();
    schedules.register("", "code:app", 1, &declared).await.unwrap();
    ids.push(schedules.get("", "declared").await.unwrap().id);
    stage.run(130, &mut [&mut leader]).await;

    schedules.disable("", "disabled", &ana()).await.unwrap();
    let anywhere = Definition { run_on: "any".to_owned(), ..on_b(Missed::All) };
    schedules.define("", "edited", &anywhere, None, &ana()).await.unwrap();
    schedules.delete("", "deleted", &ana()).await.unwrap();
    schedules.apply("", "files", &[], manner, &ana()).await.unwrap();
    let declared = [("declared".to_owned(), anywhere)].into();
    schedules.register("", "code:app", 2, &declared).await.unwrap();
    for (id, change) in ids.iter().zip([
        "disabled by ana",
        "changed by ana",
        "disabled by ana",
        "removed by ana",
        "changed by code:app",
    ]) {
        let ledger = stage.ledger(*id).await;
        assert_eq!(outcomes(stage, *id, 2).await, [SlotOutcome::Missed; 2], "{change}");
        let reason = format!("{change} before the slot was decided; waited for node `b`");
        assert_eq!(ledger[0].reason, Some(reason));
        if let Some(schedule) = stage.store().schedule(*id).await.unwrap() {
            assert_eq!(schedule.held, None);
        }
    }
    stage.run(60, &mut [&mut leader]).await;
    assert_eq!(outcomes(stage, ids[1], 3).await[2], SlotOutcome::Fired, "from now on");
    assert_eq!(outcomes(stage, ids[4], 3).await[2], SlotOutcome::Fired);
    schedules.enable("", "disabled", &ana()).await.unwrap();
    stage.worker("b", &[]).await;
    stage.run(60, &mut [&mut leader]).await;
    let ledger = stage.ledger(ids[0]).await;
    assert_eq!(
        ledger.last().map(|view| (view.slot, view.outcome)),
        Some((minute(4), SlotOutcome::Fired))
    );
}

/// They are examined less and less often, until a node joins that may run them.
pub async fn held_slots_cost_little_while_their_node_is_away(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    let daily = Definition {
        missed_window: "12h".to_owned(),
        ..Definition { when: vec!["1 0 * * *".to_owned()], ..on_b(Missed::Latest) }
    };
    let schedule = stage.create("daily", &daily).await;
    stage.run(59, &mut [&mut leader]).await;
    leader.line.take_calls();
    stage.run(1_801, &mut [&mut leader]).await;
    let calls = leader.line.take_calls();
    assert_eq!(calls["fire"], 7, "after 0, 30, 60, 120, 240, 480 and 960 seconds: {calls:?}");
    assert_eq!(calls["due"], 1_801, "the steps of the test");
    stage.worker("c", &[]).await;
    stage.run(10, &mut [&mut leader]).await;
    assert_eq!(leader.line.take_calls().get("fire"), None, "another node does not matter");
    stage.worker("b", &[]).await;
    stage.run(1, &mut [&mut leader]).await;
    assert_eq!(leader.line.take_calls()["fire"], 1);
    assert_eq!(outcomes(stage, schedule.id, 1).await, [SlotOutcome::CaughtUp]);
}

/// Slots of the pause are skipped, those before and after it are not.
pub async fn a_pause_is_remembered_while_slots_from_it_are_held(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    let schedule = stage.create("named", &on_b(Missed::All)).await;
    stage.run(130, &mut [&mut leader]).await;
    stage.schedules().pause("", "named", Some(minute(4) + MINUTE / 6), &ana()).await.unwrap();
    stage.run(180, &mut [&mut leader]).await;
    let before = reread(stage, &schedule).await;
    assert_eq!(before.next_slot, Some(minute(1)));
    assert_eq!(
        before.pause.as_ref().map(|pause: &Pause| pause.since),
        Some(minute(2) + MINUTE / 6)
    );
    assert!(!before.is_paused(stage.now()));
    stage.worker("b", &[]).await;
    stage.run(1, &mut [&mut leader]).await;
    let (caught_up, paused) = (SlotOutcome::CaughtUp, SlotOutcome::SkippedPaused);
    assert_eq!(
        outcomes(stage, schedule.id, 5).await,
        [caught_up, caught_up, paused, paused, SlotOutcome::Fired]
    );
    assert_eq!(reread(stage, &schedule).await.pause, None);
}

/// The job that runs may be all that there is for long.
pub async fn a_held_slot_does_not_cancel_running_jobs(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    let definition = Definition {
        run_on: "label zone=eu".to_owned(),
        overlap: Overlap::CancelRunning,
        ..on_b(Missed::Latest)
    };
    stage.create("zoned", &definition).await;
    let a = stage.worker("a", &[("zone", "eu")]).await;
    stage.run(60, &mut [&mut leader]).await;
    let running = stage.claim_as(a, &["@zone=eu"]).await.remove(0);
    let is_cancelled = || async { stage.job(running.id).await.cancel_requested };
    stage.worker_again(a, "a", &[]).await;
    stage.run(60, &mut [&mut leader]).await;
    assert!(!is_cancelled().await);
    stage.worker_again(a, "a", &[("zone", "eu")]).await;
    stage.run(1, &mut [&mut leader]).await;
    assert!(is_cancelled().await, "a node whose labels change is a node that joins");
}
