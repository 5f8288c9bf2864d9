//! Workers on a PostgreSQL that crashes, whose connections are cut at the worst moments or go
//! silent, and who are killed themselves. Every node works again soon after each fault, and in the
//! end every job that was acknowledged has ended once.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use punctual_conformance::cluster::{Cluster, Pooler};
use punctual_core::job::AttemptOutcome;
use punctual_core::{JobId, LeaseId, NodeId, hash};
use punctual_engine::{Env, System};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::account::{Findings, Judge, Log};
use crate::database::Database;
use crate::process::{Heard, Process};
use crate::proxy::Way;
use crate::raw::QUEUE;
use crate::recovery::{LONGEST, PATIENCE, Recoveries, Shown};
use crate::{Failure, backends, tell};

const WORKERS: usize = 3;
/// Between two faults, at most.
const PAUSE_MS: u64 = 1_200;
/// An answer is lost after up to this many others.
const ANSWERS: u64 = 30;
/// A node is dead to the others after fifteen seconds, and its jobs are taken within two more.
const FREEZE_MS: u64 = 16_500;
const FREEZE_MORE_MS: u64 = 3_500;
/// Outcomes that only a worker reports.
const REPORTED: [AttemptOutcome; 3] =
    [AttemptOutcome::Succeeded, AttemptOutcome::Failed, AttemptOutcome::Panicked];

/// Causes faults for so long; prints one line of JSON.
pub(crate) fn prove(
    seconds: u64,
    is_pooled: bool,
    seed: u64,
    is_timed: bool,
) -> Result<(), Failure> {
    let mut rig = Rig::new(is_pooled, seed)?;
    rig.rage(Duration::from_secs(seconds))?;
    rig.stop_all()?;
    rig.drain()?;
    let mut findings = rig.judge()?;
    let leases_left = rig.left(&mut findings)?;
    rig.check_leases(&mut findings)?;
    let longest = if is_timed { LONGEST } else { PATIENCE };
    if rig.recoveries.worst() >= longest {
        findings.breaks(format!("a node needed {:?} to recover", rig.recoveries.worst()));
    }
    let lost_answers: u64 = rig.ways.iter().map(|way| way.lost.load(Ordering::Relaxed)).sum();
    let (log, done, recoveries) = (lock(&rig.log), &rig.done, &rig.recoveries);
    let said = json!({
        "seconds": seconds, "seed": seed, "pooled": is_pooled, "nodes": WORKERS,
        "restarts": done.restarts, "backend_kills": done.backend_kills,
        "cuts_after_commit": lost_answers, "cuts": done.cuts, "black_holes": done.black_holes,
        "longest_black_hole_ms": millis(done.longest_hole), "worker_kills": done.worker_kills,
        "freezes": done.freezes,
        "acknowledged": log.acknowledged.len(), "keys": log.keys.len(), "answers_unknown": log.unsure,
        "lost": findings.lost, "doubled": findings.doubled, "unfinished": findings.unfinished,
        "over_attempts": findings.over_attempts, "stale_accepted": findings.stale_accepted,
        "leases_left": leases_left, "burnt_by_stops": findings.burnt_by_stops,
        "succeeded": findings.succeeded, "failed": findings.failed,
        "failed_by_crashes": findings.failed_by_crashes, "attempts_abandoned": findings.abandoned,
        "attempts_released": findings.released, "repeated": findings.repeated,
        "begun_again": log.begun_again, "rejoined": rig.rejoined,
        "recoveries": recoveries.count(), "recovered_p50_ms": millis(recoveries.median()),
        "recovered_worst_ms": millis(recoveries.worst()), "recovered_late": recoveries.late()
    });
    tell("pg-faults", said)?;
    findings.first_broken.map_or(Ok(()), |what| Err(what.into()))
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "the proof runs in real time")]
fn rest(length: Duration) {
    std::thread::sleep(length);
}

#[expect(clippy::disallowed_methods, reason = "the proof runs in real time")]
fn clock() -> Instant {
    Instant::now()
}

