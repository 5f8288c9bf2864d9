//! Which server's history the store writes: a failover to a standby begins another.

use punctual_core::Timestamp;
use tokio::sync::watch;

/// Which history of which server the store writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The server's own identifier, the same on its standbys.
    pub system: i64,
    /// The timeline; a promoted standby begins a new one. Eight hexadecimal digits.
    pub timeline: String,
    /// When it was last seen to be another than before, by the database's clock, since the store was
    /// opened. The last commits of the old history may be missing then, though they were acknowledged.
    pub forked_at: Option<Timestamp>,
}

/// What the connections have seen of it.
pub(crate) struct Watch(watch::Sender<History>);

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch(watch::Sender::new(History::default()))
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<History> {
        self.0.subscribe()
    }

    pub(crate) fn forked_at(&self) -> Option<Timestamp> {
        self.0.borrow().forked_at
    }

    /// A connection was made, or a beat answered, at this instant. None: that was not told.
    pub(crate) fn saw(&self, system: Option<i64>, timeline: &str, at: Timestamp) {
        self.0.send_if_modified(|history| {
            let is_first = history.timeline.is_empty();
            let is_same = history.timeline == timeline
                && system.is_none_or(|system| system == history.system || history.system == 0);
            if let Some(system) = system {
                history.system = system;
            }
            if is_same {
                return false;
            }
            if !is_first {
                history.forked_at = Some(at);
                tracing::warn!(
                    from = history.timeline,
                    to = timeline,
                    "database failover detected; the last commits before it may be lost"
                );
            }
            timeline.clone_into(&mut history.timeline);
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_timeline_or_system_is_a_fork() {
        let watch = Watch::new();
        let seen = watch.subscribe();
        let at = Timestamp::from_seconds;
        watch.saw(Some(7), "00000001", at(1));
        watch.saw(None, "00000001", at(2));
        assert_eq!(seen.borrow().forked_at, None);
        watch.saw(None, "00000002", at(3));
        watch.saw(Some(7), "00000002", at(4));
        assert_eq!(
            *seen.borrow(),
            History { system: 7, timeline: "00000002".to_owned(), forked_at: Some(at(3)) }
        );
        watch.saw(Some(8), "00000002", at(5));
        assert_eq!(seen.borrow().forked_at, Some(at(5)));
    }
}
