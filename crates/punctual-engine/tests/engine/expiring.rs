//! Start deadlines: jobs that no node claims in time end all the same.

use punctual_conformance::Fault;
use punctual_core::JobId;
use punctual_core::Timestamp;
use punctual_core::job::{EXPIRED, JobState, SlotOutcome};
use punctual_core::schedule::{Definition, Overlap};
use punctual_engine::{MAINTENANCE, Schedules};
use punctual_store::{Delay, JobDetail, NewJob, RollupFilter, Store};

use crate::scheduling::ana;
use crate::world::{World, config, done, hangs, ms, on, producer, s, timing};

/// A job in a queue that no node serves.
fn unserved(world: &World, start_within: std::time::Duration) -> NewJob {
    let start_within = Some(start_within);
    NewJob { queue: "unserved".to_owned(), start_within, ..world.job("mail") }
}

fn assert_expired(job: &JobDetail) {
    assert_eq!((job.view.state, job.view.error.as_deref()), (JobState::Failed, Some(EXPIRED)));
    assert_eq!(job.spent, 0, "no attempt is counted");
}

async fn expired_by_minute(world: &World) -> i64 {
    let metric = Some("jobs_expired".to_owned());
    let filter = RollupFilter { from: Timestamp::EPOCH, to: Timestamp::MAX, metric };
    let page = world.memory.rollups(&filter, None, 500).await.unwrap();
    page.items.iter().map(|row| row.count).sum()
}

#[tokio::test(start_paused = true)]
async fn a_job_that_no_node_claims_fails_soon_after_its_start_deadline() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    let job = world.enqueue(unserved(&world, s(30))).await;
    world.pass(s(29)).await;
    assert_eq!(world.state(job).await, JobState::Ready);
    let job = world.comes_to(job, JobState::Failed).await;
    assert_expired(&job);
    assert_eq!((job.attempts.len(), job.view.attempt), (0, 0));
    let late = job.view.finished_at.unwrap().since(job.expires_at.unwrap());
    assert!(late < s(2), "{late:?}");
    world.pass(s(60)).await;
    assert_eq!(expired_by_minute(&world).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_comes_first_refuses_the_job_without_counting_an_attempt() {
    let world = World::new();
    let node = world.start(config("a", 1), on("mail", done)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    let job = NewJob { start_within: Some(s(0)), ..world.job("mail") };
    // A claim at its deadline would still start it.
    node.line.fail(&["claim", "expire"], Fault::Request);
    let job = world.enqueue(job).await;
    world.pass(ms(10)).await;
    node.line.fail(&["expire"], Fault::Request);
    let job = world.comes_to(job, JobState::Failed).await;
    assert_expired(&job);
    assert_eq!(world.outcomes(job.view.id).await, ["released"]);
    node.line.heal();
    world.pass(s(60)).await;
    assert_eq!(expired_by_minute(&world).await, 1);
}

/// With `overlap = skip`, a job that waits without end would be the schedule's last one.
#[tokio::test(start_paused = true)]
async fn a_schedule_fires_again_after_its_job_expired() {
    let world = World::new();
    let _node = world.start(config("a", 3), on("mail", done)).await;
    let mut definition = Definition::new("@every 10s", "mail");
    definition.overlap = Overlap::Skip;
    definition.job.queue = "unserved".to_owned();
    definition.job.start_within = Some("5s".to_owned());
    let schedules = Schedules::new(world.env.clone(), std::sync::Arc::new(world.memory.clone()));
    let schedule = schedules.create("", "mails", "ops", &definition, &ana()).await.unwrap();
    world.pass(s(65)).await;
    let slots = world.memory.slots(schedule.id, None, 500).await.unwrap().items;
    let outcomes: Vec<SlotOutcome> = slots.iter().map(|view| view.outcome).collect();
    assert_eq!(outcomes, [SlotOutcome::Fired; 6]);
    let jobs: Vec<JobId> = slots.iter().filter_map(|view| view.job).collect();
    // The newest one has not expired yet.
    for job in &jobs[1..] {
        assert_expired(&world.detail(*job).await);
    }
}

/// As soon as they have expired.
#[tokio::test(start_paused = true)]
async fn a_blocked_job_is_unblocked_when_the_jobs_before_it_expired() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    let mut definition = Definition::new("@every 10s", "mail");
    definition.overlap = Overlap::QueueAll;
    definition.job.queue = "unserved".to_owned();
    definition.job.start_within = Some("15s".to_owned());
    let schedules = Schedules::new(world.env.clone(), std::sync::Arc::new(world.memory.clone()));
    let schedule = schedules.create("", "mails", "ops", &definition, &ana()).await.unwrap();
    world.pass(s(28)).await;
    let slots = world.memory.slots(schedule.id, None, 500).await.unwrap().items;
    let jobs: Vec<JobId> = slots.iter().filter_map(|view| view.job).collect();
    assert_eq!(jobs.len(), 2);
    assert_expired(&world.detail(jobs[1]).await);
    assert_eq!(world.state(jobs[0]).await, JobState::Ready);
}

/// A clock that is a day ahead for a moment would end the jobs of a day.
#[tokio::test(start_paused = true)]
async fn no_job_expires_while_the_database_clock_is_not_trusted() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    let job = world.enqueue(unserved(&world, s(3_600))).await;
    world.pass(s(10)).await;
    world.skip_days(1);
    world.pass(s(60)).await;
    assert_eq!(world.state(job).await, JobState::Ready);
    world.unskip_days();
    world.pass(s(300)).await;
    assert_eq!(world.state(job).await, JobState::Ready);
    // A clock that stays ahead is believed in the end.
    world.skip_days(1);
    assert_expired(&world.comes_to(job, JobState::Failed).await);
}

