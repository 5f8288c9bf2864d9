//! Runs the simulator: one seed to look at, many to prove something, planted bugs to find.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use clap::{Parser, Subcommand, ValueEnum};
use punctual_sim::{Backend, Counts, PLANNED_PANIC, Plan, Verdict, run};
use serde::Serialize;

#[derive(Parser)]
#[command(about = "Runs clusters of punctual through faults, deterministically")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs one seed and tells what happened
    Run {
        #[arg(long)]
        seed: u64,
        #[command(flatten)]
        plan: PlanArgs,
        /// Tell everything while it happens
        #[arg(long)]
        tell: bool,
        /// Plant this bug (needs the feature planted-bugs)
        #[arg(long)]
        bug: Option<String>,
    },
    /// Runs many seeds; all must keep all promises, and some are run twice and compared
    Prove {
        /// How many
        #[arg(long, env = "PUNCTUAL_PROOF_CASES", default_value_t = 500)]
        seeds: u64,
        /// The first
        #[arg(long, env = "PUNCTUAL_PROOF_SEED", default_value_t = 1)]
        from: u64,
        #[command(flatten)]
        plan: PlanArgs,
    },
    /// Plants each bug and looks for a seed that shows it (needs the feature planted-bugs)
    Bugs {
        /// The most seeds to try for each
        #[arg(long, default_value_t = 2_000)]
        seeds: u64,
        #[command(flatten)]
        plan: PlanArgs,
    },
}

#[derive(clap::Args, Clone, Copy)]
struct PlanArgs {
    /// How long faults go on, in simulated seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// On which store
    #[arg(long, value_enum, default_value_t = Store::Memory)]
    store: Store,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Store {
    Memory,
    Sqlite,
}

impl PlanArgs {
    fn plan(self) -> Plan {
        let backend = match self.store {
            Store::Memory => Backend::Memory,
            Store::Sqlite => Backend::Sqlite,
        };
        Plan { seconds: self.seconds, backend, is_told: false }
    }

    /// How to see a seed again.
    fn replay(self, seed: u64, bug: Option<&str>) -> String {
        let features = if bug.is_some() { " --features planted-bugs" } else { "" };
        let store = if self.store == Store::Sqlite { " --store sqlite" } else { "" };
        let bug = bug.map(|bug| format!(" --bug {bug}")).unwrap_or_default();
        format!(
            "cargo run --release -p punctual-sim{features} -- run --seed {seed} --seconds {}{store}{bug}",
            self.seconds
        )
    }
}

/// How many seeds of a proof are run a second time.
const REPLAYS: u64 = 100;

fn main() -> ExitCode {
    silence_planned_panics();
    let done = match Args::parse().command {
        Command::Run { seed, plan, tell, bug } => run_one(seed, plan, tell, bug.as_deref()),
        Command::Prove { seeds, from, plan } => prove(seeds, from, plan),
        Command::Bugs { seeds, plan } => bugs::search(seeds, plan),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Panics of handlers are part of the play and would bury what matters.
fn silence_planned_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&PLANNED_PANIC) {
            usual(info);
        }
    }));
}

fn run_one(seed: u64, plan: PlanArgs, tell: bool, bug: Option<&str>) -> std::io::Result<bool> {
    bugs::plant(bug)?;
    let verdict = run(seed, Plan { is_told: tell, ..plan.plan() })?;
    println!("seed {seed}: {:?}", verdict.counts);
    println!("trace {:016x}", verdict.hash);
    for violation in &verdict.violations {
        println!("{violation}");
    }
    Ok(verdict.violations.is_empty())
}

#[derive(Serialize)]
struct Proof {
    proof: &'static str,
    seeds: u64,
    seconds_each: u64,
    failures: u64,
    replayed: u64,
    replayed_differently: u64,
    #[serde(flatten)]
    counts: Counts,
}

