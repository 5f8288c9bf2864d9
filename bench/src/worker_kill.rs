//! Workers are killed and stopped at random moments, again and again. In the end every job that
//! was acknowledged has ended as it should, whatever happened to those who worked on it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use punctual_core::{JobId, NodeId, hash};
use punctual_store::{At, NewJob};
use serde_json::json;

use crate::account::{Findings, Judge, Log};
use crate::database::{Database, Kind, Own};
use crate::process::Process;
use crate::worker::Task;
use crate::{Failure, tell};

/// A worker is killed or stopped after up to this many lines; it says some 600 a second.
const LINES_MAX: u64 = 600;
/// Every so many rounds a worker lives long enough to take back what dead ones held.
const LONG_EVERY: u64 = 4;
const LONG_LINES: u64 = 1_800;
/// A job that aborts its process is written every so many rounds.
const ABORT_EVERY: u64 = 20;
/// How many work at once where several may.
const BESIDE: usize = 3;

/// Kills and stops workers; prints one line of JSON.
#[expect(clippy::disallowed_methods, reason = "the reported duration of the proof is real time")]
pub(crate) fn prove(kind: Kind, is_pooled: bool, kills: u64, stops: u64) -> Result<(), Failure> {
    let started = Instant::now();
    let own = Own::new(kind, is_pooled)?;
    let (proof, at_once) = match kind {
        Kind::Sqlite => ("worker-kill", 1),
        Kind::Postgres => ("pg-worker-kill", BESIDE),
    };
    let rig = Rig::new(own.database.clone())?;
    std::thread::scope(|scope| {
        let lanes: Vec<_> =
            (0..at_once).map(|_| scope.spawn(|| rig.kill_and_stop(kills, stops))).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().map_err(|_| "a lane panicked")?)
    })?;
    rig.drain()?;
    let findings = rig.judge()?;
    let (log, tally) = (lock(&rig.log), lock(&rig.tally));
    let said = json!({
        "pooled": is_pooled, "at_once": at_once,
        "kills": tally.kills, "stops": tally.stops, "aborts": tally.aborts,
        "acknowledged": log.acknowledged.len(), "unsure": log.unsure,
        "lost": findings.lost, "doubled": findings.doubled, "unfinished": findings.unfinished,
        "over_attempts": findings.over_attempts, "stale_accepted": findings.stale_accepted,
        "begun_again": log.begun_again, "begun_concurrently": log.beside,
        "aborting_jobs_failed_after_3_crashes": tally.aborting.len(),
        "burnt_by_stops": findings.burnt_by_stops, "succeeded": findings.succeeded, "failed": findings.failed,
        "failed_by_crashes": findings.failed_by_crashes, "attempts_abandoned": findings.abandoned,
        "attempts_released": findings.released, "repeated": findings.repeated, "rejoined": tally.rejoined,
        "seconds": started.elapsed().as_secs()
    });
    tell(proof, said)?;
    findings.first_broken.map_or(Ok(()), |what| Err(what.into()))
}

/// How a worker's life ends, if it does not end by itself.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Kill,
    Stop,
    /// When all is done.
    Itself,
}

/// What was done so far.
#[derive(Default)]
struct Tally {
    rounds: u64,
    kills: u64,
    stops: u64,
    aborts: u64,
    rejoined: u64,
    aborting: BTreeSet<JobId>,
    /// Nodes whose process was told to stop and did.
    stopped: BTreeSet<NodeId>,
}

