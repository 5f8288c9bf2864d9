//! What is drawn of starts, slots and lengths is what the rows say.
//!
//! Nobody waits for lateness: jobs are ordered and a schedule is made on a file while its clock stands
//! somewhat before now, and then a node works on the file in real time.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::testing::Frozen;
use punctual::{
    AttemptOutcome, Ctx, Definition, Job, JobFilter, Missed, Overlap, Punctual, SlotOutcome,
    SlotView, Template, Timestamp, Timing,
};
use punctual_core::histogram;
use punctual_server::Server;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::browser::counted;
use crate::dashboard::get;

#[derive(Serialize, Deserialize, Job)]
struct Work {}

/// Takes a few milliseconds, more for later slots, and fails for every third of them.
async fn work(_: Work, cx: Ctx) -> Result<(), punctual::BoxError> {
    let number = cx.slot().map_or(0, |slot| slot.floor_seconds()).rem_euclid(6);
    let mut tick = tokio::time::interval(Duration::from_millis(1 + 7 * number.unsigned_abs()));
    tick.tick().await;
    tick.tick().await;
    match number % 3 {
        0 if cx.slot().is_some() => Err(punctual::Failure::permanent("the third").into()),
        _ => Ok(()),
    }
}

/// Slots, one a second. Most are over before anybody works.
const SLOTS: i64 = 14;
/// So many are to come, and on time.
const AHEAD: i64 = 2;

/// A node at work on a file.
struct World {
    punctual: Punctual,
    _directory: TempDir,
}

impl World {
    /// On what was made, in another time, by somebody who did not work on it.
    async fn after(start: Timestamp, make: impl AsyncFnOnce(&Frozen)) -> World {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jobs.db");
        let frozen = Punctual::sqlite(&path).await.unwrap().start_frozen_at(start).await.unwrap();
        make(&frozen).await;
        drop(frozen);
        let timing = Timing { roll_up: Duration::from_millis(50), ..Timing::default() };
        let builder = Punctual::sqlite(&path).await.unwrap().timing(timing).handle(work);
        World { punctual: builder.start().await.unwrap(), _directory: directory }
    }

    /// A page of a server that has kept nothing from before.
    async fn page(&self, path: &str) -> String {
        get(&Server::new(self.punctual.clone()).router(), path).await.text
    }
}

#[expect(clippy::disallowed_methods, reason = "the node works in the world's own time")]
fn now() -> Timestamp {
    Timestamp::from_jiff(jiff::Timestamp::now())
}

/// The part of a page from a mark to another.
fn part<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let rest = page.split(from).nth(1).unwrap_or_else(|| panic!("no `{from}` in {page}"));
    rest.split(to).next().unwrap()
}

/// What attributes of this name say.
fn values<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let beginning = format!(" {name}=\"");
    let mut found = Vec::new();
    for rest in page.split(beginning.as_str()).skip(1) {
        found.push(rest.split('"').next().unwrap());
    }
    found
}

/// What stands in elements of this name, without attributes.
fn texts<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let (begin, end) = (format!("<{name}"), format!("</{name}>"));
    let within = |rest: &'a str| rest.split_once('>').unwrap().1.split(&*end).next().unwrap();
    page.split(&*begin).skip(1).map(within).collect()
}

/// A length as the dashboard writes it, for those that are round.
fn length(text: &str) -> Duration {
    let words: Vec<&str> = text.split(' ').collect();
    let parts = words.chunks(2).map(|part| {
        let unit = match part[1] {
            "ms" => 0.001,
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3_600.0,
            unit => panic!("`{unit}` in `{text}`"),
        };
        part[0].parse::<f64>().unwrap() * unit
    });
    Duration::from_millis((parts.sum::<f64>() * 1_000.0).round() as u64)
}

