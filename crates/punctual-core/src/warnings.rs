//! What is allowed and yet perhaps not meant.

use crate::civil::DAY;
use crate::cron::{Cron, Unit};
use crate::{Spec, Timestamp, When};

impl Spec {
    /// What a person should know about this schedule before relying on it, in words. `after`
    /// is the instant from which it is to run.
    pub fn warnings(&self, after: Timestamp) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(reason) = self.never_fires(after) {
            warnings.push(format!("never fires: {reason}"));
            return warnings;
        }
        let has_changes_ahead = self.clock_changes(after, Timestamp::MAX).next().is_some();
        for when in &self.whens {
            match when {
                When::Cron(cron) => {
                    let never = cron.never_fires();
                    warnings.extend(never.map(|reason| format!("`{cron}` never fires: {reason}")));
                    warnings.extend(cron.warnings());
                }
                When::Every(every) => {
                    if every.interval_seconds() % DAY == 0 && has_changes_ahead {
                        warnings.push(WHOLE_DAYS.to_owned());
                    }
                    if every.interval_seconds() == 1 {
                        warnings.push(EVERY_SECOND.to_owned());
                    }
                }
                When::At(_) => {}
            }
        }
        warnings
    }
}

const EVERY_SECOND: &str = "fires every second: up to 86400 jobs per day";
const WHOLE_DAYS: &str = "an interval of whole days shifts in local time when clocks change; for a \
     fixed time of day, use a cron expression such as `0 9 * * *`";

impl Cron {
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.field_count() > 5 {
            warnings.push(format!(
                "the expression has {} fields; the first is for seconds",
                self.field_count()
            ));
        }
        if self.is_one_day_field_enough() {
            warnings.push(
                "day-of-month and day-of-week are both set, and a day that matches either is \
                 enough; to require both, put `+` before day-of-week"
                    .to_owned(),
            );
        }
        if self.is_every_second() {
            warnings.push(EVERY_SECOND.to_owned());
        }
        for (unit, letter, around) in [(Unit::Minute, 'm', "hour"), (Unit::Hour, 'h', "day")] {
            if let Some((step, rest)) = self.uneven_step(unit) {
                let noun = unit.name();
                let last = if rest == 1 { noun.to_owned() } else { format!("{noun}s") };
                warnings.push(format!(
                    "a step of {step} {noun}s restarts every {around}, so the last interval is \
                     {rest} {last}; for a constant interval, use `@every {step}{letter}`"
                ));
            }
        }
        if let Some(day) = self.first_day_missing_in_some_month() {
            warnings.push(format!(
                "months without day {day} have no slot; for the last day of every month, use `L`"
            ));
        }
        warnings
    }
}
