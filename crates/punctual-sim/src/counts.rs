//! How often things happened: a run that exercised nothing proves nothing.

use crate::world::Backend;

/// Counters that are added up from run to run.
macro_rules! counts {
    ($( $(#[$doc:meta])* $name:ident, )+) => {
        /// How often things happened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct Counts {
            $( $(#[$doc])* pub $name: u64, )+
        }

        impl Counts {
            /// Adds those of another run.
            pub fn add(&mut self, other: &Counts) {
                $( self.$name += other.$name; )+
            }

            /// Has everything happened at least once that can happen on this store?
            pub(crate) fn has_all(&self, backend: Backend) -> bool {
                let can_go_back = backend == Backend::Memory;
                let others = Counts { failovers: 1, ..*self };
                [$( others.$name, )+].iter().all(|count| *count > 0)
                    && (self.failovers > 0) == can_go_back
            }
        }
    };
}

counts! {
    /// Jobs that were submitted.
    jobs,
    /// Attempts that began.
    attempts,
    /// Results that came too late.
    fenced,
    /// Jobs taken back from dead nodes.
    reaped,
    /// Attempts of remote workers that exceeded their time.
    timed_out,
    /// Jobs that waited past their start deadline and were ended.
    expired,
    /// Jobs given back because the answer to their claim was lost.
    strays,
    /// Processes killed.
    kills,
    /// Processes frozen.
    freezes,
    /// Processes asked to stop.
    stops,
    /// Times the database went back to an older state.
    failovers,
    /// Times the database's clock was stepped.
    steps,
    /// Requests, replies and connections that were lost or late.
    lost,
    /// Schedules that were created, changed or deleted.
    edits,
    /// Schedules that were ahead of the clock and were realigned.
    realigned,
    /// Slots that were decided.
    slots,
    /// Slots that became a job in time.
    fired,
    /// Slots that became a job later.
    caught_up,
    /// Slots that were missed, or folded into another.
    missed,
    /// Slots that were skipped because earlier jobs were unfinished.
    overlapped,
    /// Slots that were skipped by a pause.
    paused,
    /// Times slots of a schedule began to wait for a node.
    held,
    /// Decisions that came from a term that was over.
    fenced_fires,
}
