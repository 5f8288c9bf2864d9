//! The evaluator against a brute-force oracle that walks the clock and applies the written
//! rule (`docs/cron.md`): random expressions, around clock changes of every zone and at
//! random instants.
//!
//! `PUNCTUAL_PROOF_CASES` or `PUNCTUAL_PROOF_MINUTES` set the size, `PUNCTUAL_PROOF_SEED`
//! replays a run. One JSON line tells what was done.

mod crontab;
mod oracle;
mod pattern;
mod random;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::tz::TimeZoneDatabase;
use oracle::Walk;
use pattern::Pattern;
use punctual_core::{DstFold, DstGap, Spec, Timestamp, When, Zone};
use random::Random;

/// Expressions that are tried in one stretch of time, which is walked once for all of them.
const CASES_PER_WALK: u64 = 40;
/// Walks that are claimed by a thread at once.
const WALKS_PER_CLAIM: u64 = 8;

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not `{value}`")))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "measures how long the proof took")]
fn the_evaluator_agrees_with_the_oracle() {
    let seed = setting("PUNCTUAL_PROOF_SEED").unwrap_or(20_270_328);
    let deadline = setting("PUNCTUAL_PROOF_MINUTES")
        .map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let cases = setting("PUNCTUAL_PROOF_CASES").unwrap_or(20_000);
    let started = Instant::now();
    let zones: Vec<Zone> = TimeZoneDatabase::bundled()
        .available()
        .filter_map(|name| Zone::get(name.as_str()).ok())
        .collect();

    let claimed = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let slots = AtomicU64::new(0);
    let enough = |claim: u64| match deadline {
        Some(deadline) => Instant::now() >= deadline,
        None => claim * WALKS_PER_CLAIM * CASES_PER_WALK >= cases,
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |count| count.get()) {
            scope.spawn(|| {
                loop {
                    let claim = claimed.fetch_add(1, Ordering::Relaxed);
                    if enough(claim) {
                        return;
                    }
                    for walk in claim * WALKS_PER_CLAIM..(claim + 1) * WALKS_PER_CLAIM {
                        let seen = try_walk(&mut Random::new(seed, walk), &zones);
                        slots.fetch_add(seen, Ordering::Relaxed);
                        done.fetch_add(CASES_PER_WALK, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (done, slots) = (done.into_inner(), slots.into_inner());
    assert!(slots > done, "the cases have too few slots to mean anything: {slots} in {done} cases");
    println!(
        "\n{{\"proof\":\"cron\",\"cases\":{done},\"differences\":0,\"slots\":{slots},\"zones\":{},\"seed\":{seed},\"seconds\":{}}}",
        zones.len(),
        started.elapsed().as_secs()
    );
}

/// Tries some expressions in one stretch of time of one zone; answers how many slots it saw.
fn try_walk(random: &mut Random, zones: &[Zone]) -> u64 {
    let zone = &zones[random.below(zones.len() as u64) as usize];
    let (from, to) = stretch(random, zone);
    let walk = Walk::new(zone, from, to);
    (0..CASES_PER_WALK).map(|_| try_case(random, zone, &walk)).sum()
}

/// At most three days, mostly about a clock change.
fn stretch(random: &mut Random, zone: &Zone) -> (i64, i64) {
    const YEARS_1970_TO_2199: u64 = 7_258_000_000;
    let near = random.below(YEARS_1970_TO_2199) as i64;
    let centre = match random.below(5) {
        0 => near,
        // Half of the others before 2040, where most irregular changes are.
        choice => {
            let near = if choice < 3 { near % 2_200_000_000 } else { near };
            let after = Timestamp::from_seconds(near).to_jiff();
            zone.to_jiff()
                .following(after)
                .next()
                .map_or(near, |change| change.timestamp().as_second())
        }
    };
    let from = centre - random.below(2 * 86_400) as i64;
    (from.max(0), from.max(0) + 1 + random.below(3 * 86_400) as i64)
}

fn try_case(random: &mut Random, zone: &Zone, walk: &Walk) -> u64 {
    let patterns: Vec<Pattern> = match random.below(10) {
        0 => vec![Pattern::random(random), Pattern::random(random)],
        _ => vec![Pattern::random(random)],
    };
    let gap = [None, None, Some(DstGap::End), Some(DstGap::Skip)][random.below(4) as usize];
    let fold = [None, None, None, Some(DstFold::First), Some(DstFold::Second), Some(DstFold::Both)]
        [random.below(6) as usize];
    let spec = spec_of(&patterns, zone, gap, fold);

    let mut expected: Vec<i64> =
        patterns.iter().flat_map(|pattern| walk.slots(pattern, gap, fold)).collect();
    expected.sort_unstable();
    expected.dedup();
    let what = || {
        let texts: Vec<String> = patterns.iter().map(Pattern::to_string).collect();
        format!(
            "{texts:?} in {zone}, {gap:?} {fold:?}, {}..{}",
            Timestamp::from_seconds(walk.from),
            Timestamp::from_seconds(walk.to)
        )
    };
    check(&spec, walk, &expected, &what);
    expected.len() as u64
}

fn spec_of(patterns: &[Pattern], zone: &Zone, gap: Option<DstGap>, fold: Option<DstFold>) -> Spec {
    let read = |pattern: &Pattern| {
        let text = pattern.to_string();
        let when = When::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let normalized = when.to_string();
        assert_eq!(
            When::parse(&normalized).as_ref(),
            Ok(&when),
            "{text} is normalized to {normalized}"
        );
        assert!(!when.describe().is_empty());
        when
    };
    let mut spec = Spec::new(read(&patterns[0]), zone.clone());
    for pattern in &patterns[1..] {
        spec = spec.also(read(pattern));
    }
    if let Some(gap) = gap {
        spec = spec.dst_gap(gap);
    }
    if let Some(fold) = fold {
        spec = spec.dst_fold(fold);
    }
    spec
}

fn check(spec: &Spec, walk: &Walk, expected: &[i64], what: &dyn Fn() -> String) {
    let seconds = Timestamp::from_seconds;
    let (from, to) = (seconds(walk.from), seconds(walk.to));
    let listed: Vec<i64> = spec.slots(from, to, usize::MAX).map(Timestamp::floor_seconds).collect();
    assert_eq!(listed, expected, "slots: {}", what());
    assert_eq!(spec.count(from, to), expected.len() as u64, "count: {}", what());

    // Walking all of a dense list by single calls would only repeat the same few paths.
    const SINGLE_CALLS: usize = 100;
    let mut at = walk.from - 1;
    for slot in expected.iter().take(SINGLE_CALLS) {
        assert_eq!(spec.next(seconds(at)), Some(seconds(*slot)), "next after {at}: {}", what());
        assert_eq!(
            spec.next(seconds(*slot - 1)),
            Some(seconds(*slot)),
            "next just before {slot}: {}",
            what()
        );
        at = *slot;
    }
    if expected.len() <= SINGLE_CALLS {
        let beyond = spec.next(seconds(at));
        assert!(beyond.is_none_or(|slot| slot >= to), "next after {at}: {}", what());
    }
    let mut at = walk.to;
    for slot in expected.iter().rev().take(SINGLE_CALLS) {
        assert_eq!(
            spec.previous(seconds(at)),
            Some(seconds(*slot)),
            "previous before {at}: {}",
            what()
        );
        at = *slot;
    }
    if expected.len() <= SINGLE_CALLS {
        let beyond = spec.previous(seconds(at));
        assert!(beyond.is_none_or(|slot| slot < from), "previous before {at}: {}", what());
    }
}
