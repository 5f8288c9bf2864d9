//! Jobs.

use punctual::{AttemptView, JobView, LogView, ProgressView, StepView};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::list::text;

/// A job to enqueue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct EnqueueRequest {
    /// Kind of the job. It selects the handler.
    pub kind: String,
    /// Payload for the handler: any JSON value, at most 256 KiB. Payloads are not checked
    /// when the job is enqueued, except those of the kind `command`.
    #[serde(default)]
    pub payload: Value,
    /// Queue of the job. The name is not checked: a job in a queue that no node serves waits.
    /// Default: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Priority, -100 to 100. Each point counts as 60 seconds of waiting. Default: 0.
    #[serde(default)]
    pub priority: i16,
    /// Maximum number of attempts, 1 to 1,000. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Delay until the job is due, such as `90s` or `1h30m`. Default: due immediately. Cannot be
    /// combined with `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// Time at which the job is due (RFC 3339). A time in the past means immediately. Cannot be
    /// combined with `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Maximum run time of one attempt. Default: set by the node, normally `15m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Maximum total time for all attempts, such as `2h`. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Start deadline: an attempt must start within this time after the job is due, such as `10m`.
    /// Otherwise the job fails. Default: no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_within: Option<String>,
    /// Unique key: at most one unfinished job of the same kind can hold it. If a job with the same
    /// payload holds the key, the response names that job; if its payload differs, the request
    /// fails with 409.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_key: Option<String>,
    /// Hold the unique key for this time after enqueueing, such as `1h`, instead of until the job
    /// finishes. Requires `unique_key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_for: Option<String>,
    /// Tags to filter jobs by, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// The enqueued job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EnqueueResponse {
    /// Id of the job.
    pub id: String,
    /// False if a job with the same key already existed. `id` is then the id of that job.
    pub is_new: bool,
}

/// Jobs to enqueue in one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct BatchRequest {
    /// The jobs, at most 1,000.
    pub jobs: Vec<EnqueueRequest>,
}

/// The result of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchResponse {
    /// One result per job, in the order of the request.
    pub jobs: Vec<BatchItem>,
}

/// The result for one job of a batch: an id or an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchItem {
    /// Id of the job. Null if it was rejected.
    pub id: Option<String>,
    /// True if this request created the job.
    pub is_new: bool,
    /// Error message. Null if the job was accepted. Check it for each job: the status of the
    /// response is 200 even if jobs were rejected.
    pub error: Option<String>,
}

/// Changes to a waiting job. Omitted fields do not change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct MoveRequest {
    /// New queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// New priority, -100 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// New due time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Id of the job.
    pub id: String,
    /// `scheduled`, `ready`, `blocked`, `running`, `retrying`, `succeeded`, `failed` or
    /// `cancelled`.
    pub state: String,
    /// Kind of the job. It selects the handler.
    pub kind: String,
    /// Queue of the job.
    pub queue: String,
    /// Priority, -100 to 100. Each point counts as 60 seconds of waiting.
    pub priority: i16,
    /// Number of attempts started so far, including attempts that do not count.
    pub attempt: u32,
    /// Maximum number of counted attempts.
    pub max_attempts: u32,
    /// Time at which the job was created.
    pub created_at: String,
    /// Time at which the job is due. Null if the job is finished.
    pub due_at: Option<String>,
    /// Time at which the job finished. Null if it is unfinished.
    pub finished_at: Option<String>,
    /// Id (not the name) of the schedule that created the job. Null for other jobs. The list filter
    /// `schedule` takes the name.
    pub schedule: Option<String>,
    /// Slot that the job was created for. Null if it was created without one.
    pub slot: Option<String>,
    /// Error of the last attempt if the job failed, or the reason if it was cancelled. Null before
    /// the job is finished; see `attempts` of the job for the errors until then.
    pub error: Option<String>,
}

/// A job with its payload, result, attempts and steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobDetail {
    /// The job, as in a list.
    #[serde(flatten)]
    pub job: Job,
    /// Payload of the job.
    pub payload: Value,
    /// Result that the handler returned.
    pub result: Option<Value>,
    /// Tags of the job.
    pub tags: Vec<String>,
    /// W3C `traceparent` of the trace that the job belongs to.
    pub trace: Option<String>,
    /// Number of attempts that count against `max_attempts`. Snoozed and released attempts do not
    /// count.
    pub counted_attempts: u32,
    /// Number of attempts whose node died.
    pub crashes: u32,
    /// Start deadline: if no attempt has started until then, the job fails. Null if the job has none, or
    /// after it was retried.
    pub start_deadline_at: Option<String>,
    /// True if the handler was asked to stop.
    pub cancel_requested: bool,
    /// Last progress report of the running attempt.
    pub progress: Option<Progress>,
    /// Attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// Stored results of the job's steps.
    pub steps: Vec<Step>,
}

/// A progress report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Completed share of the work in percent, 0 to 100.
    pub percent: Option<u8>,
    /// Short description of the current work.
    pub note: String,
    /// Time of the report.
    pub at: String,
}

/// One attempt to run a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Number of the attempt, starting at 1.
    pub attempt: u32,
    /// Id of the node that ran the attempt.
    pub node: Option<String>,
    /// Time at which a node claimed the job for this attempt.
    pub claimed_at: String,
    /// Time at which the attempt finished. Null if it is running.
    pub ended_at: Option<String>,
    /// `succeeded`, `failed`, `cancelled`, `timed_out`, `abandoned`, `released`, `snoozed` or
    /// `panicked`. Null if the attempt is running.
    pub outcome: Option<String>,
    /// Error message of the attempt.
    pub error: Option<String>,
}

/// The stored result of a step of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Name of the step.
    pub name: String,
    /// Result of the step.
    pub result: Value,
    /// Time at which the result was stored.
    pub at: String,
}

/// A line of a job's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// Number of the attempt that wrote the line.
    pub attempt: u32,
    /// Line number within the attempt, starting at 1.
    pub number: u32,
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// Text of the line.
    pub text: String,
    /// Time at which the line was written.
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
            counted_attempts: detail.spent,
            crashes: detail.crashes,
            start_deadline_at: text(detail.expires_at),
            cancel_requested: detail.cancel_requested,
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
