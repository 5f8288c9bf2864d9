//! Workers are killed and stopped at random moments, again and again. In the end every job that
//! was acknowledged has ended as it should, whatever happened to those who worked on it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use punctual_core::job::{AttemptOutcome, CRASHES_MAX, JobState};
use punctual_core::{JobId, NodeId, hash};
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::{At, JobDetail, JobFilter, Store};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::worker::Task;
use crate::{Failure, tell};

/// A worker is killed or stopped after up to this many lines; it says some 600 a second.
const LINES_MAX: u64 = 600;
/// Every so many rounds a worker lives long enough to take back what dead ones held.
const LONG_EVERY: u64 = 4;
const LONG_LINES: u64 = 1_800;
/// A job that aborts its process is written every so many rounds.
const ABORT_EVERY: u64 = 20;

/// Kills and stops workers; prints one line of JSON.
#[expect(clippy::disallowed_methods, reason = "tells how long the proof took")]
pub(crate) fn prove(kills: u64, stops: u64) -> Result<(), Failure> {
    let started = Instant::now();
    let directory = tempfile::tempdir()?;
    let mut rig = Rig::new(directory.path().join("worked.db"))?;
    let mut round = 0;
    while rig.kills < kills || rig.stops < stops {
        // Mixed, in proportion to what is left.
        let left = (kills.saturating_sub(rig.kills), stops.saturating_sub(rig.stops));
        let is_kill = hash::draw(11, round) % (left.0 + left.1) < left.0;
        if round % ABORT_EVERY == ABORT_EVERY / 2 || round == 1 {
            rig.enqueue_abort()?;
        }
        let lines = match round % LONG_EVERY {
            0 => LONG_LINES,
            _ => 1 + hash::draw(12, round) % LINES_MAX,
        };
        rig.run(lines, if is_kill { End::Kill } else { End::Stop })?;
        round += 1;
    }
    rig.drain()?;
    let findings = rig.check()?;
    let said = json!({
        "kills": rig.kills, "stops": rig.stops, "aborts": rig.aborts, "acknowledged": rig.log.acknowledged.len(),
        "lost": findings.lost, "over_attempts": findings.over_attempts, "stale_accepted": findings.stale_accepted,
        "aborting_jobs_failed_after_3_crashes": rig.aborting.len(),
        "burnt_by_stops": findings.burnt_by_stops, "succeeded": findings.succeeded, "failed": findings.failed,
        "failed_by_crashes": findings.failed_by_crashes, "attempts_abandoned": findings.abandoned,
        "attempts_released": findings.released, "repeated": findings.repeated, "rejoined": rig.rejoined,
        "seconds": started.elapsed().as_secs()
    });
    tell("worker-kill", said)?;
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

/// Everything that workers said.
#[derive(Default)]
struct Log {
    acknowledged: BTreeSet<JobId>,
    begun: BTreeSet<(JobId, u32)>,
    ended: BTreeMap<(JobId, u32), String>,
}

struct Rig {
    file: PathBuf,
    log: Log,
    aborting: BTreeSet<JobId>,
    /// Nodes whose process was told to stop and did.
    stopped: BTreeSet<NodeId>,
    rejoined: u64,
    kills: u64,
    stops: u64,
    aborts: u64,
    spawned: u64,
    /// The next worker, which waits for the file while the one before still stops.
    next: Option<(Child, ChildStdout)>,
}

impl Rig {
    fn new(file: PathBuf) -> Result<Rig, Failure> {
        drop(SqliteStore::open(&file, Options::engine())?);
        Ok(Rig {
            file,
            log: Log::default(),
            aborting: BTreeSet::new(),
            stopped: BTreeSet::new(),
            rejoined: 0,
            kills: 0,
            stops: 0,
            aborts: 0,
            spawned: 0,
            next: None,
        })
    }

    /// Writes a job that aborts whatever process works on it, from beside the engine.
    fn enqueue_abort(&mut self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let client = SqliteStore::open(&self.file, Options::client())?;
        let job = Task::aborts().job()?;
        // Were it not for its crashes, it would be tried for ever.
        let job = punctual_store::NewJob { max_attempts: 1_000, ..job };
        runtime.block_on(client.enqueue(At::Database, std::slice::from_ref(&job)))?;
        self.log.acknowledged.insert(job.id);
        self.aborting.insert(job.id);
        Ok(())
    }

    fn spawn(&mut self, drains: bool) -> Result<(Child, ChildStdout), Failure> {
        self.spawned += 1;
        let mut worker = Command::new(std::env::current_exe()?)
            .arg("worker")
            .arg(&self.file)
            .arg(self.spawned.to_string())
            .args(drains.then_some("--drain"))
            .stdout(Stdio::piped())
            // Handlers panic on purpose.
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = worker.stdout.take().ok_or("the worker has no output")?;
        Ok((worker, stdout))
    }

    /// Runs a worker to its end, which comes after so many lines.
    fn run(&mut self, fatal: u64, end: End) -> Result<bool, Failure> {
        let (mut worker, stdout) = match self.next.take() {
            Some(next) => next,
            None => self.spawn(end == End::Itself)?,
        };
        let pid = i32::try_from(worker.id()).ok().and_then(Pid::from_raw).ok_or("a process id")?;
        let mut life = Life::default();
        for (count, line) in (1..).zip(BufReader::new(stdout).lines()) {
            let line = line?;
            self.log.note(&line, &mut life).ok_or_else(|| format!("the worker said `{line}`"))?;
            if count != fatal {
                continue;
            }
            match end {
                End::Kill => worker.kill()?,
                End::Stop => {
                    kill_process(pid, Signal::TERM)?;
                    if self.stops % 3 == 2 {
                        // Somebody is in a hurry.
                        kill_process(pid, Signal::TERM)?;
                    }
                    self.next = Some(self.spawn(false)?);
                }
                End::Itself => {}
            }
        }
        let status = worker.wait()?;
        match (status.code(), life.unsettled) {
            (Some(0), Some(0)) => {
                self.stopped.extend(life.nodes.last());
                self.rejoined += life.nodes.len().saturating_sub(1) as u64;
                self.stops += u64::from(end == End::Stop);
                Ok(true)
            }
            (Some(code), unsettled) => {
                Err(format!("a worker ended with code {code}, unsettled: {unsettled:?}").into())
            }
            (None, _) if end == End::Kill && life.lines >= fatal => {
                self.kills += 1;
                Ok(false)
            }
            (None, _) => {
                self.aborts += 1;
                Ok(false)
            }
        }
    }

    /// Lets workers finish whatever is left.
    fn drain(&mut self) -> Result<(), Failure> {
        if self.next.is_some() {
            // It was started beside the last one that was stopped.
            self.run(1, End::Kill)?;
        }
        // Each job that aborts costs at most three lives.
        for _ in 0..=self.aborting.len() * 3 {
            if self.run(u64::MAX, End::Itself)? {
                return Ok(());
            }
        }
        Err("the jobs that abort their process were tried too often".into())
    }

    fn check(&self) -> Result<Findings, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let jobs = runtime.block_on(all_jobs(&self.file))?;
        let mut findings = Findings::default();
        for id in &self.log.acknowledged {
            if !jobs.contains_key(id) {
                findings.lost += 1;
                findings.breaks(*id, "was acknowledged and is lost".to_owned());
            }
        }
        for (id, job) in &jobs {
            let checked = self.check_job(*id, job, &mut findings);
            checked.map_err(|what| format!("job {id}: {what}; {job:?}"))?;
        }
        Ok(findings)
    }

    fn check_job(&self, id: JobId, job: &JobDetail, findings: &mut Findings) -> Result<(), String> {
        let state = job.view.state;
        if !state.is_final() {
            return Err(format!("has not ended, it is {state}"));
        }
        let numbers: Vec<u32> = job.attempts.iter().map(|attempt| attempt.attempt).collect();
        if numbers != (1..=job.view.attempt).collect::<Vec<_>>() {
            return Err(format!("has gaps in its attempts: {numbers:?}"));
        }
        let (mut counted, mut crashes) = (0, 0);
        for attempt in &job.attempts {
            let outcome = attempt.outcome.ok_or("an attempt has no outcome")?;
            counted += u32::from(outcome.counts());
            let said = self.log.ended.get(&(id, attempt.attempt)).map(String::as_str);
            match outcome {
                AttemptOutcome::Succeeded | AttemptOutcome::Failed | AttemptOutcome::Panicked => {
                    if said != Some(outcome.as_str()) {
                        findings.stale_accepted += 1;
                        findings.breaks(id, format!("{outcome} was accepted, {said:?} was said"));
                    }
                }
                AttemptOutcome::Abandoned => {
                    crashes += 1;
                    findings.abandoned += 1;
                    findings.repeated += u64::from(said == Some("succeeded"));
                    if attempt.node.is_some_and(|node| self.stopped.contains(&node)) {
                        findings.burnt_by_stops += 1;
                        findings.breaks(id, "a node that was stopped burnt an attempt".to_owned());
                    }
                }
                // What fails after it was told to stop is an echo of that.
                AttemptOutcome::Released => {
                    findings.released += 1;
                    findings.repeated += u64::from(said == Some("succeeded"));
                }
                other => return Err(format!("no attempt should end as {other}")),
            }
        }
        if counted != job.spent {
            return Err(format!("{counted} attempts count, {} are counted", job.spent));
        }
        if counted > job.view.max_attempts {
            findings.over_attempts += 1;
            findings.breaks(id, format!("{counted} attempts count"));
        }
        if crashes != job.crashes || crashes > CRASHES_MAX {
            return Err(format!("{crashes} crashes, {} are counted", job.crashes));
        }
        if crashes == CRASHES_MAX && state != JobState::Failed {
            return Err("crashed three times and went on".to_owned());
        }
        if self.aborting.contains(&id) && (state, crashes) != (JobState::Failed, CRASHES_MAX) {
            return Err(format!("aborts its process and is {state} after {crashes} crashes"));
        }
        match state {
            JobState::Succeeded => findings.succeeded += 1,
            JobState::Failed if crashes == CRASHES_MAX => findings.failed_by_crashes += 1,
            JobState::Failed if job.spent >= job.view.max_attempts => findings.failed += 1,
            other => return Err(format!("ended as {other} with attempts left")),
        }
        Ok(())
    }
}

