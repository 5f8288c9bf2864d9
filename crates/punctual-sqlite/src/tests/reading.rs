//! Which reads wait for which.

use std::sync::mpsc;
use std::time::Duration;

use punctual_core::NodeId;
use punctual_store::{At, ErrorKind, JobFilter, Store, limits};

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
