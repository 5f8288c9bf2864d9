//! A PostgreSQL server of a test's own, for what must not happen to the one that all share, and a
//! pooler before it. Their programs are found on PATH, which `cargo xtask` sees to.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use tempfile::TempDir;

/// A server, which ends with this value.
pub struct Cluster {
    /// Where it listens.
    pub port: u16,
    /// Where its data are.
    pub data: PathBuf,
    server: Option<Child>,
    directory: TempDir,
}

/// The user that servers run as, since they refuse to be root.
fn user() -> Option<(u32, u32)> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0);
    if !is_root {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").expect("users");
    let line = passwd
        .lines()
        .find(|line| line.starts_with("postgres:"))
        .or_else(|| passwd.lines().find(|line| line.starts_with("nobody:")))
        .expect("a non-root user exists");
    let fields: Vec<&str> = line.split(':').collect();
    Some((fields[2].parse().expect("a user"), fields[3].parse().expect("a group")))
}

/// A program of PostgreSQL, as that user.
pub fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("LC_ALL", "C").current_dir("/").stdin(Stdio::null());
    if let Some((uid, gid)) = user() {
        command.uid(uid).gid(gid);
    }
    command
}

/// Gives a path to that user.
///
/// # Panics
///
/// If it cannot be given away.
pub fn give(path: &Path) {
    if let Some((uid, gid)) = user() {
        chown(path, Some(uid), Some(gid)).expect("the owner of the directory can be changed");
    }
}

fn run(command: &mut Command) {
    let done = command.output().expect("the programs of PostgreSQL are on PATH");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A free port below those that the system hands out to clients: while the server is down, one of
/// them could take it, and even connect to itself.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id() as u16 % 8_000;
    let ports = || 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(ports).take(12_000).find(is_free).expect("a free port")
}

/// Does a server take connections? Asking takes some milliseconds.
fn is_ready(port: &str) -> bool {
    let mut ask = program("pg_isready");
    ask.args(["-q", "-h", "127.0.0.1", "-p", port]).status().is_ok_and(|status| status.success())
}

impl Cluster {
    /// A new server with these settings, its data in a directory of its own or in this one.
    pub fn new(settings: &[&str], data: Option<PathBuf>) -> Cluster {
        let directory = tempfile::tempdir().expect("a directory");
        give(directory.path());
        let data = data.unwrap_or_else(|| directory.path().join("data"));
        let mut initdb = program("initdb");
        initdb.arg("-D").arg(&data);
        initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]);
        run(&mut initdb);
        Cluster::over(directory, data, settings)
    }

    /// A server that follows another one.
    pub fn standby_of(primary: &Cluster) -> Cluster {
        let directory = tempfile::tempdir().expect("a directory");
        give(directory.path());
        let data = directory.path().join("data");
        let mut backup = program("pg_basebackup");
        backup.args(["-h", "127.0.0.1", "-U", "postgres", "-R", "--checkpoint=fast", "-p"]);
        run(backup.arg(primary.port.to_string()).arg("-D").arg(&data));
        Cluster::over(directory, data, &[])
    }

    fn over(directory: TempDir, data: PathBuf, settings: &[&str]) -> Cluster {
        let port = free_port();
        let mut file = fs::read_to_string(data.join("postgresql.conf")).expect("settings");
        for setting in settings {
            file.push_str(&format!("\n{setting}"));
        }
        fs::write(data.join("postgresql.conf"), file + "\n").expect("the file can be written");
        let mut cluster = Cluster { port, data, server: None, directory };
        cluster.start();
        cluster
    }

    /// Starts it, and waits until it answers.
    pub fn start(&mut self) {
        let mut postgres = program("postgres");
        postgres.arg("-D").arg(&self.data).arg("-k").arg(self.directory.path());
        postgres.args(["-h", "127.0.0.1", "-c", "fsync=off", "-p"]).arg(self.port.to_string());
        let log = self.directory.path().join("log");
        let file = fs::File::create(&log).expect("a log");
        let server = postgres.stdout(Stdio::null()).stderr(file).spawn();
        let server = self.server.insert(server.expect("PostgreSQL starts"));
        let port = self.port.to_string();
        while !is_ready(&port) {
            let ended = server.try_wait().expect("a child");
            let log = || fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "PostgreSQL did not start:\n{}", log());
        }
    }

    /// Ends it as a crash does.
    pub fn crash(&mut self) {
        self.control(&["stop", "-m", "immediate", "-w", "-s"]);
        if let Some(mut server) = self.server.take() {
            server.wait().expect("the process ended");
        }
    }

    /// Makes a standby a primary.
    pub fn promote(&self) {
        self.control(&["promote", "-w", "-s"]);
    }

    fn control(&self, arguments: &[&str]) {
        run(program("pg_ctl").args(arguments).arg("-D").arg(&self.data));
    }

    /// Where its superuser finds it.
    pub fn url(&self) -> String {
        self.url_of("postgres", "postgres")
    }

    /// Where this user finds this database.
    pub fn url_of(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // A server that is told to quit takes its children along.
            let mut stop = program("pg_ctl");
            let stop = stop.args(["stop", "-m", "immediate", "-W", "-s", "-D"]).arg(&self.data);
            if stop.status().is_ok_and(|status| status.success()) {
                let _ = server.wait();
            }
        }
    }
}

/// pgbouncer in transaction mode before a server; it ends with this value.
pub struct Pooler {
    /// Where it listens.
    pub port: u16,
    pooler: Child,
    _directory: TempDir,
}

impl Pooler {
    /// Starts one, and waits until it takes connections. After a crash of the server it looks for it
    /// every second: by default it waits for fifteen, and so would everybody behind it.
    pub fn before(cluster: &Cluster) -> Pooler {
        let directory = tempfile::tempdir().expect("a directory");
        give(directory.path());
        let (port, settings) = (free_port(), directory.path().join("pgbouncer.ini"));
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             max_client_conn = 1000\ndefault_pool_size = 20\nserver_login_retry = 1\n",
            cluster.port
        );
        fs::write(&settings, text).expect("the file can be written");
        // Debian keeps it where only root looks.
        let found = ["/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer"];
        let name = found.into_iter().find(|path| Path::new(path).exists()).unwrap_or("pgbouncer");
        let mut pooler = program(name);
        let pooler = pooler.arg(&settings).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut pooler = pooler.expect("pgbouncer starts");
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(pooler.try_wait().expect("a child").is_none(), "pgbouncer did not start");
        }
        Pooler { port, pooler, _directory: directory }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It has no children.
        let _ = self.pooler.kill();
        let _ = self.pooler.wait();
    }
}
