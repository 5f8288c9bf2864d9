//! One run: a database, three machines, a client, a nemesis, and the verdict.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_core::{JobId, NodeId, Timestamp};
use punctual_engine::{MAINTENANCE, SCHEDULER, Schedules};
use punctual_sqlite::{Options as SqliteOptions, SqliteStore};
use punctual_store::memory::Memory;
use punctual_store::{
    Actor, At, EnqueueAnswer, HeldSlots, JobDetail, JobFilter, JobView, NewJob, Node, Schedule,
    SlotView, Store, limits,
};

use crate::chance::Chance;
use crate::clock::Clock;
use crate::clock_jump::ClockJump;
use crate::counts::Counts;
use crate::crash_loop::{CrashLoop, TakeOverBound};
use crate::machine::{MAX_RUNNING, Machine};
use crate::mix::{self, Mix};
use crate::nemesis::{Machines, Nemesis, pass};
use crate::network::{Connection, Database, Link, at_once};
use crate::process::{Process, SimEnv};
use crate::record::{Kept, Record};
use crate::remote::{self, Worker};
use crate::timetable::{Keeper, keeper};
use crate::workload;

/// Once faults are over, one job after the other ends within this: many times the life of a node,
/// since a job may have to crash three times.
const DRAIN_MAX: Duration = Duration::from_secs(300);

/// A leader follows a clock that was stepped forward by more than a minute only after two minutes,
/// and may look for the first and the last time a whole period late.
const BELIEVED_AFTER: Duration = Duration::from_secs(120 + 2 * 6 + 1);

/// Once faults are over and a clock that was stepped is believed, slots are decided within this.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// Once faults are over, a job ends this long after its start deadline at the latest: it may have been
/// released just after it was checked, as long as a node is silent before it is dead.
const EXPIRED_AFTER: Duration = Duration::from_secs(3 + 1);

/// Once faults are over, nodes that are no more are declared dead within this: many times the life of
/// a node, since a job may kill whoever leads; and much less than a clock is set back by.
const BURIED_AFTER: Duration = Duration::from_secs(30);

/// What is led.
const ROLES: [&str; 2] = [MAINTENANCE, SCHEDULER];

/// Which store a run uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The reference model, whose history can be set back.
    #[default]
    Memory,
    /// SQLite, in a file of its own.
    Sqlite,
}

/// Which faults a run suffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// A mix that each seed draws.
    #[default]
    Mixed,
    /// Processes that crash again and again. On SQLite there is one, which holds the lock of the
    /// file.
    CrashLoop,
    /// A database clock that jumps two hours ahead and back.
    ClockJump,
}

/// What a run is.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long faults go on, in simulated seconds.
    pub seconds: u64,
    /// On which store.
    pub backend: Backend,
    /// With which faults.
    pub faults: Faults,
    /// Is everything told while it happens?
    pub is_told: bool,
}

impl Plan {
    /// How to see a seed again.
    pub fn replay(&self, seed: u64) -> String {
        let store = if self.backend == Backend::Sqlite { " --store sqlite" } else { "" };
        let faults = match self.faults {
            Faults::Mixed => "",
            Faults::CrashLoop => " --faults crash-loop",
            Faults::ClockJump => " --faults clock-jump",
        };
        let seconds = self.seconds;
        format!(
            "cargo run --release -p punctual-sim -- run --seed {seed} --seconds {seconds}{store}{faults}"
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
        let world = World::begin(seed, path.as_deref(), plan)?;
        Ok(world.live(seed, plan).await)
    });
    // What is still on its way is dropped with its runtime.
    drop(runtime);
    verdict
}

/// In memory if there is such a place: what a simulated machine loses is not what is on a disk.
fn scratch() -> std::io::Result<tempfile::TempDir> {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() }
}

