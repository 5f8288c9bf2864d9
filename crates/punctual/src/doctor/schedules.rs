//! Whether schedules fire, and whether their jobs do well.

use std::collections::BTreeMap;

use punctual_core::Timestamp;
use punctual_core::schedule::Definition;
use punctual_engine::SCHEDULER;
use punctual_store::{
    HeldSlots, JobFilter, JobView, Result, Schedule, SlotView, Store, limits as bounds,
};

use super::{Finding, Severity, Thresholds, nodes};
use crate::why::Reason;
use crate::why::cluster::Cluster;
use crate::why::line::paused;
use crate::why::schedule::{
    NEWEST, behind, failures, held, in_command, jobs_fail, queue_of, set_aside,
};
use crate::wording::{count, instant, listed, quoted, when};

/// Schedules, and of some their past.
pub(super) struct Facts {
    pub(super) all: Vec<Schedule>,
    pub(super) has_more: bool,
    /// By the place in the list.
    pub(super) histories: BTreeMap<usize, History>,
    pub(super) has_more_histories: bool,
}

/// What became of a schedule's newest slots and jobs, newest first.
pub(super) struct History {
    slots: Vec<SlotView>,
    jobs: Vec<JobView>,
}

/// Rows of a ledger in which the newest decision at the watermark is looked for: those of backfills
/// may stand before it.
const ROWS: usize = 5;

impl Facts {
    pub(super) async fn read(store: &dyn Store, limits: &Thresholds) -> Result<Facts> {
        let (all, has_more) = list(store, limits).await?;
        let mut histories = BTreeMap::new();
        let mut has_more_histories = false;
        for (index, schedule) in all.iter().enumerate().filter(|(_, one)| one.enabled) {
            if histories.len() == limits.histories {
                has_more_histories = true;
                break;
            }
            let made = JobFilter { schedule: Some(schedule.id), ..JobFilter::default() };
            let history = History {
                slots: store.slots(schedule.id, None, ROWS).await?.items,
                jobs: store.jobs(&made, None, NEWEST).await?.items,
            };
            histories.insert(index, history);
        }
        Ok(Facts { all, has_more, histories, has_more_histories })
    }
}

/// The schedules, tenant by tenant, up to the bound.
async fn list(store: &dyn Store, limits: &Thresholds) -> Result<(Vec<Schedule>, bool)> {
    let mut all: Vec<Schedule> = Vec::new();
    for tenant in &limits.tenants {
        let mut after: Option<String> = None;
        loop {
            let most = limits.schedules.saturating_sub(all.len()).min(bounds::PAGE_MAX);
            let page = store.schedules(tenant, after.as_deref(), most.max(1)).await?;
            let Some(last) = page.last() else { break };
            if most == 0 {
                return Ok((all, true));
            }
            after = Some(last.name.clone());
            all.extend(page);
        }
    }
    Ok((all, false))
}

pub(super) fn findings(facts: &Facts, cluster: &Cluster, limits: &Thresholds) -> Vec<Finding> {
    let mut found = Found::default();
    for (index, schedule) in facts.all.iter().enumerate() {
        look(schedule, cluster, limits, &mut found);
        if let Some(history) = facts.histories.get(&index) {
            look_back(schedule, history, cluster, limits, &mut found);
        }
    }
    let mut findings = Vec::new();
    if !facts.all.is_empty() && cluster.no_node().is_none() {
        findings.extend(nodes::unled(cluster, SCHEDULER, "schedules do not fire"));
        findings.extend(without_node(&facts.all, cluster, limits));
    }
    findings.extend(found.told());
    findings
}

fn called(schedule: &Schedule) -> String {
    match schedule.tenant.as_str() {
        "" => format!("schedule `{}`", schedule.name),
        tenant => format!("schedule `{}` of tenant `{tenant}`", schedule.name),
    }
}

/// What its row tells.
fn look(schedule: &Schedule, cluster: &Cluster, limits: &Thresholds, found: &mut Found) {
    let (it, now) = (called(schedule), cluster.now);
    if let Some(reason) = &schedule.set_aside {
        found.add(Severity::Problem, schedule, set_aside(&it, schedule, reason));
        return;
    }
    if !schedule.enabled {
        return;
    }
    if let Some(due_at) = schedule.due_at().filter(|due_at| now.since(*due_at) > limits.late) {
        found.add(Severity::Problem, schedule, overdue(&it, schedule, due_at, now));
    }
    if is_held_long(schedule, now, limits)
        && let Some(reason) = held_slots(&it, schedule, cluster)
    {
        found.add(Severity::Problem, schedule, reason);
    }
    if let Some(pause) = &schedule.pause
        && pause.until.is_none()
        && now.since(pause.since) >= limits.pause
    {
        let remedy = format!(
            "resume it: `punctual schedule resume {0}`; or set an end: \
             `punctual schedule pause {0} --until TIME`",
            in_command(schedule)
        );
        let text = format!("{it} is {}", paused(pause, now));
        found.add(Severity::Warning, schedule, Reason::new("paused_long", text).remedy(remedy));
    }
}

