//! punctual as one of its peers: in its default configuration, measured by the harness that the
//! rivals in Rust are measured by.

#[path = "../peers/rust/harness.rs"]
mod harness;

use std::future::pending;
use std::ops::Range;
use std::sync::Arc;

use punctual_core::JobId;
use punctual_core::job::Outcome;
use punctual_engine::{Attempt, Config, Ended, Engine, Env, Handlers, System};
use punctual_postgres::{Options, PostgresStore};
use punctual_store::{At, Json, NewJob, Store};
use tokio_postgres::{Client, NoTls};

use crate::Failure;
use crate::raw::{KIND, QUEUE};
use harness::{Ask, Peer, handled, measure, padding, url};

/// What a harness is asked comes as words; its concurrency is that of the default configuration.
pub(crate) fn run(words: Vec<String>) -> Result<(), Failure> {
    let ask = Ask::read(words.into_iter())?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let store = Arc::new(PostgresStore::connect(&url()?, Options::new()).await?);
        let counter = Arc::new(connect(&url()?).await?);
        measure(&ask, Punctual { store, counter }).await
    })
}

/// A connection of its own, to ask what no port offers.
pub(crate) async fn connect(url: &str) -> Result<Client, Failure> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

#[derive(Clone)]
struct Punctual {
    store: Arc<PostgresStore>,
    counter: Arc<Client>,
}

fn job(number: u64) -> NewJob {
    let env: &dyn Env = &System;
    let payload = format!(r#"{{"id":{number},"padding":"{}"}}"#, padding());
    NewJob::new(JobId::mint(env.wall(), env.seed()), QUEUE, KIND, Json::from_canonical(payload))
}

impl Peer for Punctual {
    async fn enqueue(&mut self, number: u64) -> Result<(), Failure> {
        self.store.enqueue(At::Database, &[job(number)]).await?;
        Ok(())
    }

    async fn enqueue_many(&mut self, numbers: Range<u64>) -> Result<(), Failure> {
        self.store.enqueue(At::Database, &numbers.map(job).collect::<Vec<_>>()).await?;
        Ok(())
    }

    async fn work(&self) -> Result<(), Failure> {
        let mut handlers = Handlers::default();
        handlers.add(KIND, |_: Attempt| async {
            handled();
            Ended::from(Outcome::Done)
        });
        let (env, store) = (Arc::new(System), self.store.clone());
        let _engine = Engine::start(env, store, Config::default(), handlers).await?;
        pending().await
    }

    async fn remaining(&self) -> Result<i64, Failure> {
        let count = "SELECT (SELECT count(*) FROM punctual.job_ready) \
                     + (SELECT count(*) FROM punctual.job_timer) \
                     + (SELECT count(*) FROM punctual.job_lease)";
        Ok(self.counter.query_one(count, &[]).await?.try_get(0)?)
    }
}
