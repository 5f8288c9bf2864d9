//! `punctual queue`, `node` and `leader`: where jobs wait, who works, who leads.

use std::io::Write;
use std::time::Duration;

use axum::http::Method;
use clap::Subcommand;
use punctual::Timestamp;
use punctual_api::{DrainRequest, Leader, Limits, List, Node, PauseRequest, Queue};

use crate::exit::Failure;
use crate::output::{self, FAINT, print_json};
use crate::target::{Client, json, part};

#[derive(Subcommand)]
pub(crate) enum QueueCommand {
    /// List queues and their job counts
    #[command(visible_alias = "ls")]
    List,
    /// Pause a queue; waiting jobs stay in it, running jobs finish
    Pause {
        /// Queue name
        name: String,
        /// End of the pause, for example 2027-01-15T08:00:00Z [default: until resumed]
        #[arg(long, value_name = "RFC3339")]
        until: Option<String>,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        why: String,
    },
    /// Resume a paused queue
    Resume {
        /// Queue name
        name: String,
    },
    /// Limit how many jobs of a queue run at once on all nodes together
    Limit {
        /// Queue name
        name: String,
        /// Maximum number of running jobs
        #[arg(value_name = "N", required_unless_present = "none", conflicts_with = "none")]
        max_running: Option<u32>,
        /// Remove the limit
        #[arg(long)]
        none: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum NodeCommand {
    /// List nodes
    #[command(visible_alias = "ls")]
    List,
    /// Ask a remote worker to finish its jobs and exit
    Drain {
        /// Node id
        id: String,
        /// Cancel the drain; the worker claims jobs again
        #[arg(long)]
        undo: bool,
    },
}

impl QueueCommand {
    pub(crate) fn run(self, client: &Client, is_json: bool) -> Result<(), Failure> {
        let queues = match self {
            QueueCommand::List => client.get("/queues")?,
            QueueCommand::Pause { name, until, why } => {
                let path = format!("/queues/{}/pause", part(&name));
                List::whole(vec![client.post::<Queue>(&path, &PauseRequest { until, why })?])
            }
            QueueCommand::Resume { name } => {
                let path = format!("/queues/{}/resume", part(&name));
                List::whole(vec![client.post::<Queue>(&path, &())?])
            }
            QueueCommand::Limit { name, max_running, none: _ } => {
                let path = format!("/queues/{}", part(&name));
                let limits = Some(json(&Limits { max_running })?);
                List::whole(vec![client.ask::<Queue>(Method::PATCH, &path, limits, &[])?])
            }
        };
        let mut out = output::stdout();
        if is_json {
            return Ok(print_json(&mut out, &queues)?);
        }
        let head = [
            "QUEUE",
            "KIND",
            "READY",
            "SCHEDULED",
            "RETRYING",
            "BLOCKED",
            "RUNNING",
            "FAILED",
            "STATUS",
        ];
        let mut rows = Vec::new();
        for queue in &queues.items {
            let status = match (&queue.pause, queue.limits.max_running) {
                (Some(pause), _) => output::paused(pause),
                (None, Some(limit)) => format!("active (at most {limit} running)"),
                (None, None) => "active".to_owned(),
            };
            if queue.kinds.is_empty() {
                let mut row = vec![queue.name.clone()];
                row.extend(["–"; 7].map(str::to_owned));
                row.push(status.clone());
                rows.push(row);
            }
            for kind in &queue.kinds {
                let counts = [
                    kind.ready,
                    kind.scheduled,
                    kind.retrying,
                    kind.blocked,
                    kind.running,
                    kind.failed,
                ];
                let mut row = vec![queue.name.clone(), kind.kind.clone()];
                row.extend(counts.map(|count| count.to_string()));
                row.push(status.clone());
                rows.push(row);
            }
        }
        output::print_table(&mut out, &head, rows)?;
        print_count_age(&mut out, &queues.items)
    }
}

/// The age from which job counts are marked as old. Below it they were counted for this response,
/// or as good as that.
const COUNT_AGE_MIN: Duration = Duration::from_secs(2);

/// Prints how old the job counts are, unless they are new.
pub(crate) fn print_count_age(out: &mut impl Write, queues: &[Queue]) -> Result<(), Failure> {
    let counted_at = queues.iter().map(|queue| queue.counted_at.as_str()).min();
    let Some(Ok(counted_at)) = counted_at.map(str::parse::<Timestamp>) else { return Ok(()) };
    let age = output::now().since(counted_at);
    if age >= COUNT_AGE_MIN {
        let age = punctual_core::format_duration(Duration::from_secs(age.as_secs()));
        writeln!(out, "{FAINT}jobs counted {age} ago{FAINT:#}")?;
    }
    Ok(())
}

impl NodeCommand {
    pub(crate) fn run(self, client: &Client, is_json: bool) -> Result<(), Failure> {
        let nodes: List<Node> = match self {
            NodeCommand::List => client.get("/nodes")?,
            NodeCommand::Drain { id, undo } => {
                let path = format!("/nodes/{}/drain", part(&id));
                List::whole(vec![client.post(&path, &DrainRequest { drain: Some(!undo) })?])
            }
        };
        let mut out = output::stdout();
        if is_json {
            return Ok(print_json(&mut out, &nodes)?);
        }
        let rows = nodes.items.iter().map(|node| {
            vec![
                node.id.clone(),
                node.name.clone(),
                node.version.clone(),
                node.queues.join(","),
                labels(node),
                node.running.to_string(),
                node.seen_at.clone(),
                status(node),
            ]
        });
        let head =
            ["ID", "NAME", "VERSION", "QUEUES", "LABELS", "RUNNING", "LAST HEARTBEAT", "STATUS"];
        Ok(output::print_table(&mut out, &head, rows.collect())?)
    }
}

/// How a node is, in a word or two.
fn status(node: &Node) -> String {
    let remote = if node.is_remote { ", remote" } else { "" };
    match (&node.dead_at, node.is_draining) {
        (Some(at), _) => format!("dead since {at}{remote}"),
        (None, true) => format!("draining{remote}"),
        (None, false) => format!("live{remote}"),
    }
}

fn labels(node: &Node) -> String {
    let labels = node.labels.iter().map(|(name, value)| format!("{name}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

/// Who leads what.
pub(crate) fn leaders(client: &Client, is_json: bool) -> Result<(), Failure> {
    let leaders: List<Leader> = client.get("/leaders")?;
    let mut out = output::stdout();
    if is_json {
        return Ok(print_json(&mut out, &leaders)?);
    }
    let rows = leaders.items.iter().map(|leader| {
        vec![
            leader.role.clone(),
            leader.name.clone().unwrap_or_else(|| leader.node.clone()),
            leader.term.to_string(),
            leader.since.clone(),
            leader.until.clone(),
            if leader.is_valid { "valid" } else { "expired" }.to_owned(),
        ]
    });
    output::print_table(
        &mut out,
        &["ROLE", "NODE", "TERM", "SINCE", "UNTIL", "STATUS"],
        rows.collect(),
    )?;
    if leaders.items.is_empty() {
        writeln!(out, "{FAINT}No leaders yet{FAINT:#}")?;
    }
    Ok(())
}
