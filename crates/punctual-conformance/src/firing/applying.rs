//! Sets of schedules from files, over any store: what `apply` promises.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::job::Outcome;
use punctual_core::{NodeId, ScheduleId, Timestamp};
use punctual_engine::{Applied, Manner, ScheduleError, Wanted, What};
use punctual_file::simulate::{Story, simulate};
use punctual_file::{Declared, Source};
use punctual_store::{ClaimedJob, Schedule};

use super::{Node, Stage, ana};

const USUAL: Manner = Manner { prune: false, adopt: false, dry_run: false };

/// The schedules of a file, whatever its set.
fn file(text: &str) -> Vec<Declared> {
    let text = format!("set = \"ops\"\n{text}");
    let mut sets =
        punctual_file::read(&[Source::new("test.toml", text)]).expect("the schedule file is valid");
    sets.remove(0).schedules
}

fn wanted(declared: Declared) -> Wanted {
    let Declared { name, definition, enabled, renamed_from, .. } = declared;
    Wanted { name, definition, enabled, renamed_from }
}

async fn try_apply(
    stage: &Stage,
    set: &str,
    text: &str,
    manner: Manner,
) -> Result<Applied, ScheduleError> {
    let wanted: Vec<Wanted> = file(text).into_iter().map(wanted).collect();
    stage.schedules().apply("", set, &wanted, manner, &ana()).await
}

/// What was done, by name.
async fn apply(stage: &Stage, set: &str, text: &str, manner: Manner) -> Vec<(String, What)> {
    let applied = try_apply(stage, set, text, manner).await.expect("the set is applied");
    applied.steps.into_iter().map(|step| (step.name, step.what)).collect()
}

async fn named(stage: &Stage, name: &str) -> Schedule {
    let found = stage.store().schedule_named("", name).await.expect("the schedule can be read");
    found.expect("the schedule exists")
}

/// Lets a node work until then, looking often enough to be on time.
async fn live(stage: &Stage, node: &mut Node, until: Timestamp) {
    const STEP: u64 = 20;
    while stage.now() + Duration::from_secs(STEP) <= until {
        stage.pass(STEP);
        // Its lease is over by then: the first round takes the lead again.
        for _ in 0..2 {
            node.round().await.expect("the store works");
        }
    }
}

fn did(steps: &[(&str, What)]) -> Vec<(String, What)> {
    steps.iter().map(|(name, what)| ((*name).to_owned(), *what)).collect()
}

const TWO: &str = r#"
[defaults]
tz = "Europe/Paris"
[[schedule]]
name = "a"
cron = "0 8 * * *"
job = { kind = "mail", payload = { to = "all" } }
[[schedule]]
name = "b"
every = "15m"
enabled = false
command = ["true"]
"#;

/// Applied again it changes nothing, and neither does a look beforehand.
pub async fn what_is_applied_is_there_and_stays(stage: &Stage) {
    let look = Manner { dry_run: true, ..USUAL };
    let new = did(&[("a", What::Add), ("b", What::Add)]);
    assert_eq!(apply(stage, "ops", TWO, look).await, new);
    assert_eq!(stage.store().schedules("", None, 10).await.unwrap(), []);
    assert_eq!(apply(stage, "ops", TWO, USUAL).await, new);
    let (a, b) = (named(stage, "a").await, named(stage, "b").await);
    assert_eq!((&a.set[..], a.enabled, b.enabled), ("ops", true, false));
    assert_eq!(a.next_slot.unwrap().to_string(), "2027-01-01T07:00:00Z");
    stage.pass(3_600);
    for manner in [look, USUAL, Manner { prune: true, adopt: true, dry_run: false }] {
        let same = did(&[("a", What::Keep), ("b", What::Keep)]);
        assert_eq!(apply(stage, "ops", TWO, manner).await, same);
    }
    assert_eq!((named(stage, "a").await, named(stage, "b").await), (a, b));

    let on = TWO.replace("enabled = false", "enabled = true");
    let steps = apply(stage, "ops", &on, USUAL).await;
    assert_eq!(steps, did(&[("a", What::Keep), ("b", What::Change)]));
    let b = named(stage, "b").await;
    assert_eq!((b.enabled, b.revision), (true, 1));
    assert!(b.next_slot.unwrap() > stage.now());
}

