//! Stops a node from claiming jobs while it lacks memory, processes or open files: other nodes can
//! run them.

use std::time::Duration;

/// So many attempts within this time that lacked resources pause claiming.
const COUNT: usize = 3;
const WINDOW: Duration = Duration::from_secs(60);

/// How long claiming is paused. If resources are still lacking after it, the next attempt pauses it
/// again.
pub(crate) const PAUSE: Duration = Duration::from_secs(10);

/// The latest attempts that lacked resources.
#[derive(Default)]
pub(crate) struct Shortage {
    /// When they ended, newest last.
    latest: Vec<Duration>,
    paused_until: Duration,
    /// When claiming was last paused.
    paused_at: Option<Duration>,
}

impl Shortage {
    /// Notes an attempt that lacked resources. Returns whether claiming is paused because of it.
    pub(crate) fn note(&mut self, now: Duration) -> bool {
        self.latest.retain(|at| now.saturating_sub(*at) < WINDOW);
        if self.latest.len() == COUNT {
            self.latest.remove(0);
        }
        self.latest.push(now);
        let begins = self.latest.len() == COUNT && !self.is_paused(now);
        if begins {
            self.paused_until = now + PAUSE;
            self.paused_at = Some(now);
        }
        begins
    }

    /// Is claiming paused?
    pub(crate) fn is_paused(&self, now: Duration) -> bool {
        now < self.paused_until
    }

    /// Was claiming paused within the last minute? Between two pauses a node claims, until the next attempt
    /// lacks resources.
    pub(crate) fn is_recent(&self, now: Duration) -> bool {
        self.paused_at.is_some_and(|at| now.saturating_sub(at) < WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn three_attempts_within_a_minute_pause_claiming() {
        let mut shortage = Shortage::default();
        assert!(!shortage.note(at(0)));
        assert!(!shortage.note(at(30)));
        // The first one is a minute old.
        assert!(!shortage.note(at(60)));
        assert!(!shortage.is_paused(at(60)));
        assert!(shortage.note(at(61)));
        assert!(shortage.is_paused(at(61)));
        // Attempts that were running do not extend the pause.
        assert!(!shortage.note(at(62)));
        assert!(!shortage.is_paused(at(71)));
        // After it, one attempt is enough.
        assert!(shortage.note(at(72)));
        assert!(shortage.is_recent(at(131)) && !shortage.is_recent(at(132)));
    }
}
