//! What the dashboard does to many schedules, and to everything.

use axum::Router;
use axum::http::{StatusCode, header};
use punctual::{Admin, AuditAction, Definition, Order, Punctual, ServedQueue};
use punctual_server::{OPERATIONS, Server, handle_operations};
use serde_json::json;

use crate::dashboard::{addresses, get, once, post};
use crate::{echo, fail};

async fn server() -> (Punctual, Admin, Router) {
    let builder = handle_operations(Punctual::memory().handle(echo).handle(fail));
    let queues = ["default", OPERATIONS].map(ServedQueue::new);
    let punctual = builder.queues(queues).start().await.unwrap();
    let (admin, router) = (punctual.admin(), Server::new(punctual.clone()).router());
    for (name, kind) in [("mail-a", "echo"), ("mail-b", "echo"), ("report", "fail")] {
        admin.create_schedule(name, &Definition::new("0 0 1 1 *", kind)).await.unwrap();
    }
    (punctual, admin, router)
}

/// Why each schedule is paused, if it is.
async fn reasons(admin: &Admin) -> Vec<(String, Option<String>)> {
    let now = admin.now().await.unwrap();
    let reason = |schedule: punctual::Schedule| {
        let pause = schedule.pause.filter(|it| it.until.is_none_or(|until| until > now));
        (schedule.name, pause.map(|pause| pause.by.why))
    };
    admin.schedules(None, 100).await.unwrap().into_iter().map(reason).collect()
}

fn told(reasons: &[(String, Option<String>)]) -> Vec<(&str, Option<&str>)> {
    reasons.iter().map(|(name, why)| (name.as_str(), why.as_deref())).collect()
}

#[tokio::test]
async fn schedules_that_are_ticked_are_paused_and_resumed() {
    let (_punctual, admin, router) = server().await;
    let page = get(&router, "/schedules?q=mail").await.text;
    assert!(page.contains("name=\"schedule\" value=\"mail-a\""), "{page}");
    let form = "action=pause&schedule=mail-a&schedule=report&why=index+rebuild&until=2h&back=/schedules?q=mail";
    // It is asked first, with all that was said in the form that answers.
    let question = post(&router, "/schedules", &[("punctual-actor", "ada")], form).await;
    assert_eq!(question.status, StatusCode::OK);
    for words in [
        "Pause 2 schedules?",
        "name=\"schedule\" value=\"report\"",
        "name=\"until\" value=\"2h\"",
        "value=\"index rebuild\"",
        "href=\"/schedules?q=mail\"",
    ] {
        assert!(question.text.contains(words), "no `{words}` in {}", question.text);
    }
    assert!(reasons(&admin).await.iter().all(|(_, why)| why.is_none()));
    let form = format!("{form}&sure=yes");
    let paused = post(&router, "/schedules", &[("punctual-actor", "ada")], &form).await;
    assert_eq!(paused.headers[header::LOCATION], "/schedules?q=mail&did=paused");
    let because = Some("index rebuild");
    assert_eq!(
        told(&reasons(&admin).await),
        [("mail-a", because), ("mail-b", None), ("report", because)]
    );
    assert!(admin.schedule("report").await.unwrap().pause.unwrap().until.is_some());
    let form = "action=resume&schedule=mail-a&schedule=gone";
    let resumed = post(&router, "/schedules", &[], form).await;
    assert_eq!(resumed.headers[header::LOCATION], "/schedules?did=some-schedules");
    assert_eq!(
        told(&reasons(&admin).await),
        [("mail-a", None), ("mail-b", None), ("report", because)]
    );
    let entries = admin.audits(None, 10).await.unwrap().items;
    let by_ada = entries.iter().filter(|it| it.entry.actor.who == "ada");
    assert_eq!(by_ada.filter(|it| it.entry.action == AuditAction::PauseSchedule).count(), 2);
}

#[tokio::test]
async fn all_schedules_that_match_are_done_in_the_background() {
    let (_punctual, admin, router) = server().await;
    admin.clone().by("bob", "his own reason").pause_schedule("mail-b", None).await.unwrap();
    let page = get(&router, "/schedules?q=mail").await.text;
    let places: Vec<String> =
        addresses(&page).into_iter().filter(|it| it.contains("schedules/new")).collect();
    assert_eq!(
        places,
        ["pause", "resume"].map(|action| format!(
            "/operations/schedules/new?action={action}&amp;q=mail&amp;status="
        ))
    );
    // What is paused already is not counted, and keeps its reason.
    let question = get(&router, &places[0].replace("&amp;", "&")).await.text;
    assert!(question.contains("This pauses 1 schedule."), "{question}");
    let form = "action=pause&q=mail&status=&why=incident+7&until=1h";
    let begun = post(&router, "/operations/schedules", &[("punctual-actor", "ada")], form).await;
    assert_eq!(begun.status, StatusCode::SEE_OTHER, "{}", begun.text);
    let place = begun.headers[header::LOCATION].to_str().unwrap();
    let done = once(&router, place, "<b>1</b> changed, <b>0</b> skipped.").await.text;
    for words in ["Pause all matching schedules", "incident 7", "ada", "<code>mail</code>"] {
        assert!(done.contains(words), "no `{words}` in {done}");
    }
    assert_eq!(
        told(&reasons(&admin).await),
        [("mail-a", Some("incident 7")), ("mail-b", Some("his own reason")), ("report", None)]
    );
    // The API shows it among operations.
    let id = place.split(['/', '?']).nth(2).unwrap();
    let shown = get(&router, &format!("/api/v1/operations/{id}")).await.text;
    assert!(shown.contains("\"action\":\"pause\""), "{shown}");
    // All of them, by status.
    let form = "action=resume&q=&status=paused";
    let begun = post(&router, "/operations/schedules", &[], form).await;
    let place = begun.headers[header::LOCATION].to_str().unwrap();
    once(&router, place, "<b>2</b> changed").await;
    assert!(reasons(&admin).await.iter().all(|(_, why)| why.is_none()));
}

