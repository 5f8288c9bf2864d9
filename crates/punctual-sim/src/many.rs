//! Many seeds on all cores, and what they prove.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::counts::Counts;
use crate::world::{Faults, Plan, Verdict, run};

/// How many seeds of a proof are run a second time, to see whether they go the same way.
const REPLAYS: u64 = 100;

/// Fewer seeds than this need not meet every fault.
const EXERCISED_BY: u64 = 200;

/// What became of many seeds.
#[derive(Debug, serde::Serialize)]
pub struct Proof {
    /// What this proves.
    pub proof: &'static str,
    /// How many seeds.
    pub seeds: u64,
    /// How long faults went on in each.
    pub seconds_each: u64,
    /// Seeds that broke a promise.
    pub failures: u64,
    /// Seeds that were run twice.
    pub replayed: u64,
    /// Of these, those that went another way the second time.
    pub replayed_differently: u64,
    /// Did every kind of fault happen?
    pub exercised: bool,
    /// How often things happened.
    #[serde(flatten)]
    pub counts: Counts,
    /// The seeds that failed.
    #[serde(skip)]
    pub failed: Vec<Verdict>,
    /// The seeds that went another way.
    #[serde(skip)]
    pub fickle: Vec<u64>,
}

impl Proof {
    /// Is it one?
    pub fn holds(&self) -> bool {
        self.failures == 0 && self.replayed_differently == 0 && self.exercised
    }
}

/// Runs seeds, all of which must keep all promises, and some of them twice.
pub fn prove(seeds: Range<u64>, plan: Plan) -> io::Result<Proof> {
    let count = seeds.end - seeds.start;
    let twice = seeds.start..seeds.start + count.min(REPLAYS);
    let verdicts = run_all(seeds, plan)?;
    let again = run_all(twice, plan)?;
    let mut counts = Counts::default();
    for verdict in verdicts.values() {
        counts.add(&verdict.counts);
    }
    let differs = |seed: &u64, verdict: &Verdict| {
        verdicts.get(seed).is_none_or(|first| first.hash != verdict.hash)
    };
    let fickle: Vec<u64> = again
        .iter()
        .filter(|(seed, verdict)| differs(seed, verdict))
        .map(|(seed, _)| *seed)
        .collect();
    let (replayed, replayed_differently) = (again.len() as u64, fickle.len() as u64);
    let failed: Vec<Verdict> =
        verdicts.into_values().filter(|verdict| !verdict.violations.is_empty()).collect();
    Ok(Proof {
        proof: "sim",
        seeds: count,
        seconds_each: plan.seconds,
        failures: failed.len() as u64,
        replayed,
        replayed_differently,
        exercised: match plan.faults {
            Faults::Mixed => count < EXERCISED_BY || counts.has_all(plan.backend),
            Faults::ClockJump => counts.realigned > 0,
            Faults::CrashLoop => counts.kills > 0 && counts.reaped > 0,
        },
        counts,
        failed,
        fickle,
    })
}

fn run_all(seeds: Range<u64>, plan: Plan) -> io::Result<BTreeMap<u64, Verdict>> {
    let next = AtomicU64::new(seeds.start);
    let verdicts = Mutex::new(BTreeMap::new());
    let total = seeds.end - seeds.start;
    let work = || -> io::Result<()> {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return Ok(());
            }
            let verdict = run(seed, plan)?;
            let mut verdicts = verdicts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            verdicts.insert(seed, verdict);
            if verdicts.len().is_multiple_of(1_000) {
                eprintln!("{} of {total} seeds", verdicts.len());
            }
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a run panicked")))?;
        }
        Ok::<(), io::Error>(())
    })?;
    Ok(verdicts.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
}
