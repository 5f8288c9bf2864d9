//! The store compared with plain SQL statements.

use std::time::Duration;

use serde_json::json;
use tokio::runtime::Runtime;

use crate::databases::{Databases, Place};
use crate::measure::rates;
use crate::ours::Ours;
use crate::report::{Figure, Goal};
use crate::{Failure, cost, held, report};

/// How large the bench is.
pub(crate) struct Scale {
    /// Jobs that wait in the drain scenarios.
    pub(crate) backlog: usize,
    /// How long each turn lasts.
    pub(crate) slice: Duration,
    /// For how long an old transaction is held.
    pub(crate) held: Duration,
}

const CALLERS: usize = 64;
/// Jobs that each caller writes in a turn's step.
const PER_CALLER: usize = 64;
/// Jobs that are written with one call.
const MANY: usize = 1_000;
/// Jobs claimed and settled at once.
pub(crate) const BATCH: usize = 200;
/// Batches that each drainer takes in a turn's step.
const BATCHES: usize = 8;
/// How much larger the large backlog is.
pub(crate) const LARGE: usize = 5;

pub(crate) fn run(place: &Place, scale: &Scale, as_json: bool) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let databases = runtime.block_on(Databases::open(place))?;
    let mut figures = Vec::from(enqueue(&runtime, &databases, scale.slice)?);
    figures.extend(drain(&runtime, &databases, scale)?);
    if let Databases::Postgres(server) = &databases {
        eprintln!("cost on the server …");
        figures.extend(runtime.block_on(cost::figures(server, &databases, scale.backlog))?);
        eprintln!("with an old open transaction …");
        figures.push(runtime.block_on(held::figure(server, scale.held))?);
    }
    let size = json!({"backlog": scale.backlog, "slice_ms": scale.slice.as_millis() as u64});
    let proof = databases.manner().store_bench;
    report::print(&databases, proof, &size, &figures, as_json)
}

fn enqueue(
    runtime: &Runtime,
    databases: &Databases,
    slice: Duration,
) -> Result<[Figure; 3], Failure> {
    eprintln!("enqueue …");
    let bare = runtime.block_on(databases.fresh("raw"))?;
    let fresh = runtime.block_on(databases.fresh("ours"))?;
    let raw = runtime.block_on(bare.raw())?;
    let ours = runtime.block_on(Ours::open(&fresh, 2))?;
    let gathered = databases.manner().gathered;
    let [bare_many, many, bare_gathered, many_callers, bare_single, one_caller] = rates(
        slice,
        [
            Box::new(|| runtime.block_on(raw.enqueue(MANY))),
            Box::new(|| runtime.block_on(ours.enqueue(MANY))),
            Box::new(|| runtime.block_on(raw.enqueue(gathered))),
            Box::new(|| runtime.block_on(ours.enqueue_singly(CALLERS, PER_CALLER))),
            Box::new(|| runtime.block_on(raw.enqueue(1))),
            Box::new(|| runtime.block_on(ours.enqueue_singly(1, PER_CALLER))),
        ],
    )?;
    let gathered_name = format!("enqueue, 64 callers, compared with the bare {gathered}-row loop");
    Ok([
        Figure::in_turns(
            "enqueue, 1,000 per call, compared with the plain SQL statement",
            &bare_many,
            &many,
        )
        .goal(Goal::AtLeast(0.8)),
        Figure::in_turns(gathered_name, &bare_gathered, &many_callers).goal(Goal::AtLeast(0.5)),
        Figure::in_turns(
            "enqueue, one caller, compared with single commits",
            &bare_single,
            &one_caller,
        )
        .goal(databases.manner().single_goal.map(Goal::AtLeast)),
    ])
}

fn drain(runtime: &Runtime, databases: &Databases, scale: &Scale) -> Result<[Figure; 2], Failure> {
    eprintln!("drain …");
    let manner = databases.manner();
    let filled = |name, count| runtime.block_on(databases.filled(name, count));
    let (bare, small, large) = (
        filled("bare", 2 * scale.backlog)?,
        filled("small", 2 * scale.backlog)?,
        filled("large", (LARGE + 1) * scale.backlog)?,
    );
    let raw = runtime.block_on(bare.raw())?;
    let at_small = runtime.block_on(Ours::open(&small, 2))?;
    let at_large = runtime.block_on(Ours::open(&large, 2))?;
    let step = |ours: &Ours| runtime.block_on(ours.drain(manner.drainers, BATCHES, BATCH));
    let [bare, at_small, at_large] = rates(
        scale.slice,
        [
            Box::new(|| runtime.block_on(raw.drain(BATCH))),
            Box::new(|| step(&at_small)),
            Box::new(|| step(&at_large)),
        ],
    )?;
    Ok([
        Figure::in_turns("drain, compared with the bare claim and settle", &bare, &at_small)
            .goal(Goal::AtLeast(manner.drain_goal)),
        Figure::in_turns("drain, large backlog compared with small backlog", &at_small, &at_large)
            .goal(Goal::AtLeast(0.9)),
    ])
}
