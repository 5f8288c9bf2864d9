//! What one may ask of an expression, from flags or from a line of JSON.

use clap::{Args, ValueEnum};
use jiff::civil::{Date, DateTime};
use punctual_core::schedule::{Definition, OnExcluded, Rule};
use punctual_core::{DstFold, DstGap, Spec, Timestamp, When, Zone};
use serde::Deserialize;

use crate::exclude::ExcludeArgs;
use crate::{Failure, output};

/// The most due times of one answer. A list that long is no longer for reading, and without a
/// bound a slip of the finger would fill the disk.
const COUNT_MAX: usize = 10_000;
const COUNT: usize = 5;

/// How an expression is to be read, and which of its times to list.
#[derive(Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    /// IANA time zone
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    #[serde(default = "utc")]
    tz: String,

    /// List times after this time (RFC 3339), or after this local date or time [default: now]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,

    /// Number of times to list, at most 10000
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = COUNT)]
    #[serde(rename = "n", default = "usual_count")]
    count: usize,

    /// Schedule name, from which the values of `H` fields are derived
    #[arg(long)]
    name: Option<String>,

    /// Policy for local times that a clock change skips: end (one slot at the end of the gap) or skip
    /// (no slot) [default: depends on the expression]
    #[arg(long, value_name = "POLICY", hide_possible_values = true)]
    dst_gap: Option<Gap>,

    /// Policy for local times that a clock change repeats: first, second or both [default: depends on
    /// the expression]
    #[arg(long, value_name = "POLICY", hide_possible_values = true)]
    dst_fold: Option<Fold>,

    #[command(flatten)]
    #[serde(skip)]
    exclude: ExcludeArgs,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn usual_count() -> usize {
    COUNT
}

#[derive(Clone, Copy, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Gap {
    End,
    Skip,
}

#[derive(Clone, Copy, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Fold {
    First,
    Second,
    Both,
}

impl Gap {
    fn word(self) -> &'static str {
        match self {
            Gap::End => "end",
            Gap::Skip => "skip",
        }
    }
}

impl Fold {
    fn word(self) -> &'static str {
        match self {
            Fold::First => "first",
            Fold::Second => "second",
            Fold::Both => "both",
        }
    }
}

/// A question that makes sense.
pub(crate) struct Asked {
    pub(crate) spec: Spec,
    pub(crate) from: Timestamp,
    pub(crate) count: usize,
    /// What the calendar makes of it, if there is one; its spec is the one above.
    pub(crate) rule: Option<Rule>,
}

impl Asked {
    /// The rule that was asked about.
    pub(crate) fn when(&self) -> &When {
        &self.spec.whens()[0]
    }

    /// The answer: slots strictly after `from`, without those that are excluded.
    pub(crate) fn slots(&self) -> Box<dyn Iterator<Item = Timestamp> + '_> {
        match &self.rule {
            None => Box::new(self.spec.slots(self.just_after(), Timestamp::MAX, self.count)),
            Some(rule) => {
                let next = std::iter::successors(rule.next(self.from), |slot| rule.next(*slot));
                Box::new(next.take(self.count))
            }
        }
    }

    /// The first instant that may be a slot of the answer.
    pub(crate) fn just_after(&self) -> Timestamp {
        Timestamp::from_micros(self.from.as_micros() + 1)
    }

    /// What a person should know before relying on it.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.spec.warnings(self.from);
        let never = self.rule.as_ref().is_some_and(|rule| rule.next(self.from).is_none());
        if never && self.spec.never_fires(self.from).is_none() {
            warnings.push("never fires: every slot is excluded".to_owned());
        }
        warnings
    }
}

/// What is wrong with a question: in full for a person, in one line for a program.
pub(crate) struct Unasked {
    pub(crate) report: String,
    pub(crate) hint: Option<String>,
    pub(crate) line: String,
}

impl From<String> for Unasked {
    fn from(message: String) -> Unasked {
        Unasked { report: message.clone(), hint: None, line: message }
    }
}

impl From<Failure> for Unasked {
    fn from(failure: Failure) -> Unasked {
        failure.text().into()
    }
}

impl From<Unasked> for Failure {
    fn from(unasked: Unasked) -> Failure {
        let failure = Failure::usage(unasked.report);
        match unasked.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl Options {
    /// Understands the question, or says what is wrong with it.
    pub(crate) fn ask(&self, expression: &str) -> Result<Asked, Unasked> {
        let when = match &self.name {
            Some(name) => When::parse_named(expression, name),
            None => When::parse(expression),
        };
        let when = when.map_err(|error| Unasked {
            report: error.marked().to_string(),
            hint: error.hint().map(str::to_owned),
            line: error.to_string(),
        })?;
        let zone = Zone::get(&self.tz).map_err(|error| Unasked {
            report: format!(
                "{error}\n  --tz {}\n       {}",
                error.name(),
                "^".repeat(error.name().chars().count().max(1))
            ),
            hint: None,
            line: error.to_string(),
        })?;
        if self.count > COUNT_MAX {
            return Err(format!("too many times: {}, maximum {COUNT_MAX}", self.count).into());
        }
        let from = match &self.from {
            Some(text) => instant(text, &zone)?,
            None => output::now(),
        };
        let mut spec = Spec::new(when, zone);
        if let Some(gap) = self.dst_gap {
            spec = spec.dst_gap(match gap {
                Gap::End => DstGap::End,
                Gap::Skip => DstGap::Skip,
            });
        }
        if let Some(fold) = self.dst_fold {
            spec = spec.dst_fold(match fold {
                Fold::First => DstFold::First,
                Fold::Second => DstFold::Second,
                Fold::Both => DstFold::Both,
            });
        }
        let rule = self.rule(expression)?;
        let spec = rule.as_ref().map_or(spec, |rule| rule.spec.clone());
        Ok(Asked { spec, from, count: self.count, rule })
    }

    /// The rule of a schedule with this expression and calendar, if there is one.
    fn rule(&self, expression: &str) -> Result<Option<Rule>, Unasked> {
        if self.exclude.is_empty() {
            return Ok(None);
        }
        let on_excluded = self.exclude.on_excluded.as_deref().unwrap_or("skip");
        let definition = Definition {
            tz: self.tz.clone(),
            seconds: true,
            dst_gap: self.dst_gap.map(|gap| gap.word().to_owned()),
            dst_fold: self.dst_fold.map(|fold| fold.word().to_owned()),
            exclude: self.exclude.entries()?,
            on_excluded: on_excluded
                .parse::<OnExcluded>()
                .map_err(|error| Unasked::from(format!("--on-excluded: {error}")))?,
            ..Definition::new(expression, "")
        };
        let name = self.name.as_deref().unwrap_or_default();
        definition.rule(name).map(Some).map_err(|error| Unasked::from(error.to_string()))
    }
}

/// An instant, or a local date or time of the zone (the earlier one if it happens twice).
fn instant(text: &str, zone: &Zone) -> Result<Timestamp, Unasked> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant);
    }
    let local = text.parse::<DateTime>().or_else(|_| {
        text.parse::<Date>().map(|date| date.to_datetime(jiff::civil::Time::midnight()))
    });
    match local.map(|local| local.to_zoned(zone.to_jiff().clone())) {
        Ok(Ok(zoned)) => Ok(Timestamp::from_jiff(zoned.timestamp())),
        _ => Err(match text.parse::<Timestamp>() {
            Err(error) => {
                format!("from: {error}, or a local date or time such as 2027-03-28T03:00").into()
            }
            Ok(_) => "from: out of range".to_owned().into(),
        }),
    }
}
