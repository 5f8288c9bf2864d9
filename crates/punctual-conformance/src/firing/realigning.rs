//! The database clock jumps ahead, is accepted, and is set back: schedules are ahead of it until they
//! are realigned.

use punctual_core::Timestamp;
use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{Definition, Missed, Overlap};
use punctual_engine::ScheduleError;
use punctual_store::Schedule;

use super::{Node, Stage, ana, minutely};

/// As far as the clock jumps.
const JUMP: i64 = 2 * 3_600;

async fn reread(stage: &Stage, schedule: &Schedule) -> Schedule {
    stage.store().schedule(schedule.id).await.unwrap().expect("the schedule exists")
}

/// The clock jumps ahead for longer than it takes until it is accepted, and is set back.
async fn jump_and_return(stage: &Stage, leader: &mut Node) {
    stage.step_clock(JUMP);
    stage.run(150, &mut [&mut *leader]).await;
    stage.step_clock(-JUMP);
    stage.run(1, &mut [leader]).await;
}

/// Slots after the instant, and how many slots the ledger decides up to it.
async fn decided(stage: &Stage, schedule: &Schedule, until: Timestamp) -> (usize, u64) {
    let ledger = stage.ledger(schedule.id).await;
    let is_later = |view: &&punctual_store::SlotView| view.end.unwrap_or(view.slot) > until;
    let later = ledger.iter().filter(is_later).count();
    (later, ledger.iter().filter(|view| view.slot <= until).map(|view| view.count).sum())
}

fn not_ahead(name: &str) -> ScheduleError {
    ScheduleError::NotAhead(name.to_owned())
}

/// Nothing fired for two hours, and nothing said so.
pub async fn a_realigned_schedule_fires_again(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    let minutely = Definition { overlap: Overlap::Allow, ..minutely() };
    let schedule = stage.create("minutely", &minutely).await;
    let daily = stage.create("daily", &Definition::new("0 12 * * *", "mail")).await;
    stage.run(60, &mut [&mut leader]).await;
    let refused = stage.schedules().realign("", "minutely", &ana()).await;
    assert_eq!(refused, Err(not_ahead("minutely")));

    jump_and_return(stage, &mut leader).await;
    let ahead = reread(stage, &schedule).await;
    let until = ahead.ahead_until(stage.now()).expect("its slots were decided");
    let found = stage.store().schedules_ahead(stage.now(), 10).await.unwrap();
    assert_eq!((found.schedules, found.is_partial), (vec![ahead.clone()], false));
    stage.work().await;
    stage.run(180, &mut [&mut leader]).await;
    assert_eq!(stage.work().await, [], "decided slots do not fire again by themselves");

    let preview = stage.schedules().preview_realign("", "minutely").await.unwrap();
    assert_eq!(reread(stage, &schedule).await, ahead);
    let now = stage.now();
    let done = stage.schedules().realign("", "minutely", &ana()).await.unwrap();
    assert_eq!(
        (done.slots, done.until, &done.discarded),
        (preview.slots, until, &preview.discarded)
    );
    assert_eq!(done.next_slot, preview.next_slot);
    let next = done.next_slot.expect("a next slot");
    assert!(next > now && next.since(now).as_secs() <= 60, "{next}");
    let realigned = reread(stage, &schedule).await;
    assert_eq!((realigned.next_slot, realigned.ahead_until(now)), (Some(next), None));
    assert_eq!(realigned, done.schedule);
    assert_eq!(stage.schedules().realign("", "minutely", &ana()).await, Err(not_ahead("minutely")));
    assert_eq!(stage.schedules().realign("", "daily", &ana()).await, Err(not_ahead("daily")));
    assert_eq!(reread(stage, &daily).await.last_slot, None);
    let audit = stage.store().audits(None, 1).await.unwrap().items.remove(0);
    assert_eq!((audit.entry.action.as_str(), audit.entry.actor), ("realign schedule", ana()));

    stage.run(120, &mut [&mut leader]).await;
    let fired: Vec<Option<Timestamp>> = stage.work().await;
    assert_eq!(fired, [Some(next), Some(next + std::time::Duration::from_secs(60))]);
}

/// A row of slots that were merged begins before the clock was wrong.
pub async fn a_realigned_range_keeps_its_past_slots(stage: &Stage) {
    for missed in [Missed::Latest, Missed::None] {
        // One that starts while the clock is wrong believes it at once.
        let mut leader = stage.node("leader").await;
        let name = missed.as_str();
        let schedule = stage.create(name, &Definition { missed, ..minutely() }).await;
        // No node leads for four minutes, in which the clock jumps.
        stage.pass(4 * 60 + 30);
        let begin = schedule.next_slot.unwrap();
        stage.step_clock(JUMP);
        stage.run(150, &mut [&mut leader]).await;
        stage.step_clock(-JUMP);
        stage.run(1, &mut [&mut leader]).await;
        let now = stage.now();
        let passed = now.since(begin).as_secs() / 60 + 1;
        let (later, _) = decided(stage, &schedule, now).await;
        assert!(later > 0, "{:?}", stage.ledger(schedule.id).await);
        let ledger = stage.ledger(schedule.id).await;
        let total: u64 = ledger.iter().map(|view| view.count).sum();
        assert!(ledger.iter().any(|row| row.slot <= now && row.end.is_some_and(|end| end > now)));

        let done = stage.schedules().realign("", name, &ana()).await.unwrap();
        assert_eq!(done.slots, total - passed);
        assert_eq!(decided(stage, &schedule, now).await, (0, passed));
        let last = stage.ledger(schedule.id).await.pop().unwrap();
        let realigned = reread(stage, &schedule).await;
        assert_eq!(realigned.last_slot, Some(last.end.unwrap_or(last.slot)));
        assert!(matches!(last.outcome, SlotOutcome::Missed | SlotOutcome::Coalesced), "{last:?}");
        stage.schedules().delete("", name, &ana()).await.unwrap();
    }
}

/// The decisions are of an earlier revision, and a pause began by the wrong clock.
pub async fn a_schedule_that_was_changed_while_ahead_can_be_realigned(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    let definition = Definition { missed: Missed::None, ..minutely() };
    let schedule = stage.create("changed", &definition).await;
    stage.pass(90);
    stage.step_clock(JUMP);
    stage.run(150, &mut [&mut leader]).await;
    stage.schedules().pause("", "changed", None, &ana()).await.unwrap();
    stage.step_clock(-JUMP);
    stage.run(1, &mut [&mut leader]).await;
    let half_hourly = Definition { when: vec!["*/30 * * * *".to_owned()], ..definition };
    stage.schedules().define("", "changed", &half_hourly, None, &ana()).await.unwrap();
    let now = stage.now();
    let passed = now.since(schedule.next_slot.unwrap()).as_secs() / 60 + 1;

    let done = stage.schedules().realign("", "changed", &ana()).await.unwrap();
    assert_eq!(decided(stage, &schedule, now).await, (0, passed), "cut by the earlier revision");
    assert_eq!(done.schedule.pause.expect("it is paused").since, now);
    let next = done.next_slot.unwrap();
    assert_eq!((next.as_micros() % 1_800_000_000, next.since(now).as_secs() < 1_800), (0, true));
}
