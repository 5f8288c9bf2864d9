//! A simulated process: tasks that can be killed between any two steps, or frozen and thawed.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_engine::{Boxed, Env};
use tokio::task::AbortHandle;

use crate::chance::Chance;
use crate::clock::Clock;

/// One start of one process.
pub(crate) struct Process {
    /// Its number; each start has its own.
    pub(crate) number: u32,
    clock: Arc<Clock>,
    chance: Chance,
    /// How wrong its wall clock is.
    skew: i64,
    is_frozen: AtomicBool,
    is_dead: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Process {
    /// Starts with nothing to do.
    pub(crate) fn new(number: u32, clock: Arc<Clock>, chance: Chance) -> Process {
        let day = 86_400_000_000;
        let skew = i64::try_from(chance.below(2 * day)).unwrap_or(0) - day as i64;
        Process {
            number,
            clock,
            chance,
            skew,
            is_frozen: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
            wakers: Mutex::default(),
            tasks: Mutex::default(),
        }
    }

    /// Ends every task where it is, as `kill -9` does.
    pub(crate) fn kill(&self) {
        self.is_dead.store(true, Ordering::Release);
        for task in self.tasks.lock().expect("single thread").drain(..) {
            task.abort();
        }
    }

    /// Is it killed?
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }

    /// Stops it where it is, as SIGSTOP or a suspended machine does.
    pub(crate) fn freeze(&self) {
        self.is_frozen.store(true, Ordering::Release);
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.is_frozen.store(false, Ordering::Release);
        for waker in self.wakers.lock().expect("single thread").drain(..) {
            waker.wake();
        }
    }

    /// Is it frozen?
    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen.load(Ordering::Acquire)
    }
}

/// A task that stands still while its process is frozen, and is gone when it is dead.
struct Task {
    process: Arc<Process>,
    task: Boxed,
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.process.is_dead() {
            return Poll::Ready(());
        }
        if self.process.is_frozen() {
            self.process.wakers.lock().expect("single thread").push(context.waker().clone());
            return Poll::Pending;
        }
        self.task.as_mut().poll(context)
    }
}

/// The world as a process sees it.
pub(crate) struct SimEnv(pub Arc<Process>);

impl Env for SimEnv {
    fn elapsed(&self) -> Duration {
        self.0.clock.elapsed()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(self.0.clock.now().as_micros() + self.0.skew)
    }

    fn random(&self, bytes: &mut [u8]) {
        self.0.chance.fill(bytes);
    }

    #[expect(clippy::disallowed_methods, reason = "simulated time is tokio's paused clock")]
    fn sleep(&self, wait: Duration) -> Boxed {
        Box::pin(tokio::time::sleep(wait))
    }

    fn spawn(&self, task: Boxed) -> AbortHandle {
        let task = tokio::spawn(Task { process: self.0.clone(), task }).abort_handle();
        let mut tasks = self.0.tasks.lock().expect("single thread");
        tasks.retain(|task| !task.is_finished());
        tasks.push(task.clone());
        task
    }

    fn spawn_apart(&self, _: &str, task: Boxed) -> std::io::Result<()> {
        self.spawn(task);
        Ok(())
    }
}
