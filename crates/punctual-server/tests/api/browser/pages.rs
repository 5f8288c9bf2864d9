//! Every page in both themes, wide and narrow: nothing goes wrong, nobody is left out.

use std::net::TcpListener;
use std::time::Duration;

use axum::http::header;
use punctual::{Ctx, Definition, Job, Overlap, Punctual, every};
use punctual_server::{Server, Token, handle_operations};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Browser, Site};
use crate::dashboard::{once, post};
use crate::{Echo, Fail, echo, fail};

#[derive(Serialize, Deserialize, Job)]
struct Export {
    rows: u32,
}

/// Goes on until the test is over.
async fn export(job: Export, cx: Ctx) -> Result<(), punctual::BoxError> {
    cx.log(&format!("exporting {} rows", job.rows));
    cx.progress(40, "writing the second sheet");
    cx.cancelled().await;
    Ok(())
}

/// Everything that pages show.
async fn busy() -> Punctual {
    let punctual = handle_operations(Punctual::memory())
        .name("node-a")
        .handle(echo)
        .handle(fail)
        .handle(export)
        .schedule("heartbeat", every(Duration::from_secs(1)), &Echo(json!("still here")))
        .schedule(
            "slow-report",
            every(Duration::from_secs(1)).overlap(Overlap::Skip),
            &Export { rows: 7 },
        )
        .start()
        .await
        .unwrap();
    let admin = punctual.admin().by("ada", "for the test");
    let nightly = Definition { tz: "Europe/Paris".into(), ..Definition::new("30 2 * * *", "echo") };
    admin.create_schedule("nightly-backup", &nightly).await.unwrap();
    admin
        .define_schedule("nightly-backup", &Definition { jitter: "5m".into(), ..nightly }, None)
        .await
        .unwrap();
    admin.create_schedule("vacuum", &Definition::new("0 3 * * SUN", "echo")).await.unwrap();
    admin.pause_schedule("vacuum", None).await.unwrap();
    for number in 0..5 {
        punctual.enqueue(Echo(json!({ "number": number })).order().tag("eu")).await.unwrap();
        let id = punctual.enqueue(&Fail {}).await.unwrap().id;
        punctual.wait(id).await.ok();
    }
    punctual
        .enqueue(Echo(json!(1)).order().queue("mail").delay(Duration::from_secs(600)))
        .await
        .unwrap();
    admin.pause_queue("mail", None).await.unwrap();
    punctual
}

/// The pages, by name.
async fn pages(punctual: &Punctual) -> Vec<(&'static str, String)> {
    let admin = punctual.admin();
    let of = |state| punctual::JobFilter { state: Some(state), ..Default::default() };
    let failed = admin.jobs(&of(punctual::JobState::Failed), None, 1).await.unwrap().items[0].id;
    let running = admin.jobs(&of(punctual::JobState::Running), None, 1).await.unwrap().items[0].id;
    // Two that have nothing to do, so that they change nothing.
    let router = Server::new(punctual.clone()).router();
    let mut operations = Vec::new();
    for (path, form) in [
        ("/operations", "action=retry&q=tag:none&why=the+disk+is+back"),
        ("/operations/schedules", "action=pause&q=none-such&why=incident+7&until=2h"),
    ] {
        let begun = post(&router, path, &[("punctual-actor", "ada")], form).await;
        let place = begun.headers[header::LOCATION].to_str().unwrap();
        let place = place.split('?').next().unwrap().to_owned();
        once(&router, &place, "<b>0</b> changed").await;
        operations.push(place);
    }
    let now = admin.now().await.unwrap();
    let (from, to) = (now - Duration::from_secs(5), now + Duration::from_secs(1));
    vec![
        ("overview", "/".into()),
        ("schedules", "/schedules".into()),
        ("schedule", "/schedules/nightly-backup".into()),
        ("schedule-busy", "/schedules/heartbeat".into()),
        ("pause", "/schedules/heartbeat/pause".into()),
        ("jobs", "/jobs".into()),
        ("cancel", format!("/jobs/{running}/cancel")),
        ("pause-queue", "/queues/mail/pause".into()),
        ("pause-all", "/everything/pause".into()),
        ("resume-all", "/everything/resume".into()),
        ("operation", operations[0].clone()),
        ("operation-schedules", operations[1].clone()),
        ("cancel-operation", format!("{}/cancel", operations[1])),
        ("pause-matching", "/operations/schedules/new?action=pause&q=&status=active".into()),
        ("resume-matching", "/operations/schedules/new?action=resume&q=vacuum".into()),
        ("upcoming", "/upcoming".into()),
        ("upcoming-night", "/upcoming?hour=2027-01-15T01:00:00Z".into()),
        ("timeline-closer", format!("/timeline?by=node&from={from}&to={to}")),
        ("timeline-wrong", "/timeline?from=yesterday".into()),
        ("job-log", format!("/jobs/{running}?level=warn")),
        ("all-matching", "/operations/new?action=move&q=queue:mail".into()),
        ("jobs-wrong", "/jobs?q=nonsense".into()),
        ("job", format!("/jobs/{failed}")),
        ("job-running", format!("/jobs/{running}")),
        ("timeline", "/timeline?window=15min".into()),
        ("queues", "/queues".into()),
        ("queue", "/queues/mail".into()),
        ("nodes", "/nodes".into()),
        ("activity", "/activity".into()),
        ("settings", "/settings".into()),
        ("cron", "/tools/cron?expr=30+2+*+*+*&tz=Europe/Paris".into()),
        ("missing", "/jobs/01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10".into()),
    ]
}

