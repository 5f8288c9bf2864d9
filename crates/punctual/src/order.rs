//! An order: a job as somebody asks for it.

use std::time::Duration;

use punctual_core::{JobId, Timestamp};
use punctual_store::{Delay, Json, NewJob};

use crate::error::{Error, Result};
use crate::job::{Job, Unique};

/// A job as somebody asks for it. It begins with the settings of its kind.
///
/// ```
/// use std::time::Duration;
/// use punctual::{Job, Unique};
///
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// struct Remind { user: u64 }
///
/// let order = Remind { user: 7 }
///     .order()
///     .delay(Duration::from_secs(86_400))
///     .unique(Unique::key("remind-7").during(Duration::from_secs(3_600)))
///     .tag("onboarding");
/// ```
#[derive(Clone, Debug)]
#[must_use = "an order has no effect until it is enqueued"]
pub struct Order {
    made: Result<NewJob>,
    unique: Option<Unique>,
    /// Made from a type, so that a kind without a handler is most likely a mistake.
    is_typed: bool,
}

/// Has no meaning beyond its place in an order that is not enqueued yet.
const NOT_MINTED: JobId = JobId::from_bytes([0; 16]);

impl Order {
    pub(crate) fn of<J: Job>(job: &J) -> Order {
        let payload = Json::new(job).map_err(|error| {
            let kind = J::KIND;
            Error::invalid(format!(
                "a job of kind `{kind}` cannot be serialized as JSON: {error}; map keys must be \
                 strings"
            ))
        });
        let settings = J::settings();
        let made = payload.map(|payload| NewJob {
            priority: settings.priority,
            max_attempts: settings.max_attempts,
            timeout: settings.timeout,
            budget: settings.budget,
            start_within: settings.start_within,
            ..NewJob::new(NOT_MINTED, settings.queue, J::KIND, payload)
        });
        Order { made, unique: job.unique(), is_typed: true }
    }

    /// A job of any kind, for instance one that another program handles; nobody checks here that
    /// somebody does.
    pub fn of_kind(kind: &str, payload: &impl serde::Serialize) -> Order {
        let payload = Json::new(payload).map_err(|error| {
            Error::invalid(format!(
                "the payload of kind `{kind}` cannot be serialized as JSON: {error}"
            ))
        });
        let made = payload.map(|payload| NewJob::new(NOT_MINTED, "default", kind, payload));
        Order { made, unique: None, is_typed: false }
    }

    /// The kind, if it should have a handler where it is ordered.
    pub(crate) fn checked_kind(&self) -> Option<&str> {
        self.made.as_ref().ok().filter(|_| self.is_typed).map(|job| job.kind.as_str())
    }

    /// Where it waits, if it can be made.
    pub(crate) fn queue_name(&self) -> Option<&str> {
        self.made.as_ref().ok().map(|job| job.queue.as_str())
    }

    fn set(mut self, set: impl FnOnce(&mut NewJob)) -> Order {
        if let Ok(job) = &mut self.made {
            set(job);
        }
        self
    }

    /// It waits in this queue.
    pub fn queue(self, queue: &str) -> Order {
        self.set(|job| job.queue = queue.to_owned())
    }

    /// −100 to 100, higher first.
    pub fn priority(self, priority: i16) -> Order {
        self.set(|job| job.priority = priority)
    }

    /// It is due after this wait.
    pub fn delay(self, wait: Duration) -> Order {
        self.set(|job| job.delay = Delay::For(wait))
    }

    /// It is due at this instant; if that has passed, at once.
    pub fn at(self, due: Timestamp) -> Order {
        self.set(|job| job.delay = Delay::Until(due))
    }

    /// The most counted attempts.
    pub fn max_attempts(self, attempts: u32) -> Order {
        self.set(|job| job.max_attempts = attempts)
    }

    /// The most time for one attempt.
    pub fn timeout(self, limit: Duration) -> Order {
        self.set(|job| job.timeout = Some(limit))
    }

    /// The most time for all attempts together.
    pub fn budget(self, limit: Duration) -> Order {
        self.set(|job| job.budget = Some(limit))
    }

    /// No attempt starts later than this after the job was due. A job that waits longer fails without
    /// an attempt.
    pub fn start_within(self, limit: Duration) -> Order {
        self.set(|job| job.start_within = Some(limit))
    }

    /// It is the only one of its kind.
    pub fn unique(mut self, unique: Unique) -> Order {
        self.unique = Some(unique);
        self
    }

    /// Any number of it may be there, whatever its type says.
    pub fn not_unique(mut self) -> Order {
        self.unique = None;
        self
    }

    /// A word to find it by.
    pub fn tag(self, tag: &str) -> Order {
        self.set(|job| job.tags.push(tag.to_owned()))
    }

    /// The trace that it belongs to, for instance a `traceparent`; its handler finds it in
    /// [`Ctx::trace`](crate::Ctx::trace).
    pub fn trace(self, trace: &str) -> Order {
        self.set(|job| job.trace = Some(trace.to_owned()))
    }

    /// Who it acts for.
    pub fn owner(self, owner: &str) -> Order {
        self.set(|job| job.owner = owner.to_owned())
    }

    /// Whose it is.
    pub fn tenant(self, tenant: &str) -> Order {
        self.set(|job| job.tenant = tenant.to_owned())
    }

    /// What its unique key stands for, if that is more than the payload: a request that comes again
    /// with the same key and means something else is refused.
    pub fn meaning(self, all: &impl serde::Serialize) -> Order {
        match Json::new(all) {
            Ok(all) => self.set(|job| job.meaning = Some(all.meaning())),
            Err(error) => Order {
                made: Err(Error::invalid(format!(
                    "`meaning` cannot be serialized as JSON: {error}"
                ))),
                ..self
            },
        }
    }

    /// The job to be written, checked.
    pub(crate) fn job(self, id: JobId, trace: impl FnOnce() -> Option<String>) -> Result<NewJob> {
        let mut job = self.made?;
        job.id = id;
        job.unique = self.unique.map(|unique| unique.stored());
        job.trace = job.trace.or_else(trace);
        job.check().map_err(|wrong| {
            Error::of_field(wrong.part, format!("job of kind `{}`: {wrong}", job.kind))
        })?;
        Ok(job)
    }
}

impl<J: Job> From<&J> for Order {
    fn from(job: &J) -> Order {
        job.order()
    }
}
