//! How many connections there may be, and how long each may take.

use std::time::Duration;

/// The most connections of a process, however many files it may open. Each takes up to 40 kB before its
/// client has shown a token, so all together take about 100 MB.
const CONNECTIONS_MAX: u64 = 2_560;

/// Files that are kept at least for everything else, such as the database.
const FILES_KEPT_MIN: u64 = 512;

/// Files that a running job takes at most: a command has a socket, two pipes, a handle of its process, and
/// for a moment the other ends of these.
const FILES_PER_JOB: u64 = 5;

/// Files that are kept besides those of jobs.
const FILES_BESIDES_JOBS: u64 = 256;

/// How long a client has to accept the announcement that its connection is closed.
pub(super) const FINISH_WITHIN: Duration = Duration::from_secs(1);

/// A server with fewer connections can be kept busy by a few clients, such as open dashboards behind a
/// proxy.
const CONNECTIONS_LOW: usize = 1_024;

/// The bounds of connections. [`ConnectionLimits::for_open_files`] returns those of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at the same time.
    pub total: usize,
    /// Files that are kept for everything else.
    pub files_kept: u64,
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
        ConnectionLimits::for_open_files(None, 0)
    }
}

impl ConnectionLimits {
    /// The limits of a process that may open this many files, `None`: any number, and that runs at most
    /// this many jobs at the same time.
    pub fn for_open_files(limit: Option<u64>, running_max: usize) -> ConnectionLimits {
        let running_max = u64::try_from(running_max).unwrap_or(u64::MAX);
        let of_jobs = FILES_PER_JOB.saturating_mul(running_max);
        let files_kept = FILES_KEPT_MIN.max(of_jobs.saturating_add(FILES_BESIDES_JOBS));
        let total = connections(limit, files_kept);
        ConnectionLimits {
            total: usize::try_from(total).unwrap_or(usize::MAX),
            files_kept,
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
        (self.total < CONNECTIONS_LOW).then_some(CONNECTIONS_MAX.saturating_add(self.files_kept))
    }
}

/// Connections of a process that may open this many files: half of them if there are few.
fn connections(limit: Option<u64>, files_kept: u64) -> u64 {
    let Some(limit) = limit else { return CONNECTIONS_MAX };
    CONNECTIONS_MAX.min(limit.saturating_sub(files_kept).max(limit / 2))
}

/// What is known about a connection. Times count from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionStatus {
    /// Has it sent a complete request head?
    pub(super) has_begun: bool,
    /// When requests without a complete response last made progress, the earliest of these times: a
    /// request that makes progress must not keep those of the same connection that do not. `None`:
    /// there is no such request.
    pub(super) progress_at: Option<Duration>,
    /// When the last request ended.
    pub(super) ended_at: Duration,
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

/// Decides about a connection at this time. `finishing_at` is when it began to finish.
pub(super) fn decide(
    status: &ConnectionStatus,
    limits: &ConnectionLimits,
    finishing_at: Option<Duration>,
    now: Duration,
) -> Verdict {
    let (due, verdict) = match *status {
        ConnectionStatus { has_begun: false, .. } => (limits.first_head, Verdict::Drop),
        ConnectionStatus { blocked_at: Some(at), .. } if at + limits.unread <= now => {
            return Verdict::Drop;
        }
        ConnectionStatus { progress_at: Some(at), .. } => (at + limits.stalled, Verdict::Drop),
        ConnectionStatus { ended_at, .. } => match finishing_at {
            Some(at) => (ended_at.max(at) + FINISH_WITHIN, Verdict::Drop),
            None => (ended_at + limits.idle, Verdict::Finish),
        },
    };
    if due <= now {
        return verdict;
    }
    // Requests can come and end, and the client can stop reading, at any time until then.
    let pause = limits.idle.min(limits.unread).min(limits.stalled);
    let again = now + finishing_at.map_or(pause, |_| pause.min(FINISH_WITHIN));
    let unread = status.blocked_at.map_or(again, |at| at + limits.unread);
    Verdict::KeepUntil(due.min(again).min(unread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_few_files_and_all_but_those_of_jobs_of_many_are_for_connections() {
        for (files, running_max, expected) in [
            (Some(64), 0, 32),
            (Some(1_024), 0, 512),
            (Some(2_048), 0, 1_536),
            (Some(2_048), 100, 1_292),
            (Some(3_072), 0, 2_560),
            (Some(4_096), 100, 2_560),
            (Some(4_096), 300, 2_340),
            (Some(4_096), 500, 2_048),
            (Some(4_096), usize::MAX, 2_048),
            (Some(1 << 20), 1_000, 2_560),
            (None, usize::MAX, 2_560),
        ] {
            let limits = ConnectionLimits::for_open_files(files, running_max);
            assert_eq!(limits.total, expected, "{files:?} {running_max}");
        }
        let wanted = |running_max| {
            ConnectionLimits::for_open_files(Some(1_024), running_max).open_files_wanted()
        };
        assert_eq!([wanted(0), wanted(100), wanted(500)], [Some(3_072), Some(3_316), Some(5_316)]);
        assert_eq!(ConnectionLimits::for_open_files(Some(2_048), 100).open_files_wanted(), None);
    }

    fn check(status: ConnectionStatus, seconds: u64) -> Verdict {
        decide(&status, &ConnectionLimits::default(), None, Duration::from_secs(seconds))
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
        let ended_at = Duration::from_secs(100);
        let idle = ConnectionStatus { has_begun: true, ended_at, ..Default::default() };
        assert_eq!([check(idle, 110), check(idle, 130)], [until(130), Verdict::Finish]);
    }

    #[test]
    fn a_request_in_progress_keeps_a_connection_until_its_response_stalls() {
        let progress_at = Some(Duration::from_secs(100));
        let busy = ConnectionStatus { has_begun: true, progress_at, ..Default::default() };
        assert_eq!(
            [check(busy, 110), check(busy, 240), check(busy, 250)],
            [until(140), until(250), Verdict::Drop]
        );
    }

    #[test]
    fn a_client_that_does_not_read_is_dropped_after_60_seconds() {
        let unread = ConnectionStatus {
            has_begun: true,
            progress_at: Some(Duration::from_secs(100)),
            ended_at: Duration::from_secs(100),
            blocked_at: Some(Duration::from_secs(110)),
        };
        assert_eq!([check(unread, 150), check(unread, 170)], [until(170), Verdict::Drop]);
        // Also if the server has nothing more to say.
        let ended = ConnectionStatus { progress_at: None, ..unread };
        assert_eq!(check(ended, 129), until(130));
    }

    #[test]
    fn a_finishing_connection_is_dropped_a_second_after_its_last_request() {
        let finish = |status: ConnectionStatus, seconds| {
            let at = Some(Duration::from_secs(50));
            decide(&status, &ConnectionLimits::default(), at, Duration::from_secs(seconds))
        };
        let idle = ConnectionStatus { has_begun: true, ..Default::default() };
        assert_eq!([finish(idle, 50), finish(idle, 51)], [until(51), Verdict::Drop]);
        let busy = ConnectionStatus { progress_at: Some(Duration::from_secs(40)), ..idle };
        assert_eq!([finish(busy, 60), finish(busy, 190)], [until(61), Verdict::Drop]);
        let ended = ConnectionStatus { ended_at: Duration::from_secs(60), ..idle };
        assert_eq!([finish(ended, 60), finish(ended, 61)], [until(61), Verdict::Drop]);
    }
}
