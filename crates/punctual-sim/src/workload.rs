//! The jobs of a simulated run: short ones, ones that outlive a node's death, and all the ways a
//! handler can misbehave.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::job::Outcome;
use punctual_core::{JobId, LeaseId, Timestamp};
use punctual_engine::{Attempt, Ended, Handlers};
use punctual_store::{Delay, Json, KeyLifetime, KeyScope, NewJob, UniqueKey};

use crate::chance::Chance;
use crate::process::Process;
use crate::record::{How, Record};

/// What a handler does, from the payload of its job.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Script {
    ms: u64,
    then: Then,
    on_stop: OnStop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Then {
    Done,
    Fail,
    FailForGood,
    RetryAfter,
    Snooze,
    OutOfResources,
    Panic,
    Kill,
    /// One of the others, by the job's id.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum OnStop {
    /// Ends at once with an error.
    Obey,
    /// Goes on until it is dropped.
    Ignore,
    /// Says that it is done, a little later.
    FinishLate,
}

/// A job to be submitted.
pub(crate) fn job(chance: &Chance, now: Timestamp, poison: u64) -> NewJob {
    let ms = match chance.below(100) {
        0..60 => chance.below(20),
        60..85 => 500 + chance.below(2_000),
        85..95 => 4_000 + chance.below(1_000),
        _ => 1_000_000,
    };
    let then = match chance.below(100) {
        0..75 => Then::Done,
        75..85 => Then::Fail,
        85..88 => Then::FailForGood,
        88..92 => Then::RetryAfter,
        92..95 => Then::Snooze,
        95 => Then::OutOfResources,
        _ => Then::Panic,
    };
    let then = if chance.in_thousand(poison) { Then::Kill } else { then };
    let on_stop = chance.pick(&[OnStop::Obey, OnStop::Obey, OnStop::Ignore, OnStop::FinishLate]);
    // A poisonous job must get to its deed, or it is none.
    let ms = if then == Then::Kill { chance.below(20) } else { ms };
    let script = Script { ms, then, on_stop };
    let mut random = [0; 10];
    chance.fill(&mut random);
    let (queue, kind) = (chance.pick(&["fast", "slow"]), chance.pick(&["a", "b"]));
    let payload = Json::new(&script).unwrap_or_else(|_| Json::null());
    let mut job = NewJob::new(JobId::mint(now, random), queue, kind, payload);
    job.max_attempts = 1 + chance.below(4) as u32;
    job.priority = chance.below(5) as i16 - 2;
    job.timeout = Some(Duration::from_millis(if ms > 100_000 { 2_500 } else { 6_000 }));
    if chance.in_thousand(150) {
        job.delay = Delay::For(chance.ms(100, 4_000));
    }
    if chance.in_thousand(50) {
        job.budget = Some(chance.ms(1_000, 6_000));
    }
    if chance.in_thousand(50) {
        job.start_within = Some(chance.ms(500, 8_000));
    }
    if chance.in_thousand(100) {
        let key = format!("key {}", chance.below(5));
        job.unique = Some(UniqueKey {
            key,
            scope: KeyScope::Kind,
            lifetime: KeyLifetime::Job,
            is_by_payload: false,
        });
    }
    job
}

/// The queue that no process serves: its jobs end only by their start deadline.
pub(crate) const UNSERVED: &str = "unserved";

/// A job that no process can run.
pub(crate) fn unserved(chance: &Chance, now: Timestamp) -> NewJob {
    let start_within = Some(chance.ms(200, 5_000));
    NewJob { queue: UNSERVED.to_owned(), start_within, ..plain(chance, now) }
}

/// The handlers of a process.
pub(crate) fn handlers(process: &Arc<Process>, record: &Arc<Record>) -> Handlers {
    let mut handlers = Handlers::default();
    for kind in ["a", "b"] {
        let (process, record) = (process.clone(), record.clone());
        handlers.add(kind, move |attempt: Attempt| {
            let execution = Execution::begin(&process, &record, &attempt);
            run(attempt, execution)
        });
    }
    handlers
}

/// An attempt that is under way; if it is dropped, it says so.
struct Execution {
    process: Arc<Process>,
    record: Arc<Record>,
    job: JobId,
    lease: LeaseId,
    is_over: bool,
}

