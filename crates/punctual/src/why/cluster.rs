//! Who is there: nodes and leaders, and what they cannot do.

use std::time::Duration;

use punctual_core::schedule::{EVERY_NODE_QUEUE, NODE_QUEUE};
use punctual_core::{NodeId, Timestamp};
use punctual_engine::Timing;
use punctual_store::{At, Leader, Node, NodeInfo, Result, Store, why_nobody};

use super::Reason;
use crate::wording::{apart, argument, did_you_mean, lasting, length, listed, quoted, when};

/// What to do if no node is live.
const START: &str = "start a node, for example: `punctual serve`";

/// The nodes and leaders at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// That moment, by the database's clock.
    pub(crate) now: Timestamp,
    /// A node that is silent for longer counts as gone.
    pub(crate) lifetime: Duration,
    /// All that the store knows of, also dead ones.
    pub(crate) nodes: Vec<Node>,
    /// Those who lead or led.
    pub(crate) leaders: Vec<Leader>,
}

impl Cluster {
    /// Reads it, with the lifetime that nodes have unless they are told otherwise.
    pub(super) async fn read(store: &dyn Store, at: At) -> Result<Cluster> {
        Cluster::read_with(store, at, Timing::default().dead).await
    }

    /// Reads it.
    pub(crate) async fn read_with(
        store: &dyn Store,
        at: At,
        lifetime: Duration,
    ) -> Result<Cluster> {
        Ok(Cluster {
            now: store.now(at).await?,
            lifetime,
            nodes: store.nodes().await?,
            leaders: store.leaders().await?,
        })
    }

    /// Is a node at work, as far as its heartbeat tells?
    pub(crate) fn is_live(&self, node: &Node) -> bool {
        node.dead_at.is_none() && !self.is_silent(node)
    }

    /// Has a node not been heard of for longer than nodes live without a heartbeat?
    pub(crate) fn is_silent(&self, node: &Node) -> bool {
        self.now.since(node.seen_at) > self.lifetime
    }