/// Do slots of an active schedule wait for a node for longer than a restart takes?
fn is_held_long(schedule: &Schedule, now: Timestamp, limits: &Thresholds) -> bool {
    let is_long = |held: &HeldSlots| now.since(held.since) > limits.late;
    schedule.held.as_ref().is_some_and(is_long)
        && schedule.enabled
        && schedule.set_aside.is_none()
        && !schedule.is_paused(now)
}

/// Its slots wait for a node, with the nodes that are live.
fn held_slots(it: &str, schedule: &Schedule, cluster: &Cluster) -> Option<Reason> {
    let definition = Definition::parse(schedule.spec.as_str()).ok();
    let taker = definition.and_then(|it| cluster.no_taker(&queue_of(&it), &it.job.kind));
    let (cause, remedy) = taker.map_or((String::new(), None), |taker| (taker.text, taker.remedy));
    let reason = held(&format!("slots of {it}"), schedule, &cause, cluster.now)?;
    Some(Reason { remedy, ..reason })
}

/// It is due and undecided; after a pause that has ended, everybody believes it to be paused still.
fn overdue(it: &str, schedule: &Schedule, due_at: Timestamp, now: Timestamp) -> Reason {
    let ended = schedule.pause.as_ref().and_then(|pause| pause.until);
    let reason = match ended.filter(|until| *until == due_at) {
        Some(until) => {
            let text = format!(
                "the pause of {it} ended {}, but no slot was decided since",
                when(now, until)
            );
            Reason::new("pause_expired", text)
        }
        None => behind(it, now, due_at),
    };
    reason.remedy(format!(
        "find the leader of `scheduler/{}` with `punctual leader` and check its log",
        schedule.shard
    ))
}

/// What its past tells.
fn look_back(
    schedule: &Schedule,
    history: &History,
    cluster: &Cluster,
    limits: &Thresholds,
    found: &mut Found,
) {
    let it = called(schedule);
    let newest = history.slots.iter().find(|row| row.run == 0);
    let decided = newest.map(|row| row.end.unwrap_or(row.slot));
    if let (Some(decided), Some(next)) = (decided, schedule.next_slot)
        && next <= decided
    {
        let text = format!(
            "{it} is inconsistent: its next slot is {}, but its ledger already has slots up to {}; \
             it cannot fire and may delay other schedules; a partial restore can cause this",
            instant(next),
            instant(decided)
        );
        let reason = Reason::new("watermark_behind_ledger", text)
            .remedy("restore the whole database from one backup");
        found.add(Severity::Problem, schedule, reason);
    }
    let failures = failures(&history.jobs);
    if failures.len() >= limits.failures.max(1) {
        let its = format!("{it}: the");
        if let Some(reason) = jobs_fail(&its, &failures, cluster.now) {
            found.add(Severity::Problem, schedule, reason);
        }
    }
}

/// Schedules whose jobs nobody could run, by queue and kind: they have yet to fail, perhaps at night.
fn without_node(all: &[Schedule], cluster: &Cluster, limits: &Thresholds) -> Vec<Finding> {
    let mut makes: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let is_active = |schedule: &&Schedule| {
        schedule.enabled
            && schedule.set_aside.is_none()
            && schedule.next_slot.is_some()
            && !is_held_long(schedule, cluster.now, limits)
    };
    for schedule in all.iter().filter(is_active) {
        if let Ok(definition) = Definition::parse(schedule.spec.as_str()) {
            let job = (queue_of(&definition), definition.job.kind);
            makes.entry(job).or_default().push(quoted(&schedule.name));
        }
    }
    let told = makes.into_iter().filter_map(|((queue, kind), names)| {
        let reason = cluster.no_taker(&queue, &kind)?;
        let who = if names.len() == 1 { "schedule" } else { "schedules" };
        let text = format!("jobs of {who} {} cannot run: {}", listed(names), reason.text);
        Some(Finding::warning(Reason { code: "schedule_without_node", text, ..reason }))
    });
    told.collect()
}

/// Findings about schedules, by what they are: of many alike, the first is told and the others are
/// counted.
#[derive(Default)]
struct Found {
    by_code: BTreeMap<&'static str, Vec<(String, Finding)>>,
}

/// So many findings of one sort are told each for itself.
const ALIKE: usize = 5;

impl Found {
    fn add(&mut self, severity: Severity, schedule: &Schedule, reason: Reason) {
        let finding = Finding::new(severity, reason);
        let alike = self.by_code.entry(finding.code).or_default();
        alike.push((quoted(&schedule.name), finding));
    }

    fn told(self) -> Vec<Finding> {
        let mut told = Vec::new();
        for (_, mut alike) in self.by_code {
            if alike.len() > ALIKE + 1 {
                let others: Vec<String> = alike.drain(ALIKE..).map(|(name, _)| name).collect();
                let (count, names) = (count(others.len() as u64, "", "others"), listed(others));
                if let Some((_, last)) = alike.last_mut() {
                    last.text = format!("{}; the same applies to {count}: {names}", last.text);
                }
            }
            told.extend(alike.into_iter().map(|(_, finding)| finding));
        }
        told
    }
}
