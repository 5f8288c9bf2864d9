//! Our store with a node at work by hand: no engine.

use std::sync::Arc;

use punctual_core::NodeId;
use punctual_core::job::{AttemptOutcome, Next, Transition};
use punctual_store::{
    At, ClaimAsk, ClaimedJob, Json, NewJob, QueueShare, Settlement, Store, limits,
};

use crate::databases::Database;
use crate::ids::Ids;
use crate::raw::{KIND, PAYLOAD, QUEUE};
use crate::{Failure, node_info};

#[derive(Clone)]
pub(crate) struct Ours {
    pub(crate) store: Arc<dyn Store>,
    ids: Arc<Ids>,
    node: NodeId,
}

impl Ours {
    /// The seeds of those that work on one database differ.
    pub(crate) async fn open(database: &Database, seed: u64) -> Result<Ours, Failure> {
        let store = database.store().await?;
        let ids = Arc::new(Ids::since(store.now(At::Database).await?, seed));
        let node = ids.node();
        store.join(At::Database, &node_info(node)).await?;
        Ok(Ours { store, ids, node })
    }

    /// Writes jobs, as many at once as may be.
    pub(crate) async fn enqueue(&self, count: usize) -> Result<u64, Failure> {
        let payload = || Json::from_canonical(PAYLOAD.to_owned());
        let mut left = count;
        while left > 0 {
            let some = left.min(limits::ENQUEUE_MAX);
            let job = || NewJob::new(self.ids.job(), QUEUE, KIND, payload());
            let jobs: Vec<NewJob> = (0..some).map(|_| job()).collect();
            self.store.enqueue(At::Database, &jobs).await?;
            left -= some;
        }
        Ok(count as u64)
    }

    /// Each caller writes one job after the other and waits for each.
    pub(crate) async fn enqueue_singly(&self, callers: usize, each: usize) -> Result<u64, Failure> {
        let calls: Vec<_> = (0..callers)
            .map(|_| {
                let ours = self.clone();
                tokio::spawn(async move {
                    for _ in 0..each {
                        ours.enqueue(1).await?;
                    }
                    Ok::<(), Failure>(())
                })
            })
            .collect();
        for call in calls {
            call.await??;
        }
        Ok((callers * each) as u64)
    }

    pub(crate) async fn claim(&self, most: usize) -> Result<Vec<ClaimedJob>, Failure> {
        let ask = ClaimAsk {
            node: self.node,
            lease: self.ids.lease(),
            more: Vec::new(),
            queues: vec![QueueShare { name: QUEUE.to_owned(), most }],
            kinds: vec![KIND.to_owned()],
            most,
        };
        Ok(self.store.claim(At::Database, &ask).await?.jobs)
    }

    pub(crate) async fn settle(&self, jobs: &[ClaimedJob]) -> Result<(), Failure> {
        let transition =
            Transition { outcome: AttemptOutcome::Succeeded, next: Next::Succeeded, error: None };
        let settle = |job: &ClaimedJob| Settlement {
            job: job.id,
            lease: job.lease,
            transition: transition.clone(),
            result: None,
            then: Vec::new(),
        };
        let batch: Vec<Settlement> = jobs.iter().map(settle).collect();
        self.store.settle(At::Database, &batch).await?;
        Ok(())
    }

    /// Each caller claims and settles so many batches of this size; fewer if there are no more.
    pub(crate) async fn drain(
        &self,
        callers: usize,
        batches: usize,
        most: usize,
    ) -> Result<u64, Failure> {
        let drains: Vec<_> = (0..callers)
            .map(|_| {
                let ours = self.clone();
                tokio::spawn(async move {
                    let mut done = 0;
                    for _ in 0..batches {
                        let jobs = ours.claim(most).await?;
                        if jobs.is_empty() {
                            break;
                        }
                        ours.settle(&jobs).await?;
                        done += jobs.len() as u64;
                    }
                    Ok::<u64, Failure>(done)
                })
            })
            .collect();
        let mut done = 0;
        for drain in drains {
            done += drain.await??;
        }
        Ok(done)
    }
}
