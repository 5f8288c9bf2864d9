//! Workers that are no part of a program with this library: they claim jobs and settle them through
//! somebody who asks on their behalf, such as a server that speaks HTTP.
//!
//! A remote worker is a node like any other: it joins with its first claim, every call of it is its
//! heartbeat, and if it says nothing for too long the reaper takes its jobs back, which counts as an
//! attempt of each.
//!
//! # Nothing is remembered here
//!
//! Any process that reaches the database may be asked, one call by this and the next by another, and
//! each may be restarted at any time. What a call needs is in three places:
//!
//! - **The store** has the node, the leases that it holds, until when each may take, and whether the
//!   node should drain (a label).
//! - **The name of a lease** ([`Held`]) says which job and attempt it is of, and whose it is; the
//!   store has to agree. Each job is claimed under a lease of its own.
//! - **The worker** knows which leases have reached it, and says so with its next claim. What the
//!   store holds for it beyond these was claimed by a request whose answer was lost, and is given back
//!   at once, without costing the job an attempt. One claim at a time makes this safe: a lease that
//!   the worker does not know when it claims again it will never know.
//!
//! A process keeps copies, so that the end of an attempt is one statement however many leases its worker
//! has: the list of nodes, for a second, and the leases that were claimed through it. A lease that it has
//! no copy of is read from the store.
//!
//! # Time
//!
//! A result that arrives after the deadline of its attempt is refused. The maintenance leader ends such
//! attempts (`Store::reap`), also those of workers that send nothing.

mod attempt;
mod claim;
mod counts;
mod deadline;
mod held;
mod join;
mod nodes;
mod policy;
mod report;
mod settle;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_core::NodeId;
use punctual_engine::Timing;

pub use claim::{Claims, Leased, Wish};
pub use held::{Held, HeldError, Holder};
pub use nodes::{is_draining, is_remote};
pub use report::{Pulse, Report};
pub use settle::{End, Failed};

pub(crate) use counts::Counts;

use crate::ctx::Shared;
use crate::error::{Error, ErrorKind};

/// Asks on behalf of remote workers. Cheap to clone.
#[derive(Clone)]
pub struct Remote {
    shared: Arc<Shared>,
    timing: Timing,
    seen: Arc<Mutex<nodes::Seen>>,
    beats: Arc<nodes::Beats>,
    leases: Arc<attempt::Leases>,
    clock: Arc<attempt::Clock>,
    backoffs: Arc<policy::Backoffs>,
}

/// The most jobs of one claim; a worker that runs more at once claims again.
pub const CLAIM_MAX: usize = 100;
/// The longest wait for work: many a proxy cuts a request after a minute.
pub const WAIT_MAX: Duration = Duration::from_secs(55);

impl Remote {
    pub(crate) fn new(shared: Arc<Shared>) -> Remote {
        Remote {
            shared,
            timing: Timing::default(),
            seen: Arc::default(),
            beats: Arc::default(),
            leases: Arc::default(),
            backoffs: Arc::default(),
            clock: Arc::default(),
        }
    }

    /// An id for a worker that has not made one.
    pub fn mint(&self) -> NodeId {
        NodeId::mint(self.shared.env.wall(), self.shared.env.seed())
    }

    /// How often a worker should be heard: three times before it would be given up.
    pub fn heartbeat_interval(&self) -> Duration {
        self.timing.dead / 3
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").finish_non_exhaustive()
    }
}

/// The lease is gone, and whatever was done under it counts no more.
fn lost(held: &Held) -> Error {
    let Held { job, attempt, .. } = held;
    Error::new(
        ErrorKind::Fenced,
        format!(
            "the lease for attempt {attempt} of job {job} is no longer valid (missed heartbeats, \
             timeout, already settled, or not listed in a claim)"
        ),
    )
}
