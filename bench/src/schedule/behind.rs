//! What lies behind: a year of seconds of one schedule, and one slot of each of a million.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::schedule::{Definition, Missed, plan};
use punctual_engine::{Env, System};

use super::grouped;
use super::lot::{Lot, daily, each_second};
use super::speed::{follower, lead};
use super::table::{self, ON_TIME};
use crate::Failure;
use crate::databases::Databases;
use crate::measure::{Times, now};
use crate::queue::{counts_to, start, stop};
use crate::report::{Figure, Goal, Unit};

const YEAR: Duration = Duration::from_secs(365 * 86_400);
const HOUR: Duration = Duration::from_secs(3_600);
/// How often a year is decided, and one more that warms caches.
const YEARS: usize = 9;
/// Schedules that go on each second beside those that are behind.
const FRESH: usize = 100;
/// How long a backlog is watched at most.
const LONGEST: Duration = Duration::from_secs(900);
/// How long the first slot of the schedules that are on time is waited for after the backlog.
const FIRST_SLOT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A schedule of every second that nobody has looked at for a year, and does not want it back.
pub(crate) async fn year(databases: &Databases) -> Result<Vec<Figure>, Failure> {
    let database = databases.fresh("year").await?;
    let table = table::open(&database).await?;
    let definition = Definition { missed: Missed::None, ..each_second() };
    let classes = YEARS + 1;
    let lot = Lot { number: 0, count: classes, definition, stride: 1, classes };
    table.fill(&lot).await?;
    let mut steps = follower(database.store().await?).await?;
    let (mut passes, mut plans) = (Vec::new(), Vec::new());
    let rule = lot.definition.rule(&lot.name(0))?;
    for class in 0..classes {
        let at = table.now().await?;
        let watermark = Timestamp::from_seconds(at.floor_seconds()) - YEAR;
        let started = now();
        let planned = plan(&rule, &lot.name(class), watermark, None, at);
        plans.push(started.elapsed());
        drop(planned);
        // Those before it would come along with their fresh slots.
        if class > 0 {
            table.stage(&lot, class - 1, at + YEAR).await?;
        }
        table.stage(&lot, class, watermark).await?;
        lead(&mut steps).await?;
        let started = now();
        let decided = steps.fire().await?;
        passes.push(started.elapsed());
        if decided != 1 {
            return Err(format!("{decided} schedules were decided, expected one").into());
        }
    }
    let rows = table.rows_behind(&lot).await? as f64 / classes as f64;
    let (passes, plans) = (Times::of(passes.split_off(1)), Times::of(plans.split_off(1)));
    let name = |what| format!("backlog of one year of seconds: {what}");
    Ok(vec![
        Figure::alone(name("the scheduler pass"), Unit::Millis, passes.median)
            .goal(Goal::AtMost(50.0)),
        Figure::alone(name("planning only"), Unit::Millis, plans.median),
        Figure::alone(name("ledger rows"), Unit::Rows, rows).goal(Goal::AtMost(1.0)),
    ])
}

/// A backlog as one database decided it.
struct Backlog {
    decided: usize,
    took: Duration,
    /// The lateness of the slots that became due in the meantime.
    fresh: Times,
}

/// Many schedules that are an hour behind, and some that stay on time. PostgreSQL is compared with
/// SQLite in the same run.
pub(crate) async fn backlog(databases: &Databases, count: usize) -> Result<Vec<Figure>, Failure> {
    let sqlite = match databases {
        Databases::Sqlite(_) => None,
        Databases::Postgres(_) => {
            let databases = Databases::Sqlite(tempfile::tempdir()?);
            Some(decide_backlog(&databases, count).await?.fresh)
        }
    };
    let ours = decide_backlog(databases, count).await?;
    let name = |what| {
        format!(
            "{} late schedules, with {FRESH} on-time schedules per second: {what}",
            grouped(count)
        )
    };
    let fresh = |what, ours, sqlite: Option<f64>| match sqlite {
        Some(sqlite) => {
            Figure::of(name(what) + " / SQLite", Unit::Millis, sqlite, ours).goal(Goal::AtMost(5.0))
        }
        None => Figure::alone(name(what), Unit::Millis, ours),
    };
    let (median, p99) = (ours.fresh.median, ours.fresh.p99);
    Ok(vec![
        Figure::alone(
            name("fires"),
            Unit::PerSecond,
            ours.decided as f64 / ours.took.as_secs_f64(),
        ),
        Figure::alone(name("whole backlog"), Unit::Millis, ours.took.as_secs_f64() * 1_000.0),
        fresh("on time, median", median, sqlite.as_ref().map(|times| times.median)),
        fresh("on time, p99", p99, sqlite.as_ref().map(|times| times.p99)),
    ])
}

async fn decide_backlog(databases: &Databases, count: usize) -> Result<Backlog, Failure> {
    let database = databases.fresh("backlog").await?;
    let table = table::open(&database).await?;
    let behind = Lot::of(0, count, daily(table.now().await?));
    let fresh = Lot::of(1, FRESH, each_second());
    table.fill(&behind).await?;
    table.fill(&fresh).await?;
    let first = Timestamp::from_seconds(table.now().await?.floor_seconds());
    table.stage(&behind, 0, first - HOUR).await?;
    database.rest().await?;
    let started_at = Timestamp::from_seconds(table.now().await?.ceil_seconds());
    table.stage(&fresh, 0, started_at).await?;
    let engine = start(database.store().await?, counts_to(usize::MAX, Arc::default())).await?;
    let started = now();
    while table.is_behind(first - ON_TIME).await? && started.elapsed() < LONGEST {
        System.sleep(LOOK_EVERY).await;
    }
    let took = started.elapsed();
    let decided = table.rows_behind(&behind).await?;
    let mut late = table.late(&fresh, started_at).await?;
    // A small backlog can be decided before the first second of the others.
    while late.is_empty() && started.elapsed() < took + FIRST_SLOT {
        System.sleep(LOOK_EVERY).await;
        late = table.late(&fresh, started_at).await?;
    }
    stop(&engine).await;
    if late.is_empty() {
        return Err(format!("no slots were decided for {}", fresh.about()).into());
    }
    Ok(Backlog { decided, took, fresh: Times::of(late) })
}
