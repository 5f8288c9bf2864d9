//! A process that writes is killed at random moments; whatever it had acknowledged must be there,
//! once, and every slot that it decided has just one row and one job.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_core::job::{AttemptOutcome, JobState, Next, SlotOutcome, Transition};
use punctual_core::schedule::{ON_TIME, Overlap};
use punctual_core::{JobId, ScheduleId, Timestamp, hash};
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::{
    Acquired, Actor, At, ClaimAsk, EnqueueAnswer, Fence, FireAnswer, JobFilter, Json, NewJob,
    NewSchedule, Origin, QueueShare, Schedule, Settled, Settlement, SlotDecision, SlotPlan,
    SlotRow, Store, limits,
};
use serde_json::json;

use crate::ids::Ids;
use crate::raw::{KIND, PAYLOAD, QUEUE};
use crate::{Failure, node_info, tell};

/// Tasks that write at the same time, so that commits hold the work of several.
const CALLERS: u64 = 8;
/// The process is killed after up to this many acknowledgements.
const ACKNOWLEDGEMENTS_MAX: u64 = 400;

/// After so many kills everything is looked at, which takes the longer the more there is.
const CHECK_ALL_EVERY: u64 = 25;
/// Long ago, so that there is always a slot that is due.
const FIRST_SLOT: Timestamp = Timestamp::from_seconds(1_000_000_000);
/// From slot to slot.
const SLOT_EVERY: Duration = Duration::from_secs(1);
/// Slots that one plan decides.
const SLOTS_AT_ONCE: u32 = 2;
/// For how long a term is led without word from its leader; short, since leaders are killed.
const LEASE: Duration = Duration::from_millis(50);

/// Kills a writer `kills` times; prints one line of JSON.
#[expect(clippy::disallowed_methods, reason = "the reported duration of the proof is real time")]
pub(crate) fn prove(kills: u64) -> Result<(), Failure> {
    let started = Instant::now();
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("killed.db");
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut all = Acknowledged::default();
    let mut slots = 0;
    for kill in 0..kills {
        let acknowledged = run_and_kill(&file, kill)?;
        check_integrity(&file).map_err(|error| format!("after kill {kill}: {error}"))?;
        let store = SqliteStore::open(&file, Options::engine())?;
        // What this round acknowledged each time, and all there is now and then.
        runtime.block_on(check(&store, &acknowledged))?;
        all.add(acknowledged)?;
        if kill % CHECK_ALL_EVERY == 0 || kill + 1 == kills {
            runtime.block_on(check(&store, &all))?;
            slots = runtime.block_on(check_ledgers(&store))?;
        }
    }
    let said = json!({
        "kills": kills, "enqueues_acknowledged": all.enqueued.len(),
        "settles_acknowledged": all.settled.len(), "fires_acknowledged": all.fired.len(),
        "slots": slots, "lost": 0, "doubled": 0, "integrity": "ok",
        "seconds": started.elapsed().as_secs()
    });
    tell("sqlite-kill", said)
}

/// What a writer was told is done.
#[derive(Default)]
struct Acknowledged {
    enqueued: BTreeSet<JobId>,
    /// With the number of the attempt that succeeded.
    settled: BTreeMap<JobId, u32>,
    /// The job of each slot.
    fired: BTreeMap<(ScheduleId, Timestamp), JobId>,
}

impl Acknowledged {
    /// Reads a line of a writer.
    fn hear(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["enqueued", job] => drop(self.enqueued.insert(job.parse().ok()?)),
            ["settled", job, attempt] => {
                self.settled.insert(job.parse().ok()?, attempt.parse().ok()?);
            }
            ["fired", schedule, slot, job] => {
                let slot = Timestamp::from_micros(slot.parse().ok()?);
                self.fired.insert((schedule.parse().ok()?, slot), job.parse().ok()?);
            }
            _ => return None,
        }
        Some(())
    }

    /// Adds those of a later round, none of which may have been acknowledged before.
    fn add(&mut self, later: Acknowledged) -> Result<(), Failure> {
        self.enqueued.extend(later.enqueued);
        for (job, attempt) in later.settled {
            if self.settled.insert(job, attempt).is_some() {
                return Err(format!("job {job} was settled twice").into());
            }
        }
        for (slot, job) in later.fired {
            if self.fired.insert(slot, job).is_some() {
                return Err(format!("slot {} of {} was fired twice", slot.1, slot.0).into());
            }
        }
        Ok(())
    }
}

