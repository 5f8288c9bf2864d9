//! Whether somebody is at work, and who is not any more.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_engine::{MAINTENANCE, SCHEDULER};
use punctual_store::{Leader, Node};

use super::{Finding, Thresholds};
use crate::why::Reason;
use crate::why::cluster::Cluster;
use crate::wording::{count, lasting, quoted, when};

/// What to do if the upkeep of dead nodes does not happen.
const CHECK_LEADER: &str =
    "find the leader of `maintenance` with `punctual leader` and check its log";

/// A role of the application's own that nobody has led for longer was given up.
const GIVEN_UP: Duration = Duration::from_secs(86_400);

/// What is wrong with nodes and roles; that nobody fires schedules is told with these.
pub(super) fn findings(cluster: &Cluster, limits: &Thresholds) -> Vec<Finding> {
    let mut findings: Vec<Finding> = cluster
        .nodes
        .iter()
        .filter_map(|node| dead(node, cluster, limits).map(Finding::problem))
        .collect();
    if let Some(reason) = cluster.no_node() {
        let reason = reason.remedy(
            "start a node, for example: `punctual serve`; until then, no schedules fire and no \
             jobs run",
        );
        findings.push(Finding::problem(reason));
        return findings;
    }
    let undone = "due jobs do not become ready, jobs of dead nodes are not reclaimed, and history \
                  is not pruned";
    findings.extend(unled(cluster, MAINTENANCE, undone));
    let silent = cluster.nodes.iter().filter_map(|node| silent(node, cluster));
    findings.extend(silent.map(Finding::problem));
    let lapsed = cluster.leaders.iter().filter_map(|leader| lapsed(leader, cluster));
    findings.extend(lapsed.map(Finding::warning));
    findings
}

/// Nobody leads a role, and it is not that somebody is just about to.
pub(super) fn unled(cluster: &Cluster, role: &str, undone: &str) -> Option<Finding> {
    let last = cluster.leaders.iter().find(|leader| leader.fence.role == role);
    let joined = cluster.live().map(|node| node.joined_at).min();
    let since: Option<Timestamp> =
        [last.map(|last| last.until), joined].into_iter().flatten().max();
    let is_long = since.is_none_or(|since| cluster.now.since(since) > cluster.lifetime);
    cluster.nobody_leads(role, undone).filter(|_| is_long).map(Finding::problem)
}

/// A node was declared dead, and nobody has taken its jobs back.
fn dead(node: &Node, cluster: &Cluster, limits: &Thresholds) -> Option<Reason> {
    let dead_at = node.dead_at?;
    let text = format!(
        "node {} was declared dead {}, but {} not been reclaimed",
        quoted(&node.info.name),
        when(cluster.now, dead_at),
        count(node.running, "of its jobs has", "of its jobs have")
    );
    let reason = || Reason::new("leases_of_dead_node", text).remedy(CHECK_LEADER);
    (node.running > 0 && cluster.now.since(dead_at) > limits.late).then(reason)
}

/// A node is silent, and nobody declares it dead.
fn silent(node: &Node, cluster: &Cluster) -> Option<Reason> {
    let limit = cluster.lifetime * 2;
    // After an outage every node has a lifetime to send a heartbeat.
    let is_watched = cluster
        .leader(MAINTENANCE)
        .is_none_or(|leader| leader.watched.saturating_sub(node.seen_watch) > limit);
    let is_long = is_watched && cluster.now.since(node.seen_at) > limit;
    if node.dead_at.is_some() || !is_long {
        return None;
    }
    let text = format!(
        "node {} has sent no heartbeat {} and holds {}; it should have been declared dead after {}",
        quoted(&node.info.name),
        lasting(cluster.now, node.seen_at),
        count(node.running, "job", "jobs"),
        cluster.patience()
    );
    let reason = Reason::new("node_silent", text);
    Some(reason.remedy(CHECK_LEADER))
}

/// A role of the application's own that nobody leads since lately.
fn lapsed(leader: &Leader, cluster: &Cluster) -> Option<Reason> {
    let role = leader.fence.role.as_str();
    let for_long = cluster.now.since(leader.until);
    let is_ours = role == MAINTENANCE || role == SCHEDULER;
    if is_ours || leader.until > cluster.now || for_long <= cluster.lifetime || for_long > GIVEN_UP
    {
        return None;
    }
    let text = format!(
        "application role `{role}` has had no leader {}",
        lasting(cluster.now, leader.until)
    );
    Some(
        Reason::new("no_leader", text)
            .remedy("start a program that leads this role, if it is still needed"),
    )
}
