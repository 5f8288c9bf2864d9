//! Hints: word that something may have changed, so that nobody has to keep asking.
//!
//! A hint may come late, come for nothing or not come at all; whoever listens also looks by
//! itself now and then, and nothing but speed depends on hints.

use tokio::sync::watch;

/// What a hint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// There may be jobs to claim.
    Work,
    /// A role may be free.
    Roles,
    /// Schedules were written or changed.
    Schedules,
}

/// Where a store gives its hints.
#[derive(Debug, Default)]
pub struct Bell {
    work: watch::Sender<()>,
    roles: watch::Sender<()>,
    schedules: watch::Sender<()>,
}

/// Where hints about one topic arrive. Many in a row are one.
#[derive(Clone, Debug)]
pub struct Hints(watch::Receiver<()>);

impl Bell {
    fn sender(&self, topic: Topic) -> &watch::Sender<()> {
        match topic {
            Topic::Work => &self.work,
            Topic::Roles => &self.roles,
            Topic::Schedules => &self.schedules,
        }
    }

    /// Tells all who listen.
    pub fn ring(&self, topic: Topic) {
        self.sender(topic).send_replace(());
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
        Hints(self.sender(topic).subscribe())
    }
}

impl Hints {
    /// Was there one since the last time?
    pub fn take(&mut self) -> bool {
        let is_new = self.0.has_changed().unwrap_or(false);
        self.0.mark_unchanged();
        is_new
    }

    /// Ends with the next one.
    pub async fn heard(&mut self) {
        if self.0.changed().await.is_err() {
            // The store is closed and will not tell anything any more.
            std::future::pending::<()>().await;
        }
    }
}
