//! A job's life: its states, how an attempt can end, and what follows from that.

mod decide;
mod retry;
mod state;

pub use decide::{
    BUDGET_USED_UP, CRASHES_MAX, EXPIRED, EXPIRES_FIRST, Next, Outcome, RESOURCE_RELEASES_MAX,
    RESOURCE_WAIT, Standing, Transition, decide, is_expired, refuse_start,
};
pub use retry::{Backoff, BackoffError, Growth, RetryPolicy, Spread};
pub use state::{AttemptOutcome, JobState, LogLevel, SlotOutcome};
