//! How many connections there may be, and how long each may take.

use std::time::Duration;

/// The most connections of a process, however many files it may open. Each takes about 25 kB before its
/// client has shown a token, so all together take less than 100 MB.
const CONNECTIONS_MAX: u64 = 3_072;

/// Files that are kept for everything else: the database, and the commands and HTTP jobs of a worker.
const FILES_KEPT: u64 = 512;

/// A server with fewer connections can be kept busy by a few clients, such as open dashboards behind a
/// proxy.
const CONNECTIONS_LOW: usize = 1_024;

/// The bounds of connections. [`ConnectionLimits::for_open_files`] returns those of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at the same time.
    pub total: usize,
    /// Connections of one client address at the same time. Loopback addresses have no such limit.
    pub per_address: usize,
    /// Connections beyond the total that are served with health checks and metrics only.
    pub probes: usize,
    /// How long such a connection may take.
    pub probe_time: Duration,
    /// Time from the start of a connection to its first complete request head.
    pub first_head: Duration,
    /// Time from the end of a response to the next complete request head.
    pub idle: Duration,
    /// Time between two pieces of a request body.
    pub body: Duration,
    /// How long a client may accept no byte of a response.
    pub unread: Duration,
    /// How long a response may make no progress, although its client takes some bytes. Longer than a
    /// handler may take, and than the time between two comments of an event stream.
    pub stalled: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits::for_open_files(None)
    }
}

impl ConnectionLimits {
    /// The limits of a process that may open this many files; `None`: any number.
    pub fn for_open_files(limit: Option<u64>) -> ConnectionLimits {
        ConnectionLimits {
            total: usize::try_from(connections(limit)).unwrap_or(usize::MAX),
            per_address: 256,
            probes: 16,
            probe_time: Duration::from_secs(1),
            first_head: Duration::from_secs(30),
            idle: Duration::from_secs(30),
            body: Duration::from_secs(30),
            unread: Duration::from_secs(60),
            stalled: Duration::from_secs(150),
        }
    }

    /// The number of open files that the process should be allowed, if the limit of connections is low.
    pub fn open_files_wanted(&self) -> Option<u64> {
        (self.total < CONNECTIONS_LOW).then_some(CONNECTIONS_MAX + FILES_KEPT)
    }
}

/// Connections of a process that may open this many files: half of them if there are few.
fn connections(limit: Option<u64>) -> u64 {
    let limit = limit.unwrap_or(u64::MAX);
    CONNECTIONS_MAX.min(limit.saturating_sub(FILES_KEPT).max(limit / 2))
}

/// What is known about a connection. Times count from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionStatus {
    /// Has it sent a complete request head?
    pub(super) has_begun: bool,
    /// Requests without a complete response.
    pub(super) in_flight: usize,
    /// When a request or a piece of a response was last seen.
    pub(super) progress_at: Duration,
    /// Since when the client has not accepted a byte that was to be sent.
    pub(super) blocked_at: Option<Duration>,
}

/// What to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Look again at this time.
    KeepUntil(Duration),
    /// Close it, and announce this to the client where the protocol can.
    Finish,
    /// Close it at once.
    Drop,
}

/// Decides about a connection at this time.
pub(super) fn decide(
    status: &ConnectionStatus,
    limits: &ConnectionLimits,
    now: Duration,
) -> Verdict {
    let (due, verdict) = match *status {
        ConnectionStatus { has_begun: false, .. } => (limits.first_head, Verdict::Drop),
        ConnectionStatus { blocked_at: Some(at), .. } if at + limits.unread <= now => {
            return Verdict::Drop;
        }
        ConnectionStatus { in_flight: 0, progress_at, .. } => {
            (progress_at + limits.idle, Verdict::Finish)
        }
        ConnectionStatus { progress_at, .. } => (progress_at + limits.stalled, Verdict::Drop),
    };
    if due <= now {
        return verdict;
    }
    // Requests can come and end, and the client can stop reading, at any time until then.
    let again = now + limits.idle.min(limits.unread).min(limits.stalled);
    let unread = status.blocked_at.map_or(again, |at| at + limits.unread);
    Verdict::KeepUntil(due.min(again).min(unread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_few_files_and_all_but_512_of_many_are_for_connections() {
        for (files, expected) in [
            (Some(64), 32),
            (Some(1_024), 512),
            (Some(2_048), 1_536),
            (Some(3_584), 3_072),
            (Some(1 << 20), 3_072),
            (None, 3_072),
        ] {
            assert_eq!(connections(files), expected, "{files:?}");
            let wanted = ConnectionLimits::for_open_files(files).open_files_wanted();
            assert_eq!(wanted, (expected < 1_024).then_some(3_584), "{files:?}");
        }
    }

    fn check(status: ConnectionStatus, seconds: u64) -> Verdict {
        decide(&status, &ConnectionLimits::default(), Duration::from_secs(seconds))
    }

    fn until(seconds: u64) -> Verdict {
        Verdict::KeepUntil(Duration::from_secs(seconds))
    }

    #[test]
    fn a_connection_without_a_request_is_dropped_after_30_seconds() {
        let silent = ConnectionStatus::default();
        assert_eq!(
            [check(silent, 0), check(silent, 29), check(silent, 30)],
            [until(30), until(30), Verdict::Drop]
        );
    }

    #[test]
    fn a_connection_is_finished_30_seconds_after_its_last_response() {
        let progress_at = Duration::from_secs(100);
        let idle = ConnectionStatus { has_begun: true, progress_at, ..Default::default() };
        assert_eq!([check(idle, 110), check(idle, 130)], [until(130), Verdict::Finish]);
    }

    #[test]
    fn a_request_in_progress_keeps_a_connection_until_its_response_stalls() {
        let progress_at = Duration::from_secs(100);
        let busy =
            ConnectionStatus { has_begun: true, in_flight: 1, progress_at, blocked_at: None };
        assert_eq!(
            [check(busy, 110), check(busy, 240), check(busy, 250)],
            [until(140), until(250), Verdict::Drop]
        );
    }

    #[test]
    fn a_client_that_does_not_read_is_dropped_after_60_seconds() {
        let unread = ConnectionStatus {
            has_begun: true,
            in_flight: 1,
            progress_at: Duration::from_secs(100),
            blocked_at: Some(Duration::from_secs(110)),
        };
        assert_eq!([check(unread, 150), check(unread, 170)], [until(170), Verdict::Drop]);
        // Also if the server has nothing more to say.
        let ended = ConnectionStatus { in_flight: 0, ..unread };
        assert_eq!(check(ended, 129), until(130));
    }
}
