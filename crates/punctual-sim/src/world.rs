//! One run: a database, three machines, a client, a nemesis, and the verdict.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_core::JobId;
use punctual_sqlite::{Options as SqliteOptions, SqliteStore};
use punctual_store::memory::Memory;
use punctual_store::{Actor, At, EnqueueAnswer, JobDetail, JobFilter, NewJob, Store};

use crate::chance::Chance;
use crate::clock::Clock;
use crate::machine::{MAX_RUNNING, Machine};
use crate::mix::{self, Mix};
use crate::nemesis::{Machines, Nemesis, pass};
use crate::network::{Connection, Database, at_once};
use crate::record::{Counts, Record};
use crate::workload;

/// How many machines there are.
const MACHINES: usize = 3;

/// Once faults are over, everything is done within this: many times the life of a node, since a
/// job may have to crash three times.
const DRAIN_MAX: Duration = Duration::from_secs(120);

/// Which store a run uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The reference model, whose history can be set back.
    #[default]
    Memory,
    /// SQLite, in a file of its own.
    Sqlite,
}

/// What a run is.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long faults go on, in simulated seconds.
    pub seconds: u64,
    /// On which store.
    pub backend: Backend,
    /// Is everything told while it happens?
    pub is_told: bool,
}

impl Plan {
    /// How to see a seed again.
    pub fn replay(&self, seed: u64) -> String {
        let store = if self.backend == Backend::Sqlite { " --store sqlite" } else { "" };
        let seconds = self.seconds;
        format!(
            "cargo run --release -p punctual-sim -- run --seed {seed} --seconds {seconds}{store}"
        )
    }
}

/// What became of a run.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The seed.
    pub seed: u64,
    /// The hash of everything that happened.
    pub hash: u64,
    /// How often things happened.
    pub counts: Counts,
    /// What broke a promise; nothing, if all is well.
    pub violations: Vec<String>,
}

/// Runs a seed. The same seed and plan give the same verdict.
pub fn run(seed: u64, plan: Plan) -> std::io::Result<Verdict> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let directory = match plan.backend {
        Backend::Memory => None,
        Backend::Sqlite => Some(scratch()?),
    };
    let path = directory.as_ref().map(|directory| directory.path().join("sim.db"));
    let verdict = runtime.block_on(async {
        let world = World::begin(seed, path.as_deref(), plan.is_told)?;
        Ok(world.live(seed, plan).await)
    });
    // What is still on its way is dropped with its runtime.
    drop(runtime);
    verdict
}

/// In memory if there is such a place: what a simulated machine loses is not what is on a disk.
fn scratch() -> std::io::Result<tempfile::TempDir> {
    let shared = std::path::Path::new("/dev/shm");
    if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() }
}

