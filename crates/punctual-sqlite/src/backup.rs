//! Copying the file while it is in use.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use punctual_store::{ErrorKind, Result, StoreError};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

use crate::error::explain_owned;
use crate::open;
use crate::writer::{gone, no_thread};

/// Copies `from` to `to` on a thread and a connection of its own. Whoever stops waiting does not
/// stop it: the copy appears under its name when it is whole, or never.
pub(crate) async fn run(from: PathBuf, to: PathBuf) -> Result<()> {
    let (reply, answer) = oneshot::channel();
    let path = from.clone();
    thread::Builder::new()
        .name("punctual-backup".to_owned())
        .spawn(move || {
            let _ = reply.send(back_up(&from, &to));
        })
        .map_err(no_thread)?;
    answer.await.unwrap_or_else(|_| Err(gone(&path)))
}

/// Half a copy looks like a whole one to whoever needs it, so it has another name until it is whole.
fn back_up(from: &Path, to: &Path) -> Result<()> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(exists(to));
    }
    let to = &without_links(to).map_err(|error| denied(to, &error))?;
    let partial = reserve(to)?;
    let copied = copy(from, &partial, to).and_then(|()| publish(&partial, to));
    // What is left of it after a crash has a name that says so.
    let _ = fs::remove_file(&partial);
    copied
}

/// The path with its directory resolved, so that no part of it is a symbolic link.
fn without_links(to: &Path) -> io::Result<PathBuf> {
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new(".")).canonicalize()?;
    let name = to.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(directory.join(name))
}

/// Creates an empty file next to the target, which only its owner can read.
fn reserve(to: &Path) -> Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".partial-{}-{number}", std::process::id()));
    let partial = PathBuf::from(name);
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial) {
        Ok(_) => Ok(partial),
        Err(error) => Err(denied(to, &error)),
    }
}

/// Gives the copy its name, unless somebody else has taken it meanwhile.
fn publish(partial: &Path, to: &Path) -> Result<()> {
    match fs::hard_link(partial, to) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(to)),
        // Not every file system has links; a name that is taken between these two is lost.
        Err(_) if fs::symlink_metadata(to).is_ok() => Err(exists(to)),
        Err(_) => fs::rename(partial, to).map_err(|error| denied(to, &error)),
    }
}

fn exists(to: &Path) -> StoreError {
    let shown = to.display();
    let message = format!("`{shown}` already exists and is not overwritten; use another path");
    StoreError::new(ErrorKind::Conflict, message)
}

fn denied(to: &Path, error: &io::Error) -> StoreError {
    let shown = to.display();
    let message = format!("cannot create `{shown}` ({error}); use a path that this user can write");
    StoreError::new(ErrorKind::Denied, message)
}

/// One step copies all pages from one snapshot. Smaller steps would begin anew after every
/// commit of the writer and never end on a busy file; the snapshot blocks nobody, it only keeps
/// the log from being cut while the copy runs.
fn copy(from: &Path, partial: &Path, to: &Path) -> Result<()> {
    let source = open::reader(from).map_err(|error| explain_owned(error, from))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | open::COMMON_FLAGS;
    let target = Connection::open_with_flags(partial, flags);
    let mut target = target.map_err(|error| explain_owned(error, to))?;
    let stepped = Backup::new(&source, &mut target).and_then(|backup| backup.step(-1));
    match stepped.map_err(|error| explain_owned(error, to))? {
        StepResult::Done => Ok(()),
        _ => Err(StoreError::new(
            ErrorKind::Retry,
            format!(
                "`{}` was locked for too long, so it was not copied; try again",
                from.display()
            ),
        )),
    }
}
