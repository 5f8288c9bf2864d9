//! Writing jobs.

use std::time::Duration;

use punctual_core::{JobId, ScheduleId, Timestamp};

use crate::limits::{self, check_name};
use crate::{Json, MeaningDigest};

/// A job to be written. It has its id before it is written, so that a write whose answer was
/// lost can be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// The job's name for ever.
    pub id: JobId,
    /// Whose it is; empty for the only tenant of a small installation.
    pub tenant: String,
    /// Who it acts for.
    pub owner: String,
    /// Where it waits.
    pub queue: String,
    /// Which handler it is for.
    pub kind: String,
    /// What the handler is given.
    pub payload: Json,
    /// −100 to 100, higher first.
    pub priority: i16,
    /// The most counted attempts.
    pub max_attempts: u32,
    /// The most time for one attempt.
    pub timeout: Option<Duration>,
    /// The most time for all attempts together.
    pub budget: Option<Duration>,
    /// No attempt may start later than this after the job was due.
    pub start_within: Option<Duration>,
    /// When it is due.
    pub delay: Delay,
    /// What makes it the only one of its kind.
    pub unique: Option<UniqueKey>,
    /// What stands for all that was asked for, where that is more than the payload: a key that is asked
    /// for again must mean the same.
    pub meaning: Option<MeaningDigest>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The trace that it belongs to.
    pub trace: Option<String>,
    /// The schedule that makes it, if one does.
    pub origin: Option<Origin>,
}

/// Where a job of a schedule comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The slot; none if somebody ran it by hand.
    pub slot: Option<Timestamp>,
    /// What its handler is told about it; text to the store.
    pub facts: Json,
}

/// When a job is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// At once.
    None,
    /// After this wait.
    For(Duration),
    /// At this instant.
    Until(Timestamp),
}

impl Delay {
    /// The instant, seen from `now`; never before it.
    pub fn due_at(self, now: Timestamp) -> Timestamp {
        match self {
            Delay::None => now,
            Delay::For(wait) => now + wait,
            Delay::Until(instant) => instant.max(now),
        }
    }
}

/// A key that one unfinished job at a time may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueKey {
    /// The key.
    pub key: String,
    /// Does the store derive the key from the payload? `key` is empty then, and is set by
    /// [`ClusterKey::with_key`](crate::ClusterKey::with_key).
    pub is_by_payload: bool,
    /// Among which jobs it is the only one.
    pub scope: KeyScope,
    /// How long it is held.
    pub lifetime: KeyLifetime,
}

/// Among which jobs a key is the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScope {
    /// All of the tenant's.
    Tenant,
    /// Those of the same kind.
    Kind,
    /// Those in the same queue.
    Queue,
}

/// How long a key is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLifetime {
    /// Until the job has ended.
    Job,
    /// For this long, whether the job has ended or not.
    For(Duration),
}

/// Why a job is out of bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Misfit {
    /// Which part of it, by the name that people give it.
    pub part: &'static str,
    /// What is wrong, and the way out.
    pub message: String,
}

impl From<Misfit> for String {
    fn from(misfit: Misfit) -> String {
        misfit.message
    }
}

impl NewJob {
    /// A job with the usual settings.
    pub fn new(id: JobId, queue: &str, kind: &str, payload: Json) -> NewJob {
        NewJob {
            id,
            tenant: String::new(),
            owner: String::new(),
            queue: queue.to_owned(),
            kind: kind.to_owned(),
            payload,
            priority: 0,
            max_attempts: 5,
            timeout: None,
            budget: None,
            start_within: None,
            delay: Delay::None,
            unique: None,
            meaning: None,
            tags: Vec::new(),
            trace: None,
            origin: None,
        }
    }

