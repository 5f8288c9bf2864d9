//! How attempts end, and what follows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_core::job::{AttemptOutcome, Backoff, JobState, Outcome, RetryPolicy};
use punctual_core::schedule::Definition;
use punctual_engine::{
    Attempt, Boxed, Config, Ended, Env, Handler, SCHEDULER, Schedules, StopReason,
};
use punctual_store::{Actor, Json, NewJob, limits};

use crate::world::*;

fn quick() -> Config {
    Config { policy: retry_after(s(2)), ..config("a", 10) }
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_returns_is_kept() {
    let world = World::new();
    let result = Json::parse(r#"{"sent":3}"#).unwrap();
    let returned = result.clone();
    let handler = move |attempt: Attempt| {
        let result = returned.clone();
        async move {
            assert_eq!((attempt.job.attempt, attempt.job.spent), (1, 0));
            assert_eq!(attempt.job.payload.as_str(), r#"{"to":"ana"}"#);
            Ended { result: Some(result), ..Outcome::Done.into() }
        }
    };
    let _node = world.start(quick(), on("mail", handler)).await;
    let payload = Json::parse(r#"{"to":"ana"}"#).unwrap();
    let job = world.enqueue(NewJob { payload, ..world.job("mail") }).await;
    let detail = world.comes_to(job, JobState::Succeeded).await;
    assert_eq!((detail.result, detail.spent), (Some(result), 1));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_fails_its_job_alone() {
    let world = World::new();
    let large = |_: Attempt| async {
        let text = format!("\"{}\"", "x".repeat(limits::RESULT_BYTES_MAX));
        Ended { result: Some(Json::from_canonical(text)), ..Outcome::Done.into() }
    };
    let _node = world.start(quick(), and(on("large", large), "mail", done)).await;
    let jobs = [world.job("mail"), world.job("large"), world.job("mail")];
    world.enqueue_all(&jobs).await;
    let detail = world.comes_to(jobs[1].id, JobState::Failed).await;
    assert_eq!(detail.view.attempt, 1);
    let error = detail.view.error.unwrap();
    assert!(error.starts_with("the result is too large: 65538 bytes, maximum 65536"), "{error}");
    for job in [&jobs[0], &jobs[2]] {
        world.comes_to(job.id, JobState::Succeeded).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_outcome_with_its_message() {
    let world = World::new();
    let panics = |attempt: Attempt| async move {
        if attempt.job.attempt == 1 {
            panic!("no such table: {}", attempt.job.kind);
        }
        Ended::from(Outcome::Done)
    };
    let node = world.start(quick(), on("mail", panics)).await;
    let job = world.enqueue(world.job("mail")).await;
    let detail = world.comes_to(job, JobState::Succeeded).await;
    let first = &detail.attempts[0];
    assert_eq!(first.outcome, Some(AttemptOutcome::Panicked));
    assert_eq!(first.error.as_deref(), Some("the handler panicked: no such table: mail"));
    assert_eq!((detail.spent, node.health().free), (2, 10));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_before_its_first_await_is_caught_too() {
    struct Hasty;
    impl Handler for Hasty {
        fn run(&self, _: Attempt) -> Boxed<Ended> {
            panic!("not even a future")
        }
    }
    let world = World::new();
    let node = world.start(quick(), and(on("hasty", Hasty), "mail", done)).await;
    let hasty = world.enqueue(NewJob { max_attempts: 1, ..world.job("hasty") }).await;
    let detail = world.comes_to(hasty, JobState::Failed).await;
    assert_eq!(detail.view.error.as_deref(), Some("the handler panicked: not even a future"));
    let mail = world.enqueue(world.job("mail")).await;
    world.comes_to(mail, JobState::Succeeded).await;
    assert_eq!(node.health().free, 10);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_told_and_then_dropped() {
    let world = World::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let (log, env) = (told.clone(), world.env.clone());
    let stubborn = move |attempt: Attempt| {
        let (log, env) = (log.clone(), env.clone());
        async move {
            let began = env.elapsed();
            let reason = attempt.stopped().await;
            log.lock().unwrap().push((reason, env.elapsed() - began));
            std::future::pending().await
        }
    };
    let node = world.start(quick(), on("mail", stubborn)).await;
    let timeout = Some(s(5));
    let job = world.enqueue(NewJob { timeout, max_attempts: 2, ..world.job("mail") }).await;
    let detail = world.comes_to(job, JobState::Retrying).await;
    assert_eq!(world.outcomes(job).await, ["timed_out"]);
    assert_eq!(detail.attempts[0].error.as_deref(), Some("exceeded the time limit of 5s"));
    let took = detail.attempts[0].ended_at.unwrap().since(detail.attempts[0].claimed_at);
    assert!((s(8)..s(9)).contains(&took), "dropped after {took:?}");
    assert_eq!(node.health().free, 10);
    world.comes_to(job, JobState::Failed).await;
    let [first, second] = told.lock().unwrap()[..] else { panic!("two attempts") };
    assert_eq!(first, (StopReason::TimedOut(s(5)), s(5)));
    assert_eq!(second, first);
}

#[tokio::test(start_paused = true)]
async fn the_nodes_timeout_holds_where_the_job_has_none() {
    let world = World::new();
    let config = Config { timeout: s(20), ..quick() };
    let _node = world.start(config, on("mail", hangs)).await;
    let job = world.enqueue(NewJob { max_attempts: 1, ..world.job("mail") }).await;
    let detail = world.comes_to(job, JobState::Failed).await;
    assert_eq!(detail.view.error.as_deref(), Some("exceeded the time limit of 20s"));
}

/// Stops as it is told to, and then says this.
fn polite(last_word: Outcome) -> impl Handler {
    move |attempt: Attempt| {
        let last_word = last_word.clone();
        async move {
            attempt.stopped().await;
            Ended::from(last_word)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_word_to_stop_only_success_is_the_handlers_own() {
    let world = World::new();
    let handlers = and(
        on("finishes", polite(Outcome::Done)),
        "complains",
        polite(Outcome::FailForGood("interrupted".to_owned())),
    );
    let _node = world.start(quick(), handlers).await;
    let timed = |kind: &str| NewJob { timeout: Some(s(5)), max_attempts: 1, ..world.job(kind) };
    let finishes = world.enqueue(timed("finishes")).await;
    let complains = world.enqueue(timed("complains")).await;
    world.comes_to(finishes, JobState::Succeeded).await;
    let detail = world.comes_to(complains, JobState::Failed).await;
    assert_eq!(detail.view.error.as_deref(), Some("exceeded the time limit of 5s"));
}

#[tokio::test(start_paused = true)]
async fn all_attempts_together_stay_within_the_budget() {
    let world = World::new();
    let _node = world.start(quick(), on("mail", polite(Outcome::Fail("no".to_owned())))).await;
    let (budget, timeout) = (Some(s(10)), Some(s(4)));
    let job = NewJob { budget, timeout, max_attempts: 100, ..world.job("mail") };
    let job = world.enqueue(job).await;
    let detail = world.comes_to(job, JobState::Failed).await;
    // Four seconds, four, and the two that are left.
    assert_eq!(world.outcomes(job).await, ["timed_out"; 3]);
    let error = detail.view.error.unwrap();
    assert_eq!(error, "exceeded the time limit of 2s (and its time budget is used up)");
    let took =
        |attempt: &punctual_store::AttemptView| attempt.ended_at.unwrap().since(attempt.claimed_at);
    let all: Duration = detail.attempts.iter().map(took).sum();
    assert!((s(10)..s(11)).contains(&all), "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waited_past_its_expiry_never_starts() {
    let world = World::new();
    let gate = Gate::new();
    let _node = world.start(config("a", 1), on("mail", gate.handler())).await;
    let first = world.enqueue(world.job("mail")).await;
    let start_within = Some(s(30));
    let late = world.enqueue(NewJob { start_within, ..world.job("mail") }).await;
    let in_time = NewJob { start_within: Some(s(90)), ..world.job("mail") };
    let in_time = world.enqueue(in_time).await;
    world.until("the first runs", || gate.began().len() == 1).await;
    world.pass(s(60)).await;
    gate.open(2);
    let detail = world.comes_to(late, JobState::Failed).await;
    assert_eq!(detail.view.error.as_deref(), Some("expired before it could start"));
    world.comes_to(in_time, JobState::Succeeded).await;
    assert_eq!(gate.began(), [first, in_time]);
}

#[tokio::test(start_paused = true)]
async fn a_running_job_that_is_called_off_is_told_with_the_next_heartbeat() {
    let world = World::new();
    let env = world.env.clone();
    let told = Arc::new(Mutex::new(None));
    let log = told.clone();
    let handler = move |attempt: Attempt| {
        let (log, env) = (log.clone(), env.clone());
        async move {
            let reason = attempt.stopped().await;
            assert_eq!(attempt.stop_reason(), Some(reason));
            *log.lock().unwrap() = Some((reason, env.elapsed()));
            Ended::from(Outcome::Fail("stopped half-way".to_owned()))
        }
    };
    let _node = world.start(quick(), on("mail", handler)).await;
    let job = world.enqueue(world.job("mail")).await;
    world.comes_to(job, JobState::Running).await;
    world.pass(s(10)).await;
    let asked = world.now();
    world.cancel(job).await;
    let detail = world.comes_to(job, JobState::Cancelled).await;
    let (reason, at) = told.lock().unwrap().unwrap();
    assert_eq!(reason, StopReason::Cancelled);
    assert!(at - asked <= timing().beat, "after {:?}", at - asked);
    assert_eq!(detail.view.error.as_deref(), Some("cancelled by ana: no longer needed"));
    assert_eq!(world.outcomes(job).await, ["cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_called_off_while_it_waits_for_a_place_does_not_run() {
    let world = World::new();
    let gate = Gate::new();
    let fast = world.enqueue_some("fast", 50).await;
    let slow = world.enqueue_some("slow", 8).await;
    let handlers = and(on("fast", done), "slow", gate.handler());
    let _node = world.start(config("a", 4), handlers).await;
    world.until("the places are taken", || gate.began().len() == 4).await;
    assert_eq!(world.state(slow[7]).await, JobState::Running, "it is fetched ahead");
    world.cancel(slow[7]).await;
    world.comes_to(slow[7], JobState::Cancelled).await;
    gate.open(100);
    for job in fast.iter().chain(&slow[..7]) {
        world.comes_to(*job, JobState::Succeeded).await;
    }
    assert!(!gate.began().contains(&slow[7]));
}

#[tokio::test(start_paused = true)]
async fn a_snooze_waits_and_costs_nothing() {
    let world = World::new();
    let snoozes = |attempt: Attempt| async move {
        let is_early = attempt.job.attempt < 4;
        Ended::from(if is_early { Outcome::Snooze(s(60)) } else { Outcome::Done })
    };
    let _node = world.start(quick(), on("mail", snoozes)).await;
    let job = world.enqueue(NewJob { max_attempts: 1, ..world.job("mail") }).await;
    let start = world.now();
    let detail = world.comes_to(job, JobState::Succeeded).await;
    assert_eq!((detail.view.attempt, detail.spent), (4, 1));
    let took = world.now() - start;
    assert!((s(180)..s(184)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_say_when_to_try_again_or_never_to() {
    let world = World::new();
    let busy = |attempt: Attempt| async move {
        let is_first = attempt.job.attempt == 1;
        let retry = Outcome::RetryAfter(s(45), "429".to_owned());
        Ended::from(if is_first { retry } else { Outcome::Done })
    };
    let gone = ends(Outcome::FailForGood("no such user".to_owned()));
    let _node = world.start(quick(), and(on("busy", busy), "gone", gone)).await;
    let busy = world.enqueue(world.job("busy")).await;
    let gone = world.enqueue(world.job("gone")).await;
    let detail = world.comes_to(gone, JobState::Failed).await;
    assert_eq!((detail.view.attempt, detail.view.error.as_deref()), (1, Some("no such user")));
    let detail = world.comes_to(busy, JobState::Succeeded).await;
    let [first, second] = &detail.attempts[..] else { panic!("{detail:?}") };
    let wait = second.claimed_at.since(first.ended_at.unwrap());
    assert!((s(45)..s(47)).contains(&wait), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn a_handlers_own_policy_goes_before_the_nodes() {
    struct Fussy(RetryPolicy);
    impl Handler for Fussy {
        fn run(&self, attempt: Attempt) -> Boxed<Ended> {
            let outcome = match attempt.job.attempt {
                1 => Outcome::Fail("busy".to_owned()),
                _ => Outcome::FailForGood("no such user".to_owned()),
            };
            Box::pin(async move { Ended::from(outcome) })
        }

        fn policy(&self) -> Option<&RetryPolicy> {
            Some(&self.0)
        }
    }
    let world = World::new();
    let plain = ends(Outcome::Fail("busy".to_owned()));
    let handlers = and(on("fussy", Fussy(retry_after(s(30)))), "plain", plain);
    let _node = world.start(quick(), handlers).await;
    let fussy = world.enqueue(world.job("fussy")).await;
    let plain = world.enqueue(world.job("plain")).await;
    let detail = world.comes_to(fussy, JobState::Failed).await;
    let [first, second] = &detail.attempts[..] else { panic!("{detail:?}") };
    let wait = second.claimed_at.since(first.ended_at.unwrap());
    assert!((s(30)..s(32)).contains(&wait), "{wait:?}");
    // The node's policy waits two seconds.
    let detail = world.comes_to(plain, JobState::Failed).await;
    assert_eq!(detail.spent, 5);
    let wait = detail.attempts[1].claimed_at.since(detail.attempts[0].ended_at.unwrap());
    assert!((s(2)..s(4)).contains(&wait), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_schedule_says_of_waits_goes_before_its_kind_and_the_node() {
    struct Fails(RetryPolicy);
    impl Handler for Fails {
        fn run(&self, attempt: Attempt) -> Boxed<Ended> {
            let outcome = match attempt.job.attempt {
                3 => Outcome::FailForGood("no such user".to_owned()),
                _ => Outcome::Fail("busy".to_owned()),
            };
            Box::pin(async move { Ended::from(outcome) })
        }

        fn policy(&self) -> Option<&RetryPolicy> {
            Some(&self.0)
        }
    }
    let world = World::new();
    let node = world.start(quick(), on("mail", Fails(retry_after(s(1))))).await;
    world.soon(node.leadership(SCHEDULER).won()).await;
    let mut definition = Definition::new("@every 1h", "mail");
    definition.job.backoff = Some("exponential 3m to 5m".to_owned());
    let schedules = Schedules::new(world.env.clone(), Arc::new(world.memory.clone()));
    schedules.create("", "slow", "ops", &definition, &Actor::new("ana", "")).await.unwrap();
    let job = schedules.run("", "slow").await.unwrap();
    let detail = world.comes_to(job, JobState::Failed).await;
    assert_eq!(detail.attempts.len(), 3, "{detail:?}");
    let told: Backoff = "exponential 3m to 5m".parse().unwrap();
    for (tries, pair) in (1..).zip(detail.attempts.windows(2)) {
        let wait = pair[1].claimed_at.since(pair[0].ended_at.unwrap());
        let expected = told.wait(job, tries, tries);
        assert!((expected..expected + s(2)).contains(&wait), "{wait:?}, not {expected:?}");
        assert!(expected > s(4), "it tells the two apart");
    }
}
