//! Schedules from code: sets with generations, through deployments of every kind.

use punctual::testing::Frozen;
use punctual::{Builder, Punctual, SlotOutcome, cron, every};

use crate::{deliver, frozen, mail};

/// A version of a program: its generation, and its schedules by name and hour.
type Version = (i64, &'static [(&'static str, u8)]);

const OLD: Version = (1, &[("digest", 8), ("cleanup", 3)]);
const NEW: Version = (2, &[("digest", 9), ("report", 6)]);

fn program(on: &Frozen, version: Version) -> Builder {
    let (generation, schedules) = version;
    let builder = on.beside().handle(deliver).app("shop").generation(generation);
    schedules.iter().fold(builder, |builder, (name, hour)| {
        builder.schedule(name, cron(&format!("0 {hour} * * *")), &mail(name))
    })
}

/// What stands: each schedule with its expression, and why it is paused.
async fn standing(on: &Frozen) -> Vec<String> {
    let schedules = on.admin().schedules(None, 100).await.unwrap();
    let told = schedules.iter().map(|schedule| {
        let definition: punctual::Definition =
            serde_json::from_str(schedule.spec.as_str()).unwrap();
        // One that was lifted stays until the next slot, with its end.
        let pause = schedule.pause.as_ref().filter(|pause| pause.until.is_none());
        let paused = pause.map(|pause| format!(" paused: {}", pause.by.why));
        format!("{} {}{}", schedule.name, definition.when[0], paused.unwrap_or_default())
    });
    told.collect()
}

async fn run(on: &Frozen, version: Version) {
    program(on, version).start_frozen_at(on.now()).await.expect("it starts");
}

#[tokio::test]
async fn the_higher_generation_stands_in_every_order_of_starts() {
    let expected =
        ["cleanup 0 3 * * * paused: removed from code", "digest 0 9 * * *", "report 0 6 * * *"];
    // Every sequence of five starts in which both versions appear, old ones restarting at will.
    for order in 1..31_u32 {
        let queue = frozen(Punctual::memory()).await;
        let mut is_new = false;
        for start in 0..5 {
            let version = if order >> start & 1 == 1 { NEW } else { OLD };
            is_new |= version == NEW;
            run(&queue, version).await;
            queue.advance("10m").await;
        }
        assert!(is_new);
        let mut standing = standing(&queue).await;
        // If the new one came first, the old one had nothing to leave behind.
        if order & 1 == 1 {
            assert_eq!(standing, expected[1..], "{order:05b}");
            standing.insert(0, expected[0].to_owned());
        }
        assert_eq!(standing, expected, "{order:05b}");
    }
}

#[tokio::test]
async fn registering_again_changes_nothing() {
    let queue = frozen(Punctual::memory()).await;
    run(&queue, OLD).await;
    let before = queue.admin().schedules(None, 100).await.unwrap();
    queue.advance("1h").await;
    run(&queue, OLD).await;
    run(&queue, OLD).await;
    let after = queue.admin().schedules(None, 100).await.unwrap();
    let told = |schedules: &[punctual::Schedule]| -> Vec<_> {
        schedules.iter().map(|it| (it.id, it.revision, it.changed_at)).collect()
    };
    assert_eq!(told(&before), told(&after));
}

#[tokio::test]
async fn an_operators_pause_holds_and_a_removal_is_taken_back() {
    let queue = frozen(Punctual::memory()).await;
    run(&queue, OLD).await;
    let admin = queue.admin().by("ada", "the printer is broken");
    admin.pause_schedule("digest", None).await.unwrap();
    run(&queue, NEW).await;
    assert_eq!(
        standing(&queue).await,
        [
            "cleanup 0 3 * * * paused: removed from code",
            "digest 0 9 * * * paused: the printer is broken",
            "report 0 6 * * *"
        ]
    );
    // A later version has the old schedule again, as it was and otherwise.
    run(&queue, (3, &[("digest", 9), ("cleanup", 4)])).await;
    assert_eq!(
        standing(&queue).await,
        [
            "cleanup 0 4 * * *",
            "digest 0 9 * * * paused: the printer is broken",
            "report 0 6 * * * paused: removed from code"
        ]
    );
}

