//! `punctual simulate`: what files would do, with nothing but files.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use punctual_core::Timestamp;
use punctual_file::Declared;
use punctual_file::simulate::{Decision, Story, simulate};

use super::{Files, beside, mistaken, read_file, warnings};
use crate::exit::Failure;
use crate::output::{self, print_json};

pub(crate) const SIMULATE_HELP: &str = "\
The simulation reads only the files: no server, no database.

Example:
  punctual simulate -f schedules.toml --from 2027-03-28T00:00:00Z --to 2027-03-28T06:00:00Z \\
    --down 2027-03-28T00:45:00Z..2027-03-28T03:10:00Z --takes sync=40m";

#[derive(Args)]
pub(crate) struct Simulate {
    #[command(flatten)]
    files: Files,
    /// Start of the time range (exclusive: a slot at this time is not shown), for example
    /// 2027-03-28T00:00:00Z
    #[arg(long, value_name = "RFC3339")]
    from: String,
    /// End of the time range (exclusive)
    #[arg(long, value_name = "RFC3339")]
    to: String,
    /// Outage in which no node runs. May be repeated
    #[arg(long, value_name = "FROM..TO")]
    down: Vec<String>,
    /// Apply FILE at TIME, as TIME=FILE. May be repeated
    #[arg(long, value_name = "TIME=FILE")]
    deploy: Vec<String>,
    /// Run time of the jobs, for all schedules or one. May be repeated [default: 0s]
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
            return Err(Failure::usage(format!(
                "--to must be after --from, got --from {from} and --to {to}"
            )));
        }
        let mut story = Story::default();
        story.deploys.push((from, declared(self.files.sets(self.json)?)));
        for text in &self.down {
            let Some((start, end)) = text.split_once("..") else {
                return Err(Failure::usage(format!("invalid --down `{text}`; expected FROM..TO")));
            };
            let (start, end) = (instant("--down", start)?, instant("--down", end)?);
            if end <= start {
                return Err(Failure::usage(format!(
                    "invalid --down `{text}`: the end must be after the start"
                )));
            }
            story.down.push((start, end));
        }
        for text in &self.deploy {
            let Some((at, path)) = text.split_once('=') else {
                return Err(Failure::usage(format!(
                    "invalid --deploy `{text}`; expected TIME=FILE"
                )));
            };
            let source = read_file(&PathBuf::from(path))?;
            let sets = punctual_file::read_beside(&[source], &beside)
                .map_err(|it| mistaken(&it, self.json))?;
            warnings(&sets).for_each(|warning| output::say_warning(&warning));
            story.deploys.push((instant("--deploy", at)?, declared(sets)));
        }
        for text in &self.takes {
            takes(&mut story, text)?;
        }
        let simulated = simulate(&story, from, to)
            .map_err(|(name, error)| Failure::usage(format!("schedule `{name}`: {error}")))?;
        let mut out = output::stdout();
        if self.json {
            let decisions: Vec<serde_json::Value> =
                simulated.decisions.iter().map(as_json).collect();
            let answer =
                serde_json::json!({"decisions": decisions, "is_truncated": simulated.is_truncated});
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
        if simulated.is_truncated {
            output::say_warning("output truncated; use a shorter time range");
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
            "--takes {text}: schedule `{name}` not found in the files; omit the name to apply it \
             to all schedules"
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
        (None, Some(_), None) => "waiting".to_owned(),
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
