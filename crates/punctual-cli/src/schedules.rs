//! `punctual schedule`: when jobs are made.

mod list;

use std::io::Write;

use axum::http::Method;
use clap::Subcommand;
use punctual_api::{
    HeldSlots, List, NextSlots, PauseRequest, Revision, RunNowResponse, Schedule, ScheduleBody,
    ScheduleJob, Slot,
};
use serde_json::{Map, Value};

use crate::exclude::ExcludeArgs;
use crate::exit::Failure;
use crate::output::{self, FAINT, print_json};
use crate::pages;
use crate::target::{Client, json, part};

pub(crate) const AFTER_HELP: &str =
    "Changes apply from now on. Slots that are already decided are never fired again.";

const CREATE_HELP: &str = "\
The first slot is the next due time. If a schedule with this name exists, the command fails with
exit code 5.

Examples:
  punctual schedule create digest --cron '0 8 * * MON-FRI' --tz Europe/Paris --kind send_digest
  punctual schedule create ping --every 15m --kind http --payload '{\"url\": \"https://example.com\"}'
  punctual schedule create backup --cron '30 2 * * *' --kind command --payload '{\"name\": \"backup\"}'";

const EDIT_HELP: &str = "\
Options that are not given keep their values. --cron replaces all times of the schedule, --exclude
and --exclude-file replace all its exclusions.

Examples:
  punctual schedule edit digest --cron '0 9 * * MON-FRI' --why 'less traffic'
  punctual schedule edit digest --set '{\"missed_limit\": 10}'";

/// The help of the same option of other commands has a default.
const EDIT_ON_EXCLUDED: &str = "Policy for excluded slots. One of: skip, next_working_day";

const LIST_HELP: &str = "\
HISTORY shows the last ten slots, newest on the right:
  ✔ succeeded   ✖ failed   ▸ running   • waiting   ↻ caught up   ⊘ cancelled   ! missed
  · skipped (overlap, pause or exclusion) or coalesced";

const TIMES: &str = "Times (at least one of --cron, --every and --at)";
const JOB: &str = "Job";
const POLICIES: &str = "Policies";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List schedules with their next slot, recent history and status
    #[command(visible_alias = "ls", after_help = LIST_HELP)]
    List,
    /// Show a schedule and its definition
    Show {
        /// Schedule name
        name: String,
    },
    /// Create a schedule
    #[command(after_help = CREATE_HELP)]
    Create(Box<CreateArgs>),
    /// Change a schedule
    #[command(after_help = EDIT_HELP, mut_arg("on_excluded", |arg| arg.help(EDIT_ON_EXCLUDED)))]
    Edit(Box<EditArgs>),
    /// Delete a schedule; its jobs are kept
    Delete {
        /// Schedule name
        name: String,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        why: String,
    },
    /// Pause a schedule; its slots are skipped
    Pause {
        /// Schedule name
        name: String,
        /// End of the pause, for example 2027-01-15T08:00:00Z [default: until resumed]
        #[arg(long, value_name = "RFC3339")]
        until: Option<String>,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        why: String,
    },
    /// Resume a paused schedule, or enable a disabled one
    Resume {
        /// Schedule name
        name: String,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        why: String,
    },
    /// Enable a schedule that was disabled or quarantined
    Enable {
        /// Schedule name
        name: String,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        why: String,
    },
    /// Disable a schedule; it has no slots until it is enabled
    Disable {
        /// Schedule name
        name: String,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        why: String,
    },
    /// Show the revisions of the definition, newest first
    Revisions {
        /// Schedule name
        name: String,
        /// Maximum number of rows
        #[arg(
            long,
            short = 'n',
            value_name = "N",
            default_value_t = 20,
            value_parser = pages::some()
        )]
        limit: usize,
    },
    /// Create a job now, in addition to the regular slots
    Run {
        /// Schedule name
        name: String,
        /// Make the command safe to repeat: within 24 hours, the same key creates no second job
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
    },
    /// Show the next slots
    Next {
        /// Schedule name
        name: String,
        /// Number of slots, at most 1000
        #[arg(
            short = 'n',
            value_name = "N",
            default_value_t = 10,
            value_parser = pages::some().range(1..=1_000)
        )]
        count: usize,
    },
    /// Show past slots and their outcomes, newest first
    Slots {
        /// Schedule name
        name: String,
        /// Maximum number of rows
        #[arg(
            long,
            short = 'n',
            value_name = "N",
            default_value_t = 50,
            value_parser = pages::some()
        )]
        limit: usize,
    },
}

