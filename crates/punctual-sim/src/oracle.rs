//! When schedules are due and what becomes of their slots, said the slow way: second by second and
//! slot by slot. It shares nothing with the search for slots, nor with the planner, that it judges.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{Definition, Missed, Overlap};

/// Until then a slot is on time.
const ON_TIME: Duration = Duration::from_secs(60);

/// The zones that simulated schedules are in, none of which changes its clocks, and how far they
/// are ahead, in minutes.
pub(crate) const ZONES: [(&str, i64); 4] =
    [("UTC", 0), ("Asia/Kolkata", 330), ("Asia/Kathmandu", 345), ("Etc/GMT+3", -180)];

/// What a definition means to whoever judges it.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    form: Form,
    pub(crate) missed: Missed,
    window: Duration,
    limit: usize,
    /// Are slots of paused time missed, instead of skipped?
    is_pause_missed: bool,
    pub(crate) overlap: Overlap,
    pub(crate) jitter: Duration,
}

/// The few ways in which simulated schedules say when.
#[derive(Clone, Debug)]
enum Form {
    /// Every so many seconds since 1970.
    Every(i64),
    /// At these seconds of these minutes, by clocks that are so many seconds ahead.
    Cron { seconds: Vec<i64>, minutes: Vec<i64>, ahead: i64 },
}

/// A stretch of time, without its end.
pub(crate) type Stretch = (Timestamp, Timestamp);

impl Oracle {
    /// Reads what the simulator itself has written; nothing if it is anything else.
    pub(crate) fn read(definition: &str) -> Option<Oracle> {
        let read: Definition = serde_json::from_str(definition).ok()?;
        let ahead = ZONES.iter().find(|(name, _)| *name == read.tz)?.1 * 60;
        let [when] = read.when.as_slice() else { return None };
        let form = match when.strip_prefix("@every ") {
            Some(length) => Form::Every(seconds(length)?),
            None => {
                let fields: Vec<&str> = when.split(' ').collect();
                let [second, minute, "*", "*", "*", "*"] = fields.as_slice() else { return None };
                Form::Cron { seconds: field(second)?, minutes: field(minute)?, ahead }
            }
        };
        Some(Oracle {
            form,
            missed: read.missed,
            window: Duration::from_secs(seconds(&read.missed_window)?.unsigned_abs()),
            limit: read.missed_limit as usize,
            is_pause_missed: read.missed_paused,
            overlap: read.overlap,
            jitter: Duration::from_secs(seconds(&read.jitter)?.unsigned_abs()),
        })
    }

    fn is_slot(&self, second: i64) -> bool {
        match &self.form {
            Form::Every(length) => second % length == 0,
            Form::Cron { seconds, minutes, ahead } => {
                let local = second + ahead;
                seconds.contains(&local.rem_euclid(60))
                    && minutes.contains(&local.div_euclid(60).rem_euclid(60))
            }
        }
    }

    /// The first slot after an instant.
    pub(crate) fn next(&self, after: Timestamp) -> Timestamp {
        let mut second = after.as_micros().div_euclid(1_000_000) + 1;
        while !self.is_slot(second) {
            second += 1;
        }
        Timestamp::from_seconds(second)
    }

    /// The slots from one, which is in, up to an instant, which is in as well.
    pub(crate) fn slots(&self, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        let (first, last) =
            (from.as_micros().div_euclid(1_000_000), to.as_micros().div_euclid(1_000_000));
        let due = (first..=last).filter(|second| self.is_slot(*second));
        due.map(Timestamp::from_seconds).filter(|slot| *slot >= from).collect()
    }

    /// Was a slot skipped on purpose?
    pub(crate) fn is_paused(&self, slot: Timestamp, paused: Option<Stretch>) -> bool {
        !self.is_pause_missed && paused.is_some_and(|(since, until)| since <= slot && slot < until)
    }

