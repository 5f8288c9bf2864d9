//! Which nodes run the jobs of a schedule: each what is its own.

use std::sync::{Arc, Mutex};

use punctual_core::job::{Outcome, SlotOutcome};
use punctual_core::schedule::Definition;
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
    assert_eq!(ran.take(), ["every on a", "every on b", "every on c", "named on b", "zoned on c"]);

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
    assert_eq!(told[1], ["fired 0 ", "fired 0 ", "missed 0 no live node is named `b`"]);
    assert_eq!(told[2], ["missed 0 no live node has label zone=asia", "fired 0 ", "fired 0 "]);
    drop(c);
}
