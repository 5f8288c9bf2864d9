//! Why a schedule fires or does not.

use punctual_core::Timestamp;
use punctual_core::job::{JobState, SlotOutcome};
use punctual_core::schedule::{Definition, ON_TIME, Overlap, RunOn};
use punctual_store::{At, AuditView, JobFilter, JobView, Pause, Schedule, SlotView, Store, limits};

use super::cluster::Cluster;
use super::line::{Line, paused};
use super::unfinished::{Unfinished, doing};
use super::{Reason, Why, answered, slots, without_repeats};
use crate::Result;
use crate::wording::{after_colon, argument, count, did_you_mean, instant, lasting, length, when};

/// Says why a schedule fires when it does, or does not: when its next slot is, who stopped it,
/// what became of its last slots, and whether its jobs can run and do well.
pub async fn schedule(store: &dyn Store, at: At, tenant: &str, name: &str) -> Result<Why> {
    let subject = subject(tenant, name);
    let facts = Facts::read(store, at, tenant, name).await;
    answered(&subject, facts.map(|facts| explain(&facts, &subject)))
}

fn subject(tenant: &str, name: &str) -> String {
    match tenant {
        "" => format!("schedule `{name}`"),
        tenant => format!("schedule `{name}` of tenant `{tenant}`"),
    }
}

/// All that the answer depends on.
struct Facts {
    cluster: Cluster,
    name: String,
    found: Found,
}

enum Found {
    Schedule(Box<Known>),
    /// It is not there, but these are.
    Others(Vec<String>),
}

struct Known {
    schedule: Schedule,
    /// What it means, if that can be read.
    definition: Option<Definition>,
    /// The queue of its jobs.
    line: Option<Line>,
    /// Its newest decided slots, newest first.
    slots: Vec<SlotView>,
    /// Its newest jobs, newest first.
    jobs: Vec<JobView>,
    unfinished: Unfinished,
    /// Who changed it last, if the audit still knows.
    changed: Option<AuditView>,
}

/// Slots and jobs that are looked at: as many as people would.
pub(crate) const NEWEST: usize = 20;

impl Facts {
    async fn read(
        store: &dyn Store,
        at: At,
        tenant: &str,
        name: &str,
    ) -> punctual_store::Result<Facts> {
        let cluster = Cluster::read(store, at).await?;
        let found = match store.schedule_named(tenant, name).await? {
            Some(schedule) => Found::Schedule(Box::new(Known::read(store, schedule).await?)),
            None => {
                let others = store.schedules(tenant, None, limits::PAGE_MAX).await?;
                Found::Others(others.into_iter().map(|other| other.name).collect())
            }
        };
        Ok(Facts { cluster, name: name.to_owned(), found })
    }
}

impl Known {
    async fn read(store: &dyn Store, schedule: Schedule) -> punctual_store::Result<Known> {
        let definition = Definition::parse(schedule.spec.as_str()).ok();
        let line = match &definition {
            Some(definition) => Some(Line::read(store, &queue_of(definition)).await?),
            None => None,
        };
        let made = JobFilter { schedule: Some(schedule.id), ..JobFilter::default() };
        let changed = match schedule.enabled {
            true => None,
            false => {
                let page = store.audits(None, limits::PAGE_MAX).await?;
                // The audit tells names alone; the instant says that it is this schedule's.
                let is_it = |audit: &AuditView| {
                    audit.entry.subject == schedule.name && audit.at == schedule.changed_at
                };
                page.items.into_iter().find(is_it)
            }
        };
        Ok(Known {
            definition,
            line,
            slots: store.slots(schedule.id, None, NEWEST).await?.items,
            jobs: store.jobs(&made, None, NEWEST).await?.items,
            unfinished: Unfinished::read(store, schedule.id).await?,
            changed,
            schedule,
        })
    }
}

fn explain(facts: &Facts, subject: &str) -> Why {
    let (state, reasons) = match &facts.found {
        Found::Schedule(known) => known.explain(&facts.cluster),
        Found::Others(names) => ("not_found", vec![not_found(&facts.name, names)]),
    };
    Why { subject: subject.to_owned(), state: state.to_owned(), reasons }
}

