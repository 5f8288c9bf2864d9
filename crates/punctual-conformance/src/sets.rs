//! Sets of schedules: written whole, and only by the highest generation.

use std::time::Duration;

use punctual_core::job::SlotOutcome;
use punctual_store::*;

use crate::World;
use crate::world::{actor, join_all, json};

const SET: &str = "code:shop";

fn registration(generation: i64, entries: Vec<SetEntry>) -> Registration {
    Registration { set: SET.to_owned(), generation, entries, actor: actor() }
}

fn new(world: &World<'_>, name: &str) -> NewSchedule {
    NewSchedule { set: SET.to_owned(), ..world.new_schedule(name) }
}

async fn register(world: &World<'_>, generation: i64, entries: Vec<SetEntry>) -> Registered {
    let ask = registration(generation, entries);
    world.store().register(world.at(), &ask).await.expect("register")
}

/// Registers what must be written.
async fn done(world: &World<'_>, generation: i64, entries: Vec<SetEntry>) -> Vec<Schedule> {
    match register(world, generation, entries).await {
        Registered::Done(schedules) => schedules,
        other => panic!("{other:?}"),
    }
}

fn define(schedule: &Schedule, spec: &str) -> SetEntry {
    let change = ScheduleChange::Define {
        spec: json(spec),
        owner: "web".to_owned(),
        next_slot: schedule.next_slot,
        passed: PassedSlots::default(),
    };
    SetEntry::Change { id: schedule.id, stamp: schedule.stamp, change }
}

async fn generation(world: &World<'_>) -> Option<i64> {
    world.store().generation(SET).await.expect("generation")
}

/// As one by one, with revisions and a trace.
pub async fn a_set_is_registered_whole(world: &World<'_>) {
    assert_eq!(generation(world).await, None);
    let (a, b) = (new(world, "a"), new(world, "b"));
    let made = done(world, 3, vec![SetEntry::Create(b.clone()), SetEntry::Create(a.clone())]).await;
    assert_eq!(made, [b.at_creation(world.now()), a.at_creation(world.now())]);
    assert_eq!(made[0].set, SET);
    assert_eq!(generation(world).await, Some(3));
    for schedule in &made {
        assert_eq!(world.reread(schedule).await, *schedule);
    }

    world.pass(61);
    let slot = a.next_slot.unwrap();
    let reason = Some("changed".to_owned());
    let (outcome, count) = (SlotOutcome::Missed, 1);
    let passed = vec![SlotRow { slot, end: None, count, outcome, reason, job: None }].into();
    let change = ScheduleChange::Define {
        spec: json("{}"),
        owner: "web".to_owned(),
        next_slot: Some(slot + Duration::from_secs(60)),
        passed,
    };
    let entry = SetEntry::Change { id: a.id, stamp: made[1].stamp, change };
    let c = new(world, "c");
    let changed = done(world, 4, vec![entry, SetEntry::Create(c.clone())]).await;
    assert_eq!((changed[0].id, changed[0].revision, &changed[0].set[..]), (a.id, 2, SET));
    assert_eq!((&changed[0].owner[..], &changed[0].spec), ("web", &json("{}")));
    assert_eq!(changed[1], c.at_creation(world.now()));
    assert_eq!(world.reread(&changed[0]).await, changed[0]);
    assert_eq!(world.ledger(a.id).await.len(), 1);
    let revisions = world.store().revisions(a.id, None, 10).await.unwrap().items;
    assert_eq!((revisions.len(), &revisions[0].who[..]), (2, "ana"));
    let audits = world.store().audits(None, 10).await.unwrap().items;
    let actions: Vec<(&str, &str)> = audits
        .iter()
        .map(|audit| (audit.entry.action.as_str(), &audit.entry.subject[..]))
        .collect();
    let create = "create schedule";
    assert_eq!(actions, [(create, "c"), ("edit schedule", "a"), (create, "a"), (create, "b")]);
}