impl Execution {
    fn begin(process: &Arc<Process>, record: &Arc<Record>, attempt: &Attempt) -> Execution {
        record.begins(process.number, &attempt.job);
        Execution {
            process: process.clone(),
            record: record.clone(),
            job: attempt.job.id,
            lease: attempt.job.lease,
            is_over: false,
        }
    }

    fn end(mut self, how: How) {
        self.is_over = true;
        self.record.ends(self.process.number, self.job, self.lease, how);
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if !self.is_over {
            self.record.ends(self.process.number, self.job, self.lease, How::Dropped);
        }
    }
}

/// The message of a panic that is part of the play.
const PLANNED_PANIC: &str = "a planned panic";

/// Panics of handlers are part of the play and would bury what matters.
pub fn silence_planned_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&PLANNED_PANIC) {
            usual(info);
        }
    }));
}

async fn run(attempt: Attempt, execution: Execution) -> Ended {
    let script: Script = match serde_json::from_str(attempt.job.payload.as_str()) {
        Ok(script) => script,
        Err(error) => return Outcome::FailForGood(error.to_string()).into(),
    };
    attempt.progress(Some(1), "began");
    let worked = async {
        let sleep = pass(Duration::from_millis(script.ms));
        if script.on_stop == OnStop::Ignore {
            sleep.await;
            return true;
        }
        tokio::select! {
            biased;
            _ = attempt.stopped() => false,
            () = sleep => true,
        }
    };
    if !worked.await {
        if script.on_stop == OnStop::FinishLate {
            pass(Duration::from_millis(script.ms % 700)).await;
            execution.end(How::Done);
            return Outcome::Done.into();
        }
        execution.end(How::Failed);
        return Outcome::Fail("stopped by request".to_owned()).into();
    }
    let is_first = attempt.job.attempt == 1;
    let then = match script.then {
        Then::Any => match attempt.job.id.as_bytes()[15] % 16 {
            0 => Then::Fail,
            1 => Then::FailForGood,
            2 => Then::RetryAfter,
            3 => Then::Snooze,
            4 => Then::Panic,
            _ => Then::Done,
        },
        then => then,
    };
    let (how, outcome) = match then {
        Then::Fail => (How::Failed, Outcome::Fail("as planned".to_owned())),
        Then::FailForGood => (How::Failed, Outcome::FailForGood("as planned".to_owned())),
        Then::RetryAfter if is_first => {
            (How::Failed, Outcome::RetryAfter(Duration::from_millis(300), "later".to_owned()))
        }
        Then::Snooze if is_first => (How::Snoozed, Outcome::Snooze(Duration::from_millis(300))),
        Then::OutOfResources if is_first => {
            (How::Failed, Outcome::OutOfResources("too many open files, as planned".to_owned()))
        }
        Then::Panic => {
            execution.end(How::Panicked);
            std::panic::panic_any(PLANNED_PANIC);
        }
        Then::Kill => {
            execution.process.kill();
            std::future::pending::<()>().await;
            (How::Dropped, Outcome::Done)
        }
        Then::Done | Then::RetryAfter | Then::Snooze | Then::OutOfResources | Then::Any => {
            (How::Done, Outcome::Done)
        }
    };
    execution.end(how);
    outcome.into()
}

#[expect(clippy::disallowed_methods, reason = "simulated time is tokio's paused clock")]
async fn pass(wait: Duration) {
    tokio::time::sleep(wait).await;
}

/// What the jobs of a schedule do, each of which takes so long.
pub(crate) fn of_schedule(chance: &Chance, ms: u64) -> serde_json::Value {
    let on_stop = chance.pick(&[OnStop::Obey, OnStop::Obey, OnStop::Ignore, OnStop::FinishLate]);
    let then = chance.pick(&[Then::Done, Then::Any]);
    serde_json::to_value(Script { ms, then, on_stop }).unwrap_or_default()
}

/// A job that does nothing special.
pub(crate) fn plain(chance: &Chance, now: Timestamp) -> NewJob {
    let script = Script { ms: 200, then: Then::Done, on_stop: OnStop::Obey };
    let mut random = [0; 10];
    chance.fill(&mut random);
    let payload = Json::new(&script).unwrap_or_else(|_| Json::null());
    NewJob::new(JobId::mint(now, random), "fast", "a", payload)
}
