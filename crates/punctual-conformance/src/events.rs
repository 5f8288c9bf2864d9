//! What has happened, in the order of its instants.

use punctual_core::Timestamp;
use punctual_core::job::{JobState, Outcome, SlotOutcome};
use punctual_store::*;

use crate::World;

/// What an event is, in a few words.
fn told(event: &Event) -> String {
    match event {
        Event::Ended(job) => format!("{} {}", job.id, job.state),
        Event::Decided { name, slot, .. } => {
            format!("{} {}", name.as_deref().unwrap_or("–"), slot.outcome)
        }
        Event::Led(change) => format!("{} {}", change.role, change.term),
        Event::Did(audit) => format!("{} {}", audit.entry.actor.who, audit.entry.action),
    }
}

async fn all(world: &World<'_>, after: &EventCursor, until: Timestamp) -> Vec<Event> {
    let page = world.store().events(after, until, 100).await.unwrap();
    assert_eq!(page.next, None);
    page.items
}

/// Jobs that ended well, badly or not at all; slots; terms; what people did.
async fn something_of_each_sort(world: &World<'_>) -> Vec<String> {
    let node = world.join().await;
    world.lead("scheduler/0", node).await;
    let mut expected = vec!["scheduler/0 1".to_owned()];
    world.pass(1);
    for (outcome, state) in [
        (Outcome::Done, JobState::Succeeded),
        (Outcome::Fail("boom".to_owned()), JobState::Failed),
        (Outcome::Done, JobState::Succeeded),
    ] {
        let job = world.enqueue(NewJob { max_attempts: 1, ..world.new_job() }).await;
        let claimed = world.claim_one(node).await;
        world.settle(&claimed, outcome).await;
        expected.push(format!("{job} {state}"));
        world.pass(1);
    }
    let job = world.enqueue_one().await;
    world.store().cancel(world.at(), job, &Actor::new("ada", "")).await.unwrap();
    // What happens at one instant has an order, too.
    expected.push(format!("{job} {}", JobState::Cancelled));
    expected.push("ada cancel job".to_owned());
    world.pass(1);
    let schedule = world.schedule("daily").await;
    let created = all(world, &EventCursor::at(world.now()), world.now()).await;
    expected.extend(created.iter().map(told));
    world.pass(60);
    let leader = world.lead("maintenance", node).await;
    expected.push(format!("maintenance {}", leader.term));
    world.pass(1);
    let scheduler = world.lead("other", node).await;
    expected.push(format!("other {}", scheduler.term));
    world.fire(&scheduler, &[world.plan(&schedule)]).await;
    expected.insert(expected.len() - 1, format!("daily {}", SlotOutcome::Fired));
    expected
}

/// Oldest first, whatever it is; what ended and was begun again has not ended.
pub async fn what_has_happened_is_told_in_order(world: &World<'_>) {
    let begin = EventCursor::at(world.now());
    let expected = something_of_each_sort(world).await;
    let events = all(world, &begin, Timestamp::MAX).await;
    assert_eq!(events.iter().map(told).collect::<Vec<_>>(), expected);
    let cursors: Vec<EventCursor> = events.iter().map(Event::cursor).collect();
    assert!(cursors.is_sorted(), "{cursors:?}");
    let failed = events.iter().find_map(|event| match event {
        Event::Ended(job) if job.state == JobState::Failed => Some(job.clone()),
        _ => None,
    });
    let failed = failed.unwrap();
    assert_eq!(failed.error.as_deref(), Some("boom"));
    world.store().requeue(world.at(), &[failed.id], &Actor::new("ada", "")).await.unwrap();
    let events = all(world, &begin, Timestamp::MAX).await;
    assert!(!events.iter().any(|event| matches!(event, Event::Ended(job) if job.id == failed.id)));
}

/// Whatever the size of a page, and wherever a reader goes on.
pub async fn events_are_read_in_pages_and_each_once(world: &World<'_>) {
    let begin = EventCursor::at(world.now());
    something_of_each_sort(world).await;
    let expected = all(world, &begin, Timestamp::MAX).await;
    for most in 1..=expected.len() {
        let (mut seen, mut after) = (Vec::new(), begin.clone());
        loop {
            let page = world.store().events(&after, Timestamp::MAX, most).await.unwrap();
            assert!(page.items.len() <= most);
            seen.extend(page.items);
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        assert_eq!(seen, expected, "in pages of {most}");
    }
    for (index, event) in expected.iter().enumerate() {
        let rest = all(world, &event.cursor(), Timestamp::MAX).await;
        assert_eq!(rest, expected[index + 1..], "after {event:?}");
    }
}

/// Until then, and not a moment longer.
pub async fn what_is_too_young_is_not_told_yet(world: &World<'_>) {
    let begin = EventCursor::at(world.now());
    something_of_each_sort(world).await;
    let expected = all(world, &begin, Timestamp::MAX).await;
    for event in &expected {
        let until = event.cursor().at;
        let old: Vec<Event> =
            expected.iter().filter(|it| it.cursor().at <= until).cloned().collect();
        assert_eq!(all(world, &begin, until).await, old);
        let of_then = all(world, &EventCursor::at(until), until).await;
        assert_eq!(of_then.first().map(|event| event.cursor().at), Some(until));
    }
}
