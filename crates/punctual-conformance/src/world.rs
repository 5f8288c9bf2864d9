//! A small stage for the tests: a clock that stands still, ids that follow from a counter, and
//! short ways to say what most tests say.

use std::cell::Cell;
use std::time::Duration;

use punctual_core::job::{
    Backoff, Growth, JobState, Next, Outcome, RetryPolicy, Spread, Standing, Transition, decide,
};
use punctual_core::schedule::{ON_TIME, Overlap};
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp, hash};
use punctual_store::*;

use crate::Subject;

/// The stage of one test.
pub struct World<'a> {
    subject: &'a dyn Subject,
    now: Cell<Timestamp>,
    minted: Cell<u64>,
}

impl<'a> World<'a> {
    /// A stage with a fresh store, on the first of January 2027.
    pub fn new(subject: &'a dyn Subject) -> World<'a> {
        World {
            subject,
            now: Cell::new(Timestamp::from_seconds(1_798_761_600)),
            minted: Cell::new(0),
        }
    }

    /// The store.
    pub fn store(&self) -> &'a dyn Store {
        self.subject.store()
    }

    /// Makes something unreadable.
    pub async fn spoil(&self, what: rules::Spoil) {
        self.subject.spoil(what).await;
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.now.get()
    }

    /// The time, for the store.
    pub fn at(&self) -> At {
        At::Fixed(self.now.get())
    }

    /// Lets time pass.
    pub fn pass(&self, seconds: u64) {
        self.now.set(self.now.get() + Duration::from_secs(seconds));
    }

    /// Sets the clock, also back.
    pub fn set(&self, now: Timestamp) {
        self.now.set(now);
    }

    fn random(&self) -> [u8; 10] {
        self.minted.set(self.minted.get() + 1);
        let mut bytes = [0; 10];
        bytes[2..].copy_from_slice(&hash::draw(7, self.minted.get()).to_be_bytes());
        bytes
    }

    /// A new job id.
    pub fn job_id(&self) -> JobId {
        JobId::mint(self.now(), self.random())
    }

    /// A new lease id.
    pub fn lease_id(&self) -> LeaseId {
        LeaseId::mint(self.now(), self.random())
    }

    /// A new node id.
    pub fn node_id(&self) -> NodeId {
        NodeId::mint(self.now(), self.random())
    }

    /// A new schedule id.
    pub fn schedule_id(&self) -> ScheduleId {
        ScheduleId::mint(self.now(), self.random())
    }

    /// A new nonce.
    pub fn nonce(&self) -> Nonce {
        Nonce::mint(self.now(), self.random())
    }

