//! What a bench has found: figures beside their yardsticks and goals, as a table or as JSON.

use serde_json::json;

use crate::databases::{Databases, Manner};
use crate::measure::median;
use crate::{Failure, tell};

/// One figure.
pub(crate) struct Figure {
    name: String,
    unit: Unit,
    /// What it is compared with, in the same run.
    yardstick: Option<f64>,
    ours: f64,
    ratio: Option<f64>,
    goal: Option<Goal>,
}

#[derive(Clone, Copy)]
pub(crate) enum Unit {
    PerSecond,
    Millis,
    Bytes,
    Commits,
    /// Of one core.
    Percent,
    Rows,
}

/// What the ratio to the yardstick should be, or the figure itself if it has none.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Unit {
    fn as_str(self) -> &'static str {
        match self {
            Unit::PerSecond => "/s",
            Unit::Millis => "ms",
            Unit::Bytes => "bytes",
            Unit::Commits => "commits",
            Unit::Percent => "%",
            Unit::Rows => "rows",
        }
    }
}

impl Goal {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Goal::AtLeast(least) => value >= least,
            Goal::AtMost(most) => value <= most,
        }
    }

    fn text(self) -> String {
        match self {
            Goal::AtLeast(least) => format!("≥ {least}"),
            Goal::AtMost(most) => format!("≤ {most}"),
        }
    }
}

impl Figure {
    /// A figure beside its yardstick.
    pub(crate) fn of(name: impl Into<String>, unit: Unit, yardstick: f64, ours: f64) -> Figure {
        let ratio = Some(ours / yardstick);
        Figure { name: name.into(), unit, yardstick: Some(yardstick), ours, ratio, goal: None }
    }

    /// Rates that were measured in turns. What counts is the median of the ratios of turns that
    /// followed each other: what else the machine did changes from minute to minute.
    pub(crate) fn in_turns(name: impl Into<String>, yardstick: &[f64], ours: &[f64]) -> Figure {
        let ratios: Vec<f64> = ours.iter().zip(yardstick).map(|(ours, of)| ours / of).collect();
        let ratio = Some(median(&ratios));
        let figure = Figure::of(name, Unit::PerSecond, median(yardstick), median(ours));
        Figure { ratio, ..figure }
    }

    /// A figure that stands for itself.
    pub(crate) fn alone(name: impl Into<String>, unit: Unit, ours: f64) -> Figure {
        Figure { name: name.into(), unit, yardstick: None, ours, ratio: None, goal: None }
    }

    pub(crate) fn goal(mut self, goal: impl Into<Option<Goal>>) -> Figure {
        self.goal = goal.into();
        self
    }

    fn is_met(&self) -> Option<bool> {
        self.goal.map(|goal| goal.is_met_by(self.ratio.unwrap_or(self.ours)))
    }

    fn json(&self) -> serde_json::Value {
        json!({"figure": self.name, "unit": self.unit.as_str(), "yardstick": self.yardstick.map(rounded), "ours": rounded(self.ours),
            "ratio": self.ratio.map(rounded), "goal": self.goal.map(Goal::text), "met": self.is_met()})
    }

    fn line(&self) -> String {
        let value = |value: f64| format!("{} {}", shown(value), self.unit.as_str());
        let mark = if self.is_met() == Some(false) { "  short" } else { "" };
        format!(
            "{:<58} {:>16} {:>16} {:>7} {:>7}{mark}",
            self.name,
            self.yardstick.map(value).unwrap_or_default(),
            value(self.ours),
            self.ratio.map(|ratio| format!("{ratio:.2}×")).unwrap_or_default(),
            self.goal.map(Goal::text).unwrap_or_default()
        )
    }
}

fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

fn shown(value: f64) -> String {
    match value {
        0.0..0.1 => format!("{value:.4}"),
        0.1..100.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}

/// Prints the figures of a bench, which are those of this proof; `size` says how large it was.
pub(crate) fn print(
    databases: &Databases,
    proof: &'static str,
    size: &serde_json::Value,
    figures: &[Figure],
    as_json: bool,
) -> Result<(), Failure> {
    let Manner { title, backend, .. } = databases.manner();
    let about = databases.about();
    if as_json {
        let figures: Vec<_> = figures.iter().map(Figure::json).collect();
        return tell(
            proof,
            json!({"backend": backend, "database": about, "size": size, "figures": figures}),
        );
    }
    println!("{title} {about}");
    println!("{:<58} {:>16} {:>16} {:>7} {:>7}", "", "yardstick", "ours", "is", "goal");
    for figure in figures {
        println!("{}", figure.line());
    }
    Ok(())
}
