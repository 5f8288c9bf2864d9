//! The bad connection: harmless where it is not bad, and survivable where it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_conformance::{Fault, Faulty};
use punctual_core::job::{AttemptOutcome, JobState, LogLevel, Next, Transition};
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp, hash};
use punctual_store::memory::Memory;
use punctual_store::*;

mod without_faults {
    use super::*;

    punctual_conformance::suite!(|| async { Faulty::new(memory(), |_| Fault::None) });
}

fn memory() -> Memory {
    Memory::new(|| Timestamp::EPOCH)
}

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
const AT: At = At::Fixed(NOW);

/// Half of all calls lose their request or their reply.
fn unreliable(seed: u64) -> Faulty<Memory> {
    let calls = AtomicU64::new(0);
    Faulty::new(memory(), move |_| {
        match hash::draw(seed, calls.fetch_add(1, Ordering::Relaxed)) % 4 {
            0 => Fault::Request,
            1 => Fault::Reply,
            _ => Fault::None,
        }
    })
}

/// Repeats a call until its reply arrives.
macro_rules! insist {
    ($call:expr) => {
        loop {
            match $call.await {
                Err(error) if error.kind() == ErrorKind::Unreachable => {}
                answer => break answer.expect("an answer"),
            }
        }
    };
}

#[tokio::test]
async fn whatever_is_repeated_until_it_is_answered_happens_once() {
    for seed in 0..200 {
        let store = unreliable(seed);
        let bytes = |index: u64| hash::draw(seed, index).to_be_bytes();
        let random = |index: u64| {
            let mut random = [0; 10];
            random[2..].copy_from_slice(&bytes(1_000 + index));
            random
        };
        let node = NodeId::mint(NOW, random(0));
        let info = NodeInfo {
            id: node,
            name: "n".to_owned(),
            version: String::new(),
            queues: Vec::new(),
            kinds: Vec::new(),
            labels: Vec::new(),
        };
        insist!(store.join(AT, &info));

        let unique = UniqueKey {
            key: "k".to_owned(),
            scope: KeyScope::Tenant,
            lifetime: KeyLifetime::Job,
            is_by_payload: false,
        };
        let plain = NewJob::new(JobId::mint(NOW, random(1)), "q", "k", Json::null());
        let keyed = NewJob {
            unique: Some(unique),
            ..NewJob::new(JobId::mint(NOW, random(2)), "q", "k", Json::null())
        };
        let answers = insist!(store.enqueue(AT, &[plain.clone(), keyed.clone()])).answers;
        assert_eq!(answers, [EnqueueAnswer::Created, EnqueueAnswer::Created]);

        let nonce = Nonce::mint(NOW, random(3));
        let won = insist!(store.acquire(AT, "r", node, nonce, Duration::from_secs(5)));
        assert!(matches!(won, Acquired::Won { term: 1, .. }));

        let new = NewSchedule {
            id: ScheduleId::mint(NOW, random(4)),
            tenant: String::new(),
            name: "s".to_owned(),
            owner: String::new(),
            set: String::new(),
            shard: 0,
            enabled: true,
            spec: Json::null(),
            next_slot: Some(NOW),
            actor: Actor::new("a", "b"),
        };
        assert_eq!(insist!(store.create_schedule(AT, &new)).stamp, 1);

        // A claim whose reply is lost leaves strays, of which the node is told in its beat.
        let mut leases = Vec::new();
        for index in 10.. {
            let ask = ClaimAsk {
                node,
                lease: LeaseId::mint(NOW, random(index)),
                more: Vec::new(),
                queues: vec![QueueShare { name: "q".to_owned(), most: 10 }],
                kinds: vec!["k".to_owned()],
                most: 10,
            };
            leases.push(ask.lease);
            if store.claim(AT, &ask).await.is_ok() {
                break;
            }
        }
        let known = |leases: &[LeaseId]| BeatAsk {
            node,
            is_remote: false,
            seeks: Vec::new(),
            roles: Vec::new(),
            lease: Duration::ZERO,
            leases: leases.to_vec(),
            progress: Vec::new(),
        };
        assert_eq!(insist!(store.beat(AT, &known(&leases))).strays, []);
        assert_eq!(insist!(store.beat(AT, &known(&[]))).strays.len(), 1);
        let transition =
            Transition { outcome: AttemptOutcome::Succeeded, next: Next::Succeeded, error: None };
        let mut applied = 0;
        for lease in leases {
            let batch: Vec<Settlement> = [plain.id, keyed.id]
                .map(|job| Settlement {
                    job,
                    lease,
                    transition: transition.clone(),
                    result: None,
                    then: Vec::new(),
                })
                .to_vec();
            let answers = insist!(store.settle(AT, &batch)).answers;
            applied += answers.iter().filter(|answer| **answer != Settled::Fenced).count();
        }
        assert_eq!(applied, 2);

        let all = store.inner().jobs(&JobFilter::default(), None, 10).await.unwrap().items;
        assert!(
            all.len() == 2 && all.iter().all(|job| job.state == JobState::Succeeded),
            "seed {seed}"
        );
        assert_eq!(store.inner().leader_changes("r", 10).await.unwrap().len(), 1);
        assert_eq!(store.inner().schedules("", None, 10).await.unwrap().len(), 1);
    }
}

/// What a whole story leaves behind in a store, whatever was said of it on the way.
async fn told(store: &Memory, node: NodeId, schedule: ScheduleId) -> String {
    let all = JobFilter::default();
    let mut told = String::new();
    for view in store.jobs(&all, None, 100).await.expect("jobs").items {
        told += &format!("{:#?}\n", store.job(view.id).await);
        told += &format!("{:#?}\n", store.log(view.id, None, 10).await);
    }
    let beaten = store.beat(AT, &beat(node, &[], Vec::new())).await;
    told += &format!(
        "{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{beaten:#?}",
        store.nodes().await,
        store.leaders().await,
        store.leader_changes("r", 10).await,
        store.schedule(schedule).await,
        store.revisions(schedule, None, 10).await,
        store.audits(None, 10).await,
        store.queue_stats(None, 10).await,
    );
    told
}

