//! The slots of a schedule, one after the other.

use crate::moved::MovedSlots;
use crate::zone::Segment;
use crate::{Spec, Timestamp};

/// An iterator over slots in strictly ascending order. See [`Spec::slots`].
#[derive(Clone, Debug)]
pub struct Slots<'a> {
    spec: &'a Spec,
    /// The next slot of each rule and the stretch of the zone it was found in.
    heads: Vec<(Option<i64>, Option<Segment>)>,
    /// Those that are there instead of excluded ones.
    moved: Option<MovedSlots<'a>>,
    end: i64,
    left: usize,
}

impl<'a> Slots<'a> {
    pub(crate) fn new(spec: &'a Spec, from: i64, end: i64, limit: usize) -> Slots<'a> {
        let heads = vec![(None, None); spec.whens.len()];
        let mut slots = Slots { spec, heads, moved: spec.walk_moved(from), end, left: limit };
        for (when, (head, near)) in spec.whens.iter().zip(&mut slots.heads) {
            *head = spec.next_of(when, from, near);
        }
        slots
    }
}

impl Iterator for Slots<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        if self.left == 0 {
            return None;
        }
        let named =
            self.heads.iter().filter_map(|(head, _)| *head).min().filter(|slot| *slot < self.end);
        let moved = self.moved.as_mut().and_then(|moved| {
            // One that is both is one slot, and taken from both.
            let slot = moved.next_before(named.map_or(self.end, |named| named + 1))?;
            moved.take();
            Some(slot)
        });
        let slot = moved.or(named)?;
        for (when, (head, near)) in self.spec.whens.iter().zip(&mut self.heads) {
            if *head == Some(slot) {
                *head = self.spec.next_of(when, slot + 1, near);
            }
        }
        self.left -= 1;
        Some(Timestamp::from_seconds(slot))
    }
}
