//! Which nodes the jobs of slots are for: decided in the transaction that fires them, from the nodes
//! that are alive then.

use std::borrow::Cow;
use std::collections::BTreeSet;

use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{EVERY_NODE_QUEUE, NODE_QUEUE, node_queue};
use punctual_core::{JobId, NodeId, Timestamp, hash};

use crate::{NewJob, NodeInfo, Seated, SlotDecision, SlotPlan, SlotRow, SlotView, limits};

/// A slot as it is written: as it was planned, for one of several nodes, or without a job because
/// no node could run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<'a> {
    /// What is written.
    pub row: Cow<'a, SlotRow>,
    /// Which row of the slot it is: 0, or below if it is a further node's. Those above are of
    /// backfills.
    pub run: i32,
    /// The node that it is for, if each has one.
    pub node: Option<String>,
    /// Was it to have a job, which no node takes?
    pub is_unplaced: bool,
}

impl SlotPlan {
    /// Does it depend on the nodes that are alive?
    pub fn asks_for_nodes(&self) -> bool {
        self.queues().any(|queue| queue.starts_with(NODE_QUEUE))
    }

    /// Has each node a job of its own, whatever the others do?
    pub fn is_for_every_node(&self) -> bool {
        self.queues().any(|queue| queue == EVERY_NODE_QUEUE)
    }

    fn queues(&self) -> impl Iterator<Item = &str> {
        let slots = match &self.decision {
            SlotDecision::Advance { slots, .. } => slots.as_slice(),
            SlotDecision::SetAside(_) => &[],
        };
        slots.iter().filter_map(|row| Some(row.job.as_ref()?.queue.as_str()))
    }
}

/// Slots as they are written, where these nodes are alive. Each slot stays one, in order; one for
/// every node has a row for each.
pub fn place<'a>(slots: &'a [SlotRow], live: &[NodeInfo]) -> Vec<Placed<'a>> {
    let mut placed: Vec<Placed<'a>> = Vec::with_capacity(slots.len());
    let mut room = limits::PLACE_MAX;
    // The newest have their jobs first, as with all that is missed.
    for row in slots.iter().rev() {
        let as_planned = Placed { row: Cow::Borrowed(row), run: 0, node: None, is_unplaced: false };
        match row.job.as_ref().filter(|job| job.queue.starts_with(NODE_QUEUE)) {
            None => placed.push(as_planned),
            Some(job) if job.queue == EVERY_NODE_QUEUE => {
                let names = names(live, &job.kind);
                if names.len() > room {
                    let most = limits::PLACE_MAX;
                    let reason = format!(
                        "{} nodes, but at most {most} jobs can be created at once",
                        names.len()
                    );
                    placed.push(missed(row, reason));
                    continue;
                }
                if names.is_empty() {
                    placed.push(missed(row, nobody(live, &job.queue, &job.kind)));
                }
                room -= names.len();
                // In the order in which they come out when all is turned round.
                for (number, name) in names.iter().enumerate().rev() {
                    let run = -i32::try_from(number).unwrap_or(i32::MAX);
                    placed.push(Placed { run, ..for_node(row, job, name, number) });
                }
            }
            Some(job) if live.iter().any(|node| takes(node, &job.queue, &job.kind)) => {
                placed.push(as_planned);
            }
            Some(job) => placed.push(missed(row, nobody(live, &job.queue, &job.kind))),
        }
    }
    placed.reverse();
    placed
}

/// The queues of the nodes that have a job of their own, where one is for every node.
pub fn queues_of_every_node(live: &[NodeInfo], kind: &str) -> Vec<String> {
    names(live, kind).into_iter().map(node_queue).collect()
}

/// Why no node takes a job of this kind from this queue, if it is that of a node or label and none
/// does.
pub fn why_nobody(live: &[NodeInfo], queue: &str, kind: &str) -> Option<String> {
    let is_taken = match queue {
        EVERY_NODE_QUEUE => !names(live, kind).is_empty(),
        queue if queue.starts_with(NODE_QUEUE) => live.iter().any(|node| takes(node, queue, kind)),
        _ => true,
    };
    (!is_taken).then(|| nobody(live, queue, kind))
}

/// The names of those that serve their own queue, each once: nodes are told apart by name.
fn names<'n>(live: &'n [NodeInfo], kind: &str) -> BTreeSet<&'n str> {
    let own = |node: &&NodeInfo| takes(node, &node_queue(&node.name), kind);
    live.iter().filter(own).map(|node| node.name.as_str()).collect()
}

fn takes(node: &NodeInfo, queue: &str, kind: &str) -> bool {
    node.queues.iter().any(|served| served == queue) && node.kinds.iter().any(|its| its == kind)
}

fn for_node<'a>(row: &SlotRow, job: &NewJob, name: &str, number: usize) -> Placed<'a> {
    let id = if number == 0 { job.id } else { sibling(job.id, name) };
    let job = NewJob { id, queue: node_queue(name), ..job.clone() };
    let row = SlotRow { job: Some(job), ..row.clone() };
    Placed { row: Cow::Owned(row), run: 0, node: Some(name.to_owned()), is_unplaced: false }
}

/// The id of another node's job of the same slot: the same each time, and of the same instant.
fn sibling(id: JobId, name: &str) -> JobId {
    let mut bytes = *id.as_bytes();
    let tail: [u8; 8] = bytes[8..].try_into().unwrap_or_default();
    let mixed = hash::mix(u64::from_be_bytes(tail) ^ hash::seed(name)).to_be_bytes();
    bytes[8..].copy_from_slice(&mixed);
    // The variant of a UUID.
    bytes[8] = bytes[8] & 0x3F | 0x80;
    JobId::from_bytes(bytes)
}