#[derive(clap::Args)]
pub(crate) struct CreateArgs {
    /// Schedule name
    name: String,
    /// Cron expression, for example '0 8 * * MON-FRI'. May be repeated
    #[arg(
        long = "cron",
        value_name = "EXPR",
        help_heading = TIMES,
        required_unless_present_any = ["every", "at"]
    )]
    crons: Vec<String>,
    /// Fixed interval, for example 15m
    #[arg(long, value_name = "DURATION", help_heading = TIMES)]
    every: Option<String>,
    /// One slot at this time, for example 2027-01-15T08:00:00Z
    #[arg(long, value_name = "RFC3339", help_heading = TIMES)]
    at: Option<String>,
    /// IANA time zone of the cron expressions, for example Europe/Paris [default: UTC]
    #[arg(long, value_name = "ZONE", help_heading = TIMES)]
    tz: Option<String>,
    /// Allow cron expressions with a seconds field (6 or 7 fields)
    #[arg(long, help_heading = TIMES)]
    seconds: bool,
    /// Job kind
    #[arg(long, help_heading = JOB)]
    kind: String,
    /// Payload passed to the handler
    #[arg(long, value_name = "JSON", default_value = "null", help_heading = JOB)]
    payload: String,
    /// Queue [default: default]
    #[arg(long, help_heading = JOB)]
    queue: Option<String>,
    /// Maximum number of attempts [default: 5]
    #[arg(long, value_name = "N", help_heading = JOB)]
    max_attempts: Option<u32>,
    /// Latest start after the due time; a job that has not started by then fails
    /// [default: no limit]
    #[arg(long, value_name = "DURATION", help_heading = JOB)]
    start_within: Option<String>,
    /// Delay between attempts, for example 'exponential 10s to 1h', 'linear 5s' or 'fixed 30s'
    /// [default: set by the job kind or the node, otherwise 'exponential 5s to 15m']
    #[arg(long, value_name = "BACKOFF", help_heading = JOB)]
    backoff: Option<String>,
    /// Policy for slots that are more than 60s late. One of: none, latest, all [default: latest]
    #[arg(long, value_name = "POLICY", help_heading = POLICIES)]
    missed: Option<String>,
    /// Policy for slots while an earlier job is unfinished. One of: allow, skip, queue_one,
    /// queue_all, cancel_running [default: skip]
    #[arg(long, value_name = "POLICY", help_heading = POLICIES)]
    overlap: Option<String>,
    /// Maximum delay between a slot and its job, to spread the load [default: 0s]
    #[arg(long, value_name = "DURATION", help_heading = POLICIES)]
    jitter: Option<String>,
    /// Nodes that run the jobs. One of: any, every_node, 'node NAME', 'label KEY=VALUE'
    /// [default: any]
    #[arg(long, value_name = "NODES", help_heading = POLICIES)]
    run_on: Option<String>,
    /// Pause the schedule after N failed jobs in a row [default: never]
    #[arg(long, value_name = "N", help_heading = POLICIES)]
    pause_after_failures: Option<u32>,
    #[command(flatten)]
    exclude: ExcludeArgs,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    why: String,
    /// Accept a kind that no node serves and no job has used
    #[arg(long)]
    allow_unknown_kind: bool,
}

