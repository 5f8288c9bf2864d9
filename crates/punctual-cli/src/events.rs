//! `punctual events`: what happens, as it happens.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use punctual_api::Event;

use crate::exit::Failure;
use crate::output::{self, FAINT, print_json};
use crate::target::{Client, part};

pub(crate) const AFTER_HELP: &str = "\
Examples:
  punctual events --since 30m
  punctual events --follow --topics jobs,schedules";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Keep streaming new events
    #[arg(long, short = 'f')]
    follow: bool,
    /// Topics, separated by commas: jobs, schedules, leaders, audit [default: all]
    #[arg(long, value_name = "TOPIC", value_delimiter = ',')]
    topics: Vec<String>,
    /// Start time, or age such as 30m; at most 24h ago [default: 1h; with --follow: now]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Print JSON, one line per event
    #[arg(long)]
    json: bool,
}

/// How long to wait for a server that is gone, and how often.
const WAIT: Duration = Duration::from_secs(2);
const WAITS_MAX: u32 = 30;

impl Args {
    pub(crate) fn run(self, client: &Client) -> Result<(), Failure> {
        let path = self.path()?;
        let mut reader = Reader { last: None, is_json: self.json, is_endless: self.follow };
        let mut waits = 0;
        loop {
            let last = reader.last.clone();
            let headers: Vec<(&str, &str)> =
                last.iter().map(|last| ("last-event-id", last.as_str())).collect();
            let told = client.stream(&path, &headers, |stream| reader.read(stream));
            match told {
                Ok(()) if !self.follow => return Ok(()),
                Ok(()) => waits = 0,
                // Who has listened before waits until the server is there again.
                Err(failure) if !failure.is_out_of_reach() || last.is_none() || !self.follow => {
                    return Err(failure);
                }
                Err(failure) if waits == WAITS_MAX => return Err(failure),
                Err(_) => waits += 1,
            }
            output::say_warning("connection lost, reconnecting");
            pause();
        }
    }

    fn path(&self) -> Result<String, Failure> {
        let mut path = format!("/events?follow={}", self.follow);
        if !self.topics.is_empty() {
            path.push_str(&format!("&topics={}", part(&self.topics.join(","))));
        }
        let usual = (!self.follow).then(|| "1h".to_owned());
        if let Some(since) = self.since.clone().or(usual) {
            let since = match punctual_core::parse_duration(&since) {
                Ok(length) => (output::now() - length).to_string(),
                // The server says what is wrong with an instant that is none.
                Err(_) => since,
            };
            path.push_str(&format!("&since={}", part(&since)));
        }
        Ok(path)
    }
}

#[expect(clippy::disallowed_methods, reason = "nothing tells when a server is there again")]
fn pause() {
    std::thread::sleep(WAIT);
}

/// Reads a stream of events, and knows the last one.
struct Reader {
    last: Option<String>,
    is_json: bool,
    /// Does the stream go on until somebody cuts it off?
    is_endless: bool,
}

fn stream_failed(reason: &dyn std::fmt::Display) -> Failure {
    Failure::out_of_reach(format!("event stream failed, some events are missing: {reason}"))
        .hint("run the command again")
}

impl Reader {
    fn read(&mut self, stream: &mut dyn Read) -> Result<(), Failure> {
        let (mut name, mut data, mut id) = (String::new(), String::new(), None);
        for line in BufReader::new(stream).lines() {
            let line = match line {
                Ok(line) => line,
                // A server that is killed ends the stream in the midst of it; it is asked again.
                Err(_) if self.is_endless => return Ok(()),
                Err(error) => {
                    return Err(stream_failed(&error));
                }
            };
            match line.split_once(':') {
                Some(("event", value)) => name = value.trim().to_owned(),
                Some(("id", value)) => id = Some(value.trim().to_owned()),
                Some(("data", value)) => data.push_str(value.trim_start()),
                Some(_) => {}
                None => {
                    if !data.is_empty() {
                        self.tell(&name, &data)?;
                    }
                    // Only what was told whole need not be told again.
                    self.last = id.take().or(self.last.take());
                    name.clear();
                    data.clear();
                }
            }
        }
        Ok(())
    }

    fn tell(&self, name: &str, data: &str) -> Result<(), Failure> {
        let mut out = output::stdout();
        if name == "error" {
            return Err(stream_failed(&data));
        }
        if name == "reset" {
            output::say_warning(&format!("some events may be missing: {data}"));
            return Ok(());
        }
        let event: Event = serde_json::from_str(data)
            .map_err(|error| Failure::failed(format!("invalid event: {error}")))?;
        match self.is_json {
            true => print_json(&mut out, &event)?,
            false => {
                writeln!(
                    out,
                    "{FAINT}{}{FAINT:#} {:<9} {}",
                    event.at,
                    event.topic,
                    output::on_one_line(&words(&event))
                )?;
            }
        }
        Ok(out.flush()?)
    }
}

/// An event in one line.
fn words(event: &Event) -> String {
    if let Some(job) = &event.job {
        let error = job.error.as_deref().map(|error| format!(": {}", output::short(error, 80)));
        let (attempt, most) = (job.attempt, job.max_attempts);
        let error = error.unwrap_or_default();
        return format!("{} {} {}, attempt {attempt}/{most}{error}", job.kind, job.id, job.state);
    }
    if let Some(event) = &event.slot {
        let name = event.name.as_deref().unwrap_or(&event.schedule);
        let slot = &event.slot;
        let many = if slot.count > 1 { format!(" ×{}", slot.count) } else { String::new() };
        let reason = slot.reason.as_deref().map(|reason| format!(": {reason}"));
        return format!(
            "{name} {} {}{many}{}",
            slot.slot,
            slot.outcome,
            reason.unwrap_or_default()
        );
    }
    if let Some(leader) = &event.leader {
        return format!(
            "new leader of {}: {}, term {}",
            leader.role, leader.term.node, leader.term.term
        );
    }
    if let Some(audit) = &event.audit {
        let why = if audit.why.is_empty() { String::new() } else { format!(" ({})", audit.why) };
        return format!("{}: {} {}{why}", audit.who, audit.action, audit.subject);
    }
    String::new()
}