/// Whatever they prune or adopt.
pub async fn two_sets_never_touch_each_other(stage: &Stage) {
    let all = Manner { prune: true, adopt: true, dry_run: false };
    let other = TWO.replace("\"a\"", "\"x\"").replace("\"b\"", "\"y\"");
    apply(stage, "ops", TWO, all).await;
    apply(stage, "web", &other, all).await;
    let before = stage.store().schedules("", None, 10).await.unwrap();
    let sets: Vec<&str> = before.iter().map(|schedule| &schedule.set[..]).collect();
    assert_eq!(sets, ["ops", "ops", "web", "web"]);
    for text in [TWO, &other] {
        let set = if text == TWO { "web" } else { "ops" };
        let error = try_apply(stage, set, text, all).await.unwrap_err().to_string();
        assert!(error.contains("belongs to set"), "{error}");
    }
    assert_eq!(stage.store().schedules("", None, 10).await.unwrap(), before);
    apply(stage, "web", "", all).await;
    assert_eq!(stage.store().schedules("", None, 10).await.unwrap(), before[..2]);
}

/// A pause is somebody's; a file knows nothing of it.
pub async fn a_pause_survives_apply(stage: &Stage) {
    apply(stage, "ops", TWO, USUAL).await;
    let until = Some(stage.now() + Duration::from_secs(86_400));
    let paused =
        stage.schedules().pause("", "a", until, &ana()).await.expect("the schedule is paused");
    stage.pass(60);
    assert_eq!(apply(stage, "ops", TWO, USUAL).await[0].1, What::Keep);
    assert_eq!(named(stage, "a").await, paused);
    let changed = TWO.replace("0 8 * * *", "0 9 * * *");
    assert_eq!(apply(stage, "ops", &changed, USUAL).await[0].1, What::Change);
    let after = named(stage, "a").await;
    assert_eq!((after.pause, after.revision), (paused.pause, 2));
}

/// An hour behind, with slots that are due and undecided: an edit of any kind writes them down as
/// missed and begins from now on.
pub async fn an_edit_never_fires_in_the_past(stage: &Stage) {
    let often = r#"
[[schedule]]
name = "often"
cron = "*/10 * * * *"
tz = "Europe/Paris"
missed = "all"
job = "mail"
"#;
    let edits = [
        ("cron = \"*/10 * * * *\"", "cron = \"*/5 * * * *\""),
        ("tz = \"Europe/Paris\"", "tz = \"Asia/Kathmandu\""),
        ("missed = \"all\"", "missed = \"latest\""),
        ("missed = \"all\"", "missed = \"all\"\nmissed_window = \"2d\""),
        ("missed = \"all\"", "missed = \"all\"\noverlap = \"allow\""),
        ("job = \"mail\"", "job = \"mail\"\njitter = \"1m\""),
        ("job = \"mail\"", "job = \"mail\"\nstart = \"2020-01-01T00:00:00Z\""),
        ("job = \"mail\"", "job = \"mail\"\nenabled = false"),
    ];
    let mut node = stage.node("n").await;
    for (number, (from, to)) in edits.into_iter().enumerate() {
        let name = format!("often-{number}");
        let before = often.replace("often", &name);
        let set = format!("set-{number}");
        apply(stage, &set, &before, USUAL).await;
        stage.pass(3_600);
        let edited_at = stage.now();
        let edited = before.replace(from, to);
        assert_eq!(apply(stage, &set, &edited, USUAL).await, did(&[(&name, What::Change)]));
        let schedule = named(stage, &name).await;
        assert_eq!(
            stage.told(schedule.id).await.len(),
            1,
            "{to}: {:?}",
            stage.told(schedule.id).await
        );
        live(stage, &mut node, edited_at + Duration::from_secs(1_200)).await;
        let ledger = stage.ledger(schedule.id).await;
        assert_eq!((ledger[0].count, ledger[0].job), (6, None), "{to}");
        for row in &ledger[1..] {
            assert!(row.slot > edited_at, "{to} fired slot {} in the past", row.slot);
        }
        if schedule.enabled {
            assert!(ledger.len() > 1, "{to}: the schedule no longer fires");
        }
        stage.work().await;
    }
}

