//! The suite that every store passes, on files.

use std::sync::Mutex;

use async_trait::async_trait;
use punctual_conformance::{Subject, commands};
use punctual_core::Timestamp;
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::Store;
use punctual_store::memory::Memory;
use punctual_store::rules::Spoil;
use rusqlite::Connection;
use tempfile::TempDir;

/// A store in a file of its own, which goes with it.
struct OnFile {
    store: SqliteStore,
    /// A foreign hand.
    other: Mutex<Connection>,
    _directory: TempDir,
}

impl OnFile {
    fn new() -> OnFile {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("test.db");
        let store = SqliteStore::open(&path, Options::engine()).expect("a store");
        let other = Mutex::new(Connection::open(&path).expect("a connection"));
        OnFile { store, other, _directory: directory }
    }
}

#[async_trait]
impl Subject for OnFile {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    /// STRICT tables take no value of another type; these are of the right one and make no sense.
    async fn spoil(&self, what: Spoil) {
        let (id, statements): ([u8; 16], &[&str]) = match what {
            Spoil::Body(job) => {
                (*job.as_bytes(), &["UPDATE punctual_job SET timeout_us = -1 WHERE id = ?1"])
            }
            Spoil::Tags(job) => {
                (*job.as_bytes(), &["UPDATE punctual_job SET tags = '[\"eu' WHERE id = ?1"])
            }
            Spoil::Seat(job) => (
                *job.as_bytes(),
                &[
                    "UPDATE punctual_job_ready SET attempt = -1 WHERE job = ?1",
                    "UPDATE punctual_job_timer SET attempt = -1 WHERE job = ?1",
                    "UPDATE punctual_job_wait SET attempt = -1 WHERE job = ?1",
                    "UPDATE punctual_job_lease SET attempt = -1 WHERE job = ?1",
                ],
            ),
            Spoil::Lease(job) => {
                (*job.as_bytes(), &["UPDATE punctual_job_lease SET lease = x'00' WHERE job = ?1"])
            }
            Spoil::Unfinished(job) => (
                *job.as_bytes(),
                &[
                    "INSERT INTO punctual_job_live (schedule, job) SELECT schedule, id FROM punctual_job WHERE id = ?1",
                ],
            ),
            Spoil::Schedule(schedule) => (
                *schedule.as_bytes(),
                &["UPDATE punctual_schedule SET spec = '{\"cron' WHERE id = ?1"],
            ),
        };
        let other = self.other.lock().expect("nobody panics");
        for statement in statements {
            other.execute(statement, [id]).expect("a foreign hand may write");
        }
    }
}

punctual_conformance::suite!(|| async { OnFile::new() });

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not `{value}`")))
}

/// `PUNCTUAL_PROOF_CASES` sets how many sequences are tried, `PUNCTUAL_PROOF_SEED` where they begin.
#[test]
fn random_commands_are_answered_as_the_reference_model_answers_them() {
    const STEPS: u64 = 100;
    let cases = setting("PUNCTUAL_PROOF_CASES").unwrap_or(300);
    let first = setting("PUNCTUAL_PROOF_SEED").unwrap_or(0);
    std::thread::scope(|scope| {
        for part in 0..2 {
            scope.spawn(move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
                for seed in (first..first + cases).skip(part).step_by(2) {
                    let (memory, on_file) = (Memory::new(|| Timestamp::EPOCH), OnFile::new());
                    runtime.block_on(commands::compare(seed, STEPS, &memory, &on_file));
                }
            });
        }
    });
    println!(
        "\n{{\"proof\":\"store\",\"store\":\"sqlite\",\"sequences\":{cases},\"commands\":{},\"differences\":0}}",
        cases * STEPS
    );
}
