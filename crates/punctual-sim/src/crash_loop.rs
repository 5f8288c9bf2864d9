//! Servers that crash again and again, and the check that jobs of dead ones are reclaimed all the
//! same.

use std::sync::Arc;
use std::time::Duration;

use crate::chance::Chance;
use crate::mix::{self, Mix};
use crate::nemesis::{Machines, pass};
use crate::network::Database;

/// How often the jobs of dead processes are examined.
const EXAMINE_EVERY: Duration = Duration::from_millis(20);

/// How long a process waits at most after the end of a lease before it seeks the role.
const SEEK_JITTER: Duration = Duration::from_millis(100);

/// Crashes of all machines of a run.
pub(crate) struct CrashLoop {
    pub(crate) database: Arc<Database>,
    pub(crate) machines: Machines,
    /// The average life of a process.
    pub(crate) life: Duration,
}

/// How long a dead process may hold a job, in reachable time.
#[derive(Clone, Copy)]
pub(crate) struct TakeOverBound {
    /// Without further crashes.
    base: Duration,
    /// For each further crash: until another process seeks the role and reclaims.
    per_crash: Duration,
    /// For each leader that crashes before it reclaims jobs for the first time: its lease.
    per_early_crash: Duration,
}

impl TakeOverBound {
    /// The bound that `docs/guarantees.md` states, with the timing of the simulator.
    pub(crate) fn of(mix: &Mix, has_owner_lock: bool) -> TakeOverBound {
        let timing = mix::timing();
        let base = match has_owner_lock {
            true => timing.reap,
            false => timing.dead + timing.leader_lease + timing.reap,
        };
        // Two requests and their responses.
        let calls = Duration::from_millis(4 * mix.latency_ms);
        let per_early_crash = match has_owner_lock {
            true => Duration::ZERO,
            false => timing.leader_lease,
        };
        TakeOverBound { base, per_crash: SEEK_JITTER + calls, per_early_crash }
    }

    /// The bound after so many further crashes, some of them early.
    pub(crate) fn after(&self, crashes: u32, early: u32) -> Duration {
        self.base + self.per_crash * crashes + self.per_early_crash * early
    }
}

impl CrashLoop {
    /// Kills a machine again and again for this long.
    pub(crate) async fn kill(self: Arc<Self>, index: usize, chance: Chance, length: Duration) {
        let (clock, record) = (&self.database.clock, &self.database.record);
        let life = u64::try_from(self.life.as_millis()).unwrap_or(u64::MAX);
        loop {
            pass(chance.ms(life / 2, life * 3 / 2)).await;
            if clock.elapsed() >= length {
                return;
            }
            let process = self
                .machines
                .lock()
                .expect("single thread")
                .get(index)
                .map(|it| it.process.clone());
            if let Some(process) = process.filter(|process| !process.is_dead()) {
                process.kill();
                record.crashed(process.number);
            }
        }
    }

    /// Examines for this long whether dead processes hold jobs for longer than they may.
    pub(crate) async fn examine(self: Arc<Self>, bound: TakeOverBound, length: Duration) {
        while self.database.clock.elapsed() < length {
            pass(EXAMINE_EVERY).await;
            let is_alive = {
                let machines = self.machines.lock().expect("single thread");
                machines.iter().any(|it| !it.process.is_dead() && it.engine().is_some())
            };
            let alive = if is_alive { EXAMINE_EVERY } else { Duration::ZERO };
            self.database.record.examine_dead(alive, bound);
        }
    }
}
