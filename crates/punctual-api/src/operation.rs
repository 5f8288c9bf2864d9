//! Many jobs at once.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::{MoveRequest, Progress};

/// An action to apply to all jobs that match a filter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct OperationRequest {
    /// `retry`, `cancel` or `move`.
    pub action: String,
    /// Filter in the syntax of the job list: `state:failed kind:send_email`. Must not be empty. If
    /// a key is repeated, only its last value counts.
    pub q: String,
    /// New queue, priority or due time. Required for `move`, not allowed for other actions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<MoveRequest>,
    /// Reason, for the audit log.
    #[serde(default)]
    pub why: String,
}

/// A bulk operation on jobs or schedules. It is a job with the same id and also appears in job
/// lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// Id of the operation.
    pub id: String,
    /// `retry`, `cancel` or `move` for jobs; `pause` or `resume` for schedules (started by the
    /// dashboard).
    pub action: String,
    /// Filter for the jobs, or search words for the names and definitions of schedules.
    pub q: String,
    /// Actor that requested the operation.
    pub who: String,
    /// Reason that the actor gave.
    pub why: String,
    /// State of the operation, which is a job state.
    pub state: String,
    /// Time of the request. Jobs that were created or finished after this time are not changed.
    pub created_at: String,
    /// Time at which the operation finished. Null if it is unfinished.
    pub finished_at: Option<String>,
    /// Last progress report.
    pub progress: Option<Progress>,
    /// Counts of changed and skipped jobs. Null until the operation has succeeded.
    pub result: Option<OperationCounts>,
    /// Error message if the operation did not succeed.
    pub error: Option<String>,
}

/// The result of a bulk operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OperationCounts {
    /// Number of jobs or schedules that were changed.
    pub done: u64,
    /// Number of jobs or schedules that could not be changed.
    pub skipped: u64,
    /// Reasons for the first skipped entries, at most 10.
    pub reasons: Vec<String>,
}
