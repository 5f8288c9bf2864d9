//! `punctual top`: everything on one screen.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use punctual::Timestamp;
use punctual_api::{Capabilities, Job, Leader, List, Node, Queue, Schedule, Series};
use serde::Serialize;

use crate::cluster::print_count_age;
use crate::exit::Failure;
use crate::output::{self, CLEAR, FAINT, print_json, print_table};
use crate::target::{Client, part};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print once and exit [default if stdout is not a terminal]
    #[arg(long)]
    once: bool,
    /// Refresh interval, at least 200ms
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    every: String,
    /// Print JSON, one line per refresh
    #[arg(long)]
    json: bool,
}

/// Rows of each part, so that all of it fits a screen.
const ROWS: usize = 8;
/// The minutes that the pace is told of.
const MINUTES: u64 = 5;

/// What is shown.
#[derive(Serialize)]
struct Screen {
    at: String,
    server: Capabilities,
    nodes: Vec<Node>,
    leaders: Vec<Leader>,
    queues: Vec<Queue>,
    /// How attempts ended in the last minutes.
    ended: Vec<Ended>,
    /// The schedules that are due next.
    next: Vec<Schedule>,
    /// The newest dead letters.
    failed: Vec<Job>,
}

#[derive(Serialize)]
struct Ended {
    outcome: String,
    per_minute: f64,
}

impl Args {
    pub(crate) fn run(self, client: &Client) -> Result<(), Failure> {
        let every = punctual_core::parse_duration(&self.every)
            .map_err(|error| Failure::usage(format!("--every: {error}")))?;
        let is_once = self.once || !std::io::stdout().is_terminal();
        loop {
            let screen = Screen::read(client)?;
            let mut out = output::stdout();
            if self.json {
                print_json(&mut out, &screen)?;
            } else {
                if !is_once {
                    // To the corner, and clear: what is there goes.
                    write!(out, "{CLEAR}")?;
                }
                screen.draw(&mut out)?;
            }
            out.flush()?;
            if is_once {
                return Ok(());
            }
            drop(out);
            pause(every.max(Duration::from_millis(200)));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "people look at it at their own pace")]
fn pause(length: Duration) {
    std::thread::sleep(length);
}

impl Screen {
    fn read(client: &Client) -> Result<Screen, Failure> {
        let now = output::now();
        let nodes: List<Node> = client.get("/nodes")?;
        let leaders: List<Leader> = client.get("/leaders")?;
        let queues: List<Queue> = client.get("/queues")?;
        let failed: List<Job> = client.get(&format!("/jobs?state=failed&limit={ROWS}"))?;
        // Some of them may be paused until then, and are passed over.
        let schedules: List<Schedule> = client.get("/schedules?order=next&limit=100")?;
        let mut next = schedules.items;
        next.retain(|schedule| schedule.pause.is_none());
        next.truncate(ROWS);
        Ok(Screen {
            at: now.to_string(),
            server: client.get("/capabilities")?,
            nodes: nodes.items,
            leaders: leaders.items,
            queues: queues.items,
            ended: ended(client, now)?,
            next,
            failed: failed.items,
        })
    }

    fn draw(&self, out: &mut impl Write) -> Result<(), Failure> {
        let alive = self.nodes.iter().filter(|node| node.dead_at.is_none()).count();
        let leads = |leader: &&Leader| leader.is_valid;
        let led: Vec<String> = self.leaders.iter().filter(leads).map(leadership).collect();
        writeln!(
            out,
            "punctual {} · {} {} · {alive} {} · {}",
            self.server.version,
            self.server.backend,
            self.server.database,
            if alive == 1 { "node" } else { "nodes" },
            self.at
        )?;
        writeln!(out, "leaders   {}", or_none(&led))?;
        let pace: Vec<String> = self
            .ended
            .iter()
            .map(|ended| format!("{} {:.1}/min", ended.outcome, ended.per_minute))
            .collect();
        writeln!(out, "attempts  {} {FAINT}(last {MINUTES} min){FAINT:#}\n", or_none(&pace))?;
        let head = ["QUEUE", "READY", "SCHEDULED", "RETRYING", "RUNNING", "FAILED", "STATUS"];
        print_table(out, &head, self.queues.iter().take(ROWS).map(queue).collect())?;
        print_count_age(out, &self.queues)?;
        writeln!(out)?;
        let now = instant(Some(&self.at));
        let rows = self.next.iter().map(|schedule| {
            let slot = instant(schedule.next_slot.as_deref());
            let left = match &schedule.held {
                Some(held) => format!("waits for {}", held.queue),
                None => length(slot.since(now)),
            };
            let means = schedule.description.clone().unwrap_or_default();
            vec![schedule.name.clone(), left, output::short(&means, 50)]
        });
        print_table(out, &["SCHEDULE", "IN", "CADENCE"], rows.collect())?;
        writeln!(out)?;
        let rows = self.failed.iter().map(|job| {
            let ago = now.since(instant(job.finished_at.as_deref()));
            let error = output::short(job.error.as_deref().unwrap_or(""), 60);
            vec![job.kind.clone(), job.id.clone(), length(ago), error]
        });
        Ok(print_table(out, &["FAILED JOB", "ID", "AGO", "ERROR"], rows.collect())?)
    }
}

/// How attempts ended, per minute.
fn ended(client: &Client, now: Timestamp) -> Result<Vec<Ended>, Failure> {
    let from = now - Duration::from_secs(MINUTES * 60);
    let series: Series = client.get(&format!("/stats/series?from={}", part(&from.to_string())))?;
    let mut sums = std::collections::BTreeMap::<String, i64>::new();
    for point in series.points {
        *sums.entry(point.metric).or_default() += point.count;
    }
    let told = |(outcome, count): (String, i64)| Ended {
        outcome,
        per_minute: count as f64 / MINUTES as f64,
    };
    Ok(sums.into_iter().map(told).collect())
}

fn leadership(leader: &Leader) -> String {
    let node = leader.name.as_ref().unwrap_or(&leader.node);
    format!("{} on {node} (term {})", leader.role, leader.term)
}

fn or_none(parts: &[String]) -> String {
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

fn queue(queue: &Queue) -> Vec<String> {
    let sum = |count: fn(&punctual_api::QueueKind) -> u64| {
        queue.kinds.iter().map(count).sum::<u64>().to_string()
    };
    vec![
        queue.name.clone(),
        sum(|kind| kind.ready),
        sum(|kind| kind.scheduled),
        sum(|kind| kind.retrying),
        sum(|kind| kind.running),
        sum(|kind| kind.failed),
        if queue.pause.is_some() { "paused".to_owned() } else { "active".to_owned() },
    ]
}

/// An instant from the server; what is none stands at the end.
fn instant(text: Option<&str>) -> Timestamp {
    text.and_then(|text| text.parse().ok()).unwrap_or(Timestamp::MAX)
}

/// A length of time in its largest unit.
fn length(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}
