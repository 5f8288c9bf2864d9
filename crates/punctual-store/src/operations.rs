//! The operations of a store, each declared once.
//!
//! An operation is one transaction with one purpose. Its declaration has the facts that would otherwise be
//! repeated in every store and every wrapper:
//!
//! ```text
//! /// What it does.
//! [CALLER, REPEAT, hint TOPIC if CONDITION, …, rows COUNT]
//! async fn name(&self, arguments) -> Response {
//!     checks of the arguments
//! }
//! ```
//!
//! - `CALLER`: who may use it, a [`Caller`](crate::Caller).
//! - `REPEAT`: whether it may be repeated after its response was lost, a [`Repeat`](crate::Repeat).
//! - `hint`: the [`Topic`](crate::Topic) of the hint that it raises, and the condition on the response. An
//!   operation can raise several hints.
//! - `rows`: the number of rows for `punctual_store_rows_total`; 1 without it.
//! - The block checks the bounds of the arguments before a store sees them, and can replace arguments, for
//!   example by an actor whose reason is cut.
//!
//! [`Store`](crate::Store), [`Backend`](crate::backend::Backend), [`Layer`](crate::layer::Layer),
//! [`Operation`](crate::Operation) and the wrappers of the tests are generated from this list, so no
//! operation can be missing from one of them.

