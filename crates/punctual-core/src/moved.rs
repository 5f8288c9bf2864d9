//! Slots that a calendar excludes and that go to the next day on which their time of day is free.
//!
//! Where a slot goes follows from the rules, the zone and the calendar alone, so nothing has to be
//! remembered: the slots of a spec are those that its expressions name and those that were moved,
//! and whoever asks finds the same ones. Both are looked for day by day on the wall clock, from as
//! far back as a slot may come from.

use std::collections::BTreeMap;

use crate::civil::DAY;
use crate::{Calendar, Spec, Timestamp, When, Zone};

/// How many days further a slot may go: beyond a month it belongs to another one's work.
pub(crate) const DAYS_MAX: i64 = 31;
/// Times of day of all rules together: whoever has more has one that is free soon anyway, and
/// looking for where each went would cost by the slot.
const TIMES_MAX: usize = 24;

/// What becomes of an excluded slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is at this instant instead.
    To(Timestamp),
    /// It is nowhere, for this reason.
    Nowhere(&'static str),
}

/// That excluded slots move, and what is needed to tell where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moves {
    calendar: Calendar,
    /// The times of day of each rule, as its number and seconds from midnight.
    times: Vec<(usize, i64)>,
}

impl Spec {
    /// Moves each slot that the calendar excludes to the next day on which the calendar leaves its
    /// local time free. Only for cron expressions that name few times of day; the error says why.
    /// A rule that is added afterwards keeps its slots where they are.
    pub fn next_working_day(mut self, calendar: Calendar) -> Result<Spec, String> {
        let mut times = Vec::new();
        for (index, when) in self.whens.iter().enumerate() {
            let When::Cron(cron) = when else {
                return Err(format!(
                    "`next_working_day` supports only cron expressions, but `{when}` is not one; \
                     use `skip`, or a cron expression"
                ));
            };
            let count = times.len() + cron.times_a_day();
            if count > TIMES_MAX {
                return Err(format!(
                    "`next_working_day` supports at most {TIMES_MAX} times of day, but the \
                     expressions up to `{cron}` have {count}; use `skip`, or fewer times"
                ));
            }
            times.extend(cron.times_of_day().into_iter().map(|time| (index, time)));
        }
        self.moves = Some(Box::new(Moves { calendar, times }));
        Ok(self)
    }

    /// What becomes of a slot that is excluded; none if it is not, if the rules do not name it, or
    /// if excluded slots stay where they are.
    pub fn moved(&self, slot: Timestamp) -> Option<Moved> {
        let moves = self.moves.as_deref()?;
        let slot = slot.floor_seconds();
        if !moves.excludes(&self.zone, slot) {
            return None;
        }
        let mut nowhere = None;
        let named = moves.named(self, slot);
        for (index, wall) in &named {
            let free = (1..=DAYS_MAX).map(|days| wall + days * DAY);
            let Some(free) = free.into_iter().find(|wall| !moves.calendar.excludes_wall(*wall))
            else {
                nowhere = nowhere.or(Some(NO_FREE_DAY));
                continue;
            };
            let instants = moves.instants(self, *index, free);
            let (first, last) = self.bounds();
            match instants.iter().find(|at| (first..=last).contains(*at)) {
                Some(at) => return Some(Moved::To(Timestamp::from_seconds(*at))),
                None if instants.is_empty() => nowhere = nowhere.or(Some(SKIPPED_BY_CLOCKS)),
                None => nowhere = nowhere.or(Some(BEYOND_THE_WINDOW)),
            }
        }
        nowhere.map(Moved::Nowhere)
    }

    /// The excluded slot that was moved to this one, the last of them if there are several.
    pub fn moved_from(&self, slot: Timestamp) -> Option<Timestamp> {
        let at = slot.floor_seconds();
        let mut walk = self.walk_moved(at)?;
        walk.next_before(at + 1)?;
        walk.ready.get(&at).map(|found| Timestamp::from_seconds(found.source))
    }

    /// The moved slots from this second on, if slots are moved.
    pub(crate) fn walk_moved(&self, from: i64) -> Option<MovedSlots<'_>> {
        self.moves.as_deref().map(|moves| MovedSlots::new(self, moves, from))
    }
}

const NO_FREE_DAY: &str = "not moved: the same time is also excluded on each of the next 31 days";
const SKIPPED_BY_CLOCKS: &str =
    "not moved: a clock change skips this time on the next working day, and `dst_gap` is `skip`";
const BEYOND_THE_WINDOW: &str = "not moved: the next working day is after the schedule's `end`";

impl Moves {
    fn excludes(&self, zone: &Zone, at: i64) -> bool {
        self.calendar.excludes_wall(at + zone.offset(at))
    }

    /// The slots that a civil time of a rule would be.
    fn instants(&self, spec: &Spec, index: usize, wall: i64) -> Vec<i64> {
        match spec.whens.get(index) {
            Some(When::Cron(cron)) => spec.in_zone(cron).instants(wall),
            _ => Vec::new(),
        }
    }

    /// Does the rule name this day?
    fn names(&self, spec: &Spec, index: usize, day: i64) -> bool {
        matches!(spec.whens.get(index), Some(When::Cron(cron)) if cron.next_day(day) == Some(day))
    }

