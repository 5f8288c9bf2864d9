//! One process on a SQLite file, which has one engine at a time. It is killed again and again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_core::hash;
use serde_json::json;

use super::oracle::Verdict;
use super::records::Source;
use super::stretches::{Lengths, Quiet};
use super::{conclude, rest, schedules, wait_until, wait_until_decided, wait_until_done, wall};
use crate::Failure;
use crate::account::Log;
use crate::database::{Database, Kind, Own};
use crate::process::{Heard, Process};

/// A process that is not waited for is killed within this time.
const BLIND_MS: u64 = 2_000;
/// One that decides slots is killed within this time: more than from one to the next.
const AT_WORK_MS: u64 = 1_300;

/// Kills the process so often; prints one line of JSON.
pub(crate) fn prove(kills: u64, seed: u64) -> Result<(), Failure> {
    let began = wall();
    let own = Own::new(Kind::Sqlite, false)?;
    let Database::Sqlite(file) = &own.database else {
        return Err("the store is not a file".into());
    };
    let source = Source::Sqlite(file.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let known =
        runtime.block_on(async { schedules::create(own.database.open_beside().await?).await })?;
    let log: Arc<Mutex<Log>> = Arc::default();
    let start = |number: u64| {
        let process = Process::start(&own.database, number, &["--serve"])?;
        Heard::begin(process, log.clone(), |_| {})
    };

    let (mut killed, mut killed_at_work) = (0, 0);
    let mut led_again = Lengths::default();
    for number in 0..kills {
        let started = wall();
        let mut node = start(number)?;
        let within = if hash::draw(seed, number).is_multiple_of(2) {
            BLIND_MS
        } else {
            wait_until("a slot is decided", || {
                Ok(source.last_decided()?.is_some_and(|at| at > started))
            })?;
            led_again.note(source.last_decided()?.unwrap_or(started) - started);
            killed_at_work += 1;
            AT_WORK_MS
        };
        rest(Duration::from_millis(hash::draw(!seed, number) % within));
        node.process.kill()?;
        killed += 1;
        if let (Some(code), _) = node.end()? {
            return Err(format!("the node exited unexpectedly with code {code}").into());
        }
    }

    let node = start(kills)?;
    wait_until_decided(&source)?;
    let from = wall();
    let before = wait_until_done(&source)?;
    wait_until_decided(&source)?;
    let until = wall();
    let mut quiet = Quiet::default();
    quiet.note(from, until);
    node.process.stop()?;
    let (code, life) = node.end()?;
    if (code, life.unsettled) != (Some(0), Some(0)) {
        return Err(format!("the node exited with {code:?}: {:?}", life.unsettled).into());
    }

    let integrity: String =
        rusqlite::Connection::open(file)?
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    let records = source.records(before)?;
    let mut verdict = Verdict::of(&records, &known, &quiet, until);
    if integrity != "ok" {
        verdict.breaks(integrity.clone());
    }
    let course = json!({
        "seconds": (wall() - began) / 1_000_000, "seed": seed, "kills": killed,
        "kills_at_work": killed_at_work, "led_again_p50_ms": led_again.share_ms(50),
        "led_again_worst_ms": led_again.worst_ms(), "integrity": integrity
    });
    conclude("slots-sqlite", course, &["kills", "kills_at_work", "quiet_slots"], verdict)
}
