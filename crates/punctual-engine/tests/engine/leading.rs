//! Leading: won by a lease, trusted from the moment it was asked for, given up at the first doubt.

use std::sync::Arc;

use punctual_conformance::Fault;
use punctual_core::job::JobState;
use punctual_core::{LeaseId, NodeId};
use punctual_engine::{Config, Handlers, Leadership, MAINTENANCE};
use punctual_store::{
    At, BeatAsk, ClaimAsk, Fence, Leader, NewJob, NodeInfo, QueueShare, Store, limits, rules,
};
use tokio::sync::Notify;

use crate::logging::Logged;
use crate::world::*;

const ROLE: &str = "reports";

async fn leader(world: &World) -> Leader {
    let leaders = world.memory.leaders().await.unwrap();
    leaders.into_iter().find(|leader| leader.fence.role == ROLE).expect("somebody led it")
}

/// Two nodes, the first of which leads.
async fn two(world: &World) -> (Node, Leadership, Node, Leadership, Fence) {
    let (a, b) = (producer("a"), producer("b"));
    let first = world.start(Config { maintains: false, ..a }, on("none", done)).await;
    let led = first.lead(ROLE);
    let fence = world.soon(led.won()).await;
    let second = world.start(Config { maintains: false, ..b }, on("none", done)).await;
    let sought = second.lead(ROLE);
    (first, led, second, sought, fence)
}

