//! What the plots are made of: the counters of each minute, added up; and what is worth keeping for a
//! few seconds because many look at it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use punctual::doctor::{Diagnosis, Thresholds};
use punctual::{Admin, AttemptOutcome, RollupSum, SumAsk, Timestamp};
use punctual_core::histogram;

use super::heat::Heat;
use crate::fault::Fault;

/// The span that plots show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Window {
    Hour,
    Day,
    Week,
}

impl Window {
    pub(super) const ALL: [Window; 3] = [Window::Hour, Window::Day, Window::Week];

    pub(super) fn of(word: Option<&str>) -> Window {
        Window::ALL.into_iter().find(|window| Some(window.word()) == word).unwrap_or(Window::Hour)
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Window::Hour => "1h",
            Window::Day => "24h",
            Window::Week => "7d",
        }
    }

    pub(super) fn in_words(self) -> &'static str {
        match self {
            Window::Hour => "the last hour",
            Window::Day => "the last 24 hours",
            Window::Week => "the last 7 days",
        }
    }

    /// Minutes of one step, and how many steps there are.
    pub(super) fn steps(self) -> (u32, u32) {
        match self {
            Window::Hour => (1, 60),
            Window::Day => (20, 72),
            Window::Week => (120, 84),
        }
    }
}

/// Lengths by bucket.
pub(super) type Lengths = [u64; histogram::BUCKETS];

/// What happened in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: Timestamp,
    pub(super) succeeded: u64,
    /// Attempts that count and did not succeed, and jobs that expired without one.
    pub(super) failed: u64,
    /// Attempts that were given back, snoozed or called off.
    pub(super) other: u64,
    /// How long jobs waited for their first attempt.
    pub(super) waited: Lengths,
    /// How long after their slots the jobs of schedules began.
    pub(super) late: Lengths,
    /// How long attempts took.
    pub(super) took: Lengths,
    /// Slots that were missed.
    pub(super) missed: u64,
}

impl Step {
    fn new(at: Timestamp) -> Step {
        let none = [0; histogram::BUCKETS];
        Step {
            at,
            succeeded: 0,
            failed: 0,
            other: 0,
            waited: none,
            late: none,
            took: none,
            missed: 0,
        }
    }

    fn add(&mut self, sum: &RollupSum) {
        let count = u64::try_from(sum.count).unwrap_or(0);
        if let Ok(outcome) = sum.metric.parse::<AttemptOutcome>() {
            match outcome {
                AttemptOutcome::Succeeded => self.succeeded += count,
                AttemptOutcome::Released | AttemptOutcome::Snoozed | AttemptOutcome::Cancelled => {
                    self.other += count;
                }
                _ => self.failed += count,
            }
            return;
        }
        if sum.metric == "jobs_expired" {
            self.failed += count;
            return;
        }
        if sum.metric == "slots_missed" {
            self.missed += count;
            return;
        }
        let Some((name, bucket)) = sum.metric.rsplit_once('_') else { return };
        let lengths = match name {
            "waited" => &mut self.waited,
            "late" => &mut self.late,
            "took" => &mut self.took,
            _ => return,
        };
        if let Some(place) = bucket.parse::<usize>().ok().and_then(|at| lengths.get_mut(at)) {
            *place += count;
        }
    }
}

/// All steps together.
pub(super) fn total(steps: &[Step]) -> Step {
    let mut total = Step::new(steps.first().map_or(Timestamp::EPOCH, |step| step.at));
    for step in steps {
        total.succeeded += step.succeeded;
        total.failed += step.failed;
        total.other += step.other;
        total.missed += step.missed;
        for (sum, lengths) in [
            (&mut total.waited, &step.waited),
            (&mut total.late, &step.late),
            (&mut total.took, &step.took),
        ] {
            for (place, count) in sum.iter_mut().zip(lengths) {
                *place += count;
            }
        }
    }
    total
}

/// Something and when it was found out.
type Dated<T> = Mutex<Option<(Timestamp, T)>>;

/// What is kept for a moment.
#[derive(Default)]
pub(super) struct Kept {
    steps: Mutex<HashMap<Window, (Timestamp, Vec<Step>)>>,
    diagnosis: Dated<Diagnosis>,
    heat: Dated<Heat>,
}

