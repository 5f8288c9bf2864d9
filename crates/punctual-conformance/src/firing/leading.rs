//! Who fires.

use std::time::Duration;

use punctual_core::job::{JobState, SlotOutcome};
use punctual_core::schedule::{Definition, Overlap};
use punctual_engine::SCHEDULER;

use super::{Stage, minutely};
use crate::Fault;

fn secondly() -> Definition {
    Definition { seconds: true, overlap: Overlap::Allow, ..Definition::new("* * * * * *", "mail") }
}

/// One dropped connection stopped all schedules until the process was restarted, and the node
/// still called itself the leader.
pub async fn f2_a_lost_connection_stops_firing_only_while_it_lasts(stage: &Stage) {
    let mut node = stage.node("a").await;
    let schedule = stage.create("mails", &secondly()).await;
    stage.run(5, &mut [&mut node]).await;
    assert!(node.steps.term().is_some());
    node.line.fail("*", Fault::Request);
    stage.run(20, &mut [&mut node]).await;
    assert_eq!(node.steps.term(), None, "the node does not consider itself the leader");
    node.line.heal();
    stage.run(3, &mut [&mut node]).await;
    assert!(node.steps.term().is_some());
    let ledger = stage.ledger(schedule.id).await;
    assert_eq!(ledger.len(), 28, "no slot is missing");
    assert!(ledger.iter().all(|view| view.outcome == SlotOutcome::Fired));
}

/// A minute passed until a standby took over, and its slots were nobody's.
pub async fn f3_a_crash_loses_no_slot(stage: &Stage) {
    let (mut one, mut other) = (stage.node("a").await, stage.node("b").await);
    let schedule = stage.create("mails", &secondly()).await;
    stage.run(5, &mut [&mut one, &mut other]).await;
    assert!(one.steps.term().is_some() && other.steps.term().is_none());
    drop(one);
    stage.run(7, &mut [&mut other]).await;
    assert!(other.steps.term().is_some(), "within the lease plus 1.5 s");
    let ledger = stage.ledger(schedule.id).await;
    assert_eq!(ledger.len(), 12);
    let seconds: Vec<i64> = ledger.iter().map(|view| view.slot.floor_seconds()).collect();
    assert!(seconds.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seconds:?}");
    assert!(ledger.iter().all(|view| view.outcome == SlotOutcome::Fired));
}

/// A lock whose answer was lost was held by nobody for ever, and a host with a slow clock lost its
/// role every five seconds.
pub async fn f10_leadership_neither_wedges_nor_goes_by_a_nodes_clock(stage: &Stage) {
    stage.slow_hosts(Duration::from_secs(2 * 3_600));
    let mut node = stage.node("a").await;
    let schedule = stage.create("mails", &secondly()).await;
    node.line.fail("acquire", Fault::Reply);
    stage.run(3, &mut [&mut node]).await;
    assert_eq!(node.steps.term(), None);
    node.line.heal();
    stage.run(2, &mut [&mut node]).await;
    assert!(node.steps.term().is_some(), "the node asks again and finds that the term is its own");
    stage.run(60, &mut [&mut node]).await;
    let changes = stage.store().leader_changes(SCHEDULER, 10).await.unwrap();
    assert_eq!(changes.len(), 1, "one term, whatever the host's clock says");
    let ledger = stage.ledger(schedule.id).await;
    assert_eq!(ledger.len(), 65);
    assert!(ledger.iter().all(|view| view.decided_at >= view.slot), "no slot fires early");
    // A leader that froze and woke after its lease finds that it leads no more.
    let mut other = stage.node("b").await;
    stage.pass(30);
    other.round().await.unwrap();
    assert!(other.steps.term().is_some());
    let before = stage.ledger(schedule.id).await.len();
    let _ = node.steps.fire().await;
    assert_eq!(stage.ledger(schedule.id).await.len(), before);
}

/// A second node that started reset what the first was running.
pub async fn c13_a_node_that_starts_takes_nothing_from_the_others(stage: &Stage) {
    let mut one = stage.node("a").await;
    let schedule = stage.create("mails", &minutely()).await;
    stage.run(60, &mut [&mut one]).await;
    let running = stage.claim().await;
    let mut other = stage.node("b").await;
    stage.run(5, &mut [&mut one, &mut other]).await;
    let job = stage.job(running[0].id).await;
    assert_eq!((job.view.state, job.view.attempt), (JobState::Running, 1));
    assert!(one.steps.term().is_some() && other.steps.term().is_none());
    assert_eq!(stage.ledger(schedule.id).await.len(), 1);
}

/// A slot was marked as fired before anybody had decided to fire it, in the memory of each node.
pub async fn n1_only_what_is_written_is_decided(stage: &Stage) {
    let (mut one, mut other) = (stage.node("a").await, stage.node("b").await);
    let schedule = stage.create("mails", &minutely()).await;
    stage.run(59, &mut [&mut one, &mut other]).await;
    // The leader dies in the second of the slot, while the other watches.
    drop(one);
    stage.run(10, &mut [&mut other]).await;
    assert_eq!(stage.told(schedule.id).await, ["2027-01-01T00:01:00Z fired"]);
    // A restart within the minute fires nothing again.
    drop(other);
    stage.pass(10);
    let mut again = stage.node("c").await;
    stage.run(20, &mut [&mut again]).await;
    assert_eq!(stage.told(schedule.id).await, ["2027-01-01T00:01:00Z fired"]);
    // What is refused because an earlier job is unfinished is written down as well.
    stage.run(60, &mut [&mut again]).await;
    assert_eq!(
        stage.told(schedule.id).await,
        ["2027-01-01T00:01:00Z fired", "2027-01-01T00:02:00Z skipped_overlap"]
    );
}

/// Two nodes that both took themselves for the leader both fired.
pub async fn n5_two_leaders_fire_a_slot_once(stage: &Stage) {
    let (mut one, mut other) = (stage.node("a").await, stage.node("b").await);
    let schedule = stage.create("mails", &secondly()).await;
    stage.run(3, &mut [&mut one, &mut other]).await;
    // The first is cut off for longer than its lease, and comes back to find another.
    for _ in 0..5 {
        one.line.fail("*", Fault::Request);
        stage.run(8, &mut [&mut one, &mut other]).await;
        one.line.heal();
        other.line.fail("*", Fault::Request);
        stage.run(8, &mut [&mut other, &mut one]).await;
        other.line.heal();
    }
    stage.run(3, &mut [&mut one, &mut other]).await;
    let ledger = stage.ledger(schedule.id).await;
    assert_eq!(ledger.len(), 3 + 5 * 16 + 3);
    let mut terms: Vec<i64> = ledger.iter().map(|view| view.term).collect();
    assert!(terms.is_sorted(), "{terms:?}");
    terms.dedup();
    assert!(terms.len() > 5, "the leader changed: {terms:?}");
    let mut jobs: Vec<_> = ledger.iter().map(|view| view.job.unwrap()).collect();
    jobs.sort_unstable();
    jobs.dedup();
    assert_eq!(jobs.len(), ledger.len(), "a job for each slot");
}
