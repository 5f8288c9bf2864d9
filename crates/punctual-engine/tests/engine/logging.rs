//! The events that a node logs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use punctual_conformance::Fault;
use punctual_core::JobId;
use punctual_core::job::{JobState, Outcome};
use punctual_engine::{Attempt, Ended};
use punctual_store::NewJob;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use crate::world::*;

/// The log of this thread since [`Logged::start`].
pub(crate) struct Logged {
    lines: Lines,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Logged {
    pub(crate) fn start() -> Logged {
        let lines = Lines::default();
        let log = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false);
        let log = log.without_time().with_target(false).finish();
        Logged { lines, _guard: tracing::subscriber::set_default(log) }
    }

    /// The events about attempts of this job.
    pub(crate) fn attempts(&self, job: JobId) -> String {
        let text = String::from_utf8(self.lines.0.lock().unwrap().clone()).unwrap();
        let text = text.replace(&job.to_string(), "JOB");
        let is_of_job = |line: &&str| line.contains("outcome=") && line.contains("job=JOB");
        text.lines().filter(is_of_job).map(str::trim).collect::<Vec<_>>().join("\n")
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_logged_although_the_response_of_its_settlement_is_lost() {
    let world = World::new();
    let logged = Logged::start();
    let fails = |_: Attempt| async { Ended::from(Outcome::FailForGood("no paper".to_owned())) };
    let node = world.start(config("a", 3), on("mail", fails)).await;
    node.line.fail(&["settle"], Fault::Reply);
    let job = world.enqueue(NewJob { max_attempts: 1, ..world.job("mail") }).await;
    world.until("it is settled twice", || node.line.calls("settle") >= 2).await;
    assert_eq!(world.state(job).await, JobState::Failed);
    node.line.heal();
    world.until("the node lets go of it", || node.health().held == 0).await;
    let events = logged.attempts(job);
    assert_eq!(events.lines().count(), 1, "{events}");
    assert!(events.starts_with("ERROR job failed for good kind=\"mail\""), "{events}");
    assert!(events.ends_with("outcome=\"failed\" error=\"no paper\""), "{events}");
}
