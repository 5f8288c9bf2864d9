//! Schedules of one kind, as many as one likes.

use std::time::Duration;

use punctual_core::schedule::Definition;
use punctual_core::{ScheduleId, Timestamp};

use crate::raw::{KIND, PAYLOAD};
use crate::{Failure, schedule};

/// Schedules that share a definition and are not due until they are told to be, some at a time:
/// every so manyth belongs to a class.
pub(crate) struct Lot {
    /// Which one it is, where there are several in a table.
    pub(crate) number: u8,
    pub(crate) count: usize,
    pub(crate) definition: Definition,
    /// One in so many belongs to a class, spread over the table as life would have it.
    pub(crate) stride: usize,
    pub(crate) classes: usize,
}

impl Lot {
    /// Schedules that are all of one class.
    pub(crate) fn of(number: u8, count: usize, definition: Definition) -> Lot {
        Lot { number, count, definition, stride: 1, classes: 1 }
    }

    /// How the ids of its schedules begin, as text; their numbers follow in twelve digits.
    pub(crate) fn prefix(&self) -> String {
        format!("01990000-0000-7000-80{:02x}-", self.number)
    }

    pub(crate) fn id(&self, number: usize) -> Result<ScheduleId, Failure> {
        Ok(format!("{}{number:012x}", self.prefix()).parse()?)
    }

    pub(crate) fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.number)
    }

    /// The numbers of a class.
    pub(crate) fn class(&self, class: usize) -> impl Iterator<Item = usize> {
        let step = self.stride * self.classes;
        (class * self.stride..self.count).step_by(step)
    }

    pub(crate) fn spec(&self) -> Result<String, Failure> {
        Ok(punctual_store::Json::new(&self.definition)?.as_str().to_owned())
    }

    /// What it is, for an error.
    pub(crate) fn about(&self) -> String {
        format!("{} schedules of {:?}", schedule::grouped(self.count), self.definition.when)
    }
}

/// Due on every second.
pub(crate) fn each_second() -> Definition {
    Definition { seconds: true, ..definition("* * * * * *") }
}

/// Due once a day, half a day from now: whatever is due before was put there as a watermark.
pub(crate) fn daily(now: Timestamp) -> Definition {
    let hour = (now.floor_seconds() / 3_600 + 12) % 24;
    definition(&format!("30 {hour} * * *"))
}

fn definition(when: &str) -> Definition {
    let mut definition = Definition::new(when, KIND);
    definition.job.payload = serde_json::from_str(PAYLOAD).unwrap_or_default();
    definition
}

/// A whole second that lies at least this far ahead.
pub(crate) fn second_after(now: Timestamp, ahead: Duration) -> Timestamp {
    Timestamp::from_seconds((now + ahead).ceil_seconds())
}
