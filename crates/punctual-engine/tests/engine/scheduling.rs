//! Schedules: fired on time by whoever leads, each slot once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_conformance::Fault;
use punctual_core::job::{JobState, Outcome, SlotOutcome};
use punctual_core::schedule::{Definition, Facts, Missed, Overlap};
use punctual_core::{ScheduleId, Timestamp};
use punctual_engine::{
    Attempt, Ended, Fired, Handler, SCHEDULER, ScheduleError, Schedules, Timing,
};
use punctual_store::{
    Actor, At, EditAnswer, ErrorKind, PassedSlots, Schedule, ScheduleChange, SlotView, Store,
    limits,
};

use crate::world::{
    Gate, Line, START, World, config, done, hangs, ms, on, producer, s, serving, timing,
};

pub(crate) fn ana() -> Actor {
    Actor::new("ana", "needed")
}

fn schedules(world: &World) -> Schedules {
    Schedules::new(world.env.clone(), Arc::new(world.memory.clone()))
}

/// Every ten seconds, counted from the start of the test.
fn often() -> Definition {
    Definition::new("@every 10s", "mail")
}

async fn create(world: &World, name: &str, definition: &Definition) -> Schedule {
    schedules(world).create("", name, "ops", definition, &ana()).await.unwrap()
}

async fn ledger(world: &World, id: ScheduleId) -> Vec<SlotView> {
    let mut slots = world.memory.slots(id, None, 500).await.unwrap().items;
    slots.reverse();
    slots
}

/// Seconds from the start, and what became of each slot.
async fn told(world: &World, id: ScheduleId) -> Vec<(u64, u64, SlotOutcome)> {
    let told = |view: &SlotView| (view.slot.since(START).as_secs(), view.count, view.outcome);
    ledger(world, id).await.iter().map(told).collect()
}

/// What handlers were told of their slots.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(Duration, Fired)>>>);

impl Seen {
    fn handler(&self, world: &World) -> impl Handler + use<> {
        let (seen, env) = (self.clone(), world.env.clone());
        move |attempt: Attempt| {
            let fired = attempt.fired().expect("a slot made it");
            let now = punctual_engine::Env::elapsed(&*env);
            seen.0.lock().unwrap().push((now, fired));
            async { Ended::from(Outcome::Done) }
        }
    }