    /// Checks the job against the bounds; the error says which one and what to do.
    pub fn check(&self) -> Result<(), Misfit> {
        let named = |part: &'static str, name: &str, may_be_empty| {
            check_name(part, name, may_be_empty).map_err(|message| Misfit { part, message })
        };
        let misfit = |part: &'static str, message: String| Err(Misfit { part, message });
        named("tenant", &self.tenant, true)?;
        named("owner", &self.owner, true)?;
        named("queue", &self.queue, false)?;
        named("kind", &self.kind, false)?;
        let bytes = self.payload.as_str().len();
        if bytes > limits::PAYLOAD_BYTES_MAX {
            let most = limits::PAYLOAD_BYTES_MAX;
            let message = format!(
                "payload is too large: {bytes} bytes, maximum {most}; store the data outside the \
                 job and pass a reference"
            );
            return misfit("payload", message);
        }
        if self.priority.abs() > limits::PRIORITY_MAX {
            let message = format!("priority must be between -100 and 100, got {}", self.priority);
            return misfit("priority", message);
        }
        if !(1..=limits::ATTEMPTS_MAX).contains(&self.max_attempts) {
            let (attempts, most) = (self.max_attempts, limits::ATTEMPTS_MAX);
            return misfit(
                "max_attempts",
                format!("max_attempts must be between 1 and {most}, got {attempts}"),
            );
        }
        if self.tags.len() > limits::TAGS_MAX {
            let (tags, most) = (self.tags.len(), limits::TAGS_MAX);
            return misfit("tags", format!("too many tags: {tags}, maximum {most}"));
        }
        for tag in &self.tags {
            check_name("tag", tag, false).or_else(|message| misfit("tags", message))?;
        }
        if let Some(bytes) = self.origin.as_ref().map(|origin| origin.facts.as_str().len())
            && bytes > limits::FACTS_BYTES_MAX
        {
            let most = limits::FACTS_BYTES_MAX;
            let message = format!(
                "schedule facts are too large: {bytes} bytes, maximum {most}; shorten the \
                 schedule's name or expressions"
            );
            return misfit("facts", message);
        }
        if let Some(bytes) = self.trace.as_ref().map(String::len)
            && bytes > limits::TRACE_BYTES_MAX
        {
            let most = limits::TRACE_BYTES_MAX;
            let message = format!("trace is too long: {bytes} bytes, maximum {most}; omit it");
            return misfit("trace", message);
        }
        match &self.unique {
            Some(unique) if unique.key.is_empty() && !unique.is_by_payload => {
                let message = "unique key must not be empty; set a value, or omit it";
                misfit("unique_key", message.to_owned())
            }
            Some(unique) if unique.key.len() > limits::KEY_BYTES_MAX => {
                let (bytes, most) = (unique.key.len(), limits::KEY_BYTES_MAX);
                let message =
                    format!("unique key is too long: {bytes} bytes, maximum {most}; use a hash");
                misfit("unique_key", message)
            }
            _ => Ok(()),
        }
    }

    /// Checks a job that somebody enqueues: slots are the leader's to fire.
    pub fn check_enqueued(&self) -> Result<(), String> {
        self.check()?;
        match self.origin.as_ref().and_then(|origin| origin.slot) {
            Some(slot) => Err(format!(
                "slot {slot} cannot be enqueued: only the scheduler fires slots; omit the slot"
            )),
            None => Ok(()),
        }
    }

    /// The unique key as stores keep it: prefixed with its scope, so that keys of different
    /// scopes never meet.
    pub fn stored_key(&self) -> Option<String> {
        let unique = self.unique.as_ref()?;
        Some(match unique.scope {
            KeyScope::Tenant => format!("t\n{}", unique.key),
            KeyScope::Kind => format!("k{}\n{}", self.kind, unique.key),
            KeyScope::Queue => format!("q{}\n{}", self.queue, unique.key),
        })
    }

    /// When the unique key is free again; none: when the job has ended.
    pub fn key_expires_at(&self, now: Timestamp) -> Option<Timestamp> {
        match self.unique.as_ref()?.lifetime {
            KeyLifetime::Job => None,
            KeyLifetime::For(wait) => Some(now + wait),
        }
    }

    /// The start deadline of the job, if it is written now.
    pub fn expires_at(&self, now: Timestamp) -> Option<Timestamp> {
        Some(self.delay.due_at(now) + self.start_within?)
    }

    /// The digest of what the unique key stands for. Jobs with the same key must have the same digest.
    pub fn meaning_digest(&self) -> MeaningDigest {
        self.meaning.unwrap_or_else(|| self.payload.meaning())
    }
}

/// What became of one job of an enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnqueueAnswer {
    /// It is there, by this call or by an earlier one with the same id.
    Created,
    /// This job holds the key already and does the same work.
    Duplicate(JobId),
    /// It was not written.
    Rejected(Rejection),
}

/// Why a job was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// This job holds the key, with another payload.
    KeyTaken(JobId),
    /// The job is out of bounds.
    Invalid(String),
}

/// The answer to an enqueue, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The instant that was used.
    pub at: Timestamp,
    /// One for each job.
    pub answers: Vec<EnqueueAnswer>,
}

impl Enqueued {
    /// Is there a job now that was not there before, as far as can be told?
    pub fn has_new(&self) -> bool {
        self.answers.contains(&EnqueueAnswer::Created)
    }
}
