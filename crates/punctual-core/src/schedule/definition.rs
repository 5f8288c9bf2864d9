//! A schedule as people write it and stores keep it, and the rule that it means.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Missed, NODE_QUEUE, ON_TIME, OnExcluded, Overlap, RunOn};
use crate::job::Backoff;
use crate::{
    Calendar, Cron, DstFold, DstGap, Moved, Spec, Timestamp, When, Window, Zone, format_duration,
    parse_duration,
};

/// All that a schedule is told, in words. Every choice is written down when it is stored, so that
/// another default changes no schedule that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Cron expressions, `@every DURATION` or `@at INSTANT`; at least one.
    pub when: Vec<String>,
    /// The zone in which cron expressions are read.
    #[serde(default = "utc")]
    pub tz: String,
    /// May expressions have a field for seconds?
    #[serde(default)]
    pub seconds: bool,
    /// No slot before this instant.
    #[serde(default)]
    pub start: Option<String>,
    /// No slot after this instant.
    #[serde(default)]
    pub end: Option<String>,
    /// `end` or `skip`; none: as the kind of expression suggests.
    #[serde(default)]
    pub dst_gap: Option<String>,
    /// `first`, `second` or `both`; none: as the kind of expression suggests.
    #[serde(default)]
    pub dst_fold: Option<String>,
    /// Jobs start up to this long after their slot, spread by name.
    #[serde(default = "no_time")]
    pub jitter: String,
    /// What becomes of slots that nobody fired in time.
    #[serde(default = "latest")]
    pub missed: Missed,
    /// How late a slot may be caught up.
    #[serde(default = "a_day")]
    pub missed_window: String,
    /// How many slots are caught up, the newest.
    #[serde(default = "a_hundred")]
    pub missed_limit: u32,
    /// How many jobs a second begin while slots are caught up.
    #[serde(default = "five")]
    pub missed_pace: u32,
    /// Are slots of paused time missed, instead of skipped on purpose?
    #[serde(default)]
    pub missed_paused: bool,
    /// What becomes of a slot while an earlier job is unfinished.
    #[serde(default = "skip")]
    pub overlap: Overlap,
    /// `any`, `every_node`, `node NAME` or `label KEY=VALUE`: which nodes run its jobs. What is as it
    /// always was is not written down, like the choices after it: a definition of an older program is
    /// the same text to this one, and registering it again changes nothing.
    #[serde(default = "any", skip_serializing_if = "is_any")]
    pub run_on: String,
    /// After so many failed jobs in a row the schedule is paused; none: it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_after_failures: Option<u32>,
    /// When it does not fire, in its zone: `2027-12-24`, `2027-12-24..2028-01-02`, `12-25` of every
    /// year, `Sat`, or `Sat 00:00-Mon 06:00`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// `skip` or `next_working_day`: what becomes of a slot that `exclude` has.
    #[serde(default = "leave_out", skip_serializing_if = "is_left_out")]
    pub on_excluded: OnExcluded,
    /// The job that a slot becomes.
    pub job: Template,
}

/// The job that a slot becomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Which handler it is for.
    pub kind: String,
    /// What the handler is given.
    #[serde(default)]
    pub payload: serde_json::Value,
    /// Where it waits.
    #[serde(default = "default_queue")]
    pub queue: String,
    /// −100 to 100, higher first.
    #[serde(default)]
    pub priority: i16,
    /// The most counted attempts.
    #[serde(default = "five")]
    pub max_attempts: u32,
    /// The most time for one attempt; none: as the node is told.
    #[serde(default)]
    pub timeout: Option<String>,
    /// The most time for all attempts together.
    #[serde(default)]
    pub budget: Option<String>,
    /// No attempt may start later than this after the job was due.
    #[serde(default)]
    pub start_within: Option<String>,
    /// Words to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The waits between attempts, such as `exponential 10s to 1h`; none: as its kind or the node is
    /// told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn no_time() -> String {
    "0s".to_owned()
}

fn a_day() -> String {
    "1d".to_owned()
}

fn latest() -> Missed {
    Missed::Latest
}

fn skip() -> Overlap {
    Overlap::Skip
}

fn any() -> String {
    RunOn::Any.to_string()
}

fn is_any(run_on: &str) -> bool {
    RunOn::parse(run_on) == Ok(RunOn::Any)
}

fn leave_out() -> OnExcluded {
    OnExcluded::Skip
}