fn run_and_kill(file: &Path, kill: u64) -> Result<Acknowledged, Failure> {
    let mut writer = Command::new(std::env::current_exe()?)
        .arg("kill-writer")
        .arg(file)
        .arg(kill.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = writer.stdout.take().ok_or("the writer has no output")?;
    let fatal = 1 + hash::draw(7, kill) % ACKNOWLEDGEMENTS_MAX;
    let mut acknowledged = Acknowledged::default();
    for (count, line) in (1..).zip(BufReader::new(stdout).lines()) {
        let line = line?;
        // The kill may cut the last line short; what was not said whole was not said.
        if acknowledged.hear(&line).is_none() {
            return Err(format!("unexpected output of the writer: `{line}`").into());
        }
        if count == fatal {
            writer.kill()?;
        }
    }
    let status = writer.wait()?;
    match status.code() {
        None => Ok(acknowledged),
        Some(code) => Err(format!("the writer exited unexpectedly with code {code}").into()),
    }
}

fn check_integrity(file: &Path) -> Result<(), Failure> {
    let db = rusqlite::Connection::open(file)?;
    let finding: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if finding == "ok" { Ok(()) } else { Err(finding.into()) }
}

async fn check(store: &SqliteStore, acknowledged: &Acknowledged) -> Result<(), Failure> {
    for id in &acknowledged.enqueued {
        if store.job(*id).await?.is_none() {
            return Err(format!("job {id} was acknowledged and is lost").into());
        }
    }
    for (id, attempt) in &acknowledged.settled {
        let Some(job) = store.job(*id).await? else {
            return Err(format!("job {id} was settled and is lost").into());
        };
        let succeeded: Vec<u32> = job
            .attempts
            .iter()
            .filter(|attempt| attempt.outcome == Some(AttemptOutcome::Succeeded))
            .map(|attempt| attempt.attempt)
            .collect();
        if job.view.state != JobState::Succeeded || succeeded != [*attempt] {
            let state = job.view.state;
            return Err(format!("job {id} was settled but is {state}, by {succeeded:?}").into());
        }
    }
    for ((schedule, slot), job) in &acknowledged.fired {
        let origin = store.job(*job).await?.and_then(|job| job.view.schedule);
        if origin != Some((*schedule, Some(*slot))) {
            return Err(
                format!("slot {slot} of {schedule} was fired but its job has {origin:?}").into()
            );
        }
    }
    Ok(())
}

/// Each slot from the first to the watermark has one row, which names a job of its own; and no
/// schedule has any other job. Answers with how many slots there are.
async fn check_ledgers(store: &SqliteStore) -> Result<u64, Failure> {
    let mut slots = 0;
    for id in schedules() {
        let Some(schedule) = store.schedule(id).await? else { continue };
        let mut expected = schedule.next_slot;
        let mut of_slots = BTreeSet::new();
        let mut after = None;
        loop {
            let page = store.slots(id, after, limits::PAGE_MAX).await?;
            for row in page.items {
                expected = expected.map(|slot| slot - SLOT_EVERY);
                let Some(job) = row.job.filter(|_| Some(row.slot) == expected) else {
                    return Err(format!("expected {expected:?}, found {row:?}").into());
                };
                of_slots.insert(job);
                slots += 1;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        if expected != Some(FIRST_SLOT) {
            return Err(format!("the ledger of {id} starts at {expected:?}").into());
        }
        let filter = JobFilter { schedule: Some(id), ..JobFilter::default() };
        let mut after = None;
        loop {
            let page = store.jobs(&filter, after, limits::PAGE_MAX).await?;
            if let Some(job) = page.items.iter().find(|job| !of_slots.remove(&job.id)) {
                return Err(format!("job {} of {id} has no slot", job.id).into());
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        if let Some(job) = of_slots.first() {
            return Err(format!("the slot of job {job} exists, but the job does not").into());
        }
    }
    Ok(slots)
}

/// Enqueues, claims, settles and fires until somebody kills it, and says what was acknowledged.
pub(crate) fn write_until_killed(file: &Path, seed: u64) -> Result<(), Failure> {
    let store = Arc::new(SqliteStore::open(file, Options::engine())?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    runtime.block_on(async {
        let tasks: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let ids = Ids::new(hash::draw(seed, caller));
                tokio::spawn(write_for_ever(Arc::clone(&store), ids))
            })
            .collect();
        let ids = Ids::new(hash::draw(seed, CALLERS));
        fire_for_ever(&store, &ids).await?;
        for task in tasks {
            task.await??;
        }
        Ok(())
    })
}

/// The schedules that are fired, the same in every round.
fn schedules() -> [ScheduleId; 3] {
    [1, 2, 3].map(|number| ScheduleId::mint(FIRST_SLOT, [number; 10]))
}

/// Leads, and fires slot by slot.
async fn fire_for_ever(store: &SqliteStore, ids: &Ids) -> Result<(), Failure> {
    let node = ids.node();
    store.join(At::Database, &node_info(node)).await?;
    for id in schedules() {
        let new = NewSchedule {
            id,
            tenant: String::new(),
            name: id.to_string(),
            owner: String::new(),
            set: String::new(),
            shard: 0,
            enabled: true,
            spec: Json::null(),
            next_slot: Some(FIRST_SLOT),
            actor: Actor::new("bench", "to be fired"),
        };
        store.create_schedule(At::Database, &new).await?;
    }
    // The one who led before was killed; its lease runs out.
    let nonce = ids.nonce();
    let term = loop {
        match store.acquire(At::Database, "scheduler/0", node, nonce, LEASE).await? {
            Acquired::Won { term, .. } => break term,
            Acquired::Held { .. } => tokio::task::yield_now().await,
        }
    };
    let fence = Fence { role: "scheduler/0".to_owned(), term, nonce };
    loop {
        let due = store.due(At::Database, 0, limits::FIRE_MAX).await?.schedules;
        let plans: Vec<SlotPlan> = due.iter().map(|schedule| plan(schedule, ids)).collect();
        let fired = store.fire(At::Database, &fence, LEASE, &plans).await?;
        for (plan, answer) in plans.iter().zip(fired.answers) {
            let SlotDecision::Advance { slots, .. } = &plan.decision else { continue };
            for row in slots {
                match (&answer, &row.job) {
                    (FireAnswer::Applied, Some(job)) => {
                        let slot = row.slot.as_micros();
                        say(&format!("fired {} {slot} {}", plan.schedule, job.id))?;
                    }
                    other => return Err(format!("{other:?}").into()),
                }
            }
        }
    }
}

/// A plan for the next slots of a schedule.
fn plan(schedule: &Schedule, ids: &Ids) -> SlotPlan {
    let first = schedule.next_slot.unwrap_or(FIRST_SLOT);
    let row = |number: u32| {
        let slot = first + SLOT_EVERY * number;
        let origin = Origin { schedule: schedule.id, slot: Some(slot), facts: Json::null() };
        let job = NewJob::new(ids.job(), QUEUE, KIND, Json::null());
        SlotRow {
            slot,
            end: None,
            count: 1,
            outcome: SlotOutcome::CaughtUp,
            reason: None,
            job: Some(NewJob { origin: Some(origin), ..job }),
        }
    };
    let slots = (0..SLOTS_AT_ONCE).map(row).collect();
    let next_slot = Some(first + SLOT_EVERY * SLOTS_AT_ONCE);
    let decision =
        SlotDecision::Advance { overlap: Overlap::Allow, slots, next_slot, hold_for: ON_TIME };
    SlotPlan { schedule: schedule.id, stamp: schedule.stamp, decision }
}

async fn write_for_ever(store: Arc<SqliteStore>, ids: Ids) -> Result<(), Failure> {
    let node = ids.node();
    store.join(At::Database, &node_info(node)).await?;
    loop {
        let jobs: Vec<NewJob> = (0..3)
            .map(|_| NewJob::new(ids.job(), QUEUE, KIND, Json::from_canonical(PAYLOAD.to_owned())))
            .collect();
        let answers = store.enqueue(At::Database, &jobs).await?.answers;
        for (job, answer) in jobs.iter().zip(answers) {
            match answer {
                EnqueueAnswer::Created => say(&format!("enqueued {}", job.id))?,
                other => return Err(format!("{other:?}").into()),
            }
        }
        let ask = ClaimAsk {
            node,
            lease: ids.lease(),
            more: Vec::new(),
            queues: vec![QueueShare { name: QUEUE.to_owned(), most: 2 }],
            kinds: vec![KIND.to_owned()],
            most: 2,
        };
        for job in store.claim(At::Database, &ask).await?.jobs {
            let transition = Transition {
                outcome: AttemptOutcome::Succeeded,
                next: Next::Succeeded,
                error: None,
            };
            let settlement = Settlement {
                job: job.id,
                lease: job.lease,
                transition,
                result: None,
                then: Vec::new(),
            };
            match store.settle(At::Database, &[settlement]).await?.answers[0] {
                Settled::Applied(_) => say(&format!("settled {} {}", job.id, job.attempt))?,
                other => return Err(format!("{other:?}").into()),
            }
        }
    }
}

/// One write for the line, so that a kill cuts at most the last one.
fn say(what: &str) -> Result<(), Failure> {
    let line = format!("{what}\n");
    std::io::stdout().lock().write_all(line.as_bytes())?;
    std::io::stdout().lock().flush()?;
    Ok(())
}
