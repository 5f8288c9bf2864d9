//! The library as an application uses it, with a clock that stands still, on the store in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod deploying;
mod enqueueing;
mod handling;
mod leaving;
mod logged;
mod logging;
mod mistakes;
mod partitions;
mod queues;
mod registering;
mod remote;
mod remote_statements;
mod starting;
mod steps;
mod testing;
mod towers;
mod transacting;
mod waiting;

use punctual::testing::Frozen;
use punctual::{Builder, Job, Punctual};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Job)]
#[job(queue = "mail")]
pub(crate) struct Mail {
    pub(crate) to: String,
}

pub(crate) fn mail(to: &str) -> Mail {
    Mail { to: to.to_owned() }
}

pub(crate) async fn deliver(_: Mail) {}

pub(crate) async fn frozen<S: Clone + Send + Sync + 'static>(builder: Builder<S>) -> Frozen {
    builder.start_frozen().await.expect("it starts")
}

pub(crate) async fn mailing() -> Frozen {
    frozen(Punctual::memory().handle(deliver)).await
}
