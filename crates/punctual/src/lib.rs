//! Durable cron and background jobs: on SQLite on one machine, on PostgreSQL across many.
//!
//! # Start here
//!
//! A job is a type that can be written down, and a handler is an asynchronous function of it:
//!
//! ```
//! use punctual::{Job, Punctual};
//!
//! #[derive(serde::Serialize, serde::Deserialize, Job)]
//! struct Greet { name: String }
//!
//! async fn greet(job: Greet) { println!("hello, {}", job.name) }
//!
//! #[tokio::main]
//! async fn main() -> punctual::Result<()> {
//!     let punctual = Punctual::memory().handle(greet).start().await?;
//!     let receipt = punctual.enqueue(&Greet { name: "Ada".into() }).await?;
//!     punctual.wait(receipt.id).await.map(drop)
//! }
//! ```
//!
//! With [`Punctual::memory`] nothing outlives the process. `Punctual::sqlite("app.db").await?` keeps
//! everything in a file, `Punctual::postgres(url).await?` in a database that any number of nodes
//! share; nothing else changes.
//!
//! | to … | look at |
//! |---|---|
//! | say how jobs of a type are treated | [`Job`]: queue, attempts, timeout, backoff, uniqueness |
//! | say it for one job: later, first, only once | [`Order`], [`Unique`] |
//! | order jobs, wait for them | [`Punctual::enqueue`], [`Punctual::enqueue_many`], [`Punctual::wait`] |
//! | do the work; know the attempt and the slot; tell progress | [`Handler`], [`Ctx`] |
//! | end otherwise than well or badly | [`Outcome`], [`Failure`], [`Done`] |
//! | do parts of the work once, however often it is tried | [`Ctx::step`] |
//! | run jobs at times | [`Builder::schedule`], [`cron`], [`every`], [`at`] |
//! | wrap every handler | [`Builder::layer`] |
//! | list, retry, cancel, pause, explain | [`Admin`] |
//! | let others work, in any language | [`remote`] |
//! | test without waiting | `testing`, with the feature of that name |
//!
//! # What is promised
//!
//! - **Slots.** Each due time of each enabled schedule gets exactly one recorded outcome: a job, or
//!   a skip with its reason. Never early, never twice, however many nodes there are.
//! - **Orders.** A job that was acknowledged survives the crash of any node and of the database.
//!   With a unique key any number of tries makes one job.
//! - **Work.** At least once, and at most one attempt at a time that counts. A late worker never
//!   changes a newer attempt.
//!
//! # Features
//!
//! `sqlite` and `derive` are on unless switched off; `postgres` and `testing` are not. They only
//! ever add.

mod admin;
mod builder;
mod connect;
mod ctx;
pub mod doctor;
mod error;
mod events;
mod handler;
mod job;
pub mod migrations;
mod order;
mod outcome;
mod punctual;
pub mod remote;
mod start_check;
#[cfg(feature = "testing")]
pub mod testing;
#[doc(hidden)]
pub mod transaction;
mod when;
pub mod why;
mod wording;

pub use crate::punctual::{Awaited, Finished, Punctual, Receipt};
pub use admin::Admin;
pub use builder::Builder;
#[cfg(feature = "postgres")]
pub use connect::OpenPostgres;
#[cfg(feature = "sqlite")]
pub use connect::OpenSqlite;
pub use ctx::Ctx;
pub use error::{Error, ErrorDetails, ErrorKind, Result};
pub use handler::{Call, Handler, HandlerService};
pub use job::{Job, Settings, Unique};
pub use order::Order;
pub use outcome::{BoxError, Done, Failure, IntoEnded, Outcome, is_out_of_resources};
pub use punctual_core::job::{
    AttemptOutcome, Backoff, Growth, JobState, LogLevel, SlotOutcome, Spread,
};
pub use punctual_core::schedule::{
    Definition, DefinitionError, Facts, Missed, OnExcluded, Overlap, RunOn, Template,
};
pub use punctual_core::{
    DstFold, DstGap, ExcludedTime, JobId, LeaseId, NodeId, ScheduleId, Timestamp, UnknownWord,
};
#[cfg(feature = "derive")]
pub use punctual_derive::Job;
pub use punctual_engine::telemetry::describe_metrics;
pub use punctual_engine::{Applied, Manner, Step, Wanted, What};
pub use punctual_engine::{
    Ended, Fired, Health, HeldClock, Leadership, QueueOrder, Realigned, Seen, ServedQueue,
    StopReason, Stopped, Timing,
};
pub use punctual_store::{
    Actor, AttemptView, AuditAction, AuditCursor, AuditView, ClaimedJob, Cursor, Event,
    EventCursor, HeldSlots, Hints, JobDetail, JobFilter, JobRun, JobView, Json, Leader,
    LeaderChange, LogCursor, LogView, Node, NodeInfo, Page, Pause, Placement, ProgressView, Queue,
    QueueCounts, QueueLimits, QueueStats, Retention, RevisionCursor, RevisionView, RollupCount,
    RollupCursor, RollupFilter, RollupSum, Schedule, Schema, SlotCursor, SlotRun, SlotView, Span,
    StatsCursor, StepView, SumAsk, Topic,
};
#[cfg(feature = "sqlite")]
pub use rusqlite;
#[cfg(feature = "sqlx")]
pub use sqlx;
#[cfg(feature = "postgres")]
pub use tokio_postgres;
pub use transaction::Transaction;
pub use when::{When, at, cron, every};

/// The examples of the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
