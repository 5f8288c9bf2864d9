//! Whether the database's clock, schema and history fit this program.

use punctual_core::{NodeId, Timestamp};
use punctual_engine::HeldClock;
use punctual_store::{AheadSchedules, Schema};

use super::{Finding, Thresholds};
use crate::why::Reason;
use crate::why::cluster::Cluster;
use crate::wording::{count, instant, length, listed, quoted};

/// A schema that this program does not write.
pub(super) fn schema(schema: &Schema, limits: &Thresholds) -> Option<Finding> {
    let (own, version) = (limits.schema?, schema.version);
    if version < own {
        let text = format!("the database schema is version {version}, this program requires {own}");
        let reason = Reason::new("schema_old", text);
        return Some(Finding::problem(reason.remedy("upgrade the schema: `punctual db migrate`")));
    }
    let text =
        format!("the database schema is version {version}, this program supports up to {own}");
    let reason = Reason::new("schema_new", text).remedy("upgrade this program");
    (version > own).then(|| Finding::warning(reason))
}

/// A failover that was seen lately: what was written last before it may be missing.
pub(super) fn forked(schema: &Schema, now: Timestamp, limits: &Thresholds) -> Option<Finding> {
    let forked_at = schema.forked_at.filter(|at| now.since(*at) <= limits.forked)?;
    let text = format!(
        "database failover or restore detected at {}: the last writes before it may be lost, and \
         jobs that ran just before it may run again",
        instant(forked_at)
    );
    let reason = Reason::new("failover_detected", text);
    Some(Finding::warning(reason.remedy(
        "compare the records of your programs with `punctual job list`; a synchronous standby \
         prevents such losses",
    )))
}

/// What was written by a clock that was ahead of the database's as it is now: another host's, or its
/// own before it was set back. Until it has caught up, leases and heartbeats seem to last.
pub(super) fn ahead(cluster: &Cluster, limits: &Thresholds) -> Option<Finding> {
    let live = cluster.nodes.iter().filter(|node| node.dead_at.is_none());
    let newest = live.max_by_key(|node| node.seen_at)?;
    let (now, ahead) = (cluster.now, newest.seen_at.since(cluster.now));
    let text = format!(
        "the last heartbeat of node {} is {} ahead of the database clock ({}): the clock was set \
         back, or the clocks of two hosts differ",
        quoted(&newest.info.name),
        length(ahead),
        instant(now)
    );
    let reason = Reason::new("clock_skew", text)
        .remedy("synchronize the clocks of all hosts, for example with chrony");
    if newest.seen_at > now && ahead > limits.skew_problem {
        return Some(Finding::problem(reason));
    }
    (newest.seen_at > now && ahead > limits.skew_warning).then(|| Finding::warning(reason))
}

/// A clock of the database that jumped forward and is not trusted yet by the node.
pub(super) fn held(node: NodeId, clock: &HeldClock) -> Finding {
    let HeldClock { ahead, since } = *clock;
    let text = format!(
        "the database clock jumped ahead by {} at {} and is not trusted by this server (node {node}): \
         slots are decided at most one minute ahead of the expected time, until the clock has run \
         normally for two minutes",
        length(ahead),
        instant(since),
    );
    let reason = Reason::new("clock_held", text).remedy(
        "check the clock of the database host; schedules that are reported as late fire when the \
         clock is trusted again",
    );
    Finding::problem(reason)
}

/// Schedules that wait for a clock that was set back.
pub(super) fn schedules_ahead(ahead: &AheadSchedules, now: Timestamp) -> Option<Finding> {
    let until = ahead.schedules.first()?.ahead_until(now)?;
    let number = ahead.schedules.len() as u64;
    let at_least = if ahead.is_partial { "at least " } else { "" };
    let names = listed(ahead.schedules.iter().map(|schedule| quoted(&schedule.name)));
    let schedules = count(number, "schedule does", "schedules do");
    let text = format!(
        "{at_least}{schedules} not fire before {} ({} from now), because their slots up to then are \
         already decided: {names}; the database clock was ahead and was set back",
        instant(until),
        length(until.since(now)),
    );
    let reason = Reason::new("schedules_ahead", text).remedy(
        "check the clock of the database host; if it is right now, let these slots fire at their time: \
         `punctual schedule realign --all` (first with `--dry-run`)",
    );
    Some(Finding::problem(reason))
}

/// How far the clock of this host is from the database's.
pub(super) fn skew(now: Timestamp, wall: Timestamp, limits: &Thresholds) -> Option<Finding> {
    let (skew, side) = match wall > now {
        true => (wall.since(now), "ahead of"),
        false => (now.since(wall), "behind"),
    };
    let text = format!(
        "the clock of this host is {} {side} the database clock ({}); slots and leases use the \
         database clock, ids and logs the host clock",
        length(skew),
        instant(now)
    );
    let reason =
        Reason::new("clock_skew", text).remedy("synchronize both clocks, for example with chrony");
    if skew > limits.skew_problem {
        return Some(Finding::problem(reason));
    }
    (skew > limits.skew_warning).then(|| Finding::warning(reason))
}
