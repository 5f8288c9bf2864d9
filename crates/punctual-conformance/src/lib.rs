//! One suite for every store: the promises of the port, each as a test that any store must pass,
//! with no skips.
//!
//! A store's crate makes the tests its own with one line:
//!
//! ```text
//! punctual_conformance::suite!(|| async { MySubject::new() });
//! ```
//!
//! Each test gets a fresh store. Beside the tests by name there is [`commands`], which drives two
//! stores with the same random commands and compares every answer, [`faulty`], which wraps a store so
//! that requests or replies get lost, and [`cluster`], a PostgreSQL server that may be crashed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod bounds;
pub mod brought;
pub mod cancel;
pub mod claim;
#[cfg(unix)]
pub mod cluster;
pub mod commands;
pub mod enqueue;
pub mod events;
pub mod expiry;
pub mod faulty;
pub mod firing;
pub mod held;
pub mod hints;
pub mod leaders;
pub mod lists;
pub mod look;
pub mod nodes;
pub mod notes;
pub mod overdue;
pub mod overlap;
pub mod overtaken;
pub mod predecessors;
pub mod queues;
pub mod realign;
pub mod schedules;
pub mod sets;
pub mod settle;
pub mod then;
pub mod unreadable;
pub mod upkeep;
mod world;

use async_trait::async_trait;
use punctual_store::Store;
use punctual_store::memory::Memory;
use punctual_store::rules::Spoil;

pub use faulty::{Fault, Faulty};
pub use world::World;

/// A store under test.
#[async_trait]
pub trait Subject: Send + Sync {
    /// The store.
    fn store(&self) -> &dyn Store;
    /// Makes something unreadable that is there, as damage or a foreign hand would.
    async fn spoil(&self, what: Spoil);
}

#[async_trait]
impl Subject for Memory {
    fn store(&self) -> &dyn Store {
        self
    }

    async fn spoil(&self, what: Spoil) {
        Memory::spoil(self, what);
    }
}

#[async_trait]
impl<S: Subject + Store> Subject for Faulty<S> {
    fn store(&self) -> &dyn Store {
        self
    }

    async fn spoil(&self, what: Spoil) {
        self.inner().spoil(what).await;
    }
}

