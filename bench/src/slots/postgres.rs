//! Three nodes on a PostgreSQL server of their own, or behind a pooler. They are killed, frozen and
//! stopped, the leader before all; connections are ended, and the server crashes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_conformance::cluster::{Cluster, Pooler};
use punctual_core::{NodeId, hash};
use punctual_engine::Timing;
use serde_json::json;
use tokio::runtime::Runtime;

use super::oracle::Verdict;
use super::records::{Source, TermRecord};
use super::schedules::{self, Known};
use super::stretches::{Lengths, Quiet};
use super::{conclude, rest, wait_until, wait_until_decided, wait_until_done, wall};
use crate::account::{Life, Log};
use crate::database::Database;
use crate::process::{Heard, Process};
use crate::{Failure, backends};

const NODES: usize = 3;
/// Between two faults, at most.
const PAUSE_MS: u64 = 1_500;
/// The leader stands still for longer than its lease of five seconds, and is not dead to the others.
const FREEZE_MS: u64 = 6_000;
const FREEZE_MORE_MS: u64 = 2_000;
/// A leader begins to decide within a few milliseconds after a slot, and takes some more.
const FIRING_MS: u64 = 12;
/// A role changes hands within this time beside what it has to wait for.
const SLACK: Duration = Duration::from_millis(1_500);
/// What follows a fault is not measured for so long; and for so long after a connection was lost:
/// whoever listens may wait five seconds before it tries again.
const CALM: Duration = Duration::from_secs(2);
const CALM_CONNECTIONS: Duration = Duration::from_secs(6);

/// What is done, dealt in random order, again and again: each kind comes in every round.
const DECK: [Fault; 10] = [
    Fault::KillLeader(Moment::Any),
    Fault::KillLeader(Moment::Firing),
    Fault::KillAny,
    Fault::KillTwo,
    Fault::Freeze(Moment::Idle),
    Fault::Freeze(Moment::Firing),
    Fault::HandOver,
    Fault::Restart,
    Fault::EndConnections,
    Fault::EndConnections,
];

#[derive(Clone, Copy, Debug)]
enum Fault {
    KillLeader(Moment),
    KillAny,
    /// The leader, and one more at once.
    KillTwo,
    Freeze(Moment),
    HandOver,
    Restart,
    EndConnections,
}

/// When, in the second from slot to slot.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Any,
    /// The leader is likely to be about to decide, or to hold a transaction that does.
    Firing,
    /// It has decided.
    Idle,
    /// A leader that wakes now decides beside the one who took over, before it hears of that.
    Waking,
}

/// Causes faults for so long, and at least one of each kind; prints one line of JSON.
pub(crate) fn prove(
    seconds: u64,
    is_pooled: bool,
    seed: u64,
    is_timed: bool,
) -> Result<(), Failure> {
    let mut rig = Rig::new(is_pooled, seed)?;
    let began = wall();
    rig.rage(seconds)?;
    let raged = (wall() - began) / 1_000_000;
    let (before, until) = rig.settle()?;
    let records = rig.source.records(before)?;
    let mut verdict = Verdict::of(&records, &rig.known, &rig.quiet, until);
    if is_timed {
        rig.judge_changes(&mut verdict);
    }
    let done = &rig.done;
    let course = json!({
        "seconds": raged, "seed": seed, "pooled": is_pooled, "nodes": NODES,
        "kills": done.kills, "leader_kills": done.leader_kills, "freezes": done.freezes,
        "terms_lost_frozen": done.terms_lost_frozen, "restarts": done.restarts,
        "longest_outage_ms": done.longest_outage_ms, "backend_kills": done.backend_kills,
        "hand_overs": done.hand_overs, "rejoined": done.rejoined,
        "take_overs": rig.take_overs.count(), "take_over_p50_ms": rig.take_overs.share_ms(50),
        "take_over_worst_ms": rig.take_overs.worst_ms(),
        "hand_over_p50_ms": rig.hand_overs.share_ms(50),
        "hand_over_worst_ms": rig.hand_overs.worst_ms(), "quiet_seconds": rig.quiet.seconds()
    });
    let exercised = [
        "kills",
        "leader_kills",
        "freezes",
        "terms_lost_frozen",
        "restarts",
        "backend_kills",
        "hand_overs",
        "take_overs",
        "quiet_slots",
    ];
    conclude(if is_pooled { "slots-pooled" } else { "slots" }, course, &exercised, verdict)
}

