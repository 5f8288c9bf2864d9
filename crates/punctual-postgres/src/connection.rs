//! One connection: it runs statements, prepared if it leads straight to the server.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{FutureExt, future};
use tokio::task::AbortHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::connect::Connector;
use crate::disk::Disk;
use crate::error::{Fault, Outcome};
use crate::sql::{Statement, Texts};

/// The values of a statement's parameters.
pub(crate) type Bound<'a> = &'a [&'a (dyn ToSql + Sync)];

/// How long a statement may take, in milliseconds; the beat of a node must not wait for longer.
pub(crate) const STATEMENT_MS: u32 = 2_000;
/// How long a statement waits for a lock: less, so that it is the lock that is told of.
pub(crate) const LOCK_MS: u32 = 1_000;
/// The same where many others would wait along.
const HURRIED_MS: u32 = 100;
/// How long an answer is waited for before the connection counts as lost. On a direct connection the
/// server ends a statement sooner and says so; this is for a server that cannot be heard any more,
/// and behind a pooler, where a role without timeouts lets a statement run for ever.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a transaction of ours may do nothing: its owner is gone.
pub(crate) const IDLE_MS: u32 = 5_000;

/// A connection.
pub(crate) struct Conn {
    client: Client,
    /// What reads and writes its messages.
    driven: AbortHandle,
    texts: Arc<Texts>,
    disk: Arc<Disk>,
    prepared: HashMap<&'static str, tokio_postgres::Statement>,
    is_pooled: bool,
    in_transaction: bool,
    /// Is an answer outstanding? It stays so if nobody waited for it to the end.
    is_asked: AtomicBool,
    patience: Duration,
}

impl Conn {
    pub(crate) fn new(client: Client, driven: AbortHandle, connector: &Connector) -> Conn {
        Conn {
            client,
            driven,
            texts: connector.texts().clone(),
            disk: connector.disk.clone(),
            prepared: HashMap::new(),
            is_pooled: connector.is_pooled(),
            in_transaction: false,
            is_asked: AtomicBool::new(false),
            patience: PATIENCE,
        }
    }

    /// May it be used again?
    pub(crate) fn is_sound(&self) -> bool {
        !self.client.is_closed() && !self.in_transaction && !self.is_left()
    }

    /// Did somebody stop waiting for its answer? Whoever used it next would wait for that one first,
    /// perhaps for ever.
    pub(crate) fn is_left(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Waits longer for answers from now on, until the transaction ends.
    pub(crate) fn be_patient(&mut self, patience: Duration) {
        self.patience = patience;
    }

    fn ended(&mut self) {
        self.in_transaction = false;
        self.patience = PATIENCE;
    }

    /// Waits for an answer, but not for ever.
    async fn answered<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Outcome<T> {
        self.is_asked.store(true, Ordering::Relaxed);
        let Ok(answered) = tokio::time::timeout(self.patience, answer).await else {
            return Err(Fault::Silence(self.patience));
        };
        self.is_asked.store(false, Ordering::Relaxed);
        Ok(answered.inspect_err(|error| self.disk.note(error))?)
    }

    pub(crate) fn texts(&self) -> &Texts {
        &self.texts
    }

    /// Runs a statement.
    pub(crate) async fn query(
        &mut self,
        statement: &Statement,
        bound: Bound<'_>,
    ) -> Outcome<Vec<Row>> {
        self.prepare(statement).await?;
        self.answered(self.send(statement, bound)).await
    }

    /// Runs a statement that answers with one row.
    pub(crate) async fn query_one(
        &mut self,
        statement: &Statement,
        bound: Bound<'_>,
    ) -> Outcome<Row> {
        let rows = self.query(statement, bound).await?;
        first(rows, statement.name)
    }

    /// Begins a transaction and runs its first statement in the same round trip.
    pub(crate) async fn begin_with(
        &mut self,
        statement: &Statement,
        bound: Bound<'_>,
    ) -> Outcome<Vec<Row>> {
        let begin = self.begin_text();
        self.begin_as(&begin, statement, bound).await
    }

    /// The same for a transaction that hardly waits for locks.
    pub(crate) async fn begin_hurried_with(
        &mut self,
        statement: &Statement,
        bound: Bound<'_>,
    ) -> Outcome<Vec<Row>> {
        let begin = format!("{}; SET LOCAL lock_timeout = {HURRIED_MS}", self.begin_text());
        self.begin_as(&begin, statement, bound).await
    }

    /// The same for a transaction that only reads and sees one moment.
    pub(crate) async fn begin_snapshot_with(
        &mut self,
        statement: &Statement,
        bound: Bound<'_>,
    ) -> Outcome<Vec<Row>> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.begin_as(begin, statement, bound).await
    }

    async fn begin_as(
        &mut self,
        begin: &str,
        statement: &Statement,
        bound: Bound<'_>,
    ) -> Outcome<Vec<Row>> {
        self.prepare(statement).await?;
        self.in_transaction = true;
        let both = future::join(self.client.batch_execute(begin), self.send(statement, bound));
        self.answered(both.map(|(begun, rows)| begun.and(rows))).await
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&mut self) -> Outcome<()> {
        self.in_transaction = true;
        let begin = self.begin_text();
        self.answered(self.client.batch_execute(&begin)).await
    }

    /// Behind a pooler a session's settings are another's, so they are set for the transaction.
    fn begin_text(&self) -> String {
        if !self.is_pooled {
            return "BEGIN".to_owned();
        }
        format!(
            "BEGIN; SET LOCAL statement_timeout = {STATEMENT_MS}; SET LOCAL lock_timeout = {LOCK_MS}; \
             SET LOCAL idle_in_transaction_session_timeout = {IDLE_MS}"
        )
    }

    /// Runs the last statement of a transaction and ends it in the same round trip. If the
    /// statement fails, PostgreSQL ends the transaction by taking it back.
    pub(crate) async fn commit_with(
        &mut self,
        statement: &Statement,
        bound: Bound<'_>,
    ) -> Outcome<Vec<Row>> {
        self.prepare(statement).await?;
        let both = future::join(self.send(statement, bound), self.client.batch_execute("COMMIT"));
        let both = both.map(|(rows, ended)| rows.and_then(|rows| ended.map(|()| rows)));
        let rows = self.answered(both).await?;
        self.ended();
        Ok(rows)
    }

    pub(crate) async fn commit(&mut self) -> Outcome<()> {
        self.answered(self.client.batch_execute("COMMIT")).await?;
        self.ended();
        Ok(())
    }

    /// Takes back whatever transaction is under way.
    pub(crate) async fn rollback(&mut self) -> Outcome<()> {
        if self.in_transaction {
            self.answered(self.client.batch_execute("ROLLBACK")).await?;
            self.ended();
        }
        Ok(())
    }

    /// Runs statements that have no parameters, as a script does.
    pub(crate) async fn script(&mut self, text: &str) -> Outcome<()> {
        self.answered(self.client.batch_execute(text)).await
    }

    /// Runs a statement made for the occasion.
    pub(crate) async fn query_text(
        &mut self,
        text: &str,
        bound: &[(&(dyn ToSql + Sync), Type)],
    ) -> Outcome<Vec<Row>> {
        self.answered(self.client.query_typed(text, bound)).await
    }

    /// On a direct connection a statement is prepared when it is first used.
    async fn prepare(&mut self, statement: &Statement) -> Outcome<()> {
        if !self.is_pooled && !self.prepared.contains_key(statement.name) {
            let text = self.texts.of(statement);
            let prepared = self.answered(self.client.prepare_typed(text, statement.types)).await?;
            self.prepared.insert(statement.name, prepared);
        }
        Ok(())
    }

    async fn send(
        &self,
        statement: &Statement,
        bound: Bound<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        match self.prepared.get(statement.name) {
            Some(prepared) => self.client.query(prepared, bound).await,
            None => {
                let typed: Vec<(&(dyn ToSql + Sync), Type)> =
                    bound.iter().copied().zip(statement.types.iter().cloned()).collect();
                self.client.query_typed(self.texts.of(statement), &typed).await
            }
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if self.is_left() {
            // It would stay open until the answer has come.
            self.driven.abort();
        }
    }
}

/// The one row of an answer that always has one.
pub(crate) fn first<R>(rows: Vec<R>, name: &str) -> Outcome<R> {
    rows.into_iter().next().ok_or_else(|| Fault::Row(format!("statement `{name}` returned no row")))
}