    /// What becomes of these slots if it is decided at this instant, whatever is unfinished.
    pub(crate) fn decide(
        &self,
        slots: &[Timestamp],
        paused: Option<Stretch>,
        now: Timestamp,
    ) -> Vec<SlotOutcome> {
        let is_on_time = |slot: Timestamp| now.since(slot) <= ON_TIME;
        let is_fresh = |slot: &Timestamp| is_on_time(*slot) && !self.is_paused(*slot, paused);
        let mut room = match self.missed {
            Missed::None => 0,
            Missed::Latest => usize::from(!slots.iter().any(is_fresh)),
            Missed::All => self.limit,
        };
        let decide = |slot: &Timestamp| {
            if self.is_paused(*slot, paused) {
                SlotOutcome::SkippedPaused
            } else if is_on_time(*slot) {
                SlotOutcome::Fired
            } else if self.missed == Missed::None || now.since(*slot) > self.window {
                SlotOutcome::Missed
            } else if room > 0 {
                room -= 1;
                SlotOutcome::CaughtUp
            } else if self.missed == Missed::Latest {
                SlotOutcome::Coalesced
            } else {
                SlotOutcome::Missed
            }
        };
        // The newest are caught up first.
        let mut decided: Vec<SlotOutcome> = slots.iter().rev().map(decide).collect();
        decided.reverse();
        decided
    }

    /// Instants from the last of these slots up to the next one, between which every decision
    /// about them is one of those at these.
    pub(crate) fn instants(&self, slots: &[Timestamp]) -> Vec<Timestamp> {
        let Some(last) = slots.last().copied() else { return Vec::new() };
        let next = self.next(last);
        let tick = Duration::from_micros(1);
        let mut instants = vec![last];
        for slot in slots {
            for bound in [*slot + ON_TIME, *slot + self.window] {
                instants.extend([bound, bound + tick]);
            }
        }
        instants.retain(|instant| last <= *instant && *instant < next);
        instants.sort_unstable();
        instants.dedup();
        instants
    }
}

fn seconds(length: &str) -> Option<i64> {
    length.strip_suffix('s')?.parse().ok()
}

/// A field of a cron expression: all, every so many, or a list.
fn field(text: &str) -> Option<Vec<i64>> {
    if text == "*" {
        return Some((0..60).collect());
    }
    if let Some(step) = text.strip_prefix("*/") {
        let step: usize = step.parse().ok().filter(|step| *step > 0)?;
        return Some((0..60).step_by(step).collect());
    }
    text.split(',').map(|value| value.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oracle(when: &str, tz: &str) -> Oracle {
        let definition = Definition {
            seconds: true,
            tz: tz.to_owned(),
            missed_window: "120s".to_owned(),
            ..Definition::new(when, "a")
        };
        Oracle::read(&serde_json::to_string(&definition).expect("it is written")).expect("known")
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    #[test]
    fn it_knows_when_its_few_forms_are_due() {
        let next = |when, tz, after: &str| oracle(when, tz).next(at(after)).to_string();
        assert_eq!(next("@every 7s", "UTC", "1970-01-01T00:00:06.5Z"), "1970-01-01T00:00:07Z");
        assert_eq!(next("*/20 * * * * *", "UTC", "2027-01-15T08:00:20Z"), "2027-01-15T08:00:40Z");
        assert_eq!(
            next("5,35 15 * * * *", "Asia/Kathmandu", "2027-01-15T08:00:00Z"),
            "2027-01-15T08:30:05Z"
        );
    }

    #[test]
    fn it_decides_by_the_policy() {
        let ten = oracle("@every 10s", "UTC");
        let slots = ten.slots(at("2027-01-15T08:00:00Z"), at("2027-01-15T08:02:30Z"));
        let decided = ten.decide(&slots, None, at("2027-01-15T08:03:50Z"));
        let count = |outcome| decided.iter().filter(|decided| **decided == outcome).count();
        assert_eq!(slots.len(), 16);
        assert_eq!((count(SlotOutcome::Missed), count(SlotOutcome::Coalesced)), (11, 4));
        assert_eq!(decided.last(), Some(&SlotOutcome::CaughtUp));
    }
}
