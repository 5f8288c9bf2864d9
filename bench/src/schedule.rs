//! The scheduler: how late slots are, how many it fires beside the bare statement, what it costs when
//! nothing is due, and how it deals with what lies behind.

mod behind;
mod idle;
mod late;
mod lot;
mod ready;
mod speed;
mod table;

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::databases::{Databases, Place};
use crate::{Failure, report};

/// How large the bench is.
#[derive(Args)]
pub(crate) struct Scale {
    /// Measurements to run [default: all]
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Number of seconds in which slots are fired every second
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Number of schedules in the table, of which some or none are due
    #[arg(long, default_value_t = 1_000_000)]
    schedules: usize,
    /// Number of schedules that are fired, in all rounds together
    #[arg(long, default_value_t = 100_000)]
    due: usize,
    /// Time for which an idle node is measured, in milliseconds
    #[arg(long, default_value_t = 10_000)]
    idle_ms: u64,
    /// Number of schedules that are one hour late at the same time
    #[arg(long, default_value_t = 1_000_000)]
    backlog: usize,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Lateness of slots with little load
    Late,
    /// Lateness of slots when thousands are due in the same second
    Burst,
    /// Fires compared with the bare statement
    Speed,
    /// Cost of a million schedules, none of which is due
    Idle,
    /// A schedule with a slot every second that is one year late
    Year,
    /// A million late schedules
    Backlog,
}

/// How many schedules are due on one second.
const BURSTS: [usize; 2] = [1_000, 10_000];

pub(crate) fn run(place: &Place, scale: &Scale, as_json: bool) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (databases, figures) = runtime.block_on(async {
        let databases = Databases::open(place).await?;
        let mut figures = Vec::new();
        for part in Part::value_variants() {
            if !scale.only.is_empty() && !scale.only.contains(part) {
                continue;
            }
            if let Some(value) = part.to_possible_value() {
                eprintln!("{} …", value.get_name());
            }
            match part {
                Part::Late => figures.extend(late::quiet(&databases, scale.seconds).await?),
                Part::Burst => {
                    for count in BURSTS {
                        figures.extend(late::burst(&databases, count).await?);
                    }
                }
                Part::Speed => {
                    figures.push(speed::figure(&databases, scale.schedules, scale.due).await?);
                }
                Part::Idle => {
                    let watched = Duration::from_millis(scale.idle_ms);
                    figures.extend(idle::figures(&databases, scale.schedules, watched).await?);
                }
                Part::Year => figures.extend(behind::year(&databases).await?),
                Part::Backlog => figures.extend(behind::backlog(&databases, scale.backlog).await?),
            }
        }
        Ok::<_, Failure>((databases, figures))
    })?;
    let size = json!({"seconds": scale.seconds, "schedules": scale.schedules, "due": scale.due,
        "idle_ms": scale.idle_ms, "backlog": scale.backlog});
    let proof = databases.manner().schedule_bench;
    report::print(&databases, proof, &size, &figures, as_json)
}

/// A number as people read it.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}