struct World {
    database: Arc<Database>,
    memory: Option<Memory>,
    machines: Machines,
    chance: Chance,
    started: AtomicU64,
    /// Submissions that have no answer yet.
    open: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl World {
    fn begin(seed: u64, path: Option<&std::path::Path>, is_told: bool) -> std::io::Result<World> {
        let chance = Chance::new(seed);
        let clock = Arc::new(Clock::start());
        let record = Arc::new(Record::new(clock.clone(), MAX_RUNNING, is_told));
        let mix = Mix::draw(&chance, path.is_none());
        let (store, memory): (Arc<dyn Store>, _) = match path {
            None => {
                let clock = clock.clone();
                let memory = Memory::new(move || clock.now());
                (Arc::new(memory.clone()), Some(memory))
            }
            Some(path) => {
                let opened = SqliteStore::open(path, SqliteOptions::engine());
                (Arc::new(opened.map_err(std::io::Error::other)?), None)
            }
        };
        let is_calm = AtomicBool::new(false);
        let database = Arc::new(Database { store, clock, record, mix, is_calm });
        Ok(World {
            database,
            memory,
            machines: Arc::new(Mutex::new(Vec::new())),
            chance,
            started: AtomicU64::new(0),
            open: Arc::default(),
            is_over: Arc::default(),
        })
    }

    async fn live(self, seed: u64, plan: Plan) -> Verdict {
        let length = Duration::from_secs(plan.seconds);
        for _ in 0..MACHINES {
            let machine = self.start_machine();
            self.machines.lock().expect("single thread").push(machine);
        }
        let nemesis = Nemesis {
            database: self.database.clone(),
            machines: self.machines.clone(),
            chance: self.chance.fork(10),
            memory: self.memory.clone(),
            snapshots: VecDeque::new(),
        };
        let world = Arc::new(self);
        tokio::spawn(nemesis.act(length));
        tokio::spawn(world.clone().restart_the_dead());
        tokio::spawn(world.clone().count_leaders());
        world.submit_for(length).await;
        // Half of the runs end under faults: nothing may be wrong then. The others end in calm:
        // everything must get done.
        let is_drained = seed.is_multiple_of(2);
        if is_drained {
            world.calm_down();
            world.finds_a_leader().await;
            world.drain().await;
            world.probe().await;
        }
        world.is_over.store(true, Ordering::Release);
        let record = &world.database.record;
        record.compare(&world.details(), is_drained);
        Verdict {
            seed,
            hash: record.hash(),
            counts: record.counts(),
            violations: record.violations(),
        }
    }

    fn start_machine(&self) -> Machine {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let chance = self.chance.fork(100 + number);
        self.database.record.trace(&format!("start {number}"));
        Machine::start(number as u32, &self.database, &chance)
    }

    /// Starts a new process where one has died.
    async fn restart_the_dead(self: Arc<Self>) {
        let chance = self.chance.fork(11);
        while !self.is_over.load(Ordering::Acquire) {
            pass(Duration::from_millis(50)).await;
            for index in 0..MACHINES {
                let dead = {
                    let machines = self.machines.lock().expect("single thread");
                    Some(machines[index].process.clone()).filter(|process| process.is_dead())
                };
                let Some(dead) = dead else { continue };
                self.database.record.died(dead.number);
                self.database.record.count(|counts| counts.kills += 1);
                pass(chance.ms(0, 1_500)).await;
                let machine = self.start_machine();
                self.machines.lock().expect("single thread")[index] = machine;
            }
        }
    }

    /// At no time may two processes trust that they lead.
    async fn count_leaders(self: Arc<Self>) {
        while !self.is_over.load(Ordering::Acquire) {
            pass(Duration::from_millis(40)).await;
            let leaders = self.leaders();
            if leaders.len() > 1 && !self.database.record.is_disturbed(Duration::from_secs(3)) {
                self.database.record.violate(format!("processes {leaders:?} all lead"));
            }
        }
    }

    fn leaders(&self) -> Vec<u32> {
        let machines = self.machines.lock().expect("single thread");
        let leading = machines.iter().filter(|machine| machine.leads());
        leading.map(|machine| machine.process.number).collect()
    }

    /// Submits jobs, and calls some of them off.
    async fn submit_for(&self, length: Duration) {
        let chance = self.chance.fork(12);
        let client = Arc::new(Connection::new(self.database.clone(), None, chance.fork(1)));
        let mut sent: Vec<JobId> = Vec::new();
        while self.database.clock.elapsed() < length {
            pass(chance.ms(20, 400)).await;
            let job = workload::job(&chance, self.database.clock.now(), self.database.mix.poison);
            sent.push(job.id);
            self.submit(&client, job);
            if chance.in_thousand(60) {
                let (client, job) = (client.clone(), chance.pick(&sent));
                tokio::spawn(async move {
                    // Whether it is called off is not this client's worry.
                    let actor = Actor::new("client", "as planned");
                    drop(client.cancel(At::Database, job, &actor).await);
                });
            }
        }
    }

    /// Submits one job, again and again until there is an answer.
    fn submit(&self, client: &Arc<Connection>, job: NewJob) {
        self.database.record.submits(&job);
        let (client, open) = (client.clone(), self.open.clone());
        let record = self.database.record.clone();
        open.fetch_add(1, Ordering::AcqRel);
        tokio::spawn(async move {
            loop {
                let answer = tokio::select! {
                    biased;
                    answer = client.enqueue(At::Database, std::slice::from_ref(&job)) => answer.ok(),
                    () = pass(Duration::from_secs(1)) => None,
                };
                match answer.map(|answer| answer.answers) {
                    Some(answers) => {
                        if job.unique.is_none() && answers != [EnqueueAnswer::Created] {
                            record.violate(format!("job {} was answered {answers:?}", job.id));
                        }
                        break;
                    }
                    None => pass(Duration::from_millis(100)).await,
                }
            }
            open.fetch_sub(1, Ordering::AcqRel);
        });
    }

    /// The end of all faults.
    fn calm_down(&self) {
        let database = &self.database;
        database.is_calm.store(true, Ordering::Release);
        database.clock.make_good();
        database.record.disturb();
        for machine in self.machines.lock().expect("single thread").iter() {
            machine.connection.cut(false);
            database.record.frozen(machine.process.number);
            machine.process.thaw();
        }
    }

    /// One leads soon after the last fault: a lease has to end, and a node that was declared dead
    /// may have to come back first.
    async fn finds_a_leader(&self) {
        let timing = mix::timing();
        let soon = timing.leader_lease + timing.call * 2 + timing.cancel_grace;
        let until = self.database.clock.elapsed() + soon;
        while self.leaders().len() != 1 {
            if self.database.clock.elapsed() > until {
                self.database.record.violate("nobody leads soon after the last fault".to_owned());
                return;
            }
            pass(timing.beat).await;
        }
    }

    /// Waits until everything is done.
    async fn drain(&self) {
        let until = self.database.clock.elapsed() + DRAIN_MAX;
        while self.database.clock.elapsed() < until {
            pass(Duration::from_millis(200)).await;
            let is_done = |detail: &JobDetail| detail.view.state.is_final();
            if self.open.load(Ordering::Acquire) == 0 && self.details().iter().all(is_done) {
                return;
            }
        }
    }

    /// Every machine takes work again, and one of them leads.
    async fn probe(&self) {
        let chance = self.chance.fork(13);
        let client = Arc::new(Connection::new(self.database.clone(), None, chance.fork(1)));
        let begun = self.database.record.begun_by();
        for _ in 0..MACHINES * MAX_RUNNING * 4 {
            self.submit(&client, workload::plain(&chance, self.database.clock.now()));
        }
        self.drain().await;
        for machine in self.machines.lock().expect("single thread").iter() {
            let number = machine.process.number;
            let before = begun.get(&number).copied().unwrap_or(0);
            let after = self.database.record.begun_by().get(&number).copied().unwrap_or(0);
            if after == before {
                self.database.record.violate(format!("process {number} takes no work in calm"));
            }
        }
    }

    /// Everything that the store knows of every job.
    fn details(&self) -> Vec<JobDetail> {
        let store = &*self.database.store;
        let mut details = Vec::new();
        let mut after = None;
        while let Ok(page) = at_once(store.jobs(&JobFilter::default(), after, 500)) {
            for view in &page.items {
                details.extend(at_once(store.job(view.id)).ok().flatten());
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        details
    }
}
