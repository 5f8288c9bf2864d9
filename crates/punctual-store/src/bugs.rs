//! Bugs that tests plant on purpose: a test harness counts only if it finds them. Without the
//! feature `planted-bugs` nothing of this is compiled in, and no bug is ever planted.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A result is taken from whoever sends it, whatever the lease.
    NoFenceOnSettle,
    /// Leases are counted instead of drawn, so that a failover hands one out twice.
    CountedLease,
    /// Jobs are taken back by their age, not by the silence of their node.
    ReapByAge,
    /// An attempt is counted when it ends, so that one that never ends is never counted.
    CountAtEnd,
    /// A job is given back by its id, whoever has it by now.
    ReleaseById,
    /// A job is acknowledged before it is written.
    EarlyAck,
    /// What a shutdown interrupts has failed.
    DrainBurnsAttempts,
    /// After a lost connection the claimer never asks again.
    WedgeOnLostConnection,
    /// More is claimed than can start.
    ClaimBeyondCapacity,
    /// Slots are planned if they are young, not if they are undecided.
    LookBackWindow,
    /// Slots become jobs in one transaction, and the watermark moves in the next.
    TwoTransactionClaim,
    /// The watermark moves in one transaction, and slots become jobs in the next.
    WatermarkFirst,
    /// Slots are fired under the term that the node remembers, whoever leads by now.
    CachedFence,
    /// The time of a remote attempt counts from when its job was due.
    OverdueSinceDue,
    /// A change of a schedule ignores slots that become due before it is written.
    ChangeByEarlierClock,
    /// A change of a schedule may begin with a slot that is due before the change is written.
    ChangeStartsBefore,
    /// The watched time of a role starts at zero in each term.
    WatchByTerm,
    /// A job that waits past its start deadline ends only when a node claims it.
    ExpireAtClaimOnly,
    /// A job that expired stays among the unfinished jobs of its schedule.
    ExpireKeepsUnfinished,
    /// The watermark passes slots that no live node can run, without a decision.
    HeldForgotten,
}

impl Bug {
    /// Every one there is.
    pub const ALL: &'static [Bug] = &[
        Bug::NoFenceOnSettle,
        Bug::CountedLease,
        Bug::ReapByAge,
        Bug::CountAtEnd,
        Bug::ReleaseById,
        Bug::EarlyAck,
        Bug::DrainBurnsAttempts,
        Bug::WedgeOnLostConnection,
        Bug::ClaimBeyondCapacity,
        Bug::LookBackWindow,
        Bug::TwoTransactionClaim,
        Bug::WatermarkFirst,
        Bug::CachedFence,
        Bug::OverdueSinceDue,
        Bug::ChangeByEarlierClock,
        Bug::ChangeStartsBefore,
        Bug::WatchByTerm,
        Bug::ExpireAtClaimOnly,
        Bug::ExpireKeepsUnfinished,
        Bug::HeldForgotten,
    ];
}

/// Is a bug planted that plans need not keep the rules for?
pub fn has_lax_plans() -> bool {
    [Bug::LookBackWindow, Bug::TwoTransactionClaim, Bug::WatermarkFirst]
        .map(is_planted)
        .contains(&true)
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug, or none, for everything that runs on this thread.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Is this bug planted?
    pub fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
pub use planted::{is_planted, plant};

/// Is this bug planted? Never, without the feature `planted-bugs`.
#[cfg(not(feature = "planted-bugs"))]
pub const fn is_planted(_: Bug) -> bool {
    false
}
