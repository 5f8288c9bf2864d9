//! Nodes, leaders and queues.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_core::{JobId, LeaseId, NodeId, Nonce, Timestamp};

use super::state::{Lease, Place, State};
use crate::bugs::{Bug, is_planted};
use crate::*;

impl State {
    /// Enters a node, and makes schedules due whose slots it may run; how many.
    pub(super) fn join(&mut self, now: Timestamp, info: &NodeInfo) -> usize {
        let joined_at = self.nodes.get(&info.id).map_or(now, |node| node.joined_at);
        let node = Node {
            info: info.clone(),
            joined_at,
            seen_at: now,
            seen_watch: self.watched(),
            dead_at: None,
            running: 0,
        };
        self.nodes.insert(info.id, node);
        self.wake_held(now, &awaited_queues(info))
    }

    /// Makes schedules due whose slots are held for nodes of these queues, those that wait longest
    /// first; how many.
    pub(super) fn wake_held(&mut self, now: Timestamp, queues: &[&str]) -> usize {
        let mut woken = 0;
        for queue in queues {
            let schedules = self.schedules.values_mut();
            let held =
                schedules.filter_map(|schedule| Some((schedule.id, schedule.held.as_mut()?)));
            let mut waiting: Vec<_> =
                held.filter(|(_, held)| held.queue == *queue && held.until > now).collect();
            waiting.sort_by_key(|(id, held)| (held.since, *id));
            for (_, held) in waiting.into_iter().take(limits::HELD_WAKE_MAX - woken) {
                held.until = now;
                woken += 1;
            }
        }
        woken
    }

    pub(super) fn beat(&mut self, now: Timestamp, ask: &BeatAsk) -> Beaten {
        let watched = self.watched();
        let alive = match self.nodes.get_mut(&ask.node) {
            Some(node) if node.dead_at.is_none() => {
                node.seen_at = now;
                node.seen_watch = watched;
                true
            }
            _ => false,
        };
        let mut roles = Vec::new();
        for fence in &ask.roles {
            let renewed = if alive { self.renew(now, fence, ask.lease) } else { None };
            roles.push(match renewed {
                Some(leader) => RoleBeat::Renewed { until: leader.until },
                None => RoleBeat::Lost,
            });
        }
        if alive {
            for progress in &ask.progress {
                if let Some(Place::Lease(lease)) = self.places.get_mut(&progress.job)
                    && lease.lease == progress.lease
                {
                    lease.progress = Some(progress.kept(now));
                }
            }
        }
        let (mut strays, mut unreadable) = (BTreeSet::new(), Vec::new());
        if alive {
            for (job, held) in self.leases_of(ask.node) {
                if held.lease == Lease::UNREADABLE {
                    self.set_aside(now, job, held.life);
                    unreadable.extend(self.unreadable(job));
                } else if !ask.leases.contains(&held.lease) {
                    strays.insert(held.lease);
                }
            }
        }
        let is_cancelled =
            |(_, held): &(JobId, Lease)| held.lease != Lease::UNREADABLE && held.cancel.is_some();
        let cancelled = self.leases_of(ask.node).into_iter().filter(is_cancelled);
        unreadable.sort();
        Beaten {
            at: now,
            alive,
            strays: strays.into_iter().take(limits::LEASES_MAX).collect(),
            cancels: cancelled.map(|(job, _)| job).collect(),
            unreadable,
            roles,
            sought: ask.seeks.iter().map(|role| Some(self.leaders.get(role)?.until)).collect(),
            forked_at: self.forked_at,
        }
    }

    pub(super) fn release(&mut self, now: Timestamp, node: NodeId, leases: &[LeaseId]) -> Released {
        let mut jobs = Vec::new();
        let mut held = self.leases_of(node);
        held.retain(|(_, held)| leases.contains(&held.lease));
        for (job, Lease { lease, .. }) in held.into_iter().take(limits::RELEASE_MAX) {
            let (transition, then) = (rules::RELEASED, Vec::new());
            self.settle(now, &Settlement { job, lease, transition, result: None, then });
            jobs.push(job);
        }
        Released { at: now, jobs }
    }

