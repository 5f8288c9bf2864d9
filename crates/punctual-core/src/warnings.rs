//! What is allowed and yet perhaps not meant.

use crate::civil::DAY;
use crate::cron::{Cron, Unit};
use crate::{Spec, Timestamp, When, Zone};

impl Spec {
    /// What a person should know about this schedule before relying on it, in words. `after`
    /// is the instant from which it is to run.
    pub fn warnings(&self, after: Timestamp) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(reason) = self.never_fires(after) {
            warnings.push(format!("never fires: {reason}"));
            return warnings;
        }
        for when in &self.whens {
            match when {
                When::Cron(cron) => warnings.extend(cron.warnings()),
                When::Every(every) => {
                    let whole_days = every.interval_seconds() % DAY == 0;
                    if whole_days && self.zone != Zone::UTC {
                        warnings.push(
                            "an interval of whole days moves by an hour on the wall clock when clocks \
                             change; for a fixed time of day write a cron expression, such as `0 9 * * *`"
                                .to_owned(),
                        );
                    }
                }
                When::At(_) => {}
            }
        }
        if let Some(first) = self.next(after)
            && self.slots(first, Timestamp::MAX, 60).last()
                == Some(Timestamp::from_seconds(first.floor_seconds() + 59))
        {
            warnings.push("fires every second: up to 86400 jobs a day".to_owned());
        }
        warnings
    }
}

impl Cron {
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.field_count() > 5 {
            warnings.push(format!("{} fields: the first one is seconds", self.field_count()));
        }
        if self.is_one_day_field_enough() {
            warnings.push(
                "both day fields are set and a day that matches one of them is enough; to need both \
                 write `+` before the day-of-week"
                    .to_owned(),
            );
        }
        for (unit, letter) in [(Unit::Second, 's'), (Unit::Minute, 'm'), (Unit::Hour, 'h')] {
            if let Some((step, rest)) = self.uneven_step(unit) {
                let noun = unit.name();
                let around = if unit == Unit::Hour { "day" } else { "hour" };
                let around = if unit == Unit::Second { "minute" } else { around };
                warnings.push(format!(
                    "a step of {step} {noun}s starts anew each {around}, so that its last one is {rest} \
                     {noun}s; for an even distance write `@every {step}{letter}`"
                ));
            }
        }
        if let Some(day) = self.first_day_missing_in_some_month() {
            warnings.push(format!(
                "months without a day {day} have no slot; the last day of every month is `L`"
            ));
        }
        warnings
    }
}
