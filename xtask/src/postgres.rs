//! The PostgreSQL server that the tests use: one that is given, or one made for the occasion.

use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{env, fs};

use crate::failure::Failure;
use crate::guard::{Orders, Stop, User};
use crate::needs::{POSTGRES, POSTGRES_OLDEST, on_path};
use crate::run::{self, Guarded};

/// The environment variable that tells the tests where the server is.
pub(crate) const URL: &str = "PUNCTUAL_TEST_POSTGRES";

/// Ends when this value does.
pub(crate) struct Server {
    pub(crate) url: String,
    /// Where psql is, if not on PATH.
    pub(crate) bindir: Option<PathBuf>,
    version: String,
    /// None if the server was given and is not ours to stop.
    throwaway: Option<Throwaway>,
}

impl Server {
    /// The server that `PUNCTUAL_TEST_POSTGRES` names, else a new one.
    pub(crate) fn given_or_new() -> Result<Self, Failure> {
        match env::var(URL) {
            Ok(url) if !url.is_empty() => Self::given(url),
            _ => Self::new(POSTGRES.ensure()?),
        }
    }

    fn given(url: String) -> Result<Self, Failure> {
        let bindir = POSTGRES.find();
        if bindir.is_none() && on_path("psql").is_none() {
            return Err(Failure::Failed(format!(
                "the tests use psql to talk to the server of {URL}: install PostgreSQL's client"
            )));
        }
        let other = format!(
            "correct {URL}, or unset it, and `cargo xtask test` starts a server of its own"
        );
        let version = version(bindir.as_deref(), &url).map_err(|failure| match failure {
            Failure::Failed(why) => {
                Failure::Failed(format!("the server of {URL} does not answer: {why}\n{other}"))
            }
            failure => failure,
        })?;
        if version.number / 10_000 < POSTGRES_OLDEST {
            let Version { text, .. } = version;
            return Err(Failure::Failed(format!(
                "the server of {URL} is PostgreSQL {text}, older than {POSTGRES_OLDEST}; {other}"
            )));
        }
        Ok(Self { url, bindir, version: version.text, throwaway: None })
    }

    fn new(bindir: PathBuf) -> Result<Self, Failure> {
        let throwaway = Throwaway::start(&bindir)?;
        let url = format!("postgres://{SUPERUSER}@127.0.0.1:{}/postgres", throwaway.port);
        let version = version(Some(&bindir), &url)?.text;
        Ok(Self { url, bindir: Some(bindir), version, throwaway: Some(throwaway) })
    }
}

impl Display for Server {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {}", self.version)?;
        match &self.throwaway {
            // Not its url, which may hold a password.
            None => write!(f, ", given by {URL}"),
            Some(Throwaway { port, dir, .. }) => {
                write!(f, " on port {port}, made for this run in {}", dir.display())
            }
        }
    }
}

struct Version {
    number: u32,
    text: String,
}

fn version(bindir: Option<&Path>, url: &str) -> Result<Version, Failure> {
    let psql = bindir.map_or_else(|| PathBuf::from("psql"), |dir| dir.join("psql"));
    let mut psql = Command::new(psql);
    if env::var_os("PGCONNECT_TIMEOUT").is_none() {
        psql.env("PGCONNECT_TIMEOUT", "10");
    }
    psql.args(["--no-psqlrc", "--no-password", "--tuples-only", "--no-align", "--dbname", url]);
    psql.args(["--command", "SHOW server_version_num", "--command", "SHOW server_version"]);
    let answer = run::ask(&mut psql)?;
    answer
        .split_once('\n')
        .and_then(|(number, text)| {
            Some(Version { number: number.parse().ok()?, text: text.into() })
        })
        .ok_or_else(|| Failure::Failed(format!("`{answer}` is no PostgreSQL version")))
}

const SUPERUSER: &str = "postgres";

