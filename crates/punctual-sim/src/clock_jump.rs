//! A database clock that jumps two hours ahead, is believed, and is set back; then all schedules are
//! realigned.

use std::sync::Arc;
use std::time::Duration;

use punctual_engine::{ScheduleError, Schedules};
use punctual_store::Store;

use crate::chance::Chance;
use crate::nemesis::pass;
use crate::network::{Database, Link};
use crate::timetable::keeper;

/// As far as the clock jumps, in microseconds.
const JUMP: i64 = 2 * 3_600_000_000;

/// Longer than it takes until a clock that was stepped is believed.
const WRONG_FOR: Duration = Duration::from_secs(140);

/// Before a schedule is realigned again after a lost answer.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// The jump of one run.
pub(crate) struct ClockJump {
    pub(crate) database: Arc<Database>,
    pub(crate) schedules: Schedules,
    pub(crate) chance: Chance,
}

impl ClockJump {
    /// Jumps, returns, and realigns what is ahead, within this time.
    pub(crate) async fn act(self, length: Duration) {
        pass(self.chance.ms(5_000, 20_000)).await;
        self.step(JUMP);
        pass(WRONG_FOR).await;
        self.step(-JUMP);
        while self.database.clock.elapsed() < length {
            pass(TRY_AGAIN).await;
            self.realign().await;
        }
    }

    fn step(&self, micros: i64) {
        self.database.clock.step(micros);
        self.database.record.stepped(micros);
    }

    /// Realigns the schedules that are ahead now.
    async fn realign(&self) {
        let now = self.database.clock.now();
        let client = Link::connect(self.database.clone(), None, self.chance.fork(1));
        let Ok(found) = client.schedules_ahead(now, 100).await else { return };
        for schedule in found.schedules {
            match self.schedules.realign("", &schedule.name, &keeper()).await {
                // The answer to an earlier try was lost, or it was deleted.
                Ok(_) | Err(ScheduleError::NotAhead(_) | ScheduleError::NotFound(_)) => {}
                // Whether it was done is not known; if not, it is found again.
                Err(_) => pass(TRY_AGAIN).await,
            }
        }
    }
}
