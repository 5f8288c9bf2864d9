//! The deadlines of attempts: when they have to stop, when they are dropped, and when a dropped one is
//! reported as stuck.

use std::time::Duration;

use punctual_core::job::{Outcome, decide};

use super::{Ending, Key, Phase, State, Work, stopped};
use crate::stop::StopReason;
use crate::telemetry;

/// How long a task that was dropped may take to be gone before it is called stuck.
const STUCK_AFTER: Duration = Duration::from_secs(1);

impl Work {
    pub(super) fn watch(&self, state: &mut State, at: Duration, key: Key) {
        let is_first = state.deadlines.first().is_none_or(|(first, _)| at < *first);
        state.deadlines.insert((at, key));
        // A later one it sees in time by itself; to wake it for every quick job costs more than these.
        if is_first && at < self.env.elapsed() + self.watched_every {
            self.wakes.watchdog.notify_one();
        }
    }

    /// Acts on every deadline that has passed; the answer is how many there were, and the next.
    pub(crate) fn act_on_deadlines(&self) -> (usize, Option<Duration>) {
        let mut state = self.lock();
        let now = self.env.elapsed();
        let mut acted = 0;
        while let Some((at, key)) = state.deadlines.first().copied() {
            if at > now {
                break;
            }
            state.deadlines.pop_first();
            acted += 1;
            match state.held.get(&key).map(|held| held.phase) {
                Some(Phase::Running(_, limit)) => {
                    self.stop(&mut state, key, StopReason::TimedOut(limit));
                }
                Some(Phase::Stopping(_)) => self.drop_task(&mut state, key),
                _ => {
                    if let Some((task, kind)) = state.leaving.remove(&key)
                        && !task.is_finished()
                    {
                        telemetry::stuck(&kind, key.0);
                    }
                }
            }
        }
        (acted, state.deadlines.first().map(|(at, _)| *at))
    }

    /// Ends an attempt that was told to stop and has not: its task is dropped where it waits. A
    /// handler that blocks its thread cannot be dropped; its place stays taken until it returns.
    pub(super) fn drop_task(&self, state: &mut State, key: Key) {
        let Some(held) = state.held.get_mut(&key) else { return };
        if let Some(task) = held.task.take() {
            task.abort();
            state.leaving.insert(key, (task, held.kind.clone()));
        }
        let outcome = held.stop.reason().map_or(Outcome::Released, stopped);
        let policy = held.policy.as_ref().unwrap_or(&self.policy);
        let transition = decide(&held.standing, outcome, policy, self.time_of(held));
        self.end(state, key, Ending::from(transition));
        self.watch(state, self.env.elapsed() + STUCK_AFTER, key);
    }
}
