//! Whether the database's clock and schema fit this program.

use punctual_core::Timestamp;
use punctual_store::Schema;

use super::{Finding, Thresholds};
use crate::why::Reason;
use crate::wording::{instant, length};

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
