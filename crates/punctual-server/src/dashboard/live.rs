//! What has changed, told to pages that are open: topics, not contents. A page that hears of a topic of
//! its own reads itself again.
//!
//! While somebody listens, the store's hints are gathered, and since hints tell nothing of other nodes on
//! SQLite, a handful of bounded reads once a second find out what else is new. Nobody listens, nothing
//! is read.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::header;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use punctual::{Admin, JobFilter, JobId, LogCursor, LogView, Punctual, Topic};
use tokio::sync::broadcast;

use super::Ui;

/// No page reads itself again more often than this.
const PACE: Duration = Duration::from_secs(1);
/// Rounds after which the nodes' heartbeats are worth another look.
const ROUNDS_PER_BEAT: u64 = 5;
/// What a page that fell behind may still hear.
const KEPT: usize = 16;

/// Whoever tells and whoever listens.
pub(super) struct Live {
    told: broadcast::Sender<String>,
    is_watching: Arc<AtomicBool>,
    punctual: Punctual,
}

impl Live {
    pub(super) fn new(punctual: Punctual) -> Live {
        Live { told: broadcast::channel(KEPT).0, is_watching: Arc::default(), punctual }
    }

    /// Tells at once, without waiting for the next round: something was changed here.
    pub(super) fn tell(&self, topics: &str) {
        // Nobody may be listening.
        let _ = self.told.send(topics.to_owned());
    }

    fn listen(&self) -> broadcast::Receiver<String> {
        let receiver = self.told.subscribe();
        if !self.is_watching.swap(true, Ordering::AcqRel) {
            let watch = watch(self.punctual.admin(), self.told.clone(), self.is_watching.clone());
            drop(tokio::spawn(watch));
        }
        receiver
    }
}

/// What was last seen of each topic.
#[derive(Default, PartialEq)]
struct Seen {
    jobs: u64,
    schedules: u64,
    activity: u64,
    counts: u64,
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Seen {
    async fn look(admin: &Admin) -> punctual::Result<Seen> {
        let stats = admin.queue_stats(None, 100).await?;
        let counts: Vec<_> = stats
            .items
            .iter()
            .map(|it| {
                (
                    &it.queue,
                    &it.kind,
                    it.ready,
                    it.scheduled,
                    it.retrying,
                    it.blocked,
                    it.running,
                    it.failed,
                )
            })
            .collect();
        let newest = admin.jobs(&JobFilter::default(), None, 1).await?;
        let newest =
            newest.items.first().map(|job| (*job.id.as_bytes(), job.state.as_str(), job.attempt));
        let upcoming = admin.upcoming(20).await?;
        let upcoming: Vec<_> = upcoming.iter().map(|it| (*it.id.as_bytes(), it.stamp)).collect();
        let audit = admin.audits(None, 1).await?.items.first().map(|entry| entry.id);
        let now = admin.now().await?;
        let minute = punctual::Timestamp::from_seconds(now.floor_seconds().div_euclid(60) * 60);
        // What is counted is written down some seconds later, when the minute may be over.
        let ask = punctual::SumAsk {
            from: minute - Duration::from_secs(60),
            to: minute + Duration::from_secs(60),
            minutes: 1,
            by_queue: false,
        };
        let sums: Vec<_> = admin.sums(&ask).await?.iter().map(|sum| sum.count).collect();
        Ok(Seen {
            jobs: hash((counts, newest)),
            schedules: hash(upcoming),
            activity: hash(audit),
            counts: hash((minute.as_micros(), sums)),
        })
    }

    /// The topics that are not as they were.
    fn changed(&self, before: &Seen) -> Vec<&'static str> {
        let mut topics = Vec::new();
        if self.jobs != before.jobs {
            topics.extend(["jobs", "queues"]);
        }
        if self.schedules != before.schedules || self.activity != before.activity {
            topics.push("schedules");
        }
        if self.activity != before.activity {
            topics.extend(["activity", "queues"]);
        }
        if self.counts != before.counts {
            topics.push("stats");
        }
        topics
    }
}

#[expect(clippy::disallowed_methods, reason = "pages are watched in the world's own time")]
async fn rest(length: Duration) {
    tokio::time::sleep(length).await;
}