struct Rig {
    database: Database,
    log: Mutex<Log>,
    tally: Mutex<Tally>,
    spawned: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rig {
    fn new(database: Database) -> Result<Rig, Failure> {
        // The tables are made before anybody is killed.
        drop(runtime()?.block_on(database.open())?);
        Ok(Rig {
            database,
            log: Mutex::default(),
            tally: Mutex::default(),
            spawned: AtomicU64::new(0),
        })
    }

    /// Runs one worker after the other until there were enough kills and stops.
    fn kill_and_stop(&self, kills: u64, stops: u64) -> Result<(), Failure> {
        let mut next = None;
        loop {
            let (round, end) = {
                let mut tally = lock(&self.tally);
                // Mixed, in proportion to what is left.
                let left = (kills.saturating_sub(tally.kills), stops.saturating_sub(tally.stops));
                if left == (0, 0) {
                    // The next one may have been started beside the last one that was stopped.
                    drop(tally);
                    return next.map_or(Ok(()), |next| self.run(next, 1, End::Kill).map(drop));
                }
                let round = tally.rounds;
                tally.rounds += 1;
                let is_kill = hash::draw(11, round) % (left.0 + left.1) < left.0;
                (round, if is_kill { End::Kill } else { End::Stop })
            };
            if round % ABORT_EVERY == ABORT_EVERY / 2 || round == 1 {
                self.enqueue_abort()?;
            }
            let lines = match round % LONG_EVERY {
                0 => LONG_LINES,
                _ => 1 + hash::draw(12, round) % LINES_MAX,
            };
            let worker = next.take().map_or_else(|| self.spawn(&[]), Ok)?;
            next = self.run(worker, lines, end)?.next;
        }
    }

    /// Writes a job that aborts whatever process works on it, from beside the engine.
    fn enqueue_abort(&self) -> Result<(), Failure> {
        let job = Task::aborts().job()?;
        // Were it not for its crashes, it would be tried for ever.
        let job = NewJob { max_attempts: 1_000, ..job };
        runtime()?.block_on(async {
            let client = self.database.open_beside().await?;
            client.enqueue(At::Database, std::slice::from_ref(&job)).await
        })?;
        lock(&self.log).acknowledged.insert(job.id);
        lock(&self.tally).aborting.insert(job.id);
        Ok(())
    }

    fn spawn(&self, more: &[&str]) -> Result<Process, Failure> {
        let seed = self.spawned.fetch_add(1, Ordering::Relaxed) + 1;
        Process::start(&self.database, seed, more)
    }

    /// Runs a worker to its end, which comes after so many lines.
    fn run(&self, mut worker: Process, fatal: u64, end: End) -> Result<Ended, Failure> {
        let mut next = None;
        let stdout = worker.output()?;
        let life = Process::hear(stdout, &self.log, |life| {
            match end {
                _ if life.lines != fatal => {}
                End::Kill => worker.kill()?,
                End::Stop => {
                    worker.stop()?;
                    if lock(&self.tally).stops % 3 == 2 {
                        // Somebody is in a hurry.
                        worker.stop()?;
                    }
                    // On SQLite it waits for the file while this one still stops.
                    next = Some(self.spawn(&[])?);
                }
                End::Itself => {}
            }
            Ok(())
        })?;
        let code = worker.code()?;
        let mut tally = lock(&self.tally);
        match (code, life.unsettled) {
            (Some(0), Some(0)) => {
                tally.stopped.extend(life.nodes.last());
                tally.rejoined += life.nodes.len().saturating_sub(1) as u64;
                tally.stops += u64::from(end == End::Stop);
                return Ok(Ended { by_itself: true, next });
            }
            (Some(code), unsettled) => {
                return Err(
                    format!("a worker exited with code {code}, unsettled: {unsettled:?}").into()
                );
            }
            (None, _) if end == End::Kill && life.lines >= fatal => tally.kills += 1,
            (None, _) => tally.aborts += 1,
        }
        Ok(Ended { by_itself: false, next })
    }

    /// Lets workers finish whatever is left.
    fn drain(&self) -> Result<(), Failure> {
        // Each job that aborts costs at most three lives.
        let lives_max = lock(&self.tally).aborting.len() * 3 + 1;
        for _ in 0..lives_max {
            let worker = self.spawn(&["--drain"])?;
            if self.run(worker, u64::MAX, End::Itself)?.by_itself {
                return Ok(());
            }
        }
        Err("jobs that abort their process were retried too often".into())
    }

    fn judge(&self) -> Result<Findings, Failure> {
        let (log, tally) = (lock(&self.log), lock(&self.tally));
        let judge = Judge { log: &log, stopped: &tally.stopped, aborting: &tally.aborting };
        let mut findings = runtime()?.block_on(async {
            let store = self.database.open().await?;
            judge.judge(&*store).await
        })?;
        for (count, what) in [
            (log.unsure, "writes without a response, although the database had no fault"),
            (log.begun_again, "attempts started twice, although no claim was lost"),
            (
                log.beside,
                "attempts started while another attempt of the same job was running in the same \
                 process",
            ),
        ] {
            if count > 0 {
                findings.breaks(format!("{count} {what}"));
            }
        }
        Ok(findings)
    }
}

/// How a worker's life ended.
struct Ended {
    by_itself: bool,
    /// The next worker, if it was started already.
    next: Option<Process>,
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