struct World {
    database: Arc<Database>,
    memory: Option<Memory>,
    machines: Machines,
    remote: Arc<Worker>,
    chance: Chance,
    schedules: Schedules,
    started: AtomicU64,
    /// Submissions that have no answer yet.
    open: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl World {
    fn begin(seed: u64, path: Option<&Path>, plan: Plan) -> std::io::Result<World> {
        let chance = Chance::new(seed);
        let clock = Arc::new(Clock::start());
        let record = Arc::new(Record::new(clock.clone(), MAX_RUNNING, plan.is_told));
        let mix = match (plan.faults, path) {
            (Faults::Mixed, _) => Mix::draw(&chance, path.is_none()),
            (Faults::ClockJump, _) => Mix::clock_jump(&chance),
            (Faults::CrashLoop, None) => Mix::crash_loop(&chance, 3),
            (Faults::CrashLoop, Some(_)) => Mix::crash_loop(&chance, 1),
        };
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
        let own_file = path.filter(|_| plan.faults == Faults::CrashLoop).map(Path::to_owned);
        let database = Arc::new(Database::new(store, own_file, clock, record, mix));
        let own = chance.fork(14);
        let process = Process::new(0, database.clock.clone(), own.fork(1));
        let client = Arc::new(Link::connect(database.clone(), None, own.fork(2)));
        let schedules = Schedules::new(Arc::new(SimEnv(Arc::new(process))), client);
        let remote = Arc::new(Worker::new(&database, chance.fork(16)));
        Ok(World {
            remote,
            database,
            schedules,
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
        for index in 0..self.database.mix.machines {
            let machine = self.start_machine(index);
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
        world.crash_again_and_again(plan.backend, length);
        world.jump_the_clock(plan.faults, length);
        tokio::spawn(world.clone().restart_the_dead());
        tokio::spawn(world.clone().count_leaders());
        tokio::spawn(world.remote.clone().work(world.is_over.clone()));
        tokio::spawn(world.clone().submit_remote_for(length));
        world.keep_schedules(length);
        world.submit_for(length).await;
        // Half of the runs end under faults: nothing may be wrong then. The others end in calm:
        // everything must get done.
        let is_drained = seed.is_multiple_of(2);
        if is_drained {
            world.calm_down();
            world.finds_leaders().await;
            world.buries_the_dead().await;
            world.make_good();
            world.fires_in_time().await;
            world.expires_in_time().await;
            world.drain().await;
            world.probe().await;
        }
        world.is_over.store(true, Ordering::Release);
        let record = &world.database.record;
        let details = world.details();
        record.compare(&details, is_drained);
        record.compare_schedules(&world.kept(), &details);
        Verdict {
            seed,
            hash: record.hash(),
            counts: record.counts(),
            violations: record.violations(),
        }
    }

    /// Starts a process on a machine. The first two machines are in zones, if there are any.
    fn start_machine(&self, index: usize) -> Machine {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let chance = self.chance.fork(100 + number);
        self.database.record.trace(&format!("start {number}"));
        self.database.reopen();
        let zone = ["a", "b"].get(index).copied().filter(|_| self.database.mix.has_zones);
        Machine::start(number as u32, zone, &self.database, &chance)
    }

    /// Starts the crashes of a run that has them.
    fn crash_again_and_again(&self, backend: Backend, length: Duration) {
        let Some(life) = self.database.mix.life else { return };
        let (database, machines) = (self.database.clone(), self.machines.clone());
        let bound = TakeOverBound::of(&database.mix, backend == Backend::Sqlite);
        let (count, chance) = (database.mix.machines, self.chance.fork(16));
        let crashes = Arc::new(CrashLoop { database, machines, life });
        for index in 0..count {
            tokio::spawn(crashes.clone().kill(index, chance.fork(index as u64), length));
        }
        tokio::spawn(crashes.examine(bound, length));
    }

    fn jump_the_clock(&self, faults: Faults, length: Duration) {
        if faults == Faults::ClockJump {
            let (database, schedules) = (self.database.clone(), self.schedules.clone());
            let jump = ClockJump { database, schedules, chance: self.chance.fork(19) };
            tokio::spawn(jump.act(length));
        }
    }

    /// Starts a new process where one has died.
    async fn restart_the_dead(self: Arc<Self>) {
        let chance = self.chance.fork(11);
        while !self.is_over.load(Ordering::Acquire) {
            pass(Duration::from_millis(50)).await;
            for index in 0..self.database.mix.machines {
                let dead = {
                    let machines = self.machines.lock().expect("single thread");
                    Some(machines[index].process.clone()).filter(|process| process.is_dead())
                };
                let Some(dead) = dead else { continue };
                self.database.record.died(dead.number);
                self.database.record.count(|counts| counts.kills += 1);
                pass(chance.ms(0, 1_500)).await;
                let machine = self.start_machine(index);
                self.machines.lock().expect("single thread")[index] = machine;
            }
        }
    }

    /// At no time may two processes trust that they lead.
    async fn count_leaders(self: Arc<Self>) {
        while !self.is_over.load(Ordering::Acquire) {
            pass(Duration::from_millis(40)).await;
            for role in ROLES {
                let leaders = self.leaders(role);
                if leaders.len() > 1 && !self.database.record.is_disturbed(Duration::from_secs(3)) {
                    let what = format!("processes {leaders:?} lead {role} at the same time");
                    self.database.record.violate(what);
                }
            }
        }
    }

    fn leaders(&self, role: &str) -> Vec<u32> {
        let machines = self.machines.lock().expect("single thread");
        let leading = machines.iter().filter(|machine| machine.leads(role));
        leading.map(|machine| machine.process.number).collect()
    }

    /// Somebody looks after each schedule.
    fn keep_schedules(&self, length: Duration) {
        let chance = self.chance.fork(15);
        for number in 0..2 + chance.below(5) {
            let keeper = Keeper {
                schedules: self.schedules.clone(),
                name: format!("schedule {number}"),
                chance: chance.fork(number),
                clock: self.database.clock.clone(),
                has_zones: self.database.mix.has_zones,
            };
            tokio::spawn(keeper.keep(length));
        }
    }

    /// Submits jobs, and calls some of them off.
    async fn submit_for(&self, length: Duration) {
        let chance = self.chance.fork(12);
        let client = Arc::new(Link::connect(self.database.clone(), None, chance.fork(1)));
        let mut sent: Vec<JobId> = Vec::new();
        while self.database.clock.elapsed() < length {
            pass(chance.ms(20, 400)).await;
            let now = self.database.clock.now();
            let job = workload::job(&chance, now, self.database.mix.poison);
            sent.push(job.id);
            self.submit(&client, job);
            if chance.in_thousand(30) {
                self.submit(&client, workload::unserved(&chance, now));
            }
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

    /// Submits jobs for the remote worker.
    async fn submit_remote_for(self: Arc<Self>, length: Duration) {
        let chance = self.chance.fork(17);
        let client = Arc::new(Link::connect(self.database.clone(), None, chance.fork(1)));
        while self.database.clock.elapsed() < length {
            pass(chance.ms(100, 1_500)).await;
            self.submit(&client, remote::job(&chance, self.database.clock.now()));
        }
    }

    /// Submits one job, again and again until there is an answer.
    fn submit(&self, client: &Arc<Connection>, job: NewJob) {
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
                            record.violate(format!(
                                "job {} received the answers {answers:?}",
                                job.id
                            ));
                        }
                        break;
                    }
                    None => pass(Duration::from_millis(100)).await,
                }
            }
            open.fetch_sub(1, Ordering::AcqRel);
        });
    }

