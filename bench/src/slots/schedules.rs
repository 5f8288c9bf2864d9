//! The schedules whose slots are counted.

use std::sync::Arc;

use punctual_core::schedule::{Definition, Missed, Overlap};
use punctual_engine::{Schedules, System};
use punctual_store::{Actor, Store};

use super::records::Id;
use super::wall;
use crate::Failure;
use crate::worker::{KIND, Task};

/// How many fire each second, whatever happens.
const ALWAYS: usize = 50;

/// A schedule as the oracle knows it.
pub(crate) struct Known {
    pub(crate) id: Id,
    pub(crate) name: String,
    /// Its slots are the multiples of so many seconds since 1970.
    pub(crate) step: i64,
    /// May its jobs run beside each other? Then no slot is ever skipped.
    pub(crate) is_always: bool,
    /// Is a slot skipped while an earlier job is unfinished?
    pub(crate) is_skipping: bool,
    /// When its creation was asked for, in µs.
    pub(crate) asked_at: i64,
}

struct Plan {
    name: String,
    step: i64,
    when: String,
    overlap: Overlap,
    ms: u64,
    jitter: &'static str,
}

impl Plan {
    fn every(step: i64, name: String, overlap: Overlap, ms: u64) -> Plan {
        Plan { name, step, when: format!("@every {step}s"), overlap, ms, jitter: "0s" }
    }

    fn definition(&self) -> Result<Definition, Failure> {
        let mut definition = Definition::new(&self.when, KIND);
        definition.seconds = true;
        definition.jitter = self.jitter.to_owned();
        // Whatever is late is caught up at once, so that nothing is missed in a short proof.
        definition.missed = Missed::All;
        definition.missed_window = "1d".to_owned();
        definition.missed_limit = 1_000;
        definition.missed_pace = 1_000;
        definition.overlap = self.overlap;
        definition.job.payload = serde_json::to_value(Task::lasts(self.ms))?;
        Ok(definition)
    }
}

/// Those that fire each second, and a few that come apart, get in each other's way, or start late.
fn plans() -> Vec<Plan> {
    let always = |number: usize| Plan {
        when: "* * * * * *".to_owned(),
        ..Plan::every(1, format!("always-{number}"), Overlap::Allow, 0)
    };
    let mut plans: Vec<Plan> = (0..ALWAYS).map(always).collect();
    plans.push(Plan::every(7, "apart".to_owned(), Overlap::Allow, 100));
    plans.push(Plan {
        when: "*/5 * * * * *".to_owned(),
        jitter: "2s",
        ..Plan::every(5, "jitter".to_owned(), Overlap::Allow, 50)
    });
    for ms in [100, 700, 1_500, 3_000] {
        plans.push(Plan::every(1, format!("skip-{ms}"), Overlap::Skip, ms));
    }
    for (step, ms) in [(1, 300), (2, 2_500)] {
        plans.push(Plan::every(step, format!("queue-one-{ms}"), Overlap::QueueOne, ms));
    }
    plans
}

/// Creates them all.
pub(crate) async fn create(store: Arc<dyn Store>) -> Result<Vec<Known>, Failure> {
    let schedules = Schedules::new(Arc::new(System), store);
    let actor = Actor::new("bench", "to be fired");
    let mut known = Vec::new();
    for plan in plans() {
        let asked_at = wall();
        let made = schedules.create("", &plan.name, "", &plan.definition()?, &actor).await?;
        known.push(Known {
            id: *made.id.as_bytes(),
            name: plan.name,
            step: plan.step,
            is_always: plan.overlap == Overlap::Allow,
            is_skipping: plan.overlap == Overlap::Skip,
            asked_at,
        });
    }
    Ok(known)
}
