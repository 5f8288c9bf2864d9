//! Bounds: what is beyond one is refused whole, with the value and the way out; a text for people is
//! cut; what is at the bound is taken.

use std::time::Duration;

use punctual_core::job::{AttemptOutcome, Next, SlotOutcome, Transition};
use punctual_core::schedule::{ON_TIME, Overlap};
use punctual_core::{JobId, Timestamp};
use punctual_store::*;

use crate::World;
use crate::world::{LEASE, LIFETIME, actor, beat_of, json, policy};

/// A text that is one byte too long.
fn long(most: usize) -> String {
    "x".repeat(most + 1)
}

fn strings(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

fn count(metric: &str, queue: &str, value: i64) -> RollupCount {
    RollupCount {
        minute: Timestamp::EPOCH,
        metric: metric.to_owned(),
        queue: queue.to_owned(),
        kind: String::new(),
        count: value,
        sum: 0,
    }
}

fn skipped(slot: Timestamp) -> SlotRow {
    SlotRow { slot, end: None, count: 1, outcome: SlotOutcome::Missed, reason: None, job: None }
}

/// A plan of this many slots, a second each.
fn plan_of(schedule: &Schedule, slots: usize) -> SlotPlan {
    let first = schedule.next_slot.unwrap();
    let slot = |index: usize| first + Duration::from_secs(index as u64);
    let decision = SlotDecision::Advance {
        overlap: Overlap::Allow,
        slots: (0..slots).map(|index| skipped(slot(index))).collect(),
        next_slot: Some(slot(slots)),
        hold_for: ON_TIME,
    };
    SlotPlan { schedule: schedule.id, stamp: schedule.stamp, decision }
}

/// The whole request, since part of it would be hard to tell from all of it.
pub async fn more_than_a_bound_is_refused_with_the_way_out(world: &World<'_>) {
    let (store, at) = (world.store(), world.at());
    let node = world.join().await;
    let fence = world.lead("scheduler/0", node).await;
    let schedule = world.schedule("s").await;
    let job = world.enqueue_one().await;
    let lease = world.lease_id();
    world.pass(3_600);

    let ids: Vec<JobId> = (0..=limits::REQUEUE_MAX).map(|_| job).collect();
    let transition =
        Transition { outcome: AttemptOutcome::Succeeded, next: Next::Succeeded, error: None };
    let settlement = Settlement { job, lease, transition, result: None, then: Vec::new() };
    let ask = world.ask(node, 1);
    let share = |name: String| QueueShare { name, most: 1 };
    let info = NodeInfo {
        id: node,
        name: "n".to_owned(),
        version: String::new(),
        queues: Vec::new(),
        kinds: Vec::new(),
        labels: Vec::new(),
    };
    let labels = strings(limits::LABELS_MAX + 1).into_iter().map(|name| (name, String::new()));
    let report = Progress { job, lease, percent: None, note: String::new() };
    let reap = ReapAsk {
        fence: fence.clone(),
        lease: LEASE,
        node_lifetime: LIFETIME,
        policy: policy(),
        most: limits::REAP_MAX + 1,
    };
    let expire = ExpireRequest {
        fence: fence.clone(),
        lease: LEASE,
        recheck_after: LIFETIME,
        limit: limits::EXPIRE_MAX + 1,
    };
    let plans = |plans: usize, slots: usize| vec![plan_of(&schedule, slots); plans];
    let jobs: Vec<NewJob> = (0..=limits::ENQUEUE_MAX).map(|_| world.new_job()).collect();
    let large = Json::new(&long(limits::SPEC_BYTES_MAX)).unwrap();
    let defined = NewSchedule { spec: large.clone(), ..world.new_schedule("t") };
    let define = ScheduleChange::Define {
        spec: large,
        owner: String::new(),
        next_slot: Some(world.now()),
        passed: PassedSlots::default(),
    };
    let result = Json::new(&long(limits::RESULT_BYTES_MAX)).unwrap();

    let beat = |ask: BeatAsk| async move { store.beat(at, &ask).await.err() };
    let join = |info: NodeInfo| async move { store.join(at, &info).await.err() };
    let claim = |ask: ClaimAsk| async move { store.claim(at, &ask).await.err() };
    let fire = |plans: Vec<SlotPlan>| {
        let fence = &fence;
        async move { store.fire(at, fence, LEASE, &plans).await.err() }
    };
    let refused = [
        ("too many jobs: 1001", store.enqueue(at, &jobs).await.err()),
        (
            "too many jobs: 201",
            claim(ClaimAsk { most: limits::CLAIM_MAX + 1, ..ask.clone() }).await,
        ),
        (
            "too many queues: 201",
            claim(ClaimAsk {
                queues: strings(limits::QUEUES_MAX + 1).into_iter().map(share).collect(),
                ..ask.clone()
            })
            .await,
        ),
        (
            "too many kinds: 501",
            claim(ClaimAsk { kinds: strings(limits::KINDS_MAX + 1), ..ask.clone() }).await,
        ),
        (
            "too many settlements: 1001",
            store.settle(at, &vec![settlement.clone(); limits::SETTLE_MAX + 1]).await.err(),
        ),
        (
            "65539 bytes",
            store.settle(at, &[Settlement { result: Some(result), ..settlement }]).await.err(),
        ),
        ("too many jobs: 1001", store.requeue(at, &ids, &actor()).await.err()),
        (
            "too many leases: 10001",
            store.release(at, node, &vec![lease; limits::LEASES_MAX + 1]).await.err(),
        ),
        (
            "too many roles: 101",
            beat(BeatAsk { roles: vec![fence.clone(); limits::ROLES_MAX + 1], ..beat_of(node) })
                .await,
        ),
        (
            "too many leases: 10001",
            beat(BeatAsk { leases: vec![lease; limits::LEASES_MAX + 1], ..beat_of(node) }).await,
        ),
        (
            "too many progress reports: 501",
            beat(BeatAsk { progress: vec![report; limits::PROGRESS_MAX + 1], ..beat_of(node) })
                .await,
        ),
        ("too many timers: 1001", store.promote(at, limits::PROMOTE_MAX + 1).await.err()),
        ("too many leases: 1001", store.reap(at, &reap).await.err()),
        ("too many deadlines: 1001", store.expire(at, &expire).await.err()),
        (
            "too many rows per table: 1001",
            store.prune(at, &Retention::default(), limits::PRUNE_MAX + 1).await.err(),
        ),
        (
            "too many counters: 1001",
            store.roll_up(&vec![count("m", "", 1); limits::ROLLUP_MAX + 1]).await.err(),
        ),
        ("too many schedules: 501", fire(plans(limits::FIRE_MAX + 1, 0)).await),
        ("too many slots of one schedule: 1401", fire(plans(1, limits::PLAN_SLOTS_MAX + 1)).await),
        ("too many slots: 2800", fire(plans(2, limits::PLAN_SLOTS_MAX)).await),
        ("65539 bytes", store.create_schedule(at, &defined).await.err()),
        ("65539 bytes", store.change_schedule(at, schedule.id, 1, &define, &actor()).await.err()),
        (
            "too many queues: 201",
            join(NodeInfo { queues: strings(limits::QUEUES_MAX + 1), ..info.clone() }).await,
        ),
        (
            "too many kinds: 501",
            join(NodeInfo { kinds: strings(limits::KINDS_MAX + 1), ..info.clone() }).await,
        ),
        ("too many labels: 51", join(NodeInfo { labels: labels.collect(), ..info.clone() }).await),
    ];
    for (value, error) in refused {
        let error = error.unwrap_or_else(|| panic!("{value}: the request was accepted"));
        let message = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Limit, "{message}");
        assert!(message.contains(value) && message.contains(", maximum "), "{message}");
        assert_eq!(message.matches("; ").count(), 1, "the error has no remedy: {message}");
    }
    assert_eq!(world.reread(&schedule).await, schedule);
    assert_eq!(world.ledger(schedule.id).await, []);
}