    /// The end of all faults. A clock that was set back stays so.
    fn calm_down(&self) {
        let database = &self.database;
        database.is_calm.store(true, Ordering::Release);
        database.record.disturb();
        for machine in self.machines.lock().expect("single thread").iter() {
            machine.connection.cut(false);
            database.record.frozen(machine.process.number);
            machine.process.thaw();
        }
    }

    /// One leads soon after the last fault: a lease has to end, and a node that was declared dead
    /// may have to come back first.
    async fn finds_leaders(&self) {
        let timing = mix::timing();
        let soon = timing.leader_lease + timing.call * 2 + timing.cancel_grace;
        let until = self.database.clock.elapsed() + soon;
        while ROLES.iter().any(|role| self.leaders(role).len() != 1) {
            if self.database.clock.elapsed() > until {
                self.database.record.violate("no leader soon after the last fault".to_owned());
                return;
            }
            pass(timing.beat).await;
        }
    }

    /// Nodes that are no more are found out, and nobody waits until the clock has caught up.
    async fn buries_the_dead(&self) {
        let until = self.database.clock.elapsed() + BURIED_AFTER;
        while let Some(node) = self.unburied() {
            if self.database.clock.elapsed() > until {
                let what =
                    format!("node {} was not declared dead after the faults ended", node.info.name);
                return self.database.record.violate(what);
            }
            pass(mix::timing().beat).await;
        }
    }

