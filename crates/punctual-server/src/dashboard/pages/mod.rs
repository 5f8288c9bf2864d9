//! The pages, a file each.

pub(super) mod activity;
pub(super) mod confirm;
pub(super) mod cron;
pub(super) mod everything;
mod first_steps;
pub(super) mod job;
pub(super) mod jobs;
pub(super) mod log;
pub(super) mod nodes;
pub(super) mod operation;
pub(super) mod overview;
pub(super) mod queue;
pub(super) mod queues;
pub(super) mod schedule;
pub(super) mod schedules;
pub(super) mod settings;
pub(super) mod timeline;
pub(super) mod upcoming;

use maud::Markup;
use punctual::ErrorKind;

use crate::fault::Fault;

/// A page, or why there is none.
type Shown = Result<Markup, Fault>;

/// What a database gave up on, for it bounds its statements, with what would make it shorter.
fn too_slow(error: punctual::Error, hint: &str) -> Fault {
    match error.kind() {
        ErrorKind::Retry => Fault::from(error).hint(hint),
        _ => error.into(),
    }
}
