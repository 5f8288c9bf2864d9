//! Nodes and their heartbeats.

use punctual_core::job::Outcome;
use punctual_store::*;

use crate::World;
use crate::world::actor;

/// It is listed with what it said of itself and when it was last seen.
pub async fn a_node_joins_beats_and_leaves(world: &World<'_>) {
    let joined_at = world.now();
    let id = world.join().await;
    world.pass(2);
    let beaten = world.beat(id, &[]).await;
    assert_eq!(
        beaten,
        Beaten { at: world.now(), alive: true, running: 0, cancels: Vec::new(), roles: Vec::new() }
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

/// All in one answer, once a second.
pub async fn a_beat_tells_of_cancels_and_leases(world: &World<'_>) {
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
    assert_eq!((beaten.running, beaten.cancels), (3, vec![jobs[0].id, jobs[2].id]));
    world.settle(&jobs[0], Outcome::Cancel("asked".to_owned())).await;
    let beaten = world.beat(node, &[]).await;
    assert_eq!((beaten.running, beaten.cancels), (2, vec![jobs[2].id]));
    let listed = world.store().nodes().await.unwrap();
    assert_eq!(listed.iter().map(|node| node.running).sum::<u64>(), 3);
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