/// Are lengths drawn as far apart as their logarithms are?
fn are_to_scale(drawn: &[(f64, f64)]) {
    let (first, last) = (drawn.first().unwrap(), drawn.last().unwrap());
    assert!(first.0 < last.0, "{drawn:?}");
    let slope = |a: &(f64, f64), b: &(f64, f64)| (b.1 - a.1) / (b.0.ln() - a.0.ln());
    let whole = slope(first, last);
    assert!(whole > 0.0, "{drawn:?}");
    for point in &drawn[1..drawn.len() - 1] {
        let expected = first.1 + whole * (point.0.ln() - first.0.ln());
        assert!((point.1 - expected).abs() < 0.1, "{point:?} of {drawn:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn start_delays_are_those_of_the_rows() {
    let waits = [1_800, 600, 90, 90, 41, 41, 41, 7, 7, 7, 7, 7, 3, 3, 3, 3, 3, 3, 3, 3];
    let start = now() - Duration::from_secs(waits[0]);
    let world = World::after(start, async |frozen| {
        for wait in waits {
            frozen.outage((start + Duration::from_secs(waits[0] - wait)).since(frozen.now()));
            frozen.enqueue(&Work {}).await.unwrap();
        }
    })
    .await;
    counted(&world.punctual, waits.len()).await;
    // By the minute in which they ended.
    let admin = world.punctual.admin();
    let mut waited: BTreeMap<i64, Vec<Duration>> = Default::default();
    for job in admin.jobs(&JobFilter::default(), None, 100).await.unwrap().items {
        let attempt = &admin.job(job.id).await.unwrap().attempts[0];
        let minute = attempt.ended_at.unwrap().floor_seconds().div_euclid(60);
        waited.entry(minute).or_default().push(attempt.claimed_at.since(job.created_at));
    }
    let expected: Vec<Vec<Duration>> = waited
        .into_values()
        .map(|mut lengths| {
            lengths.sort_unstable();
            let of = |share: f64| {
                let rank = (lengths.len() as f64 * share).ceil() as usize;
                // To the end of its bucket, which is all that is counted.
                histogram::upper(histogram::bucket(lengths[rank - 1])).unwrap()
            };
            vec![of(0.5), of(0.95), of(0.99)]
        })
        .collect();
    let page = world.page("/").await;
    let plot = part(&page, "id=\"delay\"", "</figure>");
    let rows = texts(part(plot, "<tbody>", "</tbody>"), "tr");
    let told: Vec<Vec<Duration>> = rows
        .iter()
        .map(|row| texts(row, "td")[1..].iter().map(|text| length(text)).collect())
        .collect();
    assert_eq!(told, expected);
    // The lines go through them.
    let mut drawn = Vec::new();
    for (class, index) in [("p50", 0), ("p95", 1), ("p99", 2)] {
        let points: Vec<&str> = plot
            .split(&*format!("class=\"line {class}\""))
            .skip(1)
            .flat_map(|line| values(line.split('>').next().unwrap(), "points"))
            .flat_map(|points| points.split(' '))
            .collect();
        // A point that stands alone is told twice.
        let ends = [points.first().unwrap(), points.last().unwrap()];
        let told = [&told[0][index], &told[told.len() - 1][index]];
        for (point, length) in ends.into_iter().zip(told) {
            let y: f64 = point.split_once(',').unwrap().1.parse().unwrap();
            drawn.push((length.as_secs_f64(), -y));
        }
    }
    drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
    are_to_scale(&drawn);
}

/// A slot and the attempt of its job.
struct Row {
    slot: SlotView,
    claimed_at: Timestamp,
    ended_at: Timestamp,
    has_failed: bool,
}

/// The ledger, newest first.
async fn ledger(punctual: &Punctual) -> Vec<Row> {
    let admin = punctual.admin();
    let mut rows = Vec::new();
    for slot in admin.slots("plotted", None, 100).await.unwrap().items {
        let job = admin.job(slot.job.expect("every slot becomes a job")).await.unwrap();
        let [attempt] = &job.attempts[..] else { panic!("{job:?}") };
        rows.push(Row {
            slot,
            claimed_at: attempt.claimed_at,
            ended_at: attempt.ended_at.unwrap(),
            has_failed: attempt.outcome != Some(AttemptOutcome::Succeeded),
        });
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_and_their_lengths_are_those_of_the_rows() {
    let end = now().floor_seconds() + AHEAD;
    let start = Timestamp::from_seconds(end - SLOTS);
    let world = World::after(start, async |frozen| {
        let definition = Definition {
            end: Some((Timestamp::from_seconds(end) + Duration::from_millis(500)).to_string()),
            missed: Missed::All,
            missed_pace: 1_000,
            overlap: Overlap::Allow,
            ..Definition::new("@every 1s", "work")
        };
        let job = Template { payload: serde_json::json!({}), ..definition.job };
        let definition = Definition { job, ..definition };
        frozen.admin().create_schedule("plotted", &definition).await.unwrap();
    })
    .await;
    let expected = SLOTS as usize;
    counted(&world.punctual, expected).await;
    let rows = ledger(&world.punctual).await;
    assert_eq!(rows.len(), expected);
    let late = |row: &Row| row.claimed_at.since(row.slot.slot);
    let is_fired = |row: &&Row| row.slot.outcome == SlotOutcome::Fired;

    // The share of those that began within 5 s.
    let on_time = rows.iter().filter(|row| late(row) <= Duration::from_secs(5)).count();
    assert!(on_time > 0 && on_time < expected, "{on_time} of {expected}");
    let overview = world.page("/").await;
    assert_eq!(values(&overview, "data-on-time"), [on_time.to_string()]);
    assert_eq!(values(&overview, "data-due"), [expected.to_string()]);
    let share = (on_time as f64 / expected as f64 * 100.0 * 10.0).floor() / 10.0;
    assert!(overview.contains(&format!(">{share} %<")), "{share} is not in {overview}");

    // The strip, oldest on the left.
    let list = world.page("/schedules").await;
    let strip = part(&list, "class=\"strip\"", "</svg>");
    let mut ticks: Vec<(u32, &str, &str)> = strip
        .split("<rect")
        .filter(|rect| rect.contains("fill "))
        .map(|rect| {
            let x = values(rect, "x")[0].parse().unwrap();
            (x, values(rect, "class")[0], texts(rect, "title")[0])
        })
        .collect();
    ticks.sort_unstable();
    let told: Vec<(&str, &str)> = ticks.iter().map(|(_, class, words)| (*class, *words)).collect();
    let words: Vec<(&str, String)> = rows
        .iter()
        .rev()
        .map(|row| {
            let at = row.slot.slot.to_jiff().strftime("%F %H:%M:%S UTC").to_string();
            match (row.slot.outcome, row.has_failed) {
                (SlotOutcome::Fired, false) => ("fill good", format!("{at} · succeeded")),
                (SlotOutcome::Fired, true) => ("fill bad", format!("{at} · failed")),
                (_, false) => ("fill warn", format!("{at} · caught up, succeeded")),
                (_, true) => ("fill bad", format!("{at} · caught up, failed")),
            }
        })
        .collect();
    let words: Vec<(&str, &str)> = words.iter().map(|(class, words)| (*class, &**words)).collect();
    assert_eq!(told, words);

    // The calendar: slots by hour, and the worst that became of any.
    let page = world.page("/schedules/plotted").await;
    let mut hours: BTreeMap<String, (usize, bool, bool)> = Default::default();
    for row in &rows {
        let hour = row.slot.slot.to_jiff().strftime("%a %d %H:00 UTC").to_string();
        let (count, has_failed, is_late) = hours.entry(hour).or_default();
        *count += 1;
        *has_failed |= row.has_failed;
        *is_late |= row.slot.outcome != SlotOutcome::Fired;
    }
    let calendar = part(&page, "id=\"calendar\"", "</table>");
    let mut cells: Vec<&str> = values(calendar, "title");
    cells.retain(|title| !title.is_empty());
    cells.sort_unstable();
    let hours: Vec<String> = hours
        .into_iter()
        .map(|(hour, (count, has_failed, is_late))| {
            let worst = match (has_failed, is_late) {
                (true, _) => "failed or missed",
                (false, true) => "skipped or late",
                (false, false) => "succeeded",
            };
            format!("{hour}, {count} slots, worst: {worst}")
        })
        .collect();
    assert_eq!(cells, hours);

    // How long they took, and how late those began that were fired in time; oldest first.
    let took = rows.iter().rev().map(|row| row.ended_at.since(row.claimed_at));
    let delays = rows.iter().rev().filter(is_fired).map(late);
    let expected = [("durations", took.collect::<Vec<_>>()), ("delays", delays.collect())];
    for (id, lengths) in expected {
        let plot = part(&page, &format!("id=\"{id}\""), "</figure>");
        let ms: Vec<String> = lengths.iter().map(|it| it.as_millis().to_string()).collect();
        assert_eq!(values(plot, "data-value"), ms, "{id}");
        let bars = plot.split("data-value=").skip(1);
        let heights = bars.map(|bar| values(bar, "height")[0].parse::<f64>().unwrap());
        let lengths = lengths.iter().map(Duration::as_secs_f64);
        let mut drawn: Vec<(f64, f64)> = lengths.zip(heights).collect();
        // The lowest are drawn higher than they are, so that they are seen.
        drawn.retain(|(_, height)| *height > 2.0);
        drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
        are_to_scale(&drawn);
    }
}
