//! How long to wait before the next attempt.

use std::str::FromStr;
use std::time::Duration;

use crate::cron::echo;
use crate::{JobId, format_duration, hash, parse_duration};

/// How waits grow from attempt to attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Always the base.
    Fixed,
    /// Base, twice the base, three times the base.
    Linear,
    /// Base, twice, four times, eight times the base.
    Exponential,
}

/// How much of a wait is left to chance, so that jobs that failed together do not return
/// together. The chance is a hash of job and attempt, so that it can be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Nothing.
    None,
    /// Anything from nothing to the whole wait.
    Full,
    /// At least half the wait, and anything up to the whole.
    Half,
}

/// The waits between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait that grows.
    pub base: Duration,
    /// How it grows.
    pub growth: Growth,
    /// The longest wait.
    pub cap: Duration,
    /// How much of it is chance.
    pub spread: Spread,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff {
            base: Duration::from_secs(5),
            growth: Growth::Exponential,
            cap: Duration::from_secs(15 * 60),
            spread: Spread::Full,
        }
    }
}

impl Backoff {
    /// The wait after the `tries`-th counted attempt (from 1), which is attempt number `attempt`
    /// of the job.
    pub fn wait(&self, job: JobId, attempt: u32, tries: u32) -> Duration {
        let tries = tries.max(1);
        let factor = match self.growth {
            Growth::Fixed => 1,
            Growth::Linear => tries,
            // Beyond 2³¹ any base is over any cap.
            Growth::Exponential => 1 << (tries - 1).min(31),
        };
        let wait = self.base.saturating_mul(factor).min(self.cap);
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        let drawn = |most: u64| chance(job, attempt) % most.saturating_add(1).max(1);
        Duration::from_micros(match self.spread {
            Spread::None => micros,
            Spread::Full => drawn(micros),
            Spread::Half => micros / 2 + drawn(micros - micros / 2),
        })
    }
}

/// A text that says no waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackoffError {
    /// It is something else.
    #[error(
        "invalid backoff `{0}`; use a value such as `exponential 5s to 15m`, `linear 10s` or \
         `fixed 30s`"
    )]
    Unknown(String),
    /// The longest wait is shorter than the one that grows.
    #[error("invalid backoff `{0}`: the base delay is longer than the maximum")]
    Exchanged(String),
    /// A wait is too long.
    #[error("invalid backoff `{0}`: the maximum delay is {most}", most = format_duration(WAIT_MAX))]
    TooLong(String),
}

/// Whoever would wait for longer wants a schedule.
const WAIT_MAX: Duration = Duration::from_secs(366 * 86_400);

/// `fixed 10s`, `linear 5s`, `exponential 5s`, each with an optional longest wait: `linear 5s to 10m`.
/// If none is told it is 15 minutes, or the base if that is longer; and each wait is drawn between
/// nothing and the whole.
impl FromStr for Backoff {
    type Err = BackoffError;

    fn from_str(text: &str) -> Result<Backoff, BackoffError> {
        let unknown = || BackoffError::Unknown(echo(text));
        let (growth, rest) = text.trim().split_once(' ').ok_or_else(unknown)?;
        let growth = match growth {
            "fixed" => Growth::Fixed,
            "linear" => Growth::Linear,
            "exponential" => Growth::Exponential,
            _ => return Err(unknown()),
        };
        let length = |text: &str| parse_duration(text).map_err(|_| unknown());
        let usual = Backoff::default();
        let (base, cap) = match rest.split_once(" to ") {
            Some((base, cap)) => (length(base)?, length(cap)?),
            None => length(rest).map(|base| (base, usual.cap.max(base)))?,
        };
        if cap < base {
            return Err(BackoffError::Exchanged(echo(text)));
        }
        if cap > WAIT_MAX {
            return Err(BackoffError::TooLong(echo(text)));
        }
        Ok(Backoff { base, growth, cap, ..usual })
    }
}

fn chance(job: JobId, attempt: u32) -> u64 {
    let (high, low) = job.as_uuid().as_u64_pair();
    hash::mix(high ^ hash::mix(low.wrapping_add(u64::from(attempt))))
}

/// When a job is retried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The waits.
    pub backoff: Backoff,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn job(seed: u8) -> JobId {
        JobId::mint(Timestamp::EPOCH, [seed; 10])
    }

    fn seconds(backoff: Backoff) -> Vec<u64> {
        (1..=6).map(|tries| backoff.wait(job(1), tries, tries).as_secs()).collect()
    }

    #[test]
    fn waits_grow_as_they_say_and_stop_at_the_cap() {
        let plain =
            Backoff { spread: Spread::None, cap: Duration::from_secs(60), ..Backoff::default() };
        assert_eq!(seconds(Backoff { growth: Growth::Fixed, ..plain }), [5, 5, 5, 5, 5, 5]);
        assert_eq!(seconds(Backoff { growth: Growth::Linear, ..plain }), [5, 10, 15, 20, 25, 30]);
        assert_eq!(seconds(plain), [5, 10, 20, 40, 60, 60]);
        assert_eq!(plain.wait(job(1), u32::MAX, u32::MAX), Duration::from_secs(60));
    }

    #[test]
    fn chance_stays_in_its_bounds_and_can_be_replayed() {
        let backoff = Backoff::default();
        for seed in 0..200 {
            for tries in 1..10 {
                let whole =
                    Backoff { spread: Spread::None, ..backoff }.wait(job(seed), tries, tries);
                let full = backoff.wait(job(seed), tries, tries);
                let half =
                    Backoff { spread: Spread::Half, ..backoff }.wait(job(seed), tries, tries);
                assert!(full <= whole);
                assert!(whole / 2 <= half && half <= whole);
                assert_eq!(full, backoff.wait(job(seed), tries, tries));
            }
        }
        let waits: std::collections::HashSet<Duration> =
            (0..50).map(|seed| backoff.wait(job(seed), 1, 1)).collect();
        assert!(waits.len() > 40, "jobs that fail together return together");
    }

    #[test]
    fn waits_are_read_from_a_text() {
        let read = |text: &str| {
            let read: Backoff = text.parse().unwrap();
            assert_eq!(read.spread, Spread::Full);
            (read.growth, read.base.as_secs(), read.cap.as_secs())
        };
        assert_eq!(read("exponential 10s to 1h"), (Growth::Exponential, 10, 3_600));
        assert_eq!(read(" linear 1m 30s to 10m "), (Growth::Linear, 90, 600));
        assert_eq!(read("fixed 30s"), (Growth::Fixed, 30, 900));
        // What is told is never cut by what is not.
        assert_eq!(read("fixed 1h"), (Growth::Fixed, 3_600, 3_600));
    }

    #[test]
    fn a_text_that_says_no_waits_is_refused_with_the_way_out() {
        let refused = |text: &str| text.parse::<Backoff>().unwrap_err().to_string();
        let texts =
            ["", "fixed", "fixed soon", "cubic 5s", "fixed 5s to", "linear -5s", "10s fixed"];
        for text in texts {
            assert_eq!(
                refused(text),
                format!(
                    "invalid backoff `{text}`; use a value such as `exponential 5s to 15m`, `linear 10s` or `fixed 30s`"
                )
            );
        }
        insta::assert_snapshot!(refused("linear 1h to 10s"), @"invalid backoff `linear 1h to 10s`: the base delay is longer than the maximum");
        insta::assert_snapshot!(refused("fixed 9999d"), @"invalid backoff `fixed 9999d`: the maximum delay is 366d");
        assert!(refused(&"x".repeat(10_000)).len() < 300);
    }
}
