//! Hot writes gather here: whatever is asked for while the last commit is under way goes with the
//! next. Nobody waits for a timer.

use std::future::Future;
use std::sync::Arc;

use punctual_store::{At, ErrorKind, Result, StoreError};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::driver::Driver;

/// Requests that may wait: more callers than this wait to be let in, so that a slow server shows
/// in their latency and not in memory.
const QUEUE_MAX: usize = 1_024;
/// Rows after which a batch goes: more make the statement long and the others wait.
const BATCH_ROWS_MAX: usize = 1_000;

/// One kind of write.
pub(crate) trait Work: Send + Sync + 'static {
    type Ask: Send + 'static;
    type Answer: Send + 'static;

    /// How many rows a request writes.
    fn rows(ask: &Self::Ask) -> usize;

    /// Does what was asked for, together, and answers.
    fn run(self: &Arc<Self>, batch: Vec<Request<Self>>) -> impl Future<Output = ()> + Send
    where
        Self: Sized;
}

/// What one call asks for: when it is, and a row for each item.
pub(crate) type Call<T> = (At, Vec<T>);

/// Work whose calls are written together, whoever made them.
pub(crate) trait Together: Send + Sync + 'static {
    type Item: Send + Sync + 'static;
    type Answer: Send + 'static;

    /// How many rows a call writes.
    fn rows(items: &[Self::Item]) -> usize {
        items.len()
    }

    /// Writes calls that go by one clock, all or none, and answers each.
    fn write(
        &self,
        at: At,
        calls: &[Call<Self::Item>],
    ) -> impl Future<Output = Result<Vec<Self::Answer>>> + Send;
}

impl<T: Together> Work for T {
    type Ask = Call<T::Item>;
    type Answer = T::Answer;

    fn rows((_, items): &Self::Ask) -> usize {
        <T as Together>::rows(items)
    }

    async fn run(self: &Arc<Self>, batch: Vec<Request<Self>>) {
        let (calls, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|request| (request.ask, request.reply)).unzip();
        let mut replies = replies.into_iter();
        for group in calls.chunk_by(|(one, _), (other, _)| one == other) {
            for (reply, answer) in replies.by_ref().zip(write_group(&**self, group).await) {
                // A caller that does not wait any more needs no answer.
                let _ = reply.send(answer);
            }
        }
    }
}

async fn write_group<T: Together>(work: &T, calls: &[Call<T::Item>]) -> Vec<Result<T::Answer>> {
    let Some((at, _)) = calls.first() else { return Vec::new() };
    match work.write(*at, calls).await {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        // A value that PostgreSQL refuses must not keep the others out.
        Err(error) if error.kind() == ErrorKind::Invalid && calls.len() > 1 => {
            let mut answers = Vec::with_capacity(calls.len());
            for call in calls {
                let written = work.write(*at, std::slice::from_ref(call)).await;
                answers.push(
                    written.and_then(|answers| answers.into_iter().next().ok_or_else(stopped)),
                );
            }
            answers
        }
        Err(error) => calls.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// What was asked for, and where the answer goes.
pub(crate) struct Request<W: Work> {
    pub(crate) ask: W::Ask,
    reply: oneshot::Sender<Result<W::Answer>>,
}

impl<W: Work> Request<W> {
    /// Answers. A caller that does not wait any more needs none.
    pub(crate) fn answer(self, answer: Result<W::Answer>) {
        let _ = self.reply.send(answer);
    }
}

/// The queue to the tasks that do one kind of write.
pub(crate) struct Gather<W: Work> {
    requests: mpsc::Sender<Request<W>>,
}

impl<W: Work> Gather<W> {
    /// Starts as many tasks as there are connections for this work.
    pub(crate) fn start(driver: &Driver, work: W, lanes: usize) -> Gather<W> {
        let (requests, queue) = mpsc::channel(QUEUE_MAX);
        let (work, queue) = (Arc::new(work), Arc::new(Mutex::new(queue)));
        for _ in 0..lanes {
            let (work, queue) = (work.clone(), queue.clone());
            driver.spawn(async move {
                while let Some(batch) = gather::<W>(&queue).await {
                    work.run(batch).await;
                }
            });
        }
        Gather { requests }
    }

    /// Asks for something, and waits until it is durable.
    pub(crate) async fn ask(&self, ask: W::Ask) -> Result<W::Answer> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request { ask, reply }).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// What has gathered; none when the store is gone.
async fn gather<W: Work>(queue: &Mutex<mpsc::Receiver<Request<W>>>) -> Option<Vec<Request<W>>> {
    let mut queue = queue.lock().await;
    let first = queue.recv().await?;
    let mut rows = W::rows(&first.ask);
    let mut batch = vec![first];
    while rows < BATCH_ROWS_MAX {
        let Ok(next) = queue.try_recv() else { break };
        rows += W::rows(&next.ask);
        batch.push(next);
    }
    Some(batch)
}

fn stopped() -> StoreError {
    StoreError::new(
        ErrorKind::Unreachable,
        "the store is closed; reopen it and check whether the request was applied",
    )
}
