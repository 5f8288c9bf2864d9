//! What a node costs that leads a million schedules of which none is due, beside one that leads none.

use std::time::Duration;

use super::lot::{Lot, daily};
use super::{grouped, table};
use crate::Failure;
use crate::databases::Databases;
use crate::queue::watch;
use crate::report::{Figure, Goal, Unit};

pub(crate) async fn figures(
    databases: &Databases,
    schedules: usize,
    watched: Duration,
) -> Result<Vec<Figure>, Failure> {
    let none = watch(databases, &databases.fresh("none").await?, 1, watched).await?;
    let database = databases.fresh("many").await?;
    let table = table::open(&database).await?;
    table.fill(&Lot::of(0, schedules, daily(table.now().await?))).await?;
    drop(table);
    database.rest().await?;
    let many = watch(databases, &database, 1, watched).await?;
    let who = format!("idle with {} schedules", grouped(schedules));
    let cpu = Figure::alone(format!("{who}: share of a core"), Unit::Percent, many.cpu * 100.0);
    let calls = format!("{who}: store calls, compared with no schedules");
    let mut figures = vec![
        cpu.goal(Goal::AtMost(1.0)),
        Figure::of(calls, Unit::PerSecond, none.calls, many.calls).goal(Goal::AtMost(1.25)),
    ];
    if let Databases::Postgres(_) = databases {
        let name = format!("{who}: transactions, compared with no schedules");
        let commits = Figure::of(name, Unit::PerSecond, none.commits, many.commits);
        figures.push(commits.goal(Goal::AtMost(1.25)));
    }
    Ok(figures)
}
