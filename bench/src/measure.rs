//! Rates of several ways of doing one thing, measured in turns: whatever else the machine is
//! doing hits all of them alike. What counts is the ratio.

use std::time::{Duration, Instant};

use crate::Failure;

/// Odd, so that the median is a measured value.
const ROUNDS: usize = 5;

/// One way: does some of it and says how many it did.
pub(crate) type Turn<'a> = Box<dyn FnMut() -> Result<u64, Failure> + 'a>;

/// How many per second each way does: the median of its turns.
pub(crate) fn rates<const N: usize>(
    slice: Duration,
    mut ways: [Turn<'_>; N],
) -> Result<[f64; N], Failure> {
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
    Ok(rounds.map(|mut seen: Vec<f64>| {
        seen.sort_by(f64::total_cmp);
        seen[ROUNDS / 2]
    }))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn rate(slice: Duration, way: &mut Turn<'_>) -> Result<f64, Failure> {
    let started = Instant::now();
    let mut done = 0;
    while started.elapsed() < slice {
        match way()? {
            0 => return Err("there was nothing left to do; raise the backlog".into()),
            some => done += some,
        }
    }
    Ok(done as f64 / started.elapsed().as_secs_f64())
}