fn not_found(name: &str, names: &[String]) -> Reason {
    let meant = did_you_mean(name, names.iter().map(String::as_str));
    let text = match meant {
        Some(meant) => format!("schedule `{name}` not found; {meant}"),
        None => format!("schedule `{name}` not found"),
    };
    Reason::new("not_found", text).remedy("list all schedules: `punctual schedule list`")
}

/// Where the jobs of a schedule wait.
pub(crate) fn queue_of(definition: &Definition) -> String {
    let own = RunOn::parse(&definition.run_on).ok().and_then(|run_on| run_on.queue());
    own.unwrap_or_else(|| definition.job.queue.clone())
}

/// How a schedule is called in a command.
pub(crate) fn in_command(schedule: &Schedule) -> String {
    let name = argument(&schedule.name);
    match schedule.tenant.as_str() {
        "" => name,
        tenant => format!("{name} --tenant {}", argument(tenant)),
    }
}

impl Known {
    /// The state and why; what stops it comes first, then what becomes of its jobs.
    fn explain(&self, cluster: &Cluster) -> (&'static str, Vec<Reason>) {
        let (state, stopped) = self.stopped(cluster.now);
        let is_active = stopped.is_none();
        let mut reasons: Vec<Reason> = stopped.into_iter().collect();
        if is_active {
            reasons.extend(self.undecided(cluster));
        }
        let is_undecided = is_active && !reasons.is_empty();
        let (in_the_way, beside) = match self.is_held_up() {
            true => (self.unfinished_job(cluster), None),
            false => (None, self.unfinished_job(cluster)),
        };
        reasons.extend(in_the_way);
        if let (Some(line), Some(definition)) = (&self.line, &self.definition) {
            reasons.extend(line.hindrances(cluster, &definition.job.kind));
        }
        reasons.extend(jobs_fail("the", &failures(&self.jobs), cluster.now));
        if is_active {
            reasons.extend(self.next_slot(cluster.now, is_undecided));
        }
        reasons.extend(beside);
        reasons.extend(slots::reasons(&self.slots));
        (state, without_repeats(reasons))
    }

    /// Its state, and what keeps it from firing for as long as nobody does anything.
    fn stopped(&self, now: Timestamp) -> (&'static str, Option<Reason>) {
        let schedule = &self.schedule;
        if let Some(reason) = &schedule.set_aside {
            return ("quarantined", Some(set_aside("the schedule", schedule, reason)));
        }
        if !schedule.enabled {
            return ("disabled", Some(self.disabled(now)));
        }
        if let Some(pause) = schedule.pause.as_ref().filter(|pause| pause.is_in_force(now)) {
            return ("paused", Some(self.paused(pause, now)));
        }
        match schedule.next_slot {
            _ if schedule.ahead_until(now).is_some() => ("ahead", self.ahead(now)),
            None => ("finished", Some(self.finished(now))),
            Some(_) => ("active", None),
        }
    }

    fn disabled(&self, now: Timestamp) -> Reason {
        let who = match &self.changed {
            Some(audit) => format!(
                "disabled by {} {}{}",
                audit.entry.actor.who,
                when(now, audit.at),
                after_colon(&audit.entry.actor.why)
            ),
            None => format!("disabled; last changed {}", when(now, self.schedule.changed_at)),
        };
        let reason =
            Reason::new("disabled", format!("{who}; it does not fire until it is enabled"));
        let command = in_command(&self.schedule);
        reason.remedy(format!("enable it: `punctual schedule enable {command}`"))
    }

    fn paused(&self, pause: &Pause, now: Timestamp) -> Reason {
        let rule = self.definition.as_ref().and_then(|known| known.rule(&self.schedule.name).ok());
        // The end of a pause does not belong to it.
        let next = pause
            .until
            .zip(rule)
            .and_then(|(until, rule)| rule.spec.next(until - std::time::Duration::from_micros(1)));
        let next = next.map_or_else(String::new, |next| {
            format!("; the first slot after that is {}", when(now, next))
        });
        let command = in_command(&self.schedule);
        Reason::new("paused_schedule", format!("{}{next}", paused(pause, now)))
            .remedy(format!("resume it: `punctual schedule resume {command}`"))
    }