    /// A node that counts as alive and that no process lives as.
    fn unburied(&self) -> Option<Node> {
        let machines = self.machines.lock().expect("single thread");
        let live = machines.iter().filter(|machine| !machine.process.is_dead());
        let live = live.filter_map(|machine| Some(machine.engine()?.node()));
        let live: Vec<NodeId> = live.chain(self.remote.node()).collect();
        let nodes = at_once(self.database.store().nodes()).unwrap_or_default();
        nodes.into_iter().find(|node| node.dead_at.is_none() && !live.contains(&node.info.id))
    }

    /// The database's clock has caught up with itself: what was due at some time is due.
    fn make_good(&self) {
        self.database.clock.make_good();
        self.database.record.disturb();
    }

    /// Slots that were left behind are decided soon after the last fault, and those that come are
    /// decided in time.
    async fn fires_in_time(&self) {
        let (clock, record) = (&self.database.clock, &self.database.record);
        let is_stepped = record.counts().steps > 0;
        let soon = SETTLED_AFTER + if is_stepped { BELIEVED_AFTER } else { Duration::ZERO };
        let until = clock.elapsed() + soon;
        while let Some((name, slot)) = self.late_slot() {
            if clock.elapsed() > until {
                return record.violate(format!(
                    "slot {slot} of {name} was not decided after the faults ended"
                ));
            }
            pass(Duration::from_millis(200)).await;
        }
        // While a clock is not believed, slots that come have to wait.
        let until = clock.elapsed() + if is_stepped { Duration::ZERO } else { SETTLED_AFTER };
        while clock.elapsed() < until {
            pass(Duration::from_millis(200)).await;
            if let Some((name, slot)) = self.late_slot() {
                return record
                    .violate(format!("slot {slot} of {name} was late after the faults ended"));
            }
        }
    }

    /// Jobs that may not start any more end soon, also those that no process can claim.
    async fn expires_in_time(&self) {
        let (clock, record) = (&self.database.clock, &self.database.record);
        let chance = self.chance.fork(18);
        let client = Arc::new(Link::connect(self.database.clone(), None, chance.fork(1)));
        for _ in 0..5 {
            self.submit(&client, workload::unserved(&chance, clock.now()));
        }
        let late_job = || record.late_job(clock.now(), EXPIRED_AFTER);
        let is_stepped = record.counts().steps > 0;
        // While a clock is not believed, no job ends because of its deadline.
        let soon = SETTLED_AFTER + if is_stepped { BELIEVED_AFTER } else { Duration::ZERO };
        let until = clock.elapsed() + soon;
        let least = clock.elapsed() + SETTLED_AFTER;
        loop {
            let late = late_job();
            let may_be_late = is_stepped && clock.elapsed() <= until;
            if let Some(job) = late.filter(|_| !may_be_late) {
                let what =
                    format!("job {job} waited past its start deadline after the faults ended");
                return record.violate(what);
            }
            if late.is_none() && clock.elapsed() > least {
                return;
            }
            pass(Duration::from_millis(200)).await;
        }
    }