/// Makes the suite's tests for one store. The argument is a closure that makes a fresh
/// [`Subject`] asynchronously.
#[macro_export]
macro_rules! suite {
    ($make:expr) => {
        $crate::suite! { @modules $make;
            enqueue: an_enqueued_job_is_ready_and_told_in_full,
                a_key_by_payload_is_held_for_equal_payloads, a_lost_reply_that_is_retried_makes_one_job,
                a_delayed_job_waits_until_it_is_due, a_key_makes_one_job_of_many_calls,
                a_key_with_another_payload_is_rejected,
                a_key_conflict_inside_a_batch_leaves_the_rest_in, keys_of_different_scopes_and_tenants_never_meet,
                a_key_is_free_when_its_job_has_ended, a_key_with_a_lifetime_outlives_its_job_and_ends_by_itself,
                equal_payloads_are_equal_whatever_the_order_of_their_keys, a_job_out_of_bounds_is_rejected_alone,
                too_many_jobs_at_once_are_refused_whole, an_instant_in_the_past_is_due_now,
                the_holder_of_a_key_is_told, a_key_whose_time_is_over_is_held_by_nobody;
            claim: jobs_are_claimed_in_the_order_of_their_ranks, a_claim_takes_no_more_than_it_asked_for,
                each_job_of_a_claim_can_have_its_own_lease,
                a_claim_takes_only_the_kinds_it_can_serve, queues_are_served_in_the_order_asked,
                a_job_is_claimed_once, an_old_job_of_low_priority_overtakes_new_ones_of_high,
                a_claim_tells_all_that_a_worker_needs,
                the_time_of_earlier_attempts_is_told_for_a_budget, a_clock_set_back_gives_no_time_back, a_dead_or_unknown_node_claims_nothing, a_claim_that_makes_no_sense_is_refused,
                an_empty_store_yields_nothing;
            settle: success_ends_a_job, only_releases_for_lack_of_resources_use_their_quota, stale_worker_cannot_settle_a_reclaimed_job, reaped_lease_cannot_settle,
                the_same_settle_twice_is_success, answers_are_per_item_even_with_two_leases_of_one_job,
                released_and_snoozed_attempts_do_not_count, a_failure_waits_and_counts,
                the_last_failure_is_the_dead_letter, a_released_job_keeps_its_place,
                another_outcome_of_a_settled_lease_is_fenced, a_result_beyond_its_bound_is_refused,
                a_long_error_is_cut, a_snoozing_job_keeps_only_its_newest_snooze, an_unknown_job_is_fenced;
            then: what_follows_is_written_with_the_settlement, nothing_follows_a_settlement_that_is_fenced,
                a_repeated_settlement_writes_what_follows_once, what_follows_is_written_whatever_the_outcome,
                a_job_that_is_there_already_does_not_follow_again, answers_keep_their_order_where_jobs_follow,
                what_follows_has_neither_key_nor_origin, no_more_follow_than_a_bound, what_follows_is_hinted,
                what_follows_is_claimed_where_it_stands;
            notes: a_step_is_kept_for_the_next_attempt, the_first_result_of_a_step_stays, a_step_needs_the_lease, of_many_that_save_one_step_one_is_first,
                steps_are_told_in_the_order_they_were_saved, a_job_has_a_bounded_number_of_steps,
                a_step_out_of_bounds_is_refused, a_requeued_job_has_forgotten_its_steps,
                a_log_is_read_in_order_and_in_pages, a_log_is_read_from_its_end,
                a_line_that_is_written_again_stays_as_it_was,
                lines_of_a_job_that_is_not_there_are_left_out, a_long_line_is_cut,
                lines_out_of_bounds_are_refused, steps_and_logs_are_pruned_with_their_job;
            cancel: a_waiting_job_is_cancelled_at_once, a_running_job_is_asked_to_stop_and_not_retried,
                a_running_job_that_finishes_first_has_succeeded, an_ended_job_cannot_be_cancelled,
                a_failed_job_can_be_requeued_with_all_attempts_before_it, a_requeued_job_starts_afresh,
                requeueing_takes_the_key_again,
                only_failed_and_cancelled_jobs_are_requeued, a_waiting_job_can_be_moved_and_rescheduled,
                a_running_job_cannot_be_moved, a_key_of_a_queue_goes_with_its_job, operators_leave_a_trace;
            nodes: a_node_joins_beats_and_leaves, a_node_that_was_declared_dead_learns_it_from_its_beat,
                a_beat_tells_of_cancels, a_node_with_leases_cannot_leave,
                a_lost_claim_leaves_strays_that_are_given_back, a_stray_that_was_called_off_is_cancelled,
                a_dead_node_has_no_strays, progress_is_told_while_a_job_runs;
            leaders: a_role_has_one_leader_until_its_lease_ends, a_beat_tells_until_when_the_roles_it_seeks_are_led, a_lost_reply_to_a_won_role_can_be_retried,
                a_beat_renews_the_roles_it_names, watched_time_counts_reachable_time_across_terms,
                resigning_frees_the_role_at_once, a_lost_term_cannot_resign_its_successor,
                a_clock_set_back_does_not_keep_a_dead_leader, changes_of_leadership_are_kept;
            hints: new_work_is_hinted, a_free_place_in_a_limited_queue_is_hinted, a_freed_role_is_hinted,
                a_new_schedule_is_hinted, a_node_that_can_run_held_slots_is_hinted;
            held: held_slots_are_due_when_a_node_of_their_queue_joins,
                a_bounded_number_of_held_schedules_is_woken_at_once,
                a_slot_is_held_until_a_node_of_its_queue_handles_its_kind,
                held_slots_are_part_of_the_schedule;
            schedules: a_schedule_is_created_once, a_name_is_taken_within_its_tenant,
                a_change_needs_the_stamp_that_was_seen, each_definition_is_a_revision,
                the_ledger_names_the_revision_that_was_in_force,
                a_paused_schedule_is_not_due_until_it_is_resumed, a_pause_ends_by_itself,
                a_disabled_schedule_is_not_due,
                fresh_schedules_go_before_those_that_are_behind, the_next_time_that_something_is_due_is_told, two_leaders_fire_one_slot_once,
                a_lost_term_fires_nothing, a_plan_from_an_older_stamp_is_stale,
                a_schedule_that_cannot_be_planned_is_set_aside_and_the_rest_fires,
                a_plan_that_breaks_a_rule_sets_its_schedule_aside, a_plan_that_is_early_is_stale,
                a_change_decides_what_it_would_leave_undecided, a_run_of_skips_is_one_row,
                a_fired_slot_has_its_job, revisions_are_read_in_pages,
                an_edit_never_lets_a_slot_come_again, a_deleted_schedule_leaves_its_ledger, schedules_are_listed_by_name, the_ledger_is_read_in_pages;
            sets: a_set_is_registered_whole, a_higher_generation_is_not_overwritten,
                the_same_generation_may_register_again, without_entries_only_the_generation_rises,
                one_stale_entry_keeps_all_out, a_set_changes_only_its_own_schedules, a_schedule_stays_in_its_set,
                schedules_of_a_set_are_listed_by_name, a_registration_out_of_bounds_is_refused,
                a_change_that_breaks_a_rule_keeps_all_out, of_programs_that_register_at_once_the_highest_is_in_force,
                a_registration_is_hinted;
            brought: what_nobody_owns_is_taken_over_and_keeps_its_history, a_name_of_another_keeps_all_out,
                a_schedule_that_is_removed_has_decided_what_was_due, no_set_takes_what_is_anothers,
                a_schedule_may_begin_disabled;
            overtaken: a_change_that_a_slot_overtakes_is_stale, a_change_that_decides_no_slot_is_not_overtaken,
                a_quarantined_schedule_is_not_enabled_past_a_due_slot,
                a_set_with_a_change_that_a_slot_overtakes_is_stale;
            realign: schedules_ahead_of_the_clock_are_listed,
                a_realignment_discards_decisions_about_later_slots,
                a_realignment_that_does_not_match_changes_nothing, a_long_realignment_is_done_in_parts,
                a_set_does_not_realign;
            overdue: an_overdue_attempt_of_a_remote_worker_ends, a_remote_attempt_has_what_is_left_of_the_budget,
                an_overdue_attempt_is_retried_as_its_schedule_says, overdue_attempts_end_as_the_request_allows;
            expiry: a_job_that_waits_past_its_start_deadline_fails_without_an_attempt,
                a_claim_and_the_sweep_refuse_the_same_jobs, an_expired_job_frees_its_key,
                an_expired_job_lets_its_schedule_fire, jobs_that_wait_for_each_other_expire_one_by_one,
                a_running_job_expires_when_it_waits_again, a_retry_expires_with_the_attempts_that_it_used,
                a_retried_job_has_no_deadline_and_a_moved_one_keeps_it,
                every_job_with_a_start_deadline_is_listed, a_deadline_is_checked_at_least_once_a_day,
                expiring_needs_the_term, deadlines_are_checked_in_order_and_as_the_request_allows,
                a_bad_seat_of_an_expired_job_says_so;
            overlap: allowed_jobs_start_whatever_runs,
                a_fire_returns_the_slots_without_a_job,
                a_slot_is_skipped_while_a_job_is_unfinished,
                one_job_is_queued_and_kept,
                all_jobs_are_queued_in_order,
                no_more_wait_than_a_bound,
                the_running_job_is_called_off_for_the_newest,
                a_job_that_has_ended_is_in_nobodys_way,
                a_blocked_job_is_freed_when_all_before_it_have_ended,
                each_schedule_frees_one_job_at_a_time,
                a_freed_job_that_is_due_later_becomes_a_timer,
                a_blocked_job_is_cancelled_at_once_and_may_be_requeued,
                a_blocked_job_can_be_moved_and_stays_blocked,
                a_blocked_job_is_shown_as_what_it_is,
                a_manual_run_counts_as_unfinished,
                a_settlement_tells_whether_it_frees_a_job,
                a_job_with_a_slot_is_fired_and_not_enqueued,
                facts_come_back_in_the_claim,
                pruning_keeps_a_blocked_job,
                a_blocked_job_that_cannot_be_read_fails_alone;
            queues: a_paused_queue_yields_nothing, a_pause_of_a_queue_says_who_and_why_and_ends_by_itself,
                a_limit_holds_over_all_nodes, statistics_count_each_state, statistics_are_read_in_pages,
                stored_counts_are_read_while_there_are_many_jobs,
                stored_counts_end_with_the_backlog, storing_counts_needs_the_term;
            lists: jobs_are_listed_newest_first_in_pages, jobs_are_filtered_by_each_property,
                failed_jobs_are_listed_with_their_error, many_jobs_are_looked_at_in_parts,
                the_history_of_a_job_is_told;
            events: what_has_happened_is_told_in_order, events_are_read_in_pages_and_each_once,
                what_is_too_young_is_not_told_yet;
            look: recent_slots_tell_how_their_jobs_went, upcoming_schedules_are_listed_by_their_next_slot,
                spans_are_attempts_newest_job_first, counters_are_added_up_by_stretches;
            upkeep: promotion_makes_due_jobs_ready_and_tells_the_next, the_third_crash_fails_the_job,
                nobody_is_declared_dead_while_leadership_is_young,
                an_outage_kills_no_node_when_another_leader_follows,
                a_silent_node_dies_although_leaders_change, a_silent_node_dies_although_leaders_crash, a_clock_set_back_does_not_keep_a_dead_node, reaping_needs_the_term,
                a_reaped_job_that_was_to_be_cancelled_is, pruning_never_revives_a_slot,
                pruning_keeps_what_is_young_or_unfinished, counters_add_up,
                counters_are_read_in_pages, the_audit_is_read_in_pages;
            bounds: more_than_a_bound_is_refused_with_the_way_out, a_name_out_of_bounds_is_refused,
                a_text_for_people_is_cut, what_is_at_a_bound_is_taken;
            unreadable: a_bad_row_does_not_block_the_queue, a_bad_seat_in_line_fails_alone, a_bad_timer_fails_alone,
                a_bad_seat_of_a_running_job_lets_its_end_count, a_bad_lease_fails_with_the_next_beat,
                a_bad_lease_of_a_dead_node_fails_alone, a_bad_seat_can_be_cancelled_and_requeued,
                a_bad_seat_cannot_be_moved, bad_tags_are_left_out_of_lists,
                a_bad_schedule_is_set_aside_and_the_rest_fires, a_bad_schedule_can_be_mended_or_removed;
            predecessors: f5_results_are_fenced, f7_a_duplicate_is_a_job_that_exists, f16_a_batch_runs_in_order_and_nothing_starves,
                c4_equal_payloads_are_duplicates_and_success_frees_the_key, c7_a_claim_is_a_lease,
                c16_concurrent_claims_never_share_a_job, q2_a_late_worker_changes_nothing,
                q5_concurrent_callers_with_one_key_make_one_job, q7_time_works_on_every_store,
                q8_instants_are_compared_as_numbers, q9_failed_and_delayed_jobs_are_not_in_the_way,
                q11_a_bad_row_fails_alone_and_attempts_mean_attempts;
        }
    };
    (@modules $make:expr; $( $module:ident: $( $test:ident ),+ ; )+) => { $(
        mod $module {
            use super::*;
            $(
                #[tokio::test]
                async fn $test() {
                    let make = $make;
                    let subject = make().await;
                    $crate::$module::$test(&$crate::World::new(&subject)).await;
                }
            )+
        }
    )+ };
}

