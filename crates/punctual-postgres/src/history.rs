//! Detects that the database writes another history than before: a failover to a standby, or a
//! restored backup.
//!
//! Every connection and every heartbeat reports the timeline of its server. Nodes also record it in
//! the table `meta`, so that a process that starts after the failover detects it as well, and
//! `doctor` reports it after all processes were restarted.

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_core::Timestamp;
use tokio::sync::watch;

use crate::connection::Conn;
use crate::error::Outcome;
use crate::{rows, sql};

/// Which history of which server the store writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The server's own identifier, the same on its standbys.
    pub system: i64,
    /// The timeline; a promoted standby begins a new one. Eight hexadecimal digits.
    pub timeline: String,
    /// When this process found another history than before, by the database's clock. The last
    /// commits of the old history may be missing then, though they were acknowledged.
    pub forked_at: Option<Timestamp>,
}

/// The history that the connections of this process report.
pub(crate) struct Watch {
    history: watch::Sender<History>,
    /// Is the current history in the table `meta`?
    is_recorded: AtomicBool,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch {
            history: watch::Sender::new(History::default()),
            is_recorded: AtomicBool::new(false),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<History> {
        self.history.subscribe()
    }

    pub(crate) fn forked_at(&self) -> Option<Timestamp> {
        self.history.borrow().forked_at
    }

    /// Notes what a new connection or a heartbeat reported at this instant. A heartbeat does not
    /// report the system.
    pub(crate) fn saw(&self, system: Option<i64>, timeline: &str, at: Timestamp) {
        self.history.send_if_modified(|history| {
            let is_first = history.timeline.is_empty();
            let is_same = history.timeline == timeline
                && system.is_none_or(|system| system == history.system || history.system == 0);
            if let Some(system) = system {
                history.system = system;
            }
            if is_same {
                return false;
            }
            self.is_recorded.store(false, Ordering::Relaxed);
            if !is_first {
                history.forked_at = Some(at);
                warn(&history.timeline, timeline);
            }
            timeline.clone_into(&mut history.timeline);
            true
        });
    }

    /// Records the current history, unless this process has done so. If another one was recorded,
    /// a failover happened while this process was not running.
    pub(crate) async fn record(&self, conn: &mut Conn, at: Timestamp) -> Outcome<()> {
        if self.is_recorded.load(Ordering::Relaxed) {
            return Ok(());
        }
        let current = self.history.borrow().clone();
        let Ok(timeline) = i64::from_str_radix(&current.timeline, 16) else { return Ok(()) };
        let row = conn
            .query_one(&sql::HISTORY_RECORD, &[&current.system, &timeline, &at.as_micros()])
            .await?;
        let is_changed: bool = rows::get(&row, 0)?;
        self.history.send_if_modified(|history| {
            let is_current =
                history.system == current.system && history.timeline == current.timeline;
            self.is_recorded.store(is_current, Ordering::Relaxed);
            let is_news = is_changed && is_current && history.forked_at.is_none();
            if is_news {
                history.forked_at = Some(at);
                warn("the recorded one", &history.timeline);
            }
            is_news
        });
        Ok(())
    }
}

fn warn(from: &str, to: &str) {
    tracing::warn!(from, to, "database failover detected; the last commits before it may be lost");
}

/// When a node last found another history than the recorded one.
pub(crate) async fn changed_at(conn: &mut Conn) -> Outcome<Option<Timestamp>> {
    let row = conn.query_one(&sql::HISTORY_CHANGED, &[]).await?;
    Ok(rows::get::<Option<i64>>(&row, 0)?.map(Timestamp::from_micros))
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