    /// The civil times that the rules name and that became this slot: the one that the clock shows,
    /// and those that a clock change skipped if it is there for them.
    fn named(&self, spec: &Spec, slot: i64) -> Vec<(usize, i64)> {
        let (first, last) = spec.bounds();
        if !(first..=last).contains(&slot) {
            return Vec::new();
        }
        let segment = spec.zone.segment(slot);
        let shown = slot + segment.offset;
        let skipped = match slot == segment.start {
            // Where the clock goes back it skips nothing.
            true => segment.wall_start_before().min(shown),
            false => shown,
        };
        let days = skipped.div_euclid(DAY)..=shown.div_euclid(DAY);
        let walls = days.flat_map(|day| {
            self.times.iter().map(move |(index, time)| (*index, day, day * DAY + time))
        });
        let of_slot = walls.filter(|(index, day, wall)| {
            (skipped..=shown).contains(wall)
                && self.names(spec, *index, *day)
                && self.instants(spec, *index, *wall).contains(&slot)
        });
        of_slot.map(|(index, _, wall)| (index, wall)).collect()
    }
}

/// Moved slots in ascending order, found day by day.
#[derive(Clone, Debug)]
pub(crate) struct MovedSlots<'a> {
    spec: &'a Spec,
    moves: &'a Moves,
    from: i64,
    /// The day to look at next, on the wall clock.
    day: i64,
    /// For each time of day the last slot that is to be moved.
    carried: Vec<Option<Carried>>,
    /// What was found and is not before `from`, by instant.
    ready: BTreeMap<i64, Found>,
}

#[derive(Clone, Copy, Debug)]
struct Carried {
    /// The day on which it was named.
    day: i64,
    /// The slot that it would have been.
    source: i64,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    /// The day to which it was moved.
    day: i64,
    /// The slot that it would have been.
    source: i64,
}

impl<'a> MovedSlots<'a> {
    fn new(spec: &'a Spec, moves: &'a Moves, from: i64) -> MovedSlots<'a> {
        // A change repeats a day at most, so that what is still to come was a day earlier at most.
        let first = wall_day(&spec.zone, from) - 1;
        let is_free = |day: i64| {
            if !moves.calendar.has_any(day) {
                return true;
            }
            let mut walls = moves.times.iter().map(|(_, time)| day * DAY + time);
            walls.all(|wall| !moves.calendar.excludes_wall(wall))
        };
        // Nothing is carried over a day on which every time is free.
        let back = (1..DAYS_MAX).find(|back| is_free(first - back)).unwrap_or(DAYS_MAX);
        let carried = vec![None; moves.times.len()];
        MovedSlots { spec, moves, from, day: first - back, carried, ready: BTreeMap::new() }
    }

    /// The first one, if it is before this second. It stays the first until it is taken.
    pub(crate) fn next_before(&mut self, limit: i64) -> Option<i64> {
        let last_day = wall_day(&self.spec.zone, limit) + 1;
        loop {
            let head = self.ready.first_key_value().map(|(at, found)| (*at, found.day));
            // A later day has none that is earlier, but for the day after, if clocks go back.
            let is_certain = head.is_some_and(|(_, day)| day + 1 < self.day);
            if is_certain || self.day > last_day || !self.look_at_a_day() {
                return head.map(|(at, _)| at).filter(|at| *at < limit);
            }
        }
    }

    /// Takes the first one away.
    pub(crate) fn take(&mut self) {
        self.ready.pop_first();
    }

    /// Looks at one more day; false if there is none on which anything can be.
    fn look_at_a_day(&mut self) -> bool {
        if self.carried.iter().all(Option::is_none) {
            let crons = self.spec.whens.iter().filter_map(|when| match when {
                When::Cron(cron) => cron.next_day(self.day),
                When::Every(_) | When::At(_) => None,
            });
            let Some(named) = crons.min() else { return false };
            self.day = named;
        }
        let day = self.day;
        // A slot that is there for a skipped time is at most a day from it. Most days have nothing
        // excluded near them, and their slots need not be looked for.
        let is_near = (day - 1..=day + 1).any(|day| self.moves.calendar.has_any(day));
        for (number, (index, time)) in self.moves.times.iter().enumerate() {
            let wall = day * DAY + time;
            let is_free = !self.moves.calendar.excludes_wall(wall);
            let before = self.carried.get(number).copied().flatten();
            let before = before.filter(|before| day - before.day <= DAYS_MAX);
            if let Some(before) = before.filter(|_| is_free) {
                self.arrive(*index, wall, before.source);
            }
            let is_named = is_near && self.moves.names(self.spec, *index, day);
            let own = if is_named { self.excluded_slot(*index, wall) } else { None };
            let own = own.map(|source| Carried { day, source });
            if let Some(carried) = self.carried.get_mut(number) {
                *carried = own.or(before.filter(|_| !is_free));
            }
        }
        self.day += 1;
        true
    }

    /// The slot that a rule has at this civil time, if it is excluded.
    fn excluded_slot(&self, index: usize, wall: i64) -> Option<i64> {
        let (first, last) = self.spec.bounds();
        let instants = self.moves.instants(self.spec, index, wall).into_iter();
        let mut own = instants.filter(|at| (first..=last).contains(at));
        own.find(|at| self.moves.excludes(&self.spec.zone, *at))
    }

    fn arrive(&mut self, index: usize, wall: i64, source: i64) {
        let (_, last) = self.spec.bounds();
        let found = Found { day: wall.div_euclid(DAY), source };
        for at in self.moves.instants(self.spec, index, wall) {
            if (self.from..=last).contains(&at) {
                self.ready.insert(at, found);
            }
        }
    }
}

fn wall_day(zone: &Zone, at: i64) -> i64 {
    (at + zone.offset(at)).div_euclid(DAY)
}

#[cfg(test)]
mod tests;
