//! Looking at everything, and setting it right.

use std::sync::Arc;

use punctual_core::schedule::Definition;
use punctual_core::{JobId, ScheduleId, Timestamp};
use punctual_engine::{Applied, Manner, Realigned, ScheduleError, Schedules, Seen, Wanted};
use punctual_store::{
    Actor, AuditAction, AuditCursor, AuditEntry, AuditView, CancelAnswer, Cursor, Hints, JobDetail,
    JobFilter, JobView, Leader, LeaderChange, LogCursor, LogView, MoveAnswer, Node, Page,
    Placement, Queue, QueueChange, QueueCounts, QueueLimits, RequeueAnswer, RevisionCursor,
    RevisionView, RollupCount, RollupCursor, RollupFilter, RollupSum, Schedule, Schema, SlotCursor,
    SlotRun, SlotView, Span, StatsCursor, StepView, SumAsk, Topic, UniqueKey, limits,
};

use crate::ctx::Shared;
use crate::doctor::{self, Diagnosis, Thresholds};
use crate::error::{Error, ErrorDetails, ErrorKind, Result};
use crate::job::Unique;
use crate::order::Order;
use crate::punctual::Receipt;
use crate::why::{self, Why};

/// Lists, changes, retries and explains. Whoever changes something is named in the audit: see
/// [`Admin::by`].
///
/// ```
/// # use punctual::Punctual;
/// # #[tokio::main] async fn main() -> punctual::Result<()> {
/// # let punctual = Punctual::memory().start().await?;
/// let admin = punctual.admin().by("ada", "the mail server is down");
/// admin.pause_queue("mail", None).await?;
/// assert_eq!(admin.queues().await?[0].pause.as_ref().unwrap().by.who, "ada");
/// # punctual.stop().await; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Admin {
    shared: Arc<Shared>,
    actor: Actor,
}

impl Admin {
    pub(crate) fn new(shared: Arc<Shared>) -> Admin {
        Admin { shared, actor: Actor::new("code", "") }
    }

    /// Who does it, and why, for the audit.
    #[must_use]
    pub fn by(mut self, who: &str, why: &str) -> Admin {
        self.actor = Actor::new(who, why);
        self
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn schedule_calls(&self) -> Schedules {
        Schedules::new(self.shared.env.clone(), self.shared.store.clone())
    }

    /// What time it is, by the database's clock.
    pub async fn now(&self) -> Result<Timestamp> {
        Ok(self.shared.store.now(self.shared.env.at()).await?)
    }

    /// Checks whether writes can succeed: not after one that found the disk full, until there is
    /// space again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) while the disk is full; the reason of a store that
    /// accepts no requests.
    pub async fn check_writable(&self) -> Result<()> {
        Ok(self.shared.store.check_writable().await?)
    }

    /// Which schema the store has.
    pub async fn schema(&self) -> Result<Schema> {
        Ok(self.shared.store.schema().await?)
    }

    /// What became of a call on a schedule; if there is none of that name, with the one that may
    /// have been meant.
    async fn or_nearest<T>(
        &self,
        name: &str,
        answer: std::result::Result<T, ScheduleError>,
    ) -> Result<T> {
        let error = match answer {
            Ok(answer) => return Ok(answer),
            Err(error @ ScheduleError::NotFound(_)) => error,
            Err(error) => return Err(error.into()),
        };
        let known = self.shared.store.schedules("", None, limits::PAGE_MAX).await?;
        let known = known.iter().map(|schedule| schedule.name.as_str());
        Err(match punctual_core::nearest(name, known) {
            Some(nearest) => {
                Error::new(ErrorKind::NotFound, format!("{error}; did you mean `{nearest}`?"))
            }
            None => error.into(),
        })
    }

    // Jobs

    /// Jobs, newest first; dead letters by when they died.
    pub async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        most: usize,
    ) -> Result<Page<JobView, Cursor>> {
        Ok(self.shared.store.jobs(filter, after, most).await?)
    }