fn is_left_out(on_excluded: &OnExcluded) -> bool {
    *on_excluded == OnExcluded::Skip
}

fn a_hundred() -> u32 {
    100
}

fn five() -> u32 {
    5
}

fn default_queue() -> String {
    "default".to_owned()
}

/// What a definition means, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// When it is due.
    pub spec: Spec,
    /// How far jobs are spread after their slot.
    pub jitter: Duration,
    /// What becomes of missed slots.
    pub missed: Missed,
    /// How late a slot may be caught up.
    pub missed_window: Duration,
    /// How many slots are caught up.
    pub missed_limit: u32,
    /// How many of these begin in a second.
    pub missed_pace: u32,
    /// Are slots of paused time missed?
    pub missed_paused: bool,
    /// What becomes of a slot while an earlier job is unfinished.
    pub overlap: Overlap,
    /// Which nodes run its jobs.
    pub run_on: RunOn,
    /// When it does not fire.
    pub excluded: Calendar,
    /// The most time for one attempt.
    pub timeout: Option<Duration>,
    /// The most time for all attempts.
    pub budget: Option<Duration>,
    /// How late an attempt may start.
    pub start_within: Option<Duration>,
}

/// Stretches of excluded time that are passed over in search of a slot that is not excluded.
const STRETCHES_PASSED: usize = 500;
/// How much of a stretch is passed over at once: more than a week, after which they repeat.
const PASSED_AT_ONCE: Duration = Duration::from_secs(8 * 86_400);

impl Rule {
    /// Is this slot excluded?
    pub fn is_excluded(&self, slot: Timestamp) -> bool {
        self.excluded.excludes(self.spec.zone(), slot)
    }

    /// How long after its due time a slot can still get a job.
    pub fn hold_for(&self) -> Duration {
        match self.missed {
            Missed::None => ON_TIME,
            Missed::Latest | Missed::All => self.missed_window,
        }
    }

    /// Where an excluded slot goes, in words; none if it is not excluded or stays where it is.
    pub fn moved(&self, slot: Timestamp) -> Option<String> {
        let zone = self.spec.zone();
        self.spec.moved(slot).map(|moved| match moved {
            Moved::To(to) => format!("moved to {} {zone}", zone.local(to).strftime("%F %H:%M")),
            Moved::Nowhere(why) => why.to_owned(),
        })
    }

    /// The first slot after this instant that is not excluded; none if there is none, or if it lies
    /// behind too many that are.
    pub fn next(&self, mut after: Timestamp) -> Option<Timestamp> {
        for _ in 0..STRETCHES_PASSED {
            let slot = self.spec.next(after)?;
            if !self.is_excluded(slot) {
                return Some(slot);
            }
            let until = slot + PASSED_AT_ONCE;
            let stretches = self.excluded.stretches(self.spec.zone(), slot, until);
            // What follows the end is still to be looked at, and so is the end.
            let end = stretches.first().map_or(slot, |(_, end)| *end);
            after = slot.max(end - Duration::from_micros(1));
        }
        None
    }

    /// How many slots of `from..to` are not excluded.
    pub fn count(&self, from: Timestamp, to: Timestamp) -> u64 {
        let excluded = self.excluded.stretches(self.spec.zone(), from, to).into_iter();
        let excluded = excluded.map(|(start, end)| self.spec.count(start.max(from), end.min(to)));
        self.spec.count(from, to).saturating_sub(excluded.sum())
    }
}

/// Why a definition cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {message}")]
pub struct DefinitionError {
    /// Where, such as `when[1]` or `tz`.
    pub field: String,
    /// What is wrong, and the way out.
    pub message: String,
}

impl DefinitionError {
    fn new(field: impl Into<String>, message: impl ToString) -> DefinitionError {
        DefinitionError { field: field.into(), message: message.to_string() }
    }
}

/// Rules of one schedule: more are a sign that it is several.
const WHENS_MAX: usize = 20;
/// Slots caught up at once: each is a job in the transaction that decides them.
const MISSED_LIMIT_MAX: u32 = 1_000;
/// A pace beyond it is no pace.
const MISSED_PACE_MAX: u32 = 1_000;
/// Failures in a row that are waited for: whoever looks reads as many jobs.
const FAILURES_MAX: u32 = 100;