#[derive(clap::Args)]
pub(crate) struct EditArgs {
    /// Schedule name
    name: String,
    /// Cron expression. May be repeated
    #[arg(long = "cron", value_name = "EXPR", help_heading = "Times")]
    crons: Vec<String>,
    /// IANA time zone of the cron expressions
    #[arg(long, value_name = "ZONE", help_heading = "Times")]
    tz: Option<String>,
    /// Latest start after the due time; a job that has not started by then fails
    #[arg(long, value_name = "DURATION", help_heading = JOB)]
    start_within: Option<String>,
    /// Policy for slots that are more than 60s late. One of: none, latest, all
    #[arg(long, value_name = "POLICY", help_heading = POLICIES)]
    missed: Option<String>,
    /// Policy for slots while an earlier job is unfinished. One of: allow, skip, queue_one,
    /// queue_all, cancel_running
    #[arg(long, value_name = "POLICY", help_heading = POLICIES)]
    overlap: Option<String>,
    /// Maximum delay between a slot and its job, to spread the load
    #[arg(long, value_name = "DURATION", help_heading = POLICIES)]
    jitter: Option<String>,
    /// Nodes that run the jobs. One of: any, every_node, 'node NAME', 'label KEY=VALUE'
    #[arg(long, value_name = "NODES", help_heading = POLICIES)]
    run_on: Option<String>,
    /// Pause the schedule after N failed jobs in a row
    #[arg(long, value_name = "N", help_heading = POLICIES)]
    pause_after_failures: Option<u32>,
    #[command(flatten)]
    exclude: ExcludeArgs,
    /// Other fields of the definition to change, as a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}", hide_default_value = true)]
    set: String,
    /// ETag of the schedule as you have seen it; fails with exit code 5 if it has changed since
    #[arg(long, value_name = "ETAG")]
    etag: Option<String>,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    why: String,
    /// Accept a kind that no node serves and no job has used
    #[arg(long)]
    allow_unknown_kind: bool,
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
                    &format!("Deleted schedule {name}"),
                )
            }
            Command::Pause { name, until, why } => {
                show(&client.post(&at(&name, "/pause"), &PauseRequest { until, why })?, is_json)
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
                let ran: RunNowResponse =
                    client.ask(Method::POST, &at(&name, "/run"), None, &headers)?;
                let text = format!("Created job {}\nNext: punctual job wait {0}", ran.job);
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
    let mut out = output::stdout();
    match is_json {
        true => Ok(print_json(&mut out, document)?),
        false => Ok(writeln!(out, "{text}")?),
    }
}

fn show(schedule: &Schedule, is_json: bool) -> Result<(), Failure> {
    let mut out = output::stdout();
    if is_json {
        return Ok(print_json(&mut out, schedule)?);
    }
    let none = || "–".to_owned();
    let facts = [
        ("schedule", schedule.name.clone()),
        ("status", list::status(schedule)),
        ("description", schedule.description.clone().unwrap_or_else(none)),
        ("next", schedule.next_slot.clone().unwrap_or_else(none)),
        ("held", schedule.held.as_ref().map(held).unwrap_or_default()),
        ("last", schedule.last_slot.clone().unwrap_or_else(none)),
        ("history", list::history(schedule)),
        ("set", if schedule.set.is_empty() { none() } else { schedule.set.clone() }),
        ("revision", schedule.revision.to_string()),
        ("changed", schedule.changed_at.clone()),
    ];
    for (label, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        writeln!(out, "{FAINT}{label:<13}{FAINT:#}{value}")?;
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

/// For which node slots wait, since when, and until when.
fn held(held: &HeldSlots) -> String {
    let until = held.until.as_ref().map(|until| format!(", until {until}")).unwrap_or_default();
    format!("since {}{until}: no live node serves queue {}", held.since, held.queue)
}

fn slots(slots: &List<Slot>, is_json: bool) -> Result<(), Failure> {
    let mut out = output::stdout();
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
    let mut out = output::stdout();
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
    let head = ["REVISION", "CHANGED", "CHANGED BY", "REASON", "DEFINITION"];
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
                start_within: self.start_within,
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
                "--set must be a JSON object, for example --set '{\"missed_limit\": 10}'",
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
        if let Some(limit) = self.start_within {
            let job = changes.entry("job").or_insert_with(|| Map::new().into());
            let Some(job) = job.as_object_mut() else {
                return Err(Failure::usage(
                    "--set: `job` must be a JSON object, for example --set '{\"job\": \
                     {\"timeout\": \"1h\"}}'",
                ));
            };
            job.insert("start_within".to_owned(), limit.into());
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
                "nothing to change; pass --cron, --tz, --start-within, --missed, --overlap, \
                 --jitter, --run-on, --pause-after-failures, --exclude, --exclude-file, \
                 --on-excluded or --set",
            ));
        }
        let path = defining(&self.name, &self.why, self.allow_unknown_kind);
        let seen: Vec<(&str, &str)> = self.etag.iter().map(|etag| ("if-match", &**etag)).collect();
        show(&client.ask(Method::PATCH, &path, Some(json(&changes)?), &seen)?, is_json)
    }
}

fn value(flag: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::usage(format!("{flag} is not valid JSON: {error}")))
}
