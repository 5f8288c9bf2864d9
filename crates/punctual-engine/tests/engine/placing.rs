//! Which nodes run the jobs of a schedule: each what is its own.

use std::sync::{Arc, Mutex};

use punctual_core::job::{Outcome, SlotOutcome};
use punctual_core::schedule::{Definition, Missed, Overlap};
use punctual_engine::{Attempt, Config, Ended, Handler, SCHEDULER, Schedules};
use punctual_store::{SlotView, Store};

use crate::scheduling::ana;
use crate::world::{World, config, on, s};

/// Who ran what, in order.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<Vec<String>>>);

impl Ran {
    fn by(&self, node: &'static str) -> impl Handler + use<> {
        let ran = self.clone();
        move |attempt: Attempt| {
            let schedule = attempt.fired().expect("a slot made it").facts.name;
            ran.0.lock().unwrap().push(format!("{schedule} on {node}"));
            async { Ended::from(Outcome::Done) }
        }
    }

    /// What was run since the last time, sorted.
    fn take(&self) -> Vec<String> {
        let mut ran = std::mem::take(&mut *self.0.lock().unwrap());
        ran.sort_unstable();
        ran
    }
}

fn in_zone(name: &str, zone: &str) -> Config {
    Config { labels: vec![("zone".to_owned(), zone.to_owned())], ..config(name, 10) }
}

/// Three nodes, of which one joins and one leaves while schedules fire.
#[tokio::test(start_paused = true)]
async fn nodes_run_what_is_theirs_while_one_joins_and_one_leaves() {
    let world = World::new();
    let ran = Ran::default();
    let a = world.start(in_zone("a", "eu"), on("mail", ran.by("a"))).await;
    world.soon(a.leadership(SCHEDULER).won()).await;
    let b = world.start(in_zone("b", "us"), on("mail", ran.by("b"))).await;
    let schedules = Schedules::new(world.env.clone(), Arc::new(world.memory.clone()));
    let mut ids = Vec::new();
    for (name, run_on) in
        [("every", "every_node"), ("named", "node b"), ("zoned", "label zone=asia")]
    {
        let run_on = run_on.to_owned();
        let definition = Definition { run_on, ..Definition::new("@every 10s", "mail") };
        ids.push(schedules.create("", name, "ops", &definition, &ana()).await.unwrap().id);
    }
    world.pass(s(15)).await;
    assert_eq!(ran.take(), ["every on a", "every on b", "named on b"]);

    let c = world.start(in_zone("c", "asia"), on("mail", ran.by("c"))).await;
    world.pass(s(10)).await;
    assert_eq!(
        ran.take(),
        ["every on a", "every on b", "every on c", "named on b", "zoned on c", "zoned on c"],
        "the slot that waited for c as well"
    );

    b.stop();
    world.soon(b.stopped()).await;
    world.pass(s(10)).await;
    assert_eq!(ran.take(), ["every on a", "every on c", "zoned on c"]);

    let row = |view: &SlotView| {
        let reason = view.reason.clone().unwrap_or_default();
        format!("{} {} {reason}", view.outcome, view.run)
    };
    let mut told = Vec::new();
    for id in &ids {
        let mut slots = world.memory.slots(*id, None, 100).await.unwrap().items;
        slots.reverse();
        assert!(
            slots.iter().all(|view| view.job.is_some() == (view.outcome == SlotOutcome::Fired))
        );
        told.push(slots.iter().map(row).collect::<Vec<_>>());
    }
    // A ledger is told newest first, and of one slot the first row first.
    assert_eq!(told[0].len(), 2 + 3 + 2);
    assert_eq!(told[0][..2], ["fired -1 for node `b`", "fired 0 for node `a`"]);
    // The ledger is in the order of slots: the first slot of `zoned` waited for node c.
    assert_eq!(told[1..], [vec!["fired 0 "; 2], vec!["fired 0 "; 3]]);
    let named = world.memory.schedule(ids[1]).await.unwrap().unwrap();
    assert_eq!(named.held.map(|held| held.queue).as_deref(), Some("@b"));
    drop(c);
}

/// A clean restart delays the slots of a node like a crash: they run when it is back.
#[tokio::test(start_paused = true)]
async fn slots_that_are_due_while_their_node_restarts_run_when_it_is_back() {
    let world = World::new();
    let ran = Ran::default();
    let leader = world.start(config("leader", 10), on("mail", ran.by("leader"))).await;
    world.soon(leader.leadership(SCHEDULER).won()).await;
    let schedules = Schedules::new(world.env.clone(), Arc::new(world.memory.clone()));
    let definition = Definition {
        run_on: "node b".to_owned(),
        missed: Missed::All,
        overlap: Overlap::Allow,
        ..Definition::new("@every 10s", "mail")
    };
    let id = schedules.create("", "named", "ops", &definition, &ana()).await.unwrap().id;
    let mut slots = 0;
    for kills in [false, true] {
        let b = world.start(config("b", 10), on("mail", ran.by("b"))).await;
        world.pass(s(15)).await;
        slots += ran.take().len();
        match kills {
            true => world.kill(b).await,
            false => {
                b.stop();
                world.soon(b.stopped()).await;
            }
        }
        world.pass(s(25)).await;
        assert_eq!(ran.take(), [""; 0]);
    }
    let b = world.start(config("b", 10), on("mail", ran.by("b"))).await;
    world.pass(s(1)).await;
    slots += ran.take().len();
    let mut ledger = world.memory.slots(id, None, 100).await.unwrap().items;
    ledger.reverse();
    assert_eq!(ledger.len(), slots, "each slot ran once");
    assert!(ledger.iter().all(|view| view.outcome == SlotOutcome::Fired && view.count == 1));
    assert!(ledger.windows(2).all(|pair| pair[1].slot.since(pair[0].slot) == s(10)));
    drop(b);
}