#[tokio::test(start_paused = true)]
async fn one_node_leads_and_the_other_waits() {
    let world = World::new();
    let (_first, led, _second, sought, fence) = two(&world).await;
    for _ in 0..60 {
        world.pass(s(1)).await;
        assert!(led.is_leader() && !sought.is_leader());
    }
    assert_eq!(led.term(), Some(fence));
    assert_eq!((led.role(), sought.term()), (ROLE, None));
    assert_eq!(world.memory.leader_changes(ROLE, 10).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_falls_silent_is_replaced_after_its_lease_and_knows_before() {
    let world = World::new();
    let (first, led, _second, sought, fence) = two(&world).await;
    world.pass(s(30)).await;
    first.line.cut();
    let cut_at = world.now();
    world.soon(led.lost()).await;
    let lost_at = world.now();
    assert!(!led.is_leader());
    let next = world.soon(sought.won()).await;
    assert_eq!(next.term, fence.term + 1);
    assert_ne!(next.nonce, fence.nonce);
    assert!(lost_at < world.now());
    let limit = timing().leader_lease + ms(100);
    assert!(world.now() - cut_at <= limit, "replaced after {:?}", world.now() - cut_at);
    // The first one comes back and seeks the role again, under another term.
    first.line.heal();
    world.pass(s(20)).await;
    assert!(!led.is_leader() && sought.is_leader());
}

#[tokio::test(start_paused = true)]
async fn trust_ends_a_lease_less_the_margin_after_the_request_was_sent() {
    let world = World::new();
    let config = Config { maintains: false, ..producer("a") };
    let node = world.start(config, on("none", done)).await;
    // The answer comes two seconds after the question.
    let letting_go = Arc::new(Notify::new());
    node.line.fail(&["acquire"], Fault::Held(letting_go.clone()));
    let asked_at = world.now();
    let led = node.lead(ROLE);
    world.pass(s(2)).await;
    // From here on no heartbeat is answered.
    node.line.fail(&["beat"], Fault::Held(Arc::default()));
    letting_go.notify_one();
    world.soon(led.won()).await;
    assert!(world.now() - asked_at < ms(2_010));
    world.soon(led.lost()).await;
    let trusted = world.now() - asked_at;
    let expected = timing().leader_lease - timing().leader_margin;
    assert!((expected - ms(10)..=expected + ms(1)).contains(&trusted), "{trusted:?}");
    // While for the store the lease still lasts.
    assert!(leader(&world).await.until > START + (world.now() - s(3_600)));
}

#[tokio::test(start_paused = true)]
async fn any_error_means_not_leading_until_the_store_has_said_so_and_the_term_stays() {
    let world = World::new();
    let logged = Logged::start();
    let (first, led, _second, sought, fence) = two(&world).await;
    world.pass(ms(3_300)).await;
    let beats = first.line.calls("beat");
    first.line.fail(&["beat", "acquire"], Fault::Request);
    world.until("a heartbeat fails", || first.line.calls("beat") > beats).await;
    assert!(!led.is_leader(), "it leads although it is unsure");
    first.line.heal();
    let again = world.soon(led.won()).await;
    assert_eq!(again, fence, "the same term");
    assert!(!sought.is_leader());
    assert_eq!(world.memory.leader_changes(ROLE, 10).await.unwrap().len(), 1);
    let text = logged.text();
    let became = text.lines().filter(|line| line.contains("became leader") && line.contains(ROLE));
    assert_eq!(became.count(), 1, "the term is not a new one: {text}");
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_whose_answer_is_lost_means_unsure_too() {
    let world = World::new();
    let (first, led, ..) = two(&world).await;
    world.pass(s(3)).await;
    first.line.fail(&["beat", "acquire"], Fault::Reply);
    world.soon(led.lost()).await;
    first.line.heal();
    world.soon(led.won()).await;
}

#[tokio::test(start_paused = true)]
async fn a_term_regained_after_the_clock_was_set_back_is_trusted_for_a_lease_and_no_longer() {
    let world = World::new();
    world.skip_days(1);
    let patient = punctual_engine::Timing { call: s(60), ..timing() };
    let config = Config { timing: patient, maintains: false, ..producer("a") };
    let node = world.start(config, on("none", done)).await;
    let led = node.lead(ROLE);
    let fence = world.soon(led.won()).await;
    // The store's clock is set back while the leader is unsure. It asks for its term again, which
    // the store says will end tomorrow.
    node.line.fail(&["beat", "acquire"], Fault::Request);
    world.soon(led.lost()).await;
    world.unskip_days();
    node.line.suffer(|method| match method {
        "acquire" => Fault::None,
        _ => Fault::Held(Arc::default()),
    });
    let asked_at = world.now();
    assert_eq!(world.soon(led.won()).await, fence, "the same term");
    assert!(leader(&world).await.until > START + s(80_000));
    world.soon(led.lost()).await;
    assert!(world.now() - asked_at < timing().leader_lease);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_to_win_is_told_when_a_lapsed_term_is_renewed() {
    let world = World::new();
    // A store that may take longer to answer than a leader trusts its term.
    let patient = punctual_engine::Timing { call: s(9), ..timing() };
    let config = Config { timing: patient, maintains: false, ..producer("a") };
    let node = world.start(config, on("none", done)).await;
    let led = node.lead(ROLE);
    let fence = world.soon(led.won()).await;
    world.pass(s(3)).await;
    let letting_go = Arc::new(Notify::new());
    node.line.fail(&["beat"], Fault::Held(letting_go.clone()));
    world.soon(led.lost()).await;
    node.line.heal();
    letting_go.notify_one();
    assert_eq!(world.soon(led.won()).await, fence);
}

#[tokio::test(start_paused = true)]
async fn resigning_hands_over_at_once() {
    // Whenever it happens, not only when the successor was about to ask.
    for offset in [0, 300, 900, 2_200, 4_000] {
        resigns_after(s(20) + ms(offset)).await;
    }
}

async fn resigns_after(wait: std::time::Duration) {
    let world = World::new();
    let (_first, led, _second, sought, fence) = two(&world).await;
    world.pass(wait).await;
    led.resign();
    let start = world.now();
    let next = world.soon(sought.won()).await;
    assert!(world.now() - start <= ms(200), "{:?}", world.now() - start);
    assert_eq!(next.term, fence.term + 1);
    world.pass(s(30)).await;
    assert!(!led.is_leader() && sought.is_leader());
    // It can be asked for again.
    sought.resign();
    world.pass(s(30)).await;
    assert!(!led.is_leader(), "it does not seek what it has resigned");
}

#[tokio::test(start_paused = true)]
async fn a_role_that_was_resigned_can_be_sought_again() {
    let world = World::new();
    let node = world.start(producer("a"), on("none", done)).await;
    let led = node.lead(ROLE);
    let first = world.soon(led.won()).await;
    led.resign();
    world.soon(led.lost()).await;
    let second = world.soon(node.lead(ROLE).won()).await;
    assert_eq!(second.term, first.term + 1);
}

#[tokio::test(start_paused = true)]
async fn a_term_that_a_node_was_never_told_of_dies_with_it() {
    let world = World::new();
    let watcher = world.start(producer("watcher"), on("none", done)).await;
    world.soon(watcher.leadership(MAINTENANCE).won()).await;
    world.pass(s(20)).await;
    let config = Config { maintains: false, schedules: false, ..producer("a") };
    let node = world.start(config, on("none", done)).await;
    let first_id = node.node();
    node.line.fail(&["acquire"], Fault::Reply);
    let led = node.lead(ROLE);
    world.pass(s(1)).await;
    assert_eq!(leader(&world).await.node, first_id);
    node.line.cut();
    world.pass(s(30)).await;
    node.line.heal();
    world.until("it is another", || node.node() != first_id).await;
    let fence = world.soon(led.won()).await;
    let leader = leader(&world).await;
    assert_eq!((leader.node, leader.fence), (node.node(), fence));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_declared_dead_leads_nothing_until_it_wins_anew() {
    let world = World::new();
    let (first, led, second, sought, fence) = two(&world).await;
    let second_leads = second.lead(MAINTENANCE);
    world.soon(second_leads.won()).await;
    world.pass(s(20)).await;
    let id = first.node();
    first.line.cut();
    world.soon(sought.won()).await;
    let start = world.now();
    loop {
        let nodes = world.nodes().await;
        if nodes.iter().any(|node| node.info.id == id && node.dead_at.is_some()) {
            break;
        }
        assert!(world.now() - start < s(60));
        world.pass(ms(100)).await;
    }
    first.line.heal();
    world.until("it is another", || first.node() != id).await;
    assert!(!led.is_leader());
    sought.resign();
    let again = world.soon(led.won()).await;
    assert_eq!(again.term, fence.term + 2);
    assert_eq!(leader(&world).await.node, first.node());
}

#[tokio::test(start_paused = true)]
async fn a_role_that_cannot_be_had_does_not_keep_the_node_from_others() {
    let world = World::new();
    let config = Config { maintains: false, ..producer("a") };
    let node = world.start(config, on("none", done)).await;
    // The store refuses a role without a name, each time.
    let nameless = node.lead("");
    let led = node.lead(ROLE);
    world.soon(led.won()).await;
    assert!(!nameless.is_leader());
    assert!(node.line.calls("acquire") >= 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_leads_no_more_roles_than_its_heartbeat_can_renew() {
    let world = World::new();
    let node = world.start(producer("a"), on("none", done)).await;
    let roles: Vec<Leadership> =
        (0..limits::ROLES_MAX + 20).map(|number| node.lead(&format!("role {number}"))).collect();
    world.pass(s(60)).await;
    assert!(node.health().is_in_touch);
    // One of them is the engine's own.
    let led = || roles.iter().filter(|role| role.is_leader()).count();
    assert_eq!(led(), limits::ROLES_MAX - 1);
    // What becomes free is given to another.
    let resigned = roles.iter().find(|role| role.is_leader()).unwrap();
    resigned.resign();
    world.soon(resigned.lost()).await;
    world.until("another is led", || led() == limits::ROLES_MAX - 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_failover_that_forgets_the_term_ends_it() {
    let world = World::new();
    let before = world.memory.snapshot();
    let node = world.start(producer("a"), on("none", done)).await;
    let led = node.lead(ROLE);
    let first = world.soon(led.won()).await;
    world.pass(s(5)).await;
    let id = node.node();
    world.memory.restore(before);
    world.until("the node notices that it is unknown", || node.node() != id).await;
    let second = world.soon(led.won()).await;
    assert_eq!(second.term, first.term, "numbers come again after a failover");
    assert_ne!(second.nonce, first.nonce, "and nonces do not");
}

/// Its server forwards what a remote worker says; if it says nothing, only the leader ends its attempt.
#[tokio::test(start_paused = true)]
async fn the_maintenance_leader_ends_overdue_attempts_of_remote_workers() {
    let world = World::new();
    let leader = world.start(producer("a"), Handlers::default()).await;
    let remote = NodeId::mint(START, [9; 10]);
    let (name, value) = rules::REMOTE_LABEL;
    let info = NodeInfo {
        id: remote,
        name: "remote-1".to_owned(),
        version: String::new(),
        queues: vec!["default".to_owned()],
        kinds: vec!["paint".to_owned()],
        labels: vec![(name.to_owned(), value.to_owned())],
    };
    world.memory.join(At::Database, &info).await.unwrap();
    let job = NewJob { timeout: Some(s(60)), max_attempts: 1, ..world.job("paint") };
    let id = world.enqueue(job).await;
    let ask = ClaimAsk {
        node: remote,
        lease: LeaseId::mint(START, [8; 10]),
        more: Vec::new(),
        queues: vec![QueueShare { name: "default".to_owned(), most: 1 }],
        kinds: info.kinds.clone(),
        most: 1,
    };
    assert_eq!(world.memory.claim(At::Database, &ask).await.unwrap().jobs.len(), 1);
    let beat = BeatAsk {
        node: remote,
        is_remote: true,
        roles: Vec::new(),
        lease: s(5),
        seeks: Vec::new(),
        leases: vec![ask.lease],
        progress: Vec::new(),
    };
    for _ in 0..60 {
        assert_eq!(world.state(id).await, JobState::Running);
        world.pass(s(1)).await;
        assert!(world.memory.beat(At::Database, &beat).await.unwrap().alive);
    }
    let logged = Logged::start();
    world.pass(s(3)).await;
    insta::assert_snapshot!(logged.attempts(id), @r#"ERROR job failed for good kind="paint" queue="default" job=JOB attempt=1 duration_ms=62000 outcome="timed_out" error="exceeded the time limit of 1m""#);
    let failed = world.detail(id).await.view;
    assert_eq!(failed.state, JobState::Failed);
    assert_eq!(failed.error.as_deref(), Some("exceeded the time limit of 1m"));
    leader.stop();
    world.soon(leader.stopped()).await;
    assert_eq!(world.counted().await, 1, "it is in the statistics");
}
