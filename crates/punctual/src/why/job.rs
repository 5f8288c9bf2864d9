//! Why a job is where it is.

use punctual_core::job::{AttemptOutcome, JobState, is_expired};
use punctual_core::{JobId, Timestamp};
use punctual_engine::{MAINTENANCE, Timing};
use punctual_store::{
    At, AuditAction, AuditView, JobDetail, JobFilter, JobView, Retention, Schedule, Store, limits,
    rules,
};

use super::cluster::{Cluster, handles, serves};
use super::line::Line;
use super::unfinished::{Unfinished, doing};
use super::{Reason, Why, answered, ended, without_repeats};
use crate::Result;
use crate::wording::{after_colon, count, lasting, length, listed, quoted, when};

/// Says why a job is where it is: what it waits for, who works on it, how it ended.
pub async fn job(store: &dyn Store, at: At, id: JobId) -> Result<Why> {
    let facts = Facts::read(store, at, id).await;
    answered(&format!("job {id}"), facts.map(|facts| explain(&facts)))
}

/// All that the answer depends on.
struct Facts {
    id: JobId,
    cluster: Cluster,
    job: Option<Job>,
}

struct Job {
    detail: JobDetail,
    line: Line,
    /// Of a ready job: others that are ready in its queue.
    ready: Ready,
    /// Of a blocked job: its schedule, and what is unfinished of it.
    schedule: Option<Schedule>,
    unfinished: Unfinished,
    /// Of a job whose worker was asked to stop: who asked.
    cancel: Option<AuditView>,
}

/// Ready jobs of a queue.
#[derive(Default)]
struct Ready {
    jobs: Vec<JobView>,
    /// Are these all?
    is_all: bool,
}

impl Facts {
    async fn read(store: &dyn Store, at: At, id: JobId) -> punctual_store::Result<Facts> {
        let cluster = Cluster::read(store, at).await?;
        let job = match store.job(id).await? {
            Some(detail) => Some(Job::read(store, detail).await?),
            None => None,
        };
        Ok(Facts { id, cluster, job })
    }
}

impl Job {
    async fn read(store: &dyn Store, detail: JobDetail) -> punctual_store::Result<Job> {
        let mut job = Job {
            line: Line::read(store, &detail.view.queue).await?,
            ready: Ready::default(),
            schedule: None,
            unfinished: Unfinished::default(),
            cancel: None,
            detail,
        };
        let view = &job.detail.view;
        match view.state {
            JobState::Ready => {
                let filter = JobFilter {
                    state: Some(JobState::Ready),
                    queue: Some(view.queue.clone()),
                    ..JobFilter::default()
                };
                let page = store.jobs(&filter, None, limits::PAGE_MAX).await?;
                job.ready = Ready { jobs: page.items, is_all: page.next.is_none() };
            }
            JobState::Blocked => {
                if let Some((schedule, _)) = view.schedule {
                    job.schedule = store.schedule(schedule).await?;
                    job.unfinished = Unfinished::read(store, schedule).await?;
                }
            }
            JobState::Running if job.detail.cancel_requested => {
                let subject = view.id.to_string();
                let is_it = |audit: &AuditView| {
                    audit.entry.action == AuditAction::CancelJob && audit.entry.subject == subject
                };
                let page = store.audits(None, limits::PAGE_MAX).await?;
                job.cancel = page.items.into_iter().find(is_it);
            }
            _ => {}
        }
        Ok(job)
    }
}

