//! What one may ask of an expression, from flags or from a line of JSON.

use clap::{Args, ValueEnum};
use jiff::civil::{Date, DateTime};
use punctual_core::{DstFold, DstGap, Spec, Timestamp, When, Zone};
use serde::Deserialize;

use crate::{Failure, output};

/// The most due times of one answer. A list that long is no longer for reading, and without a
/// bound a slip of the finger would fill the disk.
const COUNT_MAX: usize = 10_000;
const COUNT: usize = 5;

/// How an expression is to be read, and which of its times to list.
#[derive(Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    /// Zone of the wall clock, by IANA name
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    #[serde(default = "utc")]
    tz: String,

    /// List times after this instant (RFC 3339), or after this local date or time [default: now]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,

    /// How many times to list
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = COUNT)]
    #[serde(rename = "n", default = "usual_count")]
    count: usize,

    /// Name of the schedule, which `H` in the expression is spread by
    #[arg(long)]
    name: Option<String>,

    /// What becomes of local times that a clock change skips [default: by the kind of expression]
    #[arg(long, value_name = "RULE")]
    dst_gap: Option<Gap>,

    /// What becomes of local times that a clock change repeats [default: by the kind of expression]
    #[arg(long, value_name = "RULE")]
    dst_fold: Option<Fold>,
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
    /// One slot at the end of the gap
    End,
    /// No slot
    Skip,
}

#[derive(Clone, Copy, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Fold {
    /// The first time only
    First,
    /// The second time only
    Second,
    /// Each time
    Both,
}

/// A question that makes sense.
pub(crate) struct Asked {
    pub(crate) spec: Spec,
    pub(crate) from: Timestamp,
    pub(crate) count: usize,
}

impl Asked {
    /// The rule that was asked about.
    pub(crate) fn when(&self) -> &When {
        &self.spec.whens()[0]
    }

    /// The answer: slots strictly after `from`.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Timestamp> {
        let just_after = Timestamp::from_micros(self.from.as_micros() + 1);
        self.spec.slots(just_after, Timestamp::MAX, self.count)
    }
}

/// What is wrong with a question: in full for a person, in one line for a program.
pub(crate) struct Unasked {
    pub(crate) report: String,
    pub(crate) line: String,
}

impl From<String> for Unasked {
    fn from(message: String) -> Unasked {
        Unasked { report: message.clone(), line: message }
    }
}

impl From<Unasked> for Failure {
    fn from(unasked: Unasked) -> Failure {
        Failure::usage(unasked.report)
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
            report: error.report().to_string(),
            line: error.to_string(),
        })?;
        let zone = Zone::get(&self.tz).map_err(|error| Unasked {
            report: format!(
                "{error}\n  --tz {}\n       {}",
                error.name(),
                "^".repeat(error.name().chars().count().max(1))
            ),
            line: error.to_string(),
        })?;
        if self.count > COUNT_MAX {
            return Err(format!(
                "{} times are too many to list; the most is {COUNT_MAX}",
                self.count
            )
            .into());
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
        Ok(Asked { spec, from, count: self.count })
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
                format!("from: {error}, or as a local date or time such as 2027-03-28T03:00").into()
            }
            Ok(_) => "from: out of range".to_owned().into(),
        }),
    }
}