    /// The nodes at work.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| self.is_live(node))
    }

    /// Who leads a role now.
    pub(crate) fn leader(&self, role: &str) -> Option<&Leader> {
        self.leaders.iter().find(|leader| leader.fence.role == role && leader.until > self.now)
    }

    /// A node by its id.
    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.info.id == id)
    }

    /// What a node is called.
    pub(super) fn name(&self, id: NodeId) -> String {
        match self.node(id) {
            Some(node) => quoted(&node.info.name),
            None => format!("node {id}"),
        }
    }

    /// The nodes at work that may claim jobs of this kind from this queue.
    pub(crate) fn takers(&self, queue: &str, kind: &str) -> Vec<&Node> {
        self.live().filter(|node| serves(node, queue) && handles(node, kind)).collect()
    }

    /// Who is at work, in words.
    fn who_is_live(&self) -> String {
        let live: Vec<String> = self.live().map(|node| quoted(&node.info.name)).collect();
        format!("live nodes: {}", listed(live))
    }

    fn nobody_is_live(&self) -> String {
        match self.nodes.iter().max_by_key(|node| node.seen_at) {
            None => "no live nodes".to_owned(),
            Some(last) => format!(
                "no live nodes; the last heartbeat was {} from {}",
                when(self.now, last.seen_at),
                quoted(&last.info.name)
            ),
        }
    }

    /// No node is at work at all.
    pub(crate) fn no_node(&self) -> Option<Reason> {
        let is_none = self.live().next().is_none();
        let reason = || Reason::new("no_node", self.nobody_is_live()).remedy(START);
        is_none.then(reason)
    }

    /// Nobody leads a role, so that something is left undone.
    pub(crate) fn nobody_leads(&self, role: &str, undone: &str) -> Option<Reason> {
        if self.leader(role).is_some() {
            return None;
        }
        if self.live().next().is_none() {
            let text = format!("{}; {undone}", self.nobody_is_live());
            return Some(Reason::new("no_node", text).remedy(START));
        }
        let last = self.leaders.iter().find(|leader| leader.fence.role == role);
        let vacancy = match last {
            Some(last) => {
                format!("role `{role}` has had no leader {}", lasting(self.now, last.until))
            }
            None => format!("role `{role}` has no leader"),
        };
        let text = format!("{vacancy}: {undone}; {}", self.who_is_live());
        let remedy = "start a node with the role `scheduler`, or restart one with \
                      `--role api,scheduler,worker`";
        Some(Reason::new("no_leader", text).remedy(remedy))
    }

    /// No node at work can claim jobs of this kind from this queue.
    pub(crate) fn no_taker(&self, queue: &str, kind: &str) -> Option<Reason> {
        let has_taker = match queue {
            EVERY_NODE_QUEUE => self.no_home(queue, kind).is_none(),
            queue => !self.takers(queue, kind).is_empty(),
        };
        if has_taker {
            return None;
        }
        let start = format!("start a node that serves queue `{queue}` and handles kind `{kind}`");
        if let Some(reason) = self.no_node() {
            return Some(reason.remedy(start));
        }
        if queue.starts_with(NODE_QUEUE) {
            return self.no_home(queue, kind);
        }
        if let Some(reason) = self.no_server(queue) {
            return Some(reason);
        }
        let here: Vec<&Node> = self.live().filter(|node| serves(node, queue)).collect();
        let kinds = here.iter().flat_map(|node| &node.info.kinds).map(String::as_str);
        let meant =
            did_you_mean(kind, kinds).map_or_else(String::new, |meant| format!("; {meant}"));
        let does = |node: &&Node| match node.info.kinds.as_slice() {
            [] => format!("{} handles no kinds", quoted(&node.info.name)),
            kinds => format!("{} handles {}", quoted(&node.info.name), names(kinds)),
        };
        let elsewhere = listed(
            self.live().filter(|node| handles(node, kind)).map(|node| quoted(&node.info.name)),
        );
        let elsewhere = match elsewhere.as_str() {
            "" => elsewhere,
            names => format!("; handled in other queues by {names}"),
        };
        let text = format!(
            "no live node handles kind `{kind}` in queue `{queue}`: {}{elsewhere}{meant}",
            apart(here.iter().map(does))
        );
        Some(Reason::new("no_node_for_kind", text).remedy(start))
    }

    /// No node at work is one that `run_on` asks for.
    fn no_home(&self, queue: &str, kind: &str) -> Option<Reason> {
        let live: Vec<NodeInfo> = self.live().map(|node| node.info.clone()).collect();
        let why = why_nobody(&live, queue, kind)?;
        let text = format!("{why}; {}", self.who_is_live());
        let remedy = match queue {
            EVERY_NODE_QUEUE => format!("start a node that handles kind `{kind}`"),
            _ => "start such a node, or change `run_on` of the schedule".to_owned(),
        };
        Some(Reason::new("no_node_for_run_on", text).remedy(remedy))
    }

    /// No node at work serves this queue, whatever the kind, though there are some.
    pub(crate) fn no_server(&self, queue: &str) -> Option<Reason> {
        if self.live().any(|node| serves(node, queue)) {
            return None;
        }
        let queues = self.live().flat_map(|node| &node.info.queues).map(String::as_str);
        let meant =
            did_you_mean(queue, queues).map_or_else(String::new, |meant| format!("; {meant}"));
        let does = |node: &Node| match node.info.queues.as_slice() {
            [] => format!("{} serves no queues", quoted(&node.info.name)),
            queues => format!("{} serves {}", quoted(&node.info.name), names(queues)),
        };
        let text =
            format!("no live node serves queue `{queue}`: {}{meant}", apart(self.live().map(does)));
        let remedy = match queue.starts_with(NODE_QUEUE) {
            true => "start a node with this name or label".to_owned(),
            false => format!(
                "start a node that serves it, or restart one with `--queue default,{}`",
                argument(queue)
            ),
        };
        Some(Reason::new("no_node_for_queue", text).remedy(remedy))
    }

    /// How long a node may be silent, in words.
    pub(crate) fn patience(&self) -> String {
        length(self.lifetime)
    }
}

fn names(names: &[String]) -> String {
    listed(names.iter().map(|name| quoted(name)))
}

/// Does a node claim from this queue?
pub(crate) fn serves(node: &Node, queue: &str) -> bool {
    node.info.queues.iter().any(|served| served == queue)
}

/// Has a node a handler for this kind?
pub(crate) fn handles(node: &Node, kind: &str) -> bool {
    node.info.kinds.iter().any(|handled| handled == kind)
}
