//! The binary, run.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A command in a directory, without settings of whoever runs the tests.
pub(crate) fn punctual(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    for name in ["PUNCTUAL_DATABASE", "PUNCTUAL_SERVER", "PUNCTUAL_TOKEN"] {
        command.env_remove(name);
    }
    command.current_dir(directory).args(args);
    command
}

/// A process that serves; it dies with this value.
pub(crate) struct Serving {
    process: Child,
    /// Where it listens.
    pub(crate) url: String,
}

impl Serving {
    /// Starts it and waits until it listens.
    pub(crate) fn start(directory: &Path, args: &[&str]) -> Serving {
        Serving::start_with(directory, args, &[])
    }

    /// The same with an environment.
    pub(crate) fn start_with(
        directory: &Path,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Serving {
        let mut command = punctual(directory, args);
        command.envs(environment.iter().copied()).stderr(Stdio::null());
        Serving::of(command)
    }

    /// The same with a command that knows where its stderr goes.
    pub(crate) fn of(mut command: Command) -> Serving {
        command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let hello = lines.next().expect("it says where it listens").unwrap();
        let url = hello.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        let url = url.trim_end_matches(',').to_owned();
        // Whatever else it says must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        Serving { process, url }
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Runs a command against it.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        punctual(Path::new("/"), args).args(["--server", &self.url]).output().unwrap()
    }

    /// What a command prints as JSON; it must succeed.
    pub(crate) fn ask(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat());
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args:?}: {out} {err}");
        serde_json::from_str(&out).unwrap()
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap().code()
    }

    /// The same for a test of the time that it takes. Fails if the process has not ended by then.
    #[expect(clippy::disallowed_methods, reason = "a deadline for a process of its own")]
    pub(crate) fn stop_within(mut self, limit: Duration) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let sent = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            assert!(sent.elapsed() < limit, "it still runs {limit:?} after SIGTERM");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Kills it, as a power cut would.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes a file with this mode.
pub(crate) fn write_with_mode(path: &Path, content: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
