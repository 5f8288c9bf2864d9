//! A worker as an application would write one: the engine on a database, told to stop by signals.
//! It says everything it does, one line each, so that whoever kills it can judge.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::job::{Backoff, Growth, JobState, Outcome, RetryPolicy, Spread};
use punctual_core::{JobId, hash};
use punctual_engine::{
    Attempt, Config, Ended, Engine, EngineError, Env, Handlers, ServedQueue, System, Timing,
};
use punctual_store::{
    At, EnqueueAnswer, Json, KeyLifetime, KeyScope, NewJob, QueueStats, Store, UniqueKey, limits,
};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;
use crate::database::{Database, is_for_now};
use crate::raw::QUEUE;

pub(crate) const KIND: &str = "work";
/// Jobs that are written at once, and how often.
const BATCH: u64 = 4;
const EVERY: Duration = Duration::from_millis(20);
/// The same for a steady worker, and its keyed jobs, which go singly.
const STEADY_EVERY: Duration = Duration::from_millis(200);
const KEYED_EVERY: Duration = Duration::from_millis(50);
/// How often a process looks whether all is done, and tries again what failed.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const AGAIN_EVERY: Duration = Duration::from_millis(100);
/// How often a steady worker shows that it does everything, and how long it looks for the end.
const BEACON_EVERY: Duration = Duration::from_millis(250);
const BEACON_LOOKS: u32 = 100;
/// How often a node that only serves says who it is: it may have been declared dead meanwhile.
const NODE_EVERY: Duration = Duration::from_millis(250);
/// Longer than any proof: whoever asks twice gets the first job, also when that has ended.
const KEY_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How a worker behaves.
pub(crate) struct Manner {
    /// What its jobs follow from.
    pub(crate) seed: u64,
    /// Writes no jobs, and ends with the last one.
    pub(crate) drains: bool,
    /// Serves these queues as nodes do by default; it has the last of them for itself. None: it is
    /// in a hurry, and serves the usual one.
    pub(crate) queues: Vec<String>,
    /// Is a node like any other: writes nothing, and works as nodes do by default.
    pub(crate) serves: bool,
}

/// What a job does: it takes so long and then ends like this.
#[derive(Serialize, Deserialize)]
pub(crate) struct Task {
    ms: u64,
    end: End,
    /// The key it was written with; who reads it back sees whether it was written twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
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
    pub(crate) fn lasts(ms: u64) -> Task {
        Task { ms, end: End::Done, key: None }
    }

    pub(crate) fn aborts() -> Task {
        Task { ms: 5, end: End::Abort, key: None }
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
        Task { ms, end, key: None }
    }

    /// The same, and one in ten outlives a crash of the server: whoever is at work on it when its
    /// claim is forgotten has something stale to report.
    fn drawn_long(draw: u64) -> Task {
        let task = Task::drawn(draw);
        match hash::draw(draw, 2) % 10 {
            0 => Task { ms: 2_000 + hash::draw(draw, 3) % 6_000, ..task },
            _ => task,
        }
    }

    pub(crate) fn job(&self) -> Result<NewJob, Failure> {
        let env: &dyn Env = &System;
        let job = NewJob::new(JobId::mint(env.wall(), env.seed()), QUEUE, KIND, Json::new(self)?);
        let unique = self.key.clone().map(|key| UniqueKey {
            key,
            scope: KeyScope::Tenant,
            lifetime: KeyLifetime::For(KEY_LIFETIME),
            is_by_payload: false,
        });
        Ok(NewJob { max_attempts: 4, unique, ..job })
    }
}

/// Jobs are tried again soon, so that a proof ends soon.
fn policy() -> RetryPolicy {
    let ms = Duration::from_millis;
    let backoff =
        Backoff { base: ms(50), growth: Growth::Exponential, cap: ms(400), spread: Spread::Full };
    RetryPolicy { backoff }
}

