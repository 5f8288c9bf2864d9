//! The unfinished jobs of a schedule, which others of it may have to mind.

use punctual_core::ScheduleId;
use punctual_core::job::JobState;
use punctual_store::{JobDetail, JobFilter, JobView, Result, Store, StoreError, limits};

use super::cluster::Cluster;
use crate::wording::{lasting, when};

/// What is unfinished of a schedule.
#[derive(Clone, Debug, Default)]
pub(super) struct Unfinished {
    /// The oldest job that does not wait for others.
    pub(super) first: Option<JobDetail>,
    /// Those that wait for others.
    pub(super) blocked: Vec<JobView>,
}

impl Unfinished {
    /// Reads it. A schedule that only few states are asked of is looked at row by row, up to the
    /// bound of a page each.
    pub(super) async fn read(store: &dyn Store, schedule: ScheduleId) -> Result<Unfinished> {
        let list = async |state, most| {
            let filter =
                JobFilter { schedule: Some(schedule), state: Some(state), ..JobFilter::default() };
            Ok::<_, StoreError>(store.jobs(&filter, None, most).await?.items)
        };
        let mut oldest: Option<JobView> = None;
        for state in [JobState::Running, JobState::Ready, JobState::Retrying, JobState::Scheduled] {
            let found: Vec<JobView> = list(state, SEEN).await?;
            let before = oldest.into_iter().chain(found);
            oldest = before.min_by_key(|view| view.id);
        }
        let blocked = list(JobState::Blocked, limits::PAGE_MAX).await?;
        let first = match oldest {
            Some(view) => store.job(view.id).await?.filter(|job| !job.view.state.is_final()),
            None => None,
        };
        Ok(Unfinished { first, blocked })
    }
}

/// Unfinished jobs of each state that are looked at; where more than one may run at once, it
/// matters little which is told of.
const SEEN: usize = 20;

/// What an unfinished job is doing, in words.
pub(super) fn doing(job: &JobDetail, cluster: &Cluster) -> String {
    let now = cluster.now;
    let state = job.view.state;
    if let Some(attempt) = job.attempts.iter().find(|attempt| attempt.ended_at.is_none()) {
        let node = attempt.node.map(|node| format!(" on {}", cluster.name(node)));
        return format!("running{} {}", node.unwrap_or_default(), lasting(now, attempt.claimed_at));
    }
    match (state, job.view.due_at, job.view.finished_at) {
        (_, _, Some(finished_at)) => format!("{state} {}", when(now, finished_at)),
        (JobState::Ready, Some(due_at), _) => format!("ready {}", lasting(now, due_at)),
        (JobState::Scheduled | JobState::Retrying, Some(due_at), _) => {
            format!("{state}, due {}", when(now, due_at))
        }
        _ => state.to_string(),
    }
}
