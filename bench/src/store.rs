//! The store beside the bare statements.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::NodeId;
use punctual_core::job::{AttemptOutcome, Next, Transition};
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::{At, ClaimAsk, Json, NewJob, QueueShare, Settlement, Store};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::ids::Ids;
use crate::measure::rates;
use crate::raw::{KIND, PAYLOAD, QUEUE, Raw};
use crate::{Failure, node_info, tell};

/// How large the bench is.
pub(crate) struct Scale {
    pub(crate) backlog: usize,
    pub(crate) slice: Duration,
}

const CALLERS: usize = 64;
/// Jobs that each caller writes in a turn's step.
const PER_CALLER: usize = 64;
/// Jobs claimed and settled at once.
const BATCH: usize = 200;
/// How much larger the large backlog is.
const LARGE: usize = 5;

/// One figure: what we reach of a yardstick, and what we mean to reach.
struct Figure {
    name: &'static str,
    yardstick: f64,
    ours: f64,
    goal: f64,
}

impl Figure {
    fn share(&self) -> f64 {
        self.ours / self.yardstick
    }
}

pub(crate) fn run(
    directory: Option<PathBuf>,
    scale: &Scale,
    print_json: bool,
) -> Result<(), Failure> {
    let directory = match directory {
        Some(directory) => tempfile::tempdir_in(directory)?,
        None => tempfile::tempdir()?,
    };
    let file = |name: &str| directory.path().join(name);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;

    let raw = Raw::open(&file("raw.db"))?;
    let ours = Ours::open(&runtime, &file("ours.db"))?;
    eprintln!("enqueue …");
    let [bulk, single, many_callers, one_caller] = rates(
        scale.slice,
        [
            Box::new(|| raw.enqueue(1_000)),
            Box::new(|| raw.enqueue(1)),
            Box::new(|| ours.enqueue(CALLERS, PER_CALLER)),
            Box::new(|| ours.enqueue(1, PER_CALLER)),
        ],
    )?;
    drop((raw, ours));

    eprintln!("drain …");
    let raw = Raw::open(&file("raw-drain.db"))?;
    let small = filled(&runtime, &file("small.db"), 2 * scale.backlog)?;
    let large = filled(&runtime, &file("large.db"), (LARGE + 1) * scale.backlog)?;
    raw.fill(2 * scale.backlog)?;
    let [bare, at_small, at_large] = rates(
        scale.slice,
        [Box::new(|| raw.drain(BATCH)), Box::new(|| small.drain()), Box::new(|| large.drain())],
    )?;

    let figures = [
        Figure {
            name: "enqueue, 64 callers, of the bare 1,000-row loop",
            yardstick: bulk,
            ours: many_callers,
            goal: 0.5,
        },
        Figure {
            name: "enqueue, one caller, of single commits",
            yardstick: single,
            ours: one_caller,
            goal: 0.85,
        },
        Figure {
            name: "drain, of the bare claim and settle",
            yardstick: bare,
            ours: at_small,
            goal: 0.6,
        },
        Figure {
            name: "drain at the large backlog, of that at the small",
            yardstick: at_small,
            ours: at_large,
            goal: 0.9,
        },
    ];
    if print_json {
        let figures: Vec<_> = figures
            .iter()
            .map(|figure| {
                json!({"figure": figure.name, "yardstick_per_s": figure.yardstick.round(), "ours_per_s": figure.ours.round(),
                    "share": (figure.share() * 100.0).round() / 100.0, "goal": figure.goal})
            })
            .collect();
        let said = json!({"backend": "sqlite", "backlog": scale.backlog, "figures": figures});
        return tell("store-bench", said);
    }
    println!(
        "{:<52} {:>12} {:>12} {:>7} {:>6}",
        "SQLite", "yardstick/s", "ours/s", "share", "goal"
    );
    for figure in &figures {
        println!(
            "{:<52} {:>12.0} {:>12.0} {:>6.0}% {:>5.0}%",
            figure.name,
            figure.yardstick,
            figure.ours,
            figure.share() * 100.0,
            figure.goal * 100.0
        );
    }
    Ok(())
}

/// Our store with a node at work.
struct Ours<'a> {
    runtime: &'a Runtime,
    store: Arc<SqliteStore>,
    ids: Arc<Ids>,
    node: NodeId,
}

impl<'a> Ours<'a> {
    fn open(runtime: &'a Runtime, path: &Path) -> Result<Ours<'a>, Failure> {
        let store = Arc::new(SqliteStore::open(path, Options::engine())?);
        let ids = Arc::new(Ids::new(2));
        let node = ids.node();
        runtime.block_on(store.join(At::Database, &node_info(node)))?;
        Ok(Ours { runtime, store, ids, node })
    }

    /// Each caller writes one job after the other and waits for each.
    fn enqueue(&self, callers: usize, each: usize) -> Result<u64, Failure> {
        self.runtime.block_on(async {
            let calls: Vec<_> = (0..callers)
                .map(|_| {
                    let (store, ids) = (Arc::clone(&self.store), Arc::clone(&self.ids));
                    tokio::spawn(async move {
                        for _ in 0..each {
                            let payload = Json::from_canonical(PAYLOAD.to_owned());
                            let job = NewJob::new(ids.job(), QUEUE, KIND, payload);
                            store.enqueue(At::Database, &[job]).await?;
                        }
                        Ok::<(), Failure>(())
                    })
                })
                .collect();
            for call in calls {
                call.await??;
            }
            Ok((callers * each) as u64)
        })
    }

    /// Claims and settles one batch.
    fn drain(&self) -> Result<u64, Failure> {
        self.runtime.block_on(async {
            let ask = ClaimAsk {
                node: self.node,
                lease: self.ids.lease(),
                queues: vec![QueueShare { name: QUEUE.to_owned(), most: BATCH }],
                kinds: vec![KIND.to_owned()],
                most: BATCH,
            };
            let jobs = self.store.claim(At::Database, &ask).await?.jobs;
            let transition = Transition {
                outcome: AttemptOutcome::Succeeded,
                next: Next::Succeeded,
                error: None,
            };
            let batch: Vec<Settlement> = jobs
                .iter()
                .map(|job| Settlement {
                    job: job.id,
                    lease: job.lease,
                    transition: transition.clone(),
                    result: None,
                })
                .collect();
            self.store.settle(At::Database, &batch).await?;
            Ok(jobs.len() as u64)
        })
    }
}

/// A store in which this many jobs wait.
fn filled<'a>(runtime: &'a Runtime, path: &Path, count: usize) -> Result<Ours<'a>, Failure> {
    Raw::open(path)?.fill(count)?;
    Ours::open(runtime, path)
}