/// Nor one that is empty or cannot be seen.
pub async fn a_name_out_of_bounds_is_refused(world: &World<'_>) {
    let (store, at) = (world.store(), world.at());
    let node = world.join().await;
    let job = world.enqueue_one().await;
    let schedule = world.schedule("s").await;
    let entry = |who: &str, action: &str| AuditEntry {
        actor: Actor::new(who, ""),
        action: action.into(),
        subject: String::new(),
    };
    for name in [long(limits::NAME_BYTES_MAX), "a\u{7}b".to_owned()] {
        let who = Actor::new(&name, "why");
        let info = |edit: fn(&mut NodeInfo, String)| {
            let mut info = NodeInfo {
                id: node,
                name: "n".to_owned(),
                version: String::new(),
                queues: Vec::new(),
                kinds: Vec::new(),
                labels: Vec::new(),
            };
            edit(&mut info, name.clone());
            async move { store.join(at, &info).await.err() }
        };
        let refused = [
            store.cancel(at, job, &who).await.err(),
            store.requeue(at, &[job], &who).await.err(),
            store.place(at, job, &Placement::default(), &who).await.err(),
            store.change_queue(at, "q", &QueueChange::Resume, &who).await.err(),
            store.change_queue(at, &name, &QueueChange::Resume, &actor()).await.err(),
            store
                .change_schedule(
                    at,
                    schedule.id,
                    1,
                    &ScheduleChange::Disable { passed: PassedSlots::default() },
                    &who,
                )
                .await
                .err(),
            store.delete_schedule(at, schedule.id, 1, &who).await.err(),
            store
                .create_schedule(at, &NewSchedule { actor: who, ..world.new_schedule("t") })
                .await
                .err(),
            store.create_schedule(at, &world.new_schedule(&name)).await.err(),
            store.acquire(at, &name, node, world.nonce(), LEASE).await.err(),
            store.audit(at, &entry(&name, "act")).await.err(),
            store.audit(at, &entry("ana", &name)).await.err(),
            store.roll_up(&[count(&name, "", 1)]).await.err(),
            store.roll_up(&[count("m", &name, 1)]).await.err(),
            info(|info, name| info.name = name).await,
            info(|info, name| info.version = name).await,
            info(|info, name| info.queues = vec![name]).await,
            info(|info, name| info.kinds = vec![name]).await,
            info(|info, name| info.labels = vec![(name, String::new())]).await,
            info(|info, name| info.labels = vec![("zone".to_owned(), name)]).await,
        ];
        for (index, error) in refused.into_iter().enumerate() {
            let error = error.unwrap_or_else(|| panic!("request {index} was accepted"));
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains("; "), "the error has no remedy: {error}");
        }
    }
    let beyond = limits::ROLLUP_VALUE_MAX + 1;
    for value in [beyond, -beyond] {
        let error = store.roll_up(&[count("m", "", value)]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert_eq!(store.audit(at, &entry("ana", "")).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(world.reread(&schedule).await, schedule);
    assert_eq!(store.audits(None, 10).await.unwrap().items.len(), 1);
}

/// At a character's end, wherever it is kept.
pub async fn a_text_for_people_is_cut(world: &World<'_>) {
    let (store, at) = (world.store(), world.at());
    let text = "é".repeat(limits::REASON_BYTES_MAX);
    let cut = limits::cut(&text, limits::REASON_BYTES_MAX);
    assert_eq!(cut.len(), limits::REASON_BYTES_MAX);
    let who = Actor::new("ana", &text);

    let pause = QueueChange::Pause { until: None };
    let queue = store.change_queue(at, "q", &pause, &who).await.unwrap();
    assert_eq!(queue.pause.unwrap().by.why, cut);
    let new = NewSchedule { actor: who.clone(), ..world.new_schedule("s") };
    let schedule = store.create_schedule(at, &new).await.unwrap();
    assert_eq!(store.revisions(schedule.id, None, 1).await.unwrap().items[0].why, cut);
    let entry = AuditEntry { actor: who, action: "act".into(), subject: text.clone() };
    store.audit(at, &entry).await.unwrap();
    let audits = store.audits(None, 10).await.unwrap().items;
    assert!(audits.iter().all(|audit| audit.entry.actor.why == cut), "{audits:?}");
    assert_eq!(audits[0].entry.subject, cut);

    let node = world.join().await;
    let fence = world.lead("scheduler/0", node).await;
    world.pass(60);
    let row = SlotRow { reason: Some(text.clone()), ..skipped(schedule.next_slot.unwrap()) };
    world.pass(1);
    let decision = SlotDecision::Advance {
        overlap: Overlap::Allow,
        slots: vec![row],
        next_slot: Some(world.now()),
        hold_for: ON_TIME,
    };
    let fired = world.fire(&fence, &[SlotPlan { decision, ..world.plan(&schedule) }]).await;
    assert_eq!(fired.answers, [FireAnswer::Applied]);
    assert_eq!(world.ledger(schedule.id).await[0].reason.as_deref(), Some(cut));
    let schedule = world.reread(&schedule).await;
    let aside =
        SlotPlan { decision: SlotDecision::SetAside(text.clone()), ..world.plan(&schedule) };
    let fired = world.fire(&fence, &[aside]).await;
    assert_eq!(fired.answers, [FireAnswer::SetAside(cut.to_owned())]);
    assert_eq!(world.reread(&schedule).await.set_aside.as_deref(), Some(cut));
}

/// To the last one.
pub async fn what_is_at_a_bound_is_taken(world: &World<'_>) {
    let (store, at) = (world.store(), world.at());
    let name = "n".repeat(limits::NAME_BYTES_MAX);
    let info = NodeInfo {
        id: world.node_id(),
        name: name.clone(),
        version: name.clone(),
        queues: strings(limits::QUEUES_MAX),
        kinds: strings(limits::KINDS_MAX),
        labels: strings(limits::LABELS_MAX).into_iter().map(|key| (key, name.clone())).collect(),
    };
    store.join(at, &info).await.unwrap();
    assert_eq!(store.nodes().await.unwrap()[0].info, info);
    let ask = ClaimAsk {
        node: info.id,
        lease: world.lease_id(),
        more: Vec::new(),
        queues: strings(limits::QUEUES_MAX)
            .into_iter()
            .map(|name| QueueShare { name, most: limits::CLAIM_MAX })
            .collect(),
        kinds: strings(limits::KINDS_MAX),
        most: limits::CLAIM_MAX,
    };
    let full = NewJob {
        queue: "199".to_owned(),
        kind: "499".to_owned(),
        tenant: name.clone(),
        owner: name.clone(),
        payload: Json::new(&"x".repeat(limits::PAYLOAD_BYTES_MAX - 2)).unwrap(),
        priority: limits::PRIORITY_MAX,
        max_attempts: limits::ATTEMPTS_MAX,
        tags: vec![name.clone(); limits::TAGS_MAX],
        trace: Some("t".repeat(limits::TRACE_BYTES_MAX)),
        unique: Some(UniqueKey {
            key: "k".repeat(limits::KEY_BYTES_MAX),
            scope: KeyScope::Kind,
            lifetime: KeyLifetime::Job,
            is_by_payload: false,
        }),
        ..world.new_job()
    };
    let id = world.enqueue(full.clone()).await;
    let beyond = NewJob { id: world.job_id(), unique: None, ..full };
    let trace = Some("t".repeat(limits::TRACE_BYTES_MAX + 1));
    let answers = world.enqueue_all(&[NewJob { trace, ..beyond }]).await;
    assert!(matches!(answers[..], [EnqueueAnswer::Rejected(Rejection::Invalid(_))]), "{answers:?}");
    let jobs = world.claim(&ask).await;
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    let leases = vec![ask.lease; limits::LEASES_MAX];
    let report = Progress { job: id, lease: ask.lease, percent: None, note: String::new() };
    let progress = vec![report; limits::PROGRESS_MAX];
    let beat = BeatAsk { leases: leases.clone(), progress, ..beat_of(info.id) };
    assert_eq!(world.beat_as(&beat).await.strays, []);
    assert_eq!(store.release(at, info.id, &leases).await.unwrap().jobs, [id]);
    store.requeue(at, &vec![id; limits::REQUEUE_MAX], &actor()).await.unwrap();
    store.promote(at, limits::PROMOTE_MAX).await.unwrap();
    store.prune(at, &Retention::default(), limits::PRUNE_MAX).await.unwrap();
    store.roll_up(&vec![count("m", "", 1); limits::ROLLUP_MAX]).await.unwrap();

    let spec = Json::new(&"x".repeat(limits::SPEC_BYTES_MAX - 2)).unwrap();
    let new = NewSchedule { spec, ..world.new_schedule(&name) };
    store.create_schedule(at, &new).await.unwrap();
    let fence = world.lead("scheduler/0", info.id).await;
    world.pass(3_600);
    let mut plans = Vec::new();
    let rest = limits::FIRE_SLOTS_MAX - limits::PLAN_SLOTS_MAX;
    for slots in [limits::PLAN_SLOTS_MAX, rest] {
        let schedule = NewSchedule {
            next_slot: Some(world.now() - Duration::from_secs(slots as u64)),
            spec: json("{}"),
            ..world.new_schedule(&slots.to_string())
        };
        let schedule = store.create_schedule(world.at(), &schedule).await.unwrap();
        plans.push(plan_of(&schedule, slots));
    }
    let answers = world.fire(&fence, &plans).await.answers;
    assert_eq!(answers, vec![FireAnswer::Applied; plans.len()]);
}
