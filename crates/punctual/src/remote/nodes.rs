//! Remote workers as nodes: they join, are heard of, drain and leave.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::{LeaseId, NodeId};
use punctual_store::{BeatAsk, Beaten, Node, NodeInfo, Progress, REMOTE_LABEL, limits};

use super::{Remote, Wish};
use crate::error::{Error, ErrorKind, Result};

/// What tells a node that it should take no more jobs.
const DRAIN: (&str, &str) = ("drain", "asked");

/// How old the list of nodes may be that a worker is looked up in.
const SEEN_FOR: Duration = Duration::from_secs(1);

/// The nodes as they were a moment ago.
#[derive(Default)]
pub(super) struct Seen {
    at: Duration,
    nodes: Option<Arc<Vec<Node>>>,
}

/// When each node last beat through this process.
#[derive(Default)]
pub(super) struct Beats(Mutex<HashMap<NodeId, Duration>>);

/// The shortest time between two heartbeats of a node that come with results.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// Nodes after which old heartbeats are dropped.
const BEATS_MAX: usize = 1_000;

impl Beats {
    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a heartbeat now; false if the last one was a moment ago.
    fn note(&self, node: NodeId, now: Duration) -> bool {
        let mut beats = self.lock();
        let is_old = |at: &Duration| now.saturating_sub(*at) >= BEAT_EVERY;
        if beats.len() >= BEATS_MAX {
            beats.retain(|_, at| !is_old(at));
        }
        let is_due = beats.get(&node).is_none_or(is_old);
        if is_due {
            beats.insert(node, now);
        }
        is_due
    }

    fn forget(&self, node: NodeId) {
        self.lock().remove(&node);
    }
}

/// What is to be written of a node, and whether it is on the list as dead.
struct Entry {
    info: NodeInfo,
    is_dead: bool,
}

/// Is the node a remote worker?
pub fn is_remote(node: &NodeInfo) -> bool {
    node.is_remote()
}

/// Was the node asked to take no more jobs?
pub fn is_draining(node: &NodeInfo) -> bool {
    node.has_label(DRAIN)
}

impl Remote {
    /// The nodes, as they were at most this long ago.
    async fn nodes(&self, age_max: Duration) -> Result<Arc<Vec<Node>>> {
        let now = self.shared.env.elapsed();
        {
            // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
            let seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Some(nodes) = seen.nodes.clone()
                && now.saturating_sub(seen.at) < age_max
            {
                return Ok(nodes);
            }
        }
        let nodes = Arc::new(self.shared.store.nodes().await?);
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *seen = Seen { at: now, nodes: Some(nodes.clone()) };
        Ok(nodes)
    }

    /// Should the node take no more jobs?
    pub(super) async fn drains(&self, node: NodeId) -> Result<bool> {
        let nodes = self.nodes(SEEN_FOR).await?;
        Ok(nodes.iter().any(|it| it.info.id == node && is_draining(&it.info)))
    }

    /// Is this a node of a remote worker? One that has just joined may be too new for the list.
    pub(super) async fn knows(&self, node: NodeId) -> Result<bool> {
        for age_max in [SEEN_FOR, Duration::ZERO] {
            let nodes = self.nodes(age_max).await?;
            if let Some(found) = nodes.iter().find(|it| it.info.id == node) {
                return Ok(is_remote(&found.info));
            }
        }
        Ok(false)
    }

    /// One heartbeat. It names no lease, so that the answer tells of all that the store holds for the
    /// node.
    pub(super) async fn beat(&self, node: NodeId, progress: Vec<Progress>) -> Result<Beaten> {
        let ask = BeatAsk {
            node,
            is_remote: true,
            roles: Vec::new(),
            lease: self.timing.leader_lease,
            seeks: Vec::new(),
            leases: Vec::new(),
            progress,
        };
        let beaten = self.shared.store.beat(self.shared.env.at(), &ask).await?;
        punctual_engine::telemetry::jobs_unreadable(&beaten.unreadable);
        self.clock.saw(beaten.at, self.shared.env.elapsed());
        self.beats.note(node, self.shared.env.elapsed());
        Ok(beaten)
    }

    /// Sends the heartbeat of a worker whose result was accepted, unless one was sent a moment ago. It
    /// is not the result: if it fails, the result is accepted all the same.
    pub(super) async fn listen(&self, node: NodeId) {
        if self.beats.note(node, self.shared.env.elapsed())
            && let Err(error) = self.beat(node, Vec::new()).await
        {
            self.beats.forget(node);
            tracing::warn!(%error, %node, "heartbeat of a remote worker failed");
        }
    }

