//! Waiting for the end of a job.

use punctual::testing::Frozen;
use punctual::{Builder, JobId, JobState, Punctual};
use tokio::time::Instant;

use crate::{deliver, frozen, mail};

/// Runs some work while another task waits for a job. The clock of tokio is paused: it advances only
/// if all tasks sleep, so that each poll would take time.
async fn wait_during(queue: &Frozen, id: JobId, work: impl Future<Output = ()>) -> JobState {
    let begin = now();
    let (finished, ()) = tokio::join!(queue.wait(id), work);
    assert_eq!(now() - begin, std::time::Duration::ZERO, "it polled");
    finished.unwrap().state
}

#[expect(clippy::disallowed_methods, reason = "the paused clock of the test")]
fn now() -> Instant {
    Instant::now()
}

fn builder() -> Builder {
    Punctual::memory().handle(deliver)
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_the_process_that_runs_the_job_does_not_poll() {
    let queue = frozen(builder()).await;
    let id = queue.enqueue(&mail("a")).await.unwrap().id;
    let work = async {
        // The wait has read the job by then.
        tokio::task::yield_now().await;
        queue.drain().await;
    };
    assert_eq!(wait_during(&queue, id, work).await, JobState::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_the_process_that_cancels_the_job_does_not_poll() {
    let queue = frozen(builder()).await;
    let id = queue.enqueue(&mail("a")).await.unwrap().id;
    let work = async {
        tokio::task::yield_now().await;
        queue.admin().cancel(id).await.unwrap();
    };
    assert_eq!(wait_during(&queue, id, work).await, JobState::Cancelled);
}
