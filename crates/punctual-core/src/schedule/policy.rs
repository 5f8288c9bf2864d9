//! The choices that a schedule has.

use crate::words::words;

words! {
    /// What becomes of slots that nobody fired in time.
    pub enum Missed as "missed policy" {
        /// They are written down and that is all.
        None = ("none", 1),
        /// One job for all of them, at the newest.
        Latest = ("latest", 2),
        /// One job for each, as many as the limit allows, the newest.
        All = ("all", 3),
    }
}

words! {
    /// What becomes of a slot while an earlier job of its schedule is unfinished.
    pub enum Overlap as "overlap policy" {
        /// Another job beside it.
        Allow = ("allow", 1),
        /// No job.
        Skip = ("skip", 2),
        /// A job that waits for it; no job if one waits already.
        QueueOne = ("queue_one", 3),
        /// A job that waits for it, behind those that wait already.
        QueueAll = ("queue_all", 4),
        /// A job that takes its place: the earlier one is called off, and the new one waits until
        /// it has ended.
        CancelRunning = ("cancel_running", 5),
    }
}

words! {
    /// What becomes of a slot that `exclude` has.
    pub enum OnExcluded as "on_excluded value" {
        /// Nothing.
        Skip = ("skip", 1),
        /// It goes to the next day on which its time is not excluded.
        NextWorkingDay = ("next_working_day", 2),
    }
}

/// Whether a job may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// As soon as it is due.
    Free,
    /// When all earlier jobs of its schedule have ended.
    Wait,
    /// Never: there is no job.
    Taken,
}

impl Overlap {
    /// What becomes of one more job of a schedule that has `unfinished` ones, of which `waiting`
    /// wait for the others, where no more than `most` may be unfinished.
    pub const fn seat(self, unfinished: usize, waiting: usize, most: usize) -> Seat {
        match self {
            Overlap::Allow => Seat::Free,
            _ if unfinished == 0 => Seat::Free,
            Overlap::Skip => Seat::Taken,
            Overlap::QueueOne if waiting > 0 => Seat::Taken,
            Overlap::QueueAll if unfinished >= most => Seat::Taken,
            Overlap::QueueOne | Overlap::QueueAll | Overlap::CancelRunning => Seat::Wait,
        }
    }
}