/// An old program that is still running must not undo what a new one declared.
pub async fn a_higher_generation_is_not_overwritten(world: &World<'_>) {
    let made = done(world, 5, vec![SetEntry::Create(new(world, "a"))]).await;
    let late = new(world, "b");
    for entries in [vec![SetEntry::Create(late.clone())], vec![define(&made[0], "{}")], Vec::new()]
    {
        assert_eq!(register(world, 4, entries).await, Registered::Superseded(5));
    }
    assert_eq!(world.reread(&made[0]).await, made[0]);
    assert_eq!(world.store().schedule(late.id).await.unwrap(), None);
    assert_eq!(generation(world).await, Some(5));
    // Generations may lie below zero, and other sets have their own.
    let ask = Registration { set: "code:other".to_owned(), ..registration(-7, Vec::new()) };
    let registered = world.store().register(world.at(), &ask).await.unwrap();
    assert_eq!(registered, Registered::Done(Vec::new()));
    assert_eq!(world.store().generation("code:other").await.unwrap(), Some(-7));
    assert_eq!(generation(world).await, Some(5));
}

/// Many processes of one release start at once.
pub async fn the_same_generation_may_register_again(world: &World<'_>) {
    let a = new(world, "a");
    let made = done(world, 1, vec![SetEntry::Create(a.clone())]).await;
    world.pass(1);
    // The answer was lost.
    assert_eq!(done(world, 1, vec![SetEntry::Create(a.clone())]).await, made);
    // Another process minted another id: it has to look again.
    assert_eq!(
        register(world, 1, vec![SetEntry::Create(new(world, "a"))]).await,
        Registered::Stale
    );
    let changed = done(world, 1, vec![define(&made[0], "{}")]).await;
    assert_eq!(register(world, 1, vec![define(&made[0], "{}")]).await, Registered::Stale);
    assert_eq!(world.reread(&made[0]).await, changed[0]);
}

/// A release that declares what is there already still keeps older ones out.
pub async fn without_entries_only_the_generation_rises(world: &World<'_>) {
    assert_eq!(done(world, 1, Vec::new()).await, []);
    assert_eq!(generation(world).await, Some(1));
    assert_eq!(done(world, 1, Vec::new()).await, []);
    assert_eq!(done(world, 9, Vec::new()).await, []);
    assert_eq!(generation(world).await, Some(9));
    assert_eq!(register(world, 8, Vec::new()).await, Registered::Superseded(9));
    assert_eq!(world.store().audits(None, 10).await.unwrap().items, []);
}

/// Changed, gone, or a name that was taken: nothing is written, not even the generation.
pub async fn one_stale_entry_keeps_all_out(world: &World<'_>) {
    let made = done(world, 1, vec![SetEntry::Create(new(world, "a"))]).await;
    let foreign = world.schedule("taken").await;
    let gone = done(world, 1, vec![SetEntry::Create(new(world, "gone"))]).await.remove(0);
    world.store().delete_schedule(world.at(), gone.id, gone.stamp, &actor()).await.unwrap();
    let stale = Schedule { stamp: made[0].stamp - 1, ..made[0].clone() };
    let audits = world.store().audits(None, 100).await.unwrap();
    for bad in [
        define(&stale, "{}"),
        define(&gone, "{}"),
        SetEntry::Create(new(world, "taken")),
        SetEntry::Create(new(world, "a")),
    ] {
        let b = new(world, "b");
        let mut entries = vec![SetEntry::Create(b.clone()), bad];
        if !matches!(&entries[1], SetEntry::Change { id, .. } if *id == made[0].id) {
            entries.insert(0, define(&made[0], "[]"));
        }
        assert_eq!(register(world, 2, entries).await, Registered::Stale);
        assert_eq!(world.store().schedule(b.id).await.unwrap(), None);
        assert_eq!(world.reread(&made[0]).await, made[0]);
        assert_eq!(generation(world).await, Some(1));
    }
    assert_eq!(world.reread(&foreign).await, foreign);
    assert_eq!(world.store().audits(None, 100).await.unwrap(), audits);
    assert_eq!(world.store().revisions(made[0].id, None, 10).await.unwrap().items.len(), 1);
}