/// Faults so far.
#[derive(Default)]
struct Done {
    restarts: u64,
    backend_kills: u64,
    cuts: u64,
    black_holes: u64,
    longest_hole: Duration,
    worker_kills: u64,
    freezes: u64,
}

struct Rig {
    // Fields end in this order: workers first, and the server last.
    workers: Vec<Heard>,
    ways: Vec<Arc<Way>>,
    runtime: Runtime,
    _pooler: Option<Pooler>,
    cluster: Cluster,
    is_pooled: bool,
    shown: Vec<Arc<Shown>>,
    log: Arc<Mutex<Log>>,
    stopped: BTreeSet<NodeId>,
    rejoined: u64,
    started: u64,
    seed: u64,
    drawn: u64,
    done: Done,
    recoveries: Recoveries,
}

impl Rig {
    fn new(is_pooled: bool, seed: u64) -> Result<Rig, Failure> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let cluster = Cluster::new(&["max_connections = 400"], None);
        let pooler = is_pooled.then(|| Pooler::before(&cluster));
        let target = pooler.as_ref().map_or(cluster.port, |pooler| pooler.port);
        let ways = (0..WORKERS).map(|_| runtime.block_on(Way::to(target)));
        let mut rig = Rig {
            workers: Vec::new(),
            ways: ways.collect::<Result<_, _>>()?,
            runtime,
            _pooler: pooler,
            cluster,
            is_pooled,
            shown: (0..WORKERS).map(|_| Arc::default()).collect(),
            log: Arc::default(),
            stopped: BTreeSet::new(),
            rejoined: 0,
            started: 0,
            seed,
            drawn: 0,
            done: Done::default(),
            recoveries: Recoveries::default(),
        };
        for slot in 0..WORKERS {
            let worker = rig.start(slot, &[QUEUE, &own(slot)], &[])?;
            rig.workers.push(worker);
        }
        let now = wall();
        rig.wait_for(now, PATIENCE, &|_| {})?;
        Ok(rig)
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.drawn += 1;
        hash::draw(self.seed, self.drawn) % below
    }

    /// Starts a worker that goes the way of this slot.
    fn start(&mut self, slot: usize, queues: &[&str], more: &[&str]) -> Result<Heard, Failure> {
        self.started += 1;
        let url = format!(
            "postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable",
            self.ways[slot].port
        );
        let database = Database::Postgres { url, is_pooled: self.is_pooled };
        let queues = queues.iter().flat_map(|queue| ["--queue", queue]);
        let arguments: Vec<&str> = queues.chain(more.iter().copied()).collect();
        let process = Process::start(&database, self.started, &arguments)?;
        let shown = self.shown[slot].clone();
        Heard::begin(process, self.log.clone(), move |life| {
            life.shown.inspect(|began| shown.note(*began));
        })
    }

    /// Causes faults.
    fn rage(&mut self, length: Duration) -> Result<(), Failure> {
        let began = clock();
        while began.elapsed() < length {
            let pause = self.draw(PAUSE_MS);
            rest(Duration::from_millis(pause));
            let slot = self.draw(WORKERS as u64) as usize;
            match self.draw(100) {
                0..35 => {
                    let after = self.draw(ANSWERS);
                    self.ways[slot].lose_answer(after as i64);
                }
                35..55 => {
                    self.ways[slot].cut();
                    self.done.cuts += 1;
                }
                55..75 => self.kill_backends()?,
                75..83 => self.kill_worker(slot)?,
                83..91 => self.restart()?,
                91..97 => self.black_hole(slot)?,
                _ => self.freeze(slot)?,
            }
        }
        self.quiet();
        // A worker that was started just now would not know yet what it means to be told to stop.
        self.wait_for(wall(), PATIENCE, &|_| {})
    }

    /// No fault is left over that could strike later.
    fn quiet(&self) {
        self.ways.iter().for_each(|way| way.lose_no_answer());
    }

    fn restart(&mut self) -> Result<(), Failure> {
        self.quiet();
        self.cluster.crash();
        let away = self.draw(1_500);
        rest(Duration::from_millis(away));
        self.cluster.start();
        self.done.restarts += 1;
        self.recovered("a crash of the server")
    }

    /// Nothing passes for a while, for one worker or for all.
    fn black_hole(&mut self, slot: usize) -> Result<(), Failure> {
        self.quiet();
        let (from, to) = match self.draw(100) {
            0..60 => (300, 3_000),
            // Longer than the patience of calls and statements.
            60..85 => (4_000, 8_000),
            // Longer than a node trusts its leases, or than the others believe it alive.
            _ => (11_000, 22_000),
        };
        let length = Duration::from_millis(from + self.draw(to - from));
        let is_for_all = self.draw(2) == 0;
        let old_go_on = self.draw(2) == 0;
        let ways: Vec<Arc<Way>> =
            if is_for_all { self.ways.clone() } else { vec![self.ways[slot].clone()] };
        ways.iter().for_each(|way| way.close());
        rest(length);
        ways.iter().for_each(|way| way.open(old_go_on));
        self.done.black_holes += 1;
        self.done.longest_hole = self.done.longest_hole.max(length);
        let (whose, old) = (
            if is_for_all { "all" } else { "one" },
            if old_go_on { "continue" } else { "stay silent" },
        );
        self.recovered(&format!(
            "a network black hole of {length:?} for {whose}, old connections {old}"
        ))
    }

    /// A process stands still for so long that the others take its jobs, and are at work on them when
    /// it goes on and reports what it believes it has done.
    fn freeze(&mut self, slot: usize) -> Result<(), Failure> {
        self.quiet();
        let length = FREEZE_MS + self.draw(FREEZE_MORE_MS);
        self.workers[slot].process.freeze()?;
        rest(Duration::from_millis(length));
        self.workers[slot].process.thaw()?;
        self.done.freezes += 1;
        self.recovered("a freeze")
    }

    /// Measures how long it takes until every node does everything again.
    fn recovered(&mut self, after: &str) -> Result<(), Failure> {
        let (healed, began) = (wall(), clock());
        let took: Mutex<Vec<(usize, Duration)>> = Mutex::default();
        self.wait_for(healed, PATIENCE, &|slot| lock(&took).push((slot, began.elapsed())))?;
        for (slot, took) in lock(&took).iter() {
            self.recoveries.note(*took);
            if *took > LONGEST {
                eprintln!("worker {slot} needed {took:?} to recover after {after}");
            }
        }
        Ok(())
    }

    /// Waits until every node has shown since this instant that it does everything.
    fn wait_for(
        &self,
        instant: i64,
        patience: Duration,
        found: &dyn Fn(usize),
    ) -> Result<(), Failure> {
        let mut open: BTreeSet<usize> = (0..WORKERS).collect();
        let began = clock();
        while !open.is_empty() {
            open.retain(|slot| {
                let has_shown = self.shown[*slot].has_since(instant);
                if has_shown {
                    found(*slot);
                }
                !has_shown
            });
            for (slot, worker) in self.workers.iter().enumerate() {
                if worker.is_over() {
                    return Err(format!("worker {slot} exited unexpectedly").into());
                }
            }
            if began.elapsed() > patience {
                return Err(format!("workers {open:?} made no progress for {patience:?}").into());
            }
            rest(Duration::from_millis(10));
        }
        Ok(())
    }

    fn kill_worker(&mut self, slot: usize) -> Result<(), Failure> {
        let next = self.start(slot, &[QUEUE, &own(slot)], &[])?;
        let mut worker = std::mem::replace(&mut self.workers[slot], next);
        worker.process.kill()?;
        let (code, life) = worker.end()?;
        if let Some(code) = code {
            return Err(format!("a worker exited unexpectedly with code {code}").into());
        }
        self.rejoined += life.nodes.len().saturating_sub(1) as u64;
        self.done.worker_kills += 1;
        Ok(())
    }

    /// Ends some connections at the server.
    fn kill_backends(&mut self) -> Result<(), Failure> {
        let (most, salt) = (1 + self.draw(8) as i64, self.draw(1 << 20) as i32);
        let ended = self.runtime.block_on(async {
            let client = self.connect().await?;
            backends::end_some(&client, most, salt).await
        })?;
        self.done.backend_kills += ended;
        Ok(())
    }

    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        backends::connect(&self.cluster.url()).await
    }

    /// All workers stop as they would for a new release.
    fn stop_all(&mut self) -> Result<(), Failure> {
        let workers = std::mem::take(&mut self.workers);
        for worker in &workers {
            worker.process.stop()?;
        }
        for worker in workers {
            self.end(worker)?;
        }
        Ok(())
    }

    fn end(&mut self, worker: Heard) -> Result<(), Failure> {
        let (code, life) = worker.end()?;
        if (code, life.unsettled) != (Some(0), Some(0)) {
            let unsettled = life.unsettled;
            return Err(format!("a worker exited with {code:?}, unsettled: {unsettled:?}").into());
        }
        self.stopped.extend(life.nodes.last());
        self.rejoined += life.nodes.len().saturating_sub(1) as u64;
        Ok(())
    }

    /// Lets a worker finish whatever is left.
    fn drain(&mut self) -> Result<(), Failure> {
        let all: Vec<String> = (0..WORKERS).map(own).chain([QUEUE.to_owned()]).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let worker = self.start(0, &all, &["--drain"])?;
        self.end(worker)
    }

    fn judge(&self) -> Result<Findings, Failure> {
        let log = lock(&self.log);
        let aborting: BTreeSet<JobId> = BTreeSet::new();
        let judge = Judge { log: &log, stopped: &self.stopped, aborting: &aborting };
        self.runtime.block_on(async {
            let store = Database::direct(self.cluster.url()).open().await?;
            judge.judge(&*store).await
        })
    }

    /// How many leases are left; nor may anything be left in line, or a key be held by a job that ended.
    fn left(&self, findings: &mut Findings) -> Result<i64, Failure> {
        let row = self.runtime.block_on(async {
            let client = self.connect().await?;
            let text = "SELECT (SELECT count(*) FROM punctual.job_lease), \
                        (SELECT count(*) FROM punctual.job_ready), \
                        (SELECT count(*) FROM punctual.job_timer), \
                        (SELECT count(*) FROM punctual.job_key WHERE expires_at IS NULL)";
            client.query_one(text, &[]).await
        })?;
        let counts: (i64, i64, i64, i64) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        if counts != (0, 0, 0, 0) {
            findings.breaks(format!("(leases, ready, timers, keys) left: {counts:?}"));
        }
        Ok(counts.0)
    }

    /// Each outcome was reported by whoever held the lease that it is recorded for.
    fn check_leases(&self, findings: &mut Findings) -> Result<(), Failure> {
        let rows = self.runtime.block_on(async {
            let client = self.connect().await?;
            let text = "SELECT job, attempt, lease, $1::smallint FROM punctual.job_done \
                        WHERE outcome = 1 \
                        UNION ALL SELECT job, attempt, lease, outcome FROM punctual.job_attempt";
            client.query(text, &[&AttemptOutcome::Succeeded.code()]).await
        })?;
        let log = lock(&self.log);
        for row in rows {
            let (job, lease): (Uuid, Uuid) = (row.try_get(0)?, row.try_get(2)?);
            let (number, code): (i32, i16) = (row.try_get(1)?, row.try_get(3)?);
            let Some(outcome) = REPORTED.into_iter().find(|outcome| outcome.code() == code) else {
                continue;
            };
            let (job, lease) =
                (JobId::from_bytes(job.into_bytes()), LeaseId::from_bytes(lease.into_bytes()));
            if !log.said(job, u32::try_from(number)?, Some(lease), outcome.as_str()) {
                findings.stale_accepted += 1;
                findings.breaks(format!(
                    "job {job}: {outcome} was accepted for lease {lease}, but its holder reported \
                     another outcome"
                ));
            }
        }
        Ok(())
    }
}

/// The queue that only the workers of this slot serve.
fn own(slot: usize) -> String {
    format!("own-{slot}")
}

fn wall() -> i64 {
    let env: &dyn Env = &System;
    env.wall().as_micros()
}
