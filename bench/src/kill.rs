//! A process that writes is killed at random moments; whatever it had acknowledged must be there.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use punctual_core::job::{AttemptOutcome, JobState, Next, Transition};
use punctual_core::{JobId, hash};
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::{
    At, ClaimAsk, EnqueueAnswer, Json, NewJob, QueueShare, Settled, Settlement, Store,
};
use serde_json::json;

use crate::ids::Ids;
use crate::raw::{KIND, PAYLOAD, QUEUE};
use crate::{Failure, node_info, tell};

/// Tasks that write at the same time, so that commits hold the work of several.
const CALLERS: u64 = 8;
/// The process is killed after up to this many acknowledgements.
const ACKNOWLEDGEMENTS_MAX: u64 = 400;

/// Kills a writer `kills` times; prints one line of JSON.
#[expect(clippy::disallowed_methods, reason = "tells how long the proof took")]
pub(crate) fn prove(kills: u64) -> Result<(), Failure> {
    let started = Instant::now();
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("killed.db");
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (mut enqueued, mut settled) = (BTreeSet::new(), BTreeSet::new());
    for kill in 0..kills {
        let acknowledged = run_and_kill(&file, kill)?;
        check_integrity(&file).map_err(|error| format!("after kill {kill}: {error}"))?;
        let store = SqliteStore::open(&file, Options::engine())?;
        // Those of this round each time, and all of them in the end.
        runtime.block_on(check(&store, &acknowledged))?;
        enqueued.extend(acknowledged.enqueued);
        settled.extend(acknowledged.settled);
    }
    let all = Acknowledged { enqueued, settled };
    runtime.block_on(check(&SqliteStore::open(&file, Options::engine())?, &all))?;
    let said = json!({
        "kills": kills, "enqueues_acknowledged": all.enqueued.len(),
        "settles_acknowledged": all.settled.len(), "lost": 0, "integrity": "ok",
        "seconds": started.elapsed().as_secs()
    });
    tell("sqlite-kill", said)
}

/// What a writer was told is done.
#[derive(Default)]
struct Acknowledged {
    enqueued: BTreeSet<JobId>,
    settled: BTreeSet<JobId>,
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
        match line.split_once(' ').map(|(what, id)| (what, id.parse::<JobId>())) {
            Some(("enqueued", Ok(id))) => drop(acknowledged.enqueued.insert(id)),
            Some(("settled", Ok(id))) => drop(acknowledged.settled.insert(id)),
            _ => return Err(format!("the writer said `{line}`").into()),
        }
        if count == fatal {
            writer.kill()?;
        }
    }
    let status = writer.wait()?;
    match status.code() {
        None => Ok(acknowledged),
        Some(code) => Err(format!("the writer ended by itself with code {code}").into()),
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
    for id in &acknowledged.settled {
        let state = store.job(*id).await?.map(|job| job.view.state);
        if state != Some(JobState::Succeeded) {
            return Err(format!("job {id} was settled and is {state:?}").into());
        }
    }
    Ok(())
}

/// Enqueues, claims and settles until somebody kills it, and says what was acknowledged.
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
        for task in tasks {
            task.await??;
        }
        Ok(())
    })
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
                EnqueueAnswer::Created => say("enqueued", job.id)?,
                other => return Err(format!("{other:?}").into()),
            }
        }
        let ask = ClaimAsk {
            node,
            lease: ids.lease(),
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
            let settlement = Settlement { job: job.id, lease: job.lease, transition, result: None };
            match store.settle(At::Database, &[settlement]).await?.answers[0] {
                Settled::Applied(_) => say("settled", job.id)?,
                other => return Err(format!("{other:?}").into()),
            }
        }
    }
}

/// One write for the line, so that a kill cuts at most the last one.
fn say(what: &str, id: JobId) -> Result<(), Failure> {
    let line = format!("{what} {id}\n");
    std::io::stdout().lock().write_all(line.as_bytes())?;
    std::io::stdout().lock().flush()?;
    Ok(())
}
