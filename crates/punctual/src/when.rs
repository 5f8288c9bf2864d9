//! When a schedule is due, and its policies, as code says it.

use std::time::Duration;

use punctual_core::schedule::{Definition, Missed, OnExcluded, Overlap, RunOn, Template};
use punctual_core::{Timestamp, format_duration};

/// When a schedule is due, and what becomes of slots that could not be fired in time.
///
/// ```
/// use punctual::{Overlap, cron, every};
/// use std::time::Duration;
///
/// let mornings = cron("0 8 * * MON-FRI").tz("Europe/Paris");
/// let often = every(Duration::from_secs(300)).overlap(Overlap::QueueOne);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "has no effect until it is passed to a schedule"]
pub struct When(Definition);

/// By a cron expression of five fields; of six with [`When::seconds`].
pub fn cron(expression: &str) -> When {
    When(Definition::new(expression, ""))
}

/// At a fixed distance, counted from the beginning of 1970.
pub fn every(period: Duration) -> When {
    cron(&format!("@every {}", format_duration(period)))
}

/// Once.
pub fn at(instant: Timestamp) -> When {
    cron(&format!("@at {instant}"))
}

impl When {
    fn set(mut self, set: impl FnOnce(&mut Definition)) -> When {
        set(&mut self.0);
        self
    }

    /// And by this expression.
    pub fn and(self, expression: &str) -> When {
        self.set(|it| it.when.push(expression.to_owned()))
    }

    /// Expressions may have a sixth field, for seconds, which comes first.
    pub fn seconds(self) -> When {
        self.set(|it| it.seconds = true)
    }

    /// In this zone, by its IANA name.
    pub fn tz(self, zone: &str) -> When {
        self.set(|it| it.tz = zone.to_owned())
    }

    /// No slot before this instant.
    pub fn start(self, instant: Timestamp) -> When {
        self.set(|it| it.start = Some(instant.to_string()))
    }

    /// No slot after this instant.
    pub fn end(self, instant: Timestamp) -> When {
        self.set(|it| it.end = Some(instant.to_string()))
    }

    /// Jobs start up to this long after their slot, spread by the schedule's name.
    pub fn jitter(self, most: Duration) -> When {
        self.set(|it| it.jitter = format_duration(most))
    }

    /// A time that the clocks skip in spring: `end` of the gap, or `skip`.
    pub fn dst_gap(self, choice: &str) -> When {
        self.set(|it| it.dst_gap = Some(choice.to_owned()))
    }

    /// A time that the clocks repeat in autumn: `first`, `second` or `both`.
    pub fn dst_fold(self, choice: &str) -> When {
        self.set(|it| it.dst_fold = Some(choice.to_owned()))
    }

    /// What becomes of slots that nobody fired in time.
    pub fn missed(self, policy: Missed) -> When {
        self.set(|it| it.missed = policy)
    }

    /// How late a slot may be caught up.
    pub fn missed_window(self, window: Duration) -> When {
        self.set(|it| it.missed_window = format_duration(window))
    }

    /// How many slots are caught up, the newest.
    pub fn missed_limit(self, most: u32) -> When {
        self.set(|it| it.missed_limit = most)
    }

    /// How many jobs a second begin while slots are caught up.
    pub fn missed_pace(self, per_second: u32) -> When {
        self.set(|it| it.missed_pace = per_second)
    }

    /// Slots of paused time are missed, instead of skipped on purpose.
    pub fn missed_paused(self) -> When {
        self.set(|it| it.missed_paused = true)
    }

    /// What becomes of a slot while an earlier job of the schedule is unfinished.
    pub fn overlap(self, policy: Overlap) -> When {
        self.set(|it| it.overlap = policy)
    }

    /// Which nodes run the jobs: `any`, `every_node`, `node NAME` or `label KEY=VALUE`. All but the
    /// first have queues of their own, whatever the job's type says.
    pub fn run_on(self, nodes: &str) -> When {
        self.set(|it| it.run_on = nodes.to_owned())
    }

    /// Pauses the schedule after so many failed jobs in a row.
    pub fn pause_after_failures(self, failures: u32) -> When {
        self.set(|it| it.pause_after_failures = Some(failures))
    }

    /// Does not fire then, in its zone: `2027-12-24`, `2027-12-24..2028-01-02`, `12-25` of every year,
    /// `Sat`, or `Sat 00:00-Mon 06:00`. May be said several times.
    pub fn exclude(self, entry: &str) -> When {
        self.set(|it| it.exclude.push(entry.to_owned()))
    }

    /// What becomes of a slot that [`exclude`](When::exclude) has: nothing, or it goes to the next day
    /// on which its time is not excluded.
    pub fn on_excluded(self, choice: OnExcluded) -> When {
        self.set(|it| it.on_excluded = choice)
    }

    /// With the job that a slot becomes.
    pub(crate) fn makes(self, job: Template) -> Definition {
        let has_own_queue = RunOn::parse(&self.0.run_on).is_ok_and(|it| it != RunOn::Any);
        let queue = if has_own_queue { self.0.job.queue.clone() } else { job.queue };
        Definition { job: Template { queue, ..job }, ..self.0 }
    }
}
