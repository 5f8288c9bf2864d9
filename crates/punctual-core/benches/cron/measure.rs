//! Times several ways of doing one thing, in turns, so that what else the machine is doing
//! hits all of them alike. What counts is the ratio within one run.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// One way of doing the thing, under the name of who does it.
pub(crate) struct Contender<'a> {
    pub(crate) name: &'static str,
    pub(crate) run: Box<dyn FnMut() -> u64 + 'a>,
}

/// How long one call takes, in nanoseconds: the median over the rounds.
pub(crate) struct Time {
    pub(crate) name: &'static str,
    pub(crate) nanos: f64,
}

/// Odd, so that the median is a measured value.
const ROUNDS: usize = 15;
/// Long enough for the clock's own cost not to matter.
const SLICE: Duration = Duration::from_millis(2);

pub(crate) fn measure(mut contenders: Vec<Contender<'_>>) -> Vec<Time> {
    let calls: Vec<u32> = contenders.iter_mut().map(calls_per_slice).collect();
    let mut rounds: Vec<Vec<f64>> = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    for _ in 0..ROUNDS {
        for ((contender, calls), times) in contenders.iter_mut().zip(&calls).zip(&mut rounds) {
            times.push(time(contender, *calls).as_nanos() as f64 / f64::from(*calls));
        }
    }
    let medians = rounds.into_iter().map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    });
    contenders
        .iter()
        .zip(medians)
        .map(|(contender, nanos)| Time { name: contender.name, nanos })
        .collect()
}

fn calls_per_slice(contender: &mut Contender<'_>) -> u32 {
    let mut calls = 1;
    while time(contender, calls) < SLICE {
        calls *= 2;
    }
    calls
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn time(contender: &mut Contender<'_>, calls: u32) -> Duration {
    let started = Instant::now();
    for _ in 0..calls {
        black_box((contender.run)());
    }
    started.elapsed()
}
