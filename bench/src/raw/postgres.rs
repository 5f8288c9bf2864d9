//! The bare statements on PostgreSQL: the store's own claim and settle, and the plainest insert
//! that writes the same rows.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use punctual_core::NodeId;
use punctual_core::job::{AttemptOutcome, JobState};
use punctual_store::{At, Store, rules};
use tokio::sync::Mutex;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use crate::databases::PostgresDatabase;
use crate::ids::Ids;
use crate::raw::{KIND, PAYLOAD, QUEUE, Raw};
use crate::{Failure, node_info};

const CLAIM: &str = include_str!("../../../crates/punctual-postgres/sql/claim.sql");
const SETTLE: &str = include_str!("../../../crates/punctual-postgres/sql/settle.sql");
const ENQUEUE: &str = include_str!("enqueue.sql");

/// Connections that drain at the same time, as many as the store has for claims.
const LANES: usize = 2;
/// Batches that each of them takes before they meet.
const BATCHES: usize = 8;

pub(crate) struct RawPostgres {
    ids: Arc<Ids>,
    enqueue: (Client, Statement),
    lanes: Vec<Arc<Mutex<Lane>>>,
}

/// A connection that drains.
struct Lane {
    client: Client,
    claim: Statement,
    settle: Statement,
    ids: Arc<Ids>,
    node: NodeId,
    /// How far it has claimed, so that it does not read dead rows again; as the store does.
    mark: (SystemTime, Uuid),
}

impl RawPostgres {
    pub(crate) async fn open(database: &PostgresDatabase) -> Result<RawPostgres, Failure> {
        let store = database.store().await?;
        let ids = Arc::new(Ids::since(store.now(At::Database).await?, 1));
        let node = ids.node();
        store.join(At::Database, &node_info(node)).await?;
        drop(store);
        let client = database.connect().await?;
        let insert = client.prepare(&qualify(ENQUEUE)).await?;
        let mut lanes = Vec::new();
        for _ in 0..LANES {
            let lane = Lane::open(database, ids.clone(), node).await?;
            lanes.push(Arc::new(Mutex::new(lane)));
        }
        Ok(RawPostgres { ids, enqueue: (client, insert), lanes })
    }
}

fn qualify(text: &str) -> String {
    text.replace("{schema}", "punctual")
}

#[async_trait(?Send)]
impl Raw for RawPostgres {
    async fn enqueue(&self, count: usize) -> Result<u64, Failure> {
        let ids: Vec<Uuid> = (0..count).map(|_| self.ids.job().as_uuid()).collect();
        let all = |text: &'static str| vec![text; count];
        let (client, insert) = &self.enqueue;
        client.query(insert, &[&ids, &all(QUEUE), &all(KIND), &all(PAYLOAD)]).await?;
        Ok(count as u64)
    }

    async fn drain(&self, count: usize) -> Result<u64, Failure> {
        let drains: Vec<_> = self
            .lanes
            .iter()
            .map(|lane| {
                let lane = lane.clone();
                tokio::spawn(async move { lane.lock().await.drain(count).await })
            })
            .collect();
        let mut done = 0;
        for drain in drains {
            done += drain.await??;
        }
        Ok(done)
    }
}

impl Lane {
    async fn open(
        database: &PostgresDatabase,
        ids: Arc<Ids>,
        node: NodeId,
    ) -> Result<Lane, Failure> {
        let client = database.connect().await?;
        let claim = client.prepare_typed(&qualify(CLAIM), &[Type::TIMESTAMPTZ]).await?;
        let settle = client.prepare_typed(&qualify(SETTLE), &[Type::TIMESTAMPTZ]).await?;
        let mark = (SystemTime::UNIX_EPOCH, Uuid::nil());
        Ok(Lane { client, claim, settle, ids, node, mark })
    }

    async fn drain(&mut self, count: usize) -> Result<u64, Failure> {
        let mut done = 0;
        for _ in 0..BATCHES {
            let lease = self.ids.lease().as_uuid();
            let jobs = self.claim(count, lease).await?;
            if jobs.is_empty() {
                break;
            }
            done += jobs.len() as u64;
            self.settle(jobs, lease).await?;
        }
        Ok(done)
    }

    async fn claim(&mut self, count: usize, lease: Uuid) -> Result<Vec<Uuid>, Failure> {
        let (rank, job) = self.mark;
        let found = self
            .client
            .query(
                &self.claim,
                &[
                    &None::<SystemTime>,
                    &[QUEUE].as_slice(),
                    &[i32::try_from(count)?].as_slice(),
                    &[rank].as_slice(),
                    &[job].as_slice(),
                    &[KIND].as_slice(),
                    &i64::try_from(count)?,
                    &[lease].as_slice(),
                    &self.node.as_uuid(),
                    &false,
                    &rules::UNREADABLE,
                ],
            )
            .await?;
        let mut jobs = Vec::with_capacity(found.len());
        for row in &found {
            let Some(job) = row.try_get::<_, Option<Uuid>>(4)? else { continue };
            // As whoever works on it must.
            let _payload: String = row.try_get(24)?;
            self.mark = self.mark.max((row.try_get(3)?, job));
            jobs.push(job);
        }
        Ok(jobs)
    }

    async fn settle(&self, mut jobs: Vec<Uuid>, lease: Uuid) -> Result<(), Failure> {
        // In one order, as the statement asks for.
        jobs.sort_unstable();
        let count = jobs.len();
        let settled = self
            .client
            .query(
                &self.settle,
                &[
                    &None::<SystemTime>,
                    &jobs,
                    &vec![lease; count],
                    &vec![AttemptOutcome::Succeeded.code(); count],
                    &vec![JobState::Succeeded.code(); count],
                    &Vec::<Option<i64>>::new(),
                    &Vec::<Option<&str>>::new(),
                    &Vec::<Option<&str>>::new(),
                    &rules::UNREADABLE,
                ],
            )
            .await?;
        match settled.len() == count {
            true => Ok(()),
            false => Err(format!("only {} of {count} jobs were settled", settled.len()).into()),
        }
    }
}
