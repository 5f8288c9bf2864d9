//! The product as people run it: real processes, real ports, real databases.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cluster;
mod files;
mod process;
mod refusals;
mod walk;
