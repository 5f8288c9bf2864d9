//! Jobs.

use punctual::{AttemptView, JobView, LogView, ProgressView, StepView};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::list::text;

/// A job to be enqueued.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Enqueue {
    /// Which handler it is for.
    pub kind: String,
    /// What the handler is given.
    #[serde(default)]
    pub payload: Value,
    /// Where it waits; `default` if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// −100 to 100, higher first.
    #[serde(default)]
    pub priority: i16,
    /// The most counted attempts; 5 if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// It is due after this long, such as `90s` or `1h30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// It is due at this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The most time for one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// The most time for all attempts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// No attempt starts later than this after the job was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_within: Option<String>,
    /// One unfinished job of its kind at a time may hold this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_key: Option<String>,
    /// The key is held for this long instead, whether the job has ended or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_for: Option<String>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Enqueued {
    /// The job.
    pub id: String,
    /// False if there was one with the same key that does the same work.
    pub is_new: bool,
}

/// Jobs to be enqueued together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Up to 1,000 jobs.
    pub jobs: Vec<Enqueue>,
}

/// One answer for each job of a batch, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchAnswer {
    /// The answers.
    pub jobs: Vec<BatchItem>,
}

/// What became of one job of a batch: it has an id, or an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchItem {
    /// The job.
    pub id: Option<String>,
    /// Was it made by this request?
    pub is_new: bool,
    /// Why it was refused.
    pub error: Option<String>,
}

/// Where a waiting job should be. What is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// Another queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Another priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// Another due time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its name for ever.
    pub id: String,
    /// Where it is in its life.
    pub state: String,
    /// Which handler it is for.
    pub kind: String,
    /// Where it waits or waited.
    pub queue: String,
    /// −100 to 100, higher first.
    pub priority: i16,
    /// Attempts that were started.
    pub attempt: u32,
    /// The most counted attempts.
    pub max_attempts: u32,
    /// When it was written.
    pub created_at: String,
    /// When it is due; null once it has ended.
    pub due_at: Option<String>,
    /// When it ended.
    pub finished_at: Option<String>,
    /// The schedule that made it, by its id.
    pub schedule: Option<String>,
    /// The slot that it was made for.
    pub slot: Option<String>,
    /// What went wrong, if it ended badly.
    pub error: Option<String>,
}

/// All about one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobDetail {
    /// As in a list.
    #[serde(flatten)]
    pub job: Job,
    /// What its handler is given.
    pub payload: Value,
    /// What its handler returned.
    pub result: Option<Value>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The trace that it belongs to.
    pub trace: Option<String>,
    /// Counted attempts.
    pub spent: u32,
    /// Attempts that ended with the death of their node.
    pub crashes: u32,
    /// Has somebody asked its handler to stop?
    pub cancel_asked: bool,
    /// How far the attempt that is under way has come.
    pub progress: Option<Progress>,
    /// Attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// Steps that it has kept.
    pub steps: Vec<Step>,
}

/// How far an attempt has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// How much of the work is done, up to 100.
    pub percent: Option<u8>,
    /// What it is doing.
    pub note: String,
    /// When it said so.
    pub at: String,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Its number.
    pub attempt: u32,
    /// The node that tried.
    pub node: Option<String>,
    /// Since when.
    pub claimed_at: String,
    /// Until when; null while it is under way.
    pub ended_at: Option<String>,
    /// How it ended.
    pub outcome: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

/// A step that a job has kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// What it came to.
    pub result: Value,
    /// When it was kept.
    pub at: String,
}

/// A line of a job's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// The attempt.
    pub attempt: u32,
    /// Its number within the attempt.
    pub number: u32,
    /// How much it matters.
    pub level: String,
    /// What it says.
    pub text: String,
    /// When it was written.
    pub at: String,
}

impl From<JobView> for Job {
    fn from(view: JobView) -> Job {
        Job {
            id: view.id.to_string(),
            state: view.state.to_string(),
            kind: view.kind,
            queue: view.queue,
            priority: view.priority,
            attempt: view.attempt,
            max_attempts: view.max_attempts,
            created_at: view.created_at.to_string(),
            due_at: text(view.due_at),
            finished_at: text(view.finished_at),
            schedule: text(view.schedule.map(|(schedule, _)| schedule)),
            slot: text(view.schedule.and_then(|(_, slot)| slot)),
            error: view.error,
        }
    }
}

/// Stored JSON; text that is none is shown as it is.
pub(crate) fn value(json: &punctual::Json) -> Value {
    serde_json::from_str(json.as_str()).unwrap_or_else(|_| Value::String(json.to_string()))
}

impl JobDetail {
    /// All about one job, with its steps.
    pub fn of(detail: punctual::JobDetail, steps: Vec<StepView>) -> JobDetail {
        JobDetail {
            payload: value(&detail.payload),
            result: detail.result.as_ref().map(value),
            tags: detail.tags,
            trace: detail.trace,
            spent: detail.spent,
            crashes: detail.crashes,
            cancel_asked: detail.cancel_asked,
            progress: detail.progress.map(Progress::from),
            attempts: detail.attempts.into_iter().map(Attempt::from).collect(),
            steps: steps.into_iter().map(Step::from).collect(),
            job: detail.view.into(),
        }
    }
}

impl From<ProgressView> for Progress {
    fn from(view: ProgressView) -> Progress {
        Progress { percent: view.percent, note: view.note, at: view.at.to_string() }
    }
}

impl From<AttemptView> for Attempt {
    fn from(view: AttemptView) -> Attempt {
        Attempt {
            attempt: view.attempt,
            node: text(view.node),
            claimed_at: view.claimed_at.to_string(),
            ended_at: text(view.ended_at),
            outcome: text(view.outcome),
            error: view.error,
        }
    }
}

impl From<StepView> for Step {
    fn from(view: StepView) -> Step {
        Step { result: value(&view.result), name: view.name, at: view.at.to_string() }
    }
}

impl From<LogView> for LogLine {
    fn from(view: LogView) -> LogLine {
        LogLine {
            attempt: view.attempt,
            number: view.number,
            level: view.level.to_string(),
            text: view.text,
            at: view.at.to_string(),
        }
    }
}