/// It is the same schedule, under another name.
pub async fn a_renamed_schedule_keeps_its_history(stage: &Stage) {
    apply(stage, "ops", TWO, USUAL).await;
    let before = named(stage, "a").await;
    let renamed = TWO.replace("name = \"a\"", "name = \"z\"\nrenamed_from = \"a\"");
    let steps = apply(stage, "ops", &renamed, Manner { prune: true, ..USUAL }).await;
    assert_eq!(steps, did(&[("z", What::Change), ("b", What::Keep)]));
    let after = named(stage, "z").await;
    assert_eq!((after.id, after.revision), (before.id, 2));
    assert_eq!(stage.store().schedule_named("", "a").await.unwrap(), None);
    // The line may stay in the file.
    let steps = apply(stage, "ops", &renamed, USUAL).await;
    assert_eq!(steps, did(&[("z", What::Keep), ("b", What::Keep)]));
}

/// And what was made by hand is taken over only if asked.
pub async fn what_nobody_wants_goes_only_if_asked(stage: &Stage) {
    apply(stage, "ops", TWO, USUAL).await;
    let by_hand = stage.create("c", &super::minutely()).await;
    let only_c = "[[schedule]]\nname = \"c\"\ncron = \"* * * * *\"\njob = \"mail\"\n";
    let error = try_apply(stage, "ops", only_c, USUAL).await.unwrap_err().to_string();
    assert!(error.contains("schedule `c`") && error.contains("created manually"), "{error}");
    let adopt = Manner { adopt: true, ..USUAL };
    let steps = apply(stage, "ops", only_c, adopt).await;
    assert_eq!(steps, did(&[("c", What::Change), ("a", What::Leave), ("b", What::Leave)]));
    let adopted = named(stage, "c").await;
    assert_eq!((adopted.id, &adopted.set[..], adopted.revision), (by_hand.id, "ops", 1));
    let steps = apply(stage, "ops", only_c, Manner { prune: true, ..USUAL }).await;
    assert_eq!(steps, did(&[("c", What::Keep), ("a", What::Remove), ("b", What::Remove)]));
    assert_eq!(stage.store().schedules("", None, 10).await.unwrap(), [adopted]);
}

/// All that is wrong is told, and the rest is not written.
pub async fn nothing_is_written_if_anything_is_wrong(stage: &Stage) {
    stage.create("b", &super::minutely()).await;
    let never = TWO.replace("0 8 * * *", "0 8 31 2 *");
    let more = format!("{never}\n[[schedule]]\nname = \"good\"\nevery = \"1h\"\njob = \"mail\"\n");
    let error = try_apply(stage, "ops", &more, USUAL).await.unwrap_err().to_string();
    assert!(error.contains("schedule `a`: `when`: the schedule never fires"), "{error}");
    assert!(
        error.contains("schedule `b`: a schedule with this name was created manually"),
        "{error}"
    );
    let there = stage.store().schedules("", None, 10).await.unwrap();
    assert_eq!(there.len(), 1);
    assert!(try_apply(stage, "code:shop", "", USUAL).await.is_err());
}

/// A row of the ledger, or a decision of a simulation, to be compared.
fn line(slot: Timestamp, end: Option<Timestamp>, count: u64, outcome: &str) -> String {
    format!("{slot} {end:?} {count} {outcome}")
}

