//! `punctual job`: units of work.

use std::io::Write;
use std::time::Duration;

use axum::http::Method;
use clap::Subcommand;
use punctual_api::{EnqueueRequest, EnqueueResponse, Job, JobDetail, List, LogLine, MoveRequest};

use crate::bulk::{Wanted, Which};
use crate::exit::Failure;
use crate::output::{self, FAINT, print_json};
use crate::pages;
use crate::target::{Client, json, part};

const ENQUEUE_HELP: &str = "\
Examples:
  punctual job enqueue echo --payload '\"hello\"' --wait
  punctual job enqueue send_email --payload '{\"to\": \"ada@example.com\"}' --queue mail --delay 10m";

const LIST_HELP: &str = "\
States: scheduled, ready, blocked, running, retrying, succeeded, failed, cancelled.

Examples:
  punctual job list --state failed
  punctual job list --kind send_email --queue mail -n 200";

const RETRY_MATCHING: &str =
    "Retry all jobs that match, for example 'state:failed kind:send_email'";
const CANCEL_MATCHING: &str = "Cancel all jobs that match, for example 'queue:mail tag:old'";
const MOVE_MATCHING: &str = "Move all jobs that match, for example 'state:ready queue:mail'";

const JOB: &str = "Job";
const DUPLICATES: &str = "Duplicates";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Enqueue a job
    #[command(after_help = ENQUEUE_HELP)]
    Enqueue(Box<EnqueueArgs>),
    /// List jobs, newest first
    #[command(visible_alias = "ls", after_help = LIST_HELP)]
    List(ListArgs),
    /// Show a job with its attempts
    Show {
        /// Job id
        id: String,
    },
    /// Wait until a job finishes; exit code 0 if it succeeded, 1 if not
    Wait {
        /// Job id
        id: String,
    },
    /// Show the log of a job
    Logs {
        /// Job id
        id: String,
        /// Keep streaming until the job finishes
        #[arg(long, short)]
        follow: bool,
    },
    /// Run a failed or cancelled job again, with a full set of attempts
    #[command(mut_arg("all_matching", |arg| arg.help(RETRY_MATCHING)))]
    Retry {
        #[command(flatten)]
        which: Which,
    },
    /// Cancel a job; a running job is asked to stop
    #[command(mut_arg("all_matching", |arg| arg.help(CANCEL_MATCHING)))]
    Cancel {
        #[command(flatten)]
        which: Which,
    },
    /// Change the queue, priority or due time of a waiting job
    #[command(mut_arg("all_matching", |arg| arg.help(MOVE_MATCHING)))]
    Move {
        #[command(flatten)]
        which: Which,
        /// New queue
        #[arg(long)]
        queue: Option<String>,
        /// New priority, from -100 to 100
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        priority: Option<i16>,
        /// New due time, for example 2027-01-15T08:00:00Z
        #[arg(long, value_name = "RFC3339")]
        at: Option<String>,
    },
}

#[derive(clap::Args)]
pub(crate) struct EnqueueArgs {
    /// Job kind
    kind: String,
    /// Payload passed to the handler
    #[arg(long, value_name = "JSON", default_value = "null", help_heading = JOB)]
    payload: String,
    /// Queue [default: default]
    #[arg(long, help_heading = JOB)]
    queue: Option<String>,
    /// Priority from -100 to 100; each point counts as 60 seconds of waiting
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true,
        help_heading = JOB
    )]
    priority: i16,
    /// Maximum number of attempts [default: 5]
    #[arg(long, value_name = "N", help_heading = JOB)]
    max_attempts: Option<u32>,
    /// Maximum run time of one attempt [default: the timeout of the node, usually 15m]
    #[arg(long, value_name = "DURATION", help_heading = JOB)]
    timeout: Option<String>,
    /// Latest start after the due time; a job that has not started by then fails
    /// [default: no limit]
    #[arg(long, value_name = "DURATION", help_heading = JOB)]
    start_within: Option<String>,
    /// Delay before the job is due, for example 10m
    #[arg(long, value_name = "DURATION", conflicts_with = "at", help_heading = JOB)]
    delay: Option<String>,
    /// Time at which the job is due, for example 2027-01-15T08:00:00Z; cannot be used with --delay
    #[arg(long, value_name = "RFC3339", help_heading = JOB)]
    at: Option<String>,
    /// Tag for searching. May be repeated
    #[arg(long = "tag", value_name = "TAG", help_heading = JOB)]
    tags: Vec<String>,
    /// Allow only one unfinished job of this kind with this key. The same payload returns that job;
    /// another payload is an error
    #[arg(long, value_name = "KEY", help_heading = DUPLICATES)]
    unique_key: Option<String>,
    /// Make the command safe to repeat: within 24 hours, the same key creates no second job
    #[arg(long, value_name = "KEY", help_heading = DUPLICATES)]
    idempotency_key: Option<String>,
    /// Wait until the job finishes; exit code 0 if it succeeded, 1 if not
    #[arg(long)]
    wait: bool,
    /// Accept a kind that no node serves and no job has used
    #[arg(long)]
    allow_unknown_kind: bool,
}

