//! No slot is lost, doubled or early when nodes die, freeze or stop, and servers crash: schedules
//! fire each second through all of it, and in the end the ledger is compared with what an oracle
//! counts.

mod oracle;
pub(crate) mod postgres;
mod records;
mod schedules;
pub(crate) mod sqlite;
mod stretches;

use std::time::Duration;

use punctual_engine::{Env, System};
use serde_json::{Map, Value, json};

use self::oracle::Verdict;
use self::records::Source;
use crate::{Failure, tell};

/// How long everything may take to be decided and done once the faults have ended: a dead node's
/// jobs are taken back after fifteen seconds, and tried again later.
const PATIENCE: Duration = Duration::from_secs(180);
/// How often somebody looks whether it is.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// From one slot to the next, and a little more: whoever has decided since then, leads.
const A_SLOT: Duration = Duration::from_millis(1_100);

/// Now, in µs of the wall clock, which is also the databases' clock.
fn wall() -> i64 {
    let env: &dyn Env = &System;
    env.wall().as_micros()
}

#[expect(clippy::disallowed_methods, reason = "the proof runs in real time")]
fn rest(length: Duration) {
    std::thread::sleep(length);
}

/// Waits until something is so; what is asked may fail while a server is away.
fn wait_until(what: &str, is_so: impl Fn() -> Result<bool, Failure>) -> Result<(), Failure> {
    let patience = i64::try_from(PATIENCE.as_micros())?;
    let began = wall();
    loop {
        let answer = is_so();
        if matches!(answer, Ok(true)) {
            return Ok(());
        }
        if wall() - began > patience {
            answer?;
            return Err(format!("timed out after {PATIENCE:?}, waiting until {what}").into());
        }
        rest(LOOK_EVERY);
    }
}

/// Waits until somebody leads and nothing is undecided.
fn wait_until_decided(source: &Source) -> Result<(), Failure> {
    rest(A_SLOT);
    wait_until("every slot is decided", || {
        Ok(source.watermark()?.is_some_and(|watermark| watermark > wall()))
    })
}

/// Waits until all is decided, and every job from before has ended; the answer is that instant.
fn wait_until_done(source: &Source) -> Result<i64, Failure> {
    wait_until_decided(source)?;
    let before = wall();
    wait_until("every job is finished", || Ok(source.unfinished(before)? == 0))?;
    Ok(before)
}

/// Prints what the course of events and the verdict have to say; an error if anything is wrong, or
/// if something did not happen at all.
fn conclude(
    proof: &'static str,
    course: Value,
    exercised: &[&str],
    verdict: Verdict,
) -> Result<(), Failure> {
    let mut said = Map::new();
    for part in [course, verdict.said()] {
        let Value::Object(part) = part else { return Err("not a JSON object".into()) };
        said.extend(part);
    }
    let idle: Vec<&str> = exercised
        .iter()
        .chain(&["slots", "fired", "skipped_overlap", "jobs", "terms"])
        .copied()
        .filter(|name| said.get(*name).and_then(Value::as_u64).unwrap_or(0) == 0)
        .collect();
    said.insert("not_exercised".to_owned(), json!(idle));
    tell(proof, Value::Object(said))?;
    if let Some(what) = verdict.first_broken {
        return Err(what.into());
    }
    match idle[..] {
        [] => Ok(()),
        _ => Err(format!("these faults never happened: {}", idle.join(", ")).into()),
    }
}
