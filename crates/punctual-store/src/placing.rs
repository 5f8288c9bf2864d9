//! Which nodes the jobs of slots are for: decided in the transaction that fires them, from the nodes
//! that are alive then.

use std::borrow::Cow;
use std::collections::BTreeSet;

use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{EVERY_NODE_QUEUE, NODE_QUEUE, node_queue};
use punctual_core::{JobId, NodeId, Timestamp, hash};

use crate::{Advance, NewJob, NodeInfo, Seated, SlotDecision, SlotPlan, SlotRow, SlotView, limits};

/// A slot as it is written: as it was planned, for one of several nodes, or without a job because
/// there are too many nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<'a> {
    /// What is written.
    pub row: Cow<'a, SlotRow>,
    /// Which row of the slot it is: 0, or below if it is a further node's. Those above are of
    /// backfills.
    pub run: i32,
    /// The node that it is for, if each has one.
    pub node: Option<String>,
    /// Was it to have jobs, but for too many nodes?
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
        queues(slots)
    }
}

/// The queues of the jobs of slots.
pub(crate) fn queues(slots: &[SlotRow]) -> impl Iterator<Item = &str> {
    slots.iter().filter_map(|row| Some(row.job.as_ref()?.queue.as_str()))
}

/// Slots as they are written, where these nodes are alive. Each slot stays one, in order; one for
/// every node has a row for each.
pub fn place<'a>(advance: &Advance<'a>, live: &[NodeInfo]) -> Vec<Placed<'a>> {
    let slots = advance.slots;
    let mut placed: Vec<Placed<'a>> = Vec::with_capacity(slots.len());
    let mut room = limits::PLACE_MAX;
    // The newest have their jobs first, as with all that is missed.
    for row in slots.iter().rev() {
        let as_planned = |row| Placed { row, run: 0, node: None, is_unplaced: false };
        match row.job.as_ref() {
            None => placed.push(as_planned(after_waiting(row, advance.awaited()))),
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
                room -= names.len();
                // In the order in which they come out when all is turned round.
                for (number, name) in names.iter().enumerate().rev() {
                    let run = -i32::try_from(number).unwrap_or(i32::MAX);
                    placed.push(Placed { run, ..for_node(row, job, name, number) });
                }
            }
            Some(_) => placed.push(as_planned(Cow::Borrowed(row))),
        }
    }
    placed.reverse();
    placed
}

/// A slot without a job; if it is missed after it waited for a node, its reason names the node.
fn after_waiting<'a>(row: &'a SlotRow, awaited: Option<&str>) -> Cow<'a, SlotRow> {
    match awaited.filter(|_| row.outcome == SlotOutcome::Missed) {
        None => Cow::Borrowed(row),
        Some(awaited) => {
            let reason = row.reason.as_ref().map(|reason| format!("{reason}; {awaited}"));
            Cow::Owned(SlotRow { reason, ..row.clone() })
        }
    }
}

/// The queues of the nodes that have a job of their own, where one is for every node.
pub fn queues_of_every_node(live: &[NodeInfo], kind: &str) -> Vec<String> {
    names(live, kind).into_iter().map(node_queue).collect()
}

/// Why no node takes a job of this kind from this queue, if it is that of a node or label and none
/// does.
pub fn why_nobody(live: &[NodeInfo], queue: &str, kind: &str) -> Option<String> {
    is_untaken(live, queue, kind).then(|| nobody(live, queue, kind))
}

/// Is the queue that of a node or label, and no node takes a job of this kind from it?
pub(crate) fn is_untaken(live: &[NodeInfo], queue: &str, kind: &str) -> bool {
    match queue {
        EVERY_NODE_QUEUE => names(live, kind).is_empty(),
        _ => queue.starts_with(NODE_QUEUE) && !live.iter().any(|node| takes(node, queue, kind)),
    }
}

