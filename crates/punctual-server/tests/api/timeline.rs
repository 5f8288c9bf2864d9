//! Stretches of time by plain links, what is due by hour, and what a job's page tells of its end and log.

use axum::http::StatusCode;
use punctual::{Ctx, Definition, Job, LogLevel, Punctual, Timestamp};
use punctual_server::Server;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::dashboard::{addresses, get, once};
use crate::{Echo, echo};

/// The addresses of a page that have these words in them, as a browser reads them.
fn links(text: &str, words: &str) -> Vec<String> {
    let all = addresses(text).into_iter().map(|it| it.replace("&amp;", "&"));
    all.filter(|it| it.contains(words)).collect()
}

/// What an attribute says, wherever it stands.
fn values(text: &str, name: &str) -> Vec<String> {
    let beginning = format!(" {name}=\"");
    let parts = text.split(beginning.as_str()).skip(1);
    parts.map(|part| part.split('"').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_stretch_of_time_is_in_the_address_and_links_lead_to_others() {
    let punctual = Punctual::memory().version("2.7.1").handle(echo).start().await.unwrap();
    let id = punctual.enqueue(&Echo(json!(1))).await.unwrap().id;
    punctual.wait(id).await.unwrap();
    let router = Server::new(punctual.clone()).router();
    let page = get(&router, "/timeline?by=queue&window=1h").await.text;
    assert!(page.contains(&format!("/jobs/{id}")), "{page}");
    assert!(page.contains("Version <b>2.7.1</b> started on"), "{page}");
    // Earlier, zoom in and zoom out, each a link to a stretch that stays.
    let ways = links(&page, "by=queue&from=");
    assert_eq!(ways.len(), 4, "{ways:?}");
    for way in &ways {
        let there = get(&router, way).await;
        assert_eq!(there.status, StatusCode::OK, "{way}");
    }
    // An hour that was long ago has nothing in it, and the same form.
    let old = "/timeline?from=2020-01-01T00:00&to=2020-01-01T01:00:00Z";
    let page = get(&router, old).await.text;
    assert!(page.contains("No attempts in this range."), "{page}");
    assert!(page.contains("name=\"from\" value=\"2020-01-01T00:00:00\""), "{page}");
    let closer = links(&page, "from=2020-01-01T00%3A15%3A00Z&to=2020-01-01T00%3A45%3A00Z");
    assert_eq!(closer.len(), 1, "{page}");
    for (query, words) in [
        ("from=yesterday", "Invalid time <code>yesterday</code>"),
        ("from=2020-01-02T00:00&to=2020-01-01T00:00", "must be at least 1s after"),
        ("from=2020-01-01T00:00&to=2020-02-01T00:00", "maximum 7 days"),
    ] {
        let refused = get(&router, &format!("/timeline?{query}")).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{query}");
        assert!(refused.text.contains(words), "{query}: {}", refused.text);
    }
}

#[tokio::test]
async fn a_cell_of_the_heat_map_leads_to_what_is_due_in_that_hour() {
    let punctual = Punctual::memory().handle(echo).start().await.unwrap();
    let admin = punctual.admin();
    for (name, cron) in [("often", "*/10 * * * *"), ("daily", "30 2 * * *"), ("still", "0 2 * * *")]
    {
        admin.create_schedule(name, &Definition::new(cron, "echo")).await.unwrap();
    }
    admin.pause_schedule("still", None).await.unwrap();
    let router = Server::new(punctual.clone()).router();
    let page = get(&router, "/schedules").await.text;
    let heat = page.split("id=\"heat\"").nth(1).unwrap().split("</table>").next().unwrap();
    let mut hours = 0;
    for cell in heat.split("<td").skip(1) {
        let Some(place) = links(cell, "/upcoming?hour=").pop() else { continue };
        hours += 1;
        // All that are different, and some of the others.
        let starts: u64 =
            cell.split("UTC, ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        if starts == 6 && hours > 3 {
            continue;
        }
        let due = get(&router, &place).await.text;
        assert_eq!(values(&due, "data-starts"), [starts.to_string()], "{place}");
        assert_eq!(due.contains(">daily</a>"), starts == 7, "{place}");
        assert!(due.contains(">often</a>") && !due.contains(">still</a>"), "{place}");
    }
    assert_eq!(hours, 168);
    let empty = "/upcoming?hour=2020-01-01T05:59:00Z";
    admin.pause_schedule("often", None).await.unwrap();
    let page = get(&router, empty).await.text;
    assert!(page.contains("No slots in this hour.") && page.contains("has passed"), "{page}");
    let wrong = get(&router, "/upcoming?hour=noon").await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
}

/// How many starts a picture tells for an hour or a minute, in words that go on so.
fn starts(text: &str, words: &str) -> u64 {
    let told = text.split(words).nth(1).and_then(|rest| rest.split(' ').next());
    told.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no `{words}` in {text}"))
}

#[tokio::test]
async fn what_is_excluded_is_not_told_as_a_start() {
    let punctual = Punctual::memory().start().await.unwrap();
    let admin = punctual.admin();
    let hour = std::time::Duration::from_secs(3_600);
    let now = admin.now().await.unwrap();
    let first = Timestamp::from_seconds(now.floor_seconds().div_euclid(3_600) * 3_600);
    // Free from seven hours from now on, for a day and an hour; each is due once an hour and once a
    // minute.
    let named = |at: Timestamp| at.to_jiff().strftime("%a %H:%M").to_string();
    let (from, to) = (first + hour * 7, first + hour * 32);
    let exclude = vec![format!("{}-{}", named(from), named(to))];
    for (name, cron) in [("hourly", "0 * * * *"), ("minutely", "* * * * *")] {
        let definition = Definition { exclude: exclude.clone(), ..Definition::new(cron, "echo") };
        admin.create_schedule(name, &definition).await.unwrap();
    }
    let router = Server::new(punctual.clone()).router();
    let page = get(&router, "/schedules").await.text;
    let heat = page.split("id=\"heat\"").nth(1).unwrap().split("</table>").next().unwrap();
    for index in 0..168 {
        let at = first + hour * index;
        let expected = if (7..32).contains(&index) { 0 } else { 61 };
        let words = format!("{} UTC, ", at.to_jiff().strftime("%a %d %H:00"));
        assert_eq!(starts(heat, &words), expected, "{at}");
    }
    // Seven of the 24 hours have a start at every minute, and one more at the first.
    assert_eq!([starts(&page, "minute 0: "), starts(&page, "minute 17: ")], [14, 7]);

    let of_hour = |at: Timestamp| format!("/upcoming?hour={at}");
    let free = get(&router, &of_hour(from)).await.text;
    assert!(free.contains("No slots in this hour."), "{free}");
    let busy = get(&router, &of_hour(to)).await.text;
    assert_eq!(values(&busy, "data-starts"), ["61"], "{busy}");
    let ahead = async |from: Timestamp, to: Timestamp| {
        let page = get(&router, &format!("/timeline?from={from}&to={to}")).await.text;
        page.matches("upcoming</title>").count()
    };
    let second = std::time::Duration::from_secs(1);
    assert_eq!(ahead(from, to).await, 0);
    assert_eq!(ahead(to - hour, to + second).await, 2);
}

#[derive(Serialize, Deserialize, Job)]
struct Report {
    is_long: bool,
}

async fn report(job: Report, cx: Ctx) {
    cx.log_at(LogLevel::Debug, "small talk");
    cx.log("sheet one");
    cx.log_at(LogLevel::Warn, "sheet two is odd");
    cx.log_at(LogLevel::Error, "sheet three is missing");
    if job.is_long {
        cx.cancelled().await;
    }
}

#[tokio::test]
async fn a_running_job_tells_when_it_will_end_and_its_log_can_be_narrowed() {
    let punctual = Punctual::memory().handle(report).start().await.unwrap();
    let router = Server::new(punctual.clone()).router();
    let long = async |is_known: bool| {
        let id = punctual.enqueue(&Report { is_long: true }).await.unwrap().id;
        let page = once(&router, &format!("/jobs/{id}"), "sheet three").await.text;
        assert_eq!(page.contains("Typical duration: <b>"), is_known, "{page}");
        (id, page)
    };
    // Nothing to go by yet.
    long(false).await;
    for _ in 0..4 {
        let id = punctual.enqueue(&Report { is_long: false }).await.unwrap().id;
        punctual.wait(id).await.unwrap();
    }
    let (id, page) = long(true).await;
    assert!(page.contains("(last 4 jobs of this kind)"), "{page}");
    let lines = ["small talk", "sheet one", "sheet two", "sheet three"];
    for (level, shown) in [("", 4), ("?level=info", 3), ("?level=warn", 2), ("?level=error", 1)] {
        let page = get(&router, &format!("/jobs/{id}{level}")).await.text;
        let there: Vec<bool> = lines.iter().map(|line| page.contains(line)).collect();
        assert_eq!(there.iter().filter(|is| **is).count(), shown, "{level}: {page}");
        assert!(there[4 - shown..].iter().all(|is| *is), "{level}");
        assert!(page.contains(&format!("/jobs/{id}?level=warn#log-title")), "{page}");
    }
}