/// Looks once a second, for as long as somebody listens.
async fn watch(admin: Admin, told: broadcast::Sender<String>, is_watching: Arc<AtomicBool>) {
    let mut hints = [Topic::Work, Topic::Schedules, Topic::Roles].map(|topic| admin.hints(topic));
    let mut before: Option<Seen> = None;
    for round in 0_u64.. {
        let mut topics: Vec<&str> = Vec::new();
        for (hint, names) in hints.iter_mut().zip([
            ["jobs", "queues"],
            ["schedules", "schedules"],
            ["nodes", "nodes"],
        ]) {
            if hint.take() {
                topics.extend(names);
            }
        }
        // A database that does not answer is told by the page itself, when somebody asks for it.
        if let Ok(seen) = Seen::look(&admin).await {
            topics.extend(before.as_ref().map(|before| seen.changed(before)).unwrap_or_default());
            before = Some(seen);
        }
        if round % ROUNDS_PER_BEAT == 0 {
            topics.push("nodes");
        }
        topics.sort_unstable();
        topics.dedup();
        if !topics.is_empty() {
            let _ = told.send(topics.join(" "));
        }
        rest(PACE).await;
        if told.receiver_count() == 0 {
            is_watching.store(false, Ordering::Release);
            // Somebody may have come in between, and found it watched.
            if told.receiver_count() == 0 || is_watching.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }
}

#[derive(serde::Deserialize)]
pub(super) struct Ask {
    #[serde(default)]
    watch: String,
}

/// One job that a page is about: looked at for this page alone.
struct Watched {
    admin: Admin,
    job: JobId,
    seen: Mutex<u64>,
}

impl Watched {
    async fn has_changed(&self) -> bool {
        let Ok(job) = self.admin.job(self.job).await else { return false };
        let newest = self.admin.newest_log(self.job, None, 1).await;
        let newest = newest.ok().and_then(|page| page.items.first().map(LogView::cursor));
        let newest = newest.map(|LogCursor(attempt, number)| (attempt, number));
        let progress = job.progress.as_ref().map(|it| (it.percent, it.at.as_micros()));
        let state = job.view.state.as_str();
        let now = hash((state, job.attempts.len(), job.cancel_requested, progress, newest));
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        std::mem::replace(&mut *seen, now) != now
    }
}

/// The stream of one page.
pub(super) async fn events(State(ui): State<Ui>, Query(ask): Query<Ask>) -> Response {
    let receiver = ui.0.live.listen();
    let job = ask.watch.strip_prefix("job:").and_then(|id| id.parse().ok());
    let watched =
        job.map(|job| Arc::new(Watched { admin: ui.admin(), job, seen: Mutex::default() }));
    let events =
        stream::unfold((receiver, watched, true), |(mut receiver, watched, is_first)| async move {
            if is_first {
                let hello =
                    Event::default().event("hello").retry(Duration::from_secs(2)).data("here");
                return Some((Ok::<_, Infallible>(hello), (receiver, watched, false)));
            }
            let topics = next(&mut receiver, watched.as_deref()).await?;
            let event = Event::default().event("changed").data(topics);
            Some((Ok(event), (receiver, watched, false)))
        });
    let events = ui.0.app.server.closing.cut(events);
    let answer = Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)));
    // A proxy that gathers answers would keep every one of them for itself.
    ([(header::HeaderName::from_static("x-accel-buffering"), "no")], answer).into_response()
}

/// The next topics that a page may care for.
async fn next(
    receiver: &mut broadcast::Receiver<String>,
    watched: Option<&Watched>,
) -> Option<String> {
    loop {
        tokio::select! {
            told = receiver.recv() => match told {
                Ok(topics) => return Some(topics),
                Err(broadcast::error::RecvError::Lagged(_)) => return Some("jobs queues schedules stats nodes activity".to_owned()),
                Err(broadcast::error::RecvError::Closed) => return None,
            },
            () = rest(PACE), if watched.is_some() => {
                if let Some(watched) = watched && watched.has_changed().await {
                    return Some("job".to_owned());
                }
            }
        }
    }
}