fn missed<'a>(row: &SlotRow, reason: String) -> Placed<'a> {
    let (outcome, reason) = (SlotOutcome::Missed, Some(reason));
    let row = SlotRow { outcome, reason, job: None, ..row.clone() };
    Placed { row: Cow::Owned(row), run: 0, node: None, is_unplaced: true }
}

/// Why no node takes a job.
fn nobody(live: &[NodeInfo], queue: &str, kind: &str) -> String {
    let whose = queue.trim_start_matches(NODE_QUEUE);
    let serves = |node: &&NodeInfo| node.queues.iter().any(|served| served == queue);
    let is_served = live.iter().any(|node| serves(&node));
    match (queue, whose.split_once('=')) {
        (EVERY_NODE_QUEUE, _) => format!("no live node handles kind `{kind}`"),
        (_, Some(_)) if is_served => {
            format!("no live node with label {whose} handles kind `{kind}`")
        }
        (_, Some(_)) => format!("no live node has label {whose}"),
        _ if is_served => format!("node `{whose}` does not handle kind `{kind}`"),
        _ => format!("no live node is named `{whose}`"),
    }
}

impl Placed<'_> {
    /// The row of the ledger.
    pub fn decided(
        &self,
        seated: &Seated,
        term: i64,
        node: NodeId,
        revision: i64,
        now: Timestamp,
    ) -> SlotView {
        let view = self.row.decided(seated, term, node, revision, now);
        let reason = match (&self.node, view.reason) {
            (None, reason) => reason,
            (Some(name), None) => Some(format!("for node `{name}`")),
            (Some(name), Some(reason)) => Some(format!("node `{name}`: {reason}")),
        };
        SlotView { run: self.run, reason, ..view }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_core::schedule::label_queue;

    use super::*;
    use crate::Json;

    fn node(name: &str, labels: &[(&str, &str)]) -> NodeInfo {
        let mut queues = vec!["default".to_owned(), node_queue(name)];
        queues.extend(labels.iter().map(|(label, value)| label_queue(label, value)));
        NodeInfo {
            id: NodeId::from_bytes([7; 16]),
            name: name.to_owned(),
            version: String::new(),
            queues,
            kinds: vec!["mail".to_owned()],
            labels: Vec::new(),
        }
    }

    fn row(number: u8, queue: &str, kind: &str) -> SlotRow {
        let slot = Timestamp::EPOCH + Duration::from_secs(u64::from(number));
        let id = JobId::mint(slot, [number; 10]);
        let job = Some(NewJob::new(id, queue, kind, Json::null()));
        SlotRow { slot, end: None, count: 1, outcome: SlotOutcome::Fired, reason: None, job }
    }

    fn told(placed: &[Placed<'_>]) -> Vec<String> {
        let line = |it: &Placed<'_>| {
            let queue = it.row.job.as_ref().map_or("–", |job| job.queue.as_str());
            format!("{} {} {queue} {:?}", it.row.outcome, it.run, it.row.reason)
        };
        placed.iter().map(line).collect()
    }

    #[test]
    fn a_slot_for_every_node_has_a_row_and_a_job_for_each() {
        // Two processes of one name are one node.
        let live = [node("b", &[]), node("a", &[]), node("b", &[])];
        let rows = [row(1, EVERY_NODE_QUEUE, "mail"), row(2, EVERY_NODE_QUEUE, "mail")];
        let placed = place(&rows, &live);
        assert_eq!(
            told(&placed),
            ["fired 0 @a None", "fired -1 @b None", "fired 0 @a None", "fired -1 @b None"]
        );
        let ids: BTreeSet<JobId> =
            placed.iter().filter_map(|it| Some(it.row.job.as_ref()?.id)).collect();
        assert_eq!(ids.len(), 4, "each job has an id of its own");
        assert_eq!(place(&rows, &live), placed, "and the same again");
    }

    #[test]
    fn without_a_node_a_slot_is_missed_with_the_reason() {
        let live = [node("a", &[("zone", "eu")])];
        let reason = |queue: &str, kind: &str| {
            let rows = [row(1, queue, kind)];
            place(&rows, &live)[0].row.reason.clone().unwrap_or_default()
        };
        assert_eq!(reason("@a", "mail") + &reason("@zone=eu", "mail"), "");
        assert_eq!(reason("mails", "other"), "", "a queue like any other may wait for its nodes");
        assert_eq!(reason("@b", "mail"), "no live node is named `b`");
        assert_eq!(reason("@zone=us", "mail"), "no live node has label zone=us");
        assert_eq!(reason("@a", "x"), "node `a` does not handle kind `x`");
        assert_eq!(reason("@zone=eu", "x"), "no live node with label zone=eu handles kind `x`");
        assert_eq!(reason("@*", "x"), "no live node handles kind `x`");
    }

    #[test]
    fn the_newest_slots_have_their_jobs_where_there_are_too_many() {
        let live: Vec<NodeInfo> = (0..150).map(|n| node(&format!("n{n}"), &[])).collect();
        let rows: Vec<SlotRow> =
            (0..20).map(|number| row(number, EVERY_NODE_QUEUE, "mail")).collect();
        let placed = place(&rows, &live);
        let missed = placed.iter().filter(|it| it.row.outcome == SlotOutcome::Missed);
        let missed: Vec<Timestamp> = missed.map(|it| it.row.slot).collect();
        let kept = limits::PLACE_MAX / 150;
        assert_eq!(missed, rows[..20 - kept].iter().map(|row| row.slot).collect::<Vec<_>>());
        assert_eq!(placed.len(), 20 - kept + kept * 150);
        assert!(placed.is_sorted_by_key(|it| (it.row.slot, -it.run)));
    }
}
