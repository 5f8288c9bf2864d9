//! Which nodes run the jobs of a schedule.

use punctual_core::job::{JobState, Outcome, SlotOutcome};
use punctual_core::schedule::{Definition, Missed, Overlap};
use punctual_core::{NodeId, ScheduleId};
use punctual_store::SlotView;

use super::{Stage, minutely};

fn on(run_on: &str) -> Definition {
    Definition { run_on: run_on.to_owned(), missed: Missed::None, ..minutely() }
}

/// The rows of the newest slot: outcome, which row, where its job waits, reason.
async fn newest(stage: &Stage, id: ScheduleId) -> Vec<String> {
    let ledger = stage.ledger(id).await;
    let last = ledger.last().expect("a slot is decided").slot;
    let mut rows: Vec<&SlotView> = ledger.iter().filter(|view| view.slot == last).collect();
    rows.reverse();
    let mut told = Vec::new();
    for view in rows {
        let queue = match view.job {
            Some(job) => stage.job(job).await.view.queue,
            None => "–".to_owned(),
        };
        let reason = view.reason.clone().unwrap_or_default();
        told.push(format!("{} {} {queue} {reason}", view.outcome, view.run));
    }
    told
}

/// Each node that is there has a row of the ledger and a job of its own; one that joins has them from
/// the next slot on, one that left no more.
pub async fn every_node_has_its_own_row_and_job(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    let a = stage.worker("a", &[]).await;
    let b = stage.worker("b", &[("zone", "eu")]).await;
    let schedule = stage.create("sweep", &on("every_node")).await;
    stage.run(60, &mut [&mut leader]).await;
    assert_eq!(
        newest(stage, schedule.id).await,
        ["fired 0 @a for node `a`", "fired -1 @b for node `b`"],
        "the leader runs no jobs and gets none"
    );
    let c = stage.worker("c", &[]).await;
    for (node, name) in [(a, "a"), (b, "b"), (c, "c")] {
        let jobs = stage.claim_as(node, &["default", &format!("@{name}")]).await;
        assert_eq!(jobs.len(), usize::from(name != "c"), "a node that joined later gets no job");
        for job in &jobs {
            assert_eq!(job.queue, format!("@{name}"));
            let facts = job.origin.as_ref().expect("a schedule's job");
            assert_eq!((facts.schedule, facts.slot), (schedule.id, Some(stage.now())));
            stage.settle(job, Outcome::Done).await;
        }
    }
    stage.store().leave(stage.at(), b).await.unwrap();
    stage.run(60, &mut [&mut leader]).await;
    assert_eq!(
        newest(stage, schedule.id).await,
        ["fired 0 @a for node `a`", "fired -1 @c for node `c`"]
    );
    let ids: std::collections::BTreeSet<_> =
        stage.ledger(schedule.id).await.iter().filter_map(|view| view.job).collect();
    assert_eq!(ids.len(), 4, "each node has a separate job");
}

/// A node that is busy skips its own slot and no other's.
pub async fn overlap_goes_by_the_node_where_each_has_its_own(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    let (a, b) = (stage.worker("a", &[]).await, stage.worker("b", &[]).await);
    let schedule = stage.create("sweep", &on("every_node")).await;
    stage.run(60, &mut [&mut leader]).await;
    let busy = stage.claim_as(a, &["@a"]).await.remove(0);
    let done = stage.claim_as(b, &["@b"]).await.remove(0);
    stage.settle(&done, Outcome::Done).await;
    stage.run(60, &mut [&mut leader]).await;
    assert_eq!(
        newest(stage, schedule.id).await,
        [
            format!("skipped_overlap 0 – node `a`: job {} is unfinished", busy.id),
            "fired -1 @b for node `b`".to_owned()
        ]
    );
    stage.settle(&busy, Outcome::Done).await;
    stage.run(60, &mut [&mut leader]).await;
    let slots = newest(stage, schedule.id).await;
    assert_eq!(slots[0], "fired 0 @a for node `a`");
    assert!(slots[1].starts_with("skipped_overlap -1"), "{slots:?}");
    // Where jobs may stand beside one another, both have theirs.
    let both = Definition { overlap: Overlap::Allow, ..on("every_node") };
    let both = stage.create("both", &both).await;
    stage.run(180, &mut [&mut leader]).await;
    let ledger = stage.ledger(both.id).await;
    assert_eq!(ledger.len(), 6);
    assert!(ledger.iter().all(|view| view.outcome == SlotOutcome::Fired && view.job.is_some()));
}

