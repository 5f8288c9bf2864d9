//! Ending attempts, and changing what waits.

use punctual_core::job::{JobState, Transition};
use punctual_core::{JobId, LeaseId, Timestamp};

use crate::{Json, NewJob, Result, StoreError, limits};

/// A decided transition of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The job.
    pub job: JobId,
    /// The lease of the attempt. If it is gone, nothing is applied.
    pub lease: LeaseId,
    /// What is to be written.
    pub transition: Transition,
    /// What the handler returned, for an attempt that succeeded.
    pub result: Option<Json>,
    /// Jobs that are written with it, if it is applied, as an enqueue would write them. They have
    /// neither a unique key, whose answer nobody would hear, nor an origin.
    pub then: Vec<NewJob>,
}

/// What became of one settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was applied, and this is where the job is now.
    Applied(JobState),
    /// This lease's own outcome is recorded already: an answer was lost, all is well.
    Already,
    /// The lease is gone and the outcome is not its own: the job is another's.
    Fenced,
}

/// The answer to a settle, item by item in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlements {
    /// The instant that was used.
    pub at: Timestamp,
    /// One for each settlement.
    pub answers: Vec<Settled>,
    /// Did a job end for which others of its schedule wait? They go on with the next promote.
    pub frees: bool,
    /// Did an attempt end in a queue with a limit for all nodes? Then another job of it may start.
    pub has_room: bool,
}

impl Settlements {
    /// Can a job be claimed now that could not be claimed before: one that is ready again, one that
    /// was written with its settlement, or one of a limited queue?
    pub fn has_work(&self, batch: &[Settlement]) -> bool {
        self.has_room
            || self.answers.contains(&Settled::Applied(JobState::Ready))
            || batch.iter().zip(&self.answers).any(|(item, answer)| {
                matches!(answer, Settled::Applied(_)) && !item.then.is_empty()
            })
    }

    /// Has a job finished?
    pub fn has_finished(&self, batch: &[Settlement]) -> bool {
        batch.iter().zip(&self.answers).any(|(item, answer)| match answer {
            Settled::Applied(state) => state.is_final(),
            Settled::Already => item.transition.next.is_final(),
            Settled::Fenced => false,
        })
    }
}

/// What became of calling a job off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelAnswer {
    /// It waited and will not run.
    Cancelled,
    /// It runs; its worker has been asked to stop.
    Asked,
    /// It had ended before.
    Ended(JobState),
    /// There is no such job.
    NotFound,
}

/// What became of making an ended job ready again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequeueAnswer {
    /// It is ready.
    Requeued,
    /// It is in this state, from which there is nothing to requeue.
    NotFailed(JobState),
    /// Its unique key belongs to this job now.
    KeyTaken(JobId),
    /// There is no such job.
    NotFound,
}

/// Where a waiting job should be. What is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Another queue.
    pub queue: Option<String>,
    /// Another priority.
    pub priority: Option<i16>,
    /// Another due time.
    pub due_at: Option<Timestamp>,
}

/// What became of placing a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveAnswer {
    /// It waits there, in this state.
    Moved(JobState),
    /// It is in this state, in which it cannot be moved.
    NotWaiting(JobState),
    /// Its unique key, which holds for its queue, belongs to this job in the other one; it stays.
    KeyTaken(JobId),
    /// There is no such job.
    NotFound,
}

impl Placement {
    /// Checks it against the bounds.
    pub fn check(&self) -> Result<()> {
        if let Some(queue) = &self.queue {
            limits::check_name("queue", queue, false).map_err(StoreError::invalid)?;
        }
        match self.priority.filter(|priority| priority.abs() > limits::PRIORITY_MAX) {
            Some(priority) => Err(StoreError::invalid(format!(
                "priority must be between -100 and 100, got {priority}"
            ))),
            None => Ok(()),
        }
    }
}