    /// The heartbeat of a claim: a node that nobody knows joins with it, and one that says something
    /// new of itself is entered again.
    pub(super) async fn enter(&self, wish: &Wish) -> Result<Beaten> {
        // The list is looked at first, so that nobody beats for a node that has handlers of its own.
        if self.entry(wish, SEEN_FOR).await?.is_none() {
            let beaten = self.beat(wish.node, Vec::new()).await?;
            if beaten.alive {
                return Ok(beaten);
            }
        }
        // What is written is made from what is there now: somebody may have just told it to drain.
        match self.entry(wish, Duration::ZERO).await? {
            Some(entry) if entry.is_dead => return Err(self.dead(wish.node)),
            Some(entry) => self.join(&entry.info).await?,
            None => {}
        }
        let beaten = self.beat(wish.node, Vec::new()).await?;
        if beaten.alive { Ok(beaten) } else { Err(self.dead(wish.node)) }
    }

    fn dead(&self, node: NodeId) -> Error {
        let silent = punctual_core::format_duration(self.timing.dead);
        Error::new(
            ErrorKind::Fenced,
            format!(
                "node {node} was declared dead after {silent} without a heartbeat, and its jobs were \
                 reclaimed; stop them and claim with a new node id"
            ),
        )
    }

    /// How a node is to be entered, going by a list that is at most this old; none if it is alive and
    /// entered so already.
    async fn entry(&self, wish: &Wish, age_max: Duration) -> Result<Option<Entry>> {
        let nodes = self.nodes(age_max).await?;
        let known = nodes.iter().find(|node| node.info.id == wish.node);
        if let Some(node) = known.filter(|node| !is_remote(&node.info)) {
            return Err(Error::invalid(format!(
                "node id {} belongs to the server node `{}`; generate a new UUID when the worker \
                 starts",
                wish.node, node.info.name
            )));
        }
        let own = || vec![(REMOTE_LABEL.0.to_owned(), REMOTE_LABEL.1.to_owned())];
        let info = NodeInfo {
            id: wish.node,
            name: wish.name.clone(),
            version: wish.version.clone(),
            queues: wish.queues.clone(),
            kinds: wish.kinds.clone(),
            labels: known.map_or_else(own, |node| node.info.labels.clone()),
        };
        match known {
            Some(node) if node.info == info && node.dead_at.is_none() => Ok(None),
            known => {
                let is_dead = known.is_some_and(|node| node.dead_at.is_some());
                Ok(Some(Entry { info, is_dead }))
            }
        }
    }

    async fn join(&self, info: &NodeInfo) -> Result<()> {
        self.shared.store.join(self.shared.env.at(), info).await?;
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *seen = Seen::default();
        Ok(())
    }

    /// Gives back what the store holds for a node under these leases.
    pub(super) async fn give_back(&self, node: NodeId, leases: &[LeaseId]) -> Result<()> {
        for part in leases.chunks(limits::RELEASE_MAX) {
            let released = self.shared.store.release(self.shared.env.at(), node, part).await?;
            let jobs = released.jobs.len();
            tracing::info!(%node, jobs, "released jobs that the remote worker does not hold");
        }
        Ok(())
    }

    /// A remote node that is alive.
    async fn living(&self, id: NodeId) -> Result<Node> {
        let nodes = self.nodes(Duration::ZERO).await?;
        let Some(node) = nodes.iter().find(|node| node.info.id == id) else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("node {id} not found; list nodes with `punctual node list`"),
            ));
        };
        let conflict = |why: &str| Err(Error::new(ErrorKind::Conflict, format!("node {id} {why}")));
        match (is_remote(&node.info), node.dead_at) {
            (false, _) => conflict(
                "is not a remote worker; stop its process with SIGTERM or Ctrl-C to drain it",
            ),
            (true, Some(_)) => conflict("was declared dead; its jobs have been reclaimed"),
            (true, None) => Ok(node.clone()),
        }
    }

    /// Tells a remote worker with its next call to take no more jobs and to end, or takes that back.
    pub async fn drain(&self, id: NodeId, drain: bool) -> Result<Node> {
        let mut node = self.living(id).await?;
        if is_draining(&node.info) != drain {
            node.info.labels.retain(|(name, _)| name != DRAIN.0);
            node.info.labels.extend(drain.then(|| (DRAIN.0.to_owned(), DRAIN.1.to_owned())));
            self.join(&node.info).await?;
        }
        Ok(node)
    }

    /// A remote worker, as it is now.
    pub async fn node(&self, id: NodeId) -> Result<Node> {
        self.living(id).await
    }

    /// A remote worker ends: what it still holds is given back, which costs no attempt, and it goes
    /// from the list.
    pub async fn leave(&self, id: NodeId) -> Result<()> {
        self.living(id).await?;
        let beaten = self.beat(id, Vec::new()).await?;
        self.give_back(id, &beaten.strays).await?;
        self.shared.store.leave(self.shared.env.at(), id).await?;
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *seen = Seen::default();
        Ok(())
    }
}
