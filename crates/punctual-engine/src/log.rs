//! What handlers write to the logs of their jobs: gathered, and written beside the work.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::JobId;
use punctual_core::job::LogLevel;
use punctual_store::{ErrorKind, LogLine, Result, Store, limits};
use tokio::sync::Notify;

use crate::env::Env;
use crate::service::{Report, Rest, Service, within};
use crate::telemetry;

/// What one attempt may write: more is of no use to people, and the database has to keep it.
const ATTEMPT_BYTES_MAX: usize = 1_024 * 1_024;

/// Lines that wait to be written: a store that does not answer must not fill the memory.
const WAITING_MAX: usize = 20_000;

/// Lines that wait to be written.
pub(crate) struct Log {
    waiting: Mutex<VecDeque<LogLine>>,
    wake: Arc<Notify>,
}

/// How much an attempt has written.
#[derive(Default)]
pub(crate) struct AttemptLog {
    lines: AtomicU32,
    bytes: AtomicUsize,
}

impl Log {
    pub(crate) fn new(wake: Arc<Notify>) -> Log {
        Log { waiting: Mutex::default(), wake }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<LogLine>> {
        // Nothing here panics while it holds the lock; if a bug does, the lines are still whole.
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn write(
        &self,
        so_far: &AttemptLog,
        job: JobId,
        attempt: u32,
        level: LogLevel,
        text: &str,
    ) {
        let text = limits::cut(text, limits::LOG_LINE_BYTES_MAX);
        let before = so_far.bytes.fetch_add(text.len().max(1), Ordering::Relaxed);
        if before > ATTEMPT_BYTES_MAX {
            return;
        }
        let number = so_far.lines.fetch_add(1, Ordering::Relaxed) + 1;
        if number > limits::LOG_NUMBER_MAX {
            return;
        }
        let is_last = before + text.len() > ATTEMPT_BYTES_MAX || number == limits::LOG_NUMBER_MAX;
        let (level, text) = if is_last {
            (LogLevel::Warn, "the log of this attempt is full; further lines are dropped")
        } else {
            (level, text)
        };
        let mut waiting = self.lock();
        if waiting.len() >= WAITING_MAX {
            drop(waiting);
            telemetry::log_lines_dropped(1);
            return;
        }
        waiting.push_back(LogLine { job, attempt, number, level, text: text.to_owned() });
        drop(waiting);
        self.wake.notify_one();
    }

    fn take(&self) -> Vec<LogLine> {
        let mut waiting = self.lock();
        let count = waiting.len().min(limits::LOG_LINES_MAX);
        waiting.drain(..count).collect()
    }

    fn put_back(&self, lines: Vec<LogLine>) {
        let mut waiting = self.lock();
        for line in lines.into_iter().rev() {
            waiting.push_front(line);
        }
    }
}

/// Writes lines to the store, in batches of whatever was written while the last batch was on its
/// way.
pub(crate) struct Scribe {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) log: Arc<Log>,
    pub(crate) patience: Duration,
}

#[async_trait]
impl Service for Scribe {
    fn name(&self) -> &'static str {
        "scribe"
    }

    async fn run_once(&mut self) -> Result<Report> {
        let lines = self.log.take();
        if lines.is_empty() {
            return Ok(Report::new(0, Rest::UntilWoken));
        }
        let call = self.store.write_log(self.env.at(), &lines);
        match within(&*self.env, self.patience, call).await {
            Ok(_) => Ok(Report::new(lines.len(), Rest::None)),
            // They would be refused again.
            Err(error) if error.kind() == ErrorKind::Invalid => {
                telemetry::log_lines_dropped(lines.len());
                Err(error)
            }
            Err(error) => {
                self.log.put_back(lines);
                Err(error)
            }
        }
    }
}