    /// All about one job.
    pub async fn job(&self, id: JobId) -> Result<JobDetail> {
        self.shared.store.job(id).await?.ok_or_else(|| no_job(id))
    }

    /// The lines of a job's log, in order.
    pub async fn log(
        &self,
        id: JobId,
        after: Option<LogCursor>,
        most: usize,
    ) -> Result<Page<LogView, LogCursor>> {
        Ok(self.shared.store.log(id, after, most).await?)
    }

    /// The same from its end, the newest line first.
    pub async fn newest_log(
        &self,
        id: JobId,
        before: Option<LogCursor>,
        most: usize,
    ) -> Result<Page<LogView, LogCursor>> {
        Ok(self.shared.store.newest_log(id, before, most).await?)
    }

    /// The steps that a job has kept.
    pub async fn steps(&self, id: JobId) -> Result<Vec<StepView>> {
        Ok(self.shared.store.steps(id).await?)
    }

    /// Makes an ended job ready again, with all its attempts before it.
    pub async fn retry(&self, id: JobId) -> Result<()> {
        self.retry_many(&[id]).await?.pop().unwrap_or_else(|| Err(no_job(id)))
    }

    /// Makes ended jobs ready again, up to 1,000 at once; each has an answer of its own.
    pub async fn retry_many(&self, ids: &[JobId]) -> Result<Vec<Result<()>>> {
        let at = self.shared.env.at();
        let answers = self.shared.store.requeue(at, ids, &self.actor).await?;
        Ok(ids.iter().zip(answers).map(|(id, answer)| retried(*id, answer)).collect())
    }

    /// Calls a job off: at once if it waits, by asking its handler if it runs. False if it had
    /// ended before.
    pub async fn cancel(&self, id: JobId) -> Result<bool> {
        match self.shared.store.cancel(self.shared.env.at(), id, &self.actor).await? {
            CancelAnswer::Cancelled | CancelAnswer::Asked => Ok(true),
            CancelAnswer::Ended(_) => Ok(false),
            CancelAnswer::NotFound => Err(no_job(id)),
        }
    }

