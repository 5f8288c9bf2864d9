//! `punctual simulate`: what files would do, with nothing but files.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use punctual_core::Timestamp;
use punctual_file::Declared;
use punctual_file::simulate::{Decision, Story, simulate};

use super::{Files, beside, mistaken, read_file};
use crate::exit::Failure;
use crate::output::{self, print_json};

#[derive(Args)]
pub(crate) struct Simulate {
    #[command(flatten)]
    files: Files,
    /// From this instant on
    #[arg(long, value_name = "RFC3339")]
    from: String,
    /// Before this instant
    #[arg(long, value_name = "RFC3339")]
    to: String,
    /// Nobody is there in this time; may be given several times
    #[arg(long, value_name = "FROM..TO")]
    down: Vec<String>,
    /// This file is applied then; may be given several times
    #[arg(long, value_name = "TIME=FILE")]
    deploy: Vec<String>,
    /// Jobs take so long, or those of one schedule; may be given several times
    #[arg(long, value_name = "[NAME=]DURATION")]
    takes: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Simulate {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (from, to) = (instant("--from", &self.from)?, instant("--to", &self.to)?);
        if to <= from {
            return Err(Failure::usage(format!("--to {to} does not lie after --from {from}")));
        }
        let mut story = Story::default();
        story.deploys.push((from, declared(self.files.sets(self.json)?)));
        for text in &self.down {
            let Some((start, end)) = text.split_once("..") else {
                return Err(Failure::usage(format!("--down {text} is no time; write it FROM..TO")));
            };
            let (start, end) = (instant("--down", start)?, instant("--down", end)?);
            if end <= start {
                return Err(Failure::usage(format!("--down {text} ends before it begins")));
            }
            story.down.push((start, end));
        }
        for text in &self.deploy {
            let Some((at, path)) = text.split_once('=') else {
                return Err(Failure::usage(format!("--deploy {text} is none; write it TIME=FILE")));
            };
            let source = read_file(&PathBuf::from(path))?;
            let sets = punctual_file::read_beside(&[source], &beside)
                .map_err(|it| mistaken(&it, self.json))?;
            story.deploys.push((instant("--deploy", at)?, declared(sets)));
        }
        for text in &self.takes {
            takes(&mut story, text)?;
        }
        let simulated = simulate(&story, from, to)
            .map_err(|(name, error)| Failure::usage(format!("schedule `{name}`: {error}")))?;
        let mut out = anstream::stdout().lock();
        if self.json {
            let decisions: Vec<serde_json::Value> =
                simulated.decisions.iter().map(as_json).collect();
            let answer = serde_json::json!({"decisions": decisions, "is_cut": simulated.is_cut});
            return Ok(print_json(&mut out, &answer)?);
        }
        let has_ends = !self.takes.is_empty();
        let rows = simulated.decisions.iter().map(|it| row(it, has_ends)).collect();
        let mut head = vec!["SLOT", "SCHEDULE", "OUTCOME", "COUNT", "DECIDED", "STARTS", "REASON"];
        if has_ends {
            head.insert(ENDS, "ENDS");
        }
        output::print_table(&mut out, &head, rows)?;
        let counted = |word: &str| -> u64 {
            let those = simulated.decisions.iter().filter(|it| it.outcome == word);
            those.map(|it| it.count).sum()
        };
        let words = ["fired", "caught_up", "coalesced", "skipped_overlap", "missed", "undecided"];
        let counts = words.map(|word| (word, counted(word)));
        let told: Vec<String> = counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(word, count)| format!("{count} {word}"))
            .collect();
        writeln!(
            out,
            "{}",
            if told.is_empty() { "no slots".to_owned() } else { told.join(" · ") }
        )?;
        if simulated.is_cut {
            output::say_warning("there is more than is shown; take a shorter time");
        }
        Ok(())
    }
}

fn declared(sets: Vec<punctual_file::Set>) -> Vec<Declared> {
    sets.into_iter().flat_map(|set| set.schedules).collect()
}

fn instant(flag: &str, text: &str) -> Result<Timestamp, Failure> {
    text.parse().map_err(|error| Failure::usage(format!("{flag}: {error}")))
}

/// `2m` for all, `NAME=2m` for one.
fn takes(story: &mut Story, text: &str) -> Result<(), Failure> {
    let (name, length) = text.rsplit_once('=').map_or((None, text), |(it, to)| (Some(it), to));
    let length = punctual_core::parse_duration(length)
        .map_err(|error| Failure::usage(format!("--takes: {error}")))?;
    let Some(name) = name else {
        story.all_take = length;
        return Ok(());
    };
    let mut known = story.deploys.iter().flat_map(|(_, schedules)| schedules);
    if !known.any(|schedule| schedule.name == name) {
        return Err(Failure::usage(format!(
            "--takes {text}: no file has a schedule `{name}`; name one, or leave the name out for all"
        )));
    }
    story.takes.insert(name.to_owned(), length);
    Ok(())
}

/// Where the column is that tells when jobs end.
const ENDS: usize = 6;

fn row(it: &Decision, has_ends: bool) -> Vec<String> {
    let slot = match it.end {
        Some(end) => format!("{} … {end}", it.slot),
        None => it.slot.to_string(),
    };
    let instant = |at: Option<Timestamp>| at.map_or_else(|| "–".to_owned(), |at| at.to_string());
    let starts = match (it.starts_at, it.due_at, it.ends_at) {
        (None, Some(_), None) => "waits".to_owned(),
        (starts_at, ..) => instant(starts_at),
    };
    let mut row = vec![
        slot,
        it.schedule.clone(),
        it.outcome.clone(),
        it.count.to_string(),
        it.decided_at.to_string(),
        starts,
        it.reason.clone().unwrap_or_default(),
    ];
    if has_ends {
        row.insert(ENDS, instant(it.ends_at));
    }
    row
}

fn as_json(it: &Decision) -> serde_json::Value {
    let text = |instant: Option<Timestamp>| instant.map(|instant| instant.to_string());
    serde_json::json!({
        "schedule": it.schedule,
        "slot": it.slot.to_string(),
        "end": text(it.end),
        "count": it.count,
        "outcome": it.outcome,
        "reason": it.reason,
        "decided_at": it.decided_at.to_string(),
        "due_at": text(it.due_at),
        "starts_at": text(it.starts_at),
        "ends_at": text(it.ends_at),
        "missed_count": it.missed_count,
    })
}