#[derive(clap::Args)]
pub(crate) struct ListArgs {
    /// Only jobs in this state
    #[arg(long)]
    state: Option<String>,
    /// Only jobs of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only jobs of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only jobs of this schedule
    #[arg(long)]
    schedule: Option<String>,
    /// Only jobs with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Maximum number of rows
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = pages::some())]
    limit: usize,
}

impl Command {
    pub(crate) fn run(self, client: &Client, is_json: bool) -> Result<(), Failure> {
        match self {
            Command::Enqueue(args) => args.run(client, is_json),
            Command::List(args) => args.run(client, is_json),
            Command::Show { id } => show(&client.get(&format!("/jobs/{}", part(&id)))?, is_json),
            Command::Wait { id } => wait(client, &id, is_json),
            Command::Logs { id, follow } => logs(client, &id, follow, is_json),
            Command::Retry { which } => match which.wanted()? {
                Wanted::One(id) => show(&client.post(&format!("/jobs/{id}/retry"), &())?, is_json),
                Wanted::Many(q) => which.operate(client, "retry", q, None, is_json),
            },
            Command::Cancel { which } => match which.wanted()? {
                Wanted::One(id) => show(&client.post(&format!("/jobs/{id}/cancel"), &())?, is_json),
                Wanted::Many(q) => which.operate(client, "cancel", q, None, is_json),
            },
            Command::Move { which, queue, priority, at } => {
                if queue.is_none() && priority.is_none() && at.is_none() {
                    return Err(Failure::usage(
                        "nothing to change; pass --queue, --priority or --at",
                    ));
                }
                let to = MoveRequest { queue, priority, at };
                match which.wanted()? {
                    Wanted::One(id) => {
                        let path = format!("/jobs/{id}");
                        show(&client.ask(Method::PATCH, &path, Some(json(&to)?), &[])?, is_json)
                    }
                    Wanted::Many(q) => which.operate(client, "move", q, Some(to), is_json),
                }
            }
        }
    }
}

impl EnqueueArgs {
    fn run(self, client: &Client, is_json: bool) -> Result<(), Failure> {
        let payload = serde_json::from_str(&self.payload).map_err(|error| {
            Failure::usage(format!("--payload is not valid JSON: {error}"))
                .hint("for example --payload '{\"to\":\"a@example.com\"}'")
        })?;
        let ask = EnqueueRequest {
            kind: self.kind,
            payload,
            queue: self.queue,
            priority: self.priority,
            max_attempts: self.max_attempts,
            delay: self.delay,
            at: self.at,
            timeout: self.timeout,
            start_within: self.start_within,
            unique_key: self.unique_key,
            tags: self.tags,
            ..EnqueueRequest::default()
        };
        let key = self.idempotency_key.as_deref().map(|key| ("idempotency-key", key));
        let headers: Vec<(&str, &str)> = key.into_iter().collect();
        let path = match self.allow_unknown_kind {
            true => "/jobs?allow_unknown_kind=true",
            false => "/jobs",
        };
        let enqueued: EnqueueResponse =
            client.ask(Method::POST, path, Some(json(&ask)?), &headers)?;
        if self.wait {
            return wait(client, &enqueued.id, is_json);
        }
        let mut out = output::stdout();
        if is_json {
            return Ok(print_json(&mut out, &enqueued)?);
        }
        match enqueued.is_new {
            true => writeln!(out, "Enqueued job {}", enqueued.id)?,
            false => writeln!(out, "Job {} already exists (same key)", enqueued.id)?,
        }
        Ok(writeln!(out, "{FAINT}Next: punctual job wait {}{FAINT:#}", enqueued.id)?)
    }
}

impl ListArgs {
    fn run(self, client: &Client, is_json: bool) -> Result<(), Failure> {
        let mut filter = String::new();
        let filters = [
            ("state", self.state),
            ("queue", self.queue),
            ("kind", self.kind),
            ("schedule", self.schedule),
            ("tag", self.tag),
        ];
        for (name, value) in filters {
            if let Some(value) = value {
                let separator = if filter.is_empty() { '?' } else { '&' };
                filter.push_str(&format!("{separator}{name}={}", part(&value)));
            }
        }
        let mut jobs: List<Job> = pages::read(client, &format!("/jobs{filter}"), self.limit)?;
        let mut out = output::stdout();
        if is_json {
            return Ok(print_json(&mut out, &jobs)?);
        }
        let head = ["ID", "STATE", "KIND", "QUEUE", "ATTEMPT", "CREATED", "DUE", "ERROR"];
        let rows = std::mem::take(&mut jobs.items).into_iter().map(|job| {
            vec![
                job.id,
                job.state,
                job.kind,
                job.queue,
                format!("{}/{}", job.attempt, job.max_attempts),
                job.created_at,
                job.due_at.unwrap_or_else(|| "–".to_owned()),
                output::short(job.error.as_deref().unwrap_or(""), 60),
            ]
        });
        output::print_table(&mut out, &head, rows.collect())?;
        Ok(pages::say_more(&mut out, &jobs)?)
    }
}

