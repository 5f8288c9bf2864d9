use super::*;
use crate::job::retry::{Backoff, Growth, Spread};

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

fn standing() -> Standing {
    Standing {
        job: JobId::mint(NOW, [1; 10]),
        attempt: 1,
        spent: 0,
        crashes: 0,
        resource_releases: 0,
        max_attempts: 3,
        used: Duration::ZERO,
        claimed_at: NOW,
        budget: None,
        expires_at: None,
    }
}

fn policy() -> RetryPolicy {
    let backoff = Backoff { growth: Growth::Fixed, spread: Spread::None, ..Backoff::default() };
    RetryPolicy { backoff }
}

const WAIT: Next = Next::After(Duration::from_secs(5));

fn next(standing: &Standing, outcome: Outcome) -> Next {
    decide(standing, outcome, &policy(), NOW).next
}

fn all_outcomes() -> Vec<Outcome> {
    let text = || "boom".to_owned();
    let wait = Duration::from_secs(60);
    vec![
        Outcome::Done,
        Outcome::Fail(text()),
        Outcome::RetryAfter(wait, text()),
        Outcome::FailForGood(text()),
        Outcome::TimedOut(wait),
        Outcome::Panicked(text()),
        Outcome::Abandoned,
        Outcome::Released,
        Outcome::OutOfResources(text()),
        Outcome::Snooze(wait),
        Outcome::Cancel(text()),
    ]
}

#[test]
fn each_end_of_a_first_attempt_leads_where_the_table_says() {
    let table: Vec<String> = all_outcomes()
        .into_iter()
        .map(|outcome| {
            let Transition { outcome: ended, next, error } =
                decide(&standing(), outcome.clone(), &policy(), NOW);
            format!("{outcome:?}: {ended}, {next:?}, {error:?}")
        })
        .collect();
    insta::assert_snapshot!(table.join("\n"), @r#"
    Done: succeeded, Succeeded, None
    Fail("boom"): failed, After(5s), Some("boom")
    RetryAfter(60s, "boom"): failed, After(60s), Some("boom")
    FailForGood("boom"): failed, Failed, Some("boom")
    TimedOut(60s): timed_out, After(5s), Some("exceeded the time limit of 1m")
    Panicked("boom"): panicked, After(5s), Some("the handler panicked: boom")
    Abandoned: abandoned, After(5s), Some("its node died or lost contact with the database")
    Released: released, Ready, None
    OutOfResources("boom"): released, After(5s), Some("boom")
    Snooze(60s): snoozed, After(60s), None
    Cancel("boom"): cancelled, Cancelled, Some("boom")
    "#);
}

/// Every combination of counters and outcomes, against the promises in words.
#[test]
fn no_combination_of_counters_breaks_a_promise() {
    for max_attempts in 1..=4 {
        for spent in 0..max_attempts {
            for crashes in 0..=spent {
                for outcome in all_outcomes() {
                    let standing =
                        Standing { attempt: spent + 1, spent, crashes, max_attempts, ..standing() };
                    let made = decide(&standing, outcome.clone(), &policy(), NOW);
                    let what = format!(
                        "{outcome:?} at {spent} of {max_attempts}, {crashes} crashes: {made:?}"
                    );
                    let counted = spent + u32::from(made.outcome.counts());
                    if !made.next.is_final() {
                        assert!(
                            !made.outcome.counts() || counted < max_attempts,
                            "goes on though used up: {what}"
                        );
                    }
                    if made.outcome == AttemptOutcome::Abandoned && crashes + 1 >= CRASHES_MAX {
                        assert_eq!(made.next, Next::Failed, "{what}");
                    }
                    assert_eq!(
                        made.next == Next::Succeeded,
                        made.outcome == AttemptOutcome::Succeeded,
                        "{what}"
                    );
                    assert_eq!(
                        made.next == Next::Failed,
                        made.next == Next::Failed && made.error.is_some(),
                        "{what}"
                    );
                    if !made.outcome.counts() {
                        assert!(!made.next.is_final(), "ends though nothing was tried: {what}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_last_counted_attempt_fails_the_job() {
    let last = Standing { attempt: 9, spent: 2, ..standing() };
    assert_eq!(next(&last, Outcome::Fail("x".to_owned())), Next::Failed);
    assert_eq!(
        next(&last, Outcome::RetryAfter(Duration::from_secs(1), "x".to_owned())),
        Next::Failed
    );
    assert_eq!(next(&last, Outcome::Released), Next::Ready);
    assert_eq!(next(&last, Outcome::Snooze(Duration::from_secs(5))), WAIT);
}

#[test]
fn the_third_crash_fails_the_job_whatever_its_attempts_allow() {
    let twice = Standing { spent: 2, crashes: 2, max_attempts: 100, ..standing() };
    assert_eq!(next(&twice, Outcome::Abandoned), Next::Failed);
    assert_eq!(next(&Standing { crashes: 1, ..twice }, Outcome::Abandoned), WAIT);
}

#[test]
fn a_budget_over_all_attempts_ends_the_retries() {
    let budget = Standing {
        budget: Some(Duration::from_secs(60)),
        used: Duration::from_secs(50),
        ..standing()
    };
    let at = |seconds| {
        decide(
            &budget,
            Outcome::Fail("x".to_owned()),
            &policy(),
            NOW + Duration::from_secs(seconds),
        )
    };
    assert_eq!(at(9).next, WAIT);
    assert_eq!(at(10).next, Next::Failed);
    assert_eq!(at(10).error.as_deref(), Some("x (and its time budget is used up)"));
    assert_eq!(refuse_start(&budget, NOW), None);
    let used_up = Standing { used: Duration::from_secs(60), ..budget };
    assert_eq!(refuse_start(&used_up, NOW).map(|made| made.next), Some(Next::Failed));
}

#[test]
fn a_job_that_would_start_after_its_expiry_fails_instead() {
    let expiring =
        |seconds| Standing { expires_at: Some(NOW + Duration::from_secs(seconds)), ..standing() };
    assert_eq!(next(&expiring(5), Outcome::Fail("x".to_owned())), WAIT);
    assert_eq!(next(&expiring(4), Outcome::Fail("x".to_owned())), Next::Failed);
    assert_eq!(refuse_start(&expiring(0), NOW), None);
    assert!(refuse_start(&expiring(0), NOW + Duration::from_micros(1)).is_some());
}

#[test]
fn a_job_is_released_ten_times_while_its_node_lacks_resources() {
    let attempt = |resource_releases: u32, spent: u32| {
        // Snoozes and attempts before a retry by hand use nothing of the quota.
        let standing = Standing { attempt: 100, spent, resource_releases, ..standing() };
        let text = "Too many open files".to_owned();
        let made = decide(&standing, Outcome::OutOfResources(text), &policy(), NOW);
        assert_eq!(made.is_resource_release(), made.outcome == AttemptOutcome::Released);
        (made.outcome, made.next)
    };
    let released = (AttemptOutcome::Released, Next::After(RESOURCE_WAIT));
    assert_eq!(attempt(0, 0), released);
    assert_eq!(attempt(RESOURCE_RELEASES_MAX - 1, 2), released);
    assert_eq!(attempt(RESOURCE_RELEASES_MAX, 0), (AttemptOutcome::Failed, WAIT));
    assert_eq!(attempt(RESOURCE_RELEASES_MAX, 2), (AttemptOutcome::Failed, Next::Failed));
    let other = decide(&standing(), Outcome::Released, &policy(), NOW);
    assert!(!other.is_resource_release());
}
