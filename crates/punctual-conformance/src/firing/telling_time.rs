//! When slots are.

use punctual_core::schedule::{Definition, Missed, Overlap};

use super::Stage;

/// Fires all slots of a schedule from `from` to `to`, going round every ten minutes, and tells
/// them.
async fn slots(stage: &Stage, definition: &Definition, from: &str, to: &str) -> Vec<String> {
    stage.set(from);
    let definition =
        Definition { missed: Missed::All, overlap: Overlap::Allow, ..definition.clone() };
    let mut node = stage.node("a").await;
    let name = format!("{} in {} from {from}", definition.when[0], definition.tz);
    let schedule = stage.create(&name, &definition).await;
    while stage.now() < to.parse().unwrap() {
        stage.pass(600);
        node.round().await.unwrap();
    }
    let ledger = stage.ledger(schedule.id).await;
    assert!(ledger.iter().all(|view| view.job.is_some() && view.decided_at >= view.slot));
    // Nobody else waits for the lease of a node that is gone.
    stage.pass(60);
    ledger.iter().map(|view| view.slot.to_string()).collect()
}

fn in_zone(when: &str, tz: &str) -> Definition {
    Definition { tz: tz.to_owned(), ..Definition::new(when, "mail") }
}

const NEW_YORK: &str = "America/New_York";

/// Monday was Sunday, a night a year had no run and another had two, and an unknown zone never
/// fired without a word.
pub async fn f11_weekdays_and_clock_changes_are_as_people_expect(stage: &Stage) {
    let week = ("2026-06-01T00:00:00Z", "2026-06-08T00:00:00Z");
    let mondays = slots(stage, &in_zone("0 9 * * 1", "UTC"), week.0, week.1).await;
    assert_eq!(mondays, ["2026-06-01T09:00:00Z"], "the first of June 2026 is a Monday");
    for sunday in ["0 9 * * 0", "0 9 * * 7", "0 9 * * SUN"] {
        let sundays = slots(stage, &in_zone(sunday, "UTC"), week.0, week.1).await;
        assert_eq!(sundays, ["2026-06-07T09:00:00Z"]);
    }
    let spring = ("2026-03-07T12:00:00Z", "2026-03-09T12:00:00Z");
    assert_eq!(
        slots(stage, &in_zone("30 2 * * *", NEW_YORK), spring.0, spring.1).await,
        ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"],
        "02:30 does not exist on the eighth; the slot is at the end of the gap"
    );
    let autumn = ("2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z");
    assert_eq!(
        slots(stage, &in_zone("30 1 * * *", NEW_YORK), autumn.0, autumn.1).await,
        ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
        "01:30 occurs twice on the first; the slot fires once"
    );
    let unknown = in_zone("0 9 * * *", "America/New_Yorck");
    let refused = stage.schedules().create("", "x", "", &unknown, &super::ana()).await;
    assert!(refused.unwrap_err().to_string().contains("America/New_York"));
    assert_eq!(stage.store().schedule_named("", "x").await.unwrap(), None);
}

/// A schedule every half hour lost the whole repeated hour; one at 01:00 ran again at 03:00.
pub async fn c17_a_half_hourly_schedule_keeps_its_pace_through_a_repeated_hour(stage: &Stage) {
    let autumn = ("2026-11-01T03:50:00Z", "2026-11-01T08:00:00Z");
    let halves = slots(stage, &in_zone("*/30 * * * *", NEW_YORK), autumn.0, autumn.1).await;
    let expected =
        ["04:00", "04:30", "05:00", "05:30", "06:00", "06:30", "07:00", "07:30", "08:00"]
            .map(|time| format!("2026-11-01T{time}:00Z"));
    assert_eq!(halves, expected);
    let spring = ("2026-03-08T00:00:00Z", "2026-03-09T04:00:00Z");
    for (when, slot) in [("0 1 * * *", "06:00"), ("30 1 * * *", "06:30"), ("59 1 * * *", "06:59")] {
        let night = slots(stage, &in_zone(when, NEW_YORK), spring.0, spring.1).await;
        assert_eq!(night, [format!("2026-03-08T{slot}:00Z")]);
    }
}

/// The zone was taken, and UTC was used.
pub async fn c18_a_schedule_keeps_its_zone(stage: &Stage) {
    let day = ("2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z");
    for (tz, slot) in
        [("Europe/Paris", "06:00"), ("Asia/Kolkata", "02:30"), ("America/Los_Angeles", "15:00")]
    {
        let fired = slots(stage, &in_zone("0 8 * * *", tz), day.0, day.1).await;
        assert_eq!(fired, [format!("2026-06-01T{slot}:00Z")], "{tz}");
    }
    let name = "0 8 * * * in Asia/Kolkata from 2026-06-01T00:00:00Z";
    let stored = stage.store().schedule_named("", name).await.unwrap().unwrap();
    assert!(stored.spec.as_str().contains(r#""tz":"Asia/Kolkata""#));
}

/// Day of month and day of week were both needed, names and 7 were unknown, and 29 February had
/// no next run.
pub async fn n8_the_dialect_is_that_of_cron(stage: &Stage) {
    let week = ("2026-06-01T00:00:00Z", "2026-06-08T00:00:00Z");
    let either = slots(stage, &in_zone("0 9 3 JUN FRI", "UTC"), week.0, week.1).await;
    assert_eq!(
        either,
        ["2026-06-03T09:00:00Z", "2026-06-05T09:00:00Z"],
        "a match of either field is enough"
    );
    let named = slots(stage, &in_zone("0 9 * jun tue-wed,7", "UTC"), week.0, week.1).await;
    assert_eq!(named, ["2026-06-02T09:00:00Z", "2026-06-03T09:00:00Z", "2026-06-07T09:00:00Z"]);
    let leap = stage.create("leap", &in_zone("0 0 29 2 *", "UTC")).await;
    assert_eq!(leap.next_slot.unwrap().to_string(), "2028-02-29T00:00:00Z");
}
