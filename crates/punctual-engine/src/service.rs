//! The one shape of everything that runs beside the work: a pass, a rest, and again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_store::{ErrorKind, Result, StoreError};
use tokio::sync::Notify;

use crate::env::Env;
use crate::failure_log::FailureLog;
use crate::level::Level;
use crate::telemetry;

/// The shortest and the longest wait after a pass that failed; it doubles in between.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Something that a node does again and again.
#[async_trait]
pub(crate) trait Service: Send {
    /// What logs and metrics call it.
    fn name(&self) -> &'static str;
    /// One pass.
    async fn run_once(&mut self) -> Result<Report>;
}

/// What a pass did, and when the next one is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// How many things were done: jobs, leases, rows.
    pub(crate) done: usize,
    /// When to go on.
    pub(crate) rest: Rest,
}

/// How long a service rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Not at all.
    None,
    /// Until it is woken, and at most so long.
    AtMost(Duration),
    /// Until it is woken.
    UntilWoken,
    /// For so long, whoever wakes it: the last pass failed.
    Pause(Duration),
    /// For ever: there is nothing left to do.
    End,
}

impl Report {
    pub(crate) fn new(done: usize, rest: Rest) -> Report {
        Report { done, rest }
    }
}

/// Runs a service until its time is over. A pass that fails or panics is logged and tried
/// again later: a service that ended would be missed by nobody until it is too late.
pub(crate) async fn run(
    env: Arc<dyn Env>,
    mut service: impl Service,
    wake: Arc<Notify>,
    over: Arc<Level>,
) {
    let (mut backoff, mut failures) = (BACKOFF.0, FailureLog::default());
    while over.get() == 0 {
        let rest = match caught(service.run_once()).await {
            Ok(Ok(report)) => {
                backoff = BACKOFF.0;
                telemetry::passed(service.name(), &report);
                if let Some(failed) = failures.succeeded(env.elapsed()) {
                    telemetry::recovered(service.name(), failed);
                }
                report.rest
            }
            Ok(Err(error)) => {
                let line = failures.failed(&error.to_string(), env.elapsed());
                telemetry::pass_failed(service.name(), &error, line);
                Rest::Pause(pause(&*env, &mut backoff))
            }
            Err(panic) => {
                telemetry::panicked(service.name(), &panic);
                Rest::Pause(pause(&*env, &mut backoff))
            }
        };
        let rested = async {
            match rest {
                Rest::None => {}
                Rest::UntilWoken => wake.notified().await,
                Rest::AtMost(wait) => tokio::select! {
                    biased;
                    () = wake.notified() => {}
                    () = env.sleep(wait) => {}
                },
                Rest::Pause(wait) => env.sleep(wait).await,
                Rest::End => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = over.reached(1) => return,
            () = rested => {}
        }
    }
}

fn pause(env: &dyn Env, backoff: &mut Duration) -> Duration {
    let wait = env.jitter(*backoff);
    *backoff = (*backoff * 2).min(BACKOFF.1);
    wait
}

/// The answer of a store, if it comes in time. A store that hangs must not hang the node: what
/// has no answer is as good as refused, and every caller can repeat what it asked. The same goes
/// for one that panics.
pub(crate) async fn within<T>(
    env: &dyn Env,
    patience: Duration,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        answer = caught(call) => answer.unwrap_or_else(|panic| {
            let message = format!("the store panicked (this is a bug): {panic}");
            Err(StoreError::new(ErrorKind::Unreachable, message))
        }),
        () = env.sleep(patience) => {
            let waited = punctual_core::format_duration(patience);
            let message = format!("no response from the store within {waited}");
            Err(StoreError::new(ErrorKind::Unreachable, message).timed_out())
        }
    }
}

/// What a future ends in, or the message it panicked with.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> std::result::Result<T, String> {
    let mut future = std::pin::pin!(future);
    let polled = std::future::poll_fn(|context| {
        let poll = AssertUnwindSafe(|| future.as_mut().poll(context));
        match std::panic::catch_unwind(poll) {
            Ok(std::task::Poll::Pending) => std::task::Poll::Pending,
            Ok(std::task::Poll::Ready(value)) => std::task::Poll::Ready(Ok(value)),
            Err(panic) => std::task::Poll::Ready(Err(message(&*panic))),
        }
    });
    polled.await
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic message is not text".to_owned())
}