/// C12: a restart duplicated the schedules that code registers.
#[tokio::test]
async fn c12_a_restart_makes_no_second_schedule_and_loses_no_slot() {
    let queue = frozen(Punctual::memory()).await;
    let version = (1, &[("digest", 13)][..]);
    for _ in 0..3 {
        let node = program(&queue, version).start_frozen_at(queue.now()).await.unwrap();
        node.advance("1d").await;
        queue.outage(std::time::Duration::from_secs(86_400));
    }
    assert_eq!(queue.admin().schedules(None, 100).await.unwrap().len(), 1);
    let slots = queue.admin().slots("digest", None, 100).await.unwrap().items;
    let fired = slots.iter().filter(|slot| slot.outcome == SlotOutcome::Fired).count();
    assert_eq!(fired, 3);
}

/// N4: defining a schedule again, in another version, made its slots vanish or fire anew.
#[tokio::test]
async fn n4_a_new_definition_never_fires_for_what_lies_behind() {
    let queue = frozen(Punctual::memory()).await;
    let often = |minutes: u64| {
        let when = every(std::time::Duration::from_secs(60 * minutes));
        let builder = queue.beside().handle(deliver).app("shop");
        builder.schedule("often", when, &mail("a")).start_frozen_at(queue.now())
    };
    assert_eq!(often(10).await.unwrap().advance("1h").await.succeeded, 6);
    queue.outage("2h");
    assert_eq!(often(7).await.unwrap().drain().await.succeeded, 0);
    let slots = queue.admin().slots("often", None, 100).await.unwrap().items;
    let told: Vec<(SlotOutcome, u64)> = slots.iter().map(|it| (it.outcome, it.count)).collect();
    assert_eq!(told[0], (SlotOutcome::Missed, 6), "{told:?}");
    assert_eq!(told[1..], [(SlotOutcome::Fired, 1); 6]);
}

#[tokio::test]
async fn two_programs_do_not_touch_each_others_schedules() {
    let queue = frozen(Punctual::memory()).await;
    run(&queue, OLD).await;
    let other = queue.beside().handle(deliver).app("other");
    let other = other.schedule("report", cron("0 1 * * *"), &mail("a"));
    other.start_frozen_at(queue.now()).await.unwrap();
    assert_eq!(
        standing(&queue).await,
        ["cleanup 0 3 * * *", "digest 0 8 * * *", "report 0 1 * * *"]
    );
    let clash = queue.beside().handle(deliver).app("other");
    let clash = clash.schedule("digest", cron("0 1 * * *"), &mail("a"));
    let error = clash.start_frozen_at(queue.now()).await.unwrap_err();
    insta::assert_snapshot!(error, @"schedule `digest`: a schedule with this name belongs to set `code:shop`; use another name, or delete that schedule");
}

#[tokio::test]
async fn a_process_without_schedules_never_changes_the_schedules_of_its_app() {
    let queue = frozen(Punctual::memory()).await;
    run(&queue, OLD).await;
    run(&queue, (0, &[])).await;
    run(&queue, (2, &[])).await;
    assert_eq!(standing(&queue).await, ["cleanup 0 3 * * *", "digest 0 8 * * *"]);
    // It did not raise the generation of the set either.
    run(&queue, (1, &[("digest", 9)])).await;
    assert_eq!(
        standing(&queue).await,
        ["cleanup 0 3 * * * paused: removed from code", "digest 0 9 * * *"]
    );
}

#[tokio::test]
async fn a_start_that_fails_registers_nothing() {
    let queue = frozen(Punctual::memory()).await;
    run(&queue, OLD).await;
    let broken = program(&queue, NEW).handle(deliver);
    assert!(broken.start_frozen_at(queue.now()).await.is_err());
    assert_eq!(standing(&queue).await, ["cleanup 0 3 * * *", "digest 0 8 * * *"]);
    run(&queue, OLD).await;
    assert_eq!(standing(&queue).await, ["cleanup 0 3 * * *", "digest 0 8 * * *"]);
}
