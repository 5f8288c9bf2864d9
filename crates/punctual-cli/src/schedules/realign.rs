//! `punctual schedule realign`: schedules that are ahead of the database clock.

use std::io::Write;

use axum::http::Method;
use punctual_api::{RealignResponse, Schedule};

use crate::exit::Failure;
use crate::output::{self, print_json};
use crate::pages;
use crate::target::{Client, part};

#[derive(clap::Args)]
pub(crate) struct RealignArgs {
    /// Schedule names
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// Realign all schedules that are ahead of the clock
    #[arg(long)]
    all: bool,
    /// Show what would be discarded without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    why: String,
}

impl RealignArgs {
    pub(super) fn run(self, client: &Client, is_json: bool) -> Result<(), Failure> {
        let names = if self.all { ahead(client)? } else { self.names };
        let mut done: Vec<RealignResponse> = Vec::new();
        let mut out = output::stdout();
        for name in &names {
            let path = format!(
                "/schedules/{}/realign?dry_run={}&why={}",
                part(name),
                self.dry_run,
                part(&self.why)
            );
            let realigned: RealignResponse = client.ask(Method::POST, &path, None, &[])?;
            // What was done stays visible if a later schedule fails.
            if !is_json {
                writeln!(out, "{}", describe(&realigned))?;
            }
            done.push(realigned);
        }
        if is_json {
            return Ok(print_json(&mut out, &done)?);
        }
        if names.is_empty() {
            writeln!(out, "No schedule is ahead of the database clock.")?;
        }
        Ok(())
    }
}

/// The names of all schedules that are ahead of the clock.
fn ahead(client: &Client) -> Result<Vec<String>, Failure> {
    let all = pages::read::<Schedule>(client, "/schedules", usize::MAX)?;
    let ahead = all.items.into_iter().filter(|it| it.enabled && it.ahead_until.is_some());
    Ok(ahead.map(|schedule| schedule.name).collect())
}

/// What a realignment did, with the earliest discarded decisions.
fn describe(realigned: &RealignResponse) -> String {
    let RealignResponse { schedule, after, until, slots, .. } = realigned;
    let did = if realigned.dry_run { "would discard" } else { "discarded" };
    let at_least = if realigned.is_partial { "at least " } else { "" };
    let next = realigned.next_slot.as_deref().unwrap_or("–");
    let mut text = format!(
        "{schedule}: {did} the outcomes of slots after {after}, up to {until} ({at_least}{slots}); next \
         slot {next}"
    );
    for slot in &realigned.discarded {
        let end = slot.end.as_ref().map(|end| format!(" to {end} ({} slots)", slot.count));
        let job = slot.job.as_ref().map(|job| format!(", job {job} is kept"));
        let (end, job) = (end.unwrap_or_default(), job.unwrap_or_default());
        text.push_str(&format!("\n  {}{end}: {}{job}", slot.slot, slot.outcome));
    }
    let shown: u64 = realigned.discarded.iter().map(|slot| slot.count).sum();
    if shown < *slots {
        text.push_str("\n  …");
    }
    text
}

#[cfg(test)]
mod tests {
    use punctual_api::Slot;

    use super::*;

    fn slot(slot: &str, job: Option<&str>) -> Slot {
        Slot {
            slot: slot.to_owned(),
            end: None,
            count: 1,
            outcome: "fired".to_owned(),
            reason: None,
            job: job.map(str::to_owned),
            term: 1,
            node: String::new(),
            revision: 1,
            decided_at: String::new(),
        }
    }

    #[test]
    fn the_earliest_discarded_slots_are_shown() {
        let range = Slot {
            end: Some("2027-01-01T00:59:00Z".to_owned()),
            count: 30,
            outcome: "coalesced".to_owned(),
            ..slot("2027-01-01T00:30:00Z", None)
        };
        let realigned = RealignResponse {
            schedule: "minutely".to_owned(),
            dry_run: true,
            after: "2027-01-01T00:10:20Z".to_owned(),
            until: "2027-01-01T02:00:00Z".to_owned(),
            slots: 110,
            is_partial: false,
            discarded: vec![range, slot("2027-01-01T01:00:00Z", Some("01932b2f"))],
            next_slot: Some("2027-01-01T00:11:00Z".to_owned()),
        };
        insta::assert_snapshot!(describe(&realigned), @"
        minutely: would discard the outcomes of slots after 2027-01-01T00:10:20Z, up to 2027-01-01T02:00:00Z (110); next slot 2027-01-01T00:11:00Z
          2027-01-01T00:30:00Z to 2027-01-01T00:59:00Z (30 slots): coalesced
          2027-01-01T01:00:00Z: fired, job 01932b2f is kept
          …
        ");
        let one = RealignResponse {
            dry_run: false,
            slots: 1,
            discarded: vec![slot("2027-01-01T02:00:00Z", None)],
            ..realigned
        };
        insta::assert_snapshot!(describe(&one), @"
        minutely: discarded the outcomes of slots after 2027-01-01T00:10:20Z, up to 2027-01-01T02:00:00Z (1); next slot 2027-01-01T00:11:00Z
          2027-01-01T02:00:00Z: fired
        ");
    }
}