fn show(job: &JobDetail, is_json: bool) -> Result<(), Failure> {
    let mut out = output::stdout();
    if is_json {
        return Ok(print_json(&mut out, job)?);
    }
    let view = &job.job;
    let none = || "–".to_owned();
    let facts = [
        ("job", view.id.clone()),
        ("state", view.state.clone()),
        ("kind", view.kind.clone()),
        ("queue", format!("{}, priority {}", view.queue, view.priority)),
        ("attempt", format!("{} of {}", view.attempt, view.max_attempts)),
        ("created", view.created_at.clone()),
        ("due", view.due_at.clone().unwrap_or_else(none)),
        ("start by", job.start_deadline_at.clone().unwrap_or_else(none)),
        ("finished", view.finished_at.clone().unwrap_or_else(none)),
        ("slot", view.slot.clone().unwrap_or_else(none)),
        ("tags", if job.tags.is_empty() { none() } else { job.tags.join(", ") }),
        ("payload", job.payload.to_string()),
        ("result", job.result.as_ref().map_or_else(none, ToString::to_string)),
        ("error", view.error.clone().unwrap_or_else(none)),
    ];
    for (label, value) in facts.iter().filter(|(_, value)| value != "–") {
        writeln!(out, "{FAINT}{label:<10}{FAINT:#}{value}")?;
    }
    if let Some(progress) = &job.progress {
        let percent = progress.percent.map(|percent| format!("{percent} % ")).unwrap_or_default();
        writeln!(out, "{FAINT}progress  {FAINT:#}{percent}{}", progress.note)?;
    }
    for attempt in &job.attempts {
        let outcome = attempt.outcome.as_deref().unwrap_or("running");
        let error = attempt.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        writeln!(
            out,
            "{FAINT}attempt {:<2}{FAINT:#}{} {outcome}{error}",
            attempt.attempt, attempt.claimed_at
        )?;
    }
    Ok(writeln!(
        out,
        "{FAINT}Next: punctual why job {0} · punctual job logs {0}{FAINT:#}",
        view.id
    )?)
}

/// Waits for as long as it takes: a request waits less than a minute, and is repeated.
fn wait(client: &Client, id: &str, is_json: bool) -> Result<(), Failure> {
    let job = loop {
        let job: JobDetail = client.get(&format!("/jobs/{}/wait", part(id)))?;
        if job.job.finished_at.is_some() {
            break job;
        }
    };
    show(&job, is_json)?;
    match job.job.state.as_str() {
        "succeeded" => Ok(()),
        state => Err(Failure::failed(format!("job {id} {state}"))),
    }
}

/// From look to look while nothing comes.
const LOOK: Duration = Duration::from_millis(300);

fn logs(client: &Client, id: &str, is_followed: bool, is_json: bool) -> Result<(), Failure> {
    let mut out = output::stdout();
    let mut cursor = String::new();
    // A line may be written a moment after the end of its job: one more look finds it.
    let mut was_ended = !is_followed;
    loop {
        let page: List<LogLine> =
            client.get(&format!("/jobs/{}/log?limit=500{cursor}", part(id)))?;
        for line in &page.items {
            print_line(&mut out, line, is_json)?;
        }
        if let Some(last) = page.items.last() {
            cursor = format!("&cursor={}.{}", last.attempt, last.number);
        }
        if page.next_cursor.is_some() {
            continue;
        }
        if was_ended {
            return Ok(());
        }
        out.flush()?;
        let job: JobDetail = client.get(&format!("/jobs/{}", part(id)))?;
        was_ended = job.job.finished_at.is_some();
        pause();
    }
}

fn print_line(out: &mut impl Write, line: &LogLine, is_json: bool) -> Result<(), Failure> {
    if is_json {
        return Ok(print_json(out, line)?);
    }
    let LogLine { at, attempt, level, text, .. } = line;
    Ok(writeln!(out, "{FAINT}{at} {attempt:>2} {level:<5}{FAINT:#} {text}")?)
}

#[expect(clippy::disallowed_methods, reason = "a command waits in time of its own")]
fn pause() {
    std::thread::sleep(LOOK);
}
