//! The dashboard over a database with a long history: how long the server takes for each page, and how
//! many bytes go to the browser.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::Request;
use punctual::Punctual;
use punctual_core::job::{AttemptOutcome, LogLevel, Next, SlotOutcome, Transition};
use punctual_core::schedule::{Definition, ON_TIME, Overlap};
use punctual_core::{JobId, NodeId, ScheduleId, Timestamp};
use punctual_server::{Server, Token};
use punctual_store::{
    Acquired, Actor, At, ClaimAsk, Fence, Json, LogLine, NewJob, NewSchedule, NodeInfo, Origin,
    QueueShare, RollupCount, Schedule, Settlement, SlotDecision, SlotPlan, SlotRow, Store, limits,
};
use serde_json::json;
use tower::ServiceExt;

use crate::database::{Database, Kind, Own};
use crate::ids::Ids;
use crate::peer::connect;
use crate::{Failure, tell};

/// The token of the server, as a client sends it.
const BEARER: &str = "Bearer a-token-of-the-dashboard-bench";
/// What a page may take of the server's time.
const MILLIS_MAX: u128 = 200;
/// What a page may weigh, compressed.
const BYTES_MAX: usize = 100_000;
/// How often each page is asked for; the slowest counts, but for the first, which opens connections. Each
/// time it is another server that is asked, which has nothing at hand from the time before.
const ROUNDS: usize = 5;
/// How often the first schedule has been due, which is as many slots as its page draws.
const DAYS_MAX: usize = 500;
const DAY: Duration = Duration::from_secs(86_400);
/// The lease of the role under which slots are fired.
const LEASE: Duration = Duration::from_secs(3_600);

/// How much is in the database.
#[derive(clap::Args)]
pub(crate) struct Scale {
    /// Number of jobs
    #[arg(long, default_value_t = 1_000_000)]
    jobs: usize,
    /// Number of decided slots
    #[arg(long, default_value_t = 100_000)]
    slots: usize,
    /// Number of schedules
    #[arg(long, default_value_t = 10_000)]
    schedules: usize,
    /// Skip the time limits, because the host is busy with other tests
    #[arg(long)]
    untimed: bool,
}

/// Fills a database, asks for every page, and says what each took.
pub(crate) fn prove(backend: Kind, scale: &Scale) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(backend, scale))
}

async fn run(backend: Kind, scale: &Scale) -> Result<(), Failure> {
    let own = Own::new(backend, false)?;
    let store = own.database.open().await?;
    let ids = Ids::since(now(), 7);
    let fill = Fill { store: store.clone(), node: ids.node(), ids };
    let sample = fill.all(scale).await?;
    drop(fill);
    drop(store);
    if let Database::Postgres { url, .. } = &own.database {
        settle(url).await?;
    }
    let punctual = match &own.database {
        Database::Sqlite(file) => Punctual::sqlite(file).producer().await?.start().await?,
        Database::Postgres { url, .. } => Punctual::postgres(url).producer().await?.start().await?,
    };
    let rounds = if scale.untimed { 0 } else { ROUNDS };
    let mut pages = Vec::new();
    let mut slow = Vec::new();
    for path in sample.pages() {
        let (millis, bytes) = measure(&punctual, &path, rounds).await?;
        if millis > MILLIS_MAX && !scale.untimed || bytes > BYTES_MAX {
            slow.push(format!("{path}: {millis} ms, {bytes} bytes"));
        }
        pages.push(json!({ "page": path, "ms": millis, "bytes": bytes }));
    }
    let backend = if backend == Kind::Sqlite { "sqlite" } else { "postgres" };
    let Scale { jobs, slots, schedules, .. } = scale;
    tell(
        "dashboard",
        json!({ "backend": backend, "jobs": jobs, "slots": slots, "schedules": schedules, "pages": pages, "ok": slow.is_empty() }),
    )?;
    match slow.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "pages over the limit of {MILLIS_MAX} ms or {BYTES_MAX} bytes: {}",
            slow.join("; ")
        )
        .into()),
    }
}

/// A history of months has been vacuumed; one that was written within a minute has not, and every
/// look at a table wades through what is long gone from it.
async fn settle(url: &str) -> Result<(), Failure> {
    connect(url).await?.batch_execute("VACUUM ANALYZE").await?;
    Ok(())
}

