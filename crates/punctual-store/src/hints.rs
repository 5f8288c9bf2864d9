//! Hints: word that something may have changed, so that nobody has to keep asking.
//!
//! A hint may come late, come for nothing or not come at all; whoever listens also looks by
//! itself now and then, and nothing but speed depends on hints.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// What a hint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// There may be jobs to claim.
    Work,
    /// A role may be free.
    Roles,
    /// Schedules were written or changed.
    Schedules,
    /// Jobs have finished. Raised only in the process that finished them: a message to all processes for
    /// each batch of results would cost more than the polls that it replaces.
    Finished,
}

/// Where a store gives its hints.
#[derive(Debug, Default)]
pub struct Bell {
    work: Arc<Rings>,
    roles: Arc<Rings>,
    schedules: Arc<Rings>,
    finished: Arc<Rings>,
}

/// How often a bell has rung. `Notify` wakes in the order of waiting, so that a simulated run
/// can be repeated; a watch channel wakes by chance.
#[derive(Debug, Default)]
struct Rings {
    count: AtomicU64,
    rung: Notify,
}

/// Where hints about one topic arrive. Many in a row are one.
#[derive(Clone, Debug)]
pub struct Hints {
    rings: Arc<Rings>,
    heard: u64,
}

impl Bell {
    fn rings(&self, topic: Topic) -> &Arc<Rings> {
        match topic {
            Topic::Work => &self.work,
            Topic::Roles => &self.roles,
            Topic::Schedules => &self.schedules,
            Topic::Finished => &self.finished,
        }
    }

    /// Tells all who listen.
    pub fn ring(&self, topic: Topic) {
        let rings = self.rings(topic);
        rings.count.fetch_add(1, Ordering::AcqRel);
        rings.rung.notify_waiters();
    }

    /// Tells all who listen, if there is something to tell, and passes the answer on.
    pub fn after<T>(&self, topic: Topic, answer: T, tells: impl FnOnce(&T) -> bool) -> T {
        if tells(&answer) {
            self.ring(topic);
        }
        answer
    }

    /// Listens from now on.
    pub fn listen(&self, topic: Topic) -> Hints {
        let rings = self.rings(topic).clone();
        Hints { heard: rings.count.load(Ordering::Acquire), rings }
    }
}

impl Hints {
    /// Was there one since the last time?
    pub fn take(&mut self) -> bool {
        let count = self.rings.count.load(Ordering::Acquire);
        std::mem::replace(&mut self.heard, count) != count
    }

    /// Ends with the next one.
    pub async fn heard(&mut self) {
        let rings = self.rings.clone();
        loop {
            let rung = rings.rung.notified();
            if self.take() {
                return;
            }
            rung.await;
        }
    }
}
