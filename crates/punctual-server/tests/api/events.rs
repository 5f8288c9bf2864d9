//! What happens, as it happens.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::{World, request};

/// A stream, read as a browser reads it.
struct Stream {
    headers: HeaderMap,
    frames: axum::body::BodyDataStream,
    text: String,
}

/// One block of a stream.
#[derive(Debug, Default)]
struct Block {
    name: String,
    id: String,
    data: Value,
    retry: String,
}

impl Stream {
    async fn open(world: &World, path: &str, headers: &[(&str, &str)]) -> Stream {
        let request = request(&format!("GET {path}"), headers).body(Body::empty()).unwrap();
        let response = world.respond(request).await;
        assert_eq!(response.status(), StatusCode::OK);
        let headers = response.headers().clone();
        Stream { headers, frames: response.into_body().into_data_stream(), text: String::new() }
    }

    /// The next block; none at the end.
    async fn next(&mut self) -> Option<Block> {
        let deadline = Duration::from_secs(20);
        while !self.text.contains("\n\n") {
            let frame = tokio::time::timeout(deadline, self.frames.next()).await;
            let frame = frame.expect("something happens in time")?.unwrap();
            self.text.push_str(&String::from_utf8_lossy(&frame));
        }
        let (block, rest) = self.text.split_once("\n\n").unwrap();
        let mut read = Block::default();
        for line in block.lines() {
            let (field, value) = line.split_once(':').unwrap();
            let value = value.trim_start().to_owned();
            match field {
                "event" => read.name = value,
                "id" => read.id = value,
                "data" => read.data = serde_json::from_str(&value).unwrap(),
                "retry" => read.retry = value,
                _ => {}
            }
        }
        self.text = rest.to_owned();
        Some(read)
    }

    /// The next event of a job.
    async fn job(&mut self) -> Block {
        loop {
            let block = self.next().await.expect("the stream goes on");
            if block.name == "job" {
                return block;
            }
        }
    }
}

#[tokio::test]
async fn what_happens_is_told_and_whoever_comes_back_misses_nothing() {
    let world = World::new().await;
    let mut stream = Stream::open(&world, "/events", &[]).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    assert_eq!(stream.headers["x-accel-buffering"], "no");
    let hello = stream.next().await.unwrap();
    assert_eq!(hello.retry, "2000");
    assert!(!hello.id.is_empty(), "there is a place to come back to before anything happens");
    let first = world.say("POST /jobs", r#"{"kind":"echo","payload":1}"#).await.body;
    let told = stream.job().await;
    assert_eq!(told.data["job"]["id"], first["id"]);
    assert_eq!(told.data["job"]["state"], "succeeded");
    assert_eq!(told.data["topic"], "jobs");
    assert_eq!(told.data["id"], json!(told.id));
    drop(stream);

    // Two more while nobody listens.
    let mut missed = Vec::new();
    for kind in ["echo", "fail"] {
        let body = format!(r#"{{"kind":"{kind}","payload":{{}}}}"#);
        let id = world.say("POST /jobs", &body).await.body["id"].as_str().unwrap().to_owned();
        world.say(&format!("GET /jobs/{id}/wait"), "").await;
        missed.push(id);
    }
    let mut again = Stream::open(&world, "/events", &[("last-event-id", &told.id)]).await;
    for id in missed {
        assert_eq!(again.job().await.data["job"]["id"], json!(id));
    }
    let fourth = world.say("POST /jobs", r#"{"kind":"echo"}"#).await.body;
    assert_eq!(again.job().await.data["job"]["id"], fourth["id"]);
}

#[tokio::test]
async fn topics_are_told_apart() {
    let world = World::new().await;
    let mut audit = Stream::open(&world, "/events?topics=audit", &[]).await;
    let mut slots = Stream::open(&world, "/events?topics=schedules,leaders", &[]).await;
    audit.next().await.unwrap();
    slots.next().await.unwrap();
    let often = r#"{"when":["@every 1s"],"job":{"kind":"echo"}}"#;
    world.with("PUT /schedules/often", &[("punctual-actor", "ada")], often).await;
    let told = audit.next().await.unwrap();
    assert_eq!((told.name.as_str(), &told.data["audit"]["who"]), ("audit", &json!("ada")));
    let told = loop {
        let block = slots.next().await.unwrap();
        assert!(["slot", "leader"].contains(&block.name.as_str()), "{block:?}");
        if block.name == "slot" {
            break block;
        }
    };
    assert_eq!(told.data["slot"]["name"], "often");
    assert_eq!(told.data["slot"]["outcome"], "fired");
}

#[tokio::test]
async fn a_place_that_is_too_old_or_none_at_all_is_answered_with_reset() {
    let world = World::new().await;
    let now = world.punctual.admin().now().await.unwrap().as_micros();
    let old = (now - 25 * 3_600_000_000).to_string();
    let future = format!("{}.audit.7", now + 600_000_000);
    for id in ["nonsense", &old, &future] {
        let mut stream = Stream::open(&world, "/events", &[("last-event-id", id)]).await;
        stream.next().await.unwrap();
        let reset = stream.next().await.unwrap();
        assert_eq!(reset.name, "reset", "{id}");
        assert!(reset.data["reason"].is_string());
        // It goes on from now, where one may come back to.
        let job = world.say("POST /jobs", r#"{"kind":"echo"}"#).await.body;
        assert_eq!(stream.job().await.data["job"]["id"], job["id"]);
    }
}

#[tokio::test]
async fn without_following_a_stream_ends_with_what_there_is() {
    let world = World::new().await;
    let mut ids = Vec::new();
    // More than two pages, which have 500 events each.
    for _ in 0..4 {
        let job = r#"{"kind":"echo"}"#;
        let batch = format!(r#"{{"jobs":[{}]}}"#, [job; 300].join(","));
        let jobs = world.say("POST /jobs:batch", &batch).await.body["jobs"].clone();
        ids.extend(jobs.as_array().unwrap().iter().map(|job| job["id"].clone()));
    }
    for id in &ids {
        world.say(&format!("GET /jobs/{}/wait", id.as_str().unwrap()), "").await;
    }
    let since = world.punctual.admin().now().await.unwrap() - Duration::from_secs(3_600);
    let path = format!("/events?follow=false&topics=jobs&since={since}");
    let mut stream = Stream::open(&world, &path, &[]).await;
    let mut told = Vec::new();
    while let Some(block) = stream.next().await {
        told.extend((block.name == "job").then(|| block.data["job"]["id"].clone()));
    }
    let by_text = |id: &Value| id.as_str().unwrap().to_owned();
    ids.sort_by_key(by_text);
    told.sort_by_key(by_text);
    assert_eq!(told, ids);
}

#[tokio::test]
async fn what_cannot_be_told_is_refused() {
    let world = World::new().await;
    let wrong = world.say("GET /events?topics=jobs,weather", "").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(wrong.body["detail"].as_str().unwrap().contains("unknown topic `weather`"));
    let old = world.say("GET /events?since=2020-01-01T00:00:00Z", "").await;
    assert_eq!(old.status, StatusCode::UNPROCESSABLE_ENTITY);
}
