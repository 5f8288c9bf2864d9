//! Jobs as columns: one statement writes any number of them.

use std::borrow::Cow;

use punctual_core::Timestamp;
use punctual_store::{At, Delay, KeyLifetime, KeyScope, NewJob};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::connection::Conn;
use crate::error::Outcome;
use crate::rows::{self, Instant};
use crate::session::Session;
use crate::sql;

/// The job has, or had, a unique key.
pub(crate) const HAS_KEY: i16 = 1;
/// The job is among its schedule's unfinished ones.
pub(crate) const IS_LIVE: i16 = 8;
/// The job has one attempt, so that its claim must not be forgotten.
pub(crate) const RUNS_ONCE: i16 = 16;

/// The flags that follow from a job's body.
pub(crate) fn flags(has_key: bool, is_live: bool, max_attempts: u32) -> i16 {
    i16::from(has_key) * HAS_KEY
        + i16::from(is_live) * IS_LIVE
        + i16::from(max_attempts == 1) * RUNS_ONCE
}

pub(crate) fn scope_code(scope: KeyScope) -> i16 {
    match scope {
        KeyScope::Tenant => 1,
        KeyScope::Kind => 2,
        KeyScope::Queue => 3,
    }
}

/// Jobs to be written, each id once.
#[derive(Default)]
pub(crate) struct Bodies<'a> {
    ids: Vec<Uuid>,
    tenants: Vec<&'a str>,
    owners: Vec<&'a str>,
    queues: Vec<&'a str>,
    kinds: Vec<&'a str>,
    priorities: Vec<i16>,
    max_attempts: Vec<i32>,
    timeouts: Vec<Option<i64>>,
    budgets: Vec<Option<i64>>,
    expiries: Vec<Option<i64>>,
    delays: Vec<Option<i64>>,
    dues: Vec<Option<Instant>>,
    schedules: Vec<Option<Uuid>>,
    slots: Vec<Option<Instant>>,
    facts: Vec<Option<&'a str>>,
    keys: Vec<Option<Cow<'a, str>>>,
    scopes: Vec<Option<i16>>,
    lifetimes: Vec<Option<i64>>,
    tags: Vec<Option<String>>,
    traces: Vec<Option<Cow<'a, str>>>,
    payloads: Vec<&'a str>,
    flags: Vec<i16>,
    blocked: Vec<Option<bool>>,
}

impl<'a> Bodies<'a> {
    /// Adds a job; one of a schedule may have to wait for its earlier ones.
    pub(crate) fn push(&mut self, job: &'a NewJob, is_blocked: bool) {
        let (unique, origin) = (job.unique.as_ref(), job.origin.as_ref());
        let (delay, due) = match job.delay {
            Delay::None => (None, None),
            Delay::For(wait) => (Some(rows::micros(wait)), None),
            Delay::Until(instant) => (None, Some(Instant(instant))),
        };
        let row = self.ids.len();
        self.ids.push(job.id.as_uuid());
        self.tenants.push(&job.tenant);
        self.owners.push(&job.owner);
        self.queues.push(&job.queue);
        self.kinds.push(&job.kind);
        self.priorities.push(job.priority);
        self.max_attempts.push(i32::try_from(job.max_attempts).unwrap_or(i32::MAX));
        rows::put(&mut self.timeouts, row, job.timeout.map(rows::micros));
        rows::put(&mut self.budgets, row, job.budget.map(rows::micros));
        rows::put(&mut self.expiries, row, job.start_within.map(rows::micros));
        rows::put(&mut self.delays, row, delay);
        rows::put(&mut self.dues, row, due);
        rows::put(&mut self.schedules, row, origin.map(|origin| origin.schedule.as_uuid()));
        let slot = origin.and_then(|origin| origin.slot).map(Instant);
        rows::put(&mut self.slots, row, slot);
        rows::put(&mut self.facts, row, origin.map(|origin| origin.facts.as_str()));
        rows::put(&mut self.keys, row, unique.map(|unique| rows::text(&unique.key)));
        rows::put(&mut self.scopes, row, unique.map(|unique| scope_code(unique.scope)));
        let lifetime = unique.and_then(|unique| match unique.lifetime {
            KeyLifetime::Job => None,
            KeyLifetime::For(wait) => Some(rows::micros(wait)),
        });
        rows::put(&mut self.lifetimes, row, lifetime);
        rows::put(&mut self.tags, row, (!job.tags.is_empty()).then(|| rows::list_text(&job.tags)));
        rows::put(&mut self.traces, row, job.trace.as_deref().map(rows::text));
        self.payloads.push(job.payload.as_str());
        self.flags.push(flags(unique.is_some(), origin.is_some(), job.max_attempts));
        rows::put(&mut self.blocked, row, is_blocked.then_some(true));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Writes them as a transaction of its own, and tells the instant that was used. As a rule
    /// none of them is there; a repeat after a lost answer finds out, and writes what is not.
    pub(crate) async fn write(&self, conn: &mut Conn, at: At) -> Outcome<Timestamp> {
        let at = rows::at(at);
        let bound = self.bound(&at);
        let written = match conn.query_one(&sql::JOB_INSERT_NEW, &bound).await {
            Err(fault) if fault.is_duplicate() => conn.query_one(&sql::JOB_INSERT, &bound).await,
            written => written,
        };
        rows::instant(&written?, 0)
    }

    /// Writes them, if there are any, inside a transaction that goes by this instant.
    pub(crate) async fn write_within(
        &self,
        session: &mut impl Session,
        now: Timestamp,
    ) -> Outcome<()> {
        if !self.is_empty() {
            self.insert(session, At::Fixed(now)).await?;
        }
        Ok(())
    }

    /// Writes those that are not there yet inside a transaction, and tells the instant that was used.
    pub(crate) async fn insert(&self, session: &mut impl Session, at: At) -> Outcome<Timestamp> {
        let at = rows::at(at);
        let written = session.query_one(&sql::JOB_INSERT, &self.bound(&at)).await?;
        rows::instant(&written, 0)
    }

    /// Writes them as the end of a transaction that goes by this instant.
    pub(crate) async fn commit(&self, conn: &mut Conn, now: Timestamp) -> Outcome<()> {
        let at = Some(Instant(now));
        conn.commit_with(&sql::JOB_INSERT, &self.bound(&at)).await?;
        Ok(())
    }

    fn bound<'b>(&'b self, at: &'b Option<Instant>) -> [&'b (dyn ToSql + Sync); 24] {
        [
            at,
            &self.ids,
            &self.tenants,
            &self.owners,
            &self.queues,
            &self.kinds,
            &self.priorities,
            &self.max_attempts,
            &self.timeouts,
            &self.budgets,
            &self.expiries,
            &self.delays,
            &self.dues,
            &self.schedules,
            &self.slots,
            &self.facts,
            &self.keys,
            &self.scopes,
            &self.lifetimes,
            &self.tags,
            &self.traces,
            &self.payloads,
            &self.flags,
            &self.blocked,
        ]
    }
}
