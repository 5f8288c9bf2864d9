//! What punctual says over HTTP: the shapes of requests and answers.
//!
//! Instants are RFC 3339 in UTC. Lengths of time that somebody sets are words such as `1m30s`;
//! those that were measured are integers in a field that ends in `_ms`.

mod cron;
mod event;
mod job;
mod list;
mod node;
mod operation;
mod problem;
mod queue;
mod schedule;
mod set;
mod why;
mod worker;

pub use cron::{Explain, Explained};
pub use event::{Event, LeaderEvent, SlotEvent, TOPICS};
pub use job::{
    Attempt, Batch, BatchAnswer, BatchItem, Enqueue, Enqueued, Job, JobDetail, LogLine, Move,
    Progress, Step,
};
pub use list::{List, text};
pub use node::{Audit, Capabilities, Leader, Node, Series, SeriesPoint, Term};
pub use operation::{Operate, Operation, OperationCounts};
pub use problem::{FieldError, Problem};
pub use queue::{Limits, PauseAsk, Paused, Queue, QueueKind};
pub use schedule::{
    MovedSlot, NextSlots, Ran, RecentSlot, Revision, Schedule, ScheduleBody, ScheduleJob, Slot,
    Upcoming, UpcomingBucket,
};
pub use set::{FieldChange, SetBody, SetChange, SetSchedule, SetStep};
pub use why::{Diagnosis, Finding, Reason, Why};
pub use worker::{
    Claim, Claimed, Complete, Drain, Fail, Heartbeat, HeartbeatProgress, Heartbeaten, Lease,
    Logged, NewLogLine, Settled, Snooze,
};