impl Definition {
    /// One rule in UTC with the usual choices, for a job of this kind with the payload `null`.
    pub fn new(when: &str, kind: &str) -> Definition {
        Definition {
            when: vec![when.to_owned()],
            tz: utc(),
            seconds: false,
            start: None,
            end: None,
            dst_gap: None,
            dst_fold: None,
            jitter: no_time(),
            missed: latest(),
            missed_window: a_day(),
            missed_limit: a_hundred(),
            missed_pace: five(),
            missed_paused: false,
            overlap: skip(),
            run_on: any(),
            pause_after_failures: None,
            exclude: Vec::new(),
            on_excluded: leave_out(),
            job: Template {
                kind: kind.to_owned(),
                payload: serde_json::Value::Null,
                queue: default_queue(),
                priority: 0,
                max_attempts: five(),
                timeout: None,
                budget: None,
                start_within: None,
                tags: Vec::new(),
                backoff: None,
            },
        }
    }

    /// Reads the stored form.
    pub fn parse(json: &str) -> Result<Definition, DefinitionError> {
        serde_json::from_str(json).map_err(|error| DefinitionError::new("definition", error))
    }

    /// What it means for a schedule of this name, or the first thing that is wrong with it.
    pub fn rule(&self, name: &str) -> Result<Rule, DefinitionError> {
        let missed_window = length("missed_window", &self.missed_window)?;
        if missed_window < ON_TIME {
            let least = format_duration(ON_TIME);
            let message = format!("must be at least {least}; slots up to {least} late always fire");
            return Err(DefinitionError::new("missed_window", message));
        }
        between("missed_limit", self.missed_limit, MISSED_LIMIT_MAX)?;
        between("missed_pace", self.missed_pace, MISSED_PACE_MAX)?;
        if let Some(failures) = self.pause_after_failures {
            between("pause_after_failures", failures, FAILURES_MAX)?;
        }
        let excluded = self.excluded()?;
        if let Some(backoff) = &self.job.backoff {
            let read = backoff.parse::<Backoff>();
            read.map_err(|error| DefinitionError::new("job.backoff", error))?;
        }
        Ok(Rule {
            spec: self.spec(name, &excluded)?,
            jitter: length("jitter", &self.jitter)?,
            missed: self.missed,
            missed_window,
            missed_limit: self.missed_limit,
            missed_pace: self.missed_pace,
            missed_paused: self.missed_paused,
            overlap: self.overlap,
            run_on: self.run_on()?,
            excluded,
            timeout: some_length("job.timeout", self.job.timeout.as_deref())?,
            budget: some_length("job.budget", self.job.budget.as_deref())?,
            start_within: some_length("job.start_within", self.job.start_within.as_deref())?,
        })
    }

    fn excluded(&self) -> Result<Calendar, DefinitionError> {
        let mut read = Calendar::default();
        for (index, entry) in self.exclude.iter().enumerate() {
            let wrong = |message| DefinitionError::new(format!("exclude[{index}]"), message);
            read.add(entry).map_err(wrong)?;
        }
        read.check_length().map_err(|message| DefinitionError::new("exclude", message))?;
        Ok(read)
    }

    fn run_on(&self) -> Result<RunOn, DefinitionError> {
        let run_on =
            RunOn::parse(&self.run_on).map_err(|why| DefinitionError::new("run_on", why))?;
        if self.job.queue.starts_with(NODE_QUEUE) {
            let message = format!(
                "`{}` is reserved: queues that start with `@` belong to nodes and labels; use \
                 `run_on` instead",
                crate::cron::echo(&self.job.queue)
            );
            return Err(DefinitionError::new("job.queue", message));
        }
        if run_on == RunOn::Any {
            return Ok(run_on);
        }
        if self.job.queue != default_queue() {
            let message = format!(
                "cannot be combined with `run_on = {run_on}`; remove `{}`",
                crate::cron::echo(&self.job.queue)
            );
            return Err(DefinitionError::new("job.queue", message));
        }
        // Each node's jobs would have to wait for its own alone.
        if run_on == RunOn::EveryNode && !matches!(self.overlap, Overlap::Allow | Overlap::Skip) {
            let message = format!(
                "`{}` is not supported with `run_on = every_node`; use allow or skip",
                self.overlap
            );
            return Err(DefinitionError::new("overlap", message));
        }
        Ok(run_on)
    }

