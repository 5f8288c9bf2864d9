//! punctual beside its rivals on one PostgreSQL: the same jobs, the same run, in turns.

mod build;
mod rivals;

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use punctual_engine::{Env, System};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_postgres::Client;

use self::build::Built;
use self::rivals::{MEASURES, OURS, RIVALS, Rival};
use crate::peer::connect;
use crate::{Failure, tell};

/// What the one who runs it wants.
#[derive(clap::Args)]
pub(crate) struct Wishes {
    /// Peers to measure, by name prefix; a peer that cannot be built is then not an error
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Measures: drain, bulk, enqueue1, enqueue8, latency, idle [default: all]
    #[arg(long, value_delimiter = ',')]
    measures: Vec<String>,
    /// Number of rounds per measure; the medians count
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Build directory of the peers [default: `peers` in cargo's target directory]
    #[arg(long)]
    directory: Option<PathBuf>,
}

/// Longer than any measure takes that ends at all.
const RUN_MAX: Duration = Duration::from_secs(200);
/// What a bulk writes.
const BULK_JOBS: usize = 20_000;
/// How long idle workers are left alone, and how long they are then watched. PostgreSQL tells of a
/// connection's transactions with up to ten seconds of delay.
const SETTLE: Duration = Duration::from_secs(12);
const WATCH: Duration = Duration::from_secs(30);

/// A rival that can be measured, and what was seen of it.
struct Contender {
    rival: &'static Rival,
    command: Vec<String>,
    /// By measure; of latency the 99th percentile has a row of its own.
    seen: BTreeMap<&'static str, Vec<f64>>,
}

pub(crate) fn run(wishes: &Wishes) -> Result<(), Failure> {
    let url = env::var("PUNCTUAL_TEST_POSTGRES")
        .map_err(|_| "run `cargo xtask prove peers`, or set PUNCTUAL_TEST_POSTGRES")?;
    let directory = match &wishes.directory {
        Some(directory) => directory.clone(),
        None => env::current_exe()?
            .ancestors()
            .nth(2)
            .ok_or("target directory not found")?
            .join("peers"),
    };
    let mut built = Built::new(directory)?;
    let (mut contenders, mut amiss) = (Vec::new(), Vec::new());
    for rival in RIVALS.iter().filter(|rival| wishes.want(rival)) {
        match built.command(rival.harness) {
            Ok(command) => contenders.push(Contender { rival, command, seen: BTreeMap::new() }),
            Err(why) => amiss.push(format!("{}: not built: {why}", rival.name)),
        }
    }
    let not_built = amiss.len();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut loads = Vec::new();
    let server = runtime.block_on(async {
        let server = Server { admin: connect(&url).await?, url };
        for round in 1..=wishes.rounds {
            loads.push(load());
            // All of them drain, then all write: what is compared is measured close together.
            for measure in MEASURES.iter().filter(|measure| wishes.measures(measure)) {
                for contender in contenders.iter_mut().filter(|one| one.has(measure)) {
                    amiss.extend(contender.measure(&server, measure, round).await?);
                }
            }
        }
        if wishes.measures("idle") {
            amiss.extend(watch_idle(&server, &mut contenders).await?);
        }
        server.about().await
    })?;

    print_table(&contenders);
    for line in &amiss {
        eprintln!("{line}");
    }
    let has_all = |contender: &Contender| {
        let wanted = MEASURES.iter().filter(|one| wishes.measures(one) && contender.has(one));
        wanted.into_iter().all(|measure| contender.seen.contains_key(measure))
    };
    let ours = contenders.iter().find_map(|one| one.ours().then(|| one.median("drain")).flatten());
    let peers: Vec<Value> = contenders.iter().map(|one| one.json(ours)).collect();
    tell(
        "peers",
        json!({"server": server, "rounds": wishes.rounds, "load_at_rounds": loads, "peers": peers, "problems": amiss}),
    )?;
    match (not_built, contenders.iter().all(has_all)) {
        (_, false) => Err("some peers could not be measured, see above".into()),
        (1.., true) if wishes.only.is_empty() => Err("some peers were not built, see above".into()),
        _ => Ok(()),
    }
}

impl Wishes {
    fn want(&self, rival: &Rival) -> bool {
        self.only.is_empty() || self.only.iter().any(|start| rival.name.starts_with(start))
    }