/// Calls a macro with the declarations of all operations.
#[macro_export]
macro_rules! store_operations {
    ($generate:ident) => {
        $generate! {
            /// What time it is.
            [Tenant, Safe]
            async fn now(&self, at: At) -> Timestamp {}
            /// Which schema the store has.
            [Tenant, Safe]
            async fn schema(&self) -> Schema {}
            /// What is amiss with how the store is set up, where history is kept for so long, as far as it shows
            /// without reading what the store holds: nothing, if all is well.
            [Cluster, Safe, rows |faults| faults.len()]
            async fn faults(&self, at: At, retention: &Retention) -> Vec<String> {}
            /// Checks whether writes can succeed. After a write that found the disk full, it writes to find out
            /// whether there is space again; otherwise it costs nothing.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Full`] until a write succeeds; the reason of a store that has stopped.
            [Cluster, Safe]
            async fn check_writable(&self) -> () {}
            // Jobs
            /// Writes jobs; each row has an answer of its own, and a refused one keeps no other out.
            [Tenant, Safe, hint Work if Enqueued::has_new, rows |_| jobs.len()]
            async fn enqueue(&self, at: At, jobs: &[NewJob]) -> Enqueued {
                rules::check_count(jobs.len(), limits::ENQUEUE_MAX, "jobs")?;
            }
            /// Takes due jobs in the order of queues and ranks, under the lease that fences their
            /// settlement.
            [Engine, Once, rows |claimed| claimed.jobs.len()]
            async fn claim(&self, at: At, ask: &ClaimAsk) -> Claimed {
                ask.check()?;
            }
            /// Which job holds the unique key of this one now, if any: it may be the job itself. A key whose
            /// time is over is held by nobody.
            [Tenant, Safe]
            async fn key_holder(&self, at: At, job: &NewJob) -> Option<JobId> {}
            /// Applies decided transitions, each with the jobs that follow it; a stale lease is reported, not
            /// applied, and nothing follows.
            [
                Engine,
                Safe,
                hint Work if |settled| settled.has_work(batch),
                hint Finished if |settled| settled.has_finished(batch),
                rows |_| batch.len()
            ]
            async fn settle(&self, at: At, batch: &[Settlement]) -> Settlements {
                rules::check_settlements(batch)?;
            }
            /// Calls a job off: at once if it waits, by asking its worker if it runs.
            [Tenant, Once, hint Finished if |answer| *answer == CancelAnswer::Cancelled]
            async fn cancel(&self, at: At, job: JobId, actor: &Actor) -> CancelAnswer {
                let actor = &actor.kept()?;
            }
            /// Makes ended jobs ready again, with all their attempts before them: none is spent, none of
            /// their budget is used, their steps are forgotten, and they expire no more, since somebody wants
            /// them now.
            [Tenant, Once, hint Work, rows |_| jobs.len()]
            async fn requeue(&self, at: At, jobs: &[JobId], actor: &Actor) -> Vec<RequeueAnswer> {
                rules::check_count(jobs.len(), limits::REQUEUE_MAX, "jobs")?;
                let actor = &actor.kept()?;
            }
            /// Gives a waiting job another queue, priority or due time. A unique key that holds for its
            /// queue goes with it.
            [Tenant, Once, hint Work]
            async fn place(&self, at: At, job: JobId, to: &Placement, actor: &Actor) -> MoveAnswer {
                to.check()?;
                let actor = &actor.kept()?;
            }
            // What handlers note
            /// Keeps the result of a step of a job, while this lease of it is in force; the first result of
            /// a name stays. At most [`limits::STEPS_MAX`] for a job.
            [Engine, Safe]
            async fn save_step(
                &self,
                at: At,
                job: JobId,
                lease: LeaseId,
                name: &str,
                result: &Json,
            ) -> StepAnswer {
                rules::check_step(name, result)?;
            }
            /// The steps of a job, in the order of their instants and then of their names.
            [Tenant, Safe, rows |steps| steps.len()]
            async fn steps(&self, job: JobId) -> Vec<StepView> {}
            /// Writes lines of logs. A line that is there already stays as it is; those of a job that is not
            /// there are left out, since nothing would ever drop them.
            [Engine, Safe, rows |_| lines.len()]
            async fn write_log(&self, at: At, lines: &[LogLine]) -> Timestamp {
                LogLine::check(lines)?;
            }
            /// The log of a job, attempt by attempt, in the order of its lines.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn log(
                &self,
                job: JobId,
                after: Option<LogCursor>,
                most: usize,
            ) -> Page<LogView, LogCursor> {}
            /// The same from its end, the newest line first: those before this place.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn newest_log(
                &self,
                job: JobId,
                before: Option<LogCursor>,
                most: usize,
            ) -> Page<LogView, LogCursor> {}
            // Nodes and leaders
            /// Enters a node that has just started.
            [Engine, Safe, hint Schedules if |joined| joined.wakes_schedules]
            async fn join(&self, at: At, node: &NodeInfo) -> JoinResponse {
                node.check()?;
            }
            /// One heartbeat: the node is alive and still leads its roles. One that was declared dead
            /// changes nothing by it.
            [Engine, Safe]
            async fn beat(&self, at: At, ask: &BeatAsk) -> Beaten {
                ask.check()?;
            }
            /// Gives back what a node holds under these leases, as if it had settled each job as
            /// released; at most [`limits::RELEASE_MAX`] jobs, the next beat tells of the others.
            [Engine, Safe, hint Work, rows |_| leases.len()]
            async fn release(&self, at: At, node: NodeId, leases: &[LeaseId]) -> Released {
                rules::check_release(leases)?;
            }
            /// Takes a node that holds no job any more from the list.
            [Engine, Safe]
            async fn leave(&self, at: At, node: NodeId) -> () {}
            /// The nodes, by id.
            [Cluster, Safe, rows |nodes| nodes.len()]
            async fn nodes(&self) -> Vec<Node> {}
            /// Takes a role whose lease has run out.
            [Engine, Safe]
            async fn acquire(
                &self,
                at: At,
                role: &str,
                node: NodeId,
                nonce: Nonce,
                lease: Duration,
            ) -> Acquired {
                limits::check_name("role", role, false).map_err(StoreError::invalid)?;
            }
            /// Gives a role up at once; false if the term was lost already.
            [Engine, Safe, hint Roles if |is_resigned| *is_resigned]
            async fn resign(&self, at: At, fence: &Fence) -> bool {}
            /// Who leads what, by role.
            [Cluster, Safe, rows |leaders| leaders.len()]
            async fn leaders(&self) -> Vec<Leader> {}
            /// Past changes of a role's term, newest first.
            [Cluster, Safe, rows |changes| changes.len()]
            async fn leader_changes(&self, role: &str, most: usize) -> Vec<LeaderChange> {}
            // Upkeep
            /// Moves what waited long enough to the ready set: first due timers, then one job of each
            /// schedule that has none unfinished but those that wait, its oldest; to the timers if it is
            /// due later.
            [Engine, Safe, hint Work if Promoted::has_any]
            async fn promote(&self, at: At, most: usize) -> Promoted {
                rules::check_count(most, limits::PROMOTE_MAX, "timers")?;
            }
            /// Ends jobs that wait past their start deadline: they fail without an attempt, and what they held is
            /// free. The deadlines to check are listed when jobs are written, and only for jobs that have one; see
            /// [`Promoted::next_deadline`].
            [Engine, Once, hint Finished if ExpireResponse::has_finished, rows |expired| expired.jobs.len()]
            async fn expire(&self, at: At, request: &ExpireRequest) -> ExpireResponse {
                request.check()?;
            }
            /// Declares silent nodes dead and takes their leases back. Ends the attempts of live remote workers
            /// (nodes with the label [`rules::REMOTE_LABEL`]) that exceed their time: other nodes do it themselves.
            [
                Engine,
                Once,
                hint Work if Reaped::has_work,
                hint Finished if Reaped::has_finished,
                rows |reaped| reaped.jobs.len()
            ]
            async fn reap(&self, at: At, ask: &ReapAsk) -> Reaped {
                ask.check()?;
            }
            /// Drops history that is older than it must be kept.
            [Engine, Once]
            async fn prune(&self, at: At, retention: &Retention, most: usize) -> Pruned {
                rules::check_count(most, limits::PRUNE_MAX, "rows per table")?;
            }
            /// Adds to the per-minute counters.
            [Engine, Once, rows |_| counts.len()]
            async fn roll_up(&self, counts: &[RollupCount]) -> () {
                rules::check_counts(counts)?;
            }
            /// Reads the per-minute counters, oldest first.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn rollups(
                &self,
                filter: &RollupFilter,
                after: Option<&RollupCursor>,
                most: usize,
            ) -> Page<RollupCount, RollupCursor> {}
            /// Adds the per-minute counters up by stretches of time, oldest first, by metric and queue.
            [Tenant, Safe, rows |sums| sums.len()]
            async fn sums(&self, ask: &SumAsk) -> Vec<RollupSum> {
                ask.check()?;
            }
            /// Notes what somebody did.
            [Tenant, Once]
            async fn audit(&self, at: At, entry: &AuditEntry) -> () {
                let entry = &entry.kept()?;
            }
            /// What was done, newest first.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn audits(
                &self,
                after: Option<AuditCursor>,
                most: usize,
            ) -> Page<AuditView, AuditCursor> {}
            /// What has happened after this and not later than `until`, oldest first. An event appears when
            /// its transaction commits, which may be later than its instant: whoever must not miss one asks
            /// for what is old enough.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn events(
                &self,
                after: &EventCursor,
                until: Timestamp,
                most: usize,
            ) -> Page<Event, EventCursor> {}
            // Schedules
            /// Creates a schedule; a name that is taken is a conflict.
            [Tenant, Safe, hint Schedules]
            async fn create_schedule(&self, at: At, new: &NewSchedule) -> Schedule {
                new.check()?;
                let new = &NewSchedule { actor: new.actor.kept()?, ..new.clone() };
            }
            /// Changes a schedule, if it is still as the caller saw it.
            [Tenant, Once, hint Schedules]
            async fn change_schedule(
                &self,
                at: At,
                id: ScheduleId,
                stamp: i64,
                change: &ScheduleChange,
                actor: &Actor,
            ) -> EditAnswer {
                let actor = &actor.kept()?;
            }
            /// Removes a schedule; its ledger and jobs stay until they are pruned.
            [Tenant, Once, hint Schedules]
            async fn delete_schedule(
                &self,
                at: At,
                id: ScheduleId,
                stamp: i64,
                actor: &Actor,
            ) -> EditAnswer {
                let actor = &actor.kept()?;
            }
            /// One schedule.
            [Tenant, Safe]
            async fn schedule(&self, id: ScheduleId) -> Option<Schedule> {}
            /// One schedule by its name.
            [Tenant, Safe]
            async fn schedule_named(&self, tenant: &str, name: &str) -> Option<Schedule> {}
            /// A tenant's schedules by name, after the given one.
            [Tenant, Safe, rows |schedules| schedules.len()]
            async fn schedules(&self, tenant: &str, after: Option<&str>, most: usize) -> Vec<Schedule> {}
            /// The schedules of a set among a tenant's, by name, after the given one; none are of the set
            /// without a name.
            [Tenant, Safe, rows |schedules| schedules.len()]
            async fn schedules_of(
                &self,
                tenant: &str,
                set: &str,
                after: Option<&str>,
                most: usize,
            ) -> Vec<Schedule> {}
            /// Writes schedules of a set, all or none, unless a higher generation of it is in force; from
            /// then on this one is. Without entries that is all it does.
            [Tenant, Once, hint Schedules if Registered::has_schedules, rows |_| ask.entries.len()]
            async fn register(&self, at: At, ask: &Registration) -> Registered {
                let ask = &ask.kept()?;
            }
            /// The generation of a set that is in force, if there was one.
            [Tenant, Safe]
            async fn generation(&self, set: &str) -> Option<i64> {}
            /// The revisions of a schedule, newest first.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn revisions(
                &self,
                id: ScheduleId,
                after: Option<RevisionCursor>,
                most: usize,
            ) -> Page<RevisionView, RevisionCursor> {}
            /// The schedules that have something to decide: those that are due since less than
            /// [`rules::FRESH`] first, earliest first, and then the others; of those, if there are any, at
            /// least a tenth. One whose row cannot be read is set aside instead, so that it keeps no other
            /// from firing.
            [Engine, Safe, rows |due| due.schedules.len()]
            async fn due(&self, at: At, shard: i16, most: usize) -> Due {}
            /// Advances each watermark and inserts its slots' jobs, or neither; nothing at all for a
            /// leader whose term is over. What becomes of a slot whose schedule has unfinished jobs is
            /// decided here, from those that are there: see [`Seats`]; and which nodes its jobs are for,
            /// from those that are alive: see [`place`].
            [Engine, Once, hint Work, rows |_| plans.len()]
            async fn fire(
                &self,
                at: At,
                fence: &Fence,
                lease: Duration,
                plans: &[SlotPlan],
            ) -> Fired {
                rules::check_plans(plans)?;
            }
            /// The ledger of a schedule, newest first.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn slots(
                &self,
                id: ScheduleId,
                after: Option<SlotCursor>,
                most: usize,
            ) -> Page<SlotView, SlotCursor> {}
            /// The newest slots of each of these schedules, in the order of the question, with how their jobs
            /// go or went; at most [`limits::RECENT_SCHEDULES_MAX`] schedules, and `most` slots of each.
            [Tenant, Safe, rows |slots| slots.len()]
            async fn recent_slots(&self, schedules: &[ScheduleId], most: usize) -> Vec<SlotRun> {
                look::check_recent(schedules)?;
            }
            /// The schedules that have something to decide next, those of every tenant, earliest first.
            [Cluster, Safe, rows |schedules| schedules.len()]
            async fn upcoming(&self, shard: i16, most: usize) -> Vec<Schedule> {}
            /// Enabled schedules that are ahead of this instant ([`Schedule::ahead_until`]), the furthest ahead
            /// first. Examines the newest [`limits::EXAMINE_MAX`] ledger rows that were decided later.
            [Engine, Safe]
            async fn schedules_ahead(&self, now: Timestamp, most: usize) -> AheadSchedules {}
            // Queues and lists
            /// Pauses, resumes or limits a queue.
            [Tenant, Once, hint Work]
            async fn change_queue(
                &self,
                at: At,
                name: &str,
                change: &QueueChange,
                actor: &Actor,
            ) -> Queue {
                limits::check_name("queue", name, false).map_err(StoreError::invalid)?;
                let actor = &actor.kept()?;
            }
            /// Queues that have a setting, by name.
            [Tenant, Safe, rows |queues| queues.len()]
            async fn queues(&self) -> Vec<Queue> {}
            /// Job counts by queue and kind: those that [`Store::count_queues`] stored, so that the cost of
            /// a request does not grow with the number of jobs. If none are stored, there were few jobs or
            /// nothing has counted yet, and up to [`limits::COUNT_REQUEST_MAX`] jobs are counted now: see
            /// [`QueueCounts::is_partial`].
            [Tenant, Safe]
            async fn queue_stats(&self, after: Option<&StatsCursor>, most: usize) -> QueueCounts {}
            /// Counts all unfinished and failed jobs and replaces the stored counts, under the term of the
            /// request. With at most [`limits::COUNT_LIVE_MAX`] jobs it removes the stored counts instead,
            /// so that each request counts. The count is a read of its own before the transaction that
            /// writes: it takes long, and the fence must not be locked meanwhile.
            [Engine, Safe]
            async fn count_queues(&self, at: At, request: &CountRequest) -> CountResponse {}
            /// One job with its attempts.
            [Tenant, Safe]
            async fn job(&self, id: JobId) -> Option<JobDetail> {}
            /// Jobs, newest first.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn jobs(
                &self,
                filter: &JobFilter,
                after: Option<Cursor>,
                most: usize,
            ) -> Page<JobView, Cursor> {}
            /// The same as [`Store::jobs`], for the maintenance leader: it does not wait for the lists that
            /// API requests read, and is not rejected because of their number.
            [Engine, Safe, rows |page| page.items.len()]
            async fn upkeep_jobs(
                &self,
                filter: &JobFilter,
                after: Option<Cursor>,
                most: usize,
            ) -> Page<JobView, Cursor> {}
            /// The attempts that are under way, and those of jobs whose ids are not older than `since`, all of
            /// jobs whose ids are older than `until`; newest job first, at most [`limits::SPANS_MAX`].
            [Tenant, Safe, rows |spans| spans.len()]
            async fn spans(&self, since: Timestamp, until: Timestamp, most: usize) -> Vec<Span> {}
        }
    };
}
