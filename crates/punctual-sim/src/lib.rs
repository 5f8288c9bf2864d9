//! Whole clusters of punctual in one thread, with simulated time, through every fault that can
//! be thought of; deterministic, so that what went wrong once goes wrong again.
//!
//! The real engine runs over the reference model (or SQLite). Between a process and the database
//! is a network that loses and delays; around both is a nemesis that kills, freezes, cuts, stops,
//! steps the clock and sets the database back to an older state. The record
//! keeps an account of its own and says what broke a promise.

mod chance;
mod clock;
mod clock_jump;
mod counts;
mod crash_loop;
mod machine;
mod many;
mod mix;
mod nemesis;
mod network;
mod oracle;
mod process;
mod record;
mod remote;
mod timetable;
mod workload;
mod world;

pub use counts::Counts;
pub use many::{Proof, prove};
pub use workload::silence_planned_panics;
pub use world::{Backend, Faults, Plan, Verdict, run};
