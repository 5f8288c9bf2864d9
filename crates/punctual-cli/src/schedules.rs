//! `punctual schedule`: when jobs are made.

mod list;

use std::io::Write;

use axum::http::Method;
use clap::Subcommand;
use punctual_api::{
    List, NextSlots, PauseAsk, Ran, Revision, Schedule, ScheduleBody, ScheduleJob, Slot,
};
use serde_json::{Map, Value};

use crate::exclude::ExcludeArgs;
use crate::exit::Failure;
use crate::output::{self, FAINT, print_json};
use crate::pages;
use crate::target::{Client, json, part};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List schedules
    #[command(visible_alias = "ls")]
    List,
    /// Show a schedule
    Show {
        /// The schedule
        name: String,
    },
    /// Create a schedule, which begins with its first slot from now on
    Create(Box<CreateArgs>),
    /// Change a schedule, from now on
    Edit(Box<EditArgs>),
    /// Remove a schedule; what it has made stays
    Delete {
        /// The schedule
        name: String,
        /// Why
        #[arg(long, default_value = "")]
        why: String,
    },
    /// Skip slots, until then or until it is resumed
    Pause {
        /// The schedule
        name: String,
        /// Until then
        #[arg(long, value_name = "RFC3339")]
        until: Option<String>,
        /// Why
        #[arg(long, default_value = "")]
        why: String,
    },
    /// Fire slots again, from now on
    Resume {
        /// The schedule
        name: String,
        /// Why
        #[arg(long, default_value = "")]
        why: String,
    },
    /// Plan it again, from now on, after it was disabled or set aside
    Enable {
        /// The schedule
        name: String,
        /// Why
        #[arg(long, default_value = "")]
        why: String,
    },
    /// Plan it no more, until it is enabled
    Disable {
        /// The schedule
        name: String,
        /// Why
        #[arg(long, default_value = "")]
        why: String,
    },
    /// Show the definitions that it has had, newest first
    Revisions {
        /// The schedule
        name: String,
        /// How many
        #[arg(long, short = 'n', default_value_t = 20, value_parser = pages::some())]
        limit: usize,
    },
    /// Make one job of it now, beside its slots
    Run {
        /// The schedule
        name: String,
        /// The command may be given again within a day with the same key, and makes no second job
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
    },
    /// Show the next slots
    Next {
        /// The schedule
        name: String,
        /// How many, up to 1000
        #[arg(short = 'n', default_value_t = 10, value_parser = pages::some().range(1..=1_000))]
        count: usize,
    },
    /// Show what became of past slots, newest first
    Slots {
        /// The schedule
        name: String,
        /// How many
        #[arg(long, short = 'n', default_value_t = 50, value_parser = pages::some())]
        limit: usize,
    },
}

#[derive(clap::Args)]
pub(crate) struct CreateArgs {
    /// Its name
    name: String,
    /// A cron expression; may be given several times
    #[arg(long = "cron", value_name = "EXPR", required_unless_present_any = ["every", "at"])]
    crons: Vec<String>,
    /// At a fixed distance
    #[arg(long, value_name = "DURATION")]
    every: Option<String>,
    /// Once, at this instant
    #[arg(long, value_name = "RFC3339")]
    at: Option<String>,
    /// The kind of the jobs that it makes
    #[arg(long)]
    kind: String,
    /// What their handler is given
    #[arg(long, value_name = "JSON", default_value = "null")]
    payload: String,
    /// Where they wait
    #[arg(long)]
    queue: Option<String>,
    /// Their most counted attempts
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// The waits between these, such as 'exponential 10s to 1h', 'linear 5s' or 'fixed 30s'
    #[arg(long, value_name = "WAITS")]
    backoff: Option<String>,
    /// The zone
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Expressions have a field for seconds
    #[arg(long)]
    seconds: bool,
    /// none, latest or all: what becomes of slots that nobody fired in time
    #[arg(long, value_name = "POLICY")]
    missed: Option<String>,
    /// allow, skip, queue_one, queue_all or cancel_running: while an earlier job is unfinished
    #[arg(long, value_name = "POLICY")]
    overlap: Option<String>,
    /// Jobs start up to this long after their slot
    #[arg(long, value_name = "DURATION")]
    jitter: Option<String>,
    /// any, every_node, 'node NAME' or 'label KEY=VALUE': which nodes run the jobs
    #[arg(long, value_name = "NODES")]
    run_on: Option<String>,
    /// Pause it after so many failed jobs in a row
    #[arg(long, value_name = "N")]
    pause_after_failures: Option<u32>,
    #[command(flatten)]
    exclude: ExcludeArgs,
    /// Create it although no node serves its kind and there never was a job of it
    #[arg(long)]
    allow_unknown_kind: bool,
    /// Why it is created
    #[arg(long, default_value = "")]
    why: String,
}

