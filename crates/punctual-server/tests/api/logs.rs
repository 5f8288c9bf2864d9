//! Logs that are longer than a page, on the page of their job and as a text.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures_util::StreamExt;
use punctual::{Ctx, Job, LogLevel, Punctual};
use punctual_server::Server;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::dashboard::{get, once};

/// Lines of an attempt: almost as many as it may write.
const LINES: u32 = 9_990;
/// More lines than were once sent.
const ATTEMPTS: u32 = 6;

#[derive(Serialize, Deserialize, Job)]
struct Talk {}

async fn talk(_: Talk, cx: Ctx) -> Result<(), punctual::BoxError> {
    let attempt = cx.attempt();
    cx.log_at(LogLevel::Error, &format!("beginning of {attempt}"));
    for number in 2..=LINES {
        cx.log(&format!("line {number} of {attempt}"));
    }
    Err(punctual::Failure::permanent("that was all").into())
}

#[tokio::test]
async fn the_newest_lines_are_shown_and_all_are_sent() {
    let punctual = Punctual::memory().handle(talk).start().await.unwrap();
    let router = Server::new(punctual.clone()).router();
    let id = punctual.enqueue(&Talk {}).await.unwrap().id;
    let page = format!("/jobs/{id}");
    for attempt in 1..=ATTEMPTS {
        punctual.wait(id).await.unwrap();
        // Lines are written beside the work.
        once(&router, &page, &format!(">line {LINES} of {attempt}<")).await;
        if attempt < ATTEMPTS {
            punctual.admin().retry(id).await.unwrap();
        }
    }
    let shown = get(&router, &page).await.text;
    assert!(shown.contains("Last 200 lines."), "{shown}");
    let numbers = shown.split(">line ").skip(1).map(|rest| rest.split('<').next().unwrap());
    let expected = (LINES - 199..=LINES).map(|number| format!("{number} of {ATTEMPTS}"));
    assert_eq!(numbers.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    // What matters is found behind thousands of lines that do not, and it is said how far it was
    // looked for.
    let errors = get(&router, &format!("{page}?level=error")).await.text;
    let is_there = |attempt: u32| errors.contains(&format!(">beginning of {attempt}<"));
    assert!(is_there(ATTEMPTS) && !is_there(ATTEMPTS - 1), "{errors}");
    assert!(errors.contains("Searched the last 10\u{202f}000 lines"), "{errors}");

    let text = get(&router, &format!("{page}/log.txt")).await.text;
    assert_eq!(text.lines().count(), (LINES * ATTEMPTS) as usize);
    let last = text.lines().last().unwrap();
    assert!(last.ends_with(&format!(" {ATTEMPTS} info line {LINES} of {ATTEMPTS}")), "{last}");
}

#[derive(Serialize, Deserialize, Job)]
struct Follow {}

#[tokio::test]
async fn a_page_hears_of_a_line_however_many_there_are() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let follow = move |_: Follow, cx: Ctx| {
        let gate = held.clone();
        async move {
            (1..=600).for_each(|number| cx.log(&format!("line {number}")));
            gate.acquire().await.map(|permit| permit.forget())?;
            cx.log("one more");
            cx.cancelled().await;
            Ok::<_, punctual::BoxError>(())
        }
    };
    let punctual = Punctual::memory().handle(follow).start().await.unwrap();
    let router = Server::new(punctual.clone()).router();
    let id = punctual.enqueue(&Follow {}).await.unwrap().id;
    once(&router, &format!("/jobs/{id}"), ">line 600<").await;
    let request = Request::get(format!("/ui/events?watch=job:{id}")).header("host", "localhost");
    let request = request.body(Body::empty()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let mut events = answer.into_body().into_data_stream();
    let mut hear = async || {
        let told = async {
            while let Some(part) = events.next().await {
                let part = String::from_utf8(part.unwrap().to_vec()).unwrap();
                if part.split_whitespace().any(|word| word == "job") {
                    return;
                }
            }
            panic!("the events have ended");
        };
        tokio::time::timeout(Duration::from_secs(10), told).await.expect("it is told");
    };
    // First of what it is, then of what is new.
    hear().await;
    gate.add_permits(1);
    hear().await;
    once(&router, &format!("/jobs/{id}"), ">one more<").await;
}
