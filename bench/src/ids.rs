//! Ids that follow from a seed, so that a run can be repeated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_core::{JobId, LeaseId, NodeId, Nonce, Timestamp, hash};

pub(crate) struct Ids {
    seed: u64,
    start: Timestamp,
    minted: AtomicU64,
}

impl Ids {
    pub(crate) fn new(seed: u64) -> Ids {
        Ids::since(Timestamp::from_seconds(1_800_000_000), seed)
    }

    /// Ids of this time, where it matters into which day they fall.
    pub(crate) fn since(start: Timestamp, seed: u64) -> Ids {
        Ids { seed, start, minted: AtomicU64::new(0) }
    }

    fn next(&self) -> (Timestamp, [u8; 10]) {
        let number = self.minted.fetch_add(1, Ordering::Relaxed);
        let mut random = [0; 10];
        random[..2].copy_from_slice(&(self.seed as u16).to_be_bytes());
        random[2..].copy_from_slice(&hash::draw(self.seed, number).to_be_bytes());
        // A millisecond for each thousand: ids ascend as they do in life.
        (self.start + Duration::from_micros(number), random)
    }

    pub(crate) fn job(&self) -> JobId {
        let (at, random) = self.next();
        JobId::mint(at, random)
    }

    pub(crate) fn lease(&self) -> LeaseId {
        let (at, random) = self.next();
        LeaseId::mint(at, random)
    }

    pub(crate) fn nonce(&self) -> Nonce {
        let (at, random) = self.next();
        Nonce::mint(at, random)
    }

    pub(crate) fn node(&self) -> NodeId {
        let (at, random) = self.next();
        NodeId::mint(at, random)
    }
}