async fn ledger_lines(stage: &Stage, id: ScheduleId) -> Vec<String> {
    let rows = stage.ledger(id).await;
    rows.iter().map(|row| line(row.slot, row.end, row.count, row.outcome.as_str())).collect()
}

/// Three hours without anybody over the night in which the clocks go forward, then an edit while
/// nobody is there: slot by slot what the simulation said.
pub async fn a_simulation_is_what_the_engine_does(stage: &Stage) {
    let night = r#"
[defaults]
tz = "Europe/Paris"
overlap = "allow"
[[schedule]]
name = "backup"
cron = "30 2 * * *"
job = "mail"
[[schedule]]
name = "quarterly"
cron = "*/15 * * * *"
missed = "all"
missed_limit = 5
job = "mail"
[[schedule]]
name = "hourly"
cron = "0 * * * *"
missed = "none"
job = "mail"
[[schedule]]
name = "changed"
every = "20m"
job = "mail"
"#;
    let edited = night.replace("every = \"20m\"", "every = \"30m\"");
    let at = |text: &str| text.parse::<Timestamp>().expect("an instant");
    let (from, to) = (at("2027-03-27T22:00:00Z"), at("2027-03-28T05:00:00Z"));
    let down = (at("2027-03-28T00:07:00Z"), at("2027-03-28T03:07:00Z"));
    let deploy = at("2027-03-28T02:10:00Z");
    let deploys = vec![(from, file(night)), (deploy, file(&edited))];
    let story = Story { down: vec![down], deploys, ..Story::default() };
    let simulated = simulate(&story, from, to).expect("the simulation succeeds");

    stage.set("2027-03-27T22:00:00Z");
    apply(stage, "ops", night, USUAL).await;
    let mut node = stage.node("n").await;
    live(stage, &mut node, down.0).await;
    stage.set("2027-03-28T02:10:00Z");
    apply(stage, "ops", &edited, USUAL).await;
    stage.set("2027-03-28T03:07:00Z");
    live(stage, &mut node, to - Duration::from_secs(1)).await;

    for name in ["backup", "quarterly", "hourly", "changed"] {
        let id = named(stage, name).await.id;
        let did = ledger_lines(stage, id).await;
        let said: Vec<String> = simulated
            .decisions
            .iter()
            .filter(|decision| decision.schedule == name)
            .map(|it| line(it.slot, it.end, it.count, &it.outcome))
            .collect();
        assert_eq!(said, did, "{name}");
        assert!(said.len() >= 2 || name == "backup", "{name}: {said:?}");
    }
}

/// Who works on jobs that take their time, and when each slot's job began.
struct Slow {
    node: NodeId,
    takes: BTreeMap<ScheduleId, Duration>,
    running: Vec<(Timestamp, ClaimedJob)>,
    began: BTreeMap<(ScheduleId, Timestamp), Timestamp>,
}

impl Slow {
    /// Ends what has taken its time or is called off, and begins what may.
    async fn work(&mut self, stage: &Stage) {
        for (end, job) in std::mem::take(&mut self.running) {
            if end <= stage.now() {
                stage.settle(&job, Outcome::Done).await;
            } else if stage.job(job.id).await.cancel_requested {
                stage.settle(&job, Outcome::Cancel("cancelled by the handler".to_owned())).await;
            } else {
                self.running.push((end, job));
            }
        }
        for job in stage.claim_as(self.node, &["default"]).await {
            let origin = job.origin.clone().expect("a schedule's job");
            let slot = origin.slot.expect("the job has a slot");
            self.began.insert((origin.schedule, slot), stage.now());
            self.running.push((stage.now() + self.takes[&origin.schedule], job));
        }
    }

