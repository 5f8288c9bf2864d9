//! Who kills, freezes, cuts, stops, and sets clocks and histories back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_store::memory::{Memory, Snapshot};

use crate::chance::Chance;
use crate::machine::Machine;
use crate::network::Database;
use crate::record::Past;

/// The machines of a run.
pub(crate) type Machines = Arc<Mutex<Vec<Machine>>>;

/// Older states that the database may go back to, with what the account says of them.
const SNAPSHOTS_MAX: usize = 6;

/// Does one deed after the other until the time is over.
pub(crate) struct Nemesis {
    pub(crate) database: Arc<Database>,
    pub(crate) machines: Machines,
    pub(crate) chance: Chance,
    /// None: the database cannot go back.
    pub(crate) memory: Option<Memory>,
    pub(crate) snapshots: VecDeque<(Snapshot, Past)>,
}

impl Nemesis {
    /// Acts for this long.
    pub(crate) async fn act(mut self, length: Duration) {
        let clock = self.database.clock.clone();
        let every = u64::try_from(self.database.mix.every.as_millis()).unwrap_or(1_000);
        while clock.elapsed() < length {
            if let Some(memory) = &self.memory {
                self.snapshots.push_back((memory.snapshot(), self.database.record.past()));
                let beyond = self.snapshots.len().saturating_sub(SNAPSHOTS_MAX);
                self.snapshots.drain(..beyond);
            }
            pass(self.chance.ms(every / 2, every * 3 / 2)).await;
            if clock.elapsed() < length {
                self.deed();
            }
        }
    }

    fn deed(&mut self) {
        let weights = self.database.mix.deeds;
        let mut drawn = self.chance.below(weights.iter().sum());
        let deed = weights.iter().position(|weight| match drawn.checked_sub(*weight) {
            Some(left) => {
                drawn = left;
                false
            }
            None => true,
        });
        let victim = self.chance.below(3) as usize;
        match deed {
            Some(0) => self.kill(victim),
            Some(1) => self.freeze(victim),
            Some(2) => self.cut(victim),
            Some(3) => self.stop(victim),
            Some(4) => self.step(),
            Some(5) => self.go_back(),
            _ => {}
        }
    }

    fn kill(&self, victim: usize) {
        self.machines.lock().expect("single thread")[victim].process.kill();
    }

    /// From well below the time after which a node is dead to several times that.
    fn freeze(&self, victim: usize) {
        let process = self.machines.lock().expect("single thread")[victim].process.clone();
        let (record, wait) = (self.database.record.clone(), self.chance.ms(200, 9_000));
        process.freeze();
        record.frozen(process.number);
        record.count(|counts| counts.freezes += 1);
        tokio::spawn(async move {
            pass(wait).await;
            record.frozen(process.number);
            process.thaw();
        });
    }

    fn cut(&self, victim: usize) {
        let connection = self.machines.lock().expect("single thread")[victim].connection.clone();
        let wait = self.chance.ms(100, 8_000);
        connection.cut(true);
        tokio::spawn(async move {
            pass(wait).await;
            connection.cut(false);
        });
    }

    /// As a service manager does: asks once, perhaps twice, and kills what does not stop.
    fn stop(&self, victim: usize) {
        let machines = self.machines.lock().expect("single thread");
        let (process, engine) = (machines[victim].process.clone(), machines[victim].engine());
        let Some(engine) = engine else { return };
        let is_impatient = self.chance.in_thousand(300);
        let (wait, record) = (self.chance.ms(50, 2_000), self.database.record.clone());
        record.trace(&format!("stop {}", process.number));
        record.count(|counts| counts.stops += 1);
        engine.stop();
        tokio::spawn(async move {
            if is_impatient {
                pass(wait).await;
                engine.stop_now();
            }
            tokio::select! {
                biased;
                _ = engine.stopped() => {}
                () = pass(Duration::from_secs(10)) => {}
            }
            process.kill();
        });
    }

    fn step(&self) {
        let size = 10_u64.pow(3 + self.chance.below(8) as u32).min(7_200_000_000);
        let micros = i64::try_from(self.chance.below(size)).unwrap_or(0);
        let micros = if self.chance.in_thousand(500) { micros } else { -micros };
        self.database.clock.step(micros);
        self.database.record.stepped(micros);
    }

    fn go_back(&mut self) {
        let Some(memory) = &self.memory else { return };
        let index = self.chance.below(self.snapshots.len() as u64) as usize;
        let Some((snapshot, past)) = self.snapshots.get(index).cloned() else { return };
        // What came after that state is gone, also for the next time.
        self.snapshots.truncate(index + 1);
        memory.restore(snapshot);
        self.database.record.went_back(past);
    }
}

#[expect(clippy::disallowed_methods, reason = "simulated time is tokio's paused clock")]
pub(crate) async fn pass(wait: Duration) {
    tokio::time::sleep(wait).await;
}
