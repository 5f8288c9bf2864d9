//! Which reads wait for which.

use std::sync::mpsc;
use std::time::Duration;

use punctual_core::job::{Outcome, RetryPolicy, decide};
use punctual_core::{LeaseId, NodeId, ScheduleId, Timestamp};
use punctual_store::{
    Actor, At, BeatAsk, ClaimAsk, ErrorKind, EventCursor, JobFilter, QueueShare, Settled,
    Settlement, Store, limits,
};

use super::{NOW, fresh, job, node};
use crate::readers::LIST_READERS;

const AT: At = At::Fixed(NOW);
/// Ends a test that would otherwise wait forever.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lists that are read until they are released.
struct HeldLists {
    release: Vec<mpsc::Sender<()>>,
    lists: Vec<tokio::task::JoinHandle<punctual_store::Result<()>>>,
}

impl HeldLists {
    /// Starts this many lists, and waits until all connections for lists are in use.
    async fn start(store: &std::sync::Arc<crate::SqliteStore>, count: usize) -> HeldLists {
        let mut held = HeldLists { release: Vec::new(), lists: Vec::new() };
        let (started, mut runs) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..count {
            let (release, wait) = mpsc::channel();
            let (store, started) = (store.clone(), started.clone());
            let read = move |_: &rusqlite::Connection| {
                // A test that failed waits for neither.
                let _ = started.send(());
                let _ = wait.recv();
                Ok(())
            };
            held.lists.push(tokio::spawn(async move { store.readers.list(read).await }));
            held.release.push(release);
        }
        for _ in 0..LIST_READERS.min(count) {
            runs.recv().await.unwrap();
        }
        held
    }

