//! The bare statements on SQLite.

use std::path::Path;

use async_trait::async_trait;
use punctual_core::{JobId, LeaseId, NodeId};
use punctual_sqlite::{Options, SqliteStore};
use rusqlite::{Connection, params};

use crate::Failure;
use crate::ids::Ids;
use crate::raw::{KIND, PAYLOAD, QUEUE, Raw};

const JOB_INSERT: &str = include_str!("../../../crates/punctual-sqlite/sql/job_insert.sql");
const READY_INSERT: &str = include_str!("../../../crates/punctual-sqlite/sql/ready_insert.sql");
const CLAIM: &str = include_str!("../../../crates/punctual-sqlite/sql/claim.sql");
const READY_DELETE: &str = include_str!("../../../crates/punctual-sqlite/sql/ready_delete.sql");
const LEASE_INSERT: &str = include_str!("../../../crates/punctual-sqlite/sql/lease_insert.sql");
const LEASE_TAKE: &str = include_str!("../../../crates/punctual-sqlite/sql/lease_take.sql");
const DONE_INSERT: &str = include_str!("../../../crates/punctual-sqlite/sql/done_insert.sql");

/// The one arm of a claim for one kind.
const ARM: &str = "SELECT rank, job, queue, kind, due_at, priority, attempt, spent, crashes, flags \
                   FROM punctual_job_ready WHERE queue = ?1 AND kind = ?3";

/// Any instant; time plays no part.
const NOW: i64 = 1_800_000_000_000_000;

/// A file with our tables and a connection with our settings, and nothing else of ours.
pub(crate) struct RawSqlite {
    db: Connection,
    ids: Ids,
    node: NodeId,
    claim: String,
}

impl RawSqlite {
    pub(crate) fn open(path: &Path) -> Result<RawSqlite, Failure> {
        drop(SqliteStore::open(path, Options::engine())?);
        let db = Connection::open(path)?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "cache_size", -65_536)?;
        db.pragma_update(None, "wal_autocheckpoint", 4_000)?;
        db.set_prepared_statement_cache_capacity(64);
        let ids = Ids::new(1);
        let node = ids.node();
        Ok(RawSqlite { db, ids, node, claim: CLAIM.replace("{arms}", ARM) })
    }

    fn claim(&self, count: usize, lease: LeaseId) -> Result<Vec<JobId>, Failure> {
        self.db.execute_batch("BEGIN IMMEDIATE")?;
        let mut jobs = Vec::with_capacity(count);
        let mut last = NOW;
        {
            let mut claim = self.db.prepare_cached(&self.claim)?;
            let mut found = claim.query(params![QUEUE, count as i64, KIND])?;
            while let Some(row) = found.next()? {
                last = row.get(0)?;
                // As whoever works on it must.
                let _payload: String = row.get(21)?;
                jobs.push(JobId::from_bytes(row.get(1)?));
            }
            if let Some(job) = jobs.last() {
                self.db.prepare_cached(READY_DELETE)?.execute(params![
                    QUEUE,
                    KIND,
                    last,
                    job.as_bytes()
                ])?;
            }
            let mut insert = self.db.prepare_cached(LEASE_INSERT)?;
            for job in &jobs {
                insert.execute(params![
                    job.as_bytes(),
                    lease.as_bytes(),
                    self.node.as_bytes(),
                    QUEUE,
                    KIND,
                    NOW,
                    0,
                    1,
                    0,
                    0,
                    0,
                    NOW
                ])?;
            }
        }
        self.db.execute_batch("COMMIT")?;
        Ok(jobs)
    }
}

#[async_trait(?Send)]
impl Raw for RawSqlite {
    async fn enqueue(&self, count: usize) -> Result<u64, Failure> {
        self.db.execute_batch("BEGIN IMMEDIATE")?;
        {
            let mut job = self.db.prepare_cached(JOB_INSERT)?;
            let mut ready = self.db.prepare_cached(READY_INSERT)?;
            for _ in 0..count {
                let id = self.ids.job();
                let none = rusqlite::types::Null;
                job.execute(params![
                    id.as_bytes(),
                    "",
                    "",
                    QUEUE,
                    KIND,
                    0,
                    5,
                    none,
                    none,
                    none,
                    NOW,
                    none,
                    none,
                    none,
                    none,
                    none,
                    none,
                    none,
                    none,
                    PAYLOAD
                ])?;
                ready.execute(params![QUEUE, KIND, NOW, id.as_bytes(), NOW, 0, 0, 0, 0, 0])?;
            }
        }
        self.db.execute_batch("COMMIT")?;
        Ok(count as u64)
    }

    async fn drain(&self, count: usize) -> Result<u64, Failure> {
        let lease = self.ids.lease();
        let jobs = self.claim(count, lease)?;
        self.db.execute_batch("BEGIN IMMEDIATE")?;
        {
            let mut take = self.db.prepare_cached(LEASE_TAKE)?;
            let mut done = self.db.prepare_cached(DONE_INSERT)?;
            for job in &jobs {
                let (node, attempt): (Vec<u8>, i64) = take
                    .query_row(params![job.as_bytes(), lease.as_bytes()], |row| {
                        Ok((row.get(0)?, row.get(5)?))
                    })?;
                let none = rusqlite::types::Null;
                done.execute(params![
                    job.as_bytes(),
                    1,
                    NOW,
                    attempt,
                    1,
                    0,
                    lease.as_bytes(),
                    node,
                    NOW,
                    none,
                    none,
                    none,
                    none
                ])?;
            }
        }
        self.db.execute_batch("COMMIT")?;
        Ok(jobs.len() as u64)
    }
}
