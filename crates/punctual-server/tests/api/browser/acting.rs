//! Every button works as a plain form, without a script.

use std::time::Duration;

use punctual::{Definition, Job, JobFilter, JobId, JobState, Punctual};
use punctual_server::handle_operations;
use serde_json::json;

use super::{Browser, Site};
use crate::{Echo, Fail, echo, fail};

async fn state(punctual: &Punctual, id: JobId) -> JobState {
    punctual.admin().job(id).await.unwrap().view.state
}

async fn failed(punctual: &Punctual) -> JobId {
    let id = punctual.enqueue(&Fail {}).await.unwrap().id;
    punctual.wait(id).await.ok();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn every_button_works_without_a_script() {
    let builder = handle_operations(Punctual::memory().handle(echo).handle(fail));
    let punctual = builder.start().await.unwrap();
    let admin = punctual.admin();
    let definition = Definition::new("0 0 1 1 *", "echo");
    admin.create_schedule("yearly", &definition).await.unwrap();
    let site = Site::start(&punctual, 0);
    Browser::run(|browser| {
        let (punctual, admin, site) = (&punctual, &admin, &site);
        async move {
            browser.tell("Emulation.setScriptExecutionDisabled", json!({ "value": true })).await;
            let press = |selector: &'static str| {
                let browser = browser.clone();
                async move { browser.find(selector).await.click().await.unwrap() }
            };
            // A click may come back before the answer is there.
            let said = |words: &'static str| {
                let browser = browser.clone();
                async move { browser.says(words).await }
            };
            let write = |selector: &'static str, text: &'static str| {
                let browser = browser.clone();
                async move { browser.find(selector).await.send_keys(text).await.unwrap() }
            };

            // A schedule.
            browser.go(&site.url("/schedules/yearly")).await;
            press("form[action$='/run'] button").await;
            said("Job created.").await;
            let made = JobFilter {
                schedule: Some(admin.schedule("yearly").await.unwrap().id),
                ..JobFilter::default()
            };
            assert_eq!(admin.jobs(&made, None, 10).await.unwrap().items.len(), 1);
            press("a[href$='/pause']").await;
            write("input#why", "index rebuild").await;
            write("#until", "2h").await;
            press("main button.primary").await;
            said("Paused.").await;
            let pause = admin.schedule("yearly").await.unwrap().pause.unwrap();
            assert_eq!(
                (pause.by.who.as_str(), pause.by.why.as_str()),
                ("dashboard", "index rebuild")
            );
            assert!(pause.until.unwrap().since(pause.since) > Duration::from_secs(7_000));
            press("form[action$='/resume'] button").await;
            said("Resumed.").await;
            // It stays until the next plan, so that what it skipped is known, but it is over.
            let over = admin.schedule("yearly").await.unwrap().pause.and_then(|pause| pause.until);
            assert!(over.unwrap() <= admin.now().await.unwrap());
            assert!(!browser.text("main").await.contains("is paused"));

            // A job that failed, and one that waits.
            let dead = failed(punctual).await;
            browser.go(&site.url(&format!("/jobs/{dead}"))).await;
            press("form[action$='/retry'] button").await;
            said("Queued for retry.").await;
            punctual.wait(dead).await.ok();
            assert_eq!(admin.job(dead).await.unwrap().attempts.len(), 2);
            let waiting = punctual
                .enqueue(Echo(json!(1)).order().delay(Duration::from_secs(3_600)))
                .await
                .unwrap()
                .id;
            browser.go(&site.url(&format!("/jobs/{waiting}"))).await;
            press("details.menu summary").await;
            write("#move-queue", "slow").await;
            write("#move-priority", "7").await;
            press("form[action$='/move'] button").await;
            said("Moved.").await;
            let moved = admin.job(waiting).await.unwrap().view;
            assert_eq!((moved.queue.as_str(), moved.priority), ("slow", 7));
            press("a[href$='/cancel']").await;
            write("input#why", "not needed").await;
            press("main button.danger").await;
            said("Cancelled.").await;
            assert_eq!(state(punctual, waiting).await, JobState::Cancelled);

            // A queue.
            browser.go(&site.url("/queues/slow/pause")).await;
            write("input#why", "the disk is full").await;
            press("main button.primary").await;
            said("Paused.").await;
            assert!(browser.text("#why").await.contains("the disk is full"));
            press("form[action$='/resume'] button").await;
            said("Resumed.").await;
            write("#max-running", "3").await;
            press("form[action$='/limit'] button").await;
            said("Limit saved.").await;
            let queue =
                admin.queues().await.unwrap().into_iter().find(|it| it.name == "slow").unwrap();
            assert_eq!((queue.pause, queue.limits.max_running), (None, Some(3)));

            // Many jobs at once.
            let many = [failed(punctual).await, failed(punctual).await];
            browser.go(&site.url("/jobs?q=state:failed")).await;
            let chosen = "input[name='job']";
            for id in many {
                browser.find(&format!("{chosen}[value='{id}']")).await.click().await.unwrap();
            }
            press("button[value='retry']").await;
            said("Queued for retry.").await;
            for id in many {
                punctual.wait(id).await.ok();
                assert_eq!(admin.job(id).await.unwrap().attempts.len(), 2);
            }
            let later = punctual
                .enqueue(Echo(json!(2)).order().delay(Duration::from_secs(3_600)))
                .await
                .unwrap()
                .id;
            browser.go(&site.url("/jobs?q=state:scheduled")).await;
            browser.find(&format!("{chosen}[value='{later}']")).await.click().await.unwrap();
            press("button[value='cancel']").await;
            let sure = browser.appears("form.stack button.danger").await;
            assert_eq!(state(punctual, later).await, JobState::Scheduled);
            sure.click().await.unwrap();
            said("Cancelled.").await;
            assert_eq!(state(punctual, later).await, JobState::Cancelled);

            // All that match.
            browser.go(&site.url("/jobs?q=state:failed")).await;
            press("a[href*='action=retry']").await;
            write("input#why", "the disk is back").await;
            press("main button.primary").await;
            said("Started in the background").await;
            let of_bulk =
                JobFilter { kind: Some("punctual.bulk".to_owned()), ..JobFilter::default() };
            let operation = admin.jobs(&of_bulk, None, 1).await.unwrap().items[0].id;
            punctual.wait(operation).await.unwrap();
            browser.go(&site.url(&format!("/operations/{operation}"))).await;
            assert!(browser.text("#progress").await.contains("3 changed"));
            for id in many {
                punctual.wait(id).await.ok();
                assert_eq!(admin.job(id).await.unwrap().attempts.len(), 3);
            }

            // All of it was written down.
            let told = admin.audits(None, 50).await.unwrap().items;
            let actions: Vec<&str> = told
                .iter()
                .filter(|it| it.entry.actor.who == "dashboard")
                .map(|it| it.entry.action.as_str())
                .collect();
            for action in [
                "run schedule",
                "pause schedule",
                "resume schedule",
                "pause queue",
                "resume queue",
                "limit queue",
            ] {
                assert!(actions.contains(&action), "{action} is not among {actions:?}");
            }
            assert!(actions.iter().filter(|it| it.contains("cancel")).count() >= 2, "{actions:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_are_stopped_without_a_script() {
    let builder = handle_operations(Punctual::memory().handle(echo).handle(fail));
    let punctual = builder.start().await.unwrap();
    let admin = punctual.admin();
    for name in ["one", "other"] {
        admin.create_schedule(name, &Definition::new("0 0 1 1 *", "echo")).await.unwrap();
    }
    punctual.enqueue(Echo(json!(1)).order().queue("slow")).await.unwrap();
    let site = Site::start(&punctual, 0);
    Browser::run(|browser| {
        let (punctual, admin, site) = (&punctual, &admin, &site);
        async move {
            browser.tell("Emulation.setScriptExecutionDisabled", json!({ "value": true })).await;
            let press = |selector: &'static str| {
                let browser = browser.clone();
                async move { browser.find(selector).await.click().await.unwrap() }
            };
            let write = |selector: &'static str, text: &'static str| {
                let browser = browser.clone();
                async move { browser.find(selector).await.send_keys(text).await.unwrap() }
            };
            let is_paused = |name: &'static str| async move {
                let now = admin.now().await.unwrap();
                let pause = admin.schedule(name).await.unwrap().pause;
                pause.is_some_and(|pause| pause.until.is_none_or(|until| until > now))
            };

            // What is ticked.
            browser.go(&site.url("/schedules")).await;
            press("input[name='schedule'][value='other']").await;
            write("#bulk-why", "index rebuild").await;
            write("#bulk-until", "2h").await;
            press("button[value='pause']").await;
            let sure = browser.appears("form.stack button.danger").await;
            assert!(!is_paused("other").await);
            sure.click().await.unwrap();
            browser.says("Paused.").await;
            assert!(is_paused("other").await && !is_paused("one").await);

            // All that match.
            press("a[href*='schedules/new?action=pause']").await;
            write("input#why", "incident 7").await;
            press("main button.primary").await;
            browser.says("Started in the background").await;
            let of_bulk =
                JobFilter { kind: Some("punctual.bulk".to_owned()), ..JobFilter::default() };
            let operation = admin.jobs(&of_bulk, None, 1).await.unwrap().items[0].id;
            punctual.wait(operation).await.unwrap();
            browser.go(&site.url(&format!("/operations/{operation}"))).await;
            assert!(browser.text("#progress").await.contains("1 changed"));
            assert!(is_paused("one").await);

            // Everything.
            browser.go(&site.url("/queues")).await;
            press("a[href$='/everything/pause']").await;
            write("input#why", "the disk is full").await;
            press("main button.primary").await;
            browser.says("All queues are paused").await;
            let paused = async || {
                let queues = admin.queues().await.unwrap().into_iter();
                queues.filter(|queue| queue.pause.is_some()).map(|it| it.name).collect::<Vec<_>>()
            };
            assert!(paused().await.contains(&"slow".to_owned()), "{:?}", paused().await);
            press("a[href$='/everything/resume']").await;
            press("main button.primary").await;
            browser.says("Queues resumed.").await;
            assert_eq!(paused().await, Vec::<String>::new());

            // What is due by hour, from the heat map.
            browser.go(&site.url("/schedules")).await;
            press("a[href*='/upcoming?hour=']").await;
            assert!(browser.text("h1").await.starts_with("Slots on "));
        }
    })
    .await;
}