#[tokio::test(start_paused = true)]
async fn without_start_deadlines_nothing_is_asked() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    world.enqueue_some("mail", 10).await;
    world.enqueue(NewJob { start_within: Some(s(3_600)), ..world.job("mail") }).await;
    world.pass(s(600)).await;
    assert_eq!(node.line.calls("expire"), 0);
}

/// Whether jobs were ended is not known; asking again does no harm.
#[tokio::test(start_paused = true)]
async fn an_expire_without_a_response_is_repeated_by_a_confirmed_leader() {
    let world = World::new();
    let node = world.start(producer("a"), on("mail", hangs)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    let mut jobs = Vec::new();
    for length in [5, 20] {
        jobs.push(world.enqueue(unserved(&world, s(length))).await);
    }
    node.line.fail(&["expire"], Fault::Reply);
    assert_expired(&world.comes_to(jobs[0], JobState::Failed).await);
    world.pass(s(5)).await;
    node.line.fail(&["expire"], Fault::Request);
    world.pass(s(20)).await;
    assert_eq!(world.state(jobs[1]).await, JobState::Ready);
    node.line.heal();
    assert_expired(&world.comes_to(jobs[1], JobState::Failed).await);
}

/// Timers do not wait for the check of deadlines.
#[tokio::test(start_paused = true)]
async fn an_expire_that_hangs_delays_no_timer() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.soon(node.leadership(MAINTENANCE).won()).await;
    world.enqueue(unserved(&world, s(2))).await;
    node.line.fail(&["expire"], Fault::Silence);
    let mut jobs = Vec::new();
    for delay in 1..=12 {
        let job = NewJob { delay: Delay::For(s(delay)), ..world.job("mail") };
        jobs.push((world.enqueue(job).await, s(delay)));
    }
    for (job, delay) in jobs {
        let found = world.comes_to(job, JobState::Succeeded).await;
        let late = found.attempts[0].claimed_at.since(found.view.created_at + delay);
        // The leader promotes once a second, as soon as its term is confirmed.
        assert!(late < timing().call, "{late:?} after {delay:?}");
    }
    assert!(node.line.calls("expire") > 1);
}
