//! When a schedule is due, and its policies, as code says it.

use std::time::Duration;

use punctual_core::schedule::{Definition, Missed, OnExcluded, Overlap, RunOn, Template};
use punctual_core::{DstFold, DstGap, ExcludedTime, Timestamp, format_duration};

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

    /// What happens to slots at local times that the clocks skip in spring.
    pub fn dst_gap(self, choice: DstGap) -> When {
        self.set(|it| it.dst_gap = Some(choice.to_string()))
    }

    /// What happens to slots at local times that the clocks repeat in autumn.
    pub fn dst_fold(self, choice: DstFold) -> When {
        self.set(|it| it.dst_fold = Some(choice.to_string()))
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

    /// Which nodes run the jobs. All but [`RunOn::Any`] have queues of their own, whatever the job's
    /// type says. A text such as `label zone=eu` can be parsed: `.run_on("label zone=eu".parse()?)`.
    pub fn run_on(self, nodes: RunOn) -> When {
        self.set(|it| it.run_on = nodes.to_string())
    }

    /// Pauses the schedule after so many failed jobs in a row.
    pub fn pause_after_failures(self, failures: u32) -> When {
        self.set(|it| it.pause_after_failures = Some(failures))
    }

    /// Does not fire then, in its zone. Can be repeated.
    ///
    /// Dates, ranges of dates and weekdays of [jiff](https://docs.rs/jiff) convert to an
    /// [`ExcludedTime`]; every form can be parsed: `2027-12-24`, `2027-12-24..2028-01-02`, `12-25` of
    /// every year, `Sat`, or `Sat 00:00-Mon 06:00`.
    ///
    /// ```
    /// use punctual::{ExcludedTime, cron};
    ///
    /// let mornings = cron("0 8 * * *").exclude("12-25".parse::<ExcludedTime>()?);
    /// # Ok::<(), punctual::Error>(())
    /// ```
    pub fn exclude(self, time: impl Into<ExcludedTime>) -> When {
        self.set(|it| it.exclude.push(time.into().to_string()))
    }

    /// What becomes of a slot that [`exclude`](When::exclude) has: nothing, or it goes to the next day
    /// on which its time is not excluded.
    pub fn on_excluded(self, choice: OnExcluded) -> When {
        self.set(|it| it.on_excluded = choice)
    }

    /// With the job that a slot becomes.
    pub(crate) fn makes(self, job: Template) -> Definition {
        let has_own_queue = self.0.run_on != RunOn::Any.to_string();
        let queue = if has_own_queue { self.0.job.queue.clone() } else { job.queue };
        Definition { job: Template { queue, ..job }, ..self.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_choices_are_read_back_as_they_were_set() {
        let when = cron("30 2 * * *")
            .tz("Europe/Paris")
            .dst_gap(DstGap::Skip)
            .dst_fold(DstFold::Both)
            .run_on("label zone=eu".parse().expect("a label"))
            .exclude("12-25".parse::<ExcludedTime>().expect("a day"));
        let rule = when.makes(Definition::new("", "mail").job).rule("mails").expect("a rule");
        let label = RunOn::Label { name: "zone".to_owned(), value: "eu".to_owned() };
        assert_eq!(rule.run_on, label);
        assert!(!rule.excluded.is_empty());
        let typed =
            punctual_core::Spec::new("30 2 * * *".parse().expect("cron"), rule.spec.zone().clone())
                .dst_gap(DstGap::Skip)
                .dst_fold(DstFold::Both);
        assert_eq!(rule.spec, typed);
    }

    #[test]
    fn a_text_that_is_refused_names_the_field() {
        let error = crate::Error::from("leader".parse::<RunOn>().unwrap_err());
        assert_eq!(error.details(), Some(&crate::ErrorDetails::Field("run_on".to_owned())));
        let error = crate::Error::from("never".parse::<DstGap>().unwrap_err());
        insta::assert_snapshot!(error, @"unknown dst_gap value `never`; expected one of end, skip");
    }

    /// An interval is stored as a text, which loses nothing.
    #[test]
    fn an_interval_is_stored_as_it_was_given() {
        for seconds in [1, 61, 3_600, 86_400, 90_061, 366 * 86_400] {
            let period = Duration::from_secs(seconds);
            let rule = every(period).makes(Definition::new("", "mail").job).rule("mails");
            let start = Timestamp::from_seconds(1_800_000_000);
            let rule = rule.expect("an interval");
            let first = rule.next(start).expect("a slot");
            assert_eq!(rule.next(first).map(|next| next.since(first)), Some(period));
        }
    }
}
