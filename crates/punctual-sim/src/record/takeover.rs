//! For how long processes that crashed hold their jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_core::{JobId, LeaseId, NodeId};
use punctual_store::{Fence, MAINTENANCE, Reaped, RoleBeat};

use super::Record;
use crate::crash_loop::TakeOverBound;
use crate::mix;

/// The crashes of a run.
#[derive(Default)]
pub(super) struct Crashes {
    /// Time in which a process was alive, without outages, until the last renewal of the role
    /// `maintenance`.
    reachable: Duration,
    /// Time in which a process was alive since then. It is reachable time if it does not become an
    /// outage.
    since_renewal: Duration,
    /// The last renewal of the role `maintenance`.
    renewed: Duration,
    by_process: BTreeMap<u32, Crash>,
    /// Crashes of leaders of the role `maintenance` that had not reclaimed jobs yet.
    early: u32,
    /// The leader of the role `maintenance`, until it first reclaims jobs.
    new_leader: Option<NodeId>,
    /// Leases of crashed processes that were reclaimed too late.
    overdue: BTreeSet<(JobId, LeaseId)>,
}

/// A process that crashed, and what had happened until then.
#[derive(Clone, Copy)]
struct Crash {
    reachable: Duration,
    /// The number of crashes, this one included.
    crashes: u32,
    early: u32,
}

impl Crashes {
    fn count(&self) -> u32 {
        self.by_process.len() as u32
    }

    /// The reachable time until now.
    fn reachable(&self, now: Duration) -> Duration {
        let is_outage = now - self.renewed > outage();
        if is_outage { self.reachable } else { self.reachable + self.since_renewal }
    }

    /// The role `maintenance` was renewed.
    fn renewed(&mut self, now: Duration) {
        self.reachable = self.reachable(now);
        (self.since_renewal, self.renewed) = (Duration::ZERO, now);
    }

    /// A term of the role `maintenance` began.
    pub(super) fn began(&mut self, now: Duration, leader: NodeId) {
        self.renewed(now);
        self.new_leader = Some(leader);
    }

    /// Jobs were reclaimed, or there were none to reclaim.
    pub(super) fn reclaimed(&mut self, now: Duration, answer: &Reaped) {
        if answer.led {
            self.renewed(now);
            self.new_leader = None;
        }
    }
}

/// For longer without a renewal the database counts as unreachable, as `docs/guarantees.md` says.
fn outage() -> Duration {
    mix::timing().leader_lease * 3 / 2
}

impl Record {
    /// A process crashed.
    pub(crate) fn crashed(&self, process: u32) {
        self.trace(&format!("crashed {process}"));
        let mut guard = self.book();
        let book = &mut *guard;
        let node = book.nodes.get(&process).copied();
        let now = self.clock.elapsed();
        let crashes = &mut book.crashes;
        crashes.early += u32::from(node.is_some() && node == crashes.new_leader);
        let crash = Crash {
            reachable: crashes.reachable(now),
            crashes: crashes.count() + 1,
            early: crashes.early,
        };
        crashes.by_process.insert(process, crash);
    }

    /// A heartbeat renewed these roles.
    pub(crate) fn renewed(&self, roles: &[Fence], answers: &[RoleBeat]) {
        let now = self.clock.elapsed();
        let is_renewed = |(fence, answer): (&Fence, &RoleBeat)| {
            fence.role == MAINTENANCE && matches!(answer, RoleBeat::Renewed { .. })
        };
        if roles.iter().zip(answers).any(is_renewed) {
            self.book().crashes.renewed(now);
        }
    }

    /// Adds time in which a process was alive, and checks that no process that crashed holds a job
    /// for longer than the bound.
    pub(crate) fn examine_dead(&self, alive: Duration, bound: TakeOverBound) {
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        let crashes = &mut book.crashes;
        crashes.since_renewal += alive;
        let mut wrong = Vec::new();
        for (id, account) in &book.past.jobs {
            let Some((lease, holder)) = account.held else { continue };
            let Some(crash) = crashes.by_process.get(&holder) else { continue };
            let (further, early) = (crashes.count() - crash.crashes, crashes.early - crash.early);
            let held = crashes.reachable(now).saturating_sub(crash.reachable);
            if held > bound.after(further, early) && crashes.overdue.insert((*id, lease)) {
                wrong.push(format!(
                    "job {id} is still held by process {holder}, {held:?} of reachable time and \
                     {further} crashes after its own"
                ));
            }
        }
        for wrong in wrong {
            book.violate(now, wrong);
        }
    }
}
