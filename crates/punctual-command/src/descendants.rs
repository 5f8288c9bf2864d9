//! All that a process has started, and what they have started; and the end of them.

use std::collections::{BTreeMap, HashSet};
use std::io;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
};

/// How often to look for those that were started while the others were stopped. Each round finds all
/// that the round before did not see begin, and a stopped process begins nothing.
const ROUNDS_MAX: usize = 50;

/// A process, as it was seen. The number alone may soon be another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: Pid,
    pub(crate) parent: i32,
    pub(crate) started: u64,
    pub(crate) is_zombie: bool,
}

/// Kills every descendant of this process. Those in other sessions and groups, and those whose parent
/// is gone, are descendants all the same, since orphans come to a subreaper. The answer is how many
/// were alive.
pub(crate) fn kill_all() -> io::Result<usize> {
    kill(|_| false)
}

/// The same without those children of this process that are spared, and all that these have started.
pub(crate) fn kill(is_spared: impl Fn(&Seen) -> bool) -> io::Result<usize> {
    let mut stopped = HashSet::new();
    let mut alive = 0;
    for _ in 0..ROUNDS_MAX {
        let new: Vec<Seen> = list(&is_spared)?
            .into_iter()
            .filter(|seen| stopped.insert((seen.pid, seen.started)))
            .collect();
        if new.is_empty() {
            break;
        }
        alive += new.iter().filter(|seen| !seen.is_zombie).count();
        // Stopped first, then killed: who forks faster than one kills would get away.
        for seen in new {
            signal(seen, Signal::STOP)?;
        }
    }
    for seen in list(&is_spared)? {
        signal(seen, Signal::KILL)?;
    }
    Ok(alive)
}

/// Every descendant of this process that is none of a child which is spared.
pub(crate) fn list(is_spared: &impl Fn(&Seen) -> bool) -> io::Result<Vec<Seen>> {
    let mut children: BTreeMap<i32, Vec<Seen>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        // Who is gone by now needs no signal.
        if let Some(seen) = look(pid) {
            children.entry(seen.parent).or_default().push(seen);
        }
    }
    let own = getpid().as_raw_pid();
    if let Some(own) = children.get_mut(&own) {
        own.retain(|child| !is_spared(child));
    }
    let mut found = Vec::new();
    let mut parents = vec![own];
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child.pid.as_raw_nonzero().get());
            found.push(child);
        }
    }
    Ok(found)
}

pub(crate) fn look(pid: Pid) -> Option<Seen> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name stands in parentheses and may contain anything, such as more of them.
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_ascii_whitespace();
    let is_zombie = fields.next()? == "Z";
    let parent = fields.next()?.parse().ok()?;
    // The 22nd field of all.
    let started = fields.nth(17)?.parse().ok()?;
    Some(Seen { pid, parent, started, is_zombie })
}

/// Signals the process that was seen, and no other that has its number by now.
fn signal(seen: Seen, signal: Signal) -> io::Result<()> {
    let sent = match pidfd_open(seen.pid, PidfdFlags::empty()) {
        Ok(handle) => match look(seen.pid) {
            Some(now) if now.started == seen.started => pidfd_send_signal(handle, signal),
            _ => Ok(()),
        },
        // An old kernel, or a container that knows no such handles.
        Err(Errno::NOSYS | Errno::PERM) => kill_process(seen.pid, signal),
        Err(error) => Err(error),
    };
    match sent {
        // It is gone; or it has rights that this process has not, and then nothing can be done.
        Ok(()) | Err(Errno::SRCH | Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