    async fn end(self) {
        drop(self.release);
        for list in self.lists {
            list.await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn the_scheduler_and_running_jobs_do_not_wait_for_lists() {
    let (_directory, store) = fresh();
    let store = std::sync::Arc::new(store);
    let id = NodeId::mint(NOW, [1; 10]);
    let held = HeldLists::start(&store, LIST_READERS).await;
    let engine = async {
        store.join(AT, &node(id)).await.unwrap();
        store.due(AT, 0, 10).await.unwrap();
        assert_eq!(store.nodes().await.unwrap().len(), 1);
        assert!(store.leaders().await.unwrap().is_empty());
        store.enqueue(AT, &[job(1)]).await.unwrap();
        assert!(store.steps(job(1).id).await.unwrap().is_empty());
        assert!(store.job(job(1).id).await.unwrap().is_some());
    };
    tokio::time::timeout(PATIENCE, engine).await.expect("it waits for the lists");
    held.end().await;
}

/// A read that lasts until it is released.
type Hold = Box<dyn FnOnce() -> crate::error::Outcome<()> + Send>;

/// A connection that is in use until it is released.
async fn held(
    lane: impl AsyncFnOnce(Hold) -> punctual_store::Result<()> + Send + 'static,
) -> (mpsc::Sender<()>, impl Future<Output = punctual_store::Result<()>>) {
    let (started, runs) = tokio::sync::oneshot::channel();
    let (release, wait) = mpsc::channel();
    let hold = Box::new(move || {
        // A test that failed waits for neither.
        let _ = started.send(());
        let _ = wait.recv();
        Ok(())
    });
    let mut read = Box::pin(lane(hold));
    tokio::select! {
        runs = runs => runs.unwrap(),
        ended = &mut read => panic!("{ended:?}"),
    }
    (release, read)
}

#[tokio::test]
async fn the_engine_waits_for_no_read_of_an_api_request() {
    let (_directory, store) = fresh();
    let store = std::sync::Arc::new(store);
    let id = NodeId::mint(NOW, [1; 10]);
    let lists = HeldLists::start(&store, limits::LISTS_MAX).await;
    let other = store.clone();
    let (release, rows) = held(async move |hold| other.readers.rows(move |_| hold()).await).await;
    let engine = async {
        store.join(AT, &node(id)).await.unwrap();
        store.enqueue(AT, &[job(1)]).await.unwrap();
        store.due(AT, 0, 10).await.unwrap();
        let beat = BeatAsk {
            node: id,
            is_remote: false,
            roles: Vec::new(),
            lease: Duration::from_secs(5),
            seeks: Vec::new(),
            leases: Vec::new(),
            progress: Vec::new(),
        };
        assert!(store.beat(AT, &beat).await.unwrap().alive);
        let ask = ClaimAsk {
            node: id,
            lease: LeaseId::mint(NOW, [2; 10]),
            more: Vec::new(),
            queues: vec![QueueShare { name: job(1).queue, most: 1 }],
            kinds: vec![job(1).kind],
            most: 1,
        };
        let claimed = store.claim(AT, &ask).await.unwrap().jobs.remove(0);
        let transition = decide(&claimed.standing(), Outcome::Done, &RetryPolicy::default(), NOW);
        let (job, lease) = (claimed.id, claimed.lease);
        let item = Settlement { job, lease, transition, result: None, then: Vec::new() };
        let settled = store.settle(AT, &[item]).await.unwrap().answers;
        assert!(matches!(settled[..], [Settled::Applied(_)]), "{settled:?}");
        // The maintenance leader is neither rejected nor delayed.
        store.upkeep_jobs(&JobFilter::default(), None, 10).await.unwrap();
        assert!(store.schedules_ahead(NOW, 10).await.unwrap().schedules.is_empty());
    };
    tokio::time::timeout(PATIENCE, engine).await.expect("it waits for API requests");
    drop(release);
    rows.await.unwrap();
    lists.end().await;
}

/// The other half of the proof: what an API request can call never occupies the scheduler's connection.
#[tokio::test]
async fn no_api_request_uses_the_connection_of_the_scheduler() {
    let (_directory, store) = fresh();
    let store = std::sync::Arc::new(store);
    let other = store.clone();
    let (release, scheduler) =
        held(async move |hold| other.readers.scheduler(move |_| hold()).await).await;
    let api = async {
        let (id, schedule) = (job(1).id, ScheduleId::mint(NOW, [3; 10]));
        assert!(store.steps(id).await.unwrap().is_empty());
        assert!(store.nodes().await.unwrap().is_empty());
        assert!(store.leaders().await.unwrap().is_empty());
        assert!(store.schedule(schedule).await.unwrap().is_none());
        assert!(store.schedule_named("", "nightly").await.unwrap().is_none());
        assert!(store.generation("files").await.unwrap().is_none());
        assert!(store.job(id).await.unwrap().is_none());
        assert!(store.key_holder(AT, &job(1)).await.unwrap().is_none());
        assert!(store.queues().await.unwrap().is_empty());
        assert!(store.queue_stats(None, 10).await.unwrap().items.is_empty());
        store.schema().await.unwrap();
        store.jobs(&JobFilter::default(), None, 10).await.unwrap();
        store.upcoming(0, 10).await.unwrap();
    };
    tokio::time::timeout(PATIENCE, api).await.expect("a request waits for the scheduler");
    drop(release);
    scheduler.await.unwrap();
}

/// Metrics and pages need the job counts most when there are many requests.
#[tokio::test]
async fn job_counts_are_read_while_lists_are_rejected() {
    let (_directory, store) = fresh();
    let store = std::sync::Arc::new(store);
    store.enqueue(AT, &[job(1)]).await.unwrap();
    let lists = HeldLists::start(&store, limits::LISTS_MAX).await;
    let counts = tokio::time::timeout(PATIENCE, store.queue_stats(None, 10)).await;
    assert_eq!(counts.expect("it waits for lists").unwrap().items[0].ready, 1);
    lists.end().await;
}

#[tokio::test]
async fn lists_beyond_the_bound_are_rejected_at_once() {
    let (_directory, store) = fresh();
    let store = std::sync::Arc::new(store);
    let held = HeldLists::start(&store, limits::LISTS_MAX).await;
    let all = JobFilter::default();
    let list = || store.jobs(&all, None, 10);
    let refused = tokio::time::timeout(PATIENCE, list()).await.expect("it waits for the lists");
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Retry);
    held.end().await;
    list().await.unwrap();
}

/// Clients that replay a day of events must not delay writes.
#[tokio::test]
async fn events_are_read_as_lists_are() {
    let (_directory, store) = fresh();
    let store = std::sync::Arc::new(store);
    let start = EventCursor::at(Timestamp::EPOCH);
    let held = HeldLists::start(&store, LIST_READERS).await;
    let mut events = Box::pin(store.events(&start, NOW, 10));
    assert!(is_pending(events.as_mut()).await);
    store.enqueue(AT, &[job(1)]).await.unwrap();
    assert!(is_pending(events.as_mut()).await, "the writer reads them");
    held.end().await;
    assert!(events.await.unwrap().items.is_empty());
    let held = HeldLists::start(&store, limits::LISTS_MAX).await;
    let refused = tokio::time::timeout(PATIENCE, store.events(&start, NOW, 10));
    assert_eq!(refused.await.expect("it waits").unwrap_err().kind(), ErrorKind::Retry);
    held.end().await;
}

/// A client continues after the last event that it has read, so an event that is being written with an
/// earlier instant must not appear later.
#[tokio::test]
async fn events_wait_for_the_transaction_that_is_under_way() {
    let (_directory, store) = fresh();
    let store = std::sync::Arc::new(store);
    let (started, runs) = tokio::sync::oneshot::channel();
    let (release, wait) = mpsc::channel::<()>();
    let mut started = Some(started);
    let other = store.clone();
    let written = tokio::spawn(async move {
        let write = move |db: &rusqlite::Connection| {
            if let Some(started) = started.take() {
                let _ = started.send(());
                let _ = wait.recv();
            }
            let ana = Actor::new("ana", "needed");
            crate::upkeep::note(
                db,
                NOW,
                &ana,
                &punctual_store::AuditAction::PauseQueue,
                "queue mail",
            )
        };
        other.writer.write(1, write).await
    });
    runs.await.unwrap();
    let start = EventCursor::at(Timestamp::EPOCH);
    let mut events = Box::pin(store.events(&start, NOW, 10));
    assert!(is_pending(events.as_mut()).await);
    drop(release);
    written.await.unwrap().unwrap();
    assert_eq!(events.await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_list_whose_caller_has_gone_is_not_read() {
    let (_directory, store) = fresh();
    let store = std::sync::Arc::new(store);
    let held = HeldLists::start(&store, LIST_READERS).await;
    let (read, was_read) = mpsc::channel();
    let mut list = Box::pin(store.readers.list(move |_| {
        read.send(()).unwrap();
        Ok(())
    }));
    assert!(is_pending(list.as_mut()).await);
    drop(list);
    held.end().await;
    // It was queued before this one, and has been dropped with its sender.
    store.jobs(&JobFilter::default(), None, 10).await.unwrap();
    assert!(was_read.recv().is_err());
}

/// Polls a future once; whether it still waits.
async fn is_pending<T>(mut future: std::pin::Pin<&mut (impl Future<Output = T> + ?Sized)>) -> bool {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(future.as_mut().poll(context).is_pending())
    })
    .await
}
