//! One thing done to many jobs: `job retry|cancel|move --all-matching FILTER`.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};
use punctual_api::{List, MoveRequest, Node, Operation, OperationRequest};

use crate::exit::Failure;
use crate::output::{self, FAINT, print_json};
use crate::target::{Client, part};

/// Which jobs.
#[derive(clap::Args)]
pub(crate) struct Which {
    /// Job id
    #[arg(required_unless_present = "all_matching")]
    pub(crate) id: Option<String>,
    /// Apply to all jobs that match
    #[arg(long, value_name = "FILTER", conflicts_with = "id")]
    pub(crate) all_matching: Option<String>,
    /// Return immediately; the operation continues in the background
    #[arg(long, requires = "all_matching", conflicts_with = "id")]
    no_wait: bool,
    /// Reason, recorded in the audit log; only with --all-matching
    #[arg(long, value_name = "TEXT", requires = "all_matching", conflicts_with = "id")]
    why: Option<String>,
}

/// What is done to jobs: to one, or to many.
pub(crate) enum Wanted<'a> {
    One(String),
    Many(&'a str),
}

impl Which {
    pub(crate) fn wanted(&self) -> Result<Wanted<'_>, Failure> {
        match (&self.id, &self.all_matching) {
            (_, Some(filter)) => Ok(Wanted::Many(filter)),
            (Some(id), None) => Ok(Wanted::One(part(id))),
            (None, None) => {
                Err(Failure::usage("missing job id; pass an ID or --all-matching FILTER"))
            }
        }
    }

    /// Asks for the operation, and waits for its end unless that is not wanted.
    pub(crate) fn operate(
        &self,
        client: &Client,
        action: &str,
        q: &str,
        to: Option<MoveRequest>,
        is_json: bool,
    ) -> Result<(), Failure> {
        let (action, q) = (action.to_owned(), q.to_owned());
        let ask = OperationRequest { action, q, to, why: self.why.clone().unwrap_or_default() };
        let operation: Operation = client.post("/operations", &ask)?;
        if self.no_wait {
            let mut out = output::stdout();
            if is_json {
                return Ok(print_json(&mut out, &operation)?);
            }
            let id = &operation.id;
            writeln!(out, "Started operation {id} in the background")?;
            return Ok(writeln!(
                out,
                "{FAINT}Next: punctual job wait {id} · punctual job cancel {id}{FAINT:#}"
            )?);
        }
        warn_without_node(client)?;
        tell(&wait(client, operation)?, is_json)
    }
}

/// An operation that nobody does would be waited for in vain.
fn warn_without_node(client: &Client) -> Result<(), Failure> {
    let nodes: List<Node> = client.get("/nodes")?;
    let does = |node: &Node| {
        node.dead_at.is_none() && node.kinds.iter().any(|kind| kind == "punctual.bulk")
    };
    if !nodes.items.iter().any(does) {
        output::say_warning(
            "no live node runs bulk operations; the operation starts when a worker node is \
             available",
        );
    }
    Ok(())
}

/// Waits until it has ended, with a bar where there is a terminal.
fn wait(client: &Client, mut operation: Operation) -> Result<Operation, Failure> {
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::new(100),
        false => ProgressBar::hidden(),
    };
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    while operation.finished_at.is_none() {
        if let Some(progress) = &operation.progress {
            bar.set_position(u64::from(progress.percent.unwrap_or(0)));
            bar.set_message(output::on_one_line(&progress.note).into_owned());
        }
        let id = part(&operation.id);
        // It answers when the job has ended, or a little later.
        client.get::<serde_json::Value>(&format!("/jobs/{id}/wait?timeout=300ms"))?;
        operation = client.get(&format!("/operations/{id}"))?;
    }
    bar.finish_and_clear();
    Ok(operation)
}

fn tell(operation: &Operation, is_json: bool) -> Result<(), Failure> {
    let mut out = output::stdout();
    if is_json {
        print_json(&mut out, operation)?;
    } else if let Some(counts) = &operation.result {
        let verb = match operation.action.as_str() {
            "retry" => "Retried",
            "cancel" => "Cancelled",
            "move" => "Moved",
            action => action,
        };
        let jobs = if counts.done == 1 { "job" } else { "jobs" };
        writeln!(out, "{verb} {} {jobs}, skipped {}", counts.done, counts.skipped)?;
        for reason in &counts.reasons {
            writeln!(out, "{FAINT}  {}{FAINT:#}", output::short(reason, 160))?;
        }
    }
    match operation.state.as_str() {
        "succeeded" => Ok(()),
        state => {
            let error = operation.error.as_ref().map(|error| format!(": {error}"));
            let error = error.unwrap_or_default();
            Err(Failure::failed(format!("operation {} {state}{error}", operation.id)))
        }
    }
}
