//! The events that a node logs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use punctual_conformance::Fault;
use punctual_core::JobId;
use punctual_core::job::{JobState, Outcome};
use punctual_core::schedule::{Definition, Overlap};
use punctual_engine::{Attempt, Ended, Schedules};
use punctual_store::rules::{Spoil, UNREADABLE};
use punctual_store::{Delay, NewJob};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use crate::scheduling::ana;
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

    /// The lines so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.lines.0.lock().unwrap().clone()).unwrap()
    }

    /// The events about attempts of this job.
    pub(crate) fn attempts(&self, job: JobId) -> String {
        let text = self.text().replace(&job.to_string(), "JOB");
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

/// Slots that are added up for the next minute are not lost with the node.
#[tokio::test(start_paused = true)]
async fn skipped_slots_are_logged_when_the_node_stops() {
    let world = World::new();
    let logged = Logged::start();
    let node = world.start(config("a", 3), on("mail", hangs)).await;
    let mut definition = Definition::new("@every 1s", "mail");
    definition.overlap = Overlap::Skip;
    let schedules = Schedules::new(world.env.clone(), Arc::new(world.memory.clone()));
    schedules.create("", "mails", "ops", &definition, &ana()).await.unwrap();
    world.pass(s(20)).await;
    let skipped = |text: &str| text.matches("slots skipped").count();
    assert_eq!(skipped(&logged.text()), 1);
    node.stop_now();
    world.soon(node.stopped()).await;
    world.pass(ms(1)).await;
    let text = logged.text();
    assert_eq!(skipped(&text), 2, "{text}");
}

/// Nothing else tells of a job that failed without an attempt.
#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_read_is_logged_when_it_fails() {
    let world = World::new();
    let logged = Logged::start();
    let body = world.enqueue(world.job("mail")).await;
    world.memory.spoil(Spoil::Body(body));
    let _node = world.start(config("a", 3), on("mail", hangs)).await;
    let lease = world.enqueue(world.job("mail")).await;
    world.comes_to(lease, JobState::Running).await;
    world.memory.spoil(Spoil::Lease(lease));
    let timer = NewJob { delay: Delay::For(s(30)), ..world.job("mail") };
    let timer = world.enqueue(timer).await;
    world.memory.spoil(Spoil::Seat(timer));
    for job in [body, lease, timer] {
        world.comes_to(job, JobState::Failed).await;
        let event = format!(
            "ERROR job failed for good kind=\"mail\" queue=\"default\" job={job} \
             error=\"{UNREADABLE}\""
        );
        let text = logged.text();
        assert_eq!(text.matches(&event).count(), 1, "{text}");
    }
}
