//! Each planted bug is found by the seed that was written down for it. A simulator that no
//! longer sees one of them has lost its sight.

use punctual_sim::{Backend, Faults, Plan, Verdict, run, silence_planned_panics};
use punctual_store::bugs::{Bug, plant};

const PLAN: Plan =
    Plan { seconds: 30, backend: Backend::Memory, faults: Faults::Mixed, is_told: false };

fn verdict(bug: Option<Bug>, seed: u64, plan: Plan) -> Verdict {
    plant(bug);
    let verdict = run(seed, plan).expect("the simulator runs");
    plant(None);
    verdict
}

/// The seed shows the bug, by a violation that tells of it, and nothing without it.
fn check(bug: Bug, seed: u64, tells: &str) {
    check_with(bug, seed, tells, PLAN);
}

fn check_with(bug: Bug, seed: u64, tells: &str, plan: Plan) {
    silence_planned_panics();
    assert_eq!(verdict(None, seed, plan).violations, [] as [&str; 0]);
    let violations = verdict(Some(bug), seed, plan).violations;
    assert!(violations.iter().any(|violation| violation.contains(tells)), "{violations:#?}");
}

#[test]
fn a_settle_without_a_fence_is_found() {
    check(Bug::NoFenceOnSettle, 1, "was accepted, but the job was held by");
}

#[test]
fn a_counted_lease_is_found() {
    check(Bug::CountedLease, 12, "was accepted, but the job was held by");
}

#[test]
fn reaping_by_age_is_found() {
    check(Bug::ReapByAge, 2, "runs in process");
}

#[test]
fn counting_an_attempt_at_its_end_is_found() {
    check(Bug::CountAtEnd, 2, "has used all");
}

#[test]
fn releasing_by_id_is_found() {
    check(Bug::ReleaseById, 7, "was accepted, but the job was held by");
}

#[test]
fn an_early_acknowledgement_is_found() {
    check(Bug::EarlyAck, 2, "was acknowledged and is lost");
}

#[test]
fn a_drain_that_burns_attempts_is_found() {
    check(Bug::DrainBurnsAttempts, 4, "failed is reported for an attempt");
}

#[test]
fn a_wedge_after_a_lost_connection_is_found() {
    check(Bug::WedgeOnLostConnection, 2, "took no work after the faults ended");
}

#[test]
fn claiming_beyond_capacity_is_found() {
    check(Bug::ClaimBeyondCapacity, 2, "claimed jobs that wait");
}

#[test]
fn planning_only_what_is_young_is_found() {
    check(Bug::LookBackWindow, 1, "but the due slots are");
}

#[test]
fn moving_the_watermark_after_the_jobs_is_found() {
    check(Bug::TwoTransactionClaim, 5, "but the ledger names another job");
}

#[test]
fn moving_the_watermark_before_the_jobs_is_found() {
    check(Bug::WatermarkFirst, 2, "but the due slots are");
}

#[test]
fn firing_under_a_remembered_term_is_found() {
    check(Bug::CachedFence, 14, "is the last term");
}

#[test]
fn a_change_computed_by_an_earlier_clock_is_found() {
    check(Bug::ChangeByEarlierClock, 70, "undecided since");
}

#[test]
fn a_change_that_begins_with_a_due_slot_is_found() {
    check(Bug::ChangeStartsBefore, 23, "edit schedule: at 2027-01-15T08:00:17.971Z");
}

#[test]
fn counting_watched_time_from_zero_in_each_term_is_found() {
    let plan = Plan { seconds: 60, faults: Faults::CrashLoop, ..PLAN };
    check_with(Bug::WatchByTerm, 1, "is still held by process", plan);
}

#[test]
fn waiting_past_a_start_deadline_for_a_claim_is_found() {
    check(Bug::ExpireAtClaimOnly, 2, "still waits after its start deadline");
}

#[test]
fn an_expired_job_that_holds_its_schedule_is_found() {
    check(Bug::ExpireKeepsUnfinished, 18, "did not become a job while []");
}

#[test]
fn a_watermark_that_passes_held_slots_is_found() {
    check(Bug::HeldForgotten, 14, "but the due slots are");
}

#[test]
fn a_remote_attempt_that_is_ended_early_is_found() {
    check(Bug::OverdueSinceDue, 2, "was timed out early");
}
