//! How long each node takes to do everything again after its database is there again.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// No node may take longer.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);
/// How long one that did is waited for, so that it is known by how much.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// When a node last showed that it does everything: when it began to write a job that it then
/// claimed, ran, settled and saw succeed, in µs of the wall clock.
#[derive(Default)]
pub(crate) struct Shown(AtomicI64);

impl Shown {
    pub(crate) fn note(&self, began: i64) {
        self.0.fetch_max(began, Ordering::Relaxed);
    }

    pub(crate) fn has_since(&self, instant: i64) -> bool {
        self.0.load(Ordering::Relaxed) >= instant
    }
}

/// Every recovery of every node.
#[derive(Default)]
pub(crate) struct Recoveries(Vec<Duration>);

impl Recoveries {
    pub(crate) fn note(&mut self, took: Duration) {
        self.0.push(took);
        self.0.sort_unstable();
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn late(&self) -> usize {
        self.0.iter().filter(|took| **took > LONGEST).count()
    }

    pub(crate) fn median(&self) -> Duration {
        self.0.get(self.0.len() / 2).copied().unwrap_or_default()
    }

    pub(crate) fn worst(&self) -> Duration {
        self.0.last().copied().unwrap_or_default()
    }
}
