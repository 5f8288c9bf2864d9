//! Every answer of `why`, reached for real on two stores, which must agree, and read as people
//! read it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod ended;
mod jobs;
mod keys;
mod queues;
mod running;
mod schedules;
mod silence;

use punctual::why::{self, Why};
use punctual_conformance::World;
use punctual_core::JobId;

pub(crate) async fn why_job(world: &World<'_>, job: JobId) -> Why {
    why::job(world.store(), world.at(), job).await.unwrap()
}

pub(crate) async fn why_schedule(world: &World<'_>, name: &str) -> Why {
    why::schedule(world.store(), world.at(), "", name).await.unwrap()
}

pub(crate) async fn why_queue(world: &World<'_>, name: &str) -> Why {
    why::queue(world.store(), world.at(), name).await.unwrap()
}

/// The words for programs, in order.
pub(crate) fn codes(why: &Why) -> Vec<&'static str> {
    why.reasons.iter().map(|reason| reason.code).collect()
}
