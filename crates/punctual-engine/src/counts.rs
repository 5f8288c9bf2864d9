//! What a node has done, by minute, for whoever wants to see how it goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::job::AttemptOutcome;
use punctual_core::{Timestamp, histogram};
use punctual_store::{ClaimedJob, ErrorKind, Result, RollupCount, Store, StoreError};

use crate::config::Timing;
use crate::env::Env;
use crate::service::{Report, Rest, Service, within};

/// A job that was settled.
pub(crate) struct Finished {
    pub(crate) queue: String,
    pub(crate) kind: String,
    /// The number of the attempt, from 1.
    pub(crate) attempt: u32,
    /// How long the node had it.
    pub(crate) took: Duration,
    /// Did the handler write its success itself?
    pub(crate) is_settled: bool,
    /// How long it waited, if this was its first attempt.
    pub(crate) waited: Option<Waited>,
}

/// How long a job waited for its first attempt.
#[derive(Clone, Copy)]
pub(crate) struct Waited {
    /// Since it was due.
    pub(crate) due: Duration,
    /// Since its slot, if it has one.
    pub(crate) slot: Option<Duration>,
}

impl Waited {
    pub(crate) fn of(job: &ClaimedJob) -> Option<Waited> {
        let slot = job.origin.as_ref().and_then(|origin| origin.slot);
        (job.attempt == 1).then(|| Waited {
            due: job.claimed_at.since(job.due_at),
            slot: slot.map(|slot| job.claimed_at.since(slot)),
        })
    }
}

/// Attempts by minute, outcome, queue and kind, and the time they took and their jobs waited.
#[derive(Default)]
pub(crate) struct Counts(Mutex<BTreeMap<Row, (i64, i64)>>);

/// Slots that were missed.
const MISSED: &str = "slots_missed";

/// Jobs that did not start before their deadline.
const EXPIRED: &str = "jobs_expired";

/// How long attempts took, by the bucket of [`histogram`].
const TOOK: [&str; histogram::BUCKETS] = [
    "took_00", "took_01", "took_02", "took_03", "took_04", "took_05", "took_06", "took_07",
    "took_08", "took_09", "took_10", "took_11", "took_12", "took_13", "took_14", "took_15",
    "took_16", "took_17", "took_18", "took_19", "took_20", "took_21", "took_22", "took_23",
    "took_24", "took_25", "took_26",
];

/// How long jobs waited for their first attempt since they were due.
const WAITED: [&str; histogram::BUCKETS] = [
    "waited_00",
    "waited_01",
    "waited_02",
    "waited_03",
    "waited_04",
    "waited_05",
    "waited_06",
    "waited_07",
    "waited_08",
    "waited_09",
    "waited_10",
    "waited_11",
    "waited_12",
    "waited_13",
    "waited_14",
    "waited_15",
    "waited_16",
    "waited_17",
    "waited_18",
    "waited_19",
    "waited_20",
    "waited_21",
    "waited_22",
    "waited_23",
    "waited_24",
    "waited_25",
    "waited_26",
];

/// How long after their slot the jobs of schedules began.
const LATE: [&str; histogram::BUCKETS] = [
    "late_00", "late_01", "late_02", "late_03", "late_04", "late_05", "late_06", "late_07",
    "late_08", "late_09", "late_10", "late_11", "late_12", "late_13", "late_14", "late_15",
    "late_16", "late_17", "late_18", "late_19", "late_20", "late_21", "late_22", "late_23",
    "late_24", "late_25", "late_26",
];

/// Rows written at once; what is left out goes with the next.
const ROWS_AT_ONCE: usize = 500;

type Row = (Timestamp, &'static str, String, String);

/// The beginning of the minute.
fn minute_of(at: Timestamp) -> Timestamp {
    Timestamp::from_seconds(at.floor_seconds().div_euclid(60) * 60)
}

impl Counts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Row, (i64, i64)>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// An attempt has ended.
    pub(crate) fn add(&self, at: Timestamp, outcome: AttemptOutcome, finished: Finished) {
        let minute = minute_of(at);
        let Finished { queue, kind, took, waited, .. } = finished;
        let mut counts = self.lock();
        let mut add = |metric: &'static str, length: Duration| {
            let row = (minute, metric, queue.clone(), kind.clone());
            let (count, sum) = counts.entry(row).or_default();
            *count += 1;
            *sum += i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
        };
        add(outcome.as_str(), took);
        add(TOOK[histogram::bucket(took)], took);
        if let Some(waited) = waited {
            add(WAITED[histogram::bucket(waited.due)], waited.due);
            if let Some(late) = waited.slot {
                add(LATE[histogram::bucket(late)], late);
            }
        }
    }

    /// Slots have become no job because it was too late for them.
    pub(crate) fn missed(&self, at: Timestamp, slots: u64) {
        let row = (minute_of(at), MISSED, String::new(), String::new());
        self.lock().entry(row).or_default().0 += i64::try_from(slots).unwrap_or(i64::MAX);
    }

    /// A job did not start before its deadline.
    pub(crate) fn expired(&self, at: Timestamp, queue: &str, kind: &str) {
        let row = (minute_of(at), EXPIRED, queue.to_owned(), kind.to_owned());
        self.lock().entry(row).or_default().0 += 1;
    }

    fn take(&self) -> Vec<RollupCount> {
        let mut counts = self.lock();
        let later = match counts.keys().nth(ROWS_AT_ONCE).cloned() {
            Some(key) => counts.split_off(&key),
            None => BTreeMap::new(),
        };
        let taken = std::mem::replace(&mut *counts, later);
        let row = |((minute, metric, queue, kind), (count, sum)): (Row, (i64, i64))| RollupCount {
            minute,
            metric: metric.to_owned(),
            queue,
            kind,
            count,
            sum,
        };
        taken.into_iter().map(row).collect()
    }
}

/// Writes the counts down.
pub(crate) struct RollUp {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) timing: Timing,
    /// Counts that were not written because the store was busy.
    left: Vec<RollupCount>,
}

impl RollUp {
    pub(crate) fn new(
        env: Arc<dyn Env>,
        store: Arc<dyn Store>,
        counts: Arc<Counts>,
        timing: Timing,
    ) -> RollUp {
        RollUp { env, store, counts, timing, left: Vec::new() }
    }
}

#[async_trait]
impl Service for RollUp {
    fn name(&self) -> &'static str {
        "roll_up"
    }

    async fn run_once(&mut self) -> Result<Report> {
        if self.left.is_empty() {
            self.left = self.counts.take();
        }
        let rest = Rest::AtMost(self.timing.roll_up);
        if self.left.is_empty() {
            return Ok(Report::new(0, rest));
        }
        let call = self.store.roll_up(&self.left);
        let written = within(&*self.env, self.timing.call, call).await;
        // Counts that may have been written are not written again: few is better than double.
        let is_kept =
            |error: &StoreError| matches!(error.kind(), ErrorKind::Retry | ErrorKind::Full);
        if !written.as_ref().is_err_and(is_kept) {
            self.left.clear();
        }
        written?;
        Ok(Report::new(1, rest))
    }
}
