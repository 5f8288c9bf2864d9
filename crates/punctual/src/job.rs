//! What a job is: a payload with a kind, and how its jobs are treated unless an order says else.

use std::time::Duration;

use punctual_core::job::Backoff;
use punctual_store::{KeyLifetime, KeyScope, UniqueKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::order::Order;

/// Work that can be asked for: a payload that is kept, and the kind that finds its handler.
///
/// Derive it. The kind is the type's name in snake case; renaming the type changes it, so that
/// jobs which wait under the old one find no handler any more: keep it with `kind = "…"`.
///
/// ```
/// use punctual::Job;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(queue = "mail", max_attempts = 8, timeout = "30s", backoff = "exponential 10s to 1h")]
/// struct SendEmail {
///     to: String,
/// }
///
/// assert_eq!(SendEmail::KIND, "send_email");
/// assert_eq!(SendEmail::settings().queue, "mail");
/// ```
///
/// | attribute | means | default |
/// |---|---|---|
/// | `kind = "…"` | which handler it is for | the name in snake case |
/// | `queue = "…"` | where its jobs wait | `default` |
/// | `priority = 10` | −100 to 100, higher first | 0 |
/// | `max_attempts = 5` | the most counted attempts | 5 |
/// | `timeout = "30s"` | the most time for one attempt | the node's, 15 minutes |
/// | `budget = "1h"` | the most time for all attempts together | none |
/// | `start_within = "10m"` | no attempt starts later than this after the job was due; a job that waits longer fails | none |
/// | `backoff = "linear 5s to 10m"` | waits between attempts: `fixed`, `linear`, `exponential` | the node's |
/// | `unique`, `unique = "field"`, `unique(by = "field", during = "1h")` | one unfinished job per payload or per value of a field; or one per length of time | any number |
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// Which handler its jobs are for.
    const KIND: &'static str;

    /// How its jobs are treated.
    fn settings() -> Settings {
        Settings::default()
    }

    /// What makes it the only one of its kind, if anything does.
    fn unique(&self) -> Option<Unique> {
        None
    }

    /// An order for it, in which any setting can be changed for this one job.
    ///
    /// ```
    /// # use punctual::Job;
    /// # use std::time::Duration;
    /// # #[derive(serde::Serialize, serde::Deserialize, Job)]
    /// # struct SendEmail { to: String }
    /// # let mail = SendEmail { to: "a@example.com".into() };
    /// let later = mail.order().delay(Duration::from_secs(3_600)).priority(10).tag("welcome");
    /// ```
    fn order(&self) -> Order {
        Order::of(self)
    }
}

/// How the jobs of a kind are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where they wait.
    pub queue: &'static str,
    /// −100 to 100, higher first.
    pub priority: i16,
    /// The most counted attempts.
    pub max_attempts: u32,
    /// The most time for one attempt; none: as the node is told.
    pub timeout: Option<Duration>,
    /// The most time for all attempts together.
    pub budget: Option<Duration>,
    /// No attempt may start later than this after the job was due.
    pub start_within: Option<Duration>,
    /// The waits between attempts; none: as the node is told.
    pub backoff: Option<Backoff>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            queue: "default",
            priority: 0,
            max_attempts: 5,
            timeout: None,
            budget: None,
            start_within: None,
            backoff: None,
        }
    }
}

/// What makes a job the only one of its kind. While one holds the key, ordering the same work
/// again answers with that job, and ordering other work under the same key is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unique {
    by: By,
    scope: KeyScope,
    lifetime: KeyLifetime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum By {
    Key(String),
    Payload,
}

impl Unique {
    /// By this key, until the job has ended, among the jobs of its kind.
    pub fn key(key: impl Into<String>) -> Unique {
        Unique { by: By::Key(key.into()), scope: KeyScope::Kind, lifetime: KeyLifetime::Job }
    }

    /// By its payload, until the job has ended, among the jobs of its kind. The database keeps a code
    /// of the payload from which the payload cannot be guessed.
    pub fn payload() -> Unique {
        Unique { by: By::Payload, scope: KeyScope::Kind, lifetime: KeyLifetime::Job }
    }

    /// For this long from now on, whether the job has ended or not.
    #[must_use]
    pub fn during(mut self, period: Duration) -> Unique {
        self.lifetime = KeyLifetime::For(period);
        self
    }

    /// Among all jobs, of whatever kind.
    #[must_use]
    pub fn among_all(mut self) -> Unique {
        self.scope = KeyScope::Tenant;
        self
    }

    /// Among the jobs in the same queue.
    #[must_use]
    pub fn within_queue(mut self) -> Unique {
        self.scope = KeyScope::Queue;
        self
    }

    /// The key for a store, which derives one by payload itself.
    pub(crate) fn stored(&self) -> UniqueKey {
        let (key, is_by_payload) = match &self.by {
            By::Key(key) => (key.clone(), false),
            By::Payload => (String::new(), true),
        };
        UniqueKey { key, is_by_payload, scope: self.scope, lifetime: self.lifetime }
    }
}