/// The queues for which a node that joins may run held slots.
pub fn awaited_queues(node: &NodeInfo) -> Vec<&str> {
    let own = node.queues.iter().map(String::as_str).filter(|queue| queue.starts_with(NODE_QUEUE));
    let mut queues: Vec<&str> = own.collect();
    if !queues.is_empty() {
        queues.push(EVERY_NODE_QUEUE);
    }
    queues
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

    use punctual_core::ScheduleId;
    use punctual_core::schedule::{Overlap, label_queue};

    use super::*;
    use crate::{HeldSlots, Json, Origin, rules};

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
        let schedule = ScheduleId::from_bytes([1; 16]);
        let origin = Some(Origin { schedule, slot: Some(slot), facts: Json::null() });
        let job = Some(NewJob { origin, ..NewJob::new(id, queue, kind, Json::null()) });
        SlotRow { slot, end: None, count: 1, outcome: SlotOutcome::Fired, reason: None, job }
    }

    fn plan(slots: Vec<SlotRow>) -> SlotPlan {
        let schedule = ScheduleId::from_bytes([1; 16]);
        let (overlap, hold_for) = (Overlap::Allow, Duration::from_secs(60));
        let decision = SlotDecision::Advance { overlap, slots, next_slot: None, hold_for };
        SlotPlan { schedule, stamp: 1, decision }
    }

    /// What is applied of a plan from its first slot on.
    fn advance<'a>(plan: &'a SlotPlan, live: &[NodeInfo], now: Timestamp) -> Advance<'a> {
        let SlotDecision::Advance { slots, .. } = &plan.decision else { panic!("{plan:?}") };
        plan.check(slots.first().map(|row| row.slot), None, live, now).unwrap()
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
        let plan = plan(rows.to_vec());
        let advance = advance(&plan, &live, rows[1].slot);
        let placed = place(&advance, &live);
        assert_eq!(
            told(&placed),
            ["fired 0 @a None", "fired -1 @b None", "fired 0 @a None", "fired -1 @b None"]
        );
        let ids: BTreeSet<JobId> =
            placed.iter().filter_map(|it| Some(it.row.job.as_ref()?.id)).collect();
        assert_eq!(ids.len(), 4, "each job has an id of its own");
        assert_eq!(place(&advance, &live), placed, "and the same again");
    }

    #[test]
    fn the_reason_says_why_no_node_takes_a_job() {
        let live = [node("a", &[("zone", "eu")])];
        let reason = |queue: &str, kind: &str| why_nobody(&live, queue, kind).unwrap_or_default();
        assert_eq!(reason("@a", "mail") + &reason("@zone=eu", "mail"), "");
        assert_eq!(reason("mails", "other"), "", "a queue like any other may wait for its nodes");
        assert_eq!(reason("@b", "mail"), "no live node is named `b`");
        assert_eq!(reason("@zone=us", "mail"), "no live node has label zone=us");
        assert_eq!(reason("@a", "x"), "node `a` does not handle kind `x`");
        assert_eq!(reason("@zone=eu", "x"), "no live node with label zone=eu handles kind `x`");
        assert_eq!(reason("@*", "x"), "no live node handles kind `x`");
    }

    #[test]
    fn slots_are_held_from_the_first_one_on_that_no_live_node_takes() {
        let live = [node("a", &[])];
        let skipped = |number: u8, outcome: SlotOutcome| {
            let reason = Some("why".to_owned());
            SlotRow { outcome, reason, job: None, ..row(number, "", "") }
        };
        let (missed, merged, paused) =
            (SlotOutcome::Missed, SlotOutcome::Coalesced, SlotOutcome::SkippedPaused);
        let check = |slots: Vec<SlotRow>, decided: usize| {
            let now = slots.last().unwrap().slot;
            let plan = plan(slots.clone());
            let advance = advance(&plan, &live, now);
            assert_eq!(advance.slots, &slots[..decided]);
            assert_eq!(advance.next_slot, slots.get(decided).map(|row| row.slot));
            advance.held.map(|held| (held.queue, held.since == now, held.until.since(now)))
        };
        let held = |queue: &str| Some((queue.to_owned(), true, rules::HELD_WAIT_MIN));
        assert_eq!(check(vec![row(1, "@a", "mail"), row(2, "@a", "mail")], 2), None);
        assert_eq!(check(vec![row(1, "@b", "mail"), row(2, "@b", "mail")], 0), held("@b"));
        assert_eq!(check(vec![row(1, EVERY_NODE_QUEUE, "x")], 0), held("@*"));
        // What is final is decided; what was merged into a held slot is not final.
        let slots = vec![skipped(1, missed), skipped(2, paused), row(3, "@b", "mail")];
        assert_eq!(check(slots, 2), held("@b"));
        let slots = vec![
            skipped(1, missed),
            skipped(2, merged),
            skipped(3, paused),
            row(4, "@b", "mail"),
            skipped(5, paused),
        ];
        assert_eq!(check(slots, 1), held("@b"));
        let slots = vec![skipped(1, merged), row(2, "@a", "mail"), row(3, "@b", "mail")];
        assert_eq!(check(slots, 2), held("@b"));
    }

    #[test]
    fn held_slots_are_examined_less_often_the_longer_they_are_held() {
        let since = Timestamp::from_seconds(1);
        let until = |seconds: i64, hold_for: u64| {
            let now = Timestamp::from_seconds(seconds);
            let (mut plan, held) = (plan(vec![row(1, "@b", "mail")]), held("@b", since));
            let SlotDecision::Advance { hold_for: of_plan, .. } = &mut plan.decision else {
                panic!("{plan:?}")
            };
            *of_plan = Duration::from_secs(hold_for);
            let advance = plan.check(Some(since), Some(&held), &[], now).unwrap();
            let held = advance.held.unwrap();
            assert_eq!(held.since, since);
            held.until.since(now).as_secs()
        };
        assert_eq!(until(1, 86_400), 30);
        assert_eq!(until(31, 86_400), 30);
        assert_eq!(until(101, 86_400), 100);
        assert_eq!(until(40_001, 86_400), 900);
        assert_eq!(until(86_001, 86_400), 400, "when the policy gives them up");
        assert_eq!(until(86_400, 86_400), 30);
    }

    #[test]
    fn a_slot_that_is_missed_after_it_waited_for_a_node_says_so() {
        let missed = SlotRow {
            outcome: SlotOutcome::Missed,
            reason: Some("missed = none".to_owned()),
            job: None,
            ..row(1, "", "")
        };
        let plan = plan(vec![missed]);
        let now = Timestamp::from_seconds(90);
        let reason = |queue: &str| {
            let held = held(queue, now);
            let advance = plan.check(Some(Timestamp::from_seconds(1)), Some(&held), &[], now);
            place(&advance.unwrap(), &[])[0].row.reason.clone().unwrap()
        };
        assert_eq!(reason("@b"), "missed = none; waited for node `b`");
        assert_eq!(reason("@zone=eu"), "missed = none; waited for a node with label zone=eu");
        assert_eq!(reason("@*"), "missed = none; waited for a node that handles the kind");
    }

    fn held(queue: &str, since: Timestamp) -> HeldSlots {
        HeldSlots { queue: queue.to_owned(), since, until: since }
    }

    #[test]
    fn the_newest_slots_have_their_jobs_where_there_are_too_many() {
        let live: Vec<NodeInfo> = (0..150).map(|n| node(&format!("n{n}"), &[])).collect();
        let rows: Vec<SlotRow> =
            (0..20).map(|number| row(number, EVERY_NODE_QUEUE, "mail")).collect();
        let plan = plan(rows.clone());
        let advance = advance(&plan, &live, rows[19].slot);
        let placed = place(&advance, &live);
        let missed = placed.iter().filter(|it| it.row.outcome == SlotOutcome::Missed);
        let missed: Vec<Timestamp> = missed.map(|it| it.row.slot).collect();
        let kept = limits::PLACE_MAX / 150;
        assert_eq!(missed, rows[..20 - kept].iter().map(|row| row.slot).collect::<Vec<_>>());
        assert_eq!(placed.len(), 20 - kept + kept * 150);
        assert!(placed.is_sorted_by_key(|it| (it.row.slot, -it.run)));
    }
}
