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
            /// Returns the time.
            [Tenant, Safe]
            async fn now(&self, at: At) -> Timestamp {}
            /// Returns the version of the schema, and of the database.
            [Tenant, Safe]
            async fn schema(&self) -> Schema {}
            /// Returns problems in the configuration of the database, for history that is kept for this
            /// long. Reads no jobs or schedules. Empty if there is no problem.
            [Cluster, Safe, rows |faults| faults.len()]
            async fn faults(&self, at: At, retention: &Retention) -> Vec<String> {}
            /// Checks whether writes can succeed. After a write that found the disk full, it writes to find
            /// out whether there is space again; otherwise it costs nothing.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Full`] until a write succeeds; the reason of a store that has stopped.
            [Cluster, Safe]
            async fn check_writable(&self) -> () {}
            // Jobs
            /// Inserts jobs. Each job has its own result, and a rejected job does not affect the others.
            [Tenant, Safe, hint Work if Enqueued::has_new, rows |_| jobs.len()]
            async fn enqueue(&self, at: At, jobs: &[NewJob]) -> Enqueued {
                rules::check_count(jobs.len(), limits::ENQUEUE_MAX, "jobs")?;
            }
            /// Claims due jobs, in the order of queues and priorities. Each job carries the lease that
            /// fences its settlement.
            [Engine, Once, rows |claimed| claimed.jobs.len()]
            async fn claim(&self, at: At, ask: &ClaimAsk) -> Claimed {
                ask.check()?;
            }
            /// Returns the job that holds the unique key of this job, which can be the job itself. An
            /// expired key has no holder.
            [Tenant, Safe]
            async fn key_holder(&self, at: At, job: &NewJob) -> Option<JobId> {}
            /// Applies decided transitions, and enqueues the follow-up jobs of each. A stale lease is
            /// reported; its transition and its follow-up jobs are not applied.
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
            /// Cancels a job: a waiting job at once, a running job by a request to its worker.
            [Tenant, Once, hint Finished if |answer| *answer == CancelAnswer::Cancelled]
            async fn cancel(&self, at: At, job: JobId, actor: &Actor) -> CancelAnswer {
                let actor = &actor.kept()?;
            }
            /// Makes finished jobs ready again with a full set of attempts and a full budget. Deletes their
            /// steps and their start deadlines.
            [Tenant, Once, hint Work, rows |_| jobs.len()]
            async fn requeue(&self, at: At, jobs: &[JobId], actor: &Actor) -> Vec<RequeueAnswer> {
                rules::check_count(jobs.len(), limits::REQUEUE_MAX, "jobs")?;
                let actor = &actor.kept()?;
            }
            /// Moves a waiting job to another queue, priority or due time. A unique key that is scoped to
            /// the queue moves with it.
            [Tenant, Once, hint Work]
            async fn place(&self, at: At, job: JobId, to: &Placement, actor: &Actor) -> MoveAnswer {
                to.check()?;
                let actor = &actor.kept()?;
            }
            // What handlers save
            /// Saves the result of a step of a job under this lease. The first result of a name is kept. A
            /// job has at most [`limits::STEPS_MAX`] steps.
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
            /// Lists the steps of a job by time, then by name.
            [Tenant, Safe, rows |steps| steps.len()]
            async fn steps(&self, job: JobId) -> Vec<StepView> {}
            /// Inserts log lines. Existing lines are not changed. Lines of jobs that do not exist are left
            /// out, because no prune would delete them.
            [Engine, Safe, rows |_| lines.len()]
            async fn write_log(&self, at: At, lines: &[LogLine]) -> Timestamp {
                LogLine::check(lines)?;
            }
            /// Lists the log of a job by attempt and line number.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn log(
                &self,
                job: JobId,
                after: Option<LogCursor>,
                most: usize,
            ) -> Page<LogView, LogCursor> {}
            /// Lists the log of a job, newest line first, before this position.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn newest_log(
                &self,
                job: JobId,
                before: Option<LogCursor>,
                most: usize,
            ) -> Page<LogView, LogCursor> {}
            // Nodes and leaders
            /// Inserts a node that has just started.
            [Engine, Safe, hint Schedules if |joined| joined.wakes_schedules]
            async fn join(&self, at: At, node: &NodeInfo) -> JoinResponse {
                node.check()?;
            }
            /// Records a heartbeat: the node is alive and still leads its roles. The heartbeat of a node
            /// that was declared dead changes nothing.
            [Engine, Safe]
            async fn beat(&self, at: At, ask: &BeatAsk) -> Beaten {
                ask.check()?;
            }
            /// Releases the jobs that a node holds under these leases, at most [`limits::RELEASE_MAX`]. The
            /// response to the next heartbeat names the remaining ones.
            [Engine, Safe, hint Work, rows |_| leases.len()]
            async fn release(&self, at: At, node: NodeId, leases: &[LeaseId]) -> Released {
                rules::check_release(leases)?;
            }
            /// Removes a node that holds no jobs.
            [Engine, Safe]
            async fn leave(&self, at: At, node: NodeId) -> () {}
            /// Lists the nodes by id.
            [Cluster, Safe, rows |nodes| nodes.len()]
            async fn nodes(&self) -> Vec<Node> {}
            /// Acquires a role whose lease has expired.
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
            /// Resigns a role at once. Returns false if the term was lost before.
            [Engine, Safe, hint Roles if |is_resigned| *is_resigned]
            async fn resign(&self, at: At, fence: &Fence) -> bool {}
            /// Lists the leader of each role.
            [Cluster, Safe, rows |leaders| leaders.len()]
            async fn leaders(&self) -> Vec<Leader> {}
            /// Lists past changes of the leader of a role, newest first.
            [Cluster, Safe, rows |changes| changes.len()]
            async fn leader_changes(&self, role: &str, most: usize) -> Vec<LeaderChange> {}
            // Upkeep
            /// Makes jobs ready that have waited long enough: due timers first, then the oldest blocked job
            /// of each schedule without unfinished jobs other than blocked ones. A job that is due later
            /// becomes a timer.
            [Engine, Safe, hint Work if Promoted::has_any]
            async fn promote(&self, at: At, most: usize) -> Promoted {
                rules::check_count(most, limits::PROMOTE_MAX, "timers")?;
            }
            /// Fails jobs that wait past their start deadline. They fail without an attempt, and their
            /// unique key and their place are free. The deadlines to check are written with the jobs, and
            /// only for jobs that have one; see [`Promoted::next_deadline`].
            [Engine, Once, hint Finished if ExpireResponse::has_finished, rows |expired| expired.jobs.len()]
            async fn expire(&self, at: At, request: &ExpireRequest) -> ExpireResponse {
                request.check()?;
            }
            /// Declares silent nodes dead and revokes their leases. Ends the attempts of live remote
            /// workers (nodes with the label [`rules::REMOTE_LABEL`]) that exceed their time; other nodes
            /// end theirs themselves.
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
            /// Deletes history that is older than the retention.
            [Engine, Once]
            async fn prune(&self, at: At, retention: &Retention, most: usize) -> Pruned {
                rules::check_count(most, limits::PRUNE_MAX, "rows per table")?;
            }
            /// Adds to the counters per minute.
            [Engine, Once, rows |_| counts.len()]
            async fn roll_up(&self, counts: &[RollupCount]) -> () {
                rules::check_counts(counts)?;
            }
            /// Lists the counters per minute, oldest first.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn rollups(
                &self,
                filter: &RollupFilter,
                after: Option<&RollupCursor>,
                most: usize,
            ) -> Page<RollupCount, RollupCursor> {}
            /// Returns sums of the counters per minute by interval, metric and queue, oldest first.
            [Tenant, Safe, rows |sums| sums.len()]
            async fn sums(&self, ask: &SumAsk) -> Vec<RollupSum> {
                ask.check()?;
            }
            /// Inserts an entry into the audit log.
            [Tenant, Once]
            async fn audit(&self, at: At, entry: &AuditEntry) -> () {
                let entry = &entry.kept()?;
            }
            /// Lists the audit log, newest first.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn audits(
                &self,
                after: Option<AuditCursor>,
                most: usize,
            ) -> Page<AuditView, AuditCursor> {}
            /// Lists events after this position and up to `until`, oldest first. An event appears when its
            /// transaction commits, which can be later than its time. A caller that must not miss an event
            /// sets `until` to a time before all open transactions.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn events(
                &self,
                after: &EventCursor,
                until: Timestamp,
                most: usize,
            ) -> Page<Event, EventCursor> {}
            // Schedules
            /// Creates a schedule. A name that exists is a conflict.
            [Tenant, Safe, hint Schedules]
            async fn create_schedule(&self, at: At, new: &NewSchedule) -> Schedule {
                new.check()?;
                let new = &NewSchedule { actor: new.actor.kept()?, ..new.clone() };
            }
            /// Changes a schedule if it has not changed since the caller read it.
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
            /// Deletes a schedule if it has not changed since the caller read it. Its ledger and jobs are
            /// kept until they are pruned.
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
            /// Returns a schedule.
            [Tenant, Safe]
            async fn schedule(&self, id: ScheduleId) -> Option<Schedule> {}
            /// Returns a schedule by its name.
            [Tenant, Safe]
            async fn schedule_named(&self, tenant: &str, name: &str) -> Option<Schedule> {}
            /// Lists the schedules of a tenant by name, after this name.
            [Tenant, Safe, rows |schedules| schedules.len()]
            async fn schedules(&self, tenant: &str, after: Option<&str>, most: usize) -> Vec<Schedule> {}
            /// Lists the schedules of a set of a tenant by name, after this name. Schedules without a set
            /// belong to no set.
            [Tenant, Safe, rows |schedules| schedules.len()]
            async fn schedules_of(
                &self,
                tenant: &str,
                set: &str,
                after: Option<&str>,
                most: usize,
            ) -> Vec<Schedule> {}
            /// Writes all schedules of a set, or none if a higher generation of the set exists. Afterwards
            /// this generation is the highest one, even if there are no entries.
            [Tenant, Once, hint Schedules if Registered::has_schedules, rows |_| ask.entries.len()]
            async fn register(&self, at: At, ask: &Registration) -> Registered {
                let ask = &ask.kept()?;
            }
            /// Returns the highest generation of a set.
            [Tenant, Safe]
            async fn generation(&self, set: &str) -> Option<i64> {}
            /// Lists the revisions of a schedule, newest first.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn revisions(
                &self,
                id: ScheduleId,
                after: Option<RevisionCursor>,
                most: usize,
            ) -> Page<RevisionView, RevisionCursor> {}
            /// Returns schedules with slots to decide: those that have been due for less than
            /// [`rules::FRESH`] first, earliest first, then the others, which get at least a tenth of the
            /// limit. A schedule whose row cannot be read is quarantined, so that the others can fire.
            [Engine, Safe, rows |due| due.schedules.len()]
            async fn due(&self, at: At, shard: i16, most: usize) -> Due {}
            /// Advances each watermark and inserts the jobs of its slots, in one transaction. Changes
            /// nothing if the term of the leader is over. The transaction decides from the unfinished jobs
            /// of a schedule what happens to overlapping slots ([`Seats`]), and from the live nodes which
            /// nodes run the jobs ([`place`]).
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
            /// Lists the ledger of a schedule, newest first.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn slots(
                &self,
                id: ScheduleId,
                after: Option<SlotCursor>,
                most: usize,
            ) -> Page<SlotView, SlotCursor> {}
            /// Returns the newest slots of each of these schedules and the state of their jobs, in the
            /// order of the request. At most [`limits::RECENT_SCHEDULES_MAX`] schedules, and `most` slots
            /// of each.
            [Tenant, Safe, rows |slots| slots.len()]
            async fn recent_slots(&self, schedules: &[ScheduleId], most: usize) -> Vec<SlotRun> {
                look::check_recent(schedules)?;
            }
            /// Lists the schedules of all tenants by their next slot, earliest first.
            [Cluster, Safe, rows |schedules| schedules.len()]
            async fn upcoming(&self, shard: i16, most: usize) -> Vec<Schedule> {}
            /// Lists enabled schedules that are ahead of this time ([`Schedule::ahead_until`]), the
            /// furthest ahead first. Examines the newest [`limits::EXAMINE_MAX`] ledger rows that were
            /// decided later.
            [Cluster, Safe]
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
            /// Lists the queues that have a setting, by name.
            [Tenant, Safe, rows |queues| queues.len()]
            async fn queues(&self) -> Vec<Queue> {}
            /// Returns job counts by queue and kind, as [`Store::count_queues`] stored them, so that the
            /// cost of a request does not grow with the number of jobs. If no counts are stored, up to
            /// [`limits::COUNT_REQUEST_MAX`] jobs are counted now: see [`QueueCounts::is_partial`].
            [Tenant, Safe]
            async fn queue_stats(&self, after: Option<&StatsCursor>, most: usize) -> QueueCounts {}
            /// Counts all unfinished and failed jobs and replaces the stored counts, under the term of the
            /// request. With at most [`limits::COUNT_LIVE_MAX`] jobs it deletes the stored counts instead,
            /// so that each request counts. It counts before the transaction that writes, because counting
            /// takes long and would keep the fence locked.
            [Engine, Safe]
            async fn count_queues(&self, at: At, request: &CountRequest) -> CountResponse {}
            /// Returns a job with its attempts.
            [Tenant, Safe]
            async fn job(&self, id: JobId) -> Option<JobDetail> {}
            /// Lists jobs, newest first.
            [Tenant, Safe, rows |page| page.items.len()]
            async fn jobs(
                &self,
                filter: &JobFilter,
                after: Option<Cursor>,
                most: usize,
            ) -> Page<JobView, Cursor> {}
            /// Lists jobs like [`Store::jobs`], for the maintenance leader: it does not wait for the lists
            /// of API requests, and is not rejected because of their number.
            [Engine, Safe, rows |page| page.items.len()]
            async fn upkeep_jobs(
                &self,
                filter: &JobFilter,
                after: Option<Cursor>,
                most: usize,
            ) -> Page<JobView, Cursor> {}
            /// Lists running attempts, and attempts of jobs whose ids are not older than `since`, all of
            /// jobs whose ids are older than `until`. Newest job first, at most [`limits::SPANS_MAX`].
            [Tenant, Safe, rows |spans| spans.len()]
            async fn spans(&self, since: Timestamp, until: Timestamp, most: usize) -> Vec<Span> {}
        }
    };
}
