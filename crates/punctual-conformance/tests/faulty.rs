//! The bad connection: harmless where it is not bad, and survivable where it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_conformance::{Fault, Faulty};
use punctual_core::job::{AttemptOutcome, JobState, Next, Transition};
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

        let unique =
            UniqueKey { key: "k".to_owned(), scope: KeyScope::Tenant, lifetime: KeyLifetime::Job };
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
            shard: 0,
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
                .map(|job| Settlement { job, lease, transition: transition.clone(), result: None })
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