/// What axe finds, each with where.
const AXE: &str = "
    return axe.run(document, { resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
      .then((found) => found.violations.flatMap((it) => it.nodes.map((node) => it.id + ' at ' + node.target.join(' ') + ': ' + node.html.slice(0, 160))))
      .catch((error) => ['axe: ' + error]);";

async fn axe(browser: &Browser, source: &str) -> Value {
    browser.tell("Runtime.evaluate", json!({ "expression": source })).await;
    browser.ask(AXE).await
}

/// A picture of the whole page, for people to look at, where `PUNCTUAL_SCREENSHOTS` says.
async fn shoot(browser: &Browser, name: &str, width: u32) {
    let Ok(directory) = std::env::var("PUNCTUAL_SCREENSHOTS") else { return };
    let height = browser.ask("return document.documentElement.scrollHeight").await;
    let metrics =
        json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
    browser.tell("Emulation.setDeviceMetricsOverride", metrics).await;
    std::fs::create_dir_all(&directory).unwrap();
    let picture = browser.web.screenshot().await.unwrap();
    std::fs::write(format!("{directory}/{name}-{width}.png"), picture).unwrap();
    browser.width(width).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_clean_in_both_themes_wide_and_narrow() {
    let axe_file =
        std::env::var("AXE_JS").expect("AXE_JS names axe-core; `cargo xtask test` fetches it");
    let source = std::fs::read_to_string(axe_file).unwrap();
    let punctual = busy().await;
    let site = Site::start(&punctual, 0);
    let empty = Punctual::memory().start().await.unwrap();
    let empty_site = Site::start(&empty, 0);
    let token = Some(Token::new("0123456789abcdef").unwrap());
    let closed = Server { token, ..Server::new(empty.clone()) };
    let closed = Site::of(closed, TcpListener::bind("127.0.0.1:0").unwrap());
    Browser::run(|browser| {
        let (punctual, site, empty_site, closed, source) =
            (&punctual, &site, &empty_site, &closed, &source);
        async move {
            let mut pages: Vec<(&str, String)> = pages(punctual)
                .await
                .into_iter()
                .map(|(name, path)| (name, site.url(&path)))
                .collect();
            pages.extend(
                ["/", "/schedules", "/jobs", "/timeline", "/queues", "/activity"]
                    .map(|path| ("empty", empty_site.url(path))),
            );
            pages.push(("sign-in", closed.url("/login?next=/jobs")));
            let mut wrong = Vec::new();
            for (name, url) in &pages {
                browser.theme("light").await;
                browser.width(1280).await;
                browser.go(url).await;
                // Before somebody has signed in there is nothing to follow.
                if *name != "sign-in" {
                    browser.is_live().await;
                }
                for (theme, width) in
                    [("light", 1280), ("dark", 1280), ("dark", 390), ("light", 390)]
                {
                    browser.theme(theme).await;
                    browser.width(width).await;
                    let overflow = browser
                        .ask(&format!("return document.documentElement.scrollWidth - {width}"))
                        .await;
                    if overflow.as_i64().unwrap() > 0 {
                        wrong.push(format!("{url} at {width}: {overflow} px too wide"));
                    }
                    if *name != "empty" || url.ends_with(&format!("{}/", empty_site.port)) {
                        shoot(&browser, &format!("{name}-{theme}"), width).await;
                    }
                    // The wide page in both themes: narrow ones are the same elements.
                    if width == 1280 {
                        for violation in axe(&browser, source).await.as_array().unwrap() {
                            wrong.push(format!("{url} {theme}: {violation}"));
                        }
                    }
                }
                for trouble in browser.trouble().await.as_array().unwrap() {
                    wrong.push(format!("{url}: {trouble}"));
                }
            }
            assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
        }
    })
    .await;
}
