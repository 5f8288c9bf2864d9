//! Fires of the scheduler beside those of the bare statement: the store's own `fire` of plans that are
//! ready, as many at once, on a table of the same size, with nothing around it.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::NodeId;
use punctual_engine::steps::Steps;
use punctual_engine::{Env, System};
use punctual_store::{At, Store};

use super::grouped;
use super::lot::{Lot, daily};
use super::ready::Bare;
use super::table::{self, Table};
use crate::databases::{Database, Databases};
use crate::measure::{median, now};
use crate::report::{Figure, Goal, Unit};
use crate::{Failure, node_info};

/// Turns that are counted; one more warms caches.
const TURNS: usize = 5;
/// How long a node may take until it leads.
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) async fn figure(
    databases: &Databases,
    schedules: usize,
    due: usize,
) -> Result<Figure, Failure> {
    let (bare_place, our_place) = (databases.fresh("bare").await?, databases.fresh("ours").await?);
    let (bare_table, our_table) = (table::open(&bare_place).await?, table::open(&our_place).await?);
    let definition = daily(our_table.now().await?);
    let stride = (schedules / due.max(1)).max(1);
    let lot = Lot { number: 0, count: schedules, definition, stride, classes: TURNS + 1 };
    bare_table.fill(&lot).await?;
    our_table.fill(&lot).await?;
    let (bare_store, our_store) = (bare_place.store().await?, our_place.store().await?);
    let bare = Bare::lead(&*bare_store, &lot).await?;
    let mut steps = follower(our_store).await?;
    let [mut bare_rates, mut our_rates] = [const { Vec::new() }; 2];
    for class in 0..=TURNS {
        let per_second = |count: usize, time: Duration| count as f64 / time.as_secs_f64();
        let slot = stage(&bare_place, &*bare_table, &lot, class).await?;
        let plans = bare.plans(class, slot)?;
        let started = now();
        bare.fire(&plans).await?;
        let bare_rate = per_second(plans.len(), started.elapsed());
        stage(&our_place, &*our_table, &lot, class).await?;
        lead(&mut steps).await?;
        let started = now();
        let decided = steps.fire().await?;
        let our_rate = per_second(decided, started.elapsed());
        if decided != plans.len() {
            return Err(format!("{decided} of {} schedules were decided", plans.len()).into());
        }
        if class > 0 {
            bare_rates.push(bare_rate);
            our_rates.push(our_rate);
        }
    }
    let name =
        format!("fires with {} schedules, compared with the bare store.fire", grouped(schedules));
    Ok(Figure::of(name, Unit::PerSecond, median(&bare_rates), median(&our_rates))
        .goal(Goal::AtLeast(0.7)))
}

/// Makes a class due since the last second.
async fn stage(
    place: &Database,
    table: &dyn Table,
    lot: &Lot,
    class: usize,
) -> Result<punctual_core::Timestamp, Failure> {
    let slot = punctual_core::Timestamp::from_seconds(table.now().await?.floor_seconds());
    table.stage(lot, class, slot).await?;
    place.rest().await?;
    Ok(slot)
}

/// A node that fires schedules and does nothing else.
pub(crate) async fn follower(store: Arc<dyn Store>) -> Result<Steps, Failure> {
    let system: Arc<dyn Env> = Arc::new(System);
    let node = NodeId::mint(system.wall(), system.seed());
    store.join(At::Database, &node_info(node)).await?;
    Ok(Steps::new(system, store, node))
}

/// Lets it lead.
pub(crate) async fn lead(steps: &mut Steps) -> Result<(), Failure> {
    let started = now();
    loop {
        steps.live().await?;
        if steps.term().is_some() {
            return Ok(());
        }
        if started.elapsed() > LONGEST {
            return Err("the node did not become the leader".into());
        }
        System.sleep(Duration::from_millis(100)).await;
    }
}
