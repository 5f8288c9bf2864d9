//! Nodes and their heartbeats.

use punctual_core::LeaseId;
use punctual_core::job::{AttemptOutcome, JobState, Outcome};
use punctual_store::*;

use crate::World;
use crate::world::{actor, beat_of};

/// It is listed with what it said of itself and when it was last seen.
pub async fn a_node_joins_beats_and_leaves(world: &World<'_>) {
    let joined_at = world.now();
    let id = world.join().await;
    world.pass(2);
    let beaten = world.beat(id, &[]).await;
    assert_eq!(
        beaten,
        Beaten {
            at: world.now(),
            alive: true,
            strays: Vec::new(),
            cancels: Vec::new(),
            unreadable: Vec::new(),
            roles: Vec::new(),
            sought: Vec::new(),
            forked_at: None,
        }
    );
    let nodes = world.store().nodes().await.unwrap();
    assert_eq!(nodes.len(), 1);
    let node = &nodes[0];
    assert_eq!(
        (node.info.id, node.info.name.as_str(), node.info.version.as_str()),
        (id, "web-1", "0.1.0")
    );
    assert_eq!(node.info.labels, [("zone".to_owned(), "a".to_owned())]);
    assert_eq!(
        (node.info.queues.as_slice(), node.info.kinds.as_slice()),
        (&["default".to_owned()][..], &["mail".to_owned()][..])
    );
    assert_eq!(
        (node.joined_at, node.seen_at, node.dead_at, node.running),
        (joined_at, world.now(), None, 0)
    );
    world.store().leave(world.at(), id).await.unwrap();
    assert_eq!(world.store().nodes().await.unwrap(), []);
    world.store().leave(world.at(), id).await.unwrap();
    assert!(!world.beat(id, &[]).await.alive);
}

/// It must stop its work and come back under a new id; the old one stays dead.
pub async fn a_node_that_was_declared_dead_learns_it_from_its_beat(world: &World<'_>) {
    let (silent, leading) = (world.join().await, world.join().await);
    let fence = world.lead("maintenance", leading).await;
    let role = world.lead("mine", silent).await;
    world.steady(leading, &fence).await;
    assert_eq!(world.reap(&fence).await.dead, [silent]);
    for _ in 0..2 {
        let beaten = world.beat(silent, std::slice::from_ref(&role)).await;
        assert_eq!((beaten.alive, beaten.roles), (false, vec![RoleBeat::Lost]));
    }
    // Nor does its beat keep others from its roles.
    world.lead("mine", leading).await;
    let nodes = world.store().nodes().await.unwrap();
    let dead = nodes.iter().find(|node| node.info.id == silent).unwrap();
    assert_eq!(dead.dead_at, Some(world.now()));
}

/// Once a second.
pub async fn a_beat_tells_of_cancels(world: &World<'_>) {
    let (node, other) = (world.join().await, world.join().await);
    for _ in 0..4 {
        world.enqueue_one().await;
    }
    let jobs = world.claim(&world.ask(node, 3)).await;
    let foreign = world.claim_one(other).await;
    for id in [jobs[2].id, jobs[0].id, foreign.id] {
        world.store().cancel(world.at(), id, &actor()).await.unwrap();
    }
    let beaten = world.beat(node, &[]).await;
    assert_eq!(beaten.cancels, [jobs[0].id, jobs[2].id]);
    world.settle(&jobs[0], Outcome::Cancel("asked".to_owned())).await;
    let beaten = world.beat(node, &[]).await;
    assert_eq!(beaten.cancels, [jobs[2].id]);
    let listed = world.store().nodes().await.unwrap();
    assert_eq!(listed.iter().map(|node| node.running).sum::<u64>(), 3);
}

async fn release(world: &World<'_>, node: punctual_core::NodeId, leases: &[LeaseId]) -> Released {
    let released = world.store().release(world.at(), node, leases).await.unwrap();
    assert_eq!(released.at, world.now());
    released
}

/// The next beat tells of them, and giving them back costs no attempt.
pub async fn a_lost_claim_leaves_strays_that_are_given_back(world: &World<'_>) {
    let (node, other) = (world.join().await, world.join().await);
    for _ in 0..5 {
        world.enqueue(NewJob { max_attempts: 1, ..world.new_job() }).await;
    }
    let known = world.claim_one(node).await;
    let lost = world.claim(&world.ask(node, 2)).await;
    let foreign = world.claim_one(other).await;
    let under_way = world.lease_id();
    let ask = BeatAsk { leases: vec![known.lease, under_way], ..beat_of(node) };
    let strays = world.beat_as(&ask).await.strays;
    assert_eq!(strays, [lost[0].lease]);
    let all = BeatAsk { leases: vec![lost[0].lease, known.lease], ..beat_of(node) };
    assert_eq!(world.beat_as(&all).await.strays, []);

    world.pass(3);
    let released = release(world, node, &strays).await;
    let mut ids: Vec<_> = lost.iter().map(|job| job.id).collect();
    ids.sort();
    assert_eq!(released.jobs, ids);
    assert_eq!(world.beat_as(&ask).await.strays, []);
    for id in &ids {
        let found = world.job(*id).await;
        assert_eq!((found.view.state, found.spent), (JobState::Ready, 0));
        assert_eq!(found.attempts[0].outcome, Some(AttemptOutcome::Released));
        assert_eq!(found.attempts[0].ended_at, Some(world.now()));
    }
    // Again is as once, and what is another's is left alone.
    assert_eq!(release(world, node, &[lost[0].lease, foreign.lease, under_way]).await.jobs, []);
    assert_eq!(world.settle(&lost[0], Outcome::Released).await, Settled::Already);
    for job in [&known, &foreign] {
        assert_eq!(world.settle(job, Outcome::Done).await, Settled::Applied(JobState::Succeeded));
    }
    assert_eq!(world.claim(&world.ask(node, 10)).await.len(), 3);
}

