//! Servers made for the occasion: each below a guard, in a directory that goes with it.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::failure::Failure;
use crate::guard::{Orders, Stop, User};
use crate::run::{self, Guarded};

/// The log text of a server whose port was taken by another process.
const PORT_TAKEN: &str = "Address already in use";

/// A free port stays free until the server binds it, except by rare bad luck; not thrice.
const PORTS_TRIED: usize = 3;

/// Many times what a small machine under load needs to initialise a cluster and start it.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// How much of the log is shown when a server does not start.
const LOG_TAIL_LINES: usize = 30;

/// How a server is started.
pub(crate) struct Plan<'a> {
    /// Name of the program, for messages.
    pub(crate) what: &'a str,
    /// How the name of its directory begins.
    pub(crate) prefix: &'a str,
    /// What it logs to its standard error when clients may connect.
    pub(crate) ready: &'static str,
    /// What asks it to stop.
    pub(crate) stop: Stop,
    /// The command, given its directory and its port; it may write into the directory.
    pub(crate) command: &'a dyn Fn(&Path, u16) -> Result<Command, Failure>,
}

/// A server below a guard, in a directory that goes with it.
pub(crate) struct Throwaway {
    pub(crate) port: u16,
    pub(crate) dir: PathBuf,
    server: Guarded,
}

impl Throwaway {
    pub(crate) fn start(plan: &Plan<'_>) -> Result<Self, Failure> {
        let mut tried = 0;
        loop {
            tried += 1;
            match Self::try_start(plan)? {
                Ok(throwaway) => return Ok(throwaway),
                Err(log) if tried < PORTS_TRIED && log.contains(PORT_TAKEN) => {}
                Err(log) => {
                    return Err(Failure::Failed(format!(
                        "{} did not start; end of its log:\n{log}",
                        plan.what
                    )));
                }
            }
        }
    }

    /// The inner error is the end of the server's log.
    fn try_start(plan: &Plan<'_>) -> Result<Result<Self, String>, Failure> {
        let user = unprivileged_user()?;
        let port = free_port().map_err(Failure::on("find a free port"))?;
        let dir = tempfile::Builder::new()
            .prefix(plan.prefix)
            .tempdir()
            .map_err(Failure::on("create a temporary directory"))?;
        let command = (plan.command)(dir.path(), port)?;
        if let Some(user) = user {
            give_away(dir.path(), user)?;
        }
        let orders = Orders {
            stop: plan.stop,
            remove: Some(dir.path().to_path_buf()),
            user,
            ..Orders::default()
        };
        let mut server = Guarded::start(&command, &orders, |guard| {
            guard.stdout(Stdio::null()).stderr(Stdio::piped());
        })?;
        // From here on it is the guard that removes the directory.
        let dir = dir.keep();

        let (ready, is_ready) = mpsc::channel();
        let log = server.guard.stderr.take().map(|stderr| follow(stderr, plan.ready, ready));
        let outcome = is_ready.recv_timeout(START_TIMEOUT);
        if outcome.is_ok() && !run::interrupted() {
            return Ok(Ok(Self { port, dir, server }));
        }
        server.end();
        if run::interrupted() {
            return Err(Failure::Interrupted);
        }
        let mut log = log.and_then(|log| log.join().ok()).unwrap_or_default();
        if outcome == Err(RecvTimeoutError::Timeout) {
            log.push_str(&format!("(stopped because it took over {START_TIMEOUT:?})"));
        }
        Ok(Err(log))
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        self.server.end();
    }
}

/// Gives a directory and the files in it to the user that the server runs as.
fn give_away(dir: &Path, User { uid, gid }: User) -> Result<(), Failure> {
    let cannot = || Failure::on("change the owner of the temporary directory");
    for entry in fs::read_dir(dir).map_err(cannot())? {
        let path = entry.map_err(cannot())?.path();
        chown(path, Some(uid), Some(gid)).map_err(cannot())?;
    }
    chown(dir, Some(uid), Some(gid)).map_err(cannot())
}

/// Reads the log to its end, so that the server never waits for a reader; says when the server is
/// ready, and returns the last lines.
fn follow(log: ChildStderr, text: &'static str, ready: Sender<()>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut tail = VecDeque::with_capacity(LOG_TAIL_LINES);
        for line in BufReader::new(log).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.contains(text) {
                // The receiver is closed if the server took too long.
                let _ = ready.send(());
            }
            if tail.len() == LOG_TAIL_LINES {
                tail.pop_front();
            }
            tail.push_back(line + "\n");
        }
        tail.into_iter().collect()
    })
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// The user for servers that refuse to run as root. None if the current user is not root.
fn unprivileged_user() -> Result<Option<User>, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd").map_err(Failure::on("read `/etc/passwd`"))?;
    ["postgres", "nobody"].iter().find_map(|name| user_named(name, &passwd)).map(Some).ok_or_else(
        || {
            Failure::Failed(
                "PostgreSQL and pgbouncer do not run as root, and no user `postgres` or `nobody` \
                 was found; run this as another user"
                    .into(),
            )
        },
    )
}

fn user_named(name: &str, passwd: &str) -> Option<User> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        match fields.as_slice() {
            [found, _, uid, gid, ..] if *found == name => {
                Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_whole_name() {
        let passwd = "\
root:x:0:0:root:/:/bin/sh
postgres-old:x:7:8::/:/bin/sh
broken
postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash
";
        assert_eq!(user_named("postgres", passwd), Some(User { uid: 101, gid: 104 }));
        assert_eq!(user_named("nobody", passwd), None);
    }
}
