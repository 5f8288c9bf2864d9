//! What a schedule is told, and what follows from it for the slots that are due.

mod definition;
mod facts;
mod plan;
mod policy;
mod run_on;

pub use definition::{Definition, DefinitionError, Rule, Template};
pub use facts::Facts;
pub use plan::{ON_TIME, PausedTime, Plan, PlannedJob, PlannedSlot, plan};
pub use policy::{Missed, OnExcluded, Overlap, Seat};
pub use run_on::{EVERY_NODE_QUEUE, NODE_QUEUE, RunOn, check_node_name, label_queue, node_queue};