/// Faults so far.
#[derive(Default)]
struct Done {
    kills: u64,
    leader_kills: u64,
    freezes: u64,
    terms_lost_frozen: u64,
    restarts: u64,
    longest_outage_ms: i64,
    backend_kills: u64,
    hand_overs: u64,
    /// Nodes that were declared dead and came back as another.
    rejoined: u64,
}

/// A node's process, and who it says it is.
struct Node {
    heard: Heard,
    id: Arc<Mutex<Option<NodeId>>>,
}

struct Rig {
    // Fields end in this order: nodes first, and the server last.
    nodes: Vec<Node>,
    runtime: Runtime,
    _pooler: Option<Pooler>,
    cluster: Cluster,
    database: Database,
    source: Source,
    known: Vec<Known>,
    log: Arc<Mutex<Log>>,
    started: u64,
    seed: u64,
    drawn: u64,
    done: Done,
    /// No measurement before this instant, in µs.
    calm_from: i64,
    quiet: Quiet,
    take_overs: Lengths,
    hand_overs: Lengths,
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

impl Rig {
    fn new(is_pooled: bool, seed: u64) -> Result<Rig, Failure> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let cluster = Cluster::new(&["max_connections = 200"], None);
        let pooler = is_pooled.then(|| Pooler::before(&cluster));
        let port = pooler.as_ref().map_or(cluster.port, |pooler| pooler.port);
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable");
        let source = Source::Postgres { url: cluster.url(), runtime: runtime.handle().clone() };
        let mut rig = Rig {
            nodes: Vec::new(),
            known: Vec::new(),
            runtime,
            _pooler: pooler,
            cluster,
            database: Database::Postgres { url, is_pooled },
            source,
            log: Arc::default(),
            started: 0,
            seed,
            drawn: 0,
            done: Done::default(),
            calm_from: 0,
            quiet: Quiet::default(),
            take_overs: Lengths::default(),
            hand_overs: Lengths::default(),
        };
        // Behind a pooler nobody would hear of schedules that are made later for half a minute.
        rig.known = rig.runtime.block_on(async {
            schedules::create(Database::direct(rig.cluster.url()).open().await?).await
        })?;
        for _ in 0..NODES {
            let node = rig.start()?;
            rig.nodes.push(node);
        }
        wait_until_decided(&rig.source)?;
        rig.disturbed(CALM);
        Ok(rig)
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.drawn += 1;
        hash::draw(self.seed, self.drawn) % below
    }

    fn start(&mut self) -> Result<Node, Failure> {
        self.started += 1;
        let process = Process::start(&self.database, self.started, &["--serve"])?;
        let id: Arc<Mutex<Option<NodeId>>> = Arc::default();
        let said = id.clone();
        let look = move |life: &Life| {
            *said.lock().unwrap_or_else(PoisonError::into_inner) = life.nodes.last().copied();
        };
        Ok(Node { heard: Heard::begin(process, self.log.clone(), look)?, id })
    }

    /// Causes faults.
    fn rage(&mut self, seconds: u64) -> Result<(), Failure> {
        let end = wall() + micros(Duration::from_secs(seconds));
        let mut is_first = true;
        let began = wall();
        while is_first || wall() < end {
            let mut deck = DECK.to_vec();
            while !deck.is_empty() && (is_first || wall() < end) {
                let fault = deck.swap_remove(self.draw(deck.len() as u64) as usize);
                // For whoever looks on, or has to find out what went wrong.
                let at = |instant: i64| (instant - began) as f64 / 1e6;
                let from = wall();
                self.cause(fault)?;
                eprintln!("{fault:?} from {:.1} to {:.1} s, at {from}", at(from), at(wall()));
                self.look_after()?;
                // Most faults come when the one before is over, some upon each other.
                if self.draw(10) < 7 {
                    wait_until_decided(&self.source)?;
                }
                let pause = self.draw(PAUSE_MS);
                rest(Duration::from_millis(pause));
            }
            is_first = false;
        }
        Ok(())
    }

