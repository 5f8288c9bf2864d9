//! Workers whose handlers have an effect and settle their job in one transaction, killed at random
//! moments. In the end every job has succeeded and had its effect once, whoever was killed when.

mod effects;
mod worker;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use punctual::Job;
use punctual_core::job::JobState;
use punctual_core::{JobId, hash};
use punctual_engine::{Env, System};
use punctual_store::{Actor, At, EnqueueAnswer, Json, NewJob, RequeueAnswer};
use serde_json::json;

use crate::database::{Database, Kind, Own};
use crate::raw::QUEUE;
use crate::{Failure, tell};

use effects::Effects;
use worker::Effect;
pub(crate) use worker::work;

/// A worker is killed after up to this many lines; each job is worth three.
const LINES_MAX: u64 = 60;
/// Jobs that are written for each worker: more than it does before it is killed.
const JOBS_EACH: usize = 40;
/// How many work at once where several may.
const BESIDE: usize = 3;
/// How often those that crashed too often are given another chance: nobody is killed any more.
const CHANCES: usize = 2;

/// Kills workers; prints one line of JSON.
#[expect(clippy::disallowed_methods, reason = "the reported duration of the proof is real time")]
pub(crate) fn prove(kind: Kind, kills: u64) -> Result<(), Failure> {
    let started = Instant::now();
    let own = Own::new(kind, false)?;
    let (proof, backend, at_once) = match kind {
        Kind::Sqlite => ("exactly-once", "sqlite", 1),
        Kind::Postgres => ("pg-exactly-once", "postgres", BESIDE),
    };
    let rig = Rig::new(own.database.clone())?;
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..at_once).map(|_| scope.spawn(|| rig.kill(kills))).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().map_err(|_| "a lane panicked")?)
    })?;
    let findings = rig.drain()?;
    let said = json!({
        "backend": backend, "kills": rig.kills.load(Ordering::Relaxed), "at_once": at_once,
        "jobs": findings.jobs, "effects": findings.effects, "doubled": findings.doubled,
        "missing": findings.missing, "unknown": findings.unknown,
        "attempts_abandoned": findings.abandoned, "requeued": findings.requeued,
        "killed_in_transaction": rig.in_transaction.load(Ordering::Relaxed),
        "killed_after_commit": rig.after_commit.load(Ordering::Relaxed),
        "seconds": started.elapsed().as_secs()
    });
    tell(proof, said)?;
    match findings.broken {
        Some(what) => Err(what.into()),
        None => Ok(()),
    }
}

struct Rig {
    database: Database,
    runtime: tokio::runtime::Runtime,
    jobs: Mutex<BTreeSet<JobId>>,
    rounds: AtomicU64,
    kills: AtomicU64,
    /// Kills whose last word was that a transaction was open, and that one was committed.
    in_transaction: AtomicU64,
    after_commit: AtomicU64,
}

/// What is found in the end.
#[derive(Default)]
struct Findings {
    jobs: usize,
    effects: u64,
    doubled: u64,
    missing: u64,
    unknown: u64,
    abandoned: usize,
    requeued: usize,
    /// The first thing that is not as it should be.
    broken: Option<String>,
}

