//! The suite that every store passes, on PostgreSQL, direct and through a pooler.

mod common;

use common::{Fresh, connect};
use punctual_conformance::commands;
use punctual_core::Timestamp;
use punctual_store::memory::Memory;

mod direct {
    use super::*;

    punctual_conformance::suite!(Fresh::direct);
}

mod pooled {
    use super::*;

    punctual_conformance::suite!(Fresh::pooled);
}

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not `{value}`")))
}

/// Runs at a time: most of the time each waits for an answer.
const PARTS: usize = 4;
/// Commands of one run.
const STEPS: u64 = 100;

/// `PUNCTUAL_PROOF_CASES` sets how many sequences are tried, `PUNCTUAL_PROOF_SEED` where they begin.
/// Every second one goes through the pooler.
#[test]
fn random_commands_are_answered_as_the_reference_model_answers_them() {
    let cases = setting("PUNCTUAL_PROOF_CASES").unwrap_or(120);
    let first = setting("PUNCTUAL_PROOF_SEED").unwrap_or(0);
    std::thread::scope(|scope| {
        for part in 0..PARTS {
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(async {
                    let client = connect().await;
                    let fresh =
                        if part % 2 == 0 { Fresh::direct().await } else { Fresh::pooled().await };
                    for seed in (first..first + cases).skip(part).step_by(PARTS) {
                        let memory = Memory::new(|| Timestamp::EPOCH);
                        commands::compare(seed, STEPS, &memory, &fresh).await;
                        fresh.clear(&client).await;
                    }
                });
            });
        }
    });
    println!(
        "\n{{\"proof\":\"pg-store\",\"store\":\"postgres\",\"sequences\":{cases},\"commands\":{},\"differences\":0}}",
        cases * STEPS
    );
}