    /// Gives a waiting job another queue, priority or due time.
    pub async fn move_to(&self, id: JobId, to: &Placement) -> Result<()> {
        match self.shared.store.place(self.shared.env.at(), id, to, &self.actor).await? {
            MoveAnswer::Moved(_) => Ok(()),
            MoveAnswer::NotWaiting(state) => Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "cannot move job {id}: its state is {state}; only waiting jobs can be moved"
                ),
            )
            .with(ErrorDetails::JobState { job: id, state })),
            MoveAnswer::KeyTaken(holder) => Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "cannot move job {id}: job {holder} holds the same unique key in that queue; \
                     wait for that job or cancel it"
                ),
            )
            .with(ErrorDetails::KeyHeld { key: None, by: holder })),
            MoveAnswer::NotFound => Err(no_job(id)),
        }
    }

    // Schedules

    /// Schedules by name.
    pub async fn schedules(&self, after: Option<&str>, most: usize) -> Result<Vec<Schedule>> {
        Ok(self.shared.store.schedules("", after, most).await?)
    }

    /// One schedule.
    pub async fn schedule(&self, name: &str) -> Result<Schedule> {
        self.or_nearest(name, self.schedule_calls().get("", name).await).await
    }

    /// Creates a schedule, which begins with its first slot from now on.
    pub async fn create_schedule(&self, name: &str, definition: &Definition) -> Result<Schedule> {
        Ok(self.schedule_calls().create("", name, "", definition, &self.actor).await?)
    }

    /// Gives a schedule another definition, from now on; with `seen`, only if nobody has changed
    /// it since it was so.
    pub async fn define_schedule(
        &self,
        name: &str,
        definition: &Definition,
        seen: Option<Seen>,
    ) -> Result<Schedule> {
        self.or_nearest(
            name,
            self.schedule_calls().define("", name, definition, seen, &self.actor).await,
        )
        .await
    }

    /// Removes a schedule; what it has made stays.
    pub async fn delete_schedule(&self, name: &str) -> Result<Schedule> {
        self.or_nearest(name, self.schedule_calls().delete("", name, &self.actor).await).await
    }

    /// Skips the slots of a schedule, until then or until somebody resumes it.
    pub async fn pause_schedule(&self, name: &str, until: Option<Timestamp>) -> Result<Schedule> {
        self.or_nearest(name, self.schedule_calls().pause("", name, until, &self.actor).await).await
    }

    /// Fires slots again, from now on.
    pub async fn resume_schedule(&self, name: &str) -> Result<Schedule> {
        self.or_nearest(name, self.schedule_calls().resume("", name, &self.actor).await).await
    }

    /// Plans a schedule again that was disabled or set aside, from now on.
    pub async fn enable_schedule(&self, name: &str) -> Result<Schedule> {
        self.or_nearest(name, self.schedule_calls().enable("", name, &self.actor).await).await
    }

    /// Plans a schedule no more.
    pub async fn disable_schedule(&self, name: &str) -> Result<Schedule> {
        self.or_nearest(name, self.schedule_calls().disable("", name, &self.actor).await).await
    }

    /// Discards the decisions about slots of a schedule that are later than the database clock, so that
    /// these slots fire at their time. For schedules that wait because the clock was ahead and was set
    /// back. Jobs that the slots have created are not touched.
    ///
    /// # Errors
    ///
    /// An error of kind `Conflict` if the schedule is not ahead of the clock.
    pub async fn realign_schedule(&self, name: &str) -> Result<Realigned> {
        self.or_nearest(name, self.schedule_calls().realign("", name, &self.actor).await).await
    }

    /// What [`Admin::realign_schedule`] would do now.
    ///
    /// # Errors
    ///
    /// As [`Admin::realign_schedule`].
    pub async fn preview_realign(&self, name: &str) -> Result<Realigned> {
        self.or_nearest(name, self.schedule_calls().preview_realign("", name).await).await
    }

    /// Makes one job of a schedule now, beside its slots.
    pub async fn run_now(&self, name: &str) -> Result<JobId> {
        Ok(self.run_for(name, None).await?.id)
    }

    /// Makes one job of a schedule now, once for this key: whoever asks again gets the same. A key that
    /// was used for something else is an error of kind `Conflict`. [`Unique::payload`] is an error of
    /// kind `Invalid`.
    pub async fn run_once(&self, name: &str, key: &Unique) -> Result<Receipt> {
        // What is unique here is the schedule, not its payload.
        let key = UniqueKey { is_by_payload: false, ..key.stored() };
        self.run_for(name, Some(key)).await
    }

    async fn run_for(&self, name: &str, key: Option<UniqueKey>) -> Result<Receipt> {
        let ran = self.schedule_calls().run_once("", name, key).await;
        let (id, is_new) = self.or_nearest(name, ran).await?;
        if is_new {
            let (actor, action) = (self.actor.clone(), AuditAction::RunSchedule);
            let entry = AuditEntry { actor, action, subject: name.to_owned() };
            self.shared.store.audit(self.shared.env.at(), &entry).await?;
        }
        Ok(Receipt { id, is_new })
    }

    /// The next slots of a schedule that it fires, as its definition has them.
    pub async fn next_slots(&self, name: &str, most: usize) -> Result<Vec<Timestamp>> {
        let schedule = self.schedule(name).await?;
        let unreadable =
            |error| Error::new(ErrorKind::Corrupt, format!("schedule `{name}`: {error}"));
        let definition = Definition::parse(schedule.spec.as_str()).map_err(unreadable)?;
        let rule = definition.rule(name).map_err(unreadable)?;
        let now = self.shared.store.now(self.shared.env.at()).await?;
        Ok(std::iter::successors(rule.next(now), |slot| rule.next(*slot)).take(most).collect())
    }

    /// Which of these slots of a schedule are there instead of an excluded one, and of which.
    pub async fn moved_slots(
        &self,
        name: &str,
        slots: &[Timestamp],
    ) -> Result<Vec<(Timestamp, Timestamp)>> {
        let schedule = self.schedule(name).await?;
        let definition = Definition::parse(schedule.spec.as_str()).ok();
        let rule = definition.and_then(|definition| definition.rule(name).ok());
        let moved = |slot: &Timestamp| Some((*slot, rule.as_ref()?.spec.moved_from(*slot)?));
        Ok(slots.iter().filter_map(moved).collect())
    }

    /// The ledger of a schedule, newest slot first.
    pub async fn slots(
        &self,
        name: &str,
        after: Option<SlotCursor>,
        most: usize,
    ) -> Result<Page<SlotView, SlotCursor>> {
        let schedule = self.schedule(name).await?;
        Ok(self.shared.store.slots(schedule.id, after, most).await?)
    }

    /// The newest slots of each of these schedules, with how their jobs go or went.
    pub async fn recent_slots(
        &self,
        schedules: &[ScheduleId],
        most: usize,
    ) -> Result<Vec<SlotRun>> {
        Ok(self.shared.store.recent_slots(schedules, most).await?)
    }

    /// The schedules that have something to decide next, earliest first.
    pub async fn upcoming(&self, most: usize) -> Result<Vec<Schedule>> {
        Ok(self.shared.store.upcoming(0, most).await?)
    }

    /// The attempts that are under way, and those of jobs written since then, as far as their jobs were
    /// written before `until`; newest job first.
    pub async fn spans(
        &self,
        since: Timestamp,
        until: Timestamp,
        most: usize,
    ) -> Result<Vec<Span>> {
        Ok(self.shared.store.spans(since, until, most).await?)
    }

    /// One schedule by its id, which outlives its name.
    pub async fn schedule_by_id(&self, id: ScheduleId) -> Result<Option<Schedule>> {
        Ok(self.shared.store.schedule(id).await?)
    }

    /// Where the store tells that something may have changed: late, for nothing, or not at all.
    pub fn hints(&self, topic: Topic) -> Hints {
        self.shared.store.hints(topic)
    }

    /// The revisions of a schedule, newest first.
    pub async fn revisions(
        &self,
        name: &str,
        after: Option<RevisionCursor>,
        most: usize,
    ) -> Result<Page<RevisionView, RevisionCursor>> {
        let schedule = self.schedule(name).await?;
        Ok(self.shared.store.revisions(schedule.id, after, most).await?)
    }

    // Sets

    /// The schedules of a set, by name.
    pub async fn schedules_of(
        &self,
        set: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Schedule>> {
        Ok(self.shared.store.schedules_of("", set, after, most).await?)
    }

    /// Brings a set to what is wanted of it, in one transaction; nothing is written if anything of
    /// it is wrong. A pause holds.
    pub async fn apply(&self, set: &str, wanted: &[Wanted], manner: Manner) -> Result<Applied> {
        Ok(self.schedule_calls().apply("", set, wanted, manner, &self.actor).await?)
    }

    // Queues, nodes, leaders

    /// Queues that have a setting.
    pub async fn queues(&self) -> Result<Vec<Queue>> {
        Ok(self.shared.store.queues().await?)
    }

    /// Job counts by queue and kind, and their age. With many jobs these are the counts that the
    /// leader of the role `maintenance` stored last.
    pub async fn queue_stats(
        &self,
        after: Option<&StatsCursor>,
        most: usize,
    ) -> Result<QueueCounts> {
        Ok(self.shared.store.queue_stats(after, most).await?)
    }

    /// Claims nothing more from a queue, until then or until somebody resumes it.
    pub async fn pause_queue(&self, name: &str, until: Option<Timestamp>) -> Result<Queue> {
        self.change_queue(name, &QueueChange::Pause { until }).await
    }

    /// Claims from a queue again.
    pub async fn resume_queue(&self, name: &str) -> Result<Queue> {
        self.change_queue(name, &QueueChange::Resume).await
    }

    /// Limits what a queue may do.
    pub async fn limit_queue(&self, name: &str, limits: QueueLimits) -> Result<Queue> {
        self.change_queue(name, &QueueChange::Limit(limits)).await
    }

    async fn change_queue(&self, name: &str, change: &QueueChange) -> Result<Queue> {
        let at = self.shared.env.at();
        Ok(self.shared.store.change_queue(at, name, change, &self.actor).await?)
    }

    /// The nodes.
    pub async fn nodes(&self) -> Result<Vec<Node>> {
        Ok(self.shared.store.nodes().await?)
    }

    /// Who leads what.
    pub async fn leaders(&self) -> Result<Vec<Leader>> {
        Ok(self.shared.store.leaders().await?)
    }

    /// Past changes of a role's term, newest first.
    pub async fn leader_changes(&self, role: &str, most: usize) -> Result<Vec<LeaderChange>> {
        Ok(self.shared.store.leader_changes(role, most).await?)
    }

    /// The per-minute counters, oldest first.
    pub async fn rollups(
        &self,
        filter: &RollupFilter,
        after: Option<&RollupCursor>,
        most: usize,
    ) -> Result<Page<RollupCount, RollupCursor>> {
        Ok(self.shared.store.rollups(filter, after, most).await?)
    }

    /// The per-minute counters, added up by stretches of time.
    pub async fn sums(&self, ask: &SumAsk) -> Result<Vec<RollupSum>> {
        Ok(self.shared.store.sums(ask).await?)
    }

    /// Who did what, newest first.
    pub async fn audits(
        &self,
        after: Option<AuditCursor>,
        most: usize,
    ) -> Result<Page<AuditView, AuditCursor>> {
        Ok(self.shared.store.audits(after, most).await?)
    }

    // Answers

    /// Why a job is as it is, in words.
    pub async fn why_job(&self, id: JobId) -> Result<Why> {
        why::job(&*self.shared.store, self.shared.env.at(), id).await
    }

    /// Why a schedule is as it is, in words.
    pub async fn why_schedule(&self, name: &str) -> Result<Why> {
        why::schedule(&*self.shared.store, self.shared.env.at(), "", name).await
    }

    /// Why a queue is as it is, in words.
    pub async fn why_queue(&self, name: &str) -> Result<Why> {
        why::queue(&*self.shared.store, self.shared.env.at(), name).await
    }

    /// What is in a queue by kind, and why the queue is as it is: of one reading.
    pub async fn queue_and_why(&self, name: &str) -> Result<(QueueCounts, Why)> {
        let store = &*self.shared.store;
        let counts = why::line::counts(store, name).await?;
        let why = why::counted(store, self.shared.env.at(), name, counts.clone()).await?;
        Ok((counts, why))
    }

    /// Who holds the unique key of an order, in words.
    pub async fn why_unique(&self, order: impl Into<Order>) -> Result<Why> {
        let job = self.shared.job(order.into())?;
        why::key(&*self.shared.store, self.shared.env.at(), &job).await
    }

    /// Looks for whatever is not as it should be.
    pub async fn doctor(&self, thresholds: &Thresholds) -> Diagnosis {
        let Shared { env, store, backend, .. } = &*self.shared;
        let schema = thresholds.schema.or(backend.schema());
        let thresholds = Thresholds { schema, ..thresholds.clone() };
        doctor::examine(&**store, env.at(), env.wall(), &thresholds).await
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("actor", &self.actor).finish_non_exhaustive()
    }
}

fn retried(id: JobId, answer: RequeueAnswer) -> Result<()> {
    match answer {
        RequeueAnswer::Requeued => Ok(()),
        RequeueAnswer::NotFailed(state) => Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "cannot retry job {id}: its state is {state}; only failed and cancelled jobs can \
                 be retried"
            ),
        )
        .with(ErrorDetails::JobState { job: id, state })),
        RequeueAnswer::KeyTaken(holder) => Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "cannot retry job {id}: job {holder} holds its unique key; wait for that job or \
                 cancel it"
            ),
        )
        .with(ErrorDetails::KeyHeld { key: None, by: holder })),
        RequeueAnswer::NotFound => Err(no_job(id)),
    }
}

fn no_job(id: JobId) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!(
            "job {id} not found; it never existed, or it was deleted after its retention period"
        ),
    )
}