async fn measure(punctual: &Punctual, path: &str, rounds: usize) -> Result<(u128, usize), Failure> {
    let (mut slowest, mut size) = (0, 0);
    for round in 0..=rounds {
        let request =
            Request::get(path).header("accept-encoding", "gzip").header("authorization", BEARER);
        // Only clients with a token receive compressed pages.
        let token = Some(Token::new(&BEARER["Bearer ".len()..])?);
        let router = Server { token, ..Server::new(punctual.clone()) }.router();
        let begun = clock();
        let response = router.oneshot(request.body(Body::empty())?).await?;
        if !response.status().is_success() {
            return Err(format!("{path} returned {}", response.status()).into());
        }
        size = to_bytes(response.into_body(), usize::MAX).await?.len();
        if round > 0 {
            slowest = slowest.max(begun.elapsed().as_millis());
        }
    }
    Ok((slowest, size))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn clock() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the generated history ends at the current time")]
fn now() -> Timestamp {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Timestamp::from_micros(elapsed.map_or(0, |it| i64::try_from(it.as_micros()).unwrap_or(0)))
}

/// Something of each sort to look at.
struct Sample {
    job: JobId,
    schedule: String,
}

impl Sample {
    fn pages(&self) -> Vec<String> {
        let Sample { job, schedule } = self;
        let fixed = [
            "/",
            "/?window=24h",
            "/?window=7d",
            "/schedules",
            "/schedules?q=s-99",
            "/jobs",
            "/jobs?q=state:failed",
            "/jobs?q=state:succeeded",
            "/jobs?q=state:ready",
            "/jobs?q=kind:mail",
            "/jobs?q=kind:none",
            "/timeline",
            "/timeline?by=queue&window=24h",
            "/timeline?by=node",
            "/upcoming",
            "/everything/pause",
            "/operations/schedules/new?action=pause",
            "/queues",
            "/queues/default",
            "/nodes",
            "/activity",
            "/settings",
            "/tools/cron?expr=30+2+*+*+*&tz=Europe/Paris",
        ];
        let own = [
            format!("/jobs/{job}"),
            format!("/schedules/{schedule}"),
            format!("/jobs?q=schedule:{schedule}"),
        ];
        fixed.into_iter().map(str::to_owned).chain(own).collect()
    }
}

/// Whoever writes the history.
struct Fill {
    store: Arc<dyn Store>,
    ids: Ids,
    node: NodeId,
}

impl Fill {
    async fn all(&self, scale: &Scale) -> Result<Sample, Failure> {
        let info = NodeInfo {
            id: self.node,
            name: "bench".to_owned(),
            version: String::new(),
            queues: vec!["default".to_owned()],
            kinds: vec!["mail".to_owned(), "report".to_owned()],
            labels: Vec::new(),
        };
        self.store.join(At::Database, &info).await?;
        let job = self.jobs(scale.jobs).await?;
        self.log(job).await?;
        let each = scale.slots.div_ceil(scale.schedules.max(1)).max(1);
        let schedules = self.schedules(scale.schedules, each).await?;
        self.slots(&schedules, each).await?;
        self.counters().await?;
        let schedule = schedules.first().map(|it| it.name.clone()).unwrap_or_default();
        Ok(Sample { job, schedule })
    }

    /// Jobs, of which nine in ten have ended, one in a hundred badly.
    async fn jobs(&self, count: usize) -> Result<JobId, Failure> {
        let mut last = None;
        for part in 0..count.div_ceil(limits::ENQUEUE_MAX) {
            let job = |number: usize| {
                let kind = if number.is_multiple_of(3) { "report" } else { "mail" };
                let id = self.ids.job();
                Ok(NewJob {
                    max_attempts: 1,
                    ..NewJob::new(id, "default", kind, Json::new(&json!({ "number": number }))?)
                })
            };
            let jobs = (0..limits::ENQUEUE_MAX).map(job).collect::<Result<Vec<_>, Failure>>()?;
            self.store.enqueue(At::Database, &jobs).await?;
            last = jobs.last().map(|job| job.id);
            if part % 10 != 0 {
                self.work().await?;
            }
        }
        last.ok_or_else(|| "the number of jobs must be at least 1".into())
    }

    async fn work(&self) -> Result<(), Failure> {
        for _ in 0..limits::ENQUEUE_MAX / limits::CLAIM_MAX {
            let ask = ClaimAsk {
                node: self.node,
                lease: self.ids.lease(),
                more: Vec::new(),
                queues: vec![QueueShare { name: "default".to_owned(), most: limits::CLAIM_MAX }],
                kinds: vec!["mail".to_owned(), "report".to_owned()],
                most: limits::CLAIM_MAX,
            };
            let claimed = self.store.claim(At::Database, &ask).await?;
            let settle = |(index, job): (usize, &punctual_store::ClaimedJob)| {
                let (outcome, next, error) = match index % 100 {
                    7 => (
                        AttemptOutcome::Failed,
                        Next::Failed,
                        Some(format!("order {index} has no address")),
                    ),
                    _ => (AttemptOutcome::Succeeded, Next::Succeeded, None),
                };
                let transition = Transition { outcome, next, error };
                Settlement {
                    job: job.id,
                    lease: job.lease,
                    transition,
                    result: None,
                    then: Vec::new(),
                }
            };
            let batch: Vec<Settlement> = claimed.jobs.iter().enumerate().map(settle).collect();
            self.store.settle(At::Database, &batch).await?;
        }
        Ok(())
    }

    /// As long a log as one attempt can have.
    async fn log(&self, job: JobId) -> Result<(), Failure> {
        let line = |number: u32| LogLine {
            job,
            attempt: 1,
            number,
            level: LogLevel::Info,
            text: format!("line {number} of what a long command has to say"),
        };
        let lines: Vec<LogLine> = (1..=limits::LOG_NUMBER_MAX).map(line).collect();
        for part in lines.chunks(limits::LOG_LINES_MAX) {
            self.store.write_log(At::Database, part).await?;
        }
        Ok(())
    }

    /// Schedules that have been due daily for `each` days, the first one for [`DAYS_MAX`]; one in a
    /// hundred is due every minute from now on.
    async fn schedules(&self, count: usize, each: usize) -> Result<Vec<Schedule>, Failure> {
        let at = now();
        let mut schedules = Vec::with_capacity(count);
        for number in 0..count {
            let when = match number % 100 {
                99 => "* * * * *".to_owned(),
                _ => format!("{} {} * * *", number % 60, number % 24),
            };
            let days = if number == 0 { DAYS_MAX } else { each };
            let schedule = NewSchedule {
                id: ScheduleId::from_bytes(*self.ids.job().as_bytes()),
                tenant: String::new(),
                name: format!("s-{number:05}"),
                owner: String::new(),
                set: String::new(),
                shard: 0,
                spec: Json::new(&Definition::new(&when, "mail"))?,
                next_slot: Some(at - DAY * u32::try_from(days)?),
                enabled: true,
                actor: Actor::new("bench", ""),
            };
            schedules.push(self.store.create_schedule(At::Database, &schedule).await?);
        }
        Ok(schedules)
    }

    /// All slots until now, of which every other one became no job of its own.
    async fn slots(&self, schedules: &[Schedule], each: usize) -> Result<(), Failure> {
        let nonce = self.ids.nonce();
        let role = "scheduler/0".to_owned();
        let acquired = self.store.acquire(At::Database, &role, self.node, nonce, LEASE).await?;
        let Acquired::Won { term, .. } = acquired else {
            return Err("another node holds the role".into());
        };
        let fence = Fence { role, term, nonce };
        let (first, rest) = schedules.split_at(1.min(schedules.len()));
        let rest = rest.chunks((limits::FIRE_SLOTS_MAX / each).max(1)).map(|part| (part, each));
        for (part, days) in std::iter::once((first, DAYS_MAX)).chain(rest) {
            let plan = |schedule: &Schedule| {
                let first = schedule.next_slot.unwrap_or(schedule.created_at);
                let slot = |index: usize| first + DAY * u32::try_from(index).unwrap_or(0);
                let row = |index: usize| {
                    let is_job = index.is_multiple_of(2);
                    let origin = Origin {
                        schedule: schedule.id,
                        slot: Some(slot(index)),
                        facts: Json::null(),
                    };
                    let job = NewJob {
                        origin: Some(origin),
                        ..NewJob::new(self.ids.job(), "default", "mail", Json::null())
                    };
                    SlotRow {
                        slot: slot(index),
                        end: None,
                        count: 1,
                        outcome: if is_job {
                            SlotOutcome::Fired
                        } else {
                            SlotOutcome::SkippedPaused
                        },
                        reason: (!is_job).then(|| "paused by bench".to_owned()),
                        job: is_job.then_some(job),
                    }
                };
                let slots = (0..days).map(row).collect();
                let decision = SlotDecision::Advance {
                    overlap: Overlap::Allow,
                    slots,
                    next_slot: Some(slot(days)),
                    hold_for: ON_TIME,
                };
                SlotPlan { schedule: schedule.id, stamp: schedule.stamp, decision }
            };
            let plans: Vec<SlotPlan> = part.iter().map(plan).collect();
            let fired = self.store.fire(At::Database, &fence, LEASE, &plans).await?;
            if fired.until.is_none() {
                return Err("the term was lost".into());
            }
        }
        Ok(())
    }

    /// A week of counters, of two kinds in two queues.
    async fn counters(&self) -> Result<(), Failure> {
        let first = now().floor_seconds().div_euclid(60) - 7 * 1_440;
        let metrics =
            ["succeeded", "failed", "took_03", "took_07", "waited_02", "waited_05", "late_04"];
        let mut counts = Vec::new();
        for minute in first..first + 7 * 1_440 {
            for metric in metrics {
                for kind in ["mail", "report"] {
                    counts.push(RollupCount {
                        minute: Timestamp::from_seconds(minute * 60),
                        metric: metric.to_owned(),
                        queue: "default".to_owned(),
                        kind: kind.to_owned(),
                        count: 7,
                        sum: 7_000,
                    });
                }
            }
            if counts.len() > limits::ROLLUP_MAX - 20 {
                self.store.roll_up(&std::mem::take(&mut counts)).await?;
            }
        }
        if !counts.is_empty() {
            self.store.roll_up(&counts).await?;
        }
        Ok(())
    }
}
