//! For tests: a clock that stands still until it is told to go on, and a node that works only when
//! it is told to.
//!
//! [`start_frozen`](crate::Builder::start_frozen) leaves jobs where they are until the test says
//! [`drain`](Frozen::drain) or [`advance`](Frozen::advance);
//! [`start_inline`](crate::Builder::start_inline) does them as soon as they are ordered. Everything
//! else is real: the store (any of them), the handlers, the retries, the schedules. A
//! day of schedules passes in milliseconds, and nothing happens between two lines of a test.
//!
//! ```
//! use punctual::{Job, Punctual, cron};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, Job)]
//! struct SendEmail { to: String }
//! #[derive(Serialize, Deserialize, Job)]
//! struct Digest;
//!
//! async fn send_email(_: SendEmail) {}
//! async fn digest(_: Digest) {}
//!
//! # #[tokio::main] async fn main() -> punctual::Result<()> {
//! let queue = Punctual::memory()
//!     .handle(send_email)
//!     .handle(digest)
//!     .schedule("digest", cron("0 8 * * *"), &Digest)
//!     .start_frozen()
//!     .await?;
//! queue.enqueue(&SendEmail { to: "a@example.com".into() }).await?;
//! queue.assert_enqueued(|mail: &SendEmail| mail.to == "a@example.com").await;
//! let report = queue.advance("2d").await;
//! assert_eq!((report.succeeded, report.failed), (3, 0));
//! # Ok(()) }
//! ```

mod clock;
mod frozen;

use std::time::Duration;

pub use frozen::{Frozen, Report};

/// A length of time: a `Duration`, or words such as `"2h"`, `"90s"`, `"1d 12h"`.
pub trait Length {
    /// The length.
    ///
    /// # Panics
    /// If the words are none.
    fn length(self) -> Duration;
}

impl Length for Duration {
    fn length(self) -> Duration {
        self
    }
}

impl Length for &str {
    #[expect(clippy::panic, reason = "a test that says what cannot be has failed")]
    fn length(self) -> Duration {
        match punctual_core::parse_duration(self) {
            Ok(length) => length,
            Err(error) => panic!("{error}"),
        }
    }
}
