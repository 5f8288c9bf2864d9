//! A schedule with `overlap = skip`: no slot fires while a job is unfinished, and the records say so.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::job::{Outcome, SlotOutcome, decide};
use punctual_core::schedule::Overlap;
use punctual_core::{NodeId, Nonce, ScheduleId, Timestamp};
use punctual_postgres::PostgresStore;
use punctual_store::*;

use crate::common::{Schema, connect, schema};
use crate::firing::plan;
use crate::{AT, ask, join, number, open, policy, random};

const STEP: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(60);

/// A schedule whose slots are due, and the node that leads and works.
struct Skipping {
    store: Arc<PostgresStore>,
    schema: Schema,
    node: NodeId,
    fence: Fence,
    schedule: ScheduleId,
    start: Timestamp,
}

impl Skipping {
    async fn new() -> Skipping {
        let schema = Schema(schema());
        let store = open(&schema).await;
        let start = store.now(AT).await.unwrap();
        let node = join(&store).await;
        let nonce = Nonce::mint(Timestamp::EPOCH, random());
        let won = store.acquire(AT, "scheduler/0", node, nonce, LEASE).await.unwrap();
        let Acquired::Won { term, .. } = won else { panic!("{won:?}") };
        let fence = Fence { role: "scheduler/0".to_owned(), term, nonce };
        let new = NewSchedule {
            id: ScheduleId::mint(start, random()),
            tenant: String::new(),
            name: "s".to_owned(),
            owner: String::new(),
            set: String::new(),
            shard: 0,
            enabled: true,
            spec: Json::null(),
            next_slot: Some(start - STEP * 10),
            actor: Actor::new("ana", "test"),
        };
        let schedule = store.create_schedule(AT, &new).await.unwrap().id;
        Skipping { store, schema, node, fence, schedule, start }
    }

    async fn plan(&self) -> SlotPlan {
        let schedule = self.store.schedule(self.schedule).await.unwrap().unwrap();
        let mut plan = plan(&schedule, self.start, STEP);
        if let SlotDecision::Advance { overlap, .. } = &mut plan.decision {
            *overlap = Overlap::Skip;
        }
        plan
    }

    /// Fires the next slot, and returns how it was decided.
    async fn fire(&self) -> SlotView {
        let plan = self.plan().await;
        let fired = self.store.fire(AT, &self.fence, LEASE, &[plan]).await.unwrap();
        assert_eq!(fired.answers, [FireAnswer::Applied]);
        self.newest().await
    }

    async fn newest(&self) -> SlotView {
        self.store.slots(self.schedule, None, 1).await.unwrap().items.remove(0)
    }

    /// Claims the only job. A claim can miss a row that was inserted without the store, but not forever.
    async fn claim(&self) -> ClaimedJob {
        loop {
            let claimed = self.store.claim(AT, &ask(self.node, &["q"], &["k"], 10)).await.unwrap();
            if let Some(job) = claimed.jobs.into_iter().next() {
                return job;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn settle(&self, job: &ClaimedJob) -> Settled {
        let transition = decide(&job.standing(), Outcome::Done, &policy(), job.claimed_at);
        let (id, lease) = (job.id, job.lease);
        let item = Settlement { job: id, lease, transition, result: None, then: Vec::new() };
        self.store.settle(AT, &[item]).await.unwrap().answers[0]
    }
}

/// A slot that waits for a lock is decided after the job that finished meanwhile, also by the records:
/// otherwise it seems to have fired while a job was unfinished.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slot_is_never_recorded_before_the_end_of_the_job_that_it_waited_for() {
    let skipping = Arc::new(Skipping::new().await);
    skipping.fire().await;
    let job = skipping.claim().await;

    let mut client = connect().await;
    let holder = client.transaction().await.unwrap();
    let lock = format!("SELECT FROM {}.schedule FOR UPDATE", skipping.schema.0);
    holder.execute(&lock, &[]).await.unwrap();
    let firing = {
        let skipping = skipping.clone();
        tokio::spawn(async move { skipping.fire().await })
    };
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}.schedule AS s%'",
        skipping.schema.0
    );
    while number(waiting.clone()).await == 0 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(skipping.settle(&job).await, Settled::Applied(_)));
    holder.rollback().await.unwrap();
    let newest = firing.await.unwrap();

    let finished_at = skipping.store.job(job.id).await.unwrap().unwrap().view.finished_at.unwrap();
    assert_eq!(newest.outcome, SlotOutcome::Fired);
    assert!(newest.decided_at >= finished_at, "{} < {finished_at}", newest.decided_at);
    let fired = skipping.store.job(newest.job.unwrap()).await.unwrap().unwrap().view;
    assert!(fired.created_at >= finished_at, "{} < {finished_at}", fired.created_at);
}

/// A claim commits asynchronously, so a crash of the database can undo it while its job runs. The job is
/// then ready again and still unfinished, so its schedule skips slots until it has run once more.
#[tokio::test]
async fn a_claim_that_is_lost_in_a_crash_lets_no_slot_fire() {
    let skipping = Skipping::new().await;
    let first = skipping.fire().await;
    // What is left of a claim whose commit was lost: the rows before it.
    let schema = &skipping.schema.0;
    let client = connect().await;
    let keep = format!("CREATE TABLE {schema}.kept AS SELECT * FROM {schema}.job_ready");
    client.batch_execute(&keep).await.unwrap();
    let lost = skipping.claim().await;
    assert_eq!(first.job, Some(lost.id));
    let undo = format!(
        "BEGIN; DELETE FROM {schema}.job_lease; INSERT INTO {schema}.job_ready SELECT * FROM {schema}.kept; COMMIT"
    );
    client.batch_execute(&undo).await.unwrap();

    assert_eq!(skipping.fire().await.outcome, SlotOutcome::SkippedOverlap);
    assert_eq!(skipping.settle(&lost).await, Settled::Fenced, "its result counts for nothing");
    assert_eq!(skipping.fire().await.outcome, SlotOutcome::SkippedOverlap);
    let again = skipping.claim().await;
    assert_eq!((again.id, again.attempt), (lost.id, lost.attempt));
    assert_eq!(skipping.fire().await.outcome, SlotOutcome::SkippedOverlap);
    assert!(matches!(skipping.settle(&again).await, Settled::Applied(_)));
    let finished_at =
        skipping.store.job(again.id).await.unwrap().unwrap().view.finished_at.unwrap();
    let next = skipping.fire().await;
    assert_eq!(next.outcome, SlotOutcome::Fired);
    assert!(next.decided_at >= finished_at, "{} < {finished_at}", next.decided_at);
}
