//! The strips above the timeline: what they draw, and how they are drawn over.

use std::sync::Arc;
use std::time::Duration;

use punctual::{
    AttemptOutcome, Ctx, Job, JobFilter, JobState, Punctual, SumAsk, Timestamp, Timing,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{Browser, LOOK_EVERY, Site};
use crate::{Echo, Fail, echo, fail};

#[derive(Serialize, Deserialize, Job)]
struct Hold {}

/// Waits until so many jobs run.
async fn running(punctual: &Punctual, wanted: usize) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    let filter = JobFilter { state: Some(JobState::Running), ..JobFilter::default() };
    while punctual.admin().jobs(&filter, None, 100).await.unwrap().items.len() != wanted {
        look.tick().await;
    }
}

/// Waits until so many attempts are counted: what is counted is written down a moment later.
pub(crate) async fn counted(punctual: &Punctual, wanted: usize) {
    let admin = punctual.admin();
    let now = admin.now().await.unwrap();
    let minute = now.floor_seconds().div_euclid(60) * 60;
    let (from, to) =
        (Timestamp::from_seconds(minute - 3_600), Timestamp::from_seconds(minute + 600));
    let ask = SumAsk { from, to, minutes: 1, by_queue: false };
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        let sums = admin.sums(&ask).await.unwrap();
        let ended = sums.iter().filter(|sum| sum.metric.parse::<AttemptOutcome>().is_ok());
        if ended.map(|sum| sum.count).sum::<i64>() == i64::try_from(wanted).unwrap() {
            return;
        }
        look.tick().await;
    }
}

/// Jobs that overlap: one alone, three at once, two of them for longer, some short ones.
async fn overlapping(punctual: &Punctual, gate: &Semaphore) {
    let mut held = 0;
    for (ordered, released) in [(1, 0), (2, 0), (0, 2), (1, 0), (0, 1), (0, 1)] {
        for _ in 0..ordered {
            punctual.enqueue(&Hold {}).await.unwrap();
        }
        gate.add_permits(released);
        held = held + ordered - released;
        running(punctual, held).await;
        let id = punctual.enqueue(&Echo(json!(1))).await.unwrap().id;
        punctual.wait(id).await.unwrap();
    }
    let id = punctual.enqueue(&Fail {}).await.unwrap().id;
    punctual.wait(id).await.ok();
}

/// When every attempt began and ended, from the rows.
async fn attempts(punctual: &Punctual) -> Vec<(Timestamp, Timestamp)> {
    let admin = punctual.admin();
    let mut attempts = Vec::new();
    for job in admin.jobs(&JobFilter::default(), None, 500).await.unwrap().items {
        let of_job = admin.job(job.id).await.unwrap().attempts.into_iter();
        attempts.extend(of_job.map(|it| (it.claimed_at, it.ended_at.unwrap())));
    }
    attempts
}

