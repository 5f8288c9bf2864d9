//! Jobs in the caller's own transaction: they are written, or their attempts settled, when it commits
//! and not otherwise. The statements are the store's own, and so are the answers.

#[cfg(feature = "sqlx")]
mod sqlx;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use punctual_core::job::JobState;
use punctual_store::{
    At, ClusterKey, Enqueued, ErrorKind, NewJob, Result, Settled, Settlement, limits, rules,
};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Transaction};

use crate::connection::Bound;
use crate::error::Outcome;
use crate::options::check_schema;
use crate::session::Session;
use crate::settle::settle_within;
use crate::sql::{self, Statement, Texts};
use crate::{cluster_key, enqueue, keys, wake};

/// Writes jobs, and settles attempts, in transactions of the caller's.
///
/// Nothing is begun, committed, prepared or set, so that it works through a pooler as well. An error
/// of the database ends the transaction, as PostgreSQL has it; roll it back. Do the same when a call
/// was not waited for to its end.
///
/// ```no_run
/// # async fn example(
/// #     client: &mut tokio_postgres::Client,
/// #     store: &punctual_postgres::PostgresStore,
/// #     job: punctual_store::NewJob,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let tx = client.transaction().await?;
/// tx.execute("INSERT INTO customer (name) VALUES ('Ada')", &[]).await?;
/// store.in_transaction().enqueue(&tx, &[job]).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InTransaction {
    texts: Arc<Texts>,
    /// The key of the store's database. Without a store it is not known which database the
    /// transactions are on, so each call that needs the key reads it.
    cluster_key: Option<Arc<ClusterKey>>,
    /// Where other processes listen; none if they do not.
    channel: Option<Arc<str>>,
    /// The server as people know it.
    server: Arc<str>,
    at: At,
}

impl InTransaction {
    /// For the tables in this schema, which a store has made before.
    pub fn new(schema: &str) -> Result<InTransaction> {
        check_schema(schema)?;
        let channel = Some(wake::channel(schema));
        Ok(InTransaction::of(
            Arc::new(Texts::new(schema)),
            None,
            channel,
            "the server of the transaction",
        ))
    }

    pub(crate) fn of(
        texts: Arc<Texts>,
        cluster_key: Option<Arc<ClusterKey>>,
        channel: Option<String>,
        server: &str,
    ) -> InTransaction {
        InTransaction {
            texts,
            cluster_key,
            channel: channel.map(Into::into),
            server: server.into(),
            at: At::Database,
        }
    }

    /// The same by this clock, for tests that own it.
    #[must_use]
    pub fn at(mut self, at: At) -> InTransaction {
        self.at = at;
        self
    }

    /// Writes jobs, or says why not, one by one. A unique key is held from now on; whoever else wants
    /// it waits for the end of the transaction.
    pub async fn enqueue(&self, tx: &Transaction<'_>, jobs: &[NewJob]) -> Result<Enqueued> {
        let mut session = Theirs { tx, texts: &self.texts };
        self.enqueue_by(&mut session, jobs).await
    }

    /// Settles an attempt. From now on its lease is locked; commit soon. Unless the answer is
    /// [`Settled::Applied`], nothing was changed, and the transaction should be rolled back: the job
    /// is another's, or has had its effect already.
    pub async fn settle(&self, tx: &Transaction<'_>, item: &Settlement) -> Result<Settled> {
        let mut session = Theirs { tx, texts: &self.texts };
        self.settle_by(&mut session, item).await
    }

    async fn enqueue_by(&self, session: &mut impl Session, jobs: &[NewJob]) -> Result<Enqueued> {
        rules::check_count(jobs.len(), limits::ENQUEUE_MAX, "jobs")?;
        let written = async {
            let enqueued = if jobs.iter().any(|job| job.unique.is_some()) {
                let key = match &self.cluster_key {
                    Some(key) => key.clone(),
                    None => Arc::new(cluster_key::read(session).await?),
                };
                let jobs: Vec<Cow<'_, NewJob>> = jobs.iter().map(|job| key.with_key(job)).collect();
                let jobs: Vec<&NewJob> = jobs.iter().map(|job| &**job).collect();
                keys::enqueue_within(session, &key, self.at, &jobs).await?
            } else {
                enqueue::enqueue_within(session, self.at, jobs).await?
            };
            if enqueued.has_new() {
                self.tell_work(session).await?;
            }
            Ok(enqueued)
        };
        self.told(written.await)
    }

    async fn settle_by(&self, session: &mut impl Session, item: &Settlement) -> Result<Settled> {
        let batch = std::slice::from_ref(item);
        rules::check_settlements(batch)?;
        let settled = async {
            let ended = settle_within(session, self.at, batch).await?;
            let settled = ended.answers.first().copied().unwrap_or(Settled::Fenced);
            let follows = matches!(settled, Settled::Applied(_)) && !item.then.is_empty();
            let has_room = ended.has_room.contains(&true);
            if follows || has_room || settled == Settled::Applied(JobState::Ready) {
                self.tell_work(session).await?;
            }
            Ok(settled)
        };
        self.told(settled.await)
    }

    /// Wakes the nodes, when the transaction commits.
    async fn tell_work(&self, session: &mut impl Session) -> Outcome<()> {
        if let Some(channel) = &self.channel {
            let bound: Bound<'_> = &[&&**channel, &wake::about_work_within()];
            session.query(&sql::NOTIFY_WITHIN, bound).await?;
        }
        Ok(())
    }

    fn told<T>(&self, outcome: Outcome<T>) -> Result<T> {
        outcome.map_err(|fault| {
            let error = fault.tell(&self.server);
            match error.kind() {
                ErrorKind::Retry => {
                    let message = format!("roll the transaction back: {error}");
                    error.with_message(message)
                }
                _ => error,
            }
        })
    }
}

impl fmt::Debug for InTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.texts.schema();
        f.debug_struct("InTransaction")
            .field("server", &self.server)
            .field("schema", &schema)
            .finish()
    }
}

/// A transaction of tokio-postgres.
struct Theirs<'a> {
    tx: &'a Transaction<'a>,
    texts: &'a Texts,
}

impl Session for Theirs<'_> {
    type Row = Row;

    async fn query(&mut self, statement: &Statement, bound: Bound<'_>) -> Outcome<Vec<Row>> {
        let typed: Vec<(&(dyn ToSql + Sync), Type)> =
            bound.iter().copied().zip(statement.types.iter().cloned()).collect();
        Ok(self.tx.query_typed(self.texts.of(statement), &typed).await?)
    }
}
