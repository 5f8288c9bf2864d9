//! The schedules of a simulated run, and who makes, changes and removes them: over the same bad
//! network as everybody, so that whoever asks does not always know what became of it.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::schedule::{Definition, Missed, Overlap};
use punctual_engine::{ScheduleError, Schedules};
use punctual_store::{Actor, ErrorKind};

use crate::chance::Chance;
use crate::clock::Clock;
use crate::machine::ZONE;
use crate::nemesis::pass;
use crate::oracle::ZONES;
use crate::workload;

/// How long an answer is waited for: the network may keep one for ever.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who looks after one schedule.
pub(crate) struct Keeper {
    pub(crate) schedules: Schedules,
    pub(crate) name: String,
    pub(crate) chance: Chance,
    pub(crate) clock: Arc<Clock>,
    /// Are there jobs for one zone?
    pub(crate) has_zones: bool,
}

impl Keeper {
    /// Creates the schedule and changes it now and then, for this long.
    pub(crate) async fn keep(self, length: Duration) {
        pass(self.chance.ms(0, 3_000)).await;
        let mut is_made = false;
        while self.clock.elapsed() < length {
            if is_made {
                pass(self.chance.ms(500, 8_000)).await;
            }
            let asked = async {
                if is_made { self.change().await } else { self.create().await.map(|()| true) }
            };
            is_made = tokio::select! {
                biased;
                answer = asked => match answer {
                    Ok(is_there) => is_there,
                    Err(ScheduleError::NotFound(_)) => false,
                    // Whether it was done is not known; if it was, the next try says so.
                    Err(_) => is_made,
                },
                () = pass(PATIENCE) => is_made,
            };
            if !is_made {
                pass(Duration::from_millis(200)).await;
            }
        }
    }

    /// A schedule with any policy; with zones, mostly one whose jobs are for one of them. Zone c has no
    /// machine.
    fn definition(&self) -> Definition {
        let mut definition = definition(&self.chance);
        if self.has_zones && self.chance.in_thousand(700) {
            definition.run_on = format!("label {ZONE}={}", self.chance.pick(&["a", "b", "c"]));
            // The label selects the queue.
            definition.job.queue = Definition::new("", "").job.queue;
        }
        definition
    }

    async fn create(&self) -> Result<(), ScheduleError> {
        let definition = self.definition();
        match self.schedules.create("", &self.name, "ops", &definition, &keeper()).await {
            // An earlier try has arrived after all.
            Err(ScheduleError::Store(error)) if error.kind() == ErrorKind::Conflict => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Does something to it; the answer is whether it is there still.
    async fn change(&self) -> Result<bool, ScheduleError> {
        let (schedules, name, actor) = (&self.schedules, &self.name, keeper());
        match self.chance.below(100) {
            0..35 => {
                let definition = self.definition();
                schedules.define("", name, &definition, None, &actor).await?;
            }
            35..50 => {
                let until = self.clock.now() + self.chance.ms(500, 20_000);
                let until = Some(until).filter(|_| self.chance.in_thousand(500));
                schedules.pause("", name, until, &actor).await?;
            }
            50..68 => drop(schedules.resume("", name, &actor).await?),
            68..75 => drop(schedules.disable("", name, &actor).await?),
            75..88 => drop(schedules.enable("", name, &actor).await?),
            88..91 => {
                schedules.delete("", name, &actor).await?;
                return Ok(false);
            }
            91..95 => match schedules.realign("", name, &actor).await {
                Ok(_) | Err(ScheduleError::NotAhead(_)) => {}
                Err(error) => return Err(error),
            },
            _ => drop(schedules.run("", name).await?),
        }
        Ok(true)
    }
}

/// Who does all this.
pub(crate) fn keeper() -> Actor {
    Actor::new("keeper", "as planned")
}

/// A schedule that is due every few seconds, with any policy.
fn definition(chance: &Chance) -> Definition {
    let every = chance.pick(&[2, 2, 3, 4, 5, 6, 10, 15, 20]);
    let when = match chance.below(100) {
        0..40 => format!("@every {every}s"),
        40..70 => format!("*/{every} * * * * *"),
        70..85 => {
            let first = chance.below(20);
            format!("{first},{},{} * * * * *", first + 3, first + 31)
        }
        _ => format!("*/{every} {} * * * *", chance.pick(&["*/2", "0,2,15,16,30", "*"])),
    };
    // From nothing to longer than it takes until the next slot.
    let ms = match chance.below(10) {
        0..6 => chance.below(20),
        6..8 => every * 500,
        _ => every * 1_250,
    };
    let (kind, queue) = (chance.pick(&["a", "b"]), chance.pick(&["fast", "slow"]));
    let mut definition = Definition {
        seconds: true,
        tz: chance.pick(&ZONES).0.to_owned(),
        missed: chance.pick(Missed::ALL),
        missed_window: format!("{}s", 60 + chance.below(600)),
        missed_limit: 1 + chance.below(8) as u32,
        missed_pace: 1 + chance.below(20) as u32,
        missed_paused: chance.in_thousand(250),
        overlap: chance.pick(Overlap::ALL),
        jitter: format!("{}s", chance.pick(&[0, 0, 0, 1, 4])),
        ..Definition::new(&when, kind)
    };
    definition.job.queue = queue.to_owned();
    definition.job.max_attempts = 1 + chance.below(3) as u32;
    definition.job.timeout = Some("6s".to_owned());
    definition.job.payload = workload::of_schedule(chance, ms.min(5_000));
    let is_unserved = chance.in_thousand(150);
    if is_unserved {
        definition.job.queue = workload::UNSERVED.to_owned();
    }
    if is_unserved || chance.in_thousand(150) {
        definition.job.start_within = Some(format!("{}s", 1 + chance.below(6)));
    }
    definition
}
