//! The suite that every store passes, on files.

use async_trait::async_trait;
use punctual_conformance::{Subject, commands};
use punctual_core::{JobId, Timestamp};
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::Store;
use punctual_store::memory::Memory;
use tempfile::TempDir;

/// A store in a file of its own, which goes with it.
struct OnFile {
    store: SqliteStore,
    _directory: TempDir,
}

impl OnFile {
    fn new() -> OnFile {
        let directory = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(directory.path().join("test.db"), Options::engine())
            .expect("a store");
        OnFile { store, _directory: directory }
    }
}

#[async_trait]
impl Subject for OnFile {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn spoil(&self, job: JobId) {
        self.store.spoil(job).await.expect("the job is there");
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
                    runtime.block_on(commands::compare(seed, STEPS, &memory, &on_file.store));
                }
            });
        }
    });
    println!(
        "\n{{\"proof\":\"store\",\"store\":\"sqlite\",\"sequences\":{cases},\"commands\":{},\"differences\":0}}",
        cases * STEPS
    );
}