impl Rig {
    fn new(database: Database) -> Result<Rig, Failure> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        runtime.block_on(async {
            // The tables are made before anybody is killed.
            drop(database.open().await?);
            Effects::new(&database).create().await
        })?;
        Ok(Rig {
            database,
            runtime,
            jobs: Mutex::default(),
            rounds: AtomicU64::new(0),
            kills: AtomicU64::new(0),
            in_transaction: AtomicU64::new(0),
            after_commit: AtomicU64::new(0),
        })
    }

    /// Writes jobs and kills whoever works on them, one worker after the other.
    fn kill(&self, kills: u64) -> Result<(), Failure> {
        loop {
            let round = self.rounds.fetch_add(1, Ordering::Relaxed);
            if round >= kills {
                return Ok(());
            }
            self.runtime.block_on(self.enqueue())?;
            let mut worker = Worker::start(&self.database, false)?;
            let fatal = 1 + hash::draw(21, round) % LINES_MAX;
            let last = worker.listen(fatal)?.ok_or("a worker ended without being killed")?;
            worker.child.kill()?;
            worker.child.wait()?;
            self.kills.fetch_add(1, Ordering::Relaxed);
            match last.as_str() {
                worker::HAD_EFFECT | worker::SETTLED => {
                    self.in_transaction.fetch_add(1, Ordering::Relaxed);
                }
                worker::COMMITTED => drop(self.after_commit.fetch_add(1, Ordering::Relaxed)),
                _ => {}
            }
        }
    }

    async fn enqueue(&self) -> Result<(), Failure> {
        let env: &dyn Env = &System;
        let new =
            || NewJob::new(JobId::mint(env.wall(), env.seed()), QUEUE, Effect::KIND, Json::null());
        let jobs: Vec<NewJob> = (0..JOBS_EACH).map(|_| new()).collect();
        let store = self.database.open_beside().await?;
        let enqueued = store.enqueue(At::Database, &jobs).await?;
        if enqueued.answers.iter().any(|answer| *answer != EnqueueAnswer::Created) {
            return Err(format!("{:?}", enqueued.answers).into());
        }
        let mut known = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(jobs.iter().map(|job| job.id));
        Ok(())
    }

    /// Lets a worker finish whatever is left, and looks at what there is.
    fn drain(&self) -> Result<Findings, Failure> {
        let mut requeued = 0;
        for _ in 0..CHANCES {
            let mut worker = Worker::start(&self.database, true)?;
            worker.listen(u64::MAX)?;
            let code = worker.child.wait()?.code();
            if code != Some(0) {
                return Err(format!("the last worker exited with {code:?}").into());
            }
            let (findings, failed) = self.runtime.block_on(self.judge())?;
            if failed.is_empty() || findings.broken.is_some() {
                return Ok(Findings { requeued, ..findings });
            }
            // Three crashes end a job, and it was at work when three of its workers were killed.
            self.runtime.block_on(self.requeue(&failed))?;
            requeued += failed.len();
        }
        Err("jobs failed although no worker was killed".into())
    }

    async fn requeue(&self, failed: &[JobId]) -> Result<(), Failure> {
        let store = self.database.open().await?;
        let actor = Actor::new("bench", "the workers of the job were killed");
        for answer in store.requeue(At::Database, failed, &actor).await? {
            if answer != RequeueAnswer::Requeued {
                return Err(format!("{answer:?}").into());
            }
        }
        Ok(())
    }

    /// Counts, and tells which jobs have failed.
    async fn judge(&self) -> Result<(Findings, Vec<JobId>), Failure> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let counts = Effects::new(&self.database).counts().await?;
        let store = self.database.open().await?;
        let mut findings = Findings { jobs: jobs.len(), ..Findings::default() };
        let mut failed = Vec::new();
        for job in &jobs {
            let found = store.job(*job).await?.ok_or("an acknowledged job was not found")?;
            findings.abandoned += found.crashes as usize;
            let effects = counts.get(job).copied().unwrap_or(0);
            findings.effects += effects;
            findings.doubled += u64::from(effects > 1);
            let wanted = match found.view.state {
                JobState::Succeeded => 1,
                JobState::Failed => {
                    failed.push(*job);
                    0
                }
                state => {
                    findings.breaks(format!("job {job} is {state}"));
                    effects
                }
            };
            findings.missing += u64::from(effects < wanted);
            if effects != wanted {
                findings.breaks(format!(
                    "job {job} has {effects} effects in state {}",
                    found.view.state
                ));
            }
        }
        let unknown: Vec<_> = counts.keys().filter(|job| !jobs.contains(job)).collect();
        findings.unknown = unknown.len() as u64;
        if let Some(job) = unknown.first() {
            findings.breaks(format!("an effect of job {job}, which was never enqueued"));
        }
        Ok((findings, failed))
    }
}

impl Findings {
    fn breaks(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }
}

/// A worker's process, which does not outlive this value.
struct Worker {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(database: &Database, drains: bool) -> Result<Worker, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("exactly-once-worker")
            .arg(database.to_string())
            .args(drains.then_some("--drain"))
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the worker has no output")?;
        Ok(Worker { child, lines: BufReader::new(stdout).lines() })
    }

    /// The line with this number; none if it ends before.
    fn listen(&mut self, fatal: u64) -> Result<Option<String>, Failure> {
        let mut said = 0;
        for line in self.lines.by_ref() {
            let line = line?;
            said += 1;
            if said == fatal {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