fn beat(node: NodeId, leases: &[LeaseId], progress: Vec<Progress>) -> BeatAsk {
    BeatAsk {
        node,
        is_remote: false,
        seeks: Vec::new(),
        roles: Vec::new(),
        lease: Duration::from_secs(5),
        leases: leases.to_vec(),
        progress,
    }
}

/// One of each that the port says may be repeated, each until it is answered.
async fn story(store: &Faulty<Memory>) -> String {
    let random = |number: u8| [number; 10];
    let node = NodeId::mint(NOW, random(1));
    let info = NodeInfo {
        id: node,
        name: "n".to_owned(),
        version: String::new(),
        queues: Vec::new(),
        kinds: Vec::new(),
        labels: Vec::new(),
    };
    insist!(store.join(AT, &info));
    let unique = UniqueKey {
        key: "k".to_owned(),
        scope: KeyScope::Queue,
        lifetime: KeyLifetime::Job,
        is_by_payload: false,
    };
    let jobs: Vec<NewJob> = (10..14)
        .map(|number| NewJob {
            unique: Some(unique.clone()).filter(|_| number == 10),
            ..NewJob::new(JobId::mint(NOW, random(number)), "q", "k", Json::null())
        })
        .collect();
    let answers = insist!(store.enqueue(AT, &jobs)).answers;
    assert_eq!(answers, vec![EnqueueAnswer::Created; 4]);
    let nonce = Nonce::mint(NOW, random(2));
    let won = insist!(store.acquire(AT, "r", node, nonce, Duration::from_secs(5)));
    assert!(matches!(won, Acquired::Won { term: 1, .. }), "{won:?}");
    let new = NewSchedule {
        id: ScheduleId::mint(NOW, random(3)),
        tenant: String::new(),
        name: "s".to_owned(),
        owner: String::new(),
        set: String::new(),
        shard: 0,
        enabled: true,
        spec: Json::null(),
        next_slot: Some(NOW),
        actor: Actor::new("a", "b"),
    };
    let created = insist!(store.create_schedule(AT, &new));
    assert_eq!(created, new.at_creation(NOW));

    let claim = |number: u8| ClaimAsk {
        node,
        lease: LeaseId::mint(NOW, random(number)),
        more: Vec::new(),
        queues: vec![QueueShare { name: "q".to_owned(), most: 2 }],
        kinds: vec!["k".to_owned()],
        most: 2,
    };
    // Of two claims the answer to the second is lost, as far as the node is concerned.
    let known = store.claim(AT, &claim(20)).await.expect("claim").jobs;
    store.claim(AT, &claim(21)).await.expect("claim");
    let lease = claim(20).lease;
    let progress =
        vec![Progress { job: known[0].id, lease, percent: Some(50), note: "half".to_owned() }];
    let ask = beat(node, &[lease], progress);
    let beaten = insist!(store.beat(AT, &ask));
    assert_eq!((beaten.alive, beaten.strays.as_slice()), (true, &[claim(21).lease][..]));
    insist!(store.release(AT, node, &beaten.strays));
    let (level, text) = (LogLevel::Info, "half way".to_owned());
    let lines = [LogLine { job: known[0].id, attempt: 1, number: 1, level, text }];
    assert_eq!(insist!(store.write_log(AT, &lines)), NOW);
    let follower = NewJob::new(JobId::mint(NOW, random(30)), "q", "k", Json::null());
    let batch: Vec<Settlement> = [
        Transition { outcome: AttemptOutcome::Succeeded, next: Next::Succeeded, error: None },
        Transition {
            outcome: AttemptOutcome::Failed,
            next: Next::After(Duration::from_secs(5)),
            error: Some("boom".to_owned()),
        },
    ]
    .into_iter()
    .zip(&known)
    .map(|(transition, job)| Settlement {
        job: job.id,
        lease,
        transition,
        result: None,
        then: vec![follower.clone()],
    })
    .collect();
    let answers = insist!(store.settle(AT, &batch)).answers;
    assert!(answers.iter().all(|answer| *answer != Settled::Fenced), "{answers:?}");
    let fence = Fence { role: "r".to_owned(), term: 1, nonce };
    assert!(insist!(store.resign(AT, &fence)));
    told(store.inner(), node, new.id).await
}

#[tokio::test]
async fn each_that_may_be_repeated_leaves_the_same_whether_asked_once_or_twice() {
    const REPEATABLE: [&str; 9] = [
        "join",
        "enqueue",
        "acquire",
        "create_schedule",
        "beat",
        "release",
        "write_log",
        "settle",
        "resign",
    ];
    let once = story(&Faulty::new(memory(), |_| Fault::None)).await;
    for method in REPEATABLE {
        for fault in [Fault::Request, Fault::Reply] {
            let (calls, first) = (AtomicU64::new(0), fault.clone());
            let lossy = Faulty::new(memory(), move |called| {
                let is_first = called == method && calls.fetch_add(1, Ordering::Relaxed) == 0;
                if is_first { first.clone() } else { Fault::None }
            });
            assert_eq!(story(&lossy).await, once, "{method}, {fault:?}");
        }
    }
    // They are declared as such.
    for name in REPEATABLE {
        let operation = Operation::ALL.iter().find(|operation| operation.name() == name);
        assert_eq!(operation.map(|operation| operation.repeat()), Some(Repeat::Safe), "{name}");
    }
}
