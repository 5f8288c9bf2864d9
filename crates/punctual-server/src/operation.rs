//! One thing done to many jobs or schedules: a job of its own, so that it outlives the request, a crash and
//! a restart, shows how far it is, and can be called off.

pub(crate) mod schedules;

use futures_util::future::join_all;
use punctual::{
    Admin, BoxError, Builder, Ctx, Cursor, Done, ErrorKind, Failure, Job, JobFilter, JobId,
    JobState, JobView, Placement, ScheduleId, Settings, Timestamp,
};
use punctual_api::OperationCounts;
use serde::{Deserialize, Serialize};

/// The queue of operations. It is apart, so that one works on a queue that is paused or full.
pub const OPERATIONS: &str = "punctual";

/// Jobs of one page.
const PAGE: usize = 500;
/// Jobs that are changed at once; a database commits them together.
const AT_ONCE: usize = 50;
/// Up to so many jobs are counted beforehand, to tell how far an operation is.
const COUNT_MAX: u64 = 10_000;
/// Reasons that are kept.
const REASONS_MAX: usize = 10;
/// The most time for one attempt: a million jobs take minutes.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(6 * 3_600);

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    Retry,
    Cancel,
    Move,
    /// Of schedules, as the next.
    Pause,
    Resume,
}

impl Action {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Action::Retry => "retry",
            Action::Cancel => "cancel",
            Action::Move => "move",
            Action::Pause => "pause",
            Action::Resume => "resume",
        }
    }

    /// Is it done to schedules, and not to jobs?
    pub(crate) fn is_of_schedules(self) -> bool {
        matches!(self, Action::Pause | Action::Resume)
    }

    /// Is this one of the jobs that were meant at that time?
    fn is_for(self, job: &JobView, asked_at: Timestamp) -> bool {
        let is_in_time =
            job.created_at <= asked_at && job.finished_at.is_none_or(|ended| ended <= asked_at);
        let may_be = match self {
            Action::Retry => matches!(job.state, JobState::Failed | JobState::Cancelled),
            Action::Cancel => !job.state.is_final(),
            Action::Move => !job.state.is_final() && job.state != JobState::Running,
            Action::Pause | Action::Resume => false,
        };
        is_in_time && may_be && job.kind != Bulk::KIND
    }

    fn done(self) -> &'static str {
        match self {
            Action::Retry => "retried",
            Action::Cancel => "cancelled",
            Action::Move => "moved",
            Action::Pause => "paused",
            Action::Resume => "resumed",
        }
    }
}

/// An operation, as its job carries it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bulk {
    pub(crate) action: Action,
    /// As it was asked for.
    pub(crate) q: String,
    pub(crate) state: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) kind: Option<String>,
    /// The schedule's id: another may have its name by the time.
    pub(crate) schedule: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) to_queue: Option<String>,
    pub(crate) to_priority: Option<i16>,
    pub(crate) to_due_at: Option<String>,
    /// The status of the schedules that are meant.
    #[serde(default)]
    pub(crate) status: Option<String>,
    /// Until when schedules are paused.
    #[serde(default)]
    pub(crate) until: Option<String>,
    /// What is younger, or has ended since, is left alone: what the operation has just retried is
    /// not retried again.
    pub(crate) asked_at: String,
    pub(crate) who: String,
    pub(crate) why: String,
}

impl Job for Bulk {
    const KIND: &'static str = "punctual.bulk";

    fn settings() -> Settings {
        Settings { queue: OPERATIONS, timeout: Some(TIMEOUT), ..Settings::default() }
    }
}

impl Bulk {
    fn filter(&self) -> Result<JobFilter, BoxError> {
        let state = self.state.as_deref().map(str::parse::<JobState>).transpose()?;
        let schedule = self.schedule.as_deref().map(str::parse::<ScheduleId>).transpose()?;
        Ok(JobFilter {
            state,
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            tenant: None,
            schedule,
            tag: self.tag.clone(),
        })
    }

    fn to(&self) -> Result<Placement, BoxError> {
        let due_at = self.to_due_at.as_deref().map(str::parse::<Timestamp>).transpose()?;
        Ok(Placement { queue: self.to_queue.clone(), priority: self.to_priority, due_at })
    }
}

/// Does the work of operations.
pub fn handle_operations(builder: Builder) -> Builder {
    builder.handle(operate)
}

/// An operation under way.
struct Work<'a> {
    bulk: &'a Bulk,
    cx: &'a Ctx,
    admin: Admin,
    to: Placement,
    total: u64,
    counts: OperationCounts,
}