    fn cause(&mut self, fault: Fault) -> Result<(), Failure> {
        match fault {
            Fault::KillLeader(moment) => self.kill_leader(moment),
            Fault::KillAny => {
                let slot = self.draw(NODES as u64) as usize;
                self.kill(slot)
            }
            Fault::KillTwo => {
                let slot = self.leader()?.map_or(0, |(slot, _)| slot);
                self.kill(slot)?;
                self.kill((slot + 1) % NODES)
            }
            Fault::Freeze(moment) => self.freeze_leader(moment),
            Fault::HandOver => self.hand_over(),
            Fault::Restart => self.restart(),
            Fault::EndConnections => self.end_connections(),
        }
    }

    /// Nobody ends by itself.
    fn look_after(&self) -> Result<(), Failure> {
        match self.nodes.iter().position(|node| node.heard.is_over()) {
            Some(slot) => Err(format!("node {slot} exited unexpectedly").into()),
            None => Ok(()),
        }
    }

    /// Something was done whose effects last for so long at most.
    fn disturbed(&mut self, length: Duration) {
        self.calm_from = self.calm_from.max(wall() + micros(length));
    }

    /// Waits until nothing is the matter any more, so that what follows can be measured.
    fn calm(&mut self) -> Result<(usize, TermRecord), Failure> {
        loop {
            wait_until_decided(&self.source)?;
            let from = wall();
            let left = self.calm_from - from;
            if left > 0 {
                rest(Duration::from_micros(left.unsigned_abs()));
            }
            let found = self.leader()?;
            self.quiet.note(from, wall());
            // Whoever leads may not have said its name yet.
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    /// Which process leads, and under which term.
    fn leader(&self) -> Result<Option<(usize, TermRecord)>, Failure> {
        let Ok(mut terms) = self.source.terms() else { return Ok(None) };
        let Some(term) = terms.pop() else { return Ok(None) };
        let leads = |node: &Node| {
            let id = *node.id.lock().unwrap_or_else(PoisonError::into_inner);
            id.is_some_and(|id| *id.as_bytes() == term.node)
        };
        Ok(self.nodes.iter().position(leads).map(|slot| (slot, term)))
    }

    /// When the term after this one began.
    fn next_term(&self, term: &TermRecord) -> Result<i64, Failure> {
        let next = || {
            let terms = self.source.terms()?;
            Ok::<_, Failure>(terms.iter().find(|next| next.term > term.term).map(|next| next.at))
        };
        wait_until("another node takes over", || Ok(next()?.is_some()))?;
        Ok(next()?.ok_or("an existing term was not found")?)
    }

    fn kill(&mut self, slot: usize) -> Result<(), Failure> {
        let next = self.start()?;
        let mut node = std::mem::replace(&mut self.nodes[slot], next);
        node.heard.process.kill()?;
        self.done.kills += 1;
        self.disturbed(CALM);
        match node.heard.end()? {
            (None, life) => {
                self.done.rejoined += life.nodes.len().saturating_sub(1) as u64;
                Ok(())
            }
            (Some(code), _) => Err(format!("a node exited unexpectedly with code {code}").into()),
        }
    }

    /// Waits for a moment in the second from slot to slot.
    fn wait_for(&mut self, moment: Moment) {
        let offset = match moment {
            Moment::Any => return,
            Moment::Firing => self.draw(FIRING_MS),
            Moment::Idle => 200 + self.draw(600),
            Moment::Waking => 1_000 - FIRING_MS / 2 + self.draw(FIRING_MS),
        };
        let passed = wall().rem_euclid(1_000_000);
        let left = (offset as i64 * 1_000 - passed).rem_euclid(1_000_000);
        rest(Duration::from_micros(left.unsigned_abs()));
    }

    fn kill_leader(&mut self, moment: Moment) -> Result<(), Failure> {
        let (slot, term) = self.calm()?;
        self.wait_for(moment);
        let at = wall();
        self.kill(slot)?;
        self.done.leader_kills += 1;
        let taken = self.next_term(&term)?;
        self.take_overs.note(taken - at);
        Ok(())
    }

    /// The leader stands still until another leads, and goes on in the belief that it does, just
    /// when both have to decide.
    fn freeze_leader(&mut self, moment: Moment) -> Result<(), Failure> {
        let (slot, term) = self.calm()?;
        let length = FREEZE_MS + self.draw(FREEZE_MORE_MS);
        self.wait_for(moment);
        self.nodes[slot].heard.process.freeze()?;
        rest(Duration::from_millis(length));
        let has_lost = self.source.terms()?.iter().any(|next| next.term > term.term);
        self.wait_for(Moment::Waking);
        self.nodes[slot].heard.process.thaw()?;
        self.done.freezes += 1;
        self.done.terms_lost_frozen += u64::from(has_lost);
        self.disturbed(CALM);
        Ok(())
    }

    /// The leader is told to stop, as for a new release.
    fn hand_over(&mut self) -> Result<(), Failure> {
        let (slot, term) = self.calm()?;
        let node = self.nodes.remove(slot);
        let at = wall();
        node.heard.process.stop()?;
        let taken = self.next_term(&term)?;
        self.hand_overs.note(taken - at);
        // Not before: whoever has just been started asks for the role without being told.
        let next = self.start()?;
        self.nodes.push(next);
        self.done.hand_overs += 1;
        self.disturbed(CALM);
        self.end(node)
    }

    fn end(&mut self, node: Node) -> Result<(), Failure> {
        let (code, life) = node.heard.end()?;
        if (code, life.unsettled) != (Some(0), Some(0)) {
            let unsettled = life.unsettled;
            return Err(format!("a node exited with {code:?}, unsettled: {unsettled:?}").into());
        }
        self.done.rejoined += life.nodes.len().saturating_sub(1) as u64;
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Failure> {
        let began = wall();
        self.cluster.crash();
        let away = self.draw(1_500);
        rest(Duration::from_millis(away));
        self.cluster.start();
        self.done.restarts += 1;
        let outage = (wall() - began) / 1_000;
        self.done.longest_outage_ms = self.done.longest_outage_ms.max(outage);
        self.disturbed(CALM_CONNECTIONS);
        Ok(())
    }

    fn end_connections(&mut self) -> Result<(), Failure> {
        let (most, salt) = (1 + self.draw(12) as i64, self.draw(1 << 20) as i32);
        let url = self.cluster.url();
        self.done.backend_kills += self.runtime.block_on(async {
            let client = backends::connect(&url).await?;
            backends::end_some(&client, most, salt).await
        })?;
        self.disturbed(CALM_CONNECTIONS);
        Ok(())
    }

    /// Lets the nodes finish, and stops them: from when all jobs have ended, and until when all slots
    /// are decided.
    fn settle(&mut self) -> Result<(i64, i64), Failure> {
        self.calm()?;
        let from = wall();
        let before = wait_until_done(&self.source)?;
        wait_until_decided(&self.source)?;
        let until = wall();
        self.quiet.note(from, until);
        self.look_after()?;
        let nodes = std::mem::take(&mut self.nodes);
        for node in &nodes {
            node.heard.process.stop()?;
        }
        nodes.into_iter().try_for_each(|node| self.end(node))?;
        Ok((before, until))
    }

    /// Roles change hands in time.
    fn judge_changes(&self, verdict: &mut Verdict) {
        let lease = Timing::default().leader_lease;
        // Behind a pooler nobody hears of a resignation, but each beat tells of it.
        for (what, lengths, most) in [
            ("a take-over", &self.take_overs, lease + SLACK),
            ("a hand-over", &self.hand_overs, SLACK),
        ] {
            let worst = lengths.worst_ms().unwrap_or(0);
            if worst > micros(most) / 1_000 {
                verdict.breaks(format!("{what} took {worst} ms, the limit is {most:?}"));
            }
        }
    }
}