    fn measures(&self, measure: &str) -> bool {
        self.measures.is_empty() || self.measures.iter().any(|wanted| wanted == measure)
    }
}

/// How many processes wanted to run in the last minute: it tells a quiet machine from a busy one.
fn load() -> Option<f64> {
    let loads = std::fs::read_to_string("/proc/loadavg").ok()?;
    loads.split(' ').next()?.parse().ok()
}

/// The server, and databases in it.
struct Server {
    admin: Client,
    url: String,
}

impl Server {
    /// An empty database; nobody pays for pages that another one left to be written.
    async fn fresh(&self, name: &str) -> Result<String, Failure> {
        self.drop(name).await?;
        self.admin.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        self.admin.batch_execute("CHECKPOINT").await?;
        let server = self.url.rsplit_once('/').ok_or("the URL has no database name")?.0;
        Ok(format!("{server}/{name}"))
    }

    async fn drop(&self, name: &str) -> Result<(), Failure> {
        let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
        Ok(self.admin.batch_execute(&drop).await?)
    }

    /// What matters about it.
    async fn about(&self) -> Result<Value, Failure> {
        let ask = "SELECT name, setting FROM pg_settings \
                   WHERE name IN ('server_version', 'fsync', 'synchronous_commit')";
        let rows = self.admin.query(ask, &[]).await?;
        let pair = |row: &tokio_postgres::Row| (row.get::<_, String>(0), row.get::<_, String>(1));
        Ok(rows.iter().map(pair).collect())
    }
}

impl Contender {
    fn ours(&self) -> bool {
        self.rival.name == OURS
    }

    fn start(&self, url: &str, measure: &str) -> Command {
        let rival = self.rival;
        let (jobs, concurrency) = match measure {
            "drain" => (rival.jobs, rival.busy),
            "bulk" => (BULK_JOBS, rival.idle),
            _ => (0, rival.idle),
        };
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).arg(measure);
        command.args([jobs.to_string(), concurrency.to_string()]);
        command.args((!rival.variant.is_empty()).then_some(rival.variant));
        command.env("DATABASE_URL", url).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    fn has(&self, measure: &str) -> bool {
        self.rival.measures.contains(&measure)
    }

    /// Measures once, and says what went wrong.
    async fn measure(
        &mut self,
        server: &Server,
        measure: &'static str,
        round: usize,
    ) -> Result<Option<String>, Failure> {
        let name = self.rival.name;
        let url = server.fresh("peers").await?;
        let amiss = match once(self.start(&url, measure)).await {
            Ok(said) => {
                eprintln!("{round} {name}: {measure} {said}");
                for (row, field) in [(measure, "value"), ("p99", "p99")] {
                    if let Some(value) = said[field].as_f64() {
                        self.seen.entry(row).or_default().push(value);
                    }
                }
                let again = said["again"].as_u64().filter(|again| *again > 0);
                again.map(|again| format!("{name}: {measure} {round}: {again} jobs ran again"))
            }
            Err(why) => {
                eprintln!("{round} {name}: {measure}: {why}");
                Some(format!("{name}: {measure} {round}: {why}"))
            }
        };
        server.drop("peers").await?;
        Ok(amiss)
    }

    fn median(&self, measure: &str) -> Option<f64> {
        let mut seen = self.seen.get(measure)?.clone();
        seen.sort_by(f64::total_cmp);
        seen.get(seen.len() / 2).copied()
    }

    /// How many times its drain ours is.
    fn times(&self, ours: Option<f64>) -> Option<f64> {
        Some(ours? / self.median("drain").filter(|_| !self.ours())?)
    }