/// It adopts nobody else's, and what it creates says that it is of this set.
pub async fn a_set_changes_only_its_own_schedules(world: &World<'_>) {
    let by_hand = world.schedule("by hand").await;
    let other = NewSchedule { set: "code:other".to_owned(), ..world.new_schedule("other") };
    let other = world.store().create_schedule(world.at(), &other).await.unwrap();
    let nobodys = world.new_schedule("without-set");
    for entry in [
        define(&by_hand, "{}"),
        define(&Schedule { stamp: 0, ..by_hand.clone() }, "{}"),
        define(&other, "{}"),
        SetEntry::Create(nobodys.clone()),
        SetEntry::Create(NewSchedule { set: "code:other".to_owned(), ..nobodys.clone() }),
    ] {
        let ask = registration(1, vec![SetEntry::Create(new(world, "a")), entry]);
        let error = world.store().register(world.at(), &ask).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("`code:shop`"), "{error}");
    }
    for schedule in [&by_hand, &other] {
        assert_eq!(world.reread(schedule).await, *schedule);
    }
    assert_eq!(world.store().schedule_named("", "a").await.unwrap(), None);
    assert_eq!(generation(world).await, None);
}

/// Whoever changes it, and however.
pub async fn a_schedule_stays_in_its_set(world: &World<'_>) {
    let mut schedule = done(world, 1, vec![SetEntry::Create(new(world, "a"))]).await.remove(0);
    let next_slot = schedule.next_slot;
    for change in [
        ScheduleChange::Pause { until: None },
        ScheduleChange::Resume,
        ScheduleChange::Disable { passed: PassedSlots::default() },
        ScheduleChange::Enable { next_slot, passed: PassedSlots::default() },
        ScheduleChange::Define {
            spec: json("{}"),
            owner: "web".to_owned(),
            next_slot,
            passed: PassedSlots::default(),
        },
    ] {
        let (id, stamp) = (schedule.id, schedule.stamp);
        let edited =
            world.store().change_schedule(world.at(), id, stamp, &change, &actor()).await.unwrap();
        let EditAnswer::Done(edited) = edited else { panic!("{edited:?}") };
        assert_eq!(edited.set, SET);
        schedule = world.reread(&edited).await;
        assert_eq!(schedule, edited);
    }
    let named = world.store().schedule_named("", "a").await.unwrap().unwrap();
    let listed = world.store().schedules("", None, 10).await.unwrap();
    world.pass(120);
    let due = world.store().due(world.at(), 0, 10).await.unwrap().schedules;
    for found in [&named, &listed[0], &due[0]] {
        assert_eq!(found.set, SET);
    }
}

/// Each tenant's for itself.
pub async fn schedules_of_a_set_are_listed_by_name(world: &World<'_>) {
    let entries = ["c", "a", "b"].map(|name| SetEntry::Create(new(world, name))).to_vec();
    done(world, 1, entries).await;
    let elsewhere = NewSchedule { tenant: "acme".to_owned(), ..new(world, "aa") };
    done(world, 1, vec![SetEntry::Create(elsewhere)]).await;
    world.schedule("ab").await;
    let names = async |tenant: &str, set: &str, after: Option<&str>, most: usize| {
        let found = world.store().schedules_of(tenant, set, after, most).await.unwrap();
        found.into_iter().map(|schedule| schedule.name).collect::<Vec<String>>()
    };
    assert_eq!(names("", SET, None, 10).await, ["a", "b", "c"]);
    assert_eq!(names("", SET, None, 2).await, ["a", "b"]);
    assert_eq!(names("", SET, Some("b"), 2).await, ["c"]);
    assert_eq!(names("acme", SET, None, 10).await, ["aa"]);
    assert_eq!(names("", "code:other", None, 10).await, [""; 0]);
    assert_eq!(names("", "", None, 10).await, [""; 0]);
}

