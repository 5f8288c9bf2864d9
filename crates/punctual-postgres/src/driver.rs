//! Threads of the store's own, on which its connections live. A handler that blocks the
//! application's threads would otherwise stop the heartbeat too, and a caller on a runtime that
//! cannot do IO, or that ends before the store does, could not use it.

use punctual_store::{ErrorKind, Result, StoreError};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// Reading and writing what a server can take does not fill two.
const THREADS: usize = 2;

pub(crate) struct Driver {
    /// There until the driver is dropped.
    runtime: Option<Runtime>,
}

impl Driver {
    pub(crate) fn start() -> Result<Driver> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("punctual-postgres")
            .enable_all()
            .build()
            .map_err(|error| {
                let message = format!(
                    "cannot start a thread for the store ({error}); raise the thread limit of the \
                     process"
                );
                StoreError::new(ErrorKind::Unreachable, message)
            })?;
        Ok(Driver { runtime: Some(runtime) })
    }

    /// Runs a task there.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        match &self.runtime {
            Some(runtime) => runtime.spawn(task),
            // Only `drop` takes the runtime.
            None => tokio::spawn(task),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its threads is not allowed where others' tasks run, and they have
            // nothing left to do.
            runtime.shutdown_background();
        }
    }
}
