//! Runs the simulator: one seed to look at, many to prove something, planted bugs to find.

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use punctual_sim::{Backend, Faults, Plan, Verdict, run};

#[derive(Parser)]
#[command(about = "Run deterministic fault simulations of punctual clusters")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one seed and print the result
    Run {
        #[arg(long)]
        seed: u64,
        #[command(flatten)]
        plan: PlanArgs,
        /// Print every event while the simulation runs
        #[arg(long)]
        tell: bool,
        /// Name of a bug to plant (requires the feature `planted-bugs`)
        #[arg(long)]
        bug: Option<String>,
    },
    /// Run many seeds and check every guarantee; some seeds run twice and must give the same result
    Prove {
        /// Number of seeds
        #[arg(long, env = "PUNCTUAL_PROOF_CASES", default_value_t = 500)]
        seeds: u64,
        /// First seed
        #[arg(long, env = "PUNCTUAL_PROOF_SEED", default_value_t = 1)]
        from: u64,
        #[command(flatten)]
        plan: PlanArgs,
    },
    /// Plant each bug and search for a seed that reveals it (requires the feature `planted-bugs`)
    Bugs {
        /// Maximum number of seeds to try for each bug
        #[arg(long, default_value_t = 2_000)]
        seeds: u64,
        #[command(flatten)]
        plan: PlanArgs,
    },
}

#[derive(clap::Args, Clone, Copy)]
struct PlanArgs {
    /// Duration of the faults, in simulated seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Store to simulate
    #[arg(long, value_enum, default_value_t = Store::Memory)]
    store: Store,
    /// Faults to simulate
    #[arg(long, value_enum, default_value_t = FaultsArg::Mixed)]
    faults: FaultsArg,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum FaultsArg {
    /// A mix drawn from the seed
    Mixed,
    /// Processes that crash again and again
    CrashLoop,
    /// A database clock that jumps two hours ahead and back
    ClockJump,
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
        let faults = match self.faults {
            FaultsArg::Mixed => Faults::Mixed,
            FaultsArg::CrashLoop => Faults::CrashLoop,
            FaultsArg::ClockJump => Faults::ClockJump,
        };
        Plan { seconds: self.seconds, backend, faults, is_told: false }
    }
}

fn main() -> ExitCode {
    punctual_sim::silence_planned_panics();
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

fn prove(seeds: u64, from: u64, plan: PlanArgs) -> std::io::Result<bool> {
    let proof = punctual_sim::prove(from..from + seeds, plan.plan())?;
    for verdict in &proof.failed {
        tell(verdict, plan, None);
    }
    for seed in &proof.fickle {
        eprintln!(
            "seed {seed} is not deterministic: the second run differed; replay: {}",
            plan.plan().replay(*seed)
        );
    }
    println!("{}", serde_json::to_string(&proof)?);
    Ok(proof.holds())
}

fn tell(verdict: &Verdict, plan: PlanArgs, bug: Option<&str>) {
    let replay = plan.plan().replay(verdict.seed);
    let replay = match bug {
        None => replay,
        Some(bug) => {
            format!("{} --bug {bug}", replay.replace(" -- ", " --features planted-bugs -- "))
        }
    };
    eprintln!("seed {} violates a guarantee; replay: {}", verdict.seed, replay);
    for violation in &verdict.violations {
        eprintln!("  {violation}");
    }
}

#[cfg(feature = "planted-bugs")]
mod bugs {
    use std::collections::BTreeMap;

    use punctual_sim::run;
    use punctual_store::bugs::{self, Bug};
    use serde::Serialize;

    use crate::{FaultsArg, PlanArgs};

    /// Plants a bug by its name.
    pub(crate) fn plant(name: Option<&str>) -> std::io::Result<()> {
        let Some(name) = name else { return Ok(()) };
        let found = Bug::ALL.iter().find(|bug| format!("{bug:?}") == name);
        let Some(bug) = found else {
            let message = format!("unknown bug `{name}`; expected one of {:?}", Bug::ALL);
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
            let plan = match bug {
                // Only then is it certain by when a job must be reclaimed.
                Bug::WatchByTerm => PlanArgs { faults: FaultsArg::CrashLoop, ..plan },
                _ => plan,
            };
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
        std::io::Error::other("planted bugs are not compiled in; add `--features planted-bugs`")
    }

    pub(crate) fn plant(name: Option<&str>) -> std::io::Result<()> {
        if name.is_none() { Ok(()) } else { Err(missing()) }
    }

    pub(crate) fn search(_: u64, _: PlanArgs) -> std::io::Result<bool> {
        Err(missing())
    }
}