#[derive(clap::Args)]
pub(crate) struct EditArgs {
    /// The schedule
    name: String,
    /// Another cron expression; may be given several times
    #[arg(long = "cron", value_name = "EXPR")]
    crons: Vec<String>,
    /// Another zone
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// none, latest or all
    #[arg(long, value_name = "POLICY")]
    missed: Option<String>,
    /// allow, skip, queue_one, queue_all or cancel_running
    #[arg(long, value_name = "POLICY")]
    overlap: Option<String>,
    /// Jobs start up to this long after their slot
    #[arg(long, value_name = "DURATION")]
    jitter: Option<String>,
    /// any, every_node, 'node NAME' or 'label KEY=VALUE'
    #[arg(long, value_name = "NODES")]
    run_on: Option<String>,
    /// Pause it after so many failed jobs in a row
    #[arg(long, value_name = "N")]
    pause_after_failures: Option<u32>,
    #[command(flatten)]
    exclude: ExcludeArgs,
    /// Anything else, as the fields of the definition that change
    #[arg(long, value_name = "JSON", default_value = "{}")]
    set: String,
    /// Change its kind although no node serves that and there never was a job of it
    #[arg(long)]
    allow_unknown_kind: bool,
    /// Why it is changed
    #[arg(long, default_value = "")]
    why: String,
    /// Only if nobody has changed it since it was shown with this etag
    #[arg(long, value_name = "ETAG")]
    etag: Option<String>,
}

impl Command {
    pub(crate) fn run(self, client: &Client, is_json: bool) -> Result<(), Failure> {
        let at = |name: &str, what: &str| format!("/schedules/{}{what}", part(name));
        match self {
            Command::List => list::run(client, is_json),
            Command::Show { name } => {
                let beside = format!("?history={}", list::HISTORY);
                show(&client.get(&at(&name, &beside))?, is_json)
            }
            Command::Create(args) => args.run(client, is_json),
            Command::Edit(args) => args.run(client, is_json),
            Command::Delete { name, why } => {
                client.ask::<Value>(Method::DELETE, &at(&name, &because(&why)), None, &[])?;
                said(
                    is_json,
                    &serde_json::json!({"deleted": name}),
                    &format!("schedule {name} is gone"),
                )
            }
            Command::Pause { name, until, why } => {
                show(&client.post(&at(&name, "/pause"), &PauseAsk { until, why })?, is_json)
            }
            Command::Resume { name, why } => {
                let path = at(&name, &format!("/resume{}", because(&why)));
                show(&client.post(&path, &())?, is_json)
            }
            Command::Enable { name, why } => {
                let path = at(&name, &format!("/enable{}", because(&why)));
                show(&client.post(&path, &())?, is_json)
            }
            Command::Disable { name, why } => {
                let path = at(&name, &format!("/disable{}", because(&why)));
                show(&client.post(&path, &())?, is_json)
            }
            Command::Revisions { name, limit } => {
                revisions(&pages::read(client, &at(&name, "/revisions"), limit)?, is_json)
            }
            Command::Run { name, idempotency_key } => {
                let key = idempotency_key.as_deref().map(|key| ("idempotency-key", key));
                let headers: Vec<(&str, &str)> = key.into_iter().collect();
                let ran: Ran = client.ask(Method::POST, &at(&name, "/run"), None, &headers)?;
                let text = format!("job {} is made\nNext: punctual job wait {0}", ran.job);
                said(is_json, &ran, &text)
            }
            Command::Next { name, count } => {
                let next: NextSlots = client.get(&at(&name, &format!("/next?n={count}")))?;
                let line = |slot: &String| match next.moved.iter().find(|it| it.slot == *slot) {
                    Some(moved) => format!("{slot}  moved from {}", moved.from),
                    None => slot.clone(),
                };
                let lines: Vec<String> = next.next.iter().map(line).collect();
                said(is_json, &next, &lines.join("\n"))
            }
            Command::Slots { name, limit } => {
                slots(&pages::read(client, &at(&name, "/slots"), limit)?, is_json)
            }
        }
    }
}

/// Why, as the API takes it.
fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!("?why={}", part(why)) }
}

/// Where a definition is written, why, and whether its kind is meant as it stands.
fn defining(name: &str, why: &str, allow_unknown_kind: bool) -> String {
    let meant = if allow_unknown_kind { "&allow_unknown_kind=true" } else { "" };
    format!("/schedules/{}?why={}{meant}", part(name), part(why))
}

fn said(is_json: bool, document: &impl serde::Serialize, text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    match is_json {
        true => Ok(print_json(&mut out, document)?),
        false => Ok(writeln!(out, "{text}")?),
    }
}

