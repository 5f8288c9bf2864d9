//! The world outside: time, sleep, chance, tasks. The engine has no other source of these, so
//! that the simulator can run it whole and replay it.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::At;
use tokio::task::AbortHandle;

/// A future that owns all it needs.
pub type Boxed<T = ()> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The world outside.
pub trait Env: Send + Sync + 'static {
    /// Whose clock the store goes by.
    fn at(&self) -> At {
        At::Database
    }

    /// Time since some moment in the past, by a clock that only goes forward and also runs
    /// while the machine is suspended. All local deadlines are on this clock.
    fn elapsed(&self) -> Duration;

    /// The host's wall clock, for minting ids that sort by time. It is never stored otherwise
    /// and never compared with anything.
    fn wall(&self) -> Timestamp;

    /// Fills these bytes with chance.
    fn random(&self, bytes: &mut [u8]);

    /// Ends after this long.
    fn sleep(&self, wait: Duration) -> Boxed;

    /// Runs a task beside the caller.
    fn spawn(&self, task: Boxed) -> AbortHandle;

    /// Runs a task where no handler can block it.
    fn spawn_apart(&self, name: &str, task: Boxed) -> std::io::Result<()>;
}

/// What follows from the few things an [`Env`] provides.
impl dyn Env {
    /// Random bytes for an id.
    pub fn seed(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        self.random(&mut bytes);
        bytes
    }

    /// A number from 0 to less than `below`.
    pub fn pick(&self, below: u64) -> u64 {
        let mut bytes = [0; 8];
        self.random(&mut bytes);
        u64::from_le_bytes(bytes) % below.max(1)
    }

    /// Anything from half of a length of time to the whole, so that many who wait alike do not
    /// return alike.
    pub fn jitter(&self, wait: Duration) -> Duration {
        let half = u64::try_from(wait.as_micros() / 2).unwrap_or(u64::MAX);
        Duration::from_micros(half.saturating_add(self.pick(half.saturating_add(1))))
    }
}

/// Chance that was fetched from the operating system and not used yet: every id needs some, and to ask
/// for each takes longer than all else about it.
struct Fetched {
    bytes: [u8; 240],
    used: usize,
}

impl Fetched {
    const NONE: Fetched = Fetched { bytes: [0; 240], used: 240 };

    #[expect(clippy::disallowed_methods, clippy::expect_used, reason = "this is the source of it")]
    fn fill(&mut self, wanted: &mut [u8]) {
        for piece in wanted.chunks_mut(self.bytes.len()) {
            if self.bytes.len() - self.used < piece.len() {
                // Without chance no lease would fence; there is no way to go on.
                getrandom::fill(&mut self.bytes)
                    .expect("the operating system gives random numbers");
                self.used = 0;
            }
            let end = self.used + piece.len();
            piece.copy_from_slice(&self.bytes[self.used..end]);
            self.used = end;
        }
    }
}

/// The real world.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Env for System {
    fn elapsed(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
        // The time since the machine started is never negative.
        Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the source of it")]
    fn wall(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp::EPOCH + since.unwrap_or_default()
    }

    fn random(&self, bytes: &mut [u8]) {
        thread_local!(static FETCHED: RefCell<Fetched> = const { RefCell::new(Fetched::NONE) });
        FETCHED.with_borrow_mut(|fetched| fetched.fill(bytes));
    }

    #[expect(clippy::disallowed_methods, reason = "this is the source of it")]
    fn sleep(&self, wait: Duration) -> Boxed {
        Box::pin(tokio::time::sleep(wait))
    }

    fn spawn(&self, task: Boxed) -> AbortHandle {
        tokio::spawn(task).abort_handle()
    }

    fn spawn_apart(&self, name: &str, task: Boxed) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || runtime.block_on(task))
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_chance_is_given_twice() {
        let system: &dyn Env = &System;
        let mut seeds: Vec<[u8; 10]> = (0..1_000).map(|_| system.seed()).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 1_000);
        let mut many = [0; 1_000];
        system.random(&mut many);
        assert!(many.chunks(50).all(|piece| piece.iter().any(|byte| *byte != 0)));
    }
}
