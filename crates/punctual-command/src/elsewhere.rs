//! Systems on which nothing can be promised about what a program leaves behind.

use std::process::ExitCode;

use punctual::{BoxError, Ctx, Failure};

use crate::{Command, Commands};

/// Says that it cannot be done here.
pub async fn command(_: Command, _: Ctx<Commands>) -> Result<(), BoxError> {
    Err(Failure::permanent("commands are supported on Linux only; run the worker on Linux").into())
}

/// There are none.
pub fn adopt_orphans() -> std::io::Result<()> {
    Ok(())
}

/// What other systems show of a process is up to them.
pub fn hide_process() -> std::io::Result<()> {
    Ok(())
}

/// There is none.
pub fn shim() -> ExitCode {
    ExitCode::FAILURE
}

/// Nor is there this.
pub fn last_step() -> ExitCode {
    ExitCode::FAILURE
}
