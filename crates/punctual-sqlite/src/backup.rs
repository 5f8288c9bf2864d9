//! Copying the file while it is in use.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use punctual_store::{ErrorKind, Result, StoreError};
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use tokio::sync::oneshot;

use crate::error::explain;
use crate::open;
use crate::writer::{gone, no_thread};

/// Copies `from` to `to` on a thread and a connection of its own.
pub(crate) async fn run(from: PathBuf, to: PathBuf) -> Result<()> {
    reserve(&to)?;
    let (reply, answer) = oneshot::channel();
    let path = from.clone();
    let spawned = thread::Builder::new().name("punctual-backup".to_owned()).spawn({
        let to = to.clone();
        move || {
            let _ = reply.send(copy(&from, &to));
        }
    });
    let copied = match spawned {
        Ok(_) => answer.await.unwrap_or_else(|_| Err(gone(&path))),
        Err(error) => Err(no_thread(error)),
    };
    if copied.is_err() {
        // Half a copy looks like a whole one to whoever needs it.
        let _ = std::fs::remove_file(&to);
    }
    copied
}

/// Creates the target, so that nothing that is there is overwritten.
fn reserve(to: &Path) -> Result<()> {
    let shown = to.display();
    match OpenOptions::new().write(true).create_new(true).open(to) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(StoreError::new(
            ErrorKind::Conflict,
            format!("`{shown}` exists already and is not overwritten; give another path"),
        )),
        Err(error) => Err(StoreError::new(
            ErrorKind::Denied,
            format!("`{shown}` cannot be created ({error}); give a path that this user may write"),
        )),
    }
}

/// One step copies all pages from one snapshot. Smaller steps would begin anew after every
/// commit of the writer and never end on a busy file; the snapshot blocks nobody, it only keeps
/// the log from being cut while the copy runs.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let source = open::reader(from).map_err(|error| explain(&error, from))?;
    let mut target = Connection::open(to).map_err(|error| explain(&error, to))?;
    let stepped = Backup::new(&source, &mut target).and_then(|backup| backup.step(-1));
    match stepped.map_err(|error| explain(&error, to))? {
        StepResult::Done => Ok(()),
        _ => Err(StoreError::new(
            ErrorKind::Retry,
            format!("`{}` was busy for too long to be copied; try again", from.display()),
        )),
    }
}
