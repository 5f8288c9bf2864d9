//! The limit of open files, which is raised for the server and not for its commands.
//!
//! A server needs many descriptors. A program may not expect descriptors above 1,023, which `select`
//! cannot wait for, so commands start with the soft limit that the server was started with.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The soft limit before it was raised.
static ORIGINAL: OnceLock<u64> = OnceLock::new();

/// The soft limit of open files; `None`: any number.
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the soft limit of open files to the hard limit, for this process and not for its commands.
///
/// # Errors
///
/// Returns the error of the system. The limit is then unchanged.
pub fn raise_open_files() -> std::io::Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(soft) = current else { return Ok(()) };
    if maximum == current {
        return Ok(());
    }
    // First: a command may start at any time.
    ORIGINAL.get_or_init(|| soft);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(())
}

/// The soft limit for commands; `None`: that of this process.
pub(crate) fn original() -> Option<u64> {
    ORIGINAL.get().copied()
}
