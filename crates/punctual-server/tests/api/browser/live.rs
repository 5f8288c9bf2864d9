//! What has changed shows by itself, and disturbs nobody.

use std::time::Duration;

use punctual::{JobFilter, Punctual, Timing};
use serde_json::{Value, json};

use super::{Browser, Site};
use crate::{Echo, echo, fail};

#[tokio::test(flavor = "multi_thread")]
async fn a_page_follows_and_keeps_focus_what_is_open_and_where_it_was() {
    let timing = Timing { roll_up: Duration::from_millis(200), ..Timing::default() };
    let punctual =
        Punctual::memory().timing(timing).handle(echo).handle(fail).start().await.unwrap();
    punctual.enqueue(&Echo(json!(1))).await.unwrap();
    let site = Site::start(&punctual, 0);
    Browser::run(|browser| {
        let punctual = &punctual;
        let site = &site;
        async move {
            browser.go(&site.url("/jobs")).await;
            browser.is_live().await;
            browser.ask("window.__same = true; document.querySelector('#q').focus(); document.querySelector('#q').value = 'kind:'; document.querySelector('input[name=job]').checked = true; scrollTo(0, 17)").await;
            let rows = "return document.querySelectorAll('#jobs tbody tr').length";
            assert_eq!(browser.ask(rows).await, 1);
            punctual.enqueue(&Echo(json!(2))).await.unwrap();
            // Somebody has ticked a row: new ones wait behind a button.
            browser.until("there is word of a new job", "return document.querySelector('.pill')?.textContent === 'Show 1 new'").await;
            assert_eq!(browser.ask(rows).await, 1);
            let seen = browser.ask("return [window.__same, document.activeElement.id, document.querySelector('#q').value, document.querySelector('input[name=job]').checked]").await;
            assert_eq!(seen, json!([true, "q", "kind:", true]));
            browser.ask("document.querySelector('.pill').click()").await;
            browser.until("the new job is there", "return document.querySelectorAll('#jobs tbody tr').length === 2").await;

            // A page with details that is longer than the window: what is open stays open while numbers change.
            let low = json!({ "width": 1280, "height": 400, "deviceScaleFactor": 1, "mobile": false });
            browser.tell("Emulation.setDeviceMetricsOverride", low).await;
            browser.go(&site.url("/")).await;
            browser.is_live().await;
            let before = browser.ask("window.__same = true; document.querySelector('#throughput details').open = true; document.querySelector('nav a[data-key=q]').focus(); scrollTo(0, 40); return document.querySelector('#throughput desc').textContent").await;
            for number in 0..3 {
                punctual.enqueue(&Echo(json!(number))).await.unwrap();
            }
            let changed = format!("return document.querySelector('#throughput desc').textContent !== {before}");
            browser.until("the plot has changed", &changed).await;
            let seen = browser.ask("return [window.__same, document.querySelector('#throughput details').open, document.activeElement.dataset.key, scrollY]").await;
            assert_eq!(seen, json!([true, true, "q", 40]));

            // Paused, nothing changes.
            browser.ask("document.querySelector('#pause').click()").await;
            assert_eq!(browser.text("#live").await, "Updates paused");
            assert_eq!(browser.trouble().await, json!([]));

            // Where nothing can be copied, it is not said to be.
            let id = punctual.admin().jobs(&JobFilter::default(), None, 1).await.unwrap().items[0].id;
            browser.go(&site.url(&format!("/jobs/{id}"))).await;
            browser.is_live().await;
            browser.ask("Object.defineProperty(navigator, 'clipboard', { value: undefined }); document.querySelector('[data-copy]').click()").await;
            browser.until("it says what to do", "return document.querySelector('[data-copy]').textContent.startsWith('Selected')").await;
            assert_eq!(browser.ask("return getSelection().toString()").await, format!("punctual job show {id}"));
        }
    })
    .await;
    assert_eq!(
        punctual.admin().jobs(&JobFilter::default(), None, 10).await.unwrap().items.len(),
        5
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_waits_for_a_server_that_was_killed() {
    let punctual = Punctual::memory().handle(echo).start().await.unwrap();
    let site = Site::start(&punctual, 0);
    let port = site.port;
    Browser::run(|browser| {
        let punctual = &punctual;
        async move {
            browser.go(&site.url("/queues")).await;
            browser.is_live().await;
            browser.ask("window.__same = true").await;
            drop(site);
            browser.until("it says so", "return document.getElementById('live').textContent === 'Reconnecting'").await;
            punctual.enqueue(&Echo(Value::Null)).await.unwrap();
            let _site = Site::start(punctual, port);
            browser.is_live().await;
            browser.until("it shows what happened meanwhile", "return window.__same === true && document.querySelector('#list').textContent.includes('default')").await;
        }
    })
    .await;
}