    /// Lets a node fire, and jobs take their time, from now on and before then.
    async fn live(&mut self, stage: &Stage, node: &mut Node, until: Timestamp) {
        while stage.now() < until {
            self.work(stage).await;
            for _ in 0..2 {
                node.round().await.expect("the store works");
            }
            self.work(stage).await;
            stage.pass(60);
        }
    }
}

/// Jobs that take longer than their period, by each policy, through the same night: which slots become
/// jobs, and when these begin, is what the simulation said.
pub async fn a_simulation_knows_what_overlaps(stage: &Stage) {
    assert_eq!(punctual_file::simulate::LIVE_MAX, punctual_store::limits::LIVE_MAX);
    let policies = ["allow", "skip", "queue_one", "queue_all", "cancel_running"];
    let mut night = "[defaults]\nmissed = \"all\"\nmissed_limit = 5\n".to_owned();
    for policy in policies {
        night.push_str(&format!(
            "[[schedule]]\nname = \"{policy}\"\ncron = \"*/15 * * * *\"\ntz = \"Europe/Paris\"\noverlap = \"{policy}\"\njob = \"mail\"\n"
        ));
    }
    night.push_str("[[schedule]]\nname = \"changed\"\nevery = \"20m\"\noverlap = \"allow\" # yet\njob = \"mail\"\n");
    let edited = night.replace("\"allow\" # yet", "\"queue_one\"");
    let at = |text: &str| text.parse::<Timestamp>().expect("an instant");
    let (from, to) = (at("2027-03-27T22:00:00Z"), at("2027-03-28T05:00:00Z"));
    let down = (at("2027-03-28T00:07:00Z"), at("2027-03-28T03:07:00Z"));
    let deploy = at("2027-03-28T02:10:00Z");
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let story = Story {
        down: vec![down],
        deploys: vec![(from, file(&night)), (deploy, file(&edited))],
        all_take: minutes(25),
        takes: [("changed".to_owned(), minutes(50))].into(),
    };
    let simulated = simulate(&story, from, to).expect("the simulation succeeds");

    stage.set("2027-03-27T22:00:00Z");
    apply(stage, "ops", &night, USUAL).await;
    let mut node = stage.node("n").await;
    let mut takes = BTreeMap::new();
    for name in policies.into_iter().chain(["changed"]) {
        let length = if name == "changed" { minutes(50) } else { minutes(25) };
        takes.insert(named(stage, name).await.id, length);
    }
    let worker = stage.worker("w", &[]).await;
    let mut slow = Slow { node: worker, takes, running: Vec::new(), began: BTreeMap::new() };
    slow.live(stage, &mut node, down.0).await;
    stage.set("2027-03-28T02:10:00Z");
    apply(stage, "ops", &edited, USUAL).await;
    stage.set("2027-03-28T03:07:00Z");
    slow.live(stage, &mut node, to).await;

    for name in policies.into_iter().chain(["changed"]) {
        let id = named(stage, name).await.id;
        let did = ledger_lines(stage, id).await;
        let own: Vec<_> = simulated.decisions.iter().filter(|it| it.schedule == name).collect();
        let mut said: Vec<_> = own.clone();
        said.sort_by_key(|it| it.slot);
        let said: Vec<String> =
            said.iter().map(|it| line(it.slot, it.end, it.count, &it.outcome)).collect();
        assert_eq!(said, did, "{name}");
        let refused = own.iter().filter(|it| it.outcome == "skipped_overlap").count();
        assert_eq!(refused > 0, !matches!(name, "allow" | "queue_all"), "{name}: {said:?}");
        for it in own {
            let began = slow.began.get(&(id, it.slot)).copied();
            // Those that are caught up begin one after the other, and the worker looks once a minute.
            let is_so = match (it.starts_at, began) {
                (Some(said), Some(did)) => did >= said && did.since(said) < minutes(1),
                (said, did) => said == did || said.is_some_and(|said| said >= to - minutes(1)),
            };
            assert!(is_so, "{name}: {it:?} started at {began:?}");
        }
    }
}
