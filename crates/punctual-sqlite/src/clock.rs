//! The database's clock. SQLite has no server, so it is the host's.

use std::time::UNIX_EPOCH;

use punctual_core::Timestamp;
use punctual_store::At;

/// The instant a request goes by, read once, when it runs.
pub(crate) fn instant(at: At) -> Timestamp {
    match at {
        At::Fixed(instant) => instant,
        At::Database => host_clock(),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "SQLite has no clock of its own, so the host clock is the database clock"
)]
fn host_clock() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970 is one that was never set.
    since_epoch.map_or(Timestamp::EPOCH, |passed| Timestamp::EPOCH + passed)
}
