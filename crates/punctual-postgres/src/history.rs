//! Which server's history the store writes: a failover to a standby begins another.

use tokio::sync::watch;

/// Which history of which server the store writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The server's own identifier, the same on its standbys.
    pub system: i64,
    /// The timeline; a promoted standby begins a new one. Eight hexadecimal digits.
    pub timeline: String,
    /// How often it has changed since the store was opened. After a change the last commits of the
    /// old history may be missing, though they were acknowledged.
    pub forks: u32,
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

    /// A connection was made, or a beat answered. None: that was not told.
    pub(crate) fn saw(&self, system: Option<i64>, timeline: &str) {
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
                history.forks += 1;
                tracing::warn!(
                    from = history.timeline,
                    to = timeline,
                    "the database has another history now, as after a failover; the last commits of the old one may be lost"
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
        watch.saw(Some(7), "00000001");
        watch.saw(None, "00000001");
        assert_eq!(seen.borrow().forks, 0);
        watch.saw(None, "00000002");
        watch.saw(Some(7), "00000002");
        assert_eq!(
            *seen.borrow(),
            History { system: 7, timeline: "00000002".to_owned(), forks: 1 }
        );
        watch.saw(Some(8), "00000002");
        assert_eq!(seen.borrow().forks, 2);
    }
}
