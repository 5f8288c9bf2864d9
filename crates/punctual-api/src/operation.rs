//! Many jobs at once.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::{Move, Progress};

/// A wish to do one thing to many jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Operate {
    /// `retry`, `cancel` or `move`.
    pub action: String,
    /// Which jobs, in the words of the list of jobs: `state:failed kind:send_email`.
    pub q: String,
    /// Where to move them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Move>,
    /// Why.
    #[serde(default)]
    pub why: String,
}

/// What is done to many jobs, or to many schedules. It is a job itself, by this id, and shown among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// Its name for ever.
    pub id: String,
    /// `retry`, `cancel` or `move`; of schedules `pause` or `resume`, which the dashboard begins.
    pub action: String,
    /// Which jobs; of schedules, words of their names or definitions.
    pub q: String,
    /// Who asked for it.
    pub who: String,
    /// Why.
    pub why: String,
    /// Where it is in its life, as a job.
    pub state: String,
    /// When it was asked for: jobs that are younger, or have ended since, are left alone.
    pub created_at: String,
    /// When it ended.
    pub finished_at: Option<String>,
    /// How far it has come.
    pub progress: Option<Progress>,
    /// What it came to, once it has succeeded.
    pub result: Option<OperationCounts>,
    /// What went wrong, if it ended badly.
    pub error: Option<String>,
}

/// What an operation came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OperationCounts {
    /// Jobs that were retried, cancelled or moved.
    pub done: u64,
    /// Jobs that could not be.
    pub refused: u64,
    /// Why, of the first few.
    pub reasons: Vec<String>,
}
