//! Attempts of remote workers that exceed their time: the maintenance leader ends them.

use std::time::Duration;

use punctual_core::job::{Backoff, JobState, Next, Outcome};
use punctual_core::{JobId, NodeId};
use punctual_store::*;

use crate::World;
use crate::world::{LEASE, LIFETIME, actor, json, policy};

async fn join_remote(world: &World<'_>) -> NodeId {
    let (name, value) = rules::REMOTE_LABEL;
    let labels = [("zone", "a"), (name, value)];
    let info = NodeInfo {
        id: world.node_id(),
        name: "remote-1".to_owned(),
        version: String::new(),
        queues: vec!["default".to_owned()],
        kinds: vec!["mail".to_owned()],
        labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
    };
    world.store().join(world.at(), &info).await.expect("join");
    info.id
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Lets time pass in which these nodes beat.
async fn pass(world: &World<'_>, mut left: u64, nodes: &[NodeId], fence: &Fence) {
    while left > 0 {
        let step = left.min(4);
        world.pass(step);
        left -= step;
        for node in nodes {
            world.beat(*node, std::slice::from_ref(fence)).await;
        }
    }
}

async fn overdue(world: &World<'_>, fence: &Fence) -> Vec<(JobId, Next)> {
    let reaped = world.reap(fence).await;
    assert_eq!((reaped.led, reaped.dead, reaped.jobs), (true, Vec::new(), Vec::new()));
    reaped.overdue.iter().map(|job| (job.job, job.next)).collect()
}

/// Each attempt ends after its own time, within the budget of its job. Other nodes watch their own time.
pub async fn an_overdue_attempt_of_a_remote_worker_ends(world: &World<'_>) {
    let (server, remote) = (world.join().await, join_remote(world).await);
    let fence = world.lead("maintenance", server).await;
    let timeout = |length: u64| NewJob { timeout: Some(seconds(length)), ..world.new_job() };
    let own = world.enqueue(timeout(60)).await;
    world.claim_one(server).await;
    let once = world.enqueue(NewJob { max_attempts: 1, ..timeout(60) }).await;
    let again = world.enqueue(timeout(60)).await;
    let long = world.enqueue(timeout(100)).await;
    let usual = world.enqueue_one().await;
    let claimed = world.claim(&world.ask(remote, 10)).await;
    assert_eq!(claimed.len(), 4);
    let nodes = [server, remote];
    pass(world, 60, &nodes, &fence).await;
    assert_eq!(overdue(world, &fence).await, []);
    pass(world, 1, &nodes, &fence).await;
    let ended = world.reap(&fence).await.overdue;
    let mut found: Vec<_> = ended.iter().map(|job| (job.job, job.next)).collect();
    found.sort_unstable_by_key(|(job, _)| *job);
    let mut expected = [(once, Next::Failed), (again, Next::After(seconds(5)))];
    expected.sort_unstable_by_key(|(job, _)| *job);
    assert_eq!(found, expected);
    let OverdueJob { attempt, queue, kind, claimed_at, limit, .. } = &ended[0];
    assert_eq!((*attempt, queue.as_str(), kind.as_str()), (1, "default", "mail"));
    assert_eq!((*claimed_at, *limit), (world.now() - seconds(61), seconds(60)));
    let failed = world.job(once).await.view;
    assert_eq!(failed.state, JobState::Failed);
    assert_eq!(failed.error.as_deref(), Some("exceeded the time limit of 1m"));
    assert_eq!(world.state(again).await, JobState::Retrying);
    // Its lease is not in force any more.
    let job = claimed.iter().find(|job| job.id == once).expect("it was claimed");
    assert_eq!(world.settle(job, Outcome::Done).await, Settled::Fenced);
    pass(world, 40, &nodes, &fence).await;
    assert_eq!(overdue(world, &fence).await, [(long, Next::After(seconds(5)))]);
    pass(world, 15 * 60 - 102, &nodes, &fence).await;
    assert_eq!(overdue(world, &fence).await, []);
    pass(world, 2, &nodes, &fence).await;
    assert_eq!(overdue(world, &fence).await, [(usual, Next::After(seconds(5)))]);
    assert_eq!(world.state(own).await, JobState::Running);
}

/// What earlier attempts took is not available to the next one.
pub async fn a_remote_attempt_has_what_is_left_of_the_budget(world: &World<'_>) {
    let (server, remote) = (world.join().await, join_remote(world).await);
    let fence = world.lead("maintenance", server).await;
    let nodes = [server, remote];
    let (budget, timeout) = (Some(seconds(100)), Some(seconds(70)));
    let id = world.enqueue(NewJob { budget, timeout, ..world.new_job() }).await;
    world.claim_one(remote).await;
    pass(world, 71, &nodes, &fence).await;
    assert_eq!(overdue(world, &fence).await, [(id, Next::After(seconds(5)))]);
    pass(world, 5, &nodes, &fence).await;
    world.store().promote(world.at(), 10).await.unwrap();
    world.claim_one(remote).await;
    pass(world, 29, &nodes, &fence).await;
    assert_eq!(overdue(world, &fence).await, []);
    pass(world, 1, &nodes, &fence).await;
    assert_eq!(overdue(world, &fence).await, [(id, Next::Failed)]);
}

/// It waits as long as after any other failed attempt.
pub async fn an_overdue_attempt_is_retried_as_its_schedule_says(world: &World<'_>) {
    let (server, remote) = (world.join().await, join_remote(world).await);
    let (fence, upkeep) =
        (world.lead("scheduler/0", server).await, world.lead("maintenance", server).await);
    let schedule = world.schedule("nightly").await;
    pass(world, 60, &[server, remote], &fence).await;
    let mut plan = world.plan(&schedule);
    let SlotDecision::Advance { slots, .. } = &mut plan.decision else { panic!("{plan:?}") };
    let job = slots[0].job.as_mut().expect("a job");
    job.timeout = Some(seconds(60));
    job.origin.as_mut().expect("an origin").facts = json(r#"{"backoff":"fixed 3h"}"#);
    let id = job.id;
    world.fire(&fence, &[plan]).await;
    world.claim_one(remote).await;
    pass(world, 61, &[server, remote], &upkeep).await;
    let backoff: Backoff = "fixed 3h".parse().unwrap();
    let next = Next::After(backoff.wait(id, 1, 1));
    assert_eq!(overdue(world, &upkeep).await, [(id, next)]);
}

/// A job that was cancelled has no further attempt; a dead worker is judged by its death; the request
/// bounds how many end.
pub async fn overdue_attempts_end_as_the_request_allows(world: &World<'_>) {
    let (server, remote) = (world.join().await, join_remote(world).await);
    let fence = world.lead("maintenance", server).await;
    for _ in 0..3 {
        world.enqueue(NewJob { timeout: Some(seconds(20)), ..world.new_job() }).await;
    }
    let claimed = world.claim(&world.ask(remote, 3)).await;
    world.store().cancel(world.at(), claimed[0].id, &actor()).await.unwrap();
    pass(world, 21, &[server, remote], &fence).await;
    let policy = policy();
    let ask = ReapAsk { fence, lease: LEASE, node_lifetime: LIFETIME, policy, most: 2 };
    let lost = ReapAsk { fence: Fence { term: 7, ..ask.fence.clone() }, ..ask.clone() };
    let reaped = world.store().reap(world.at(), &lost).await.unwrap();
    assert_eq!((reaped.led, reaped.overdue), (false, Vec::new()));
    let first = world.store().reap(world.at(), &ask).await.unwrap().overdue;
    assert_eq!(first.len(), 2);
    pass(world, 16, &[server], &ask.fence).await;
    let reaped = world.store().reap(world.at(), &ask).await.unwrap();
    assert_eq!((reaped.jobs.len(), reaped.overdue.len()), (1, 0));
    let cancelled = world.job(claimed[0].id).await;
    assert_eq!(cancelled.view.state, JobState::Cancelled);
}
