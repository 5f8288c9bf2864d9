//! A worker's process: started, heard, told to stop, killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use crate::Failure;
use crate::account::{Life, Log};
use crate::database::Database;

pub(crate) struct Process {
    child: Child,
    stdout: Option<ChildStdout>,
    pid: Pid,
}

impl Process {
    pub(crate) fn start(database: &Database, seed: u64, more: &[&str]) -> Result<Process, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("worker")
            .arg(database.to_string())
            .arg(seed.to_string())
            .args(more)
            .stdout(Stdio::piped())
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or("a process id")?;
        let stdout = child.stdout.take();
        Ok(Process { child, stdout, pid })
    }

    /// Takes down what it says until it ends. Whoever looks on is shown its life after each line.
    pub(crate) fn hear(
        stdout: ChildStdout,
        log: &Mutex<Log>,
        mut look: impl FnMut(&Life) -> Result<(), Failure>,
    ) -> Result<Life, Failure> {
        let mut life = Life::default();
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            let noted = log.lock().unwrap_or_else(PoisonError::into_inner).note(&line, &mut life);
            noted.ok_or_else(|| format!("unexpected output of the worker: `{line}`"))?;
            look(&life)?;
        }
        Ok(life)
    }

    /// What it says; there once.
    pub(crate) fn output(&mut self) -> Result<ChildStdout, Failure> {
        Ok(self.stdout.take().ok_or("the worker has no output")?)
    }

    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        Ok(self.child.kill()?)
    }

    pub(crate) fn stop(&self) -> Result<(), Failure> {
        Ok(kill_process(self.pid, Signal::TERM)?)
    }

    /// Lets no time pass for it.
    pub(crate) fn freeze(&self) -> Result<(), Failure> {
        Ok(kill_process(self.pid, Signal::STOP)?)
    }

    pub(crate) fn thaw(&self) -> Result<(), Failure> {
        Ok(kill_process(self.pid, Signal::CONT)?)
    }

    /// Waits for its end; none if a signal ended it.
    pub(crate) fn code(&mut self) -> Result<Option<i32>, Failure> {
        Ok(self.child.wait()?.code())
    }
}

impl Drop for Process {
    /// A proof that fails leaves nobody behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process to which somebody listens on the side.
pub(crate) struct Heard {
    pub(crate) process: Process,
    life: JoinHandle<Result<Life, String>>,
}

impl Heard {
    /// Begins to take down what it says. Whoever looks on is shown its life after each line.
    pub(crate) fn begin(
        mut process: Process,
        log: Arc<Mutex<Log>>,
        mut look: impl FnMut(&Life) + Send + 'static,
    ) -> Result<Heard, Failure> {
        let stdout = process.output()?;
        let life = std::thread::spawn(move || {
            let look = |life: &Life| {
                look(life);
                Ok(())
            };
            Process::hear(stdout, &log, look).map_err(|error| error.to_string())
        });
        Ok(Heard { process, life })
    }

    /// Has it ended, or said what makes no sense?
    pub(crate) fn is_over(&self) -> bool {
        self.life.is_finished()
    }

    /// Waits for its end; no code if a signal ended it.
    pub(crate) fn end(mut self) -> Result<(Option<i32>, Life), Failure> {
        let code = self.process.code()?;
        Ok((code, self.life.join().map_err(|_| "a listener panicked")??))
    }
}
