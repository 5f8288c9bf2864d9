//! What becomes of slots.

use punctual_core::job::{JobState, Outcome, SlotOutcome};
use punctual_core::schedule::{Definition, Missed, Overlap};

use super::{START, Stage, ana, minutely};
use crate::Fault;

const HOUR: u64 = 3_600;

fn hourly(missed: Missed) -> Definition {
    Definition { missed, overlap: Overlap::Allow, ..Definition::new("0 * * * *", "mail") }
}

/// Slots that had run were run again and again, new ones waited behind them, and a new schedule
/// ran for the day before it existed.
pub async fn f1_a_finished_slot_never_runs_again_and_catching_up_ends(stage: &Stage) {
    let mut node = stage.node("a").await;
    stage.set("2027-01-01T12:30:00Z");
    let schedule = stage.create("mails", &hourly(Missed::All)).await;
    node.round().await.unwrap();
    assert_eq!(
        stage.told(schedule.id).await,
        Vec::<String>::new(),
        "no slots before the schedule existed"
    );
    // An outage of five hours, and then two days on time.
    stage.set("2027-01-01T18:10:00Z");
    node.round().await.unwrap();
    assert_eq!(stage.work().await.len(), 1, "slots are caught up gradually");
    stage.pass(10);
    assert_eq!(stage.work().await.len(), 5);
    stage.set("2027-01-01T19:00:00Z");
    for _ in 0..48 {
        node.round().await.unwrap();
        assert_eq!(stage.work().await, [Some(stage.now())], "each slot runs once, at its time");
        stage.pass(HOUR / 2);
        node.round().await.unwrap();
        assert_eq!(stage.work().await, [], "no slot runs twice");
        stage.pass(HOUR / 2);
    }
    let ledger = stage.ledger(schedule.id).await;
    assert_eq!(ledger.len(), 6 + 48);
    assert!(ledger[..6].iter().all(|view| view.outcome == SlotOutcome::CaughtUp));
    assert!(ledger[6..].iter().all(|view| view.outcome == SlotOutcome::Fired));
}

/// A crash between the claim of a slot and its audit row lost the slot.
pub async fn c1_a_slot_and_its_job_are_written_together_or_not_at_all(stage: &Stage) {
    let mut node = stage.node("a").await;
    let schedule = stage.create("mails", &minutely()).await;
    stage.pass(20);
    for fault in [Fault::Request, Fault::Reply, Fault::None] {
        let mut dying = stage.node("dying").await;
        dying.line.fail("fire", fault);
        stage.pass(40);
        let _ = dying.round().await;
        // It is gone; another takes over when the lease has ended.
        stage.pass(10);
        node.round().await.unwrap();
        stage.pass(10);
        let done = stage.work().await;
        assert_eq!(done.len(), 1, "{done:?}");
    }
    let ledger = stage.ledger(schedule.id).await;
    assert_eq!(ledger.len(), 3);
    for view in ledger {
        let job = stage.job(view.job.unwrap()).await;
        assert_eq!(job.view.schedule, Some((schedule.id, Some(view.slot))));
    }
}

/// One slow job stopped every schedule, and was itself taken for lost and started again.
pub async fn c2_a_slow_job_holds_up_no_schedule(stage: &Stage) {
    let mut node = stage.node("a").await;
    let slow = stage.create("slow", &minutely()).await;
    let other = stage.create("other", &minutely()).await;
    stage.run(60, &mut [&mut node]).await;
    let running = stage.claim().await;
    assert_eq!(running.len(), 2);
    stage.settle(&running[1], Outcome::Done).await;
    for _ in 0..20 {
        stage.run(60, &mut [&mut node]).await;
        stage.work().await;
    }
    let by = |id| stage.ledger(id);
    let (slow, other) = (by(slow.id).await, by(other.id).await);
    assert_eq!((slow.len(), other.len()), (21, 21));
    let (held, free) =
        if slow[1].outcome == SlotOutcome::SkippedOverlap { (slow, other) } else { (other, slow) };
    assert!(free.iter().all(|view| view.outcome == SlotOutcome::Fired));
    assert!(held[1..].iter().all(|view| view.outcome == SlotOutcome::SkippedOverlap));
    let job = stage.job(running[0].id).await;
    assert_eq!((job.view.state, job.view.attempt), (JobState::Running, 1));
}

