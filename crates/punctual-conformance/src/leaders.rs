//! Roles: one leader each, by lease and term.

use std::time::Duration;

use punctual_store::*;

use crate::World;
use crate::world::{LEASE, beat_of};

/// Others are told who, and until when.
pub async fn a_role_has_one_leader_until_its_lease_ends(world: &World<'_>) {
    let (one, other) = (world.join().await, world.join().await);
    let first = world.lead("scheduler/0", one).await;
    assert_eq!(first.term, 1);
    let until = world.now() + LEASE;
    world.pass(4);
    let held = world
        .store()
        .acquire(world.at(), "scheduler/0", other, world.nonce(), LEASE)
        .await
        .unwrap();
    assert_eq!(held, Acquired::Held { at: world.now(), by: one, until });
    // The lease ends with its last instant, not before.
    world.pass(1);
    let second = world.lead("scheduler/0", other).await;
    assert_eq!(second.term, 2);
    let leaders = world.store().leaders().await.unwrap();
    assert_eq!(
        leaders,
        [Leader {
            fence: second,
            node: other,
            since: world.now(),
            until: world.now() + LEASE,
            renewed_at: world.now(),
            watched: LEASE,
        }]
    );
    // Roles do not know of each other.
    assert_eq!(world.lead("maintenance", one).await.term, 1);
    let error = world.store().acquire(world.at(), "", one, world.nonce(), LEASE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// The same nonce is the same try.
pub async fn a_lost_reply_to_a_won_role_can_be_retried(world: &World<'_>) {
    let node = world.join().await;
    let nonce = world.nonce();
    let mut answers = Vec::new();
    for _ in 0..2 {
        answers.push(world.store().acquire(world.at(), "r", node, nonce, LEASE).await.unwrap());
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(world.store().leader_changes("r", 10).await.unwrap().len(), 1);
}

/// Those it holds, and no others.
pub async fn a_beat_renews_the_roles_it_names(world: &World<'_>) {
    let node = world.join().await;
    let (held, other) = (world.lead("a", node).await, world.lead("b", node).await);
    let stale = Fence { nonce: world.nonce(), ..other.clone() };
    let old_term = Fence { term: 0, ..other.clone() };
    let unknown = Fence { role: "c".to_owned(), ..other.clone() };
    let since = world.now();
    world.pass(4);
    let beaten = world.beat(node, &[held, stale, old_term, unknown]).await;
    let renewed = RoleBeat::Renewed { until: world.now() + LEASE };
    assert_eq!(beaten.roles, [renewed, RoleBeat::Lost, RoleBeat::Lost, RoleBeat::Lost]);
    let until: Vec<_> =
        world.store().leaders().await.unwrap().iter().map(|leader| leader.until).collect();
    assert_eq!(until, [world.now() + LEASE, since + LEASE]);
}

/// A gap between two renewals counts as one lease at most, a long one not at all, and a new term
/// continues the count.
pub async fn watched_time_counts_reachable_time_across_terms(world: &World<'_>) {
    let (one, other) = (world.join().await, world.join().await);
    let watched = async || world.store().leaders().await.unwrap()[0].watched.as_secs();
    let first = world.lead("maintenance", one).await;
    for (seconds, expected) in [(4, 4), (5, 9), (7, 14), (8, 14), (3_600, 14), (1, 15)] {
        world.pass(seconds);
        let beaten = world.beat(one, std::slice::from_ref(&first)).await;
        assert_eq!(beaten.roles, [RoleBeat::Renewed { until: world.now() + LEASE }]);
        assert_eq!(watched().await, expected, "after {seconds} s");
    }
    world.set(world.now() - Duration::from_secs(2));
    world.beat(one, std::slice::from_ref(&first)).await;
    assert_eq!(watched().await, 15, "the clock was set back");
    world.pass(1);
    assert!(world.store().resign(world.at(), &first).await.unwrap());
    let second = world.lead("maintenance", other).await;
    assert_eq!(watched().await, 16, "after a handover");
    world.pass(2);
    assert!(world.reap(&second).await.led);
    assert_eq!(watched().await, 18);
    world.pass(7);
    world.lead("maintenance", one).await;
    assert_eq!(watched().await, 23, "after a crash");
    // A heartbeat and a join store the count.
    world.pass(1);
    let third = world.join().await;
    world.beat(one, &[]).await;
    let nodes = world.store().nodes().await.unwrap();
    let seen = |id| nodes.iter().find(|node| node.info.id == id).unwrap().seen_watch.as_secs();
    assert_eq!((seen(one), seen(other), seen(third)), (23, 0, 23));
}

/// The next one need not wait for the lease.
pub async fn resigning_frees_the_role_at_once(world: &World<'_>) {
    let (one, other) = (world.join().await, world.join().await);
    let first = world.lead("r", one).await;
    for _ in 0..2 {
        assert!(world.store().resign(world.at(), &first).await.unwrap());
    }
    // What was under way under the old term comes too late to take it back.
    assert_eq!(world.beat(one, std::slice::from_ref(&first)).await.roles, [RoleBeat::Lost]);
    assert_eq!(world.fire(&first, &[]).await.until, None);
    let second = world.lead("r", other).await;
    assert_eq!(second.term, 2);
}

/// Nor renew, nor fire: a term that is over is over.
pub async fn a_lost_term_cannot_resign_its_successor(world: &World<'_>) {
    let (one, other) = (world.join().await, world.join().await);
    let first = world.lead("r", one).await;
    world.pass(5);
    let second = world.lead("r", other).await;
    assert!(!world.store().resign(world.at(), &first).await.unwrap());
    assert!(!world.store().resign(world.at(), &Fence { term: 2, ..first.clone() }).await.unwrap());
    assert_eq!(world.beat(one, &[first]).await.roles, [RoleBeat::Lost]);
    let leader = &world.store().leaders().await.unwrap()[0];
    assert_eq!((&leader.fence, leader.until), (&second, world.now() + LEASE));
}

/// A lease that seems to last for hours was given before the clock was set back.
pub async fn a_clock_set_back_does_not_keep_a_dead_leader(world: &World<'_>) {
    let (one, other) = (world.join().await, world.join().await);
    world.lead("r", one).await;
    let back = world.now() - Duration::from_secs(3_600);
    world.set(back);
    let held = world.store().acquire(world.at(), "r", other, world.nonce(), LEASE).await.unwrap();
    assert_eq!(held, Acquired::Held { at: back, by: one, until: back + LEASE });
    world.pass(5);
    assert_eq!(world.lead("r", other).await.term, 2);
}

/// Newest first, role by role.
pub async fn changes_of_leadership_are_kept(world: &World<'_>) {
    let (one, other) = (world.join().await, world.join().await);
    for node in [one, other, one] {
        world.lead("r", node).await;
        world.lead("s", node).await;
        world.pass(5);
    }
    let changes = world.store().leader_changes("r", 2).await.unwrap();
    let change = |term, node, ago| LeaderChange {
        role: "r".to_owned(),
        term,
        node,
        at: world.now() - Duration::from_secs(ago),
    };
    assert_eq!(changes, [change(3, one, 5), change(2, other, 10)]);
    // Old ones go, but who leads is always known.
    let last = change(3, one, 5 + 366 * 86_400);
    world.pass(366 * 86_400);
    let pruned = world.store().prune(world.at(), &Retention::default(), 100).await.unwrap();
    assert_eq!(pruned.records, 4);
    let kept = world.store().leader_changes("r", 10).await.unwrap();
    assert_eq!(kept, [LeaderChange { at: changes[0].at, ..last }]);
}

/// So that whoever stands by need not ask for each.
pub async fn a_beat_tells_until_when_the_roles_it_seeks_are_led(world: &World<'_>) {
    let (one, other) = (world.join().await, world.join().await);
    world.lead("scheduler/0", one).await;
    let seeks = ["maintenance", "scheduler/0"].map(str::to_owned).to_vec();
    let ask = BeatAsk { seeks, ..beat_of(other) };
    let until = world.now() + LEASE;
    assert_eq!(world.beat_as(&ask).await.sought, [None, Some(until)]);
    world.pass(60);
    assert_eq!(
        world.beat_as(&ask).await.sought,
        [None, Some(until)],
        "the term ended and the role has no holder"
    );
    assert_eq!(world.beat(other, &[]).await.sought, []);
}