async fn operate(bulk: Bulk, cx: Ctx) -> Result<Done<OperationCounts>, BoxError> {
    if bulk.action.is_of_schedules() {
        return schedules::operate(&bulk, &cx).await;
    }
    let filter = bulk.filter().map_err(Failure::permanent)?;
    let to = bulk.to().map_err(Failure::permanent)?;
    let asked_at: Timestamp = bulk.asked_at.parse().map_err(Failure::permanent)?;
    let admin = cx.admin().by(&bulk.who, &bulk.why);
    let (total, _) = count(bulk.action, &admin, &filter, asked_at, usize::MAX).await?;
    let counts = OperationCounts::default();
    let mut work = Work { bulk: &bulk, cx: &cx, admin, to, total, counts };
    let mut after = None;
    loop {
        let page = work.admin.jobs(&filter, after, PAGE).await?;
        let meant = page.items.iter().filter(|job| bulk.action.is_for(job, asked_at));
        let ids: Vec<JobId> = meant.map(|job| job.id).collect();
        for part in ids.chunks(AT_ONCE) {
            if let Some(reason) = cx.stop_reason() {
                return Err(format!("stopped ({reason:?}): {}", work.note()).into());
            }
            work.change(part).await?;
        }
        after = page.next;
        if after.is_none() {
            cx.log(&work.note());
            return Ok(Done(work.counts));
        }
    }
}

/// How many jobs there are, up to a bound and in so many pages, and whether there may be more.
pub(crate) async fn count(
    action: Action,
    admin: &Admin,
    filter: &JobFilter,
    asked_at: Timestamp,
    pages: usize,
) -> punctual::Result<(u64, bool)> {
    let (mut total, mut after): (u64, Option<Cursor>) = (0, None);
    for _ in 0..pages {
        let page = admin.jobs(filter, after, PAGE).await?;
        total += page.items.iter().filter(|job| action.is_for(job, asked_at)).count() as u64;
        after = page.next;
        if after.is_none() || total >= COUNT_MAX {
            break;
        }
    }
    Ok((total, after.is_some()))
}

impl Work<'_> {
    async fn change(&mut self, ids: &[JobId]) -> punctual::Result<()> {
        let (admin, to) = (&self.admin, &self.to);
        // Why it was not done, if it was not.
        let answers: Vec<punctual::Result<Option<String>>> = match self.bulk.action {
            Action::Retry => {
                let retried = admin.retry_many(ids).await?.into_iter();
                retried.map(|answer| answer.map(|()| None)).collect()
            }
            Action::Cancel => {
                let cancel = |id: &JobId| {
                    let id = *id;
                    async move { admin.cancel(id).await.map(|was_open| not_cancelled(id, was_open)) }
                };
                join_all(ids.iter().map(cancel)).await
            }
            Action::Move => {
                let place = |id: &JobId| {
                    let id = *id;
                    async move { admin.move_to(id, to).await.map(|()| None) }
                };
                join_all(ids.iter().map(place)).await
            }
            // They are of schedules, and never come here.
            Action::Pause | Action::Resume => Vec::new(),
        };
        for answer in answers {
            match answer {
                Ok(None) => self.counts.done += 1,
                // It has gone on by itself meanwhile: that is nobody's fault.
                Ok(Some(reason)) => self.refused(reason),
                Err(error) if is_its_own(error.kind()) => self.refused(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        let seen = self.counts.done + self.counts.skipped;
        let percent = seen * 100 / self.total.max(seen).max(1);
        self.cx.progress(u8::try_from(percent).unwrap_or(100), &self.note());
        Ok(())
    }

    fn refused(&mut self, reason: String) {
        self.counts.skipped += 1;
        if self.counts.reasons.len() < REASONS_MAX {
            self.counts.reasons.push(reason);
        }
    }

    fn note(&self) -> String {
        let OperationCounts { done, skipped, .. } = &self.counts;
        let (word, total) = (self.bulk.action.done(), self.total.max(done + skipped));
        let more = if self.total >= COUNT_MAX { " or more" } else { "" };
        match skipped {
            0 => format!("{done} of {total}{more} {word}"),
            skipped => format!("{done} of {total}{more} {word}, {skipped} skipped"),
        }
    }
}

/// A job that had ended by itself was not called off.
fn not_cancelled(id: JobId, was_open: bool) -> Option<String> {
    (!was_open).then(|| format!("job {id} finished before it was cancelled"))
}

/// Is an error about one job alone?
fn is_its_own(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Invalid)
}
