//! Jobs of kind `command`: programs, run as people would want to run them.
//!
//! A program is started by its arguments, without a shell, with an environment that says what it
//! needs and nothing else. Its output becomes the job's log, within bounds. It ends when its attempt
//! does, and so does everything that it has started: between the worker and the program stands a
//! **shim**, the same binary under another name, to which orphans come back. When the worker is
//! gone, however it went, the shim sees the end of the pipe between them and kills all that is left.
//!
//! A binary that handles commands calls [`shim`] when [`SHIM`] is its first argument, and [`last_step`]
//! when [`LAST_STEP`] is, before anything else.

mod commands;
mod config;
#[cfg(target_os = "linux")]
mod descendants;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod explain;
#[cfg(target_os = "linux")]
mod hide;
#[cfg(target_os = "linux")]
mod last;
mod limit;
#[cfg(target_os = "linux")]
mod orphans;
#[cfg(target_os = "linux")]
mod output;
mod payload;
#[cfg(target_os = "linux")]
mod plain;
mod plan;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod shim;
mod template;
#[cfg(all(test, target_os = "linux"))]
mod tests;
mod users;
mod wire;

pub use commands::Commands;
pub use config::{Config, Named, Param, Type};
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{adopt_orphans, command, hide_process, last_step, shim};
#[cfg(target_os = "linux")]
pub use hide::hide_process;
#[cfg(target_os = "linux")]
pub use last::last_step;
pub use limit::{Limit, Limits};
#[cfg(target_os = "linux")]
pub use orphans::adopt_orphans;
pub use payload::Command;
#[cfg(target_os = "linux")]
pub use run::{Report, command};
#[cfg(target_os = "linux")]
pub use shim::shim;

/// The first argument of a process that is a shim.
pub const SHIM: &str = "__run-command";

/// The first argument of a process that becomes a command.
pub const LAST_STEP: &str = "__exec-command";
