//! Debian's cron and punctual, side by side for a few minutes with the same lines: do they run them
//! in the same minutes?

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual::{BoxError, Job, Manner, Punctual, Wanted};
use punctual_file::Source;
use punctual_file::crontab::{Ask, Form, import};
use serde::{Deserialize, Serialize};

use crate::{Failure, tell};

/// Where cron looks for what packages bring.
const TAB: &str = "/etc/cron.d/punctual-proof";
/// Debian's cron.
const CRON: &str = "/usr/sbin/cron";
/// How many lines there are.
const LINES: usize = 6;
/// How long after a minute its runs are waited for.
const SLACK: Duration = Duration::from_secs(15);

/// What an imported line becomes.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "command")]
struct Line {
    argv: Vec<String>,
}

async fn run_line(line: Line) -> Result<(), BoxError> {
    let words = line.argv.first().ok_or("empty output line")?;
    tokio::process::Command::new("sh").args(["-c", words]).status().await?;
    Ok(())
}

/// A process or file of cron's that goes with this value.
struct Cron(Child);

impl Drop for Cron {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_file(TAB);
    }
}

#[expect(clippy::disallowed_methods, reason = "the proof compares real clock times")]
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[expect(clippy::disallowed_methods, reason = "the proof waits for real minutes")]
async fn sleep(wait: Duration) {
    tokio::time::sleep(wait).await;
}

/// Six lines of different forms, each of which writes the time to a file of its own.
fn tab(directory: &Path, minute: u64) -> String {
    let write = |number: usize| format!("date +\\%s >> {}/{number}", directory.display());
    let once = (minute + 2) % 60;
    let lines = [
        format!("* * * * * root {}", write(1)),
        format!("*/2  *  *  *  *  root  {}", write(2)),
        format!("1-59/2\t*\t*\t*\t*\troot\t{}", write(3)),
        format!("{once} * * * * root {}", write(4)),
        format!("*/3,*/5 0-23 */1 * 0-7 root {}", write(5)),
        format!("* * 1-31 jan-dec * root {}", write(6)),
    ];
    format!("SHELL=/bin/sh\nPATH=/usr/bin:/bin\n{}\n", lines.join("\n"))
}

/// The minutes in which each line ran, of these.
fn minutes(directory: &Path, from: u64, to: u64) -> BTreeMap<usize, BTreeSet<u64>> {
    let of = |number: usize| {
        let text = std::fs::read_to_string(directory.join(number.to_string())).unwrap_or_default();
        let all = text.lines().filter_map(|line| line.trim().parse::<u64>().ok());
        all.map(|second| second / 60).filter(|minute| (from..to).contains(minute)).collect()
    };
    (1..=LINES).map(|number| (number, of(number))).collect()
}

/// Runs both for so many minutes.
async fn compare(count: u64) -> Result<serde_json::Value, String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let directory = |name: &str| -> Result<PathBuf, String> {
        let path = place.path().join(name);
        std::fs::create_dir(&path).map_err(|error| error.to_string())?;
        Ok(path)
    };
    let (theirs, ours) = (directory("cron")?, directory("punctual")?);
    let from = seconds() / 60 + 1;
    let zone = std::env::var("TZ").unwrap_or_else(|_| "UTC".to_owned());
    let minute = from % 60;

    let source = Source::new(TAB, tab(&ours, minute));
    let ask = Ask { set: "crontab", tz: &zone, user: None, home: &|_| None };
    let imported = import(&[(source, Form::System)], &ask);
    if imported.schedules.len() != LINES {
        return Err(format!("not all lines were imported: {:?}", imported.refused));
    }
    let wanted: Vec<Wanted> = imported
        .schedules
        .into_iter()
        .map(|it| Wanted {
            name: it.name,
            definition: it.definition,
            enabled: true,
            renamed_from: None,
        })
        .collect();
    let say = |error: punctual::Error| error.to_string();
    let builder = Punctual::sqlite(place.path().join("proof.db")).await.map_err(say)?;
    let node = builder.handle(run_line).start().await.map_err(say)?;
    node.admin().apply("crontab", &wanted, Manner::default()).await.map_err(say)?;

    std::fs::write(TAB, tab(&theirs, minute))
        .map_err(|error| format!("cannot write {TAB}: {error}; run this proof as root"))?;
    let mut command = Command::new(CRON);
    command.arg("-f").stdin(Stdio::null()).stdout(Stdio::null());
    let cron = command.spawn().map_err(|error| format!("cannot run cron: {error}"))?;
    let cron = Cron(cron);

    let end = (from + count) * 60;
    while seconds() < end {
        eprintln!("{} seconds left", end - seconds() + SLACK.as_secs());
        sleep(Duration::from_secs(30.min(end - seconds() + 1))).await;
    }
    sleep(SLACK).await;
    drop(cron);
    node.stop().await;

    let (cron, punctual) =
        (minutes(&theirs, from, from + count), minutes(&ours, from, from + count));
    let runs: usize = cron.values().map(BTreeSet::len).sum();
    if cron != punctual {
        return Err(format!("cron ran {cron:?}, punctual {punctual:?}"));
    }
    if runs < LINES {
        return Err(format!("only {runs} runs; cron did not work"));
    }
    Ok(serde_json::json!({"minutes": count, "lines": LINES, "runs": runs, "differences": 0}))
}

/// Compares them, and prints what came of it.
pub(crate) fn prove(minutes: u64) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    tell("crontab", runtime.block_on(compare(minutes))?)
}