fn prove(seeds: u64, from: u64, plan: PlanArgs) -> std::io::Result<bool> {
    let verdicts = run_all(from..from + seeds, plan)?;
    let again = run_all(from..from + seeds.min(REPLAYS), plan)?;
    let mut proof = Proof {
        proof: "sim",
        seeds,
        seconds_each: plan.seconds,
        failures: 0,
        replayed: again.len() as u64,
        replayed_differently: 0,
        counts: Counts::default(),
    };
    for verdict in verdicts.values() {
        proof.counts.add(&verdict.counts);
        if !verdict.violations.is_empty() {
            proof.failures += 1;
            tell(verdict, plan, None);
        }
    }
    for (seed, verdict) in &again {
        if verdicts.get(seed).is_none_or(|first| first.hash != verdict.hash) {
            proof.replayed_differently += 1;
            eprintln!("seed {seed} went another way the second time: {}", plan.replay(*seed, None));
        }
    }
    println!("{}", serde_json::to_string(&proof)?);
    Ok(proof.failures == 0 && proof.replayed_differently == 0)
}

fn tell(verdict: &Verdict, plan: PlanArgs, bug: Option<&str>) {
    eprintln!("seed {} breaks a promise; again: {}", verdict.seed, plan.replay(verdict.seed, bug));
    for violation in &verdict.violations {
        eprintln!("  {violation}");
    }
}

/// Runs seeds on all cores.
fn run_all(seeds: std::ops::Range<u64>, plan: PlanArgs) -> std::io::Result<BTreeMap<u64, Verdict>> {
    let next = AtomicU64::new(seeds.start);
    let verdicts = Mutex::new(Ok(BTreeMap::new()));
    let total = seeds.end - seeds.start;
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let verdict = run(seed, plan.plan());
            let mut verdicts = verdicts.lock().expect("a run does not panic");
            match (&mut *verdicts, verdict) {
                (Ok(all), Ok(verdict)) => {
                    all.insert(seed, verdict);
                    if all.len().is_multiple_of(1_000) {
                        eprintln!("{} of {total} seeds", all.len());
                    }
                }
                (verdicts @ Ok(_), Err(error)) => *verdicts = Err(error),
                (Err(_), _) => return,
            }
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    verdicts.into_inner().expect("a run does not panic")
}

#[cfg(feature = "planted-bugs")]
mod bugs {
    use std::collections::BTreeMap;

    use punctual_sim::run;
    use punctual_store::bugs::{self, Bug};
    use serde::Serialize;

    use crate::PlanArgs;

    /// Plants a bug by its name.
    pub(crate) fn plant(name: Option<&str>) -> std::io::Result<()> {
        let Some(name) = name else { return Ok(()) };
        let found = Bug::ALL.iter().find(|bug| format!("{bug:?}") == name);
        let Some(bug) = found else {
            let message = format!("`{name}` is no bug; there are {:?}", Bug::ALL);
            return Err(std::io::Error::other(message));
        };
        bugs::plant(Some(*bug));
        Ok(())
    }

    #[derive(Serialize)]
    struct Found {
        proof: &'static str,
        bugs: usize,
        found: usize,
        /// The first seed that shows each.
        seeds: BTreeMap<String, u64>,
    }

    /// Looks for a seed that shows each bug.
    pub(crate) fn search(seeds: u64, plan: PlanArgs) -> std::io::Result<bool> {
        let mut found = BTreeMap::new();
        for bug in Bug::ALL {
            let name = format!("{bug:?}");
            bugs::plant(Some(*bug));
            for seed in 1..=seeds {
                let verdict = run(seed, plan.plan())?;
                if !verdict.violations.is_empty() {
                    crate::tell(&verdict, plan, Some(&name));
                    found.insert(name, seed);
                    break;
                }
            }
            bugs::plant(None);
        }
        let (bugs, all) = (Bug::ALL.len(), found.len());
        let line = Found { proof: "sim-bugs", bugs, found: all, seeds: found };
        println!("{}", serde_json::to_string(&line)?);
        Ok(all == bugs)
    }
}

#[cfg(not(feature = "planted-bugs"))]
mod bugs {
    use crate::PlanArgs;

    fn missing() -> std::io::Error {
        std::io::Error::other("bugs are not compiled in; add `--features planted-bugs`")
    }

    pub(crate) fn plant(name: Option<&str>) -> std::io::Result<()> {
        if name.is_none() { Ok(()) } else { Err(missing()) }
    }

    pub(crate) fn search(_: u64, _: PlanArgs) -> std::io::Result<bool> {
        Err(missing())
    }
}
