//! What is drawn is what happened.

use std::time::Duration;

use punctual::{JobFilter, JobState, Punctual, Timing};
use serde_json::json;

use super::{Browser, Site};
use crate::{Echo, Fail, echo, fail};

#[tokio::test(flavor = "multi_thread")]
async fn numbers_drawn_are_numbers_of_the_rows() {
    let timing = Timing { roll_up: Duration::from_millis(200), ..Timing::default() };
    let punctual =
        Punctual::memory().timing(timing).handle(echo).handle(fail).start().await.unwrap();
    for number in 0..23 {
        punctual.enqueue(&Echo(json!(number))).await.unwrap();
    }
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(punctual.enqueue(&Fail {}).await.unwrap().id);
    }
    for id in ids {
        punctual.wait(id).await.ok();
    }
    let site = Site::start(&punctual, 0);
    Browser::run(|browser| {
        let (punctual, site) = (&punctual, &site);
        async move {
            browser.go(&site.url("/")).await;
            browser.is_live().await;
            browser.until("all is counted", "return document.querySelector('#throughput desc').textContent.startsWith('23 attempts succeeded and 4 failed in the last hour')").await;
            let admin = punctual.admin();
            let mut rows = [0, 0];
            for job in admin.jobs(&JobFilter::default(), None, 500).await.unwrap().items {
                for attempt in admin.job(job.id).await.unwrap().attempts {
                    rows[usize::from(attempt.outcome != Some(punctual::AttemptOutcome::Succeeded))] += 1;
                }
            }
            let drawn = browser.ask("const sum = (tone) => [...document.querySelectorAll('#throughput rect.' + tone)].reduce((sum, it) => sum + Number(it.dataset.value), 0); return [sum('good'), sum('bad')]").await;
            assert_eq!(drawn, json!(rows));
            // To scale: the same number of pixels for each attempt, in every bar.
            let scale = browser.ask("return Math.max(...[...document.querySelectorAll('#throughput rect.fill')].map((it) => Math.abs(it.getAttribute('height') / it.dataset.value - document.querySelector('#throughput rect.fill').getAttribute('height') / document.querySelector('#throughput rect.fill').dataset.value)))").await;
            assert!(scale.as_f64().unwrap() < 0.05, "{scale}");
            let table = browser.ask("return [...document.querySelectorAll('#throughput tbody tr')].reduce((sum, row) => [sum[0] + Number(row.cells[1].textContent), sum[1] + Number(row.cells[2].textContent)], [0, 0])").await;
            assert_eq!(table, json!(rows));
            // Counts on the tabs.
            browser.go(&site.url("/jobs")).await;
            let failed = JobFilter { state: Some(JobState::Failed), ..JobFilter::default() };
            let failed = admin.jobs(&failed, None, 500).await.unwrap().items.len();
            assert_eq!(browser.text("[data-count=failed]").await, failed.to_string());
        }
    })
    .await;
}
