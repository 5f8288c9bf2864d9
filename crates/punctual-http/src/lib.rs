//! Jobs of kind `http`: a request to somebody who does the work.
//!
//! A request is signed after Standard Webhooks, says which job and attempt it is of, is bounded in time
//! and size, and cannot reach what it should not: see `policy.rs`. What an answer means is in
//! `docs/http-jobs.md`.
//!
//! ```
//! use punctual::{Order, Punctual};
//! use punctual_http::{Config, Http};
//!
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let http = Http::new(Config { allow: vec!["10.1.0.0/16".into()], ..Config::default() })?;
//! let punctual = http.handle(Punctual::memory()).start().await?;
//! let hook = serde_json::json!({ "url": "http://127.0.0.1/hook", "body": { "job": "{{job.id}}" } });
//! let job = punctual.enqueue(Order::of_kind("http", &hook)).await?;
//! let ended = punctual.wait(job.id).await?;
//! assert!(ended.error.unwrap().contains("loopback"), "nobody allowed that");
//! # punctual.stop().await; Ok(()) }
//! ```

mod answer;
mod client;
mod job;
mod policy;
mod request;
mod resolver;
mod sign;
mod template;
mod trouble;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use client::Client;
use job::Caller;
use policy::{Allow, Policy};
pub use policy::{Answer, Resolve};
use punctual::{Builder, Ctx, Job};
use punctual_secrets::Secrets;
use resolver::System;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a worker is told about requests.
#[derive(Default)]
pub struct Config {
    /// Networks (`10.1.0.0/16`), addresses and hosts that may be called although they are not public.
    pub allow: Vec<String>,
    /// Certificates of authorities to trust beside those of the machine, in PEM form.
    pub ca_file: Option<PathBuf>,
    /// Where this process listens; it is never called.
    pub listeners: Vec<SocketAddr>,
    /// Where the database is, by name or address and port; it is never called.
    pub database: Vec<(String, u16)>,
    /// The secrets that requests may refer to.
    pub secrets: Secrets,
    /// What stands for names, instead of the machine's resolver.
    pub resolver: Option<Arc<dyn Resolve>>,
}

/// The handler of jobs of kind `http`.
#[derive(Clone)]
pub struct Http(Arc<Caller>);

/// A job of kind `http`. What it says is read by the attempt, so that a mistake in it is told there
/// and not tried again.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct HttpJob(Value);

impl Job for HttpJob {
    const KIND: &'static str = "http";
}

impl Http {
    /// Reads what may be called.
    pub fn new(config: Config) -> Result<Http, String> {
        let Config { allow, ca_file, listeners, database, secrets, resolver } = config;
        let policy = Policy {
            allow: Allow::parse(&allow)?,
            listeners,
            database,
            resolver: resolver.unwrap_or_else(|| Arc::new(System)),
        };
        Ok(Http(Arc::new(Caller { policy, client: Client::new(ca_file), secrets })))
    }

    /// Has a node handle jobs of kind `http`.
    pub fn handle(&self, builder: Builder) -> Builder {
        let caller = self.0.clone();
        builder.handle(move |HttpJob(payload): HttpJob, cx: Ctx| {
            let caller = caller.clone();
            async move { caller.run(payload, cx).await }
        })
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
}