    fn take(&self) -> Vec<(Duration, Fired)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn each_slot_fires_when_it_is_due_and_its_handler_is_told_so() {
    let world = World::new();
    let seen = Seen::default();
    let node = world.start(config("a", 3), on("mail", seen.handler(&world))).await;
    let schedule = create(&world, "mails", &often()).await;
    world.soon(node.leadership(SCHEDULER).won()).await;
    let began = world.now();
    world.pass(s(35)).await;
    let fired = seen.take();
    assert_eq!(fired.len(), 3, "{fired:?}");
    for (number, (at, fired)) in (1..).zip(fired) {
        assert_eq!(fired.slot, Some(START + s(10 * number)));
        assert!(at - began <= s(10 * number) + ms(50), "{at:?}");
        assert!(fired.late_by < ms(50), "{:?}", fired.late_by);
        let facts = Facts {
            name: "mails".to_owned(),
            revision: 1,
            when: vec!["@every 10s".to_owned()],
            tz: "UTC".to_owned(),
            caught_up: false,
            missed_count: 0,
            backoff: None,
        };
        assert_eq!((fired.schedule, fired.facts), (schedule.id, facts));
    }
    let ledger = ledger(&world, schedule.id).await;
    assert!(ledger.iter().all(|view| view.decided_at.since(view.slot) < ms(20)), "{ledger:?}");
    assert!(ledger.iter().all(|view| view.node == node.node() && view.term == 1));
}

/// With a backlog after an outage, a transaction that the database cannot finish in time is repeated with
/// half of its schedules, and a fresh slot is in each of them.
#[tokio::test(start_paused = true)]
async fn a_fire_that_takes_too_long_is_sent_again_with_half_of_its_schedules_and_the_fresh_one() {
    let world = World::new();
    let mut late = Vec::new();
    for number in 0..limits::FIRE_MAX + 100 {
        let hourly = Definition::new("@every 1h", "mail");
        late.push(create(&world, &format!("late {number}"), &hourly).await);
    }
    world.pass(s(3_700)).await;
    let fresh = create(&world, "fresh", &often()).await;
    world.pass(s(12)).await;
    let line = Arc::<Line>::default();
    let mut script = [Fault::Timeout, Fault::Timeout, Fault::None].into_iter();
    line.suffer(move |method| match method {
        "fire" => script.next().unwrap_or(Fault::Request),
        _ => Fault::None,
    });
    let _engine = world.start_on(&line, config("a", 3), on("mail", done)).await;
    world.until("a fire is applied and the next one is sent", || line.calls("fire") > 3).await;
    assert!(!ledger(&world, fresh.id).await.is_empty());
    let mut decided = 0;
    for schedule in &late {
        decided += usize::from(!ledger(&world, schedule.id).await.is_empty());
    }
    assert_eq!(decided, limits::FIRE_MAX / 4 - 1);
}

/// The search for schedules that are ahead of the clock is a diagnosis: no slot waits for it, whether it
/// fails or does not end, and it is repeated until it succeeds.
#[tokio::test(start_paused = true)]
async fn slots_fire_while_the_search_for_schedules_ahead_fails() {
    for fault in [Fault::Request, Fault::Silence] {
        let world = World::new();
        let schedule = create(&world, "mails", &often()).await;
        let line = Arc::<Line>::default();
        line.fail(&["schedules_ahead"], fault);
        let node = world.start_on(&line, config("a", 3), on("mail", done)).await;
        world.soon(node.leadership(SCHEDULER).won()).await;
        world.pass(s(25)).await;
        let ledger = ledger(&world, schedule.id).await;
        assert_eq!(ledger.len(), 2, "{ledger:?}");
        assert!(ledger.iter().all(|view| view.decided_at.since(view.slot) < ms(20)), "{ledger:?}");
        assert!(line.calls("schedules_ahead") > 1);
        line.heal();
        world.pass(s(5)).await;
        line.take_calls();
        world.pass(s(60)).await;
        assert_eq!(line.calls("schedules_ahead"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_is_made_or_changed_is_fired_without_delay() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.soon(node.leadership(SCHEDULER).won()).await;
    world.pass(s(100)).await;
    let yearly = Definition::new("@yearly", "mail");
    let schedule = create(&world, "mails", &yearly).await;
    world.pass(s(4)).await;
    assert_eq!(told(&world, schedule.id).await, []);
    schedules(&world).define("", "mails", &often(), None, &ana()).await.unwrap();
    world.pass(s(7)).await;
    assert_eq!(told(&world, schedule.id).await, [(110, 1, SlotOutcome::Fired)]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_leader_asks_only_twice_a_minute() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    create(&world, "mails", &Definition::new("@yearly", "mail")).await;
    world.pass(s(60)).await;
    node.line.take_calls();
    world.pass(s(600)).await;
    assert_eq!(node.line.calls("due"), 20);
    assert_eq!(node.line.calls("fire"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_looks_for_what_nobody_told_of() {
    let world = World::new();
    let short = Timing { schedule: s(3), ..timing() };
    let settings = punctual_engine::Config { timing: short, ..config("a", 3) };
    let node = world.start(settings, on("mail", done)).await;
    world.pass(s(60)).await;
    node.line.take_calls();
    world.pass(s(60)).await;
    assert_eq!(node.line.calls("due"), 20);
}

#[tokio::test(start_paused = true)]
async fn only_a_node_that_schedules_fires() {
    let world = World::new();
    let idle = punctual_engine::Config { schedules: false, ..config("a", 3) };
    let node = world.start(idle, on("mail", done)).await;
    let schedule = create(&world, "mails", &often()).await;
    world.pass(s(25)).await;
    assert_eq!(told(&world, schedule.id).await, []);
    assert_eq!(node.line.calls("due"), 0);
    let _other = world.start(producer("b"), Default::default()).await;
    world.pass(s(10)).await;
    let fired = told(&world, schedule.id).await;
    assert_eq!(fired.iter().map(|(_, count, _)| count).sum::<u64>(), 3, "{fired:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_another_takes_over_within_the_lease() {
    let world = World::new();
    let one = world.start(config("a", 3), on("mail", done)).await;
    world.soon(one.leadership(SCHEDULER).won()).await;
    let schedule = create(
        &world,
        "mails",
        &Definition {
            seconds: true,
            overlap: Overlap::Allow,
            missed: Missed::All,
            ..Definition::new("* * * * * *", "mail")
        },
    )
    .await;
    let other = world.start(config("b", 3), on("mail", done)).await;
    world.pass(s(5)).await;
    let before = told(&world, schedule.id).await.len();
    world.kill(one).await;
    let died = world.now();
    world.soon(other.leadership(SCHEDULER).won()).await;
    assert!(world.now() - died <= timing().leader_lease + ms(1_500));
    world.pass(s(5)).await;
    let told = told(&world, schedule.id).await;
    assert!(told.len() > before + 5);
    let seconds: Vec<u64> = told.iter().map(|(second, ..)| *second).collect();
    assert!(seconds.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seconds:?}");
    assert!(told.iter().all(|(_, _, outcome)| *outcome == SlotOutcome::Fired));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_hands_over_at_once() {
    let world = World::new();
    let one = world.start(config("a", 3), on("mail", done)).await;
    world.soon(one.leadership(SCHEDULER).won()).await;
    let other = world.start(config("b", 3), on("mail", done)).await;
    world.pass(s(10)).await;
    let asked = world.now();
    one.stop();
    world.soon(other.leadership(SCHEDULER).won()).await;
    assert!(world.now() - asked < ms(300), "{:?}", world.now() - asked);
    let report = other.leaders().await.unwrap();
    let role = report.iter().find(|role| role.leader.fence.role == SCHEDULER).unwrap();
    assert!(role.is_led);
    assert_eq!(role.leader.node, other.node());
    assert_eq!(role.changes.len(), 2);
    assert_eq!((role.changes[0].term, role.changes[1].term), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_fires_nothing_twice() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.soon(node.leadership(SCHEDULER).won()).await;
    let schedule = create(&world, "mails", &often()).await;
    let mut lost = 0;
    node.line.suffer(move |method| {
        lost += usize::from(method == "fire");
        if method == "fire" && lost <= 2 { Fault::Reply } else { Fault::None }
    });
    world.pass(s(45)).await;
    let slots = [10, 20, 30, 40].map(|second| (second, 1, SlotOutcome::Fired));
    assert_eq!(told(&world, schedule.id).await, slots);
    assert_eq!(world.stats("mail").await.failed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_while_costs_no_slot() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.soon(node.leadership(SCHEDULER).won()).await;
    let everything = Definition { missed: Missed::All, overlap: Overlap::Allow, ..often() };
    let schedule = create(&world, "mails", &everything).await;
    world.pass(s(15)).await;
    node.line.cut();
    world.pass(s(200)).await;
    node.line.heal();
    world.pass(s(30)).await;
    let told = told(&world, schedule.id).await;
    let seconds: Vec<u64> = told.iter().map(|(second, ..)| *second).collect();
    assert_eq!(seconds, (1..=24).map(|number| number * 10).collect::<Vec<_>>());
    assert!(told.iter().any(|(_, _, outcome)| *outcome == SlotOutcome::CaughtUp));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_cannot_be_read_is_set_aside_and_can_be_mended() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.soon(node.leadership(SCHEDULER).won()).await;
    let schedule = create(&world, "mails", &often()).await;
    let bad = ScheduleChange::Define {
        spec: punctual_store::Json::parse(
            r#"{"when": ["@daily"], "tz": "Mars/Olympus", "job": {"kind": "mail"}}"#,
        )
        .unwrap(),
        owner: String::new(),
        next_slot: Some(START + s(20)),
        passed: PassedSlots::default(),
    };
    let who = ana();
    world.memory.change_schedule(At::Database, schedule.id, 1, &bad, &who).await.unwrap();
    world.pass(s(45)).await;
    let aside = schedules(&world).get("", "mails").await.unwrap().set_aside.unwrap();
    assert!(aside.contains("Mars/Olympus"), "{aside}");
    schedules(&world).define("", "mails", &often(), None, &ana()).await.unwrap();
    world.pass(s(10)).await;
    // Of what was due meanwhile only the watermark is known.
    let expected = [(20, 1, SlotOutcome::Missed), (50, 1, SlotOutcome::Fired)];
    assert_eq!(told(&world, schedule.id).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_for_the_one_before_it_and_starts_when_that_ends() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.start(config("a", 3), on("mail", gate.handler())).await;
    world.soon(node.leadership(SCHEDULER).won()).await;
    let queued = Definition { overlap: Overlap::QueueAll, ..often() };
    let schedule = create(&world, "mails", &queued).await;
    world.pass(s(35)).await;
    assert_eq!(gate.began().len(), 1);
    assert_eq!(world.stats("mail").await.running, 1);
    gate.open(1);
    world.pass(ms(100)).await;
    assert_eq!(gate.began().len(), 2);
    let jobs: Vec<_> =
        ledger(&world, schedule.id).await.iter().map(|view| view.job.unwrap()).collect();
    assert_eq!(gate.began(), jobs[..2]);
    assert_eq!(world.state(jobs[2]).await, JobState::Blocked);
}

#[tokio::test(start_paused = true)]
async fn the_newest_slot_calls_off_the_job_before_it() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", hangs)).await;
    world.soon(node.leadership(SCHEDULER).won()).await;
    let newest = Definition { overlap: Overlap::CancelRunning, ..often() };
    let schedule = create(&world, "mails", &newest).await;
    world.pass(s(29)).await;
    let jobs: Vec<_> =
        ledger(&world, schedule.id).await.iter().map(|view| view.job.unwrap()).collect();
    assert_eq!(jobs.len(), 2);
    assert_eq!(world.state(jobs[0]).await, JobState::Cancelled);
    assert_eq!(world.state(jobs[1]).await, JobState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_leaps_ahead_does_not_fire_what_lies_ahead() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    world.soon(node.leadership(SCHEDULER).won()).await;
    let schedule = create(&world, "mails", &often()).await;
    world.pass(s(15)).await;
    world.skip_days(1);
    world.pass(s(30)).await;
    assert!(!node.health().is_clock_trusted);
    let held = node.health().held_clock.unwrap();
    assert!((held.ahead.as_secs_f64() - 86_400.0).abs() < 2.0, "{held:?}");
    assert!(held.since >= START + s(14) && held.since <= START + s(17), "{held:?}");
    let last = ledger(&world, schedule.id).await.last().unwrap().slot;
    assert!(last <= START + s(45 + 60), "{last}");
    world.pass(s(150)).await;
    assert!(node.health().is_clock_trusted);
    let last = ledger(&world, schedule.id).await.last().unwrap().slot;
    assert!(last > START + s(86_400), "{last}");
}

/// It may never have led: it knows from its heartbeats what the clock said before.
#[tokio::test(start_paused = true)]
async fn nor_does_whoever_takes_over_after_the_leap() {
    let world = World::new();
    let first = world.start(config("a", 3), on("mail", done)).await;
    world.soon(first.leadership(SCHEDULER).won()).await;
    let second = world.start(config("b", 3), on("mail", done)).await;
    let schedule = create(&world, "mails", &often()).await;
    world.pass(s(15)).await;
    world.skip_days(1);
    world.kill(first).await;
    world.soon(second.leadership(SCHEDULER).won()).await;
    world.pass(s(30)).await;
    assert!(!second.health().is_clock_trusted);
    let last = ledger(&world, schedule.id).await.last().unwrap().slot;
    assert!(last <= START + (world.now() - s(3_600)) + s(60), "{last}");
    world.pass(s(150)).await;
    assert!(second.health().is_clock_trusted);
    let last = ledger(&world, schedule.id).await.last().unwrap().slot;
    assert!(last > START + s(86_400), "{last}");
}

#[tokio::test(start_paused = true)]
async fn after_a_failover_nothing_is_fired_for_a_lease_and_then_all_of_it() {
    let world = World::new();
    let node = world.start(config("a", 3), on("mail", done)).await;
    let leads = node.leadership(SCHEDULER);
    let fence = world.soon(leads.won()).await;
    let schedule = create(&world, "mails", &often()).await;
    world.pass(ms(16_800)).await;
    let copy = world.memory.snapshot();
    world.pass(ms(1_500)).await;
    assert!(node.health().is_history_trusted);
    world.memory.restore(copy);
    world.until("it is noticed", || !node.health().is_history_trusted).await;
    let noticed = world.now();
    // Its term is there in the new history as well.
    assert_eq!(leads.term(), Some(fence));
    world.pass(s(3)).await;
    assert_eq!(told(&world, schedule.id).await, [(10, 1, SlotOutcome::Fired)]);
    world.until("it goes on", || node.health().is_history_trusted).await;
    assert!(world.now() - noticed + ms(10) >= timing().leader_lease);
    world.pass(ms(100)).await;
    let both = [(10, 1, SlotOutcome::Fired), (20, 1, SlotOutcome::Fired)];
    assert_eq!(told(&world, schedule.id).await, both);
}

#[tokio::test(start_paused = true)]
async fn a_change_decides_what_it_would_leave_undecided() {
    let world = World::new();
    let all = schedules(&world);
    let schedule = create(&world, "mails", &often()).await;
    world.pass(s(35)).await;
    all.pause("", "mails", Some(START + s(55)), &ana()).await.unwrap();
    world.pass(s(40)).await;
    all.define("", "mails", &Definition::new("@every 7s", "mail"), None, &ana()).await.unwrap();
    world.pass(s(10)).await;
    all.disable("", "mails", &ana()).await.unwrap();
    world.pass(s(100)).await;
    all.enable("", "mails", &ana()).await.unwrap();
    world.pass(s(10)).await;
    all.delete("", "mails", &ana()).await.unwrap();
    use SlotOutcome::{Missed, SkippedPaused};
    let every_seven =
        |from: u64| (from..).find(|second| (1_800_000_000 + second) % 7 == 0).unwrap();
    assert_eq!(
        told(&world, schedule.id).await,
        [
            (10, 3, Missed),
            (40, 2, SkippedPaused),
            (60, 2, Missed),
            (every_seven(76), 1 + u64::from(every_seven(76) + 7 <= 85), Missed),
            (every_seven(186), 1 + u64::from(every_seven(186) + 7 <= 195), Missed),
        ]
    );
    let gone = all.get("", "mails").await.unwrap_err();
    assert_eq!(gone, ScheduleError::NotFound("mails".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_is_refused_and_nothing_is_stored() {
    let world = World::new();
    let all = schedules(&world);
    let refused = |definition: Definition| {
        let all = all.clone();
        async move { all.create("", "mails", "", &definition, &ana()).await.unwrap_err().to_string() }
    };
    let zone = Definition { tz: "Europe/Pariss".to_owned(), ..often() };
    assert_eq!(
        refused(zone).await,
        "`tz`: unknown time zone `Europe/Pariss`; did you mean `Europe/Paris`?"
    );
    let never = Definition::new("0 0 30 2 *", "mail");
    assert_eq!(
        refused(never).await,
        "`when`: the schedule never fires: day 30 does not exist in February"
    );
    let window = Definition {
        start: Some("2028-01-01T00:00:00Z".to_owned()),
        end: Some("2027-01-01T00:00:00Z".to_owned()),
        ..often()
    };
    assert!(refused(window).await.starts_with("`end`: 2027-01-01T00:00:00Z is before `start`"));
    let nameless = Definition::new("@daily", "");
    assert_eq!(refused(nameless).await, "`job.kind`: kind must not be empty; set a value");
    assert_eq!(world.memory.schedules("", None, 10).await.unwrap(), []);
    create(&world, "mails", &often()).await;
    let taken = all.create("", "mails", "", &often(), &ana()).await.unwrap_err();
    assert!(matches!(taken, ScheduleError::Store(error) if error.kind() == ErrorKind::Conflict));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_can_be_run_by_hand_beside_its_slots() {
    let world = World::new();
    let seen = Seen::default();
    let node =
        world.start(serving(&["default"], config("a", 3)), on("mail", seen.handler(&world))).await;
    world.soon(node.leadership(SCHEDULER).won()).await;
    let schedule = create(&world, "mails", &Definition::new("@yearly", "mail")).await;
    let job = schedules(&world).run("", "mails").await.unwrap();
    world.comes_to(job, JobState::Succeeded).await;
    let (_, fired) = seen.take().remove(0);
    assert_eq!((fired.slot, fired.late_by), (None, Duration::ZERO));
    assert_eq!(fired.facts.name, "mails");
    assert_eq!(told(&world, schedule.id).await, []);
}

#[tokio::test(start_paused = true)]
async fn jitter_spreads_jobs_and_not_slots() {
    let world = World::new();
    let seen = Seen::default();
    let node = world.start(config("a", 3), on("mail", seen.handler(&world))).await;
    world.soon(node.leadership(SCHEDULER).won()).await;
    let spread = Definition { jitter: "5s".to_owned(), ..often() };
    create(&world, "mails", &spread).await;
    let rule = spread.rule("mails").unwrap();
    world.pass(s(36)).await;
    let fired = seen.take();
    assert_eq!(fired.len(), 3);
    for (_, fired) in fired {
        let slot: Timestamp = fired.slot.unwrap();
        let wait = rule.spec.jitter("mails", slot, s(5));
        assert!(
            fired.late_by >= wait && fired.late_by < wait + ms(50),
            "{:?} {wait:?}",
            fired.late_by
        );
    }
}

/// They are made at once, so that their ids sort by chance.
#[tokio::test(start_paused = true)]
async fn jobs_that_wait_for_one_another_run_in_the_order_of_their_slots() {
    let world = World::new();
    let queued = Definition {
        seconds: true,
        overlap: Overlap::QueueAll,
        ..Definition::new("* * * * * *", "mail")
    };
    create(&world, "mails", &queued).await;
    world.pass(s(30)).await;
    let seen = Seen::default();
    let _node = world.start(config("a", 3), on("mail", seen.handler(&world))).await;
    world.pass(s(60)).await;
    let slots: Vec<Timestamp> = seen.take().iter().filter_map(|(_, fired)| fired.slot).collect();
    assert!(slots.len() > 30 && slots.is_sorted(), "{slots:?}");
}

/// As after a failover to a copy that lags: what was made from the state that is lost must not fit
/// the one that took its place.
#[tokio::test(start_paused = true)]
async fn a_change_made_from_a_lost_state_is_stale() {
    let world = World::new();
    let created = create(&world, "mails", &often()).await;
    let before = world.memory.snapshot();
    world.pass(ms(5)).await;
    let lost = schedules(&world).pause("", "mails", None, &ana()).await.unwrap();
    world.memory.restore(before);
    world.pass(ms(5)).await;
    let kept = schedules(&world).pause("", "mails", None, &ana()).await.unwrap();
    assert!(lost.stamp > created.stamp && kept.stamp > created.stamp);
    let (disable, actor) = (ScheduleChange::Disable { passed: PassedSlots::default() }, ana());
    let change =
        world.memory.change_schedule(At::Database, created.id, lost.stamp, &disable, &actor);
    assert_eq!(change.await.unwrap(), EditAnswer::Stale(kept));
}
