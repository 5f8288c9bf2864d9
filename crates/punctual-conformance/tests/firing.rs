//! The scheduler over the reference model.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_store::Store;
use punctual_store::memory::Memory;

punctual_conformance::firing_suite!(|| async {
    (Arc::new(Memory::new(|| Timestamp::EPOCH)) as Arc<dyn Store>, ())
});