    /// A slot that should be decided by now.
    fn late_slot(&self) -> Option<(String, Timestamp)> {
        // A leader that does not hear of a change, or of a failover that undid one, finds it when it
        // next looks.
        let looks = self.database.mix.is_deaf || self.database.record.counts().failovers > 0;
        let patience = if looks { mix::timing().schedule } else { Duration::ZERO };
        let patience = patience + Duration::from_secs(1);
        let nodes = at_once(self.database.store().nodes()).unwrap_or_default();
        // Held slots are due as soon as a node can run them, and not when they are examined again.
        let taken_since = |held: &HeldSlots| {
            let is_taker =
                |node: &&Node| node.dead_at.is_none() && node.info.queues.contains(&held.queue);
            let joined_at = nodes.iter().filter(is_taker).map(|node| node.joined_at).min()?;
            Some(joined_at.max(held.since))
        };
        let is_late = |schedule: &Schedule| {
            let due_at = match schedule.held.as_ref().filter(|_| schedule.pause.is_none()) {
                Some(held) => taken_since(held).unwrap_or(held.until),
                None => schedule.due_at()?,
            };
            let due_at = due_at.max(schedule.changed_at);
            (due_at + patience < self.database.clock.now()).then(|| (schedule.name.clone(), due_at))
        };
        self.all_schedules().iter().find_map(is_late)
    }

    fn all_schedules(&self) -> Vec<Schedule> {
        at_once(self.database.store().schedules("", None, limits::PAGE_MAX)).unwrap_or_default()
    }

    /// Waits until everything is done, as long as something gets done: jobs of one schedule may
    /// have to wait for each other. Schedules make no more jobs.
    async fn drain(&self) {
        let clock = &self.database.clock;
        let (mut fewest, mut until) = (usize::MAX, clock.elapsed() + DRAIN_MAX);
        while clock.elapsed() < until {
            let mut is_done = self.open.load(Ordering::Acquire) == 0;
            for schedule in self.all_schedules().iter().filter(|schedule| schedule.enabled) {
                // One that was deleted meanwhile makes no jobs either.
                drop(self.schedules.disable("", &schedule.name, &keeper()).await);
                is_done = false;
            }
            let left = self.jobs().iter().filter(|view| !view.state.is_final()).count();
            if is_done && left == 0 {
                return;
            }
            if left < fewest {
                (fewest, until) = (left, clock.elapsed() + DRAIN_MAX);
            }
            pass(Duration::from_millis(200)).await;
        }
    }

    /// Every machine takes work again, and one of them leads.
    async fn probe(&self) {
        let chance = self.chance.fork(13);
        let client = Arc::new(Link::connect(self.database.clone(), None, chance.fork(1)));
        let begun = self.database.record.begun_by();
        for _ in 0..self.database.mix.machines * MAX_RUNNING * 4 {
            self.submit(&client, workload::plain(&chance, self.database.clock.now()));
        }
        self.drain().await;
        for machine in self.machines.lock().expect("single thread").iter() {
            let number = machine.process.number;
            let before = begun.get(&number).copied().unwrap_or(0);
            let after = self.database.record.begun_by().get(&number).copied().unwrap_or(0);
            if after == before {
                self.database
                    .record
                    .violate(format!("process {number} took no work after the faults ended"));
            }
        }
    }

    /// Every job of the store.
    fn jobs(&self) -> Vec<JobView> {
        let store = &*self.database.store();
        let (mut views, mut after) = (Vec::new(), None);
        while let Ok(page) = at_once(store.jobs(&JobFilter::default(), after, limits::PAGE_MAX)) {
            views.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        views
    }

    /// Everything that the store knows of every job.
    fn details(&self) -> Vec<JobDetail> {
        let store = &*self.database.store();
        let detail = |view: &JobView| at_once(store.job(view.id)).ok().flatten();
        self.jobs().iter().filter_map(detail).collect()
    }

    /// Everything that the store knows of schedules.
    fn kept(&self) -> Kept {
        let store = &*self.database.store();
        let ledger = |id| -> Vec<SlotView> {
            let (mut views, mut after) = (Vec::new(), None);
            while let Ok(page) = at_once(store.slots(id, after, limits::PAGE_MAX)) {
                views.extend(page.items);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            views.reverse();
            views
        };
        let known = self.database.record.schedules();
        Kept {
            schedules: self.all_schedules(),
            ledgers: known.into_iter().map(|id| (id, ledger(id))).collect(),
            changes: at_once(store.leader_changes(SCHEDULER, limits::PAGE_MAX)).unwrap_or_default(),
        }
    }
}
