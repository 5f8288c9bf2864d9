//! A remote worker: its server forwards each of its calls. Some of its jobs it never reports on; they
//! end only if the maintenance leader ends them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_core::job::{AttemptOutcome, Next, Transition};
use punctual_core::{JobId, LeaseId, NodeId, Timestamp};
use punctual_store::{
    At, BeatAsk, ClaimAsk, ClaimedJob, Json, NewJob, NodeInfo, QueueShare, Result, Settlement,
    Store, rules,
};

use crate::chance::Chance;
use crate::mix;
use crate::nemesis::pass;
use crate::network::{Connection, Database, Link};
use crate::record::How;

/// The queue and the kind that only the remote worker serves.
const QUEUE: &str = "remote";
const KIND: &str = "remote";
/// How long an attempt may take.
const LIMIT: Duration = Duration::from_millis(1_500);
/// The process of the worker in the record: no machine has it.
const PROCESS: u32 = 0;

/// A job for the worker.
pub(crate) fn job(chance: &Chance, now: Timestamp) -> NewJob {
    let mut random = [0; 10];
    chance.fill(&mut random);
    let mut job = NewJob::new(JobId::mint(now, random), QUEUE, KIND, Json::null());
    job.max_attempts = 1 + chance.below(3) as u32;
    job.timeout = Some(LIMIT);
    job
}

/// The worker, and the node that it currently is.
pub(crate) struct Worker {
    database: Arc<Database>,
    connection: Arc<Connection>,
    chance: Chance,
    node: Arc<Mutex<Option<NodeId>>>,
}

impl Worker {
    pub(crate) fn new(database: &Arc<Database>, chance: Chance) -> Worker {
        let connection = Link::connect(database.clone(), None, chance.fork(1));
        let connection = Arc::new(connection);
        Worker { database: database.clone(), connection, chance, node: Arc::default() }
    }

    /// The node that it currently is.
    pub(crate) fn node(&self) -> Option<NodeId> {
        *self.node.lock().expect("single thread")
    }

    /// Works until the run is over.
    pub(crate) async fn work(self: Arc<Self>, is_over: Arc<AtomicBool>) {
        while !is_over.load(Ordering::Acquire) {
            let node = NodeId::mint(self.database.clock.now(), self.seed());
            *self.node.lock().expect("single thread") = Some(node);
            if self.patient(self.join(node)).await.is_some() {
                while self.turn(node).await && !is_over.load(Ordering::Acquire) {
                    pass(self.chance.ms(50, 400)).await;
                }
            }
            pass(Duration::from_millis(100)).await;
        }
    }

    fn seed(&self) -> [u8; 10] {
        let mut random = [0; 10];
        self.chance.fill(&mut random);
        random
    }

    /// What a call returns, unless it takes too long.
    async fn patient<T>(&self, call: impl Future<Output = Result<T>>) -> Option<T> {
        tokio::select! {
            biased;
            answer = call => answer.ok(),
            () = pass(mix::timing().call) => None,
        }
    }

    async fn join(&self, id: NodeId) -> Result<Timestamp> {
        let (label, value) = rules::REMOTE_LABEL;
        let info = NodeInfo {
            id,
            name: "remote".to_owned(),
            version: String::new(),
            queues: vec![QUEUE.to_owned()],
            kinds: vec![KIND.to_owned()],
            labels: vec![(label.to_owned(), value.to_owned())],
        };
        self.connection.join(At::Database, &info).await.map(|joined| joined.at)
    }

    /// Beats and claims; false if the node was declared dead.
    async fn turn(&self, node: NodeId) -> bool {
        let beat = BeatAsk {
            node,
            is_remote: true,
            roles: Vec::new(),
            lease: mix::timing().leader_lease,
            seeks: Vec::new(),
            leases: Vec::new(),
            progress: Vec::new(),
        };
        match self.patient(self.connection.beat(At::Database, &beat)).await {
            Some(beaten) if !beaten.alive => return false,
            _ => {}
        }
        let mint = || LeaseId::mint(self.database.clock.now(), self.seed());
        let ask = ClaimAsk {
            node,
            lease: mint(),
            more: vec![mint(), mint()],
            queues: vec![QueueShare { name: QUEUE.to_owned(), most: 3 }],
            kinds: vec![KIND.to_owned()],
            most: 3,
        };
        let claimed = self.patient(self.connection.claim(At::Database, &ask)).await;
        for job in claimed.map(|claimed| claimed.jobs).unwrap_or_default() {
            // Others it forgets.
            if self.chance.in_thousand(700) {
                self.finish(job);
            }
        }
        true
    }

    /// Completes a job, in time or a little late.
    fn finish(&self, job: ClaimedJob) {
        let (connection, record) = (self.connection.clone(), self.database.record.clone());
        let wait = self.chance.ms(10, 2_000);
        tokio::spawn(async move {
            pass(wait).await;
            record.begins(PROCESS, &job);
            record.ends(PROCESS, job.id, job.lease, How::Done);
            let transition = Transition {
                outcome: AttemptOutcome::Succeeded,
                next: Next::Succeeded,
                error: None,
            };
            let (id, lease) = (job.id, job.lease);
            let item = Settlement { job: id, lease, transition, result: None, then: Vec::new() };
            let batch = std::slice::from_ref(&item);
            for _ in 0..5 {
                let settle = connection.settle(At::Database, batch);
                let settled = tokio::select! {
                    biased;
                    answer = settle => answer.is_ok(),
                    () = pass(mix::timing().call) => false,
                };
                if settled {
                    return;
                }
            }
        });
    }
}
