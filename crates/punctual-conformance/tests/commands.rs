//! The random commands themselves: they say the same of equal stores, and notice a difference.

use punctual_conformance::{Fault, Faulty, commands};
use punctual_core::Timestamp;
use punctual_store::memory::Memory;

fn memory() -> Memory {
    Memory::new(|| Timestamp::EPOCH)
}

#[tokio::test]
async fn equal_stores_agree() {
    for seed in 0..50 {
        commands::compare(seed, 200, &memory(), &memory()).await;
    }
}

#[tokio::test]
#[should_panic(expected = "settle, seed 1")]
async fn a_store_that_settles_without_saying_so_is_found() {
    let faulty =
        Faulty::new(memory(), |method| if method == "settle" { Fault::Reply } else { Fault::None });
    commands::compare(1, 500, &memory(), &faulty).await;
}
