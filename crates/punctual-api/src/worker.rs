//! Remote workers: what they ask, and what they are told.

use punctual::remote::{Leased, Pulse};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::job::value;
use crate::list::text;

/// A worker's wish for jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The worker's node: a UUID that it makes at each start. Left out, one is made and answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its lasting name.
    pub name: String,
    /// The version of its program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The queues to take jobs from, in this order; `default` if nothing is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// The kinds that it can work on.
    pub kinds: Vec<String>,
    /// The most jobs, up to 100; one if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
    /// How long to wait for the first one, such as `25s`, up to 55 s; no time if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// All leases that the worker holds, until their end has been answered; none if nothing is said.
    /// What the server holds for it beyond these was claimed by a request whose answer was lost, and is
    /// given back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<String>,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Claimed {
    /// The worker's node; name it in every further claim.
    pub node: String,
    /// What time it is.
    pub now: String,
    /// The jobs; none if none came in time.
    pub leases: Vec<Lease>,
    /// Jobs of the worker that somebody has called off, by their ids: stop them and report a failure.
    pub cancel: Vec<String>,
    /// Should it take no more jobs, finish and leave?
    pub drain: bool,
    /// How often the worker has to be heard, by any call.
    pub heartbeat_every: String,
}

/// A job, under the lease that fences it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lease {
    /// The name of the lease, for all calls about this attempt.
    pub lease: String,
    /// The job.
    pub job: String,
    /// Its kind.
    pub kind: String,
    /// Where it waited.
    pub queue: String,
    /// What it is about.
    pub payload: Value,
    /// The number of this attempt, from 1; it only grows.
    pub attempt: u32,
    /// The most attempts that count.
    pub max_attempts: u32,
    /// When it was due.
    pub due_at: String,
    /// If the worker is not heard of until then, its jobs are taken back.
    pub lease_expires_at: String,
    /// The attempt may take until then.
    pub deadline_at: String,
    /// The slot that it was made for.
    pub slot: Option<String>,
    /// The schedule that made it, as it was then: its name, revision, expressions, zone, and how many
    /// slots were missed before it.
    pub schedule: Option<Value>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The trace that it belongs to.
    pub traceparent: Option<String>,
}

/// How far an attempt is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// How far it is; left out, what was said last stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<HeartbeatProgress>,
}

/// How far an attempt is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatProgress {
    /// How much of the work is done, up to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// What it is doing.
    #[serde(default)]
    pub note: String,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Heartbeaten {
    /// What time it is.
    pub now: String,
    /// If the worker is not heard of until then, its jobs are taken back.
    pub lease_expires_at: Option<String>,
    /// The attempt may take until then.
    pub deadline_at: Option<String>,
    /// Has somebody called the job off? Then stop, and report a failure.
    pub cancel: bool,
    /// Should the worker take no more jobs, finish and leave?
    pub drain: bool,
}

/// The work is done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// What it came to, which is kept with the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

/// The work could not be done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    /// What went wrong.
    pub error: String,
    /// May another attempt mend it? Yes, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
    /// The wait before it, such as `30s`, instead of the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<String>,
}

/// The work is put off, which costs no attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Snooze {
    /// For this long, such as `10m`.
    #[serde(rename = "for")]
    pub length: String,
}

/// Where a job is after its attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Settled {
    /// The job.
    pub job: String,
    /// Its state.
    pub state: String,
}

/// A line to write to a job's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLogLine {
    /// `debug`, `info`, `warn` or `error`; `info` if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// What it says.
    pub text: String,
}

/// Lines were written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Logged {
    /// The number of the next line.
    pub next: u32,
}

/// Should a worker take no more jobs?
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// Yes, if nothing is said.
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

impl From<Pulse> for Heartbeaten {
    fn from(pulse: Pulse) -> Heartbeaten {
        Heartbeaten {
            now: pulse.at.to_string(),
            lease_expires_at: text(pulse.expires_at),
            deadline_at: text(pulse.deadline),
            cancel: pulse.cancel,
            drain: pulse.drain,
        }
    }
}