/// A job that somebody wants to stop has no further attempt.
pub async fn a_stray_that_was_called_off_is_cancelled(world: &World<'_>) {
    let node = world.join().await;
    for _ in 0..3 {
        world.enqueue_one().await;
    }
    let claimed = world.claim(&world.ask(node, 3)).await;
    let mut ids: Vec<_> = claimed.iter().map(|job| job.id).collect();
    ids.sort();
    world.store().cancel(world.at(), ids[1], &actor()).await.unwrap();
    assert_eq!(release(world, node, &[claimed[0].lease]).await.jobs, ids);
    let states = [world.state(ids[0]).await, world.state(ids[1]).await, world.state(ids[2]).await];
    assert_eq!(states, [JobState::Ready, JobState::Cancelled, JobState::Ready]);
    let many = vec![world.lease_id(); limits::LEASES_MAX + 1];
    let too_many = world.store().release(world.at(), node, &many).await;
    assert_eq!(too_many.unwrap_err().kind(), ErrorKind::Limit);
}

/// They are the reaper's, who counts the crash.
pub async fn a_dead_node_has_no_strays(world: &World<'_>) {
    let (dead, leading) = (world.join().await, world.join().await);
    let fence = world.lead("maintenance", leading).await;
    world.enqueue_one().await;
    let claimed = world.claim_one(dead).await;
    assert_eq!(world.beat(dead, &[]).await.strays, [claimed.lease]);
    world.steady(leading, &fence).await;
    let ask = ReapAsk {
        fence,
        lease: crate::world::LEASE,
        node_lifetime: crate::world::LIFETIME,
        policy: crate::world::policy(),
        most: 0,
    };
    assert_eq!(world.store().reap(world.at(), &ask).await.unwrap().dead, [dead]);
    let beaten = world.beat(dead, &[]).await;
    assert_eq!((beaten.alive, beaten.strays), (false, Vec::new()));
}

/// For as long as it runs, and only under its own lease.
pub async fn progress_is_told_while_a_job_runs(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue_one().await;
    let job = world.claim_one(node).await;
    assert_eq!(world.job(id).await.progress, None);
    let say = |lease: LeaseId, percent: Option<u8>, note: &str| BeatAsk {
        leases: vec![job.lease],
        progress: vec![Progress { job: id, lease, percent, note: note.to_owned() }],
        ..beat_of(node)
    };
    world.pass(1);
    world.beat_as(&say(job.lease, Some(40), "page 4 of 10")).await;
    let told = ProgressView { percent: Some(40), note: "page 4 of 10".to_owned(), at: world.now() };
    assert_eq!(world.job(id).await.progress, Some(told.clone()));
    world.pass(1);
    world.beat_as(&say(world.lease_id(), Some(99), "late")).await;
    world.beat(node, &[]).await;
    assert_eq!(world.job(id).await.progress, Some(told));
    let long = "é".repeat(limits::NOTE_BYTES_MAX);
    world.beat_as(&say(job.lease, Some(101), &long)).await;
    let progress = world.job(id).await.progress.unwrap();
    assert_eq!((progress.percent, progress.note.len()), (Some(100), limits::NOTE_BYTES_MAX));
    world.beat_as(&say(job.lease, None, "")).await;
    let silent = ProgressView { percent: None, note: String::new(), at: world.now() };
    assert_eq!(world.job(id).await.progress, Some(silent));
    world.settle(&job, Outcome::Released).await;
    assert_eq!(world.job(id).await.progress, None);
    world.beat_as(&say(job.lease, Some(1), "gone")).await;
    world.claim_one(node).await;
    assert_eq!(world.job(id).await.progress, None);
    let report = Progress { job: id, lease: job.lease, percent: None, note: String::new() };
    let too_many = BeatAsk { progress: vec![report; limits::PROGRESS_MAX + 1], ..beat_of(node) };
    let error = world.store().beat(world.at(), &too_many).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

/// Its jobs would have no node, and the reaper would count a crash.
pub async fn a_node_with_leases_cannot_leave(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue_one().await;
    let job = world.claim_one(node).await;
    let error = world.store().leave(world.at(), node).await.unwrap_err();
    assert_eq!(error, rules::still_at_work(node, 1));
    assert_eq!(error.kind(), ErrorKind::Conflict);
    world.settle(&job, Outcome::Released).await;
    world.store().leave(world.at(), node).await.unwrap();
    world.pass(1);
    let nameless = NodeInfo {
        id: world.node_id(),
        name: String::new(),
        version: String::new(),
        queues: Vec::new(),
        kinds: Vec::new(),
        labels: Vec::new(),
    };
    let error = world.store().join(world.at(), &nameless).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
