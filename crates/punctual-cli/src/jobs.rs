//! `punctual job`: units of work.

use std::io::Write;
use std::time::Duration;

use axum::http::Method;
use clap::Subcommand;
use punctual_api::{Enqueue, Enqueued, Job, JobDetail, List, LogLine, Move};

use crate::bulk::{Wanted, Which};
use crate::exit::Failure;
use crate::output::{self, FAINT, print_json};
use crate::pages;
use crate::target::{Client, json, part};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Enqueue a job
    Enqueue(Box<EnqueueArgs>),
    /// List jobs, newest first
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show all about a job
    Show {
        /// The job
        id: String,
    },
    /// Wait until a job has ended; exit 0 if it succeeded, 1 if not
    Wait {
        /// The job
        id: String,
    },
    /// Show the lines that a job's handler has written
    Logs {
        /// The job
        id: String,
        /// Go on with what is written, until the job has ended
        #[arg(long, short)]
        follow: bool,
    },
    /// Make an ended job ready again, with all its attempts before it
    Retry {
        #[command(flatten)]
        which: Which,
    },
    /// Call a job off
    Cancel {
        #[command(flatten)]
        which: Which,
    },
    /// Give a waiting job another queue, priority or due time
    Move {
        #[command(flatten)]
        which: Which,
        /// Another queue
        #[arg(long)]
        queue: Option<String>,
        /// Another priority
        #[arg(long, allow_negative_numbers = true)]
        priority: Option<i16>,
        /// Another due time
        #[arg(long, value_name = "RFC3339")]
        at: Option<String>,
    },
}

#[derive(clap::Args)]
pub(crate) struct EnqueueArgs {
    /// Which handler it is for
    kind: String,
    /// What the handler is given
    #[arg(long, value_name = "JSON", default_value = "null")]
    payload: String,
    /// Where it waits
    #[arg(long)]
    queue: Option<String>,
    /// −100 to 100, higher first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i16,
    /// The most counted attempts
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// It is due after this long
    #[arg(long, value_name = "DURATION", conflicts_with = "at")]
    delay: Option<String>,
    /// It is due then
    #[arg(long, value_name = "RFC3339")]
    at: Option<String>,
    /// The most time for one attempt
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// One unfinished job of its kind at a time may hold this key
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// A word to find it by; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// The command may be given again within a day with the same key, and makes no second job
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Enqueue it although no node serves its kind and there never was a job of it
    #[arg(long)]
    allow_unknown_kind: bool,
    /// Wait until it has ended; exit 0 if it succeeded, 1 if not
    #[arg(long)]
    wait: bool,
}

#[derive(clap::Args)]
pub(crate) struct ListArgs {
    /// Only in this state
    #[arg(long)]
    state: Option<String>,
    /// Only in this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only of this schedule
    #[arg(long)]
    schedule: Option<String>,
    /// Only with this tag
    #[arg(long)]
    tag: Option<String>,
    /// How many
    #[arg(long, short = 'n', default_value_t = 50, value_parser = pages::some())]
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
                        "nothing changes; give --queue, --priority or --at",
                    ));
                }
                let to = Move { queue, priority, at };
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
            Failure::usage(format!(
                "--payload is no JSON: {error}\nhint: write it like --payload '{{\"to\":\"a@example.com\"}}'"
            ))
        })?;
        let ask = Enqueue {
            kind: self.kind,
            payload,
            queue: self.queue,
            priority: self.priority,
            max_attempts: self.max_attempts,
            delay: self.delay,
            at: self.at,
            timeout: self.timeout,
            unique_key: self.unique_key,
            tags: self.tags,
            ..Enqueue::default()
        };
        let key = self.idempotency_key.as_deref().map(|key| ("idempotency-key", key));
        let headers: Vec<(&str, &str)> = key.into_iter().collect();
        let path = match self.allow_unknown_kind {
            true => "/jobs?allow_unknown_kind=true",
            false => "/jobs",
        };
        let enqueued: Enqueued = client.ask(Method::POST, path, Some(json(&ask)?), &headers)?;
        if self.wait {
            return wait(client, &enqueued.id, is_json);
        }
        let mut out = anstream::stdout().lock();
        if is_json {
            return Ok(print_json(&mut out, &enqueued)?);
        }
        let note = if enqueued.is_new { "enqueued" } else { "was there already" };
        writeln!(out, "job {} {note}", enqueued.id)?;
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
        let mut out = anstream::stdout().lock();
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
    let mut out = anstream::stdout().lock();
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
        let outcome = attempt.outcome.as_deref().unwrap_or("under way");
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
        state => Err(Failure::failed(format!("job {id} is {state}"))),
    }
}

/// From look to look while nothing comes.
const LOOK: Duration = Duration::from_millis(300);

fn logs(client: &Client, id: &str, is_followed: bool, is_json: bool) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
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