/// Why each queue is paused, if it is.
async fn queues(admin: &Admin) -> Vec<(String, Option<String>)> {
    let queues = admin.queues().await.unwrap().into_iter();
    let others = queues.filter(|queue| !queue.name.starts_with('@'));
    others.map(|queue| (queue.name, queue.pause.map(|pause| pause.by.why))).collect()
}

#[tokio::test]
async fn everything_is_paused_and_what_was_paused_together_is_resumed() {
    let (punctual, admin, router) = server().await;
    for queue in ["mail", "print"] {
        punctual.enqueue(Order::of_kind("echo", &json!(1)).queue(queue)).await.unwrap();
    }
    admin.clone().by("bob", "no paper").pause_queue("print", None).await.unwrap();
    assert!(get(&router, "/queues").await.text.contains("/everything/pause"));
    let question = get(&router, "/everything/pause").await.text;
    // The node has a queue of its own, for jobs that run on it alone.
    assert!(question.contains("3 active queues: <b>@"), "{question}");
    let paused = "</b>, <b>default</b>, <b>mail</b>. 1 queue is already paused";
    assert!(question.contains(paused), "{question}");
    let form = "why=the+disk+is+full";
    let paused = post(&router, "/everything/pause", &[("punctual-actor", "ada")], form).await;
    assert_eq!(paused.headers[header::LOCATION], "/queues?did=all-paused");
    let full = Some("the disk is full");
    assert_eq!(
        told(&queues(&admin).await),
        [("default", full), ("mail", full), ("print", Some("no paper"))],
        "operations go on"
    );
    let question = get(&router, "/everything/resume").await.text;
    let boxes: Vec<bool> = question
        .split("type=\"checkbox\"")
        .skip(1)
        .map(|part| part.split('>').next().unwrap().contains("checked"))
        .collect();
    assert_eq!(boxes, [true, true, true, false], "{question}");
    let own = admin.queues().await.unwrap()[0].name.replace('@', "%40");
    let form = format!("queue={own}&queue=default&queue=mail&why=it+is+back");
    let resumed = post(&router, "/everything/resume", &[("punctual-actor", "ada")], &form).await;
    assert_eq!(resumed.headers[header::LOCATION], "/queues?did=all-resumed");
    assert_eq!(
        told(&queues(&admin).await),
        [("default", None), ("mail", None), ("print", Some("no paper"))]
    );
    let entries = admin.audits(None, 20).await.unwrap().items;
    let by_ada: Vec<&str> = entries
        .iter()
        .filter(|it| it.entry.actor.who == "ada")
        .map(|it| it.entry.action.as_str())
        .collect();
    assert_eq!(by_ada, [["resume queue"; 3], ["pause queue"; 3]].concat());
}

#[tokio::test]
async fn what_is_wrong_is_refused_and_changes_nothing() {
    let (punctual, admin, router) = server().await;
    let invalid = StatusCode::UNPROCESSABLE_ENTITY;
    for (path, form, status, words) in [
        ("/schedules", "action=pause&why=x", invalid, "select at least one"),
        ("/schedules", "action=pause&schedule=mail-a", invalid, "reason is empty"),
        ("/schedules", "action=dance&schedule=mail-a", StatusCode::NOT_FOUND, "Unknown action"),
        (
            "/schedules",
            "action=pause&schedule=mail-a&why=x&until=soon",
            invalid,
            "Invalid time <code>soon</code>",
        ),
        ("/operations/schedules", "action=pause&q=mail", invalid, "reason is empty"),
        ("/operations/schedules", "action=retry&q=mail", StatusCode::NOT_FOUND, "Unknown action"),
        ("/everything/pause", "why=+", invalid, "reason is empty"),
        ("/everything/resume", "why=x", invalid, "select at least one"),
    ] {
        let page = post(&router, path, &[], form).await;
        assert_eq!(page.status, status, "{path} {form}");
        assert!(page.text.contains(words), "{path} {form}: {}", page.text);
    }
    // Whoever may only look, and other sites, change nothing either.
    let reader = Server { read_only: true, ..Server::new(punctual.clone()) }.router();
    for (path, form) in [
        ("/schedules", "action=pause&schedule=mail-a&why=x"),
        ("/operations/schedules", "action=pause&q=mail&why=x"),
        ("/everything/pause", "why=x"),
        ("/everything/resume", "queue=default"),
    ] {
        assert_eq!(post(&reader, path, &[], form).await.status, StatusCode::FORBIDDEN, "{path}");
        let foreign = post(&router, path, &[("sec-fetch-site", "cross-site")], form).await;
        assert_eq!(foreign.status, StatusCode::FORBIDDEN, "{path}");
    }
    for path in [
        "/schedules",
        "/queues",
        "/everything/pause",
        "/everything/resume",
        "/operations/schedules/new?action=pause",
    ] {
        let page = get(&reader, path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(!page.text.contains("method=\"post\""), "{path}");
    }
    assert!(reasons(&admin).await.iter().all(|(_, why)| why.is_none()));
    assert!(queues(&admin).await.iter().all(|(_, why)| why.is_none()));
    assert_eq!(admin.jobs(&Default::default(), None, 10).await.unwrap().items.len(), 0);
}