/// With the value and the way out, and nothing is written.
pub async fn a_registration_out_of_bounds_is_refused(world: &World<'_>) {
    let (store, at) = (world.store(), world.at());
    let a = new(world, "a");
    let twin = NewSchedule { id: world.schedule_id(), ..a.clone() };
    let same = NewSchedule { name: "other".to_owned(), ..a.clone() };
    let bad = |set: &str| Registration { set: set.to_owned(), ..registration(1, Vec::new()) };
    let long = "n".repeat(limits::NAME_BYTES_MAX + 1);
    let create =
        |news: Vec<NewSchedule>| registration(1, news.into_iter().map(SetEntry::Create).collect());
    for ask in [
        bad(""),
        bad(&long),
        bad("a\u{7}"),
        Registration { actor: Actor::new(&long, ""), ..registration(1, Vec::new()) },
        create(vec![a.clone(), twin]),
        create(vec![a.clone(), same]),
        create(vec![NewSchedule { name: String::new(), ..a.clone() }]),
        create(vec![NewSchedule { actor: Actor::new(&long, ""), ..a.clone() }]),
    ] {
        let error = store.register(at, &ask).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("; "), "the error has no remedy: {error}");
    }
    let wrong = NewSchedule { set: long, ..world.new_schedule("x") };
    let error = store.create_schedule(at, &wrong).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");

    let many = |count: usize| -> Vec<NewSchedule> {
        (0..count).map(|number| new(world, &number.to_string())).collect()
    };
    let error = store.register(at, &create(many(limits::SET_ENTRIES_MAX + 1))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("too many schedules in one set: 501"), "{error}");
    assert_eq!(store.schedules("", None, 10).await.unwrap(), []);
    assert_eq!(generation(world).await, None);
    let registered = store.register(at, &create(many(limits::SET_ENTRIES_MAX))).await.unwrap();
    let Registered::Done(made) = registered else { panic!("{registered:?}") };
    assert_eq!(made.len(), limits::SET_ENTRIES_MAX);
}

/// What a change may not do, it may not do in a set.
pub async fn a_change_that_breaks_a_rule_keeps_all_out(world: &World<'_>) {
    let node = world.join().await;
    let fence = world.lead("scheduler/0", node).await;
    let made = done(world, 1, vec![SetEntry::Create(new(world, "a"))]).await;
    world.pass(60);
    assert_eq!(world.fire(&fence, &[world.plan(&made[0])]).await.answers, [FireAnswer::Applied]);
    let fired = world.reread(&made[0]).await;
    let again = Schedule { next_slot: made[0].next_slot, ..fired.clone() };
    let b = new(world, "b");
    let ask = registration(2, vec![SetEntry::Create(b.clone()), define(&again, "{}")]);
    let error = world.store().register(world.at(), &ask).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(world.reread(&fired).await, fired);
    assert_eq!(world.store().schedule(b.id).await.unwrap(), None);
    assert_eq!(generation(world).await, Some(1));
}

/// Registers a schedule until it says this, or a higher generation does.
async fn insist(world: &World<'_>, generation: i64, own: NewSchedule) -> i64 {
    let spec = generation.to_string();
    loop {
        let seen = world.store().schedules_of("", SET, None, 10).await.unwrap();
        let entry = match seen.first() {
            Some(schedule) => define(schedule, &spec),
            None => SetEntry::Create(NewSchedule { spec: json(&spec), ..own.clone() }),
        };
        match register(world, generation, vec![entry]).await {
            Registered::Done(_) => return generation,
            Registered::Superseded(higher) => return higher,
            Registered::Stale => {}
        }
    }
}

/// A roll-out: old and new processes start side by side.
pub async fn of_programs_that_register_at_once_the_highest_is_in_force(world: &World<'_>) {
    let programs = [3, 1, 4, 1, 5, 2, 5, 3].map(|number| (number, new(world, "a")));
    let calls = programs.into_iter().map(|(number, own)| insist(world, number, own));
    for (answer, own) in join_all(calls.collect()).await.into_iter().zip([3, 1, 4, 1, 5, 2, 5, 3]) {
        assert!(answer >= own, "{answer} superseded {own}");
    }
    assert_eq!(generation(world).await, Some(5));
    let set = world.store().schedules_of("", SET, None, 10).await.unwrap();
    assert_eq!(set.len(), 1);
    assert_eq!(set[0].spec, json("5"));
}

/// The scheduler may sleep until then.
pub async fn a_registration_is_hinted(world: &World<'_>) {
    let mut hints = world.store().hints(Topic::Schedules);
    done(world, 1, vec![SetEntry::Create(new(world, "a"))]).await;
    hints.heard().await;
}