fn explain(facts: &Facts) -> Why {
    let Some(job) = &facts.job else { return not_found(facts.id, facts.cluster.now) };
    let view = &job.detail.view;
    let cluster = &facts.cluster;
    let is_waiting = !view.state.is_final() && view.state != JobState::Running;
    let mut reasons = match view.state {
        _ if is_waiting && is_expired(job.detail.expires_at, cluster.now) => expired(job, cluster),
        JobState::Scheduled | JobState::Retrying => timer(job, cluster),
        JobState::Ready => ready(job, cluster),
        JobState::Blocked => blocked(job, cluster),
        JobState::Running => running(job, cluster),
        JobState::Succeeded | JobState::Failed | JobState::Cancelled => {
            ended::reasons(&job.detail, cluster)
        }
    };
    if matches!(view.state, JobState::Scheduled | JobState::Retrying | JobState::Blocked) {
        // They would keep it back later.
        reasons.extend(job.line.hindrances(cluster, &view.kind));
    }
    if is_waiting {
        reasons.extend(start_deadline(&job.detail, cluster));
    }
    Why {
        subject: format!("job {} of kind `{}` in queue `{}`", view.id, view.kind, view.queue),
        state: view.state.to_string(),
        reasons: without_repeats(reasons),
    }
}

/// It waits and will fail, because its start deadline has passed.
fn expired(job: &Job, cluster: &Cluster) -> Vec<Reason> {
    let passed = job.detail.expires_at.map_or_else(String::new, |at| when(cluster.now, at));
    let text = format!("its start deadline (`start_within`) passed {passed}");
    let undone = format!("{text}, but expired jobs are not ended");
    let mut reasons = vec![cluster.nobody_leads(MAINTENANCE, &undone).unwrap_or_else(|| {
        let text = format!("{text}; it fails at the next check, which runs every second");
        Reason::new("expired", text)
    })];
    if job.detail.view.state == JobState::Ready {
        reasons.extend(job.line.hindrances(cluster, &job.detail.view.kind));
    }
    reasons
}

/// Until when it may start.
fn start_deadline(detail: &JobDetail, cluster: &Cluster) -> Option<Reason> {
    let expires_at = detail.expires_at.filter(|at| *at >= cluster.now)?;
    let text = format!(
        "its start deadline (`start_within`) is {}; it fails if no attempt has started until then",
        when(cluster.now, expires_at)
    );
    Some(Reason::new("start_deadline", text))
}

/// It may run now. Whatever keeps all jobs like it back comes first, then those before it.
fn ready(job: &Job, cluster: &Cluster) -> Vec<Reason> {
    let view = &job.detail.view;
    let mut reasons = job.line.hindrances(cluster, &view.kind);
    let due_at = view.due_at.unwrap_or(view.created_at);
    let waits = format!("ready {}", lasting(cluster.now, due_at));
    let takers = cluster.takers(&view.queue, &view.kind);
    let at_work = listed(
        takers.iter().map(|node| format!("{} on {}", node.running, quoted(&node.info.name))),
    );
    let (ahead, is_all) = ahead(job, cluster);
    if ahead > 0 {
        let least = if is_all { "" } else { "at least " };
        let others = count(ahead, "job is", "jobs are");
        let text = format!(
            "{waits}; {least}{others} ahead of it in queue `{}`, due earlier or with a higher \
             priority; running now: {}",
            view.queue,
            if at_work.is_empty() { "none" } else { &at_work }
        );
        reasons.push(Reason::new("jobs_ahead", text));
    } else if !reasons.is_empty() {
        let text = format!("{waits}; it is next to start once the reasons above are resolved");
        reasons.push(Reason::new("next_to_start", text));
    } else if cluster.now.since(due_at) > Timing::default().poll * 2
        && takers.iter().any(|node| node.running > 0)
    {
        let text = format!(
            "{waits}; it is next to start, but the nodes that can run it seem to be at their limit \
             (`max_running`); running now: {at_work}"
        );
        let reason = Reason::new("nodes_busy", text);
        reasons
            .push(reason.remedy("wait, raise `max_running` of these nodes, or start another node"));
    } else {
        let nodes = listed(takers.iter().map(|node| quoted(&node.info.name)));
        let text = format!("{waits}; the next claim takes it; nodes that can run it: {nodes}");
        reasons.push(Reason::new("next_claim", text));
    }
    reasons
}

