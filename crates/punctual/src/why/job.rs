//! Why a job is where it is.

use punctual_core::job::{AttemptOutcome, JobState};
use punctual_core::{JobId, Timestamp};
use punctual_engine::{MAINTENANCE, Timing};
use punctual_store::{
    At, AuditView, JobDetail, JobFilter, JobView, Retention, Schedule, Store, limits, rules,
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
            JobState::Running if job.detail.cancel_asked => {
                let subject = view.id.to_string();
                let is_it = |audit: &AuditView| {
                    audit.entry.action == "cancel job" && audit.entry.subject == subject
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
    let mut reasons = match view.state {
        JobState::Scheduled | JobState::Retrying => timer(job, cluster),
        JobState::Ready => ready(job, cluster),
        JobState::Blocked => blocked(job, cluster),
        JobState::Running => running(job, cluster),
        JobState::Succeeded | JobState::Failed | JobState::Cancelled | JobState::Skipped => {
            ended::reasons(&job.detail, cluster)
        }
    };
    if matches!(view.state, JobState::Scheduled | JobState::Retrying | JobState::Blocked) {
        // They would keep it back later.
        reasons.extend(job.line.hindrances(cluster, &view.kind));
    }
    Why {
        subject: format!("job {} of kind `{}` in queue `{}`", view.id, view.kind, view.queue),
        state: view.state.to_string(),
        reasons: without_repeats(reasons),
    }
}

/// It may run now. Whatever keeps all jobs like it back comes first, then those before it.
fn ready(job: &Job, cluster: &Cluster) -> Vec<Reason> {
    let view = &job.detail.view;
    let mut reasons = job.line.hindrances(cluster, &view.kind);
    let due_at = view.due_at.unwrap_or(view.created_at);
    let waits = format!("it has been ready {}", lasting(cluster.now, due_at));
    let takers = cluster.takers(&view.queue, &view.kind);
    let at_work = listed(
        takers.iter().map(|node| format!("{} on {}", node.running, quoted(&node.info.name))),
    );
    let (ahead, is_all) = ahead(job, cluster);
    if ahead > 0 {
        let least = if is_all { "" } else { "at least " };
        let others = count(ahead, "job goes", "jobs go");
        let text = format!(
            "{waits}, and {least}{others} before it in queue `{}`, due earlier or with a higher priority; running now: {}",
            view.queue,
            if at_work.is_empty() { "none" } else { &at_work }
        );
        reasons.push(Reason::new("jobs_ahead", text));
    } else if !reasons.is_empty() {
        reasons.push(Reason::new("first_in_line", format!("{waits}, and goes first once it can")));
    } else if cluster.now.since(due_at) > Timing::default().poll * 2
        && takers.iter().any(|node| node.running > 0)
    {
        let text = format!(
            "{waits}, and is first in line, so that the nodes that could run it seem to have no free place; running now: {at_work}"
        );
        let reason = Reason::new("nodes_busy", text);
        reasons.push(reason.remedy("wait, raise `max_running` of these nodes, or start another"));
    } else {
        let nodes = listed(takers.iter().map(|node| quoted(&node.info.name)));
        let text = format!("{waits}, and is taken with the next claim of {nodes}");
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
        let due = format!("it is due {}", when(now, due_at));
        return vec![tried_before(job, cluster, &due).unwrap_or(Reason::new("due_later", due))];
    }
    // Whoever leads the upkeep looks after what is due.
    let due = format!("it was due {}", when(now, due_at));
    let undone = format!("no job becomes ready when its time has come: {due}");
    let overdue = cluster.nobody_leads(MAINTENANCE, &undone).unwrap_or_else(|| {
        let text =
            format!("{due}, and becomes ready with the next look at what is due, every second");
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
        let text = format!(
            "its handler asked {asked} to be called again later, which uses up no attempt; {due}"
        );
        return Some(Reason::new("snoozed", text));
    }
    let (spent, most) = (job.detail.spent, job.detail.view.max_attempts);
    let used = format!("{spent} of {most} attempts used up");
    let text = format!("{}; {used}; {due}", ended::attempt(last, cluster));
    let remedy = format!("see its attempts: `punctual job show {}`", job.detail.view.id);
    outcome.counts().then(|| Reason::new("retry_backoff", text).remedy(remedy))
}

/// It waits for another job of its schedule.
fn blocked(job: &Job, cluster: &Cluster) -> Vec<Reason> {
    let view = &job.detail.view;
    let of = job.schedule.as_ref().map_or_else(
        || "its schedule, which is deleted".to_owned(),
        |schedule| format!("schedule `{}`", schedule.name),
    );
    let order = |other: &JobView| (other.schedule.and_then(|(_, slot)| slot), other.id);
    let before = job.unfinished.blocked.iter().filter(|other| order(other) < order(view)).count();
    let before = match before as u64 {
        0 => String::new(),
        before => {
            format!("; before it {} with an earlier slot", count(before, "job waits", "jobs wait"))
        }
    };
    let Some(first) = &job.unfinished.first else {
        let undone = "no job that waited for another goes on";
        return vec![cluster.nobody_leads(MAINTENANCE, undone).unwrap_or_else(|| {
            let text = format!(
                "no other job of {of} is at work any more, and the first one that waits goes on within a second{before}"
            );
            Reason::new("freed_soon", text)
        })];
    };
    let text = format!(
        "it waits until job {} of {of} has ended, which is {}{before}: one at a time, in the order of slots",
        first.view.id,
        doing(first, cluster)
    );
    let remedy = format!(
        "wait, or call the other off: `punctual job cancel {}`; why it is there: `punctual why job {}`",
        first.view.id, first.view.id
    );
    vec![Reason::new("waits_for_job", text).remedy(remedy)]
}

/// An attempt is under way.
fn running(job: &Job, cluster: &Cluster) -> Vec<Reason> {
    let (detail, now) = (&job.detail, cluster.now);
    let Some(attempt) = detail.attempts.iter().find(|attempt| attempt.ended_at.is_none()) else {
        let text = "an attempt is under way, of which nothing can be read";
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
                    "its node {name} was declared dead {}; the job is about to be taken back and counts a crash",
                    when(now, dead_at)
                ),
            ),
            None => Reason::new(
                "node_silent",
                format!(
                    "its node {name} was last heard of {seen}; one that is silent for {patience} is declared dead, and its jobs are taken back"
                ),
            ),
        });
    } else if lost {
        let text = format!("its {name} is gone; the job is about to be taken back");
        reasons.push(Reason::new("node_dead", text));
    }
    if lost {
        let undone = "nobody takes the jobs of dead nodes back";
        reasons.extend(cluster.nobody_leads(MAINTENANCE, undone));
    }
    if detail.cancel_asked {
        let asked = match &job.cancel {
            Some(audit) => format!(
                "{} asked it to stop {}{}",
                audit.entry.actor.who,
                when(now, audit.at),
                after_colon(&audit.entry.actor.why)
            ),
            None => "it was asked to stop".to_owned(),
        };
        let text = format!("{asked}; its handler has not ended yet");
        reasons.push(Reason::new("cancel_asked", text));
    }
    let progress = detail.progress.as_ref().map_or_else(String::new, |progress| {
        let percent = progress.percent.map_or_else(String::new, |percent| format!(" {percent} %"));
        format!("; it said {}:{percent} {}", when(now, progress.at), progress.note)
    });
    let text = format!(
        "attempt {} runs on {name} {}; {} of {} attempts were used up before{}",
        attempt.attempt,
        lasting(now, attempt.claimed_at),
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
        "jobs that have ended are dropped, unless set otherwise, after {finished}, those that failed after {failed}"
    );
    let text = match minted_at(id) {
        Some(minted_at) if minted_at > now => {
            format!(
                "there is no such job, and its id is of a time to come, {}",
                when(now, minted_at)
            )
        }
        Some(minted_at) if now.since(minted_at) > kept.finished => {
            format!(
                "its id was made {}, and it is not there any more: {rule}",
                when(now, minted_at)
            )
        }
        Some(minted_at) => format!(
            "its id was made {}, and no such job was written here, or it was dropped: {rule}",
            when(now, minted_at)
        ),
        None => "there is no such job, and its id is none that punctual makes".to_owned(),
    };
    let remedy = "see that this is the right database, and that the transaction that enqueued it was committed";
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
