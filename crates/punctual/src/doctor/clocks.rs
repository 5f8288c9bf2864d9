//! Whether the database's clock, schema and history fit this program.

use punctual_core::Timestamp;
use punctual_store::Schema;

use super::{Finding, Thresholds};
use crate::why::Reason;
use crate::why::cluster::Cluster;
use crate::wording::{instant, length, quoted};

/// A schema that this program does not write.
pub(super) fn schema(schema: &Schema, limits: &Thresholds) -> Option<Finding> {
    let (own, version) = (limits.schema?, schema.version);
    if version < own {
        let text = format!("the database has schema {version}, and this program writes {own}");
        let reason = Reason::new("schema_old", text);
        return Some(Finding::problem(reason.remedy("bring it up to date: `punctual db migrate`")));
    }
    let text = format!(
        "the database has schema {version}, and this program knows up to {own}: others run a newer one"
    );
    let reason = Reason::new("schema_new", text).remedy("upgrade this program as well");
    (version > own).then(|| Finding::warning(reason))
}

/// A failover that was seen lately: what was written last before it may be missing.
pub(super) fn forked(schema: &Schema, now: Timestamp, limits: &Thresholds) -> Option<Finding> {
    let forked_at = schema.forked_at.filter(|at| now.since(*at) <= limits.forked)?;
    let text = format!(
        "the database has had another history since {}, as after a failover: what was acknowledged in the last moments before may be lost, and what ran then may run again",
        instant(forked_at)
    );
    let reason = Reason::new("history_forked", text);
    Some(Finding::warning(reason.remedy(
        "compare what your programs were told with what is there; a standby that is synchronous loses nothing",
    )))
}

/// What was written by a clock that was ahead of the database's as it is now: another host's, or its
/// own before it was set back. Until it has caught up, leases and heartbeats seem to last.
pub(super) fn ahead(cluster: &Cluster, limits: &Thresholds) -> Option<Finding> {
    let live = cluster.nodes.iter().filter(|node| node.dead_at.is_none());
    let newest = live.max_by_key(|node| node.seen_at)?;
    let (now, ahead) = (cluster.now, newest.seen_at.since(cluster.now));
    let text = format!(
        "the last heartbeat of node {} is {} ahead of the database's clock, which says {}: the clock was set back, or two hosts differ",
        quoted(&newest.info.name),
        length(ahead),
        instant(now)
    );
    let reason = Reason::new("clock_skew", text)
        .remedy("let all hosts be set by the same time servers, for instance with chrony");
    if newest.seen_at > now && ahead > limits.skew_problem {
        return Some(Finding::problem(reason));
    }
    (newest.seen_at > now && ahead > limits.skew_warning).then(|| Finding::warning(reason))
}

/// How far the clock of this host is from the database's.
pub(super) fn skew(now: Timestamp, wall: Timestamp, limits: &Thresholds) -> Option<Finding> {
    let (skew, side) = match wall > now {
        true => (wall.since(now), "ahead of"),
        false => (now.since(wall), "behind"),
    };
    let text = format!(
        "the clock of this host is {} {side} the database's, which says {}; slots and leases go by the database's, ids and logs by the host's",
        length(skew),
        instant(now)
    );
    let reason = Reason::new("clock_skew", text)
        .remedy("let both be set by the same time servers, for instance with chrony");
    if skew > limits.skew_problem {
        return Some(Finding::problem(reason));
    }
    (skew > limits.skew_warning).then(|| Finding::warning(reason))
}