pub(crate) fn hurried() -> Config {
    let ms = Duration::from_millis;
    Config {
        name: "worker".to_owned(),
        max_running: 32,
        shutdown_grace: ms(300),
        policy: policy(),
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

impl Manner {
    fn config(&self) -> Config {
        if self.serves {
            return Config::default();
        }
        if self.queues.is_empty() {
            return hurried();
        }
        let queues = self.queues.iter().map(|name| ServedQueue::new(name)).collect();
        Config { queues, policy: policy(), ..Config::default() }
    }
}

/// Works until it is told to stop or killed, or has drained.
pub(crate) fn run(database: &Database, manner: &Manner) -> Result<(), Failure> {
    // Handlers panic on purpose; whatever else goes wrong is said when the process ends.
    std::panic::set_hook(Box::new(|_| {}));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let store = database.open_in_time().await?;
        let engine = start(&store, manner).await?;
        say(format_args!("node {}", engine.node()));
        tokio::select! {
            _ = terminate.recv() => {}
            () = say_node(&engine), if manner.serves => {}
            written = write(&store, manner), if !manner.drains && !manner.serves => written?,
            drained = drained(&*store), if manner.drains => drained?,
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

async fn say_node(engine: &Engine) {
    loop {
        say(format_args!("node {}", engine.node()));
        System.sleep(NODE_EVERY).await;
    }
}

/// Starts the engine as soon as the database lets it join.
async fn start(store: &Arc<dyn Store>, manner: &Manner) -> Result<Engine, Failure> {
    loop {
        let mut handlers = Handlers::default();
        handlers.add(KIND, work);
        match Engine::start(Arc::new(System), store.clone(), manner.config(), handlers).await {
            Err(EngineError::Store(error)) if is_for_now(error.kind()) => {
                System.sleep(AGAIN_EVERY).await;
            }
            started => return Ok(started?),
        }
    }
}

/// Writes jobs for ever, and says which were acknowledged.
async fn write(store: &Arc<dyn Store>, manner: &Manner) -> Result<(), Failure> {
    let Some(own) = manner.queues.last() else {
        return write_plain(&**store, manner.seed, EVERY).await;
    };
    tokio::select! {
        written = write_plain(&**store, manner.seed, STEADY_EVERY) => written,
        written = write_keyed(&**store, manner.seed) => written,
        written = write_held(&**store, manner.seed) => written,
        shown = show(store, own) => shown,
    }
}

async fn write_plain(store: &dyn Store, seed: u64, every: Duration) -> Result<(), Failure> {
    for round in 0.. {
        let tasks = (0..BATCH).map(|index| Task::drawn(hash::draw(seed, round * BATCH + index)));
        let jobs: Vec<NewJob> = tasks.map(|task| task.job()).collect::<Result<_, _>>()?;
        insist(store, &jobs).await?;
        System.sleep(every).await;
    }
    Ok(())
}

/// Writes these jobs, and again after an answer that was lost: their ids make that harmless.
async fn insist(store: &dyn Store, jobs: &[NewJob]) -> Result<(), Failure> {
    loop {
        match store.enqueue(At::Database, jobs).await {
            Ok(enqueued) => {
                for (job, answer) in jobs.iter().zip(enqueued.answers) {
                    match answer {
                        EnqueueAnswer::Created => say(format_args!("ack {}", job.id)),
                        other => return Err(format!("{other:?}").into()),
                    }
                }
                return Ok(());
            }
            Err(error) if is_for_now(error.kind()) => {
                say(format_args!("unsure {error}"));
                System.sleep(AGAIN_EVERY).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes jobs that have keys, under a new id with each try: only the key tells that they are one.
async fn write_keyed(store: &dyn Store, seed: u64) -> Result<(), Failure> {
    for round in 0_u64.. {
        let drawn = Task::drawn_long(hash::draw(!seed, round));
        let task = Task { key: Some(format!("{}-{seed}-{round}", std::process::id())), ..drawn };
        let made = loop {
            let job = task.job()?;
            match store.enqueue(At::Database, std::slice::from_ref(&job)).await {
                Ok(enqueued) => match enqueued.answers[..] {
                    [EnqueueAnswer::Created] => break job.id,
                    [EnqueueAnswer::Duplicate(first)] => break first,
                    ref other => return Err(format!("{other:?}").into()),
                },
                Err(error) if is_for_now(error.kind()) => {
                    say(format_args!("unsure {error}"));
                    System.sleep(AGAIN_EVERY).await;
                }
                Err(error) => return Err(error.into()),
            }
        };
        say(format_args!("key {} {made}", task.key.as_deref().unwrap_or_default()));
        System.sleep(KEYED_EVERY).await;
    }
    Ok(())
}

/// Writes jobs that hold a key until they end, each under one id however often it is tried.
async fn write_held(store: &dyn Store, seed: u64) -> Result<(), Failure> {
    for round in 0_u64.. {
        let job = Task::drawn(hash::draw(hash::draw(seed, 4), round)).job()?;
        let (scope, lifetime) = (KeyScope::Tenant, KeyLifetime::Job);
        let unique =
            Some(UniqueKey { key: job.id.to_string(), scope, lifetime, is_by_payload: false });
        insist(store, &[NewJob { unique, ..job }]).await?;
        System.sleep(KEYED_EVERY).await;
    }
    Ok(())
}

/// Shows again and again that this node does everything: it writes a job into the queue that only
/// it serves, and sees it succeed.
async fn show(store: &Arc<dyn Store>, own: &str) -> Result<(), Failure> {
    loop {
        let task = Task::lasts(0);
        let job = NewJob { queue: own.to_owned(), ..task.job()? };
        tokio::spawn(beacon(store.clone(), job));
        System.sleep(BEACON_EVERY).await;
    }
}

async fn beacon(store: Arc<dyn Store>, job: NewJob) {
    let env: &dyn Env = &System;
    let began = env.wall().as_micros();
    if insist(&*store, std::slice::from_ref(&job)).await.is_err() {
        return;
    }
    for _ in 0..BEACON_LOOKS {
        let found = store.job(job.id).await;
        if found.is_ok_and(|found| found.is_some_and(|job| job.view.state == JobState::Succeeded)) {
            return say(format_args!("beacon {began}"));
        }
        System.sleep(AGAIN_EVERY).await;
    }
}

/// Ends when every job has ended.
pub(crate) async fn drained(store: &dyn Store) -> Result<(), Failure> {
    // A job that moves while one looks may be in neither place; it is not so twice.
    let mut empty = 0;
    while empty < 3 {
        let stats = store.queue_stats(None, limits::PAGE_MAX).await?.items;
        let is_live = |stats: &QueueStats| {
            stats.ready + stats.scheduled + stats.retrying + stats.blocked + stats.running > 0
        };
        empty = if stats.iter().any(is_live) { 0 } else { empty + 1 };
        System.sleep(LOOK_EVERY).await;
    }
    Ok(())
}

async fn work(attempt: Attempt) -> Ended {
    let (job, number, lease) = (attempt.job.id, attempt.job.attempt, attempt.job.lease);
    say(format_args!("begin {job} {number} {lease}"));
    let ends = |how: &str| say(format_args!("end {job} {number} {lease} {how}"));
    let task: Task = match serde_json::from_str(attempt.job.payload.as_str()) {
        Ok(task) => task,
        Err(error) => return Ended::from(Outcome::FailForGood(error.to_string())),
    };
    tokio::select! {
        _ = attempt.stopped() => {
            ends("stopped");
            return Ended::from(Outcome::Fail("stopped".to_owned()));
        }
        () = System.sleep(Duration::from_millis(task.ms)) => {}
    }
    match task.end {
        End::Abort => std::process::abort(),
        End::Fail => {
            ends("failed");
            Ended::from(Outcome::Fail("failed as planned".to_owned()))
        }
        End::Panic if number == 1 => {
            ends("panicked");
            panic!("failed as planned")
        }
        End::Panic | End::Done => {
            ends("succeeded");
            Ended::from(Outcome::Done)
        }
    }
}

/// One write for the line: a pipe takes it whole or not at all, so that no kill cuts it.
pub(crate) fn say(what: std::fmt::Arguments<'_>) {
    let line = format!("{what}\n");
    // If nobody listens any more, there is nobody to say that to.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}
