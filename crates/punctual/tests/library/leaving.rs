//! Starting and stopping, by the real clock.

use std::sync::Arc;
use std::time::Duration;

use punctual::{BoxError, Ctx, ErrorKind, Job, JobState, Punctual, StopReason};
use tokio::sync::Notify;

use crate::{Mail, deliver, mail};

#[derive(Clone, Default)]
struct Gate {
    began: Arc<Notify>,
    go_on: Arc<Notify>,
}

async fn wait(_: Mail, cx: Ctx<Gate>) {
    cx.state().began.notify_one();
    cx.state().go_on.notified().await;
}

#[tokio::test]
async fn stopping_lets_what_runs_finish() {
    let gate = Gate::default();
    let punctual = Punctual::memory().state(gate.clone()).handle(wait).start().await.unwrap();
    let id = punctual.enqueue(&mail("a")).await.unwrap().id;
    gate.began.notified().await;
    let stopping = tokio::spawn({
        let punctual = punctual.clone();
        async move { punctual.stop().await }
    });
    gate.go_on.notify_one();
    assert_eq!(stopping.await.unwrap().unsettled, 0);
    assert_eq!(punctual.wait(id).await.unwrap().state, JobState::Succeeded);
}

#[tokio::test]
async fn stopping_at_once_gives_back_what_runs() {
    let gate = Gate::default();
    let punctual = Punctual::memory().state(gate.clone()).handle(wait).start().await.unwrap();
    let id = punctual.enqueue(&mail("a")).await.unwrap().id;
    gate.began.notified().await;
    assert_eq!(punctual.stop_now().await.unsettled, 0);
    let job = punctual.admin().job(id).await.unwrap();
    assert_eq!((job.view.state, job.spent), (JobState::Ready, 0));
}

/// Waits for a job that is not due, while the handle is stopped.
async fn waits_end(punctual: Punctual) {
    let hour = Duration::from_secs(3_600);
    let id = punctual.enqueue(mail("a").order().delay(hour)).await.unwrap().id;
    let (waited, waited_at_most, (), _) = tokio::join!(
        punctual.wait(id),
        punctual.wait_at_most(id, hour),
        punctual.stopping(),
        punctual.stop()
    );
    let again = punctual.wait(id).await;
    for error in [waited.unwrap_err(), waited_at_most.unwrap_err(), again.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Stopped);
        assert!(error.to_string().contains("was stopped in this program before job"), "{error}");
    }
}

#[tokio::test]
async fn waits_for_a_job_end_when_the_node_or_the_producer_stops() {
    waits_end(Punctual::memory().handle(deliver).start().await.unwrap()).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    waits_end(Punctual::sqlite(&path).await.unwrap().handle(deliver).start().await.unwrap()).await;
    waits_end(Punctual::sqlite(&path).producer().await.unwrap().start().await.unwrap()).await;
}

#[tokio::test]
async fn waits_for_a_job_end_although_the_caller_of_stop_did_not_wait() {
    let gate = Gate::default();
    let builder = Punctual::memory().state(gate.clone()).handle(wait);
    let punctual = builder.shutdown_grace(Duration::from_millis(1)).start().await.unwrap();
    let id = punctual.enqueue(&mail("a")).await.unwrap().id;
    gate.began.notified().await;
    let stopped = tokio::time::timeout(Duration::ZERO, punctual.stop()).await;
    assert!(stopped.is_err(), "the caller gave up");
    assert_eq!(punctual.wait(id).await.unwrap_err().kind(), ErrorKind::Stopped);
}

#[tokio::test]
async fn a_handler_learns_of_a_shutdown_at_its_start() {
    async fn saves_its_work(_: Mail, cx: Ctx<Gate>) -> Result<(), BoxError> {
        cx.state().began.notify_one();
        assert_eq!(cx.cancelled().await, StopReason::Shutdown);
        assert_eq!(cx.stop_reason(), Some(StopReason::Shutdown));
        let left = cx.time_left().expect("it has to stop");
        Err(format!("saved with {} s left", left.as_secs()).into())
    }
    let gate = Gate::default();
    let hour = Duration::from_secs(3_600);
    let builder = Punctual::memory().state(gate.clone()).handle(saves_its_work);
    let punctual = builder.shutdown_grace(hour).start().await.unwrap();
    let id = punctual.enqueue(mail("a").order().max_attempts(1)).await.unwrap().id;
    gate.began.notified().await;
    assert_eq!(punctual.stop().await.unsettled, 0);
    let job = punctual.admin().job(id).await.unwrap();
    assert_eq!((job.view.state, job.spent), (JobState::Ready, 0));
}

#[tokio::test]
async fn a_node_that_never_works_and_one_that_never_leads() {
    let builder = Punctual::memory().handle(deliver).never_works().name("leads");
    let leads = builder.start().await.unwrap();
    leads.enqueue(&mail("a")).await.unwrap();
    // If it never does, the test never ends, and the runner says so.
    while leads.admin().leaders().await.unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(leads.admin().nodes().await.unwrap()[0].info.queues.is_empty());
    leads.stop().await;
    let works = Punctual::memory().handle(deliver).never_leads().start().await.unwrap();
    let id = works.enqueue(&mail("a")).await.unwrap().id;
    assert_eq!(works.wait(id).await.unwrap().state, JobState::Succeeded);
    assert!(works.admin().leaders().await.unwrap().is_empty());
    works.stop().await;
}

#[tokio::test]
async fn a_file_has_one_node_and_any_number_of_producers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let missing = Punctual::sqlite(&path).auto_migrate(false).await.err().unwrap().to_string();
    assert!(missing.contains("migrat"), "{missing}");
    let node = Punctual::sqlite(&path).await.unwrap().handle(deliver).start().await.unwrap();
    let second = Punctual::sqlite(&path).await.err().unwrap().to_string();
    assert!(second.contains("is in use by another server"), "{second}");
    let producer = Punctual::sqlite(&path).producer().await.unwrap().start().await.unwrap();
    let id = producer.enqueue(&mail("a")).await.unwrap().id;
    assert_eq!(node.wait(id).await.unwrap().state, JobState::Succeeded);
    assert!(producer.health().is_none());
    let handles = Punctual::sqlite(&path).producer().await.unwrap().handle(deliver).start().await;
    insta::assert_snapshot!(handles.err().unwrap(), @"a producer cannot have handlers, but kind `mail` has one; remove `.producer()` or the handler");
    node.stop().await;
}

#[tokio::test]
async fn running_until_a_signal_ends_with_the_node() {
    let punctual = Punctual::memory().handle(deliver).start().await.unwrap();
    let other = punctual.clone();
    let (ran, _) = tokio::join!(punctual.run_until_signal(), other.stop());
    assert_eq!(ran.unwrap().unsettled, 0);
}