/// How many jobs go before it, as far as was read, and whether that is all. Jobs of a kind that
/// nobody could claim stand in nobody's way.
fn ahead(job: &Job, cluster: &Cluster) -> (u64, bool) {
    let view = &job.detail.view;
    let rank = |view: &JobView| {
        let due_at = view.due_at.unwrap_or(Timestamp::MAX);
        (rules::rank(due_at, view.priority), view.id)
    };
    let nodes: Vec<_> = cluster.live().filter(|node| serves(node, &view.queue)).collect();
    let can_run = |other: &JobView| nodes.iter().any(|node| handles(node, &other.kind));
    let others = job.ready.jobs.iter().filter(|other| rank(other) < rank(view) && can_run(other));
    (others.count() as u64, job.ready.is_all)
}

/// It waits for its time.
fn timer(job: &Job, cluster: &Cluster) -> Vec<Reason> {
    let (view, now) = (&job.detail.view, cluster.now);
    let due_at = view.due_at.unwrap_or(now);
    if due_at > now {
        let due = format!("due {}", when(now, due_at));
        return vec![tried_before(job, cluster, &due).unwrap_or(Reason::new("due_later", due))];
    }
    // Whoever leads the upkeep looks after what is due.
    let due = format!("was due {}", when(now, due_at));
    let undone = format!("due jobs do not become ready; this job {due}");
    let overdue = cluster.nobody_leads(MAINTENANCE, &undone).unwrap_or_else(|| {
        let text = format!("{due}; it becomes ready at the next check, which runs every second");
        Reason::new("due_now", text)
    });
    [Some(overdue), tried_before(job, cluster, &due)].into_iter().flatten().collect()
}

/// Why a job that was tried before waits for its next attempt.
fn tried_before(job: &Job, cluster: &Cluster, due: &str) -> Option<Reason> {
    let last = job.detail.attempts.last()?;
    let outcome = last.outcome?;
    if outcome == AttemptOutcome::Snoozed {
        let asked = when(cluster.now, last.ended_at.unwrap_or(last.claimed_at));
        let text =
            format!("snoozed by its handler {asked}, which is not counted as an attempt; {due}");
        return Some(Reason::new("snoozed", text));
    }
    let (spent, most) = (job.detail.spent, job.detail.view.max_attempts);
    let used = format!("{spent} of {most} attempts used");
    let text = format!("{}; {used}; next attempt {due}", ended::attempt(last, cluster));
    let remedy = format!("show its attempts: `punctual job show {}`", job.detail.view.id);
    outcome.counts().then(|| Reason::new("retry_backoff", text).remedy(remedy))
}

/// It waits for another job of its schedule.
fn blocked(job: &Job, cluster: &Cluster) -> Vec<Reason> {
    let view = &job.detail.view;
    let of = job.schedule.as_ref().map_or_else(
        || "its deleted schedule".to_owned(),
        |schedule| format!("schedule `{}`", schedule.name),
    );
    let order = |other: &JobView| (other.schedule.and_then(|(_, slot)| slot), other.id);
    let before = job.unfinished.blocked.iter().filter(|other| order(other) < order(view)).count();
    let before = match before as u64 {
        0 => String::new(),
        before => {
            format!("; {} an earlier slot", count(before, "blocked job has", "blocked jobs have"))
        }
    };
    let Some(first) = &job.unfinished.first else {
        let undone = "blocked jobs are not unblocked";
        return vec![cluster.nobody_leads(MAINTENANCE, undone).unwrap_or_else(|| {
            let text = format!(
                "the other jobs of {of} have finished; its first blocked job is unblocked within \
                 a second{before}"
            );
            Reason::new("unblocked_soon", text)
        })];
    };
    let text = format!(
        "blocked by job {} of {of}, {}{before}; jobs of this schedule run one at a time, in the \
         order of their slots",
        first.view.id,
        doing(first, cluster)
    );
    let remedy = format!(
        "wait, or cancel that job: `punctual job cancel {}`; for its state: `punctual why job {}`",
        first.view.id, first.view.id
    );
    vec![Reason::new("waits_for_job", text).remedy(remedy)]
}

