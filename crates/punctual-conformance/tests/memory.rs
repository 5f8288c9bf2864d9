//! The reference model passes the suite that it is the yardstick of.

use punctual_core::Timestamp;
use punctual_store::memory::Memory;

punctual_conformance::suite!(|| async { Memory::new(|| Timestamp::EPOCH) });
