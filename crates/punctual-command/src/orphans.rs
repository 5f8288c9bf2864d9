//! What a shim leaves behind if somebody kills it.
//!
//! The command dies with its shim. Whatever it has started loses its parent, and comes to the nearest
//! ancestor that takes orphans in: a worker that has said so is that one, and ends them.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use tokio::process::{Child, Command as Process};

use crate::descendants::{self, Seen};

/// How long to wait between two looks, and how many there are: what does not die within two seconds
/// waits for a disk, and nobody can hurry it.
const AGAIN: Duration = Duration::from_millis(20);
const LOOKS_MAX: usize = 100;

/// Do orphans come to this process?
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// The shims that somebody watches, by their numbers. Of all children of this process these are no
/// orphans.
static WATCHED: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Has the orphans of commands come to this process, which ends them, if a shim is killed. For a
/// process that starts nothing but commands once it has called this: it would take anything else for
/// an orphan.
pub fn adopt_orphans() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    ADOPTS.store(true, Ordering::SeqCst);
    Ok(())
}

fn watched() -> MutexGuard<'static, BTreeSet<i32>> {
    // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
    WATCHED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn number(shim: &Child) -> Option<i32> {
    shim.id().and_then(|id| i32::try_from(id).ok())
}

/// A shim that is watched, until this is dropped.
pub(crate) struct Watched {
    number: i32,
    started: u64,
}

impl Watched {
    /// Starts a shim. Whoever looks for orphans meanwhile waits until it is known as a shim.
    pub(crate) fn start(process: &mut Process) -> io::Result<(Child, Watched)> {
        let mut watched = watched();
        let shim = process.spawn()?;
        let number = number(&shim).ok_or(io::ErrorKind::NotFound)?;
        // Nobody has waited for it, so that its number is its own even if it is over.
        let seen = Pid::from_raw(number).and_then(descendants::look);
        watched.insert(number);
        Ok((shim, Watched { number, started: seen.map_or(0, |seen| seen.started) }))
    }

    /// Ends what the shim has left behind, which must be over but not waited for; the answer is how
    /// many processes there were.
    pub(crate) fn end_orphans(&self) -> usize {
        if !ADOPTS.load(Ordering::SeqCst) {
            return 0;
        }
        // Orphans find a new parent after all files of the old one are closed, and before it is a
        // zombie.
        let is_over = || self.look().is_none_or(|seen| seen.is_zombie);
        if !until(is_over) {
            return 0;
        }
        // What is older than the shim is not of its making: it was there before the worker.
        let is_spared = |child: &Seen| {
            child.started < self.started || watched().contains(&child.pid.as_raw_pid())
        };
        let mut ended = 0;
        until(|| {
            // What cannot be read now can be later: to give up would leave processes behind.
            ended = ended.max(descendants::kill(is_spared).unwrap_or(0));
            descendants::list(&is_spared).is_ok_and(|left| {
                left.iter().for_each(reap);
                // Not sooner: whoever was seen below another is nobody's child yet if that one died
                // during the look.
                left.is_empty()
            })
        });
        ended
    }

    fn look(&self) -> Option<Seen> {
        Pid::from_raw(self.number).and_then(descendants::look)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // If it is still there it has told all that it had to, or ends with its attempt.
        watched().remove(&self.number);
    }
}

/// Looks until it is so, for as long as that may take.
fn until(mut is_so: impl FnMut() -> bool) -> bool {
    (0..LOOKS_MAX).any(|_| {
        let now = is_so();
        if !now {
            std::thread::park_timeout(AGAIN);
        }
        now
    })
}

/// Takes note of the end of an orphan, if it has ended.
fn reap(orphan: &Seen) {
    // The number of a child is its own until this; that of another's child may be a shim's by now.
    if orphan.parent == getpid().as_raw_pid() {
        // An error says that it was waited for.
        let _ = waitpid(Some(orphan.pid), WaitOptions::NOHANG);
    }
}