    /// The rule of a schedule that is to run from `now` on; one that never would is refused.
    pub fn rule_from(&self, name: &str, now: Timestamp) -> Result<Rule, DefinitionError> {
        let rule = self.rule(name)?;
        if let Some(reason) = rule.spec.never_fires(now) {
            return Err(DefinitionError::new(
                "when",
                format!("the schedule never fires: {reason}"),
            ));
        }
        if rule.next(now).is_none() {
            let message = "the schedule never fires: every slot is excluded";
            return Err(DefinitionError::new("exclude", message));
        }
        Ok(rule)
    }

    fn spec(&self, name: &str, excluded: &Calendar) -> Result<Spec, DefinitionError> {
        let zone = Zone::get(&self.tz).map_err(|error| DefinitionError::new("tz", error))?;
        if self.when.len() > WHENS_MAX {
            let message = format!("too many expressions: {}, maximum {WHENS_MAX}", self.when.len());
            return Err(DefinitionError::new("when", message));
        }
        let mut spec: Option<Spec> = None;
        for (index, text) in self.when.iter().enumerate() {
            let field = || format!("when[{index}]");
            let when = When::parse_named(text, name).map_err(|error| {
                DefinitionError::new(field(), format!("`{}`: {error}", crate::cron::echo(text)))
            })?;
            if let When::Cron(cron) = &when {
                self.check_fields(cron).map_err(|why| DefinitionError::new(field(), why))?;
            }
            spec = Some(match spec {
                Some(spec) => spec.also(when),
                None => Spec::new(when, zone.clone()),
            });
        }
        let Some(mut spec) = spec else {
            let message = "missing; add an expression such as `0 8 * * MON-FRI`";
            return Err(DefinitionError::new("when", message));
        };
        if let Some(gap) = &self.dst_gap {
            spec = spec.dst_gap(match gap.as_str() {
                "end" => DstGap::End,
                "skip" => DstGap::Skip,
                _ => return Err(no_word("dst_gap", gap, "end, skip")),
            });
        }
        if let Some(fold) = &self.dst_fold {
            spec = spec.dst_fold(match fold.as_str() {
                "first" => DstFold::First,
                "second" => DstFold::Second,
                "both" => DstFold::Both,
                _ => return Err(no_word("dst_fold", fold, "first, second, both")),
            });
        }
        let spec = spec.within(self.window()?);
        match self.on_excluded {
            OnExcluded::Skip => Ok(spec),
            OnExcluded::NextWorkingDay => spec
                .next_working_day(excluded.clone())
                .map_err(|why| DefinitionError::new("on_excluded", why)),
        }
    }

    fn check_fields(&self, cron: &Cron) -> Result<(), String> {
        match cron.field_count() {
            5 => Ok(()),
            _ if self.seconds => Ok(()),
            count => Err(format!(
                "the expression has {count} fields, the first is for seconds; set `seconds = true` \
                 to allow this"
            )),
        }
    }

    fn window(&self) -> Result<Window, DefinitionError> {
        let instant = |field: &str, text: &Option<String>| {
            let read = text.as_ref().map(|text| text.parse::<Timestamp>());
            read.transpose().map_err(|error| DefinitionError::new(field, error))
        };
        let window =
            Window { start: instant("start", &self.start)?, end: instant("end", &self.end)? };
        match (window.start, window.end) {
            (Some(start), Some(end)) if end < start => {
                let message = format!("{end} is before `start` ({start})");
                Err(DefinitionError::new("end", message))
            }
            _ => Ok(window),
        }
    }
}

fn length(field: &str, text: &str) -> Result<Duration, DefinitionError> {
    parse_duration(text).map_err(|error| DefinitionError::new(field, error))
}

fn some_length(field: &str, text: Option<&str>) -> Result<Option<Duration>, DefinitionError> {
    let length = text.map(|text| length(field, text)).transpose()?;
    match length {
        Some(length) if length.is_zero() => Err(DefinitionError::new(
            field,
            "must be greater than zero; omit it to use the default",
        )),
        length => Ok(length),
    }
}

fn between(field: &str, value: u32, most: u32) -> Result<(), DefinitionError> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(DefinitionError::new(field, format!("must be between 1 and {most}, got {value}")))
}

fn no_word(field: &str, word: &str, known: &str) -> DefinitionError {
    let word = crate::cron::echo(word);
    DefinitionError::new(field, format!("unknown value `{word}`; expected one of {known}"))
}

#[cfg(test)]
mod tests;