fn show(schedule: &Schedule, is_json: bool) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    if is_json {
        return Ok(print_json(&mut out, schedule)?);
    }
    let none = || "–".to_owned();
    let facts = [
        ("schedule", schedule.name.clone()),
        ("status", list::status(schedule)),
        ("means", schedule.means.clone().unwrap_or_else(none)),
        ("next", schedule.next_slot.clone().unwrap_or_else(none)),
        ("last", schedule.last_slot.clone().unwrap_or_else(none)),
        ("history", list::history(schedule)),
        ("set", if schedule.set.is_empty() { none() } else { schedule.set.clone() }),
        ("revision", schedule.revision.to_string()),
        ("changed", schedule.changed_at.clone()),
    ];
    for (label, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        writeln!(out, "{FAINT}{label:<10}{FAINT:#}{value}")?;
    }
    for (name, value) in schedule.definition.as_object().unwrap_or(&Map::new()) {
        if !value.is_null() {
            writeln!(out, "{FAINT}  {name:<14}{FAINT:#}{value}")?;
        }
    }
    let name = &schedule.name;
    Ok(writeln!(
        out,
        "{FAINT}Next: punctual schedule slots {name} · punctual why schedule {name}{FAINT:#}"
    )?)
}

fn slots(slots: &List<Slot>, is_json: bool) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    if is_json {
        return Ok(print_json(&mut out, slots)?);
    }
    let rows = slots.items.iter().map(|slot| {
        vec![
            slot.slot.clone(),
            slot.outcome.clone(),
            slot.count.to_string(),
            slot.job.clone().unwrap_or_else(|| "–".to_owned()),
            slot.decided_at.clone(),
            slot.reason.clone().unwrap_or_default(),
        ]
    });
    let head = ["SLOT", "OUTCOME", "COUNT", "JOB", "DECIDED", "REASON"];
    output::print_table(&mut out, &head, rows.collect())?;
    Ok(pages::say_more(&mut out, slots)?)
}

fn revisions(revisions: &List<Revision>, is_json: bool) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    if is_json {
        return Ok(print_json(&mut out, revisions)?);
    }
    let rows = revisions.items.iter().map(|revision| {
        vec![
            revision.revision.to_string(),
            revision.at.clone(),
            revision.who.clone(),
            revision.why.clone(),
            revision.definition.to_string(),
        ]
    });
    let head = ["REVISION", "AT", "WHO", "WHY", "DEFINITION"];
    output::print_table(&mut out, &head, rows.collect())?;
    Ok(pages::say_more(&mut out, revisions)?)
}

impl CreateArgs {
    fn run(self, client: &Client, is_json: bool) -> Result<(), Failure> {
        let mut when = self.crons;
        when.extend(self.every.map(|every| format!("@every {every}")));
        when.extend(self.at.map(|at| format!("@at {at}")));
        let body = ScheduleBody {
            when,
            tz: self.tz,
            seconds: self.seconds.then_some(true),
            start: None,
            end: None,
            dst_gap: None,
            dst_fold: None,
            jitter: self.jitter,
            missed: self.missed,
            missed_window: None,
            missed_limit: None,
            missed_pace: None,
            missed_paused: None,
            overlap: self.overlap,
            run_on: self.run_on,
            pause_after_failures: self.pause_after_failures,
            exclude: self.exclude.entries()?,
            on_excluded: self.exclude.on_excluded,
            job: ScheduleJob {
                kind: self.kind,
                payload: value("--payload", &self.payload)?,
                queue: self.queue,
                max_attempts: self.max_attempts,
                backoff: self.backoff,
                ..ScheduleJob::default()
            },
        };
        let path = defining(&self.name, &self.why, self.allow_unknown_kind);
        let new = [("if-none-match", "*")];
        show(&client.ask(Method::PUT, &path, Some(json(&body)?), &new)?, is_json)
    }
}

impl EditArgs {
    fn run(self, client: &Client, is_json: bool) -> Result<(), Failure> {
        let Value::Object(mut changes) = value("--set", &self.set)? else {
            return Err(Failure::usage(
                "--set is no object; write it like --set '{\"missed_limit\": 10}'",
            ));
        };
        let fields = [
            ("tz", self.tz),
            ("missed", self.missed),
            ("overlap", self.overlap),
            ("jitter", self.jitter),
            ("run_on", self.run_on),
            ("on_excluded", self.exclude.on_excluded.clone()),
        ];
        for (name, field) in fields {
            changes.extend(field.map(|field| (name.to_owned(), Value::String(field))));
        }
        let failures = self.pause_after_failures.map(Value::from);
        changes.extend(failures.map(|failures| ("pause_after_failures".to_owned(), failures)));
        let exclude = self.exclude.entries()?;
        if !exclude.is_empty() {
            changes.insert("exclude".to_owned(), exclude.into());
        }
        if !self.crons.is_empty() {
            changes.insert("when".to_owned(), self.crons.into());
        }
        if changes.is_empty() {
            return Err(Failure::usage(
                "nothing changes; give --cron, --tz, --missed, --overlap, --jitter, --run-on, --pause-after-failures, --exclude, --on-excluded or --set",
            ));
        }
        let path = defining(&self.name, &self.why, self.allow_unknown_kind);
        let seen: Vec<(&str, &str)> = self.etag.iter().map(|etag| ("if-match", &**etag)).collect();
        show(&client.ask(Method::PATCH, &path, Some(json(&changes)?), &seen)?, is_json)
    }
}

fn value(flag: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::usage(format!("{flag} is no JSON: {error}")))
}