    /// It waits for a clock that was set back.
    fn ahead(&self, now: Timestamp) -> Option<Reason> {
        let until = self.schedule.ahead_until(now)?;
        let next = match self.schedule.next_slot {
            Some(next) => format!("; the next slot that fires is {}", when(now, next)),
            None => "; no slots are left".to_owned(),
        };
        let text = format!(
            "slots up to {} ({} from now) are already decided, because the database clock was ahead \
             and was set back{next}",
            instant(until),
            length(until.since(now))
        );
        let command = in_command(&self.schedule);
        Some(Reason::new("schedule_ahead", text).remedy(format!(
            "if the clock is right now, discard these decisions: `punctual schedule realign \
             {command}`; `--dry-run` lists them"
        )))
    }

    /// It has no slots left.
    fn finished(&self, now: Timestamp) -> Reason {
        let rule = self.definition.as_ref().and_then(|known| known.rule(&self.schedule.name).ok());
        let why = rule.and_then(|rule| rule.spec.never_fires(now));
        let last = match (why, self.schedule.last_slot) {
            (Some(why), _) => why,
            (None, Some(last)) => format!("the last slot was at {}", instant(last)),
            (None, None) => "the last slot is unknown".to_owned(),
        };
        let end = self.definition.as_ref().and_then(|known| known.end.clone());
        let end = end.map_or_else(String::new, |end| format!("; `end` is {end}"));
        let command = in_command(&self.schedule);
        Reason::new("no_more_slots", format!("no slots left: {last}{end}")).remedy(format!(
            "to run it again, change its times: `punctual schedule edit {command} --cron EXPR`"
        ))
    }

    /// What is due and nobody decides.
    fn undecided(&self, cluster: &Cluster) -> Option<Reason> {
        let role = format!("scheduler/{}", self.schedule.shard);
        if let Some(reason) = cluster.nobody_leads(&role, "schedules do not fire") {
            return Some(reason);
        }
        let leader = cluster.leader(&role)?;
        if let Some(reason) = held("slots", &self.schedule, "", cluster.now) {
            return Some(reason);
        }
        let due_at = self.schedule.due_at().filter(|due| cluster.now.since(*due) > ON_TIME)?;
        Some(behind("the schedule", cluster.now, due_at).remedy(format!(
            "check the log of {}, which has led `{role}` {}",
            cluster.name(leader.node),
            lasting(cluster.now, leader.since)
        )))
    }

    /// Did an unfinished job keep the newest slot from becoming one that may start?
    fn is_held_up(&self) -> bool {
        let newest = self.slots.first().map(|row| row.outcome);
        newest == Some(SlotOutcome::SkippedOverlap) || !self.unfinished.blocked.is_empty()
    }

    /// A job that the next slots have to mind.
    fn unfinished_job(&self, cluster: &Cluster) -> Option<Reason> {
        let overlap = self.definition.as_ref()?.overlap;
        let first = self.unfinished.first.as_ref()?;
        let waiting = self.unfinished.blocked.len() as u64;
        let effect = match overlap {
            Overlap::Allow => return None,
            Overlap::Skip => "slots are skipped until it finishes".to_owned(),
            Overlap::QueueOne if waiting > 0 => {
                "one job is blocked by it, and further slots are skipped".to_owned()
            }
            Overlap::QueueOne | Overlap::QueueAll if waiting == 0 => {
                "the job of the next slot will wait for it".to_owned()
            }
            Overlap::QueueOne | Overlap::QueueAll => {
                format!("{} blocked by it", count(waiting, "job is", "jobs are"))
            }
            Overlap::CancelRunning => "the next slot cancels it".to_owned(),
        };
        let id = first.view.id;
        let text = format!(
            "unfinished job {id}: {}; {effect} (overlap = {overlap})",
            doing(first, cluster)
        );
        if !self.is_held_up() {
            return Some(Reason::new("unfinished_job", text));
        }
        Some(Reason::new("overlap", text).remedy(format!(
            "wait, or cancel it: `punctual job cancel {id}`; for its state: `punctual why job {id}`"
        )))
    }

