//! What a node has done, by minute, for whoever wants to see how it goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::job::AttemptOutcome;
use punctual_store::{ErrorKind, Result, RollupCount, Store};

use crate::config::Timing;
use crate::env::Env;
use crate::service::{Report, Rest, Service, within};
use crate::work::Finished;

/// Attempts by minute, outcome, queue and kind, and the time they took.
#[derive(Default)]
pub(crate) struct Counts(Mutex<BTreeMap<Row, (i64, i64)>>);

/// Rows written at once; what is left out goes with the next.
const ROWS_AT_ONCE: usize = 500;

type Row = (Timestamp, &'static str, String, String);

impl Counts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Row, (i64, i64)>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// An attempt has ended.
    pub(crate) fn add(&self, at: Timestamp, outcome: AttemptOutcome, finished: Finished) {
        let minute = Timestamp::from_seconds(at.floor_seconds().div_euclid(60) * 60);
        let Finished { queue, kind, took, .. } = finished;
        let row = (minute, outcome.as_str(), queue, kind);
        let mut counts = self.lock();
        let (count, sum) = counts.entry(row).or_default();
        *count += 1;
        *sum += i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
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
        if !matches!(&written, Err(error) if error.kind() == ErrorKind::Retry) {
            self.left.clear();
        }
        written?;
        Ok(Report::new(1, rest))
    }
}