    fn json(&self, ours: Option<f64>) -> Value {
        let round = |value: f64| (value * 100.0).round() / 100.0;
        let Rival { name, history, jobs, .. } = self.rival;
        let mut said = json!({"name": name, "history": history.word(), "jobs": jobs});
        for measure in MEASURES.iter().chain(&["p99", "idle"]) {
            said[*measure] = self.median(measure).map(round).into();
        }
        said["drains"] =
            self.seen.get("drain").into_iter().flatten().map(|rate| rate.round()).collect();
        if let Some(times) = self.times(ours) {
            said["ours_is_times"] = round(times).into();
            said["goal"] = history.goal().into();
        }
        said
    }
}

/// Runs a harness to its end; the last line that it prints is what it says.
async fn once(mut command: Command) -> Result<Value, Failure> {
    let output =
        timeout(RUN_MAX, command.output()).await.map_err(|_| "the process does not end")??;
    let said = String::from_utf8_lossy(&output.stdout);
    match said.lines().last().and_then(|line| serde_json::from_str(line).ok()) {
        Some(said) if output.status.success() => Ok(said),
        _ => {
            let why = String::from_utf8_lossy(&output.stderr);
            let tail = why.char_indices().rev().nth(399).map_or(0, |(at, _)| at);
            Err(format!("{}: {}", output.status, why[tail..].trim()).into())
        }
    }
}

/// Transactions per second of workers that have nothing to do, all side by side.
async fn watch_idle(server: &Server, all: &mut [Contender]) -> Result<Vec<String>, Failure> {
    let mut running: Vec<Result<Child, Failure>> = Vec::new();
    for (number, contender) in all.iter().enumerate() {
        let url = server.fresh(&format!("idle{number}")).await?;
        running.push(ready(contender.start(&url, "idle")).await);
    }
    let count = async || -> Result<BTreeMap<String, i64>, Failure> {
        let ask = "SELECT datname::text, xact_commit + xact_rollback FROM pg_stat_database \
                   WHERE datname LIKE 'idle%'";
        Ok(server.admin.query(ask, &[]).await?.iter().map(|row| (row.get(0), row.get(1))).collect())
    };
    System.sleep(SETTLE).await;
    let (before, start) = (count().await?, System.elapsed());
    System.sleep(WATCH).await;
    let (after, took) = (count().await?, (System.elapsed() - start).as_secs_f64());
    let mut amiss = Vec::new();
    for (number, (contender, child)) in all.iter_mut().zip(running).enumerate() {
        let database = format!("idle{number}");
        let ended = match child {
            Ok(mut child) => child.try_wait()?.map(|status| status.to_string()),
            Err(why) => Some(why.to_string()),
        };
        match ended {
            None => {
                let transactions = (after[&database] - before[&database]) as f64;
                contender.seen.entry("idle").or_default().push(transactions / took);
            }
            Some(why) => amiss.push(format!("{}: idle: {why}", contender.rival.name)),
        }
        server.drop(&database).await?;
    }
    Ok(amiss)
}

/// Starts an idle worker and waits until it says that it is one.
async fn ready(mut command: Command) -> Result<Child, Failure> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let wait = async {
        while let Some(line) = lines.next_line().await? {
            if line == "READY" {
                return Ok::<(), Failure>(());
            }
        }
        Err("the process ended before it was ready".into())
    };
    timeout(Duration::from_secs(60), wait)
        .await
        .unwrap_or_else(|_| Err("the process did not become ready".into()))?;
    Ok(child)
}

fn print_table(contenders: &[Contender]) {
    let ours = contenders.iter().find(|one| one.ours()).and_then(|ours| ours.median("drain"));
    let heads =
        ["drain/s", "ours is", "bulk/s", "enqueue ×1/s", "×8/s", "pickup ms", "p99", "idle tx/s"];
    eprint!("\n{:<24}{:<9}", "", "history");
    heads.iter().for_each(|head| eprint!("{head:>13}"));
    eprintln!();
    for one in contenders {
        eprint!("{:<24}{:<9}", one.rival.name, one.rival.history.word());
        let number = |value: Option<f64>, digits| {
            value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
        };
        let times = one.times(ours).map_or("–".to_owned(), |times| format!("{times:.1}×"));
        let rates = ["bulk", "enqueue1", "enqueue8"].map(|measure| number(one.median(measure), 0));
        let pickups = ["latency", "p99", "idle"].map(|measure| number(one.median(measure), 1));
        for cell in [number(one.median("drain"), 0), times].iter().chain(&rates).chain(&pickups) {
            eprint!("{cell:>13}");
        }
        eprintln!();
    }
}