    /// When it fires next; that it is late was told if it is.
    fn next_slot(&self, now: Timestamp, is_undecided: bool) -> Option<Reason> {
        let next = self.schedule.next_slot.filter(|next| *next > now || !is_undecided)?;
        let text = match next > now {
            true => format!("next slot {}", when(now, next)),
            false => format!("next slot was due {} and is being decided", when(now, next)),
        };
        Some(Reason::new("next_slot", format!("{text}{}", self.excluded(next, now))))
    }

    /// That a slot will not fire, and which will, if it is excluded.
    fn excluded(&self, slot: Timestamp, now: Timestamp) -> String {
        let rule = self.definition.as_ref().and_then(|known| known.rule(&self.schedule.name).ok());
        let Some(rule) = rule else { return String::new() };
        if !rule.is_excluded(slot) {
            let from = rule.spec.moved_from(slot);
            return from.map(|from| format!(", moved from {from}")).unwrap_or_default();
        }
        let moved = rule.moved(slot).map(|moved| format!(" ({moved})")).unwrap_or_default();
        match rule.next(slot) {
            Some(next) => {
                format!(", excluded{moved}; the next slot that fires is {}", when(now, next))
            }
            None => ", excluded, as are all later slots".to_owned(),
        }
    }
}

/// It, whatever it is called here, cannot be planned.
pub(crate) fn set_aside(it: &str, schedule: &Schedule, reason: &str) -> Reason {
    let command = in_command(schedule);
    let reason = after_colon(reason);
    let text = format!("{it} is quarantined and does not fire{reason}");
    Reason::new("quarantined", text).remedy(format!(
        "fix the definition, for example: `punctual schedule edit {command} --tz ZONE`; if the \
         cause is already fixed: `punctual schedule enable {command}`"
    ))
}

/// The slots of a schedule wait for a node; `cause` says why none can run them, if it is known.
pub(crate) fn held(
    slots: &str,
    schedule: &Schedule,
    cause: &str,
    now: Timestamp,
) -> Option<Reason> {
    let (held, first) = (schedule.held.as_ref()?, schedule.next_slot?);
    let rule = Definition::parse(schedule.spec.as_str()).and_then(|it| it.rule(&schedule.name));
    let given_up = rule.map_or_else(
        |_| String::new(),
        |rule| {
            let at = when(now, first + rule.hold_for());
            format!("; if none joins, `missed = {}` applies to the first slot {at}", rule.missed)
        },
    );
    let text = format!(
        "{slots} due since {} wait for {}{}{given_up}",
        instant(first),
        held.nodes(),
        after_colon(cause)
    );
    Some(Reason::new("slots_held", text))
}

/// It, whatever it is called here, is due, and nobody decides it.
pub(crate) fn behind(it: &str, now: Timestamp, due_at: Timestamp) -> Reason {
    let late = length(now.since(due_at));
    let text =
        format!("{it} is late by {late}: the slot due at {} was not decided", instant(due_at));
    Reason::new("firing_late", text)
}

/// Those jobs of a schedule that failed since the last one that succeeded.
pub(crate) fn failures(newest_first: &[JobView]) -> Vec<&JobView> {
    newest_first
        .iter()
        .filter(|job| matches!(job.state, JobState::Failed | JobState::Succeeded))
        .take_while(|job| job.state == JobState::Failed)
        .collect()
}

/// The last jobs of it, whatever it is called here, failed.
pub(crate) fn jobs_fail(its: &str, failures: &[&JobView], now: Timestamp) -> Option<Reason> {
    let newest = failures.first()?;
    let finished_at = newest.finished_at.unwrap_or(newest.created_at);
    // The job may have finished after `now` was read.
    let ended = when(now.max(finished_at), finished_at);
    let error = after_colon(newest.error.as_deref().unwrap_or_default());
    let text = match failures.len() {
        1 => format!("{its} last job failed {ended}{error}"),
        many => format!("{its} last {many} jobs failed, most recently {ended}{error}"),
    };
    let id = newest.id;
    let reason = Reason::new("jobs_fail", text);
    Some(reason.remedy(format!(
        "details: `punctual why job {id}`; after fixing the cause: `punctual job retry {id}`"
    )))
}
