//! A worker as an application would write one: the engine on a SQLite file, told to stop by
//! signals. It says everything it does, one line each, so that whoever kills it can judge.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::job::{Backoff, Growth, JobState, Outcome, RetryPolicy, Spread};
use punctual_core::{JobId, hash};
use punctual_engine::{Attempt, Config, Ended, Engine, Env, Handlers, System, Timing};
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::{At, EnqueueAnswer, ErrorKind, JobFilter, Json, NewJob, Store};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;
use crate::raw::QUEUE;

pub(crate) const KIND: &str = "work";
/// Jobs that are written at once, and how often.
const BATCH: u64 = 4;
const EVERY: Duration = Duration::from_millis(20);
/// How often a process looks whether the file is free, or whether all is done.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a job does: it takes so long and then ends like this.
#[derive(Serialize, Deserialize)]
pub(crate) struct Task {
    ms: u64,
    end: End,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Done,
    Fail,
    /// On its first attempt.
    Panic,
    /// The whole process.
    Abort,
}

impl Task {
    pub(crate) fn aborts() -> Task {
        Task { ms: 5, end: End::Abort }
    }

    /// Most are short, some outlive many a process, a few go wrong.
    fn drawn(draw: u64) -> Task {
        let within = |from: u64, to: u64| from + hash::draw(draw, 1) % (to - from);
        let (ms, end) = match draw % 100 {
            0..3 => (within(0, 50), End::Fail),
            3..5 => (within(0, 50), End::Panic),
            5..15 => (within(800, 1_500), End::Done),
            15..40 => (within(100, 400), End::Done),
            _ => (within(0, 20), End::Done),
        };
        Task { ms, end }
    }

    pub(crate) fn job(&self) -> Result<NewJob, Failure> {
        let env: &dyn Env = &System;
        let job = NewJob::new(JobId::mint(env.wall(), env.seed()), QUEUE, KIND, Json::new(self)?);
        Ok(NewJob { max_attempts: 4, ..job })
    }
}

fn config() -> Config {
    let ms = Duration::from_millis;
    let backoff =
        Backoff { base: ms(50), growth: Growth::Exponential, cap: ms(400), spread: Spread::Full };
    Config {
        name: "worker".to_owned(),
        max_running: 32,
        shutdown_grace: ms(300),
        policy: RetryPolicy { backoff, rules: Vec::new() },
        timing: Timing {
            beat: ms(100),
            call: ms(1_000),
            give_up: ms(1_000),
            cancel_grace: ms(100),
            dead: ms(1_500),
            leader_lease: ms(500),
            leader_margin: ms(100),
            reap: ms(200),
            promote: ms(100),
            roll_up: ms(500),
            poll: ms(200),
            ..Timing::default()
        },
        ..Config::default()
    }
}

/// Works until it is told to stop or killed; `drains`: writes no jobs, and ends with the last one.
pub(crate) fn run(file: &Path, seed: u64, drains: bool) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let store = Arc::new(open(file).await?);
        let mut handlers = Handlers::default();
        handlers.add(KIND, work);
        let engine = Engine::start(Arc::new(System), store.clone(), config(), handlers).await?;
        say(format_args!("node {}", engine.node()));
        tokio::select! {
            _ = terminate.recv() => {}
            written = write(&store, seed), if !drains => written?,
            drained = drained(&store), if drains => drained?,
        }
        engine.stop();
        let stopped = loop {
            tokio::select! {
                _ = terminate.recv() => engine.stop_now(),
                stopped = engine.stopped() => break stopped,
            }
        };
        say(format_args!("node {}", engine.node()));
        say(format_args!("stopped {}", stopped.unsettled));
        Ok(())
    })
}

/// The process before may still be stopping.
async fn open(file: &Path) -> Result<SqliteStore, Failure> {
    loop {
        match SqliteStore::open(file, Options::engine()) {
            Err(error) if error.kind() == ErrorKind::Conflict => System.sleep(LOOK_EVERY).await,
            opened => return Ok(opened?),
        }
    }
}

/// Writes jobs for ever, and says which were acknowledged.
async fn write(store: &SqliteStore, seed: u64) -> Result<(), Failure> {
    for round in 0.. {
        let tasks = (0..BATCH).map(|index| Task::drawn(hash::draw(seed, round * BATCH + index)));
        let jobs: Vec<NewJob> = tasks.map(|task| task.job()).collect::<Result<_, _>>()?;
        let answers = store.enqueue(At::Database, &jobs).await?.answers;
        for (job, answer) in jobs.iter().zip(answers) {
            match answer {
                EnqueueAnswer::Created => say(format_args!("ack {}", job.id)),
                other => return Err(format!("{other:?}").into()),
            }
        }
        System.sleep(EVERY).await;
    }
    Ok(())
}

/// Ends when every job has ended.
async fn drained(store: &SqliteStore) -> Result<(), Failure> {
    const LIVE: [JobState; 4] =
        [JobState::Ready, JobState::Scheduled, JobState::Retrying, JobState::Running];
    loop {
        let mut live = 0;
        for state in LIVE {
            let filter = JobFilter { state: Some(state), ..JobFilter::default() };
            live += store.jobs(&filter, None, 1).await?.items.len();
        }
        if live == 0 {
            return Ok(());
        }
        System.sleep(LOOK_EVERY).await;
    }
}

async fn work(attempt: Attempt) -> Ended {
    let (job, number) = (attempt.job.id, attempt.job.attempt);
    say(format_args!("begin {job} {number}"));
    let task: Task = match serde_json::from_str(attempt.job.payload.as_str()) {
        Ok(task) => task,
        Err(error) => return Ended::from(Outcome::FailForGood(error.to_string())),
    };
    tokio::select! {
        _ = attempt.stopped() => {
            say(format_args!("end {job} {number} stopped"));
            return Ended::from(Outcome::Fail("stopped".to_owned()));
        }
        () = System.sleep(Duration::from_millis(task.ms)) => {}
    }
    match task.end {
        End::Abort => std::process::abort(),
        End::Fail => {
            say(format_args!("end {job} {number} failed"));
            Ended::from(Outcome::Fail("as it was told".to_owned()))
        }
        End::Panic if number == 1 => {
            say(format_args!("end {job} {number} panicked"));
            panic!("as it was told")
        }
        End::Panic | End::Done => {
            say(format_args!("end {job} {number} succeeded"));
            Ended::from(Outcome::Done)
        }
    }
}

/// One write for the line: a pipe takes it whole or not at all, so that no kill cuts it.
fn say(what: std::fmt::Arguments<'_>) {
    let line = format!("{what}\n");
    // If nobody listens any more, there is nobody to say that to.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}