#[cfg(test)]
mod tests {
    /// A test that is written and not in the list would never run.
    #[test]
    fn every_test_is_in_the_suite() {
        let list = include_str!("lib.rs");
        let sources = [
            include_str!("bounds.rs"),
            include_str!("brought.rs"),
            include_str!("cancel.rs"),
            include_str!("claim.rs"),
            include_str!("enqueue.rs"),
            include_str!("expiry.rs"),
            include_str!("held.rs"),
            include_str!("hints.rs"),
            include_str!("leaders.rs"),
            include_str!("lists.rs"),
            include_str!("nodes.rs"),
            include_str!("notes.rs"),
            include_str!("overdue.rs"),
            include_str!("overlap.rs"),
            include_str!("overtaken.rs"),
            include_str!("predecessors.rs"),
            include_str!("queues.rs"),
            include_str!("realign.rs"),
            include_str!("schedules.rs"),
            include_str!("sets.rs"),
            include_str!("settle.rs"),
            include_str!("then.rs"),
            include_str!("unreadable.rs"),
            include_str!("upkeep.rs"),
        ];
        let mut found = 0;
        for line in sources.iter().flat_map(|source| source.lines()) {
            if let Some(name) =
                line.strip_prefix("pub async fn ").and_then(|rest| rest.split('(').next())
            {
                let is_listed = list.split([' ', ',', ';', '\n']).any(|word| word == name);
                assert!(is_listed, "{name} is not in the suite");
                found += 1;
            }
        }
        assert!(found > 80, "only {found} tests found");
    }
}