/// Recovery started the work a second time, and without its input.
pub async fn c5_a_job_that_is_tried_again_is_the_same_job(stage: &Stage) {
    let mut node = stage.node("a").await;
    let mut definition = minutely();
    definition.job.payload = serde_json::json!({"tier": "free"});
    let schedule = stage.create("mails", &definition).await;
    stage.run(60, &mut [&mut node]).await;
    let first = stage.claim().await.remove(0);
    stage.settle(&first, Outcome::Fail("a bad day".to_owned())).await;
    stage.pass(10);
    let second = stage.claim().await.remove(0);
    assert_eq!((second.id, second.attempt), (first.id, 2));
    assert_eq!((&second.payload, &second.origin), (&first.payload, &first.origin));
    assert_eq!(second.payload.as_str(), r#"{"tier":"free"}"#);
    stage.settle(&second, Outcome::Done).await;
    assert_eq!(stage.ledger(schedule.id).await.len(), 1);
    assert_eq!(stage.work().await, []);
}

/// A hand-off that failed was written down as done.
pub async fn c6_a_fire_that_failed_is_tried_again(stage: &Stage) {
    let mut node = stage.node("a").await;
    let schedule = stage.create("mails", &minutely()).await;
    stage.run(50, &mut [&mut node]).await;
    node.line.fail("fire", Fault::Request);
    stage.run(15, &mut [&mut node]).await;
    assert_eq!(stage.told(schedule.id).await, Vec::<String>::new());
    node.line.heal();
    stage.run(10, &mut [&mut node]).await;
    assert_eq!(stage.told(schedule.id).await, ["2027-01-01T00:01:00Z fired"]);
    assert_eq!(stage.work().await, [Some(START + std::time::Duration::from_secs(60))]);
}

/// A schedule outside its window, or without a next slot, made the loop spin.
pub async fn c10_a_window_costs_nothing_outside_of_it(stage: &Stage) {
    let mut node = stage.node("a").await;
    let window = Definition {
        start: Some("2027-01-01T10:00:00Z".to_owned()),
        end: Some("2027-01-01T12:00:00Z".to_owned()),
        ..hourly(Missed::All)
    };
    let schedule = stage.create("mails", &window).await;
    stage.run(60, &mut [&mut node]).await;
    node.line.take_calls();
    stage.run(10, &mut [&mut node]).await;
    let calls = node.line.take_calls();
    assert_eq!((calls.get("due"), calls.get("fire")), (Some(&10), None), "{calls:?}");
    for hour in ["09", "10", "11", "12", "13"] {
        stage.set(&format!("2027-01-01T{hour}:00:01Z"));
        node.round().await.unwrap();
    }
    let slots = ["10", "11", "12"].map(|hour| format!("2027-01-01T{hour}:00:00Z fired"));
    assert_eq!(stage.told(schedule.id).await, slots);
    let ended = stage.store().schedule(schedule.id).await.unwrap().unwrap();
    assert_eq!((ended.next_slot, ended.set_aside), (None, None));
    node.line.take_calls();
    stage.run(10, &mut [&mut node]).await;
    assert_eq!(node.line.take_calls().get("fire"), None);
}

/// An overdue slot ran however old, a limit kept the oldest and forgot the rest, and enabling
/// fired at once.
pub async fn c11_missed_slots_go_by_the_policy_and_enabling_fires_nothing(stage: &Stage) {
    let mut node = stage.node("a").await;
    let none = stage.create("none", &hourly(Missed::None)).await;
    let two = stage.create("two", &Definition { missed_limit: 2, ..hourly(Missed::All) }).await;
    let off = stage.create("off", &hourly(Missed::All)).await;
    stage.schedules().disable("", "off", &ana()).await.unwrap();
    stage.set("2027-01-01T05:30:00Z");
    node.round().await.unwrap();
    let range = "2027-01-01T01:00:00Z..2027-01-01T05:00:00Z x5";
    assert_eq!(stage.told(none.id).await, [format!("{range} missed")]);
    assert_eq!(
        stage.told(two.id).await,
        [
            "2027-01-01T01:00:00Z..2027-01-01T03:00:00Z x3 missed",
            "2027-01-01T04:00:00Z caught_up",
            "2027-01-01T05:00:00Z caught_up"
        ]
    );
    stage.schedules().enable("", "off", &ana()).await.unwrap();
    node.round().await.unwrap();
    assert_eq!(stage.told(off.id).await, Vec::<String>::new());
    stage.set("2027-01-01T06:00:00Z");
    node.round().await.unwrap();
    assert_eq!(stage.told(off.id).await, ["2027-01-01T06:00:00Z fired"]);
    let enabled = stage.store().schedule(off.id).await.unwrap().unwrap();
    assert_eq!(
        enabled.last_slot,
        Some(stage.now()),
        "last_slot is the slot time, not the claim time"
    );
}

/// The policy was parsed, stored, shown and ignored.
pub async fn n2_each_missed_policy_does_what_it_says(stage: &Stage) {
    let mut node = stage.node("a").await;
    let mut ids = Vec::new();
    for missed in Missed::ALL {
        ids.push(stage.create(missed.as_str(), &hourly(*missed)).await.id);
    }
    stage.set("2027-01-01T03:30:00Z");
    node.round().await.unwrap();
    assert_eq!(stage.told(ids[0]).await, ["2027-01-01T01:00:00Z..2027-01-01T03:00:00Z x3 missed"]);
    assert_eq!(
        stage.told(ids[1]).await,
        [
            "2027-01-01T01:00:00Z..2027-01-01T02:00:00Z x2 coalesced",
            "2027-01-01T03:00:00Z caught_up"
        ]
    );
    let each = ["01", "02", "03"].map(|hour| format!("2027-01-01T{hour}:00:00Z caught_up"));
    assert_eq!(stage.told(ids[2]).await, each);
    stage.pass(1);
    let mut jobs = stage.claim().await;
    jobs.sort_by_key(|job| job.origin.as_ref().map(|origin| origin.slot));
    let folded = jobs.iter().filter(|job| {
        let facts = job.origin.as_ref().unwrap().facts.as_str();
        facts.contains(r#""missed_count":2"#) && facts.contains(r#""caught_up":true"#)
    });
    assert_eq!(
        (jobs.len(), folded.count()),
        (4, 1),
        "the job lists the slots that were merged into it"
    );
}

/// Every schedule was evaluated every second, for every minute since it last fired.
pub async fn n3_an_idle_schedule_is_not_looked_at(stage: &Stage) {
    let mut node = stage.node("a").await;
    for number in 0..50 {
        let yearly = Definition::new("0 0 29 2 *", "mail");
        stage.create(&format!("leap {number}"), &yearly).await;
    }
    stage.run(10, &mut [&mut node]).await;
    node.line.take_calls();
    stage.run(60, &mut [&mut node]).await;
    let calls = node.line.take_calls();
    assert_eq!(calls.get("due"), Some(&60), "one query, independent of the number of schedules");
    assert_eq!(calls.get("fire"), None);
    let due = stage.store().due(stage.at(), 0, 500).await.unwrap();
    assert_eq!(due.schedules, []);
    assert_eq!(due.next.unwrap().to_string(), "2028-02-29T00:00:00Z");
}

/// A minute that nobody saw was lost, and `without_overlapping` did nothing.
pub async fn q13_a_missed_minute_is_not_lost_and_overlap_holds(stage: &Stage) {
    let mut node = stage.node("a").await;
    let mut ids = Vec::new();
    for overlap in Overlap::ALL {
        let definition = Definition { overlap: *overlap, ..minutely() };
        ids.push(stage.create(overlap.as_str(), &definition).await.id);
    }
    stage.run(60, &mut [&mut node]).await;
    let running = stage.claim().await;
    assert_eq!(running.len(), 5);
    // Nobody looks for a whole minute.
    stage.pass(59);
    stage.run(62, &mut [&mut node]).await;
    let mut outcomes = Vec::new();
    for id in &ids {
        let words: Vec<&str> =
            stage.ledger(*id).await.iter().map(|view| view.outcome.as_str()).collect();
        outcomes.push(words.join(" "));
    }
    assert_eq!(
        outcomes,
        [
            "fired fired fired",
            "fired skipped_overlap skipped_overlap",
            "fired fired skipped_overlap",
            "fired fired fired",
            "fired fired fired"
        ]
    );
    let ready = stage.claim().await;
    assert_eq!(ready.len(), 2, "only jobs that may overlap run in parallel");
    let asked = stage.job(
        running.iter().find(|job| job.origin.as_ref().unwrap().schedule == ids[4]).unwrap().id,
    );
    assert!(asked.await.cancel_requested);
    for job in running.iter().chain(&ready) {
        stage.settle(job, Outcome::Done).await;
    }
    assert_eq!(stage.work().await.len(), 3, "one job of each waiting schedule");
    assert_eq!(stage.work().await.len(), 1, "then the next job");
    assert_eq!(stage.work().await, []);
}
