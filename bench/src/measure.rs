//! Rates of several ways of doing one thing, measured in turns: whatever else the machine is
//! doing hits all of them alike. What counts is the ratio.

use std::time::{Duration, Instant};

use crate::Failure;

/// Odd, so that the median is a measured value.
const ROUNDS: usize = 5;

/// One way: does some of it and says how many it did.
pub(crate) type Turn<'a> = Box<dyn FnMut() -> Result<u64, Failure> + 'a>;

/// How many per second each way does, turn by turn.
pub(crate) fn rates<const N: usize>(
    slice: Duration,
    mut ways: [Turn<'_>; N],
) -> Result<[Vec<f64>; N], Failure> {
    let mut rounds = [const { Vec::new() }; N];
    // The first round warms caches and is not counted.
    for round in 0..=ROUNDS {
        for (way, seen) in ways.iter_mut().zip(&mut rounds) {
            let rate = rate(slice, way)?;
            if round > 0 {
                seen.push(rate);
            }
        }
    }
    Ok(rounds)
}

fn rate(slice: Duration, way: &mut Turn<'_>) -> Result<f64, Failure> {
    let started = now();
    let mut done = 0;
    while started.elapsed() < slice {
        match way()? {
            0 => return Err("the backlog was empty; use a larger backlog".into()),
            some => done += some,
        }
    }
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn median(seen: &[f64]) -> f64 {
    let mut seen = seen.to_vec();
    seen.sort_by(f64::total_cmp);
    seen[seen.len() / 2]
}

/// How long something took, again and again, in milliseconds.
pub(crate) struct Times {
    pub(crate) median: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Times {
    pub(crate) fn of(mut seen: Vec<Duration>) -> Times {
        seen.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
        let last = seen.len() - 1;
        Times {
            median: ms(seen[seen.len() / 2]),
            p99: ms(seen[last * 99 / 100]),
            max: ms(seen[last]),
        }
    }
}
