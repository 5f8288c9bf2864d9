//! The store of punctual on PostgreSQL.
//!
//! Hot writes gather while the last commit is under way and go as one statement with arrays, on
//! connections that are kept for them; a small pool serves the rest. Everything works through a
//! pooler in transaction mode, and by polling alone; a listening connection only makes it quicker.

mod bodies;
mod check;
mod claim;
mod cluster_key;
mod connect;
mod connect_error;
mod connection;
mod counts;
mod disk;
mod driver;
mod enqueue;
mod error;
mod events;
mod expiry;
mod fire;
mod gather;
mod history;
mod in_transaction;
mod jobs;
mod keys;
mod leaders;
mod lists;
mod look;
mod marks;
mod migrate;
mod nodes;
mod notes;
mod options;
mod overdue;
mod partitions;
mod password;
mod pool;
mod queues;
mod retry;
mod rounds;
mod rows;
mod schedules;
mod session;
mod sets;
mod settings;
mod settle;
mod shared;
mod spoil;
mod sql;
mod store;
mod tls;
mod tls_policy;
mod upkeep;
mod url;
mod wake;

#[cfg(test)]
mod tests;

pub use history::History;
pub use in_transaction::InTransaction;
pub use migrate::{LATEST as SCHEMA, migrations_sql};
pub use options::Options;
pub use settings::{check_settings, parse_url};
pub use store::PostgresStore;
