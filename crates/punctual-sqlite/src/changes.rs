//! Notices what others commit to the file: a producer's process, the command line, the
//! application's own transactions. Nobody else tells the engine of these.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use punctual_store::{Bell, Result, Topic};

use crate::writer::{Asker, no_thread};

/// From look to look. A look costs some 20 µs, so that this is a fiftieth of a percent of a core.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The thread that looks.
pub(crate) struct Changes {
    thread: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Changes {
    /// Rings the bell whenever somebody else has committed.
    pub(crate) fn start(asker: Asker, bell: Arc<Bell>) -> Result<Changes> {
        let is_over = Arc::<AtomicBool>::default();
        let is_told = is_over.clone();
        let look = move || {
            let mut last = None;
            while !is_told.load(Ordering::Acquire) {
                let Some(version) = asker.data_version() else { return };
                if last.replace(version).is_some_and(|last| last != version) {
                    for topic in [Topic::Work, Topic::Roles, Topic::Schedules, Topic::Finished] {
                        bell.ring(topic);
                    }
                }
                thread::park_timeout(LOOK_EVERY);
            }
        };
        let thread = thread::Builder::new().name("punctual-changes".to_owned());
        let thread = thread.spawn(look).map_err(no_thread)?;
        Ok(Changes { thread: Some(thread), is_over })
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread was printed where it happened.
            let _ = thread.join();
        }
    }
}
