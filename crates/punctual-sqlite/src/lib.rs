//! The store of punctual in one SQLite file.
//!
//! One thread owns the only connection that writes; it commits together whatever requests have
//! gathered while the last commit was under way, and answers when they are durable.
//! Read-only connections serve reads, with a separate one for the engine. A file has one engine at
//! a time; other processes may write jobs and schedules beside it as clients.

mod backup;
mod changes;
mod check;
mod claim;
mod clock;
mod cluster_key;
mod counts;
mod error;
mod events;
mod expiry;
mod file_guard;
mod file_system;
mod fire;
pub mod in_transaction;
mod jobs;
mod leaders;
mod lists;
mod look;
mod migrate;
mod nodes;
mod notes;
mod open;
mod overdue;
mod places;
mod queues;
mod readers;
mod rows;
mod schedules;
mod sets;
mod settle;
mod sql;
mod state;
mod store;
mod upkeep;
mod writer;

#[cfg(test)]
mod tests;

pub use migrate::{LATEST as SCHEMA, migrations_sql};
pub use open::{Options, Role};
pub use store::SqliteStore;
