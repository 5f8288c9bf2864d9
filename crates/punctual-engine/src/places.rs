//! The places in which handlers run, and how fast they become free.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claimer::PASS_MAX;

/// Places for handlers. They belong to the process: a handler that blocks its thread keeps its
/// place even after its node was declared dead and came back under another id.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    busy: AtomicUsize,
    /// Who is told when one becomes free: the claimer of the node's present life.
    freed: Mutex<Arc<Notify>>,
}

impl Places {
    pub(crate) fn new(most: usize) -> Places {
        Places { most, busy: AtomicUsize::new(0), freed: Mutex::default() }
    }

    pub(crate) fn free(&self) -> usize {
        self.most.saturating_sub(self.busy.load(Ordering::Acquire))
    }

    /// Tells this one from now on.
    pub(crate) fn tell(&self, freed: Arc<Notify>) {
        *self.freed.lock().unwrap_or_else(PoisonError::into_inner) = freed;
    }

    /// Takes a place, if one is free.
    pub(crate) fn take(self: &Arc<Places>) -> Option<Place> {
        let take = |busy: usize| (busy < self.most).then_some(busy + 1);
        let taken = self.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        taken.is_ok().then(|| Place(self.clone()))
    }
}

/// A place that is taken. It lives inside the handler's task, so that it is free just when the
/// task is really gone, however it ended.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
        self.0.freed.lock().unwrap_or_else(PoisonError::into_inner).notify_one();
    }
}

/// The most jobs fetched ahead: those of one pass that start, and those of another on their way meanwhile.
pub(crate) const AHEAD_MAX: usize = 2 * PASS_MAX;

/// How many fast jobs ended lately: as many will end soon, so that as many can be fetched ahead.
/// Jobs that take longer than a window do not count: what is fetched ahead of them would wait
/// here while it could run elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    window: u128,
    ended: usize,
    ended_before: usize,
}

impl Pace {
    const WINDOW: Duration = Duration::from_millis(50);

    pub(crate) fn ended(&mut self, now: Duration, took: Duration) {
        self.turn(now);
        self.ended += usize::from(took <= Self::WINDOW);
    }

    /// How many jobs to hold beyond those that can start at once.
    pub(crate) fn ahead(&mut self, now: Duration) -> usize {
        self.turn(now);
        self.ended_before.max(self.ended).min(AHEAD_MAX)
    }

    fn turn(&mut self, now: Duration) {
        let window = now.as_micros() / Self::WINDOW.as_micros();
        if window != self.window {
            self.ended_before = if window == self.window + 1 { self.ended } else { 0 };
            (self.window, self.ended) = (window, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_holder_is_dropped() {
        let places = Arc::new(Places::new(1));
        let place = places.take();
        assert!(place.is_some());
        assert!(places.take().is_none());
        assert_eq!(places.free(), 0);
        drop(place);
        assert_eq!(places.free(), 1);
    }

    #[test]
    fn only_fast_jobs_are_fetched_ahead() {
        let mut pace = Pace::default();
        let at = |ms: u64| Duration::from_millis(1_000 + ms);
        assert_eq!(pace.ahead(at(0)), 0);
        for _ in 0..30 {
            pace.ended(at(10), Duration::from_millis(50));
            pace.ended(at(10), Duration::from_millis(51));
        }
        assert_eq!(pace.ahead(at(20)), 30);
        assert_eq!(pace.ahead(at(60)), 30);
        assert_eq!(pace.ahead(at(170)), 0);
        for _ in 0..1_000 {
            pace.ended(at(180), Duration::ZERO);
        }
        assert_eq!(pace.ahead(at(181)), AHEAD_MAX);
    }
}
