//! Days and times at which a schedule does not fire.

use punctual_core::schedule::{Definition, Missed, OnExcluded, Overlap};

use super::{Stage, ana};

fn six_hourly(exclude: &[&str]) -> Definition {
    Definition {
        tz: "Europe/Paris".to_owned(),
        overlap: Overlap::Allow,
        missed: Missed::Latest,
        exclude: exclude.iter().map(|entry| (*entry).to_owned()).collect(),
        ..Definition::new("0 */6 * * *", "mail")
    }
}

/// In the schedule's zone, at its time or after an outage, and none is caught up in their place.
pub async fn excluded_slots_are_skipped_with_the_reason(stage: &Stage) {
    let mut node = stage.node("a").await;
    // A Friday, eleven o'clock in Paris.
    stage.set("2027-01-01T10:00:00Z");
    node.round().await.unwrap();
    let schedule = stage.create("mails", &six_hourly(&["Sat", "2027-01-03", "01-04"])).await;
    for hour in ["01T11", "01T17", "01T23", "02T05"] {
        stage.set(&format!("2027-01-{hour}:00:00Z"));
        node.round().await.unwrap();
    }
    assert_eq!(
        stage.told(schedule.id).await,
        [
            "2027-01-01T11:00:00Z fired",
            "2027-01-01T17:00:00Z fired",
            "2027-01-01T23:00:00Z skipped_excluded",
            "2027-01-02T05:00:00Z skipped_excluded",
        ],
        "midnight in Paris is Saturday"
    );
    let reason = stage.ledger(schedule.id).await[2].reason.clone();
    assert_eq!(reason.as_deref(), Some("excluded by `exclude`"));
    // Nobody leads from Saturday noon to Tuesday.
    stage.set("2027-01-05T06:30:00Z");
    node.round().await.unwrap();
    let told = stage.told(schedule.id).await;
    assert_eq!(
        told[4..],
        [
            "2027-01-02T11:00:00Z..2027-01-04T17:00:00Z x10 skipped_excluded",
            "2027-01-04T23:00:00Z coalesced",
            "2027-01-05T05:00:00Z caught_up",
        ]
    );
}

/// Neither what was excluded nor what is excluded now is fired afterwards.
pub async fn an_edit_of_what_is_excluded_never_fires_in_the_past(stage: &Stage) {
    let mut node = stage.node("a").await;
    stage.set("2027-01-02T10:00:00Z");
    node.round().await.unwrap();
    let schedule = stage.create("mails", &six_hourly(&["Sat"])).await;
    // It is due, undecided and excluded when somebody changes it.
    stage.set("2027-01-02T12:00:00Z");
    stage.schedules().define("", "mails", &six_hourly(&[]), None, &ana()).await.unwrap();
    for hour in ["02T12", "02T17", "02T23"] {
        stage.set(&format!("2027-01-{hour}:00:00Z"));
        node.round().await.unwrap();
    }
    assert_eq!(
        stage.told(schedule.id).await,
        [
            "2027-01-02T11:00:00Z skipped_excluded",
            "2027-01-02T17:00:00Z fired",
            "2027-01-02T23:00:00Z fired",
        ]
    );
    let never = six_hourly(&["Sun 00:00-Sat 23:59", "Sat"]);
    let refused = stage.schedules().define("", "mails", &never, None, &ana()).await.unwrap_err();
    assert!(refused.to_string().contains("`exclude`: the schedule never fires"), "{refused}");
}

/// Saturdays and Sundays go to the next free day; an outage over it is caught up there, and an edit
/// neither fires what has moved to the past nor what it would have.
pub async fn excluded_slots_move_to_the_next_working_day(stage: &Stage) {
    let mut node = stage.node("a").await;
    let payroll = |exclude: &[&str]| Definition {
        when: vec!["0 9 2,10 1 *".to_owned()],
        on_excluded: OnExcluded::NextWorkingDay,
        ..six_hourly(exclude)
    };
    stage.set("2027-01-01T10:00:00Z");
    node.round().await.unwrap();
    // The second is a Saturday, the fourth a Monday.
    let schedule = stage.create("payroll", &payroll(&["Sat", "Sun", "01-04"])).await;
    for day in ["02", "03", "04", "05"] {
        stage.set(&format!("2027-01-{day}T08:00:00Z"));
        node.round().await.unwrap();
    }
    let moved_to = |day: &str| {
        let to = format!("moved to 2027-01-{day} 09:00 Europe/Paris");
        Some(format!("excluded by `exclude`; {to}"))
    };
    let told = ["2027-01-02T08:00:00Z skipped_excluded", "2027-01-05T08:00:00Z fired"];
    assert_eq!(stage.told(schedule.id).await, told);
    assert_eq!(stage.ledger(schedule.id).await[0].reason, moved_to("05"));
    // Nobody leads when the tenth, a Sunday, has moved to Monday.
    stage.set("2027-01-11T12:00:00Z");
    node.round().await.unwrap();
    assert_eq!(
        stage.told(schedule.id).await[2..],
        ["2027-01-10T08:00:00Z skipped_excluded", "2027-01-11T08:00:00Z caught_up"]
    );
    assert_eq!(stage.ledger(schedule.id).await[2].reason, moved_to("11"));
    // By this edit the tenth would have moved to this morning, and it is noon.
    let edited = payroll(&["Sat", "Sun", "01-11", "2027-01-12..2027-01-13"]);
    let edited = Definition { when: vec!["0 9,14 10 1 *".to_owned()], ..edited };
    stage.set("2027-01-14T12:00:00Z");
    stage.schedules().define("", "payroll", &edited, None, &ana()).await.unwrap();
    for hour in ["12", "13"] {
        stage.set(&format!("2027-01-14T{hour}:00:00Z"));
        node.round().await.unwrap();
    }
    assert_eq!(stage.told(schedule.id).await[4..], ["2027-01-14T13:00:00Z fired"]);
    let often = Definition { when: vec!["*/10 * * * *".to_owned()], ..payroll(&["Sat"]) };
    let refused = stage.schedules().define("", "payroll", &often, None, &ana()).await.unwrap_err();
    assert!(refused.to_string().contains("at most 24 times of day"), "{refused}");
}