/// Without a node that is asked for, a slot waits for one as long as its policy allows.
pub async fn jobs_of_a_node_or_label_wait_where_it_claims(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    let named = stage.create("named", &on("node b")).await;
    let zoned = stage.create("zoned", &on("label zone=eu")).await;
    let every = stage.create("every", &on("every_node")).await;
    stage.run(60, &mut [&mut leader]).await;
    for schedule in [&named, &zoned, &every] {
        assert_eq!(stage.ledger(schedule.id).await, []);
    }
    let refused = stage.schedules().run("", "named").await.unwrap_err().to_string();
    assert_eq!(refused, "`job`: no live node is named `b`");

    let a = stage.worker("a", &[("zone", "eu")]).await;
    let b = stage.worker("b", &[("zone", "us")]).await;
    stage.run(1, &mut [&mut leader]).await;
    assert_eq!(newest(stage, named.id).await, ["fired 0 @b "]);
    assert_eq!(newest(stage, zoned.id).await, ["fired 0 @zone=eu "]);
    let own = |node: NodeId, name: &str, zone: &str| {
        let queues = [format!("@{name}"), format!("@zone={zone}")];
        async move { stage.claim_as(node, &[&queues[0], &queues[1]]).await }
    };
    let of_a: Vec<String> = own(a, "a", "eu").await.iter().map(|job| job.queue.clone()).collect();
    assert_eq!(of_a, ["@a", "@zone=eu"], "its node queue and its label queue");
    assert_eq!(own(b, "b", "us").await.len(), 2, "its node queue twice: by name and as every node");

    // The node is gone, and with it the jobs that were to come.
    let job = stage.schedules().run("", "zoned").await.expect("a node has the label");
    assert_eq!(stage.job(job).await.view.queue, "@zone=eu");
    stage.declare_dead(a, &mut leader).await;
    stage.run(180, &mut [&mut leader]).await;
    assert_eq!(
        newest(stage, zoned.id).await,
        ["missed 0 – missed = none; waited for a node with label zone=eu"]
    );
    assert!(newest(stage, every.id).await[0].starts_with("skipped_overlap 0 – node `b`"));
}

/// What waits for a node that does not come back is called off after a day; what somebody put there
/// is left alone, and so is what waits for a node that lives.
pub async fn a_job_does_not_wait_for_a_lost_node_for_ever(stage: &Stage) {
    let mut leader = stage.node("leader").await;
    let (a, _b) = (stage.worker("a", &[]).await, stage.worker("b", &[]).await);
    let once = Definition { when: vec!["@at 2027-01-01T00:01:00Z".to_owned()], ..on("every_node") };
    let schedule = stage.create("sweep", &once).await;
    stage.run(60, &mut [&mut leader]).await;
    let by_hand = stage.enqueue("@a").await;
    stage.store().leave(stage.at(), a).await.unwrap();
    stage.pass(86_000);
    assert_eq!(leader.steps.call_off_stranded().await.unwrap(), 0, "the node may return");
    stage.pass(1_000);
    assert_eq!(leader.steps.call_off_stranded().await.unwrap(), 1);
    assert_eq!(leader.steps.call_off_stranded().await.unwrap(), 0);
    let ledger = stage.ledger(schedule.id).await;
    let jobs = [ledger[0].job.unwrap(), ledger[1].job.unwrap()];
    let mut states = Vec::new();
    for job in jobs {
        let job = stage.job(job).await.view;
        states.push((job.queue, job.state, job.error));
    }
    states.sort_by(|left, right| left.0.cmp(&right.0));
    let why =
        "cancelled by punctual: no live node serves queue `@a`; the job was due more than 1d ago"
            .to_owned();
    assert_eq!(states[0], ("@a".to_owned(), JobState::Cancelled, Some(why)));
    assert_eq!(states[1], ("@b".to_owned(), JobState::Ready, None));
    assert_eq!(stage.job(by_hand).await.view.state, JobState::Ready);
}
