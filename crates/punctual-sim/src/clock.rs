//! Simulated time: one clock that only goes forward, and the database's, which is stepped.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use punctual_core::Timestamp;
use tokio::time::Instant;

/// When every simulated run begins.
const BEGIN: Timestamp = Timestamp::from_seconds(1_800_000_000);

/// The clocks of a simulated world.
#[derive(Debug)]
pub(crate) struct Clock {
    begun: Instant,
    /// How far the database's clock was stepped, in microseconds, and the farthest ever.
    step: AtomicI64,
    farthest: AtomicI64,
}

impl Clock {
    /// Begins now, in a runtime whose time is paused.
    #[expect(clippy::disallowed_methods, reason = "simulated time is tokio's paused clock")]
    pub(crate) fn start() -> Clock {
        Clock { begun: Instant::now(), step: AtomicI64::new(0), farthest: AtomicI64::new(0) }
    }

    /// Time since the run began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What the database's clock shows.
    pub(crate) fn now(&self) -> Timestamp {
        let true_now = BEGIN + self.elapsed();
        Timestamp::from_micros(true_now.as_micros() + self.step.load(Ordering::Acquire))
    }

    /// Steps the database's clock.
    pub(crate) fn step(&self, micros: i64) {
        let step = self.step.fetch_add(micros, Ordering::AcqRel) + micros;
        self.farthest.fetch_max(step, Ordering::AcqRel);
    }

    /// Sets the database's clock so that it has made good every step back: what is due at some
    /// time will be.
    pub(crate) fn make_good(&self) {
        self.step.store(self.farthest.load(Ordering::Acquire), Ordering::Release);
    }
}