    pub(super) fn leave(&mut self, node: NodeId) -> Result<()> {
        let leases = self.leases_of(node).len();
        if leases > 0 {
            return Err(rules::still_at_work(node, leases as u64));
        }
        self.nodes.remove(&node);
        Ok(())
    }

    pub(super) fn list_nodes(&self) -> Vec<Node> {
        let with_leases = |node: &Node| Node {
            running: self.leases_of(node.info.id).len() as u64,
            ..node.clone()
        };
        self.nodes.values().map(with_leases).collect()
    }

    /// The jobs that a node has under lease, by id.
    pub(super) fn leases_of(&self, node: NodeId) -> Vec<(JobId, Lease)> {
        let its = |(job, place): (&JobId, &Place)| match place {
            Place::Lease(held) if held.node == node => Some((*job, held.clone())),
            _ => None,
        };
        self.places.iter().filter_map(its).collect()
    }

    pub(super) fn acquire(
        &mut self,
        now: Timestamp,
        role: &str,
        node: NodeId,
        nonce: Nonce,
        lease: Duration,
    ) -> Acquired {
        let until = now + lease;
        let term = match self.leaders.get_mut(role) {
            None => 1,
            // The answer to an earlier try was lost.
            Some(held) if held.fence.nonce == nonce => {
                return Acquired::Won { at: now, term: held.fence.term, until: held.until };
            }
            Some(held) if held.until > now => {
                // A clock that was set back must not leave a dead leader in office.
                held.until = rules::clamp_lease(held.until, now, lease);
                return Acquired::Held { at: now, by: held.node, until: held.until };
            }
            Some(held) => held.fence.term + 1,
        };
        let fence = Fence { role: role.to_owned(), term, nonce };
        let watched = match self.leaders.get(role).filter(|_| !is_planted(Bug::WatchByTerm)) {
            Some(held) => held.watched + rules::watched_since(held.renewed_at, now, lease),
            None => Duration::ZERO,
        };
        let leader = Leader { fence, node, since: now, until, renewed_at: now, watched };
        self.leaders.insert(role.to_owned(), leader);
        self.leader_changes.push(LeaderChange { role: role.to_owned(), term, node, at: now });
        Acquired::Won { at: now, term, until }
    }

    /// The watched time of the role `maintenance`.
    fn watched(&self) -> Duration {
        self.leaders.get(MAINTENANCE).map_or(Duration::ZERO, |leader| leader.watched)
    }

    /// Renews a term, if it is not over; every write that needs leadership begins with this.
    pub(super) fn renew(
        &mut self,
        now: Timestamp,
        fence: &Fence,
        lease: Duration,
    ) -> Option<&Leader> {
        let leader = self.leaders.get_mut(&fence.role).filter(|leader| leader.fence == *fence)?;
        leader.watched += rules::watched_since(leader.renewed_at, now, lease);
        leader.renewed_at = now;
        leader.until = now + lease;
        Some(leader)
    }

    pub(super) fn resign(&mut self, now: Timestamp, fence: &Fence) -> bool {
        let resigned = Fence { nonce: rules::resigned(fence.nonce), ..fence.clone() };
        match self.leaders.get_mut(&fence.role) {
            Some(leader) if leader.fence == *fence => {
                leader.until = leader.until.min(now);
                leader.fence = resigned;
                true
            }
            Some(leader) => leader.fence == resigned,
            None => false,
        }
    }

    pub(super) fn change_queue(
        &mut self,
        now: Timestamp,
        name: &str,
        change: &QueueChange,
        actor: &Actor,
    ) -> Queue {
        let queue = self.queues.entry(name.to_owned()).or_insert_with(|| Queue::unset(name));
        let action = queue.change(change, actor, now);
        let queue = queue.clone();
        self.note(now, actor, &action, name);
        queue
    }
}
