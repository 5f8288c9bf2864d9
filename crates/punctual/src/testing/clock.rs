//! A clock that goes only when it is told to.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_engine::{Boxed, Env, System};
use punctual_store::At;
use tokio::task::AbortHandle;

/// The world outside, in which the clock stands still.
pub(crate) struct Clock {
    now: AtomicI64,
}

impl Clock {
    pub(crate) fn at(now: Timestamp) -> Clock {
        Clock { now: AtomicI64::new(now.as_micros()) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.load(Ordering::Acquire))
    }

    pub(crate) fn set(&self, now: Timestamp) {
        self.now.store(now.as_micros(), Ordering::Release);
    }
}

impl Env for Clock {
    fn at(&self) -> At {
        At::Fixed(self.now())
    }

    fn elapsed(&self) -> Duration {
        self.now().since(Timestamp::EPOCH)
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }

    fn random(&self, bytes: &mut [u8]) {
        System.random(bytes);
    }

    fn sleep(&self, wait: Duration) -> Boxed {
        // Nobody waits for this clock: it is patience with the store, whose work is real.
        System.sleep(wait)
    }

    fn spawn(&self, task: Boxed) -> AbortHandle {
        System.spawn(task)
    }

    fn spawn_apart(&self, name: &str, task: Boxed) -> std::io::Result<()> {
        System.spawn_apart(name, task)
    }
}