/// One process, as it tells of itself.
#[derive(Default)]
struct Life {
    lines: u64,
    nodes: Vec<NodeId>,
    unsettled: Option<u64>,
    running: BTreeMap<JobId, u32>,
}

impl Log {
    /// Takes a line down; none if it makes no sense: unknown, a second beginning of an attempt, or
    /// a second attempt at a job that this process is still at work on.
    fn note(&mut self, line: &str, life: &mut Life) -> Option<()> {
        life.lines += 1;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["node", id] => {
                let id = id.parse().ok()?;
                if life.nodes.last() != Some(&id) {
                    life.nodes.push(id);
                }
            }
            ["ack", id] => {
                self.acknowledged.insert(id.parse().ok()?);
            }
            ["begin", id, number] => {
                let (id, number) = (id.parse().ok()?, number.parse().ok()?);
                let is_new = self.begun.insert((id, number));
                let is_alone = life.running.insert(id, number).is_none();
                return (is_new && is_alone).then_some(());
            }
            ["end", id, number, outcome] => {
                let (id, number) = (id.parse().ok()?, number.parse().ok()?);
                life.running.remove(&id)?;
                self.ended.insert((id, number), outcome.to_owned());
            }
            ["stopped", unsettled] => life.unsettled = Some(unsettled.parse().ok()?),
            _ => return None,
        }
        Some(())
    }
}

#[derive(Default)]
struct Findings {
    lost: u64,
    over_attempts: u64,
    stale_accepted: u64,
    burnt_by_stops: u64,
    /// The first of these, in words.
    first_broken: Option<String>,
    succeeded: u64,
    failed: u64,
    failed_by_crashes: u64,
    abandoned: u64,
    released: u64,
    /// Work that was done and had to be done again: its process died, or lost touch with the store,
    /// before that was written.
    repeated: u64,
}

impl Findings {
    fn breaks(&mut self, job: JobId, what: String) {
        self.first_broken.get_or_insert_with(|| format!("job {job}: {what}"));
    }
}

async fn all_jobs(file: &Path) -> Result<BTreeMap<JobId, JobDetail>, Failure> {
    let store = SqliteStore::open(file, Options::engine())?;
    let mut jobs = BTreeMap::new();
    let mut after = None;
    loop {
        let page = store.jobs(&JobFilter::default(), after, 500).await?;
        for view in page.items {
            jobs.insert(view.id, store.job(view.id).await?.ok_or("a job that is listed is there")?);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(jobs),
        }
    }
}
