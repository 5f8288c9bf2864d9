//! The worker: an engine whose handler has its effect and settles its job in one transaction.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::job::{AttemptOutcome, Next, Outcome, Transition};
use punctual_engine::{Attempt, Config, Ended, Engine, Env, Handlers, System};
use punctual_store::Settlement;

use super::KIND;
use super::effects::Effects;
use crate::Failure;
use crate::database::Database;
use crate::worker::{drained, hurried, say};

/// What it says of each job: the effect is in a transaction, the settlement too, both are committed.
pub(super) const HAD_EFFECT: &str = "had effect";
pub(super) const SETTLED: &str = "settled";
pub(super) const COMMITTED: &str = "committed";

/// Handlers at work: few, since each kill costs those at work an attempt, and three end a job.
const RUNNING_MAX: usize = 8;
/// How often it says that it is there: whoever waits for so many lines shall not wait for ever.
const ALIVE_EVERY: Duration = Duration::from_millis(100);

/// Works until it is killed, or has drained.
pub(crate) fn work(database: &Database, drains: bool) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let store = database.open_in_time().await?;
        let effects = Effects::new(database);
        let mut handlers = Handlers::default();
        handlers.add(KIND, move |attempt| handle(attempt, effects.clone()));
        let config = Config { max_running: RUNNING_MAX, ..hurried() };
        let engine = Engine::start(Arc::new(System), store.clone(), config, handlers).await?;
        tokio::select! {
            drained = drained(&*store), if drains => drained?,
            () = say_alive() => {}
        }
        engine.stop();
        match engine.stopped().await.unsettled {
            0 => Ok(()),
            unsettled => Err(format!("{unsettled} outcomes were not settled").into()),
        }
    })
}

async fn say_alive() {
    loop {
        say(format_args!("alive"));
        System.sleep(ALIVE_EVERY).await;
    }
}

/// What is not committed has not happened: then the attempt has failed, whatever else is the case.
async fn handle(attempt: Attempt, effects: Effects) -> Ended {
    let item = Settlement {
        job: attempt.job.id,
        lease: attempt.job.lease,
        transition: Transition {
            outcome: AttemptOutcome::Succeeded,
            next: Next::Succeeded,
            error: None,
        },
        result: None,
        then: Vec::new(),
    };
    match effects.have(item).await {
        Ok(()) => Ended::from(Outcome::Done),
        Err(error) => Ended::from(Outcome::Fail(error.to_string())),
    }
}
