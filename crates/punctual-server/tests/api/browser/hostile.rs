//! Texts that would like to be scripts stay texts, wherever they stand.

use axum::Router;
use axum::http::{StatusCode, header};
use punctual::{Ctx, Definition, Job, JobFilter, JobId, JobState, Order, Punctual};
use punctual_server::Server;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Browser, Site};
use crate::World;
use crate::dashboard::{get, once, post};

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
    texts: Vec<String>,
}

async fn hostile(job: Hostile, cx: Ctx) -> Result<(), punctual::BoxError> {
    for text in &job.texts {
        cx.log(text);
        cx.log(&format!("\u{1b}[31m{text}"));
    }
    Err(punctual::Failure::permanent(format!("{}\nend", job.texts.join("\n"))).into())
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A text as markup has to have it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Everything has every text in it: jobs, schedules, queues, nodes and who did what. The first job has
/// all of them; then one for each.
async fn filled() -> (Punctual, Vec<JobId>) {
    let mut builder = Punctual::memory().name(TEXTS[2]).handle(hostile);
    // The name of a label has no `=`.
    let (values, names): (Vec<&str>, Vec<&str>) = TEXTS.iter().partition(|it| it.contains('='));
    for index in 0..names.len().max(values.len()) {
        let name = names.get(index).map_or(format!("label {index}"), |name| (*name).to_owned());
        builder = builder.label(&name, values.get(index).copied().unwrap_or("value"));
    }
    let punctual = builder.start().await.unwrap();
    let all = Hostile { texts: TEXTS.map(str::to_owned).to_vec() }.order();
    let all = TEXTS.iter().take(20).fold(all, |all, text| all.tag(text));
    let mut ids = vec![punctual.enqueue(all).await.unwrap().id];
    let world = World::of(punctual.clone(), None);
    for text in TEXTS {
        let order = Hostile { texts: vec![text.to_owned()] }.order().tag(text);
        ids.push(punctual.enqueue(order).await.unwrap().id);
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
        let kinds = [format!("k {text}")];
        let node = json!({ "name": text, "version": text, "queues": ["none"], "kinds": kinds });
        let joined = world.say("POST /claims", &node.to_string()).await;
        assert_eq!(joined.status, StatusCode::OK, "{:?}", joined.body);
    }
    for id in &ids {
        punctual.wait(*id).await.unwrap();
    }
    (punctual, ids)
}

/// The pages that have a text in their address, and those of a job that has it in everything.
fn asked(text: &str, id: JobId) -> [String; 16] {
    let text = encoded(text);
    [
        format!("/operations/schedules/new?action=pause&q={text}&status={text}"),
        format!("/operations/schedules/new?action={text}"),
        format!("/operations/new?action=retry&q=tag:{text}"),
        format!("/upcoming?hour={text}"),
        format!("/timeline?by={text}&window={text}&from={text}"),
        format!("/login?next={text}"),
        format!("/jobs?q=state:failed&cursor={text}"),
        format!("/schedules/{text}"),
        format!("/schedules/{text}/pause"),
        format!("/schedules?q={text}"),
        format!("/queues/{text}"),
        format!("/queues/{text}/pause"),
        format!("/jobs?q={text}"),
        format!("/tools/cron?expr={text}&tz={text}"),
        format!("/?did={text}&window={text}"),
        format!("/jobs/{id}?level={text}"),
    ]
}

/// None of these texts stands in a page as it is, if that could mean anything there.
fn is_harmless(place: &str, page: &str, texts: &[&str]) {
    for text in texts.iter().filter(|text| text.contains(['<', '"'])) {
        assert!(!page.contains(*text), "{place} says {text}");
    }
}

/// Every text on every page; a browser then looks at some of them. The pages of operations, by text.
async fn read_all(router: &Router, ids: &[JobId]) -> Vec<String> {
    let mut operations = Vec::new();
    for raw in TEXTS {
        let text = encoded(raw);
        let form = format!("action=pause&q={text}&status={text}&why={text}");
        let begun = post(router, "/operations/schedules", &[], &form).await;
        operations.push(begun.headers[header::LOCATION].to_str().unwrap().to_owned());
    }
    for ((&raw, id), place) in TEXTS.iter().zip(&ids[1..]).zip(&operations) {
        let text = encoded(raw);
        for path in asked(raw, *id).iter().chain([place]) {
            is_harmless(path, &get(router, path).await.text, &[raw]);
        }
        for (path, form) in [
            ("/schedules", format!("action=pause&schedule={text}&why={text}&back=/{text}")),
            ("/schedules", format!("action={text}&schedule={text}")),
            ("/jobs", format!("action=cancel&job={id}&why={text}&{text}={text}")),
        ] {
            is_harmless(path, &post(router, path, &[], &form).await.text, &[raw]);
        }
    }
    operations
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_becomes_a_script() {
    let (punctual, ids) = filled().await;
    let router = Server::new(punctual.clone()).router();
    // Lines are written beside the work.
    let last = escaped(TEXTS[TEXTS.len() - 1]);
    let all = format!("/jobs/{}", ids[0]);
    once(&router, &all, &format!("<span class=\"text\">{last}</span>")).await;
    let operations = read_all(&router, &ids).await;
    // They are there, as texts: in a log, an error and a payload, and as nodes and labels.
    let (job, nodes) = (get(&router, &all).await.text, get(&router, "/nodes").await.text);
    for text in TEXTS {
        let text = escaped(text);
        assert!(job.matches(&text).count() >= 3, "{text} is not everywhere in {job}");
        assert!(nodes.matches(&text).count() >= 2, "{text} is not everywhere in {nodes}");
    }
    let ready = JobFilter { state: Some(JobState::Ready), ..JobFilter::default() };
    let waiting = punctual.admin().jobs(&ready, None, 1).await.unwrap().items[0].id;
    let mut pages: Vec<String> = [
        "/",
        "/schedules",
        "/jobs",
        "/jobs?q=state:failed",
        "/jobs?q=state:ready",
        "/timeline",
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
    pages.extend([all, format!("/jobs/{waiting}"), format!("/jobs/{waiting}/cancel")]);
    for page in &pages {
        is_harmless(page, &get(&router, page).await.text, &TEXTS);
    }
    for (text, id) in TEXTS.iter().zip(&ids[1..]).step_by(32) {
        pages.extend(asked(text, *id));
    }
    pages.extend(operations.into_iter().step_by(32));
    let site = Site::start(&punctual, 0);
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
            // What was watched for would have been seen.
            browser.ask("const button = document.createElement('button'); button.setAttribute('onclick', 'alert(1)'); document.body.append(button); button.click(); alert(1)").await;
            assert_eq!(browser.ask("return window.__ran").await, 1);
            browser.until("the policy has refused it", "return window.__trouble.some((it) => it.startsWith('csp script-src'))").await;
        }
    })
    .await;
}
