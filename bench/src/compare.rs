//! Compares two builds by the figures that a benchmark printed for each of them in turn.
//!
//! Reads one line of JSON per run, `{"build": "old" | "new", "result": …}`, as `cargo xtask prove
//! compare` writes them. Runs are paired in order, so each pair ran under similar conditions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use crate::measure::median;
use crate::{Failure, tell};

/// One run of the benchmark with one build.
#[derive(Deserialize)]
struct Run {
    build: Build,
    result: BenchResult,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Build {
    Old,
    New,
}

#[derive(Deserialize)]
struct BenchResult {
    figures: Vec<RunFigure>,
}

#[derive(Deserialize)]
struct RunFigure {
    figure: String,
    unit: String,
    ours: f64,
}

/// The values of one figure in all runs.
#[derive(Default)]
struct Series {
    unit: String,
    old: Vec<f64>,
    new: Vec<f64>,
}

/// How the new build compares with the old one in one figure.
struct Comparison {
    old: f64,
    new: f64,
    /// Median of the ratios of the pairs; above 1, the new build is better.
    ratio: f64,
    /// Half the distance between the best and the worst ratio of a pair.
    spread: f64,
}

impl Comparison {
    /// Whether the ratio is below the goal by more than the spread of the measurement.
    fn is_miss(&self, goal: f64) -> bool {
        self.ratio + self.spread < goal
    }
}

impl Series {
    /// Rates are better if they are higher; times and sizes if they are lower.
    fn is_rate(&self) -> bool {
        self.unit == "/s"
    }

    /// Numbers of rows, such as lists that were read during a measurement, are neither.
    fn is_comparable(&self) -> bool {
        self.unit != "rows"
    }

    fn compare(&self) -> Option<Comparison> {
        if !self.is_comparable() {
            return None;
        }
        let better = |old: f64, new: f64| if self.is_rate() { new / old } else { old / new };
        let pairs = self.old.iter().zip(&self.new);
        let ratios: Vec<f64> = pairs
            .map(|(old, new)| better(*old, *new))
            .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
            .collect();
        let least = ratios.iter().copied().min_by(f64::total_cmp)?;
        let most = ratios.iter().copied().max_by(f64::total_cmp)?;
        let spread = (most - least) / 2.0;
        let (old, new) = (median(&self.old), median(&self.new));
        Some(Comparison { old, new, ratio: median(&ratios), spread })
    }
}

/// Prints medians, ratios and spreads of the runs in `path`, as a table on stderr and as JSON.
///
/// # Errors
///
/// Fails if the file has no pair of runs with figures, or if a figure misses the goal.
pub(crate) fn run(path: &Path, goal: f64) -> Result<(), Failure> {
    let series = read(&fs::read_to_string(path)?)?;
    let mut misses = Vec::new();
    let mut figures = Vec::new();
    eprintln!("{:<58} {:>14} {:>14} {:>7} {:>7}", "", "old", "new", "ratio", "spread");
    for (name, series) in &series {
        let Some(Comparison { old, new, ratio, spread }) = series.compare() else { continue };
        let is_miss = Comparison { old, new, ratio, spread }.is_miss(goal);
        let mark = if is_miss { "  MISS" } else { "" };
        let unit = &series.unit;
        eprintln!(
            "{name:<58} {old:>11.2} {unit:<2} {new:>11.2} {unit:<2} {ratio:>7.3} {spread:>7.3}{mark}"
        );
        figures.push(json!({"figure": name, "unit": unit, "old": old, "new": new, "ratio": ratio,
            "spread": spread, "is_miss": is_miss}));
        if is_miss {
            misses.push(name.as_str());
        }
    }
    if figures.is_empty() {
        return Err("no pair of runs with figures; use a benchmark that prints `figures`".into());
    }
    tell("compare", json!({"goal": goal, "figures": figures}))?;
    if misses.is_empty() {
        Ok(())
    } else {
        Err(format!("below {goal} beyond the spread: {}", misses.join(", ")).into())
    }
}

fn read(lines: &str) -> Result<BTreeMap<String, Series>, Failure> {
    let mut series: BTreeMap<String, Series> = BTreeMap::new();
    for line in lines.lines() {
        let Run { build, result } = serde_json::from_str(line)?;
        for figure in result.figures {
            let values = series.entry(figure.figure).or_default();
            values.unit = figure.unit;
            match build {
                Build::Old => values.old.push(figure.ours),
                Build::New => values.new.push(figure.ours),
            }
        }
    }
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(unit: &str, old: &[f64], new: &[f64]) -> Comparison {
        let series = Series { unit: unit.to_owned(), old: old.to_vec(), new: new.to_vec() };
        series.compare().unwrap()
    }

    #[test]
    fn a_ratio_above_one_is_better_for_rates_and_times() {
        assert!((series("/s", &[100.0], &[120.0]).ratio - 1.2).abs() < 1e-9);
        assert!((series("ms", &[12.0], &[10.0]).ratio - 1.2).abs() < 1e-9);
    }

    #[test]
    fn numbers_of_rows_are_not_compared() {
        let series = Series { unit: "rows".to_owned(), old: vec![1.0], new: vec![9.0] };
        assert!(series.compare().is_none());
    }

    #[test]
    fn a_miss_is_below_the_goal_beyond_the_spread() {
        assert!(series("/s", &[100.0, 100.0, 100.0], &[90.0, 91.0, 92.0]).is_miss(0.98));
        assert!(!series("/s", &[100.0, 100.0, 100.0], &[90.0, 97.0, 110.0]).is_miss(0.98));
        assert!(!series("/s", &[100.0], &[99.0]).is_miss(0.98));
    }

    #[test]
    fn runs_are_read_by_build() {
        let line = |build: &str, ours: f64| {
            format!(
                r#"{{"build":"{build}","result":{{"proof":"x","figures":[{{"figure":"a","unit":"/s","ours":{ours}}}]}}}}"#
            )
        };
        let text = [line("old", 1.0), line("new", 2.0), line("new", 3.0), line("old", 4.0)];
        let series = read(&text.join("\n")).unwrap();
        assert_eq!((&*series["a"].old, &*series["a"].new), (&[1.0, 4.0][..], &[2.0, 3.0][..]));
    }
}
