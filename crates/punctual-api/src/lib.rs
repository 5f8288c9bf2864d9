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

pub use cron::{CronExplainRequest, CronExplanation};
pub use event::{Event, LeaderEvent, SlotEvent, TOPICS};
pub use job::{
    Attempt, BatchItem, BatchRequest, BatchResponse, EnqueueRequest, EnqueueResponse, Job,
    JobDetail, LogLine, MoveRequest, Progress, Step,
};
pub use list::{List, text};
pub use node::{AuditEntry, Capabilities, Leader, Node, Series, SeriesPoint, Term};
pub use operation::{Operation, OperationCounts, OperationRequest};
pub use problem::{FieldError, Problem};
pub use queue::{Limits, Pause, PauseRequest, Queue, QueueKind};
pub use schedule::{
    HeldSlots, MovedSlot, NextSlots, RealignResponse, RecentSlot, Revision, RunNowResponse,
    Schedule, ScheduleBody, ScheduleJob, Slot, Upcoming, UpcomingBucket,
};
pub use set::{FieldChange, SetBody, SetChange, SetSchedule, SetStep};
pub use why::{Diagnosis, Explanation, Finding, Reason};
pub use worker::{
    ClaimRequest, ClaimResponse, CompleteRequest, DrainRequest, FailRequest, HeartbeatProgress,
    HeartbeatRequest, HeartbeatResponse, Lease, LogAppendResponse, NewLogLine, SettleItem,
    SettleManyRequest, SettleManyResponse, SettleResponse, SettleResult, SnoozeRequest,
};