/// Initialises a cluster and becomes its server. Its arguments are the directory of the programs,
/// the directory to live in, the port, and the superuser.
///
/// The tests kill processes, never the machine, so what only helps after a power cut is off.
/// `synchronous_commit` stays on: a killed server may lose what was not even written.
/// With no locale the log speaks English, which `READY` relies on.
const SERVE: &str = r#"
"$1/initdb" --pgdata="$2/data" --username="$4" --auth=trust --encoding=UTF8 --no-locale \
    --no-sync --no-instructions >&2 &&
exec "$1/postgres" -D "$2/data" -k "$2" -h 127.0.0.1 -p "$3" \
    -c max_connections=200 -c fsync=off -c full_page_writes=off
"#;

/// What the server logs when clients may connect.
const READY: &str = "database system is ready to accept connections";

/// What the server logs when somebody else was faster to take the port.
const PORT_TAKEN: &str = "Address already in use";

/// A free port stays free until the server binds it, except by rare bad luck; not thrice.
const PORTS_TRIED: usize = 3;

/// Many times what a small machine under load needs to initialise a cluster and start it.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// How much of the log is shown when the server does not start.
const LOG_TAIL_LINES: usize = 30;

/// A server below a guard, in a directory that goes with it.
struct Throwaway {
    port: u16,
    dir: PathBuf,
    server: Guarded,
}

impl Throwaway {
    fn start(bindir: &Path) -> Result<Self, Failure> {
        let mut tried = 0;
        loop {
            tried += 1;
            match Self::try_start(bindir)? {
                Ok(throwaway) => return Ok(throwaway),
                Err(log) if tried < PORTS_TRIED && log.contains(PORT_TAKEN) => {}
                Err(log) => {
                    return Err(Failure::Failed(format!(
                        "PostgreSQL of {} does not start; the end of its log:\n{log}",
                        bindir.display()
                    )));
                }
            }
        }
    }

    /// The inner error is the end of the server's log.
    fn try_start(bindir: &Path) -> Result<Result<Self, String>, Failure> {
        let user = unprivileged_user()?;
        let port = free_port().map_err(Failure::on("find a free port"))?;
        let dir = tempfile::Builder::new()
            .prefix("punctual-postgres-")
            .tempdir()
            .map_err(Failure::on("create a temporary directory"))?;
        if let Some(User { uid, gid }) = user {
            chown(dir.path(), Some(uid), Some(gid))
                .map_err(Failure::on("give the temporary directory away"))?;
        }

        let mut serve = Command::new("sh");
        serve.args(["-c", SERVE, "sh"]).arg(bindir).arg(dir.path()).arg(port.to_string());
        serve.arg(SUPERUSER).env("LC_ALL", "C").current_dir(dir.path());
        let orders = Orders {
            stop: Stop::Interrupt,
            remove: Some(dir.path().to_path_buf()),
            user,
            ..Orders::default()
        };
        let mut server = Guarded::start(&serve, &orders, |guard| {
            guard.stdout(Stdio::null()).stderr(Stdio::piped());
        })?;
        // From here on it is the guard that removes the directory.
        let dir = dir.keep();

        let (ready, is_ready) = mpsc::channel();
        let log = server.guard.stderr.take().map(|stderr| follow(stderr, ready));
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

/// Reads the log to its end, so that the server never waits for a reader; says when the server is
/// ready, and returns the last lines.
fn follow(log: ChildStderr, ready: Sender<()>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut tail = VecDeque::with_capacity(LOG_TAIL_LINES);
        for line in BufReader::new(log).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.contains(READY) {
                // Nobody listens if the server took too long.
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

/// PostgreSQL refuses to run as root. None if we are somebody else, who will do.
fn unprivileged_user() -> Result<Option<User>, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd").map_err(Failure::on("read `/etc/passwd`"))?;
    ["postgres", "nobody"].iter().find_map(|name| user_named(name, &passwd)).map(Some).ok_or_else(
        || {
            Failure::Failed(
                "PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody`; \
                 run this as another user"
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