/// An attempt is under way.
fn running(job: &Job, cluster: &Cluster) -> Vec<Reason> {
    let (detail, now) = (&job.detail, cluster.now);
    let Some(attempt) = detail.attempts.iter().find(|attempt| attempt.ended_at.is_none()) else {
        let text = "an attempt is running, but its record cannot be read";
        return vec![Reason::new("running", text)];
    };
    let mut reasons = Vec::new();
    let name = attempt.node.map_or_else(|| "a node".to_owned(), |node| cluster.name(node));
    let node = attempt.node.and_then(|node| cluster.node(node));
    let lost = node.is_none_or(|node| !cluster.is_live(node));
    if let Some(node) = node.filter(|_| lost) {
        let (seen, patience) = (when(now, node.seen_at), cluster.patience());
        reasons.push(match node.dead_at {
            Some(dead_at) => Reason::new(
                "node_dead",
                format!(
                    "its node {name} was declared dead {}; the job will be reclaimed, and the \
                     attempt counts as a crash",
                    when(now, dead_at)
                ),
            ),
            None => Reason::new(
                "node_silent",
                format!(
                    "the last heartbeat of its node {name} was {seen}; a node without a heartbeat \
                     for {patience} is declared dead, and its jobs are reclaimed"
                ),
            ),
        });
    } else if lost {
        let text = format!("{name} is no longer registered; the job will be reclaimed");
        reasons.push(Reason::new("node_dead", text));
    }
    if lost {
        let undone = "jobs of dead nodes are not reclaimed";
        reasons.extend(cluster.nobody_leads(MAINTENANCE, undone));
    }
    if detail.cancel_requested {
        let asked = match &job.cancel {
            Some(audit) => format!(
                "cancel requested by {} {}{}",
                audit.entry.actor.who,
                when(now, audit.at),
                after_colon(&audit.entry.actor.why)
            ),
            None => "cancel requested".to_owned(),
        };
        let text = format!("{asked}; the handler is still running");
        reasons.push(Reason::new("cancel_requested", text));
    }
    let progress = detail.progress.as_ref().map_or_else(String::new, |progress| {
        let percent = progress.percent.map_or_else(String::new, |percent| format!(" {percent} %"));
        format!("; progress {}:{percent} {}", when(now, progress.at), progress.note)
    });
    let text = format!(
        "running on {name} {}, attempt {}; {} of {} attempts used before{}",
        lasting(now, attempt.claimed_at),
        attempt.attempt,
        detail.spent,
        detail.view.max_attempts,
        progress.trim_end()
    );
    reasons.push(Reason::new("running", text));
    reasons
}

/// It never was, or is no more.
fn not_found(id: JobId, now: Timestamp) -> Why {
    let kept = Retention::default();
    let (finished, failed) = (length(kept.finished), length(kept.failed));
    let rule = format!(
        "by default, finished jobs are deleted after {finished} and failed jobs after {failed}"
    );
    let text = match minted_at(id) {
        Some(minted_at) if minted_at > now => {
            format!("job not found; its id is from the future: {}", when(now, minted_at))
        }
        Some(minted_at) if now.since(minted_at) > kept.finished => {
            format!("job not found; its id was created {}; {rule}", when(now, minted_at))
        }
        Some(minted_at) => format!(
            "job not found; its id was created {}; the job was never enqueued in this database, \
             or it was deleted: {rule}",
            when(now, minted_at)
        ),
        None => "job not found; its id was not created by punctual".to_owned(),
    };
    let remedy = "check that this is the right database, and that the transaction that enqueued \
                  the job was committed";
    Why {
        subject: format!("job {id}"),
        state: "not_found".to_owned(),
        reasons: vec![Reason::new("not_found", text).remedy(remedy)],
    }
}

/// When an id was made, if it is one that says so.
fn minted_at(id: JobId) -> Option<Timestamp> {
    let uuid = id.as_uuid();
    let ms = i64::try_from(uuid.as_u128() >> 80).ok()?;
    (uuid.get_version_num() == 7).then(|| Timestamp::from_micros(ms.saturating_mul(1_000)))
}
