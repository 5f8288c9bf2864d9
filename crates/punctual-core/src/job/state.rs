//! The words for where a job is and how attempts and slots end.

use crate::words::words;

words! {
    /// Where a job is in its life. The last three are ends.
    pub enum JobState as "job state" {
        /// Due later, not tried yet.
        Scheduled = ("scheduled", 1),
        /// May run now.
        Ready = ("ready", 2),
        /// Due later, tried before.
        Retrying = ("retrying", 3),
        /// Waits for a step, a signal, a seat, or the schedule's previous job.
        Blocked = ("blocked", 4),
        /// An attempt is under way.
        Running = ("running", 5),
        /// Done.
        Succeeded = ("succeeded", 6),
        /// All attempts used up: the dead letter.
        Failed = ("failed", 7),
        /// Called off.
        Cancelled = ("cancelled", 8),
    }
}

impl JobState {
    /// Has the job ended?
    pub const fn is_final(self) -> bool {
        matches!(self, JobState::Succeeded | JobState::Failed | JobState::Cancelled)
    }
}

words! {
    /// How one attempt ended.
    pub enum AttemptOutcome as "attempt outcome" {
        /// The handler finished its work.
        Succeeded = ("succeeded", 1),
        /// The handler returned an error.
        Failed = ("failed", 2),
        /// The job was called off while it ran.
        Cancelled = ("cancelled", 3),
        /// It took longer than allowed.
        TimedOut = ("timed_out", 4),
        /// Its node died or lost touch, so that the lease was taken back.
        Abandoned = ("abandoned", 5),
        /// Its node gave it back at shutdown. Does not count.
        Released = ("released", 6),
        /// The handler asked to be called again later. Does not count.
        Snoozed = ("snoozed", 7),
        /// The handler panicked.
        Panicked = ("panicked", 8),
    }
}

impl AttemptOutcome {
    /// Does such an attempt count against the job's attempts?
    pub const fn counts(self) -> bool {
        !matches!(self, AttemptOutcome::Released | AttemptOutcome::Snoozed)
    }
}

words! {
    /// What became of a slot.
    pub enum SlotOutcome as "slot outcome" {
        /// A job was made, on time.
        Fired = ("fired", 1),
        /// A job was made later, for a slot that had been missed.
        CaughtUp = ("caught_up", 2),
        /// A job was made because somebody asked for the range.
        Backfilled = ("backfilled", 3),
        /// No job: an earlier one of the schedule was still at work.
        SkippedOverlap = ("skipped_overlap", 4),
        /// No job: the schedule was paused.
        SkippedPaused = ("skipped_paused", 5),
        /// No job: the date is excluded.
        SkippedExcluded = ("skipped_excluded", 6),
        /// No job: too late for the policy.
        Missed = ("missed", 7),
        /// No job of its own: folded into the newest.
        Coalesced = ("coalesced", 8),
    }
}

impl SlotOutcome {
    /// Did the slot become a job?
    pub const fn has_job(self) -> bool {
        matches!(self, SlotOutcome::Fired | SlotOutcome::CaughtUp | SlotOutcome::Backfilled)
    }
}

words! {
    /// How much a line of a handler's log matters.
    pub enum LogLevel as "log level" {
        /// For whoever looks for a fault.
        Debug = ("debug", 1),
        /// What went on.
        Info = ("info", 2),
        /// Something is odd, and the work goes on.
        Warn = ("warn", 3),
        /// Something went wrong.
        Error = ("error", 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every word parses to what printed it, every code is its own, and no word is used twice.
    macro_rules! check_words {
        ($name:ident) => {
            for (index, word) in $name::ALL.iter().enumerate() {
                assert_eq!(word.to_string().parse(), Ok(*word));
                assert_eq!($name::from_code(word.code()), Some(*word));
                assert!($name::ALL[..index].iter().all(|other| other.as_str() != word.as_str()));
                assert!($name::ALL[..index].iter().all(|other| other.code() != word.code()));
            }
            assert_eq!($name::from_code(0), None);
        };
    }

    #[test]
    fn every_word_parses_and_prints() {
        check_words!(JobState);
        check_words!(AttemptOutcome);
        check_words!(SlotOutcome);
        check_words!(LogLevel);
        insta::assert_snapshot!("done".parse::<JobState>().unwrap_err(), @"unknown job state `done`; expected one of scheduled, ready, retrying, blocked, running, succeeded, failed, cancelled");
    }

    #[test]
    fn only_released_and_snoozed_attempts_do_not_count() {
        let free: Vec<&str> = AttemptOutcome::ALL
            .iter()
            .filter(|outcome| !outcome.counts())
            .map(|outcome| outcome.as_str())
            .collect();
        assert_eq!(free, ["released", "snoozed"]);
    }
}
