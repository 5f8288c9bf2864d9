//! Edits of a schedule: from now on, and never for what lies behind.

use punctual_core::Timestamp;
use punctual_core::schedule::{Definition, Missed, Overlap};
use punctual_engine::{ScheduleError, Seen};

use super::{Node, Stage, ana};

const HOUR: u64 = 3_600;

fn all(when: &str) -> Definition {
    Definition { missed: Missed::All, overlap: Overlap::Allow, ..Definition::new(when, "mail") }
}

/// Half past twelve, with two slots behind it that are decided and one that is not: the leader
/// was away.
async fn behind(
    stage: &Stage,
    definition: &Definition,
    node: &mut Node,
) -> punctual_store::Schedule {
    stage.set("2027-01-01T10:30:00Z");
    node.round().await.unwrap();
    let schedule = stage.create("mails", definition).await;
    stage.set("2027-01-01T11:00:05Z");
    node.round().await.unwrap();
    stage.set("2027-01-01T12:30:00Z");
    schedule
}

/// Lets a leader look at it at once, and then hour by hour.
async fn go_on(stage: &Stage, hours: u64, node: &mut Node) {
    node.round().await.unwrap();
    for _ in 0..hours * 4 {
        stage.pass(HOUR / 4);
        node.round().await.unwrap();
    }
}

async fn next(stage: &Stage) -> Option<Timestamp> {
    stage.schedules().get("", "mails").await.expect("the schedule exists").next_slot
}

/// Slots of the new expression that lie behind are none; what the old one had due and nobody had
/// decided is written down as missed.
pub async fn an_edit_of_the_expression_never_fires_in_the_past(stage: &Stage) {
    let mut node = stage.node("a").await;
    let schedule = behind(stage, &all("0 * * * *"), &mut node).await;
    let edited = stage.schedules().define("", "mails", &all("*/15 * * * *"), None, &ana()).await;
    assert_eq!(edited.expect("the schedule is edited").next_slot, next(stage).await);
    assert_eq!(next(stage).await, "2027-01-01T12:45:00Z".parse().ok());
    go_on(stage, 1, &mut node).await;
    assert_eq!(
        stage.told(schedule.id).await,
        [
            "2027-01-01T11:00:00Z fired",
            "2027-01-01T12:00:00Z missed",
            "2027-01-01T12:45:00Z fired",
            "2027-01-01T13:00:00Z fired",
            "2027-01-01T13:15:00Z fired",
            "2027-01-01T13:30:00Z fired",
        ]
    );
    let missed = stage.ledger(schedule.id).await[1].clone();
    assert_eq!(missed.reason.as_deref(), Some("changed by ana before the slot was decided"));
    // Back to what it was: an instant that was decided is not decided again.
    stage.schedules().define("", "mails", &all("0,30 * * * *"), None, &ana()).await.unwrap();
    assert_eq!(next(stage).await, "2027-01-01T14:00:00Z".parse().ok());
}

/// The hour that another zone calls nine has passed, or is still to come.
pub async fn an_edit_of_the_zone_never_fires_in_the_past(stage: &Stage) {
    let mut node = stage.node("a").await;
    let schedule = behind(stage, &all("0 11,12 * * *"), &mut node).await;
    let zoned = |tz: &str| Definition { tz: tz.to_owned(), ..all("0 11,12 * * *") };
    let define = async |tz: &str| {
        stage.schedules().define("", "mails", &zoned(tz), None, &ana()).await.unwrap();
        next(stage).await.unwrap().to_string()
    };
    assert_eq!(
        define("Europe/Paris").await,
        "2027-01-02T10:00:00Z",
        "11:00 in Paris is already past"
    );
    go_on(stage, 1, &mut node).await;
    assert_eq!(
        define("America/New_York").await,
        "2027-01-01T16:00:00Z",
        "11:00 in New York is still to come"
    );
    go_on(stage, 3, &mut node).await;
    assert_eq!(
        stage.told(schedule.id).await,
        ["2027-01-01T11:00:00Z fired", "2027-01-01T12:00:00Z missed", "2027-01-01T16:00:00Z fired",]
    );
}

/// Another policy holds for what comes: what lies behind is not caught up by it.
pub async fn an_edit_of_a_policy_never_fires_in_the_past(stage: &Stage) {
    let mut node = stage.node("a").await;
    let none = Definition { missed: Missed::None, ..all("0 * * * *") };
    let schedule = behind(stage, &none, &mut node).await;
    let policies = [
        Definition { missed_window: "2d".to_owned(), missed_limit: 1_000, ..all("0 * * * *") },
        Definition { overlap: Overlap::QueueAll, ..all("0 * * * *") },
        Definition { jitter: "10s".to_owned(), ..all("0 * * * *") },
        Definition { run_on: "every_node".to_owned(), ..all("0 * * * *") },
        Definition { missed_paused: true, ..all("0 * * * *") },
    ];
    for definition in &policies {
        stage.schedules().define("", "mails", definition, None, &ana()).await.unwrap();
        node.round().await.unwrap();
        stage.pass(180);
    }
    go_on(stage, 1, &mut node).await;
    assert_eq!(
        stage.told(schedule.id).await,
        ["2027-01-01T11:00:00Z fired", "2027-01-01T12:00:00Z missed", "2027-01-01T13:00:00Z fired"]
    );
}

/// Who, when and why is kept with each definition, and whoever saw an older one is refused.
pub async fn an_edit_is_a_revision_and_a_stale_one_is_refused(stage: &Stage) {
    let schedule = stage.create("mails", &all("0 * * * *")).await;
    let seen = Seen::of(&schedule);
    stage.pass(60);
    let bo = punctual_store::Actor::new("bo", "too often");
    let calls = stage.schedules();
    let edited = calls.define("", "mails", &all("0 8 * * *"), Some(seen), &bo).await.unwrap();
    assert_eq!((edited.revision, edited.changed_at), (2, stage.now()));
    let stale = calls.define("", "mails", &all("0 9 * * *"), Some(seen), &ana()).await;
    assert_eq!(stale, Err(ScheduleError::Changed("mails".to_owned())));
    // A pause is a change as well, but no definition; that it fires is none.
    stage.pass(1);
    let until = stage.now() + std::time::Duration::from_secs(HOUR);
    let paused = calls.pause("", "mails", Some(until), &bo).await.unwrap();
    let pause = paused.pause.expect("the schedule is paused");
    assert_eq!((pause.by, pause.until), (bo.clone(), Some(until)));
    let stale = calls.define("", "mails", &all("0 9 * * *"), Some(Seen::of(&edited)), &ana()).await;
    assert!(stale.is_err());
    let revisions = stage.store().revisions(schedule.id, None, 10).await.unwrap().items;
    let told = revisions.iter().map(|it| (it.revision, it.who.as_str(), it.why.as_str()));
    assert_eq!(told.collect::<Vec<_>>(), [(2, "bo", "too often"), (1, "ana", "needed")]);
    assert_eq!(
        (revisions[0].at, revisions[1].superseded_at),
        (edited.changed_at, Some(edited.changed_at))
    );
}