fn lock<T>(kept: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn is_fresh(now: Timestamp, at: Timestamp, length: Duration) -> bool {
    now >= at && now.since(at) < length
}

impl Kept {
    /// The steps of a window, up to now.
    pub(super) async fn steps(
        &self,
        admin: &Admin,
        now: Timestamp,
        window: Window,
    ) -> Result<Vec<Step>, Fault> {
        let length = Duration::from_secs(match window {
            // A page that hears of new counts must find them.
            Window::Hour => 0,
            Window::Day => 15,
            Window::Week => 60,
        });
        if let Some((at, steps)) = lock(&self.steps).get(&window)
            && is_fresh(now, *at, length)
        {
            return Ok(steps.clone());
        }
        let steps = steps(admin, now, window).await?;
        lock(&self.steps).insert(window, (now, steps.clone()));
        Ok(steps)
    }

    /// What is amiss, as far as it can be found out while somebody waits.
    pub(super) async fn diagnosis(&self, admin: &Admin, now: Timestamp) -> Diagnosis {
        if let Some((at, diagnosis)) = &*lock(&self.diagnosis)
            && is_fresh(now, *at, Duration::from_secs(5))
        {
            return diagnosis.clone();
        }
        let bounds =
            Thresholds { schedules: 200, histories: 25, kinds: 100, ..Thresholds::default() };
        let diagnosis = admin.doctor(&bounds).await;
        *lock(&self.diagnosis) = Some((now, diagnosis.clone()));
        diagnosis
    }

    /// When schedules will start jobs.
    pub(super) async fn heat(&self, admin: &Admin, now: Timestamp) -> Result<Heat, Fault> {
        if let Some((at, heat)) = &*lock(&self.heat)
            && is_fresh(now, *at, Duration::from_secs(60))
        {
            return Ok(heat.clone());
        }
        let heat = Heat::read(admin, now).await?;
        *lock(&self.heat) = Some((now, heat.clone()));
        Ok(heat)
    }

    /// A schedule was changed here: what was drawn is not so any more.
    pub(super) fn forget(&self) {
        *lock(&self.heat) = None;
        *lock(&self.diagnosis) = None;
    }
}

/// The first instant of a window's first step, and the end of its last.
pub(super) fn bounds(now: Timestamp, window: Window) -> (Timestamp, Timestamp) {
    let (minutes, count) = window.steps();
    let seconds = i64::from(minutes) * 60;
    let end = (now.floor_seconds().div_euclid(seconds) + 1) * seconds;
    (Timestamp::from_seconds(end - seconds * i64::from(count)), Timestamp::from_seconds(end))
}

async fn steps(admin: &Admin, now: Timestamp, window: Window) -> Result<Vec<Step>, Fault> {
    let (minutes, count) = window.steps();
    let (from, to) = bounds(now, window);
    let length = Duration::from_secs(u64::from(minutes) * 60);
    let mut steps: Vec<Step> = (0..count).map(|index| Step::new(from + length * index)).collect();
    for sum in admin.sums(&SumAsk { from, to, minutes, by_queue: false }).await? {
        let index = sum.at.since(from).as_secs() / length.as_secs();
        let step = usize::try_from(index).ok().and_then(|index| steps.get_mut(index));
        if let Some(step) = step {
            step.add(&sum);
        }
    }
    Ok(steps)
}

/// The outcomes of the last hour by queue, in steps of five minutes.
pub(super) async fn by_queue(
    admin: &Admin,
    now: Timestamp,
) -> Result<HashMap<String, Vec<Step>>, Fault> {
    let seconds = 300;
    let end = (now.floor_seconds().div_euclid(seconds) + 1) * seconds;
    let from = Timestamp::from_seconds(end - 3_600);
    let ask = SumAsk { from, to: Timestamp::from_seconds(end), minutes: 5, by_queue: true };
    let mut queues: HashMap<String, Vec<Step>> = HashMap::new();
    for sum in admin.sums(&ask).await? {
        let steps = queues.entry(sum.queue.clone()).or_insert_with(|| {
            (0..12).map(|index| Step::new(from + Duration::from_secs(300) * index)).collect()
        });
        let index = usize::try_from(sum.at.since(from).as_secs() / 300).unwrap_or(usize::MAX);
        if let Some(step) = steps.get_mut(index) {
            step.add(&sum);
        }
    }
    Ok(queues)
}