/// The most that ran at one moment of a step: it can only change where one begins.
fn most(attempts: &[(Timestamp, Timestamp)], from: Timestamp, to: Timestamp) -> usize {
    let at = |moment: Timestamp| {
        let runs = |(begun, ended): &&(Timestamp, Timestamp)| *begun <= moment && moment < *ended;
        attempts.iter().filter(runs).count()
    };
    let begun = attempts.iter().map(|(begun, _)| *begun).filter(|it| *it >= from && *it < to);
    begun.chain([from]).map(at).max().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn strips_draw_what_the_rows_say_and_can_be_drawn_over() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let timing = Timing { roll_up: Duration::from_millis(200), ..Timing::default() };
    let hold = move |_: Hold, _: Ctx| {
        let gate = held.clone();
        async move { gate.acquire().await.map(|permit| permit.forget()) }
    };
    let builder = Punctual::memory().timing(timing).handle(echo).handle(fail).handle(hold);
    let punctual = builder.start().await.unwrap();
    overlapping(&punctual, &gate).await;
    let site = Site::start(&punctual, 0);
    Browser::run(|browser| {
        let (punctual, site) = (&punctual, &site);
        async move {
            let rows = attempts(punctual).await;
            counted(punctual, rows.len()).await;
            let first = rows.iter().map(|(begun, _)| *begun).min().unwrap();
            let last = rows.iter().map(|(_, ended)| *ended).max().unwrap();
            let from = Timestamp::from_seconds(first.floor_seconds());
            let to = Timestamp::from_seconds(last.ceil_seconds() + 1);
            browser.go(&site.url(&format!("/timeline?by=queue&from={from}&to={to}"))).await;
            let drawn = browser.ask("return [...document.querySelectorAll('#concurrency rect.fill')].map((it) => [it.dataset.at, Number(it.dataset.value), Number(it.getAttribute('height'))])").await;
            let drawn: Vec<(Timestamp, usize, f64)> = drawn
                .as_array()
                .unwrap()
                .iter()
                .map(|it| (it[0].as_str().unwrap().parse().unwrap(), it[1].as_u64().unwrap() as usize, it[2].as_f64().unwrap()))
                .collect();
            let whole = to.as_micros() - from.as_micros();
            let edge = |step: i64| Timestamp::from_micros(from.as_micros() + whole * step / 120);
            let mut peak = 0;
            for step in 0..120 {
                let expected = most(&rows, edge(step), edge(step + 1));
                let told = drawn.iter().find(|(at, ..)| *at == edge(step)).map_or(0, |it| it.1);
                assert_eq!(told, expected, "step {step} of {drawn:?}");
                peak = peak.max(expected);
            }
            assert!(peak >= 3, "{rows:?}");
            // To scale: the same height for each attempt.
            for (_, value, height) in &drawn {
                assert!((height / *value as f64 - 36.0 / peak as f64).abs() < 0.02, "{drawn:?}");
            }

            // All that ended, from the counters; the hour has them all.
            browser.go(&site.url("/timeline?by=queue&window=1h")).await;
            browser.is_live().await;
            let sums = browser.ask("const sum = (name) => [...document.querySelectorAll(`#density rect[data-${name}]`)].reduce((sum, it) => sum + Number(it.dataset[name]), 0); return [sum('value'), sum('failed')]").await;
            assert_eq!(sums, json!([rows.len(), 1]));

            // Drawn over from a quarter to a half, it leads to that part.
            let strip = browser.ask("const { left, top, width, height } = document.querySelector('#concurrency').getBoundingClientRect(); const { from, to } = document.querySelector('#concurrency').dataset; return { left, top, width, height, from, to }").await;
            let number = |name: &str| strip[name].as_f64().unwrap();
            let y = number("top") + number("height") / 2.0;
            for (kind, share, buttons) in [("mousePressed", 0.25, 1), ("mouseMoved", 0.4, 1), ("mouseMoved", 0.5, 1), ("mouseReleased", 0.5, 0)] {
                let x = number("left") + number("width") * share;
                browser.tell("Input.dispatchMouseEvent", json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1 })).await;
            }
            browser.until("it has gone there", "return new URL(location).searchParams.has('from') && document.readyState === 'complete'").await;
            let there: Value = browser.ask("const { searchParams } = new URL(location); return [searchParams.get('by'), searchParams.get('from'), searchParams.get('to')]").await;
            let instant = |text: &Value| text.as_str().unwrap().parse::<Timestamp>().unwrap();
            let (start, end) = (instant(&strip["from"]), instant(&strip["to"]));
            let near = |at: Timestamp, share: f64| {
                let wanted = start + end.since(start).mul_f64(share);
                at.since(wanted).max(wanted.since(at)) < Duration::from_secs(15)
            };
            assert_eq!(there[0], "queue");
            assert!(near(instant(&there[1]), 0.25) && near(instant(&there[2]), 0.5), "{there} of {strip}");
            assert_eq!(browser.trouble().await, json!([]));

            // A press that goes nowhere leads nowhere, and without a script there are links.
            browser.tell("Emulation.setScriptExecutionDisabled", json!({ "value": true })).await;
            browser.find("#zoom a[href*='from=']:nth-of-type(1)").await.click().await.unwrap();
            browser.find("#from").await;
        }
    })
    .await;
}
