//! How long after its slot a decision is written, by an engine as it is without any settings whose
//! jobs do nothing.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_engine::{Env, System};
use punctual_store::{At, Store};

use super::lot::{Lot, daily, each_second, second_after};
use super::{grouped, table};
use crate::Failure;
use crate::databases::Databases;
use crate::measure::Times;
use crate::queue::{counts_to, start, stop};
use crate::report::{Figure, Goal, Unit};

/// Schedules that are due on every second.
const EACH_SECOND: usize = 10;
/// How far ahead the first slot lies: until then the engine leads, and what it does at first is done.
const AHEAD: Duration = Duration::from_secs(4);
/// How long is waited at most until a second is decided.
const LONGEST: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A few schedules, second by second.
pub(crate) async fn quiet(databases: &Databases, seconds: u32) -> Result<Vec<Figure>, Failure> {
    let lot = Lot::of(0, EACH_SECOND, each_second());
    let wanted = EACH_SECOND * seconds as usize;
    let (late, timer) = late(databases, &lot, wanted).await?;
    let name = |what| format!("lateness, {EACH_SECOND} schedules every second, {what}");
    let timers = |what| format!("lateness of a plain timer, {what}");
    Ok(vec![
        Figure::alone(name("median"), Unit::Millis, late.median),
        Figure::alone(name("p99"), Unit::Millis, late.p99).goal(Goal::AtMost(20.0)),
        Figure::alone(timers("median"), Unit::Millis, timer.median),
        Figure::alone(timers("p99"), Unit::Millis, timer.p99),
    ])
}

/// Many schedules on one and the same second.
pub(crate) async fn burst(databases: &Databases, count: usize) -> Result<Vec<Figure>, Failure> {
    let lot = Lot::of(0, count, daily(System.wall()));
    let (late, _) = late(databases, &lot, count).await?;
    let name = |what| format!("lateness, {} schedules in the same second, {what}", grouped(count));
    let goal = (count == 10_000).then_some(Goal::AtMost(2_000.0));
    Ok(vec![
        Figure::alone(name("median"), Unit::Millis, late.median),
        Figure::alone(name("p99"), Unit::Millis, late.p99).goal(goal),
        Figure::alone(name("last"), Unit::Millis, late.max),
    ])
}

/// Lets an engine decide so many slots of a lot, and reads the ledger. Beside it, how late a bare timer
/// is.
async fn late(databases: &Databases, lot: &Lot, wanted: usize) -> Result<(Times, Times), Failure> {
    let database = databases.fresh(&format!("late_{}", lot.count)).await?;
    let table = table::open(&database).await?;
    table.fill(lot).await?;
    database.rest().await?;
    let first = second_after(table.now().await?, AHEAD);
    if table.stage(lot, 0, first).await? != lot.count {
        return Err(format!("not all of {} were made due", lot.about()).into());
    }
    let store = database.store().await?;
    let engine = start(store.clone(), counts_to(usize::MAX, Arc::default())).await?;
    let seconds = u64::try_from(wanted.div_ceil(lot.count))?;
    let timer = timer(&*store, first, seconds).await?;
    let mut waited = Duration::ZERO;
    let mut late = table.late(lot, first).await?;
    while late.len() < wanted && waited < LONGEST {
        System.sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
        late = table.late(lot, first).await?;
    }
    stop(&engine).await;
    match late.len() < wanted {
        true => Err(format!("only {} slots were decided for {}", late.len(), lot.about()).into()),
        false => Ok((Times::of(late), Times::of(timer))),
    }
}

/// How late somebody is who sleeps until the middle of each second and then asks for the time: what the
/// machine and a call add, whoever it is.
async fn timer(
    store: &dyn Store,
    first: Timestamp,
    seconds: u64,
) -> Result<Vec<Duration>, Failure> {
    let mut late = Vec::new();
    for second in 0..seconds {
        let middle = first + Duration::from_millis(1_000 * second + 500);
        System.sleep(middle.since(store.now(At::Database).await?)).await;
        late.push(store.now(At::Database).await?.since(middle));
    }
    Ok(late)
}
