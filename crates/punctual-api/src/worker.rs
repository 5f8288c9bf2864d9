//! Remote workers: what they ask, and what they are told.

use punctual::remote::{Leased, Pulse};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Problem;
use crate::job::value;
use crate::list::text;

/// A request of a remote worker for jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct ClaimRequest {
    /// Node id of the worker: a UUID that it generates at each start. If omitted, the server
    /// registers a new node and returns its id; send this id in all further claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Name of the worker. It stays the same across restarts.
    pub name: String,
    /// Version of the worker program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Queues to claim from, in this order. Default: `default`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Job kinds that the worker can handle. At least one.
    pub kinds: Vec<String>,
    /// Maximum number of jobs, 1 to 100. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
    /// How long to wait for a job, such as `25s`, at most `55s`. Default: do not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// All leases that the worker holds. List a lease until the request that settles it has been
    /// answered. The server releases any other lease of the worker, because the response that
    /// carried it was lost. Default: no leases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<String>,
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClaimResponse {
    /// Node id of the worker. Send it in every further claim.
    pub node: String,
    /// Current time of the database.
    pub now: String,
    /// The claimed jobs. Empty if no job became available within `wait`.
    pub leases: Vec<Lease>,
    /// Ids of the worker's jobs for which a cancel was requested: stop them and report `fail`
    /// without `retry: false`.
    pub cancel: Vec<String>,
    /// True if the worker must claim no new jobs, finish its running jobs and leave.
    pub drain: bool,
    /// Recommended interval between heartbeats, such as `5s`. Any successful call about a lease is
    /// also a heartbeat.
    pub heartbeat_interval: String,
}

/// A claimed job and its lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lease {
    /// The lease. Use it in all calls about this attempt.
    pub lease: String,
    /// Id of the job.
    pub job: String,
    /// Kind of the job.
    pub kind: String,
    /// Queue of the job.
    pub queue: String,
    /// Payload of the job.
    pub payload: Value,
    /// Number of this attempt, starting at 1. It increases with every claim of the job.
    pub attempt: u32,
    /// Maximum number of counted attempts.
    pub max_attempts: u32,
    /// Time at which the job was due.
    pub due_at: String,
    /// Without a heartbeat before this time, the worker's jobs are reclaimed.
    pub lease_expires_at: String,
    /// Time at which the attempt times out.
    pub deadline_at: String,
    /// Slot that the job was created for.
    pub slot: Option<String>,
    /// The schedule that created the job, as it was at that time. Null for other jobs. Fields:
    /// `name`, `revision`, `when` (expressions), `tz` (time zone), `caught_up` (true if the slot
    /// was decided more than 60 seconds late), `missed_count` (number of slots directly before it
    /// that were missed or coalesced), and `backoff` if the schedule sets it.
    pub schedule: Option<Value>,
    /// Tags of the job.
    pub tags: Vec<String>,
    /// W3C `traceparent` of the trace that the job belongs to.
    pub traceparent: Option<String>,
}

/// A heartbeat for a running job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct HeartbeatRequest {
    /// Progress of the attempt. If omitted, the last report is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<HeartbeatProgress>,
}

/// A progress report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct HeartbeatProgress {
    /// Completed share of the work in percent, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// Short description of the current work.
    #[serde(default)]
    pub note: String,
}

/// The result of a heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatResponse {
    /// Current time of the database.
    pub now: String,
    /// Without a heartbeat before this time, the worker's jobs are reclaimed. Null for a job that
    /// was sent as an HTTP request.
    pub lease_expires_at: Option<String>,
    /// Time at which the attempt times out. Null for a job that was sent as an HTTP request.
    pub deadline_at: Option<String>,
    /// True if a cancel was requested: stop the job and report `fail` without `retry: false`.
    pub cancel: bool,
    /// True if the worker must claim no new jobs, finish its running jobs and leave.
    pub drain: bool,
}

/// The result of a successful attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct CompleteRequest {
    /// Result to store with the job: any JSON value, at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

/// The error of a failed attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct FailRequest {
    /// Error message.
    pub error: String,
    /// False to fail the job permanently, without further attempts. Default: true. After a cancel
    /// request, omit it: the job is then `cancelled`, or `failed` if that was its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
    /// Wait before the next attempt, such as `30s`, instead of the normal backoff. Cannot be
    /// combined with `retry: false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<String>,
}

/// A request to run the job again later. The attempt does not count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct SnoozeRequest {
    /// Time until the job is due again, such as `10m`.
    #[serde(rename = "for")]
    pub length: String,
}

/// The job after its attempt was settled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SettleResponse {
    /// Id of the job.
    pub job: String,
    /// New state of the job.
    pub state: String,
}

/// Results of many jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct SettleManyRequest {
    /// One result per lease, at most 1,000. Each lease can occur once.
    pub leases: Vec<SettleItem>,
}

/// The result of one lease: exactly one of `complete`, `fail` and `snooze`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct SettleItem {
    /// `lease` value of the claim response.
    pub lease: String,
    /// The job succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<CompleteRequest>,
    /// The attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<FailRequest>,
    /// The job runs again later, without counting the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snooze: Option<SnoozeRequest>,
}

/// The results of a request that settles many jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SettleManyResponse {
    /// One result per lease, in the order of the request.
    pub results: Vec<SettleResult>,
}

/// One job after its attempt was settled, or the reason why it was not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SettleResult {
    /// Id of the job.
    pub job: String,
    /// New state of the job. Null if it was not settled.
    pub state: Option<String>,
    /// Why the job was not settled, with the same `code` as in the response for a single lease,
    /// for example `lease_lost`. Null if it was settled.
    pub error: Option<Problem>,
}

/// A log line to append.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct NewLogLine {
    /// `debug`, `info`, `warn` or `error`. Default: `info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Text of the line.
    pub text: String,
}

/// The result of appending log lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogAppendResponse {
    /// Number of the line after the last line of this request.
    pub next: u32,
}

/// A request to drain a remote worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct DrainRequest {
    /// False to undo an earlier drain request. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<bool>,
}

impl From<Leased> for Lease {
    fn from(leased: Leased) -> Lease {
        let Leased { held, deadline, expires_at, job } = leased;
        let origin = job.origin.as_ref();
        Lease {
            lease: held.to_string(),
            job: job.id.to_string(),
            slot: text(origin.and_then(|origin| origin.slot)),
            schedule: origin.map(|origin| value(&origin.facts)),
            payload: value(&job.payload),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            due_at: job.due_at.to_string(),
            lease_expires_at: expires_at.to_string(),
            deadline_at: deadline.to_string(),
            kind: job.kind,
            queue: job.queue,
            tags: job.tags,
            traceparent: job.trace,
        }
    }
}

impl From<Pulse> for HeartbeatResponse {
    fn from(pulse: Pulse) -> HeartbeatResponse {
        HeartbeatResponse {
            now: pulse.at.to_string(),
            lease_expires_at: text(pulse.expires_at),
            deadline_at: text(pulse.deadline),
            cancel: pulse.cancel,
            drain: pulse.drain,
        }
    }
}
