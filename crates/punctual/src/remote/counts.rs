//! How attempts of remote workers ended, by minute, until it is written with the other statistics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::AttemptOutcome;
use punctual_store::{ErrorKind, ExpiredJob, RollupCount};

use super::Remote;
use super::attempt::Known;
use crate::ctx::Shared;

/// Ended attempts that are not written yet, with the time that they took.
#[derive(Default)]
pub(crate) struct Counts(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    rows: BTreeMap<Row, (i64, i64)>,
    /// Will they be written?
    is_awaited: bool,
}

type Row = (Timestamp, &'static str, String, String);

/// Rows of one write.
const ROWS_AT_ONCE: usize = 500;
/// Rows that are kept while they cannot be written: a database can be away for an hour, with a hundred kinds
/// that end in three ways.
const ROWS_KEPT_MAX: usize = 20_000;

impl Counts {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to a row; true if a task has to be started that writes it.
    fn add(&self, row: Row, (count, sum): (i64, i64)) -> bool {
        let mut pending = self.lock();
        let total = pending.rows.entry(row).or_default();
        *total = (total.0.saturating_add(count), total.1.saturating_add(sum));
        !std::mem::replace(&mut pending.is_awaited, true)
    }

    fn take(&self) -> Vec<(Row, (i64, i64))> {
        let pending = std::mem::take(&mut *self.lock());
        pending.rows.into_iter().collect()
    }
}

impl Remote {
    /// Adds the end of an attempt to the statistics.
    pub(super) fn count(&self, known: &Known, outcome: AttemptOutcome, at: Timestamp) {
        // The node that waits for the end of a job that was sent as a request counts its success.
        if known.held.by.is_none() && outcome == AttemptOutcome::Succeeded {
            return;
        }
        let took = at.since(known.standing.claimed_at);
        let took = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        self.add_count(at, outcome.as_str(), (&known.queue, &known.kind), took);
    }

    /// Adds a job that did not start before its deadline to the statistics.
    pub(super) fn count_expired(&self, job: &ExpiredJob, at: Timestamp) {
        self.add_count(at, "jobs_expired", (&job.queue, &job.kind), 0);
    }

    fn add_count(
        &self,
        at: Timestamp,
        metric: &'static str,
        (queue, kind): (&str, &str),
        sum: i64,
    ) {
        let minute = Timestamp::from_seconds(at.floor_seconds().div_euclid(60) * 60);
        let row = (minute, metric, queue.to_owned(), kind.to_owned());
        if self.shared.counts.add(row, (1, sum)) {
            // It must not keep a store open that is otherwise closed.
            let (shared, env) = (Arc::downgrade(&self.shared), &self.shared.env);
            let wait = env.sleep(self.timing.roll_up);
            env.spawn(Box::pin(async move {
                wait.await;
                if let Some(shared) = shared.upgrade() {
                    shared.write_counts().await;
                }
            }));
        }
    }
}

/// How long a write of statistics may take.
const PATIENCE: Duration = Duration::from_secs(3);

impl Shared {
    /// Writes the statistics of remote workers.
    pub(crate) async fn write_counts(&self) {
        for part in self.counts.take().chunks(ROWS_AT_ONCE) {
            let count = |((minute, metric, queue, kind), (count, sum)): &(Row, (i64, i64))| {
                let (metric, queue, kind) = ((*metric).to_owned(), queue.clone(), kind.clone());
                RollupCount { minute: *minute, metric, queue, kind, count: *count, sum: *sum }
            };
            let rows: Vec<RollupCount> = part.iter().map(count).collect();
            let written = tokio::select! {
                written = self.store.roll_up(&rows) => written.map_err(|error| (error.kind(), error.to_string())),
                () = self.env.sleep(PATIENCE) => Err((ErrorKind::Unreachable, "timeout".to_owned())),
            };
            if let Err((kind, error)) = written {
                tracing::warn!(%error, "statistics of remote workers were not written");
                if can_repeat(kind) {
                    self.counts.put_back(part);
                }
            }
        }
    }
}

/// May rows be written again after this error? After a lost connection they may have been written, but
/// statistics without the attempts of an outage mislead more than an attempt that is counted twice. Values
/// that the store refuses are dropped.
fn can_repeat(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Retry | ErrorKind::Full | ErrorKind::Unreachable)
}

impl Counts {
    /// Keeps rows for the next write, which the next count starts. Beyond the bound, the oldest are dropped.
    fn put_back(&self, rows: &[(Row, (i64, i64))]) {
        for (row, total) in rows {
            self.add(row.clone(), *total);
        }
        let mut pending = self.lock();
        while pending.rows.len() > ROWS_KEPT_MAX {
            pending.rows.pop_first();
        }
        pending.is_awaited = false;
    }
}

#[cfg(test)]
mod tests {
    use punctual_conformance::{Fault, Faulty};
    use punctual_engine::{Env, System};
    use punctual_store::memory::Memory;

    use super::*;
    use crate::builder::Builder;
    use crate::connect::Ground;
    use crate::transaction::Backend;

    fn row(minute: i64) -> Row {
        let minute = Timestamp::from_seconds(minute * 60);
        (minute, "succeeded", "default".to_owned(), "mail".to_owned())
    }

    #[test]
    fn rows_that_could_not_be_written_are_kept_up_to_a_bound() {
        for kind in [ErrorKind::Retry, ErrorKind::Full, ErrorKind::Unreachable] {
            assert!(can_repeat(kind), "{kind:?}");
        }
        for kind in [ErrorKind::Invalid, ErrorKind::Corrupt, ErrorKind::Denied] {
            assert!(!can_repeat(kind), "{kind:?}");
        }
        let counts = Counts::default();
        assert!(counts.add(row(0), (1, 10)), "a write has to be started");
        let taken = counts.take();
        counts.put_back(&taken);
        assert!(counts.add(row(0), (2, 5)), "the next count starts the next write");
        assert_eq!(counts.take(), [(row(0), (3, 15))]);
        let most = ROWS_KEPT_MAX as i64;
        let many: Vec<_> = (0..most + 7).map(|minute| (row(minute), (1, 0))).collect();
        counts.put_back(&many);
        let kept = counts.take();
        assert_eq!((kept.len(), kept[0].0.clone()), (ROWS_KEPT_MAX, row(7)));
    }

    #[tokio::test]
    async fn a_stop_does_not_wait_for_statistics_that_cannot_be_written() {
        let is_roll_up = |method: &str| method == "roll_up";
        let store = Faulty::new(Memory::new(|| System.wall()), move |method| {
            if is_roll_up(method) { Fault::Silence } else { Fault::None }
        });
        let ground = Ground {
            env: Arc::new(System),
            store: Arc::new(store),
            backend: Backend::Memory,
            is_producer: false,
        };
        let builder = Builder::on(ground).shutdown_grace(Duration::ZERO);
        let punctual = builder.start().await.expect("it starts");
        // Three writes, each of which would take as long as a write may take.
        for number in 0..3 * ROWS_AT_ONCE {
            let row = (Timestamp::EPOCH, "succeeded", "default".to_owned(), number.to_string());
            punctual.shared().counts.add(row, (1, 1));
        }
        let start = System.elapsed();
        assert_eq!(punctual.stop().await.unsettled, 0);
        let took = System.elapsed() - start;
        assert!(took < 2 * PATIENCE, "{took:?}");
    }
}
