//! The port through which punctual keeps everything: one trait, [`Store`], whose every method
//! is one transaction with one intent.
//!
//! A method takes [`At`]: production leaves the time to the database, tests and the simulator
//! fix it. Every answer says which instant it used. Three stores implement the port and pass
//! one conformance suite: [`memory`] here, which is the reference model, SQLite and PostgreSQL.

mod advance;
mod audit_action;
pub mod backend;
#[doc(hidden)]
pub mod bugs;
mod claim;
mod cluster_key;
mod end_reason;
mod enqueue;
mod error;
mod event;
mod expiry;
mod exposure;
mod hints;
mod json;
pub mod layer;
mod leader;
pub mod limits;
mod list;
mod list_limit;
pub mod look;
mod measure;
pub mod memory;
mod node;
mod notes;
mod operation;
pub mod operations;
mod placing;
mod queue;
mod realign;
pub mod rules;
mod schedule;
mod set;
mod settle;
pub mod skipped;
mod store;
mod upkeep;

use punctual_core::Timestamp;

pub use advance::{Advance, HeldSlots};
pub use audit_action::AuditAction;
pub use claim::{ClaimAsk, Claimed, ClaimedJob, QueueShare, UnreadableJob};
pub use cluster_key::{CLUSTER_KEY_BYTES, ClusterKey, KEY_HASH_BYTES, KeyHash, MeaningDigest};

pub use end_reason::EndReason;
pub use enqueue::{
    Delay, EnqueueAnswer, Enqueued, KeyLifetime, KeyScope, Misfit, NewJob, Origin, Rejection,
    UniqueKey,
};
pub use error::{ErrorKind, ErrorSource, Result, SchemaVersions, StoreError};
pub use event::{Event, EventCursor, EventKey, EventRow, event_rows, merge_events};
pub use expiry::{ExpireRequest, ExpireResponse, ExpiredJob};
pub use exposure::Exposure;
pub use hints::{Bell, Hints, Topic};
pub use json::Json;
pub use leader::{Acquired, Fence, Leader, LeaderChange, MAINTENANCE};
pub use list::{
    AttemptView, AuditCursor, Cursor, Hold, JobDetail, JobFilter, JobView, Page, Pager,
    ProgressView, RevisionCursor, RevisionView, RollupCursor, SlotCursor, SlotView, Source,
    StatsCursor,
};
pub use list_limit::{ListLimit, ListPermit};
pub use look::{JobRun, RollupSum, SlotRun, Span, SumAsk};
pub use measure::describe_metrics;
pub use node::{
    BeatAsk, Beaten, JoinResponse, Node, NodeInfo, Progress, REMOTE_LABEL, Released, RoleBeat,
};
pub use notes::{LogCursor, LogLine, LogView, StepAnswer, StepView};
pub use operation::{Caller, Operation, Repeat};
pub use placing::{Placed, awaited_queues, place, queues_of_every_node, why_nobody};
pub use queue::{
    CountRequest, CountResponse, Queue, QueueChange, QueueCounts, QueueLimits, QueueStats,
};
pub use realign::{AHEAD_MIN, AheadSchedules, DecidedRow, Realignment, Remainder, RowCut};
pub use schedule::{
    Due, EditAnswer, FireAnswer, Fired, NewSchedule, PassedSlots, Pause, Schedule, ScheduleChange,
    Seated, Seats, SlotDecision, SlotPlan, SlotRow,
};
pub use set::{Registered, Registration, SetEntry};
pub use settle::{
    CancelAnswer, MoveAnswer, Placement, RequeueAnswer, Settled, Settlement, Settlements,
};
pub use skipped::SkippedSlots;
pub use store::Store;
pub use upkeep::{
    Actor, AuditEntry, AuditView, OverdueJob, Promoted, Pruned, ReapAsk, Reaped, ReapedAttempt,
    ReapedJob, Retention, RollupCount, RollupFilter, Schema,
};

/// Whose clock a transaction goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The database's, read in the transaction itself.
    Database,
    /// A fixed instant, in tests and in the simulator.
    Fixed(Timestamp),
}
