//! How far each queue has been claimed. What lies behind a mark was claimed, or is of a kind that
//! was not asked for; reading past it on every claim would cost more with every dead row that an
//! old transaction of somebody else keeps, and with every job that nobody serves.
//!
//! A mark may hide jobs that other processes put behind it, so the queue is read from its start
//! again and again, but never for more than a twentieth of the time. What this process puts behind
//! a mark takes the mark away.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use punctual_core::{JobId, Timestamp};
use punctual_store::QueueShare;

/// Reading a queue from its start takes at most one part of this many of the time.
const SHARE: u32 = 20;
/// Reading a queue from its start is done at will if it takes no longer than this.
const QUICK: Duration = Duration::from_millis(20);
/// A job that somebody else put behind a mark waits at most this long to be seen.
const LONGEST: Duration = Duration::from_secs(10);
/// Marks that are kept; a process serves few queues with few sets of kinds.
const MARKS_MAX: usize = 1_000;
/// What was put in line lately, by queue: more than happens during a claim.
const LATELY_MAX: usize = 256;

/// A place in a queue's order.
pub(crate) type Place = (Timestamp, JobId);

/// The marks of all queues that this process claims from.
#[derive(Default)]
pub(crate) struct Marks(Mutex<State>);

#[derive(Default)]
struct State {
    /// Counts what this process puts in line.
    time: u64,
    /// When all marks were last taken away.
    forgot_at: u64,
    /// By queue, what was put in line lately, and when: a claim that began before must not set its
    /// mark beyond it.
    lately: HashMap<String, VecDeque<(u64, Place)>>,
    /// By queue and kinds.
    marks: HashMap<(String, Vec<String>), Mark>,
}

struct Mark {
    place: Place,
    /// When the queue is to be read from its start again.
    whole_at: Instant,
    /// How long that took the last time.
    whole_took: Duration,
}

/// Where a claim begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From {
    time: u64,
    /// None: at the queue's start.
    pub(crate) place: Option<Place>,
}

impl From {
    /// At the queue's start, and setting no mark.
    pub(crate) const START: From = From { time: 0, place: None };
}

#[expect(
    clippy::disallowed_methods,
    reason = "the measured duration of a statement affects only performance"
)]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

impl Marks {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a claim of these kinds begins in a queue.
    pub(crate) fn begin(&self, queue: &str, kinds: &[String]) -> From {
        let state = self.lock();
        let mark = state.marks.get(&(queue.to_owned(), kinds.to_vec()));
        let place = mark.filter(|mark| clock() < mark.whole_at).map(|mark| mark.place);
        From { time: state.time, place }
    }

    /// Were these queues read from their start quickly enough to do it again at once?
    pub(crate) fn is_quick(&self, queues: &[QueueShare], kinds: &[String]) -> bool {
        let state = self.lock();
        queues.iter().all(|queue| {
            let mark = state.marks.get(&(queue.name.clone(), kinds.to_vec()));
            mark.is_none_or(|mark| mark.whole_took <= QUICK)
        })
    }

    /// A claim has come this far in a queue, and took so long.
    pub(crate) fn advance(
        &self,
        queue: &str,
        kinds: &[String],
        from: From,
        to: Place,
        took: Duration,
    ) {
        let mut state = self.lock();
        if state.has_put_behind(queue, from.time, to) {
            return;
        }
        let key = (queue.to_owned(), kinds.to_vec());
        match (from.place, state.marks.get_mut(&key)) {
            (Some(_), Some(mark)) => mark.place = to,
            (Some(_), None) => {}
            (None, _) => {
                if state.marks.len() >= MARKS_MAX {
                    state.marks.clear();
                }
                let whole_at = clock() + (took * SHARE).min(LONGEST);
                state.marks.insert(key, Mark { place: to, whole_at, whole_took: took });
            }
        }
    }

    /// Jobs were put in line in this queue, the first of them here.
    pub(crate) fn lower(&self, queue: &str, place: Place) {
        let mut state = self.lock();
        state.marks.retain(|(of, _), mark| of != queue || mark.place < place);
        state.time += 1;
        let time = state.time;
        if state.lately.len() >= MARKS_MAX {
            state.lately.clear();
            state.forgot_at = time;
        }
        let lately = state.lately.entry(queue.to_owned()).or_default();
        lately.push_back((time, place));
        if lately.len() > LATELY_MAX {
            lately.pop_front();
        }
    }

    /// Jobs were put in line somewhere.
    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        state.marks.clear();
        state.time += 1;
        state.forgot_at = state.time;
    }
}

impl State {
    /// Was anything put in line since then that lies behind this place?
    fn has_put_behind(&self, queue: &str, since: u64, to: Place) -> bool {
        if self.forgot_at > since {
            return true;
        }
        let Some(lately) = self.lately.get(queue) else { return false };
        let is_short = lately.len() == LATELY_MAX && lately[0].0 > since;
        is_short || lately.iter().any(|(time, place)| *time > since && *place <= to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(second: i64) -> Place {
        (Timestamp::from_seconds(second), JobId::mint(Timestamp::EPOCH, [0; 10]))
    }

    #[test]
    fn a_mark_is_kept_until_something_is_put_behind_it() {
        let marks = Marks::default();
        let kinds = ["mail".to_owned()];
        let long = Duration::from_secs(10);
        let from = marks.begin("q", &kinds);
        assert_eq!(from.place, None);
        marks.advance("q", &kinds, from, place(5), long);
        assert_eq!(marks.begin("q", &kinds).place, Some(place(5)));
        assert_eq!(marks.begin("q", &[]).place, None);
        assert_eq!(marks.begin("r", &kinds).place, None);
        marks.lower("q", place(6));
        assert_eq!(marks.begin("q", &kinds).place, Some(place(5)));
        marks.lower("r", place(1));
        assert_eq!(marks.begin("q", &kinds).place, Some(place(5)));
        let under_way = marks.begin("q", &kinds);
        marks.lower("q", place(4));
        marks.advance("q", &kinds, under_way, place(7), long);
        assert_eq!(marks.begin("q", &kinds).place, None);
    }

    #[test]
    fn what_is_forgotten_is_not_set_again_by_a_claim_under_way() {
        let marks = Marks::default();
        let long = Duration::from_secs(10);
        marks.advance("q", &[], marks.begin("q", &[]), place(5), long);
        let under_way = marks.begin("q", &[]);
        marks.forget();
        assert_eq!(marks.begin("q", &[]).place, None);
        marks.advance("q", &[], under_way, place(7), long);
        assert_eq!(marks.begin("q", &[]).place, None);
        marks.advance("q", &[], marks.begin("q", &[]), place(7), long);
        assert_eq!(marks.begin("q", &[]).place, Some(place(7)));
    }

    #[test]
    fn a_queue_is_read_from_its_start_again() {
        let marks = Marks::default();
        marks.advance("q", &[], marks.begin("q", &[]), place(5), Duration::ZERO);
        assert_eq!(marks.begin("q", &[]).place, None);
    }
}