    /// A job of kind `mail` in queue `default` that is not written yet.
    pub fn new_job(&self) -> NewJob {
        NewJob::new(self.job_id(), "default", "mail", json(r#"{"to":"a@example.com"}"#))
    }

    /// Writes a job that must be taken.
    pub async fn enqueue(&self, job: NewJob) -> JobId {
        let answers = self.enqueue_all(std::slice::from_ref(&job)).await;
        assert_eq!(answers, [EnqueueAnswer::Created]);
        job.id
    }

    /// Writes jobs.
    pub async fn enqueue_all(&self, jobs: &[NewJob]) -> Vec<EnqueueAnswer> {
        let enqueued = self.store().enqueue(self.at(), jobs).await.expect("enqueue");
        assert_eq!(enqueued.at, self.now());
        enqueued.answers
    }

    /// Writes the usual job.
    pub async fn enqueue_one(&self) -> JobId {
        self.enqueue(self.new_job()).await
    }

    /// A wish for up to `most` mails of the default queue.
    pub fn ask(&self, node: NodeId, most: usize) -> ClaimAsk {
        ClaimAsk {
            node,
            lease: self.lease_id(),
            more: Vec::new(),
            queues: vec![QueueShare { name: "default".to_owned(), most }],
            kinds: vec!["mail".to_owned()],
            most,
        }
    }

    /// Claims.
    pub async fn claim(&self, ask: &ClaimAsk) -> Vec<ClaimedJob> {
        let claimed = self.store().claim(self.at(), ask).await.expect("claim");
        assert_eq!(claimed.at, self.now());
        claimed.jobs
    }

    /// Claims just one job of the default queue, which must be there.
    pub async fn claim_one(&self, node: NodeId) -> ClaimedJob {
        let mut jobs = self.claim(&self.ask(node, 1)).await;
        assert_eq!(jobs.len(), 1, "nothing to claim");
        jobs.remove(0)
    }

    /// Settles one attempt.
    pub async fn settle(&self, job: &ClaimedJob, outcome: Outcome) -> Settled {
        let answers = self.settle_all(&[self.settlement(job, outcome)]).await;
        answers[0]
    }

    /// Settles several.
    pub async fn settle_all(&self, batch: &[Settlement]) -> Vec<Settled> {
        let settled = self.store().settle(self.at(), batch).await.expect("settle");
        assert_eq!(settled.at, self.now());
        assert_eq!(settled.answers.len(), batch.len());
        settled.answers
    }

    /// What an outcome means for a job that waits five seconds between attempts.
    pub fn settlement(&self, job: &ClaimedJob, outcome: Outcome) -> Settlement {
        let transition = self.decide(&job.standing(), outcome);
        Settlement { job: job.id, lease: job.lease, transition, result: None, then: Vec::new() }
    }

    fn decide(&self, standing: &Standing, outcome: Outcome) -> Transition {
        decide(standing, outcome, &policy(), self.now())
    }

    /// All about a job that must be there.
    pub async fn job(&self, id: JobId) -> JobDetail {
        self.store().job(id).await.expect("job").expect("the job exists")
    }

    /// Where a job is.
    pub async fn state(&self, id: JobId) -> JobState {
        self.job(id).await.view.state
    }

    /// Enters a node.
    pub async fn join(&self) -> NodeId {
        self.join_for("default").await
    }

    /// Enters a node that serves this queue.
    pub async fn join_for(&self, queue: &str) -> NodeId {
        let info = NodeInfo {
            id: self.node_id(),
            name: "web-1".to_owned(),
            version: "0.1.0".to_owned(),
            queues: vec![queue.to_owned()],
            kinds: vec!["mail".to_owned()],
            labels: vec![("zone".to_owned(), "a".to_owned())],
        };
        self.store().join(self.at(), &info).await.expect("join");
        info.id
    }

    /// Beats for a node that leads these roles; it must be alive.
    pub async fn beat(&self, node: NodeId, roles: &[Fence]) -> Beaten {
        self.beat_as(&BeatAsk { roles: roles.to_vec(), ..beat_of(node) }).await
    }

    /// Beats.
    pub async fn beat_as(&self, ask: &BeatAsk) -> Beaten {
        let beaten = self.store().beat(self.at(), ask).await.expect("beat");
        assert_eq!(beaten.at, self.now());
        beaten
    }

    /// Takes a role that must be free.
    pub async fn lead(&self, role: &str, node: NodeId) -> Fence {
        let nonce = self.nonce();
        match self.store().acquire(self.at(), role, node, nonce, LEASE).await.expect("acquire") {
            Acquired::Won { term, .. } => Fence { role: role.to_owned(), term, nonce },
            held => panic!("another node holds the role: {held:?}"),
        }
    }

    /// Reaps under a term.
    pub async fn reap(&self, fence: &Fence) -> Reaped {
        let ask = ReapAsk {
            fence: fence.clone(),
            lease: LEASE,
            node_lifetime: LIFETIME,
            policy: policy(),
            most: 100,
        };
        self.store().reap(self.at(), &ask).await.expect("reap")
    }

    /// Lets 16 seconds pass in which only this leader beats: long enough to be steady, and for
    /// everybody else to be dead.
    pub async fn steady(&self, leader: NodeId, fence: &Fence) {
        for _ in 0..4 {
            self.pass(4);
            self.beat(leader, std::slice::from_ref(fence)).await;
        }
    }

    /// A schedule that is due in a minute and has this name.
    pub async fn schedule(&self, name: &str) -> Schedule {
        let new = self.new_schedule(name);
        self.store().create_schedule(self.at(), &new).await.expect("create schedule")
    }

    /// The same, not written yet.
    pub fn new_schedule(&self, name: &str) -> NewSchedule {
        NewSchedule {
            id: self.schedule_id(),
            tenant: String::new(),
            name: name.to_owned(),
            owner: "ops".to_owned(),
            set: String::new(),
            shard: 0,
            enabled: true,
            spec: json(r#"{"cron":"* * * * *"}"#),
            next_slot: Some(self.now() + Duration::from_secs(60)),
            actor: actor(),
        }
    }

    /// A plan that fires the schedule's next slot and moves on by a minute, whatever is unfinished.
    pub fn plan(&self, schedule: &Schedule) -> SlotPlan {
        self.plan_slots(schedule, Overlap::Allow, 1)
    }

    /// A plan that fires so many of the schedule's slots, a minute each.
    pub fn plan_slots(&self, schedule: &Schedule, overlap: Overlap, slots: u32) -> SlotPlan {
        let first = schedule.next_slot.expect("a next slot");
        let slot = |index| first + index * Duration::from_secs(60);
        let decision = SlotDecision::Advance {
            overlap,
            slots: (0..slots).map(|index| self.fired(schedule.id, slot(index))).collect(),
            next_slot: Some(slot(slots)),
            hold_for: ON_TIME,
        };
        SlotPlan { schedule: schedule.id, stamp: schedule.stamp, decision }
    }

    /// The same as [`plan`](World::plan), with a job in this queue.
    pub fn plan_on(&self, schedule: &Schedule, queue: &str) -> SlotPlan {
        let mut plan = self.plan(schedule);
        if let SlotDecision::Advance { slots, .. } = &mut plan.decision {
            for job in slots.iter_mut().filter_map(|row| row.job.as_mut()) {
                queue.clone_into(&mut job.queue);
            }
        }
        plan
    }

    /// Decides all slots of a schedule up to now as missed.
    pub fn all_missed(&self, schedule: &Schedule) -> PassedSlots {
        let Some(slot) = schedule.next_slot else { return PassedSlots::default() };
        let (end, outcome) = (Some(self.now()), punctual_core::job::SlotOutcome::Missed);
        vec![SlotRow { slot, end, count: 2, outcome, reason: None, job: None }].into()
    }

    /// A slot that becomes the usual job.
    pub fn fired(&self, schedule: ScheduleId, slot: Timestamp) -> SlotRow {
        SlotRow {
            slot,
            end: None,
            count: 1,
            outcome: punctual_core::job::SlotOutcome::Fired,
            reason: None,
            job: Some(self.job_of(schedule, Some(slot))),
        }
    }

    /// The usual job, of a schedule; without a slot it is one that somebody runs by hand.
    pub fn job_of(&self, schedule: ScheduleId, slot: Option<Timestamp>) -> NewJob {
        let facts = json(r#"{"schedule":"nightly"}"#);
        NewJob { origin: Some(Origin { schedule, slot, facts }), ..self.new_job() }
    }

    /// Fires under a term.
    pub async fn fire(&self, fence: &Fence, plans: &[SlotPlan]) -> Fired {
        let fired = self.store().fire(self.at(), fence, LEASE, plans).await.expect("fire");
        assert_eq!(fired.at, self.now());
        fired
    }

    /// The schedule as it is.
    pub async fn reread(&self, schedule: &Schedule) -> Schedule {
        self.store().schedule(schedule.id).await.expect("schedule").expect("the schedule exists")
    }

    /// The whole ledger of a schedule, newest first.
    pub async fn ledger(&self, id: ScheduleId) -> Vec<SlotView> {
        self.store().slots(id, None, 500).await.expect("slots").items
    }
}

/// The beat of a node that leads nothing, knows of no lease and has no progress to tell of.
pub(crate) fn beat_of(node: NodeId) -> BeatAsk {
    BeatAsk {
        node,
        is_remote: false,
        roles: Vec::new(),
        seeks: Vec::new(),
        lease: LEASE,
        leases: Vec::new(),
        progress: Vec::new(),
    }
}

/// The lease of a role.
pub(crate) const LEASE: Duration = Duration::from_secs(5);
/// A node that is silent for longer is dead.
pub(crate) const LIFETIME: Duration = Duration::from_secs(15);

/// Five seconds between attempts.
pub(crate) fn policy() -> RetryPolicy {
    let backoff = Backoff { growth: Growth::Fixed, spread: Spread::None, ..Backoff::default() };
    RetryPolicy { backoff }
}

/// Somebody with a reason.
pub(crate) fn actor() -> Actor {
    Actor::new("ana", "index rebuild")
}

/// A document.
pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).expect("JSON")
}

/// A failure of the handler.
pub(crate) fn failure() -> Outcome {
    Outcome::Fail("boom".to_owned())
}

/// Polls all of them at once, which is all the concurrency that a port can be given.
pub(crate) async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, done) in &mut running {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, done)| done).collect()
}

/// The jobs that were taken back, each with its next step.
pub(crate) fn next_steps(reaped: &Reaped) -> Vec<(JobId, Next)> {
    reaped.jobs.iter().map(|reaped| (reaped.job, reaped.next)).collect()
}
