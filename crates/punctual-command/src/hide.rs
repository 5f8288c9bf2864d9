//! What the programs of jobs must not see of the process that starts them.

use std::io;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Hides the memory, the environment and the descriptors of this process from other processes of its
/// user, unless they are root: its environment may hold the token and the password of the database.
/// The system then writes no core dump of it either. A program that it becomes is not hidden.
pub fn hide_process() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Keeps all descriptors but the first three from the program that this process becomes. Those that
/// were open when the worker was started would reach it otherwise.
pub(crate) fn keep_descriptors() {
    close_fds::set_fds_cloexec(3, &[]);
}
