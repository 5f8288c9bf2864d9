//! The dashboard in a real browser.

mod acting;
mod driver;
mod hostile;
mod live;
mod pages;
mod plots;
mod strips;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual::Punctual;
use punctual_server::Server;
use serde_json::{Value, json};

use driver::{Element, Web};
pub(crate) use strips::counted;

/// Nothing that a test waits for takes longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// From look to look.
const LOOK_EVERY: Duration = Duration::from_millis(25);

const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--window-size=1280,1000",
    "--disable-extensions",
];

/// Runs in every page before its own scripts: gathers whatever goes wrong in it, and whatever a text
/// that is no script would do if it became one.
const WATCH: &str = "
    window.__trouble = [];
    window.__ran = 0;
    const note = (what) => window.__trouble.push(String(what));
    addEventListener('error', (event) => note(event.message || event.target), true);
    addEventListener('unhandledrejection', (event) => note(event.reason));
    addEventListener('securitypolicyviolation', (event) => note('csp ' + event.violatedDirective + ' ' + event.blockedURI));
    const said = console.error;
    console.error = (...words) => { note(words.join(' ')); said(...words); };
    for (const name of ['alert', 'confirm', 'prompt']) window[name] = () => { window.__ran += 1; return true; };
";

#[expect(clippy::disallowed_methods, reason = "a browser is waited for in the world's own time")]
fn clock() -> Instant {
    Instant::now()
}

/// A server in a runtime of its own, so that it can be killed with all its connections.
pub(crate) struct Site {
    runtime: Option<tokio::runtime::Runtime>,
    pub(crate) port: u16,
}

impl Site {
    pub(crate) fn start(punctual: &Punctual, port: u16) -> Site {
        let begun = clock();
        // Of a server that was killed just now, the port may be taken for a moment.
        let listener = loop {
            match TcpListener::bind(("127.0.0.1", port)) {
                Ok(listener) => break listener,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::yield_now();
        };
        Site::of(Server::new(punctual.clone()), listener)
    }

    /// A server at a port that is its own already.
    fn of(server: Server, listener: TcpListener) -> Site {
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, server.router()).await.unwrap();
        });
        Site { runtime: Some(runtime), port }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A browser.
pub(crate) struct Browser {
    web: Web,
    _profile: tempfile::TempDir,
}

impl Browser {
    async fn open() -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let own = format!("--user-data-dir={}", profile.path().display());
        let flags: Vec<&str> = FLAGS.into_iter().chain([own.as_str()]).collect();
        let browser = Browser { web: Web::open(&flags).await, _profile: profile };
        browser.tell("Page.addScriptToEvaluateOnNewDocument", json!({ "source": WATCH })).await;
        browser
    }

    /// Tells the browser something that WebDriver has no word for.
    async fn tell(&self, method: &str, parameters: Value) -> Value {
        self.web.tell(method, parameters).await.unwrap()
    }

    async fn go(&self, url: &str) {
        self.web.goto(url).await.unwrap();
    }

    async fn ask(&self, script: &str) -> Value {
        self.web.execute(script).await.unwrap()
    }

    async fn find(&self, selector: &str) -> Element {
        match self.web.find(selector).await {
            Ok(element) => element,
            Err(error) => {
                panic!("no `{selector}` at {}: {error}", self.web.current_url().await.unwrap())
            }
        }
    }

    /// Waits until the page says what was done; works without scripts.
    async fn says(&self, words: &str) {
        let begun = clock();
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            if let Ok(notice) = self.web.find(".notice.good").await
                && notice.text().await.is_ok_and(|text| text.contains(words))
            {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "it never says `{words}`");
            look.tick().await;
        }
    }

    /// Waits until there is such an element; works without scripts.
    async fn appears(&self, selector: &str) -> Element {
        let begun = clock();
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            if let Ok(element) = self.web.find(selector).await {
                return element;
            }
            assert!(begun.elapsed() < PATIENCE, "`{selector}` never appears");
            look.tick().await;
        }
    }

    async fn text(&self, selector: &str) -> String {
        self.find(selector).await.text().await.unwrap()
    }

    /// Waits until a script answers with true.
    async fn until(&self, what: &str, script: &str) {
        let begun = clock();
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            if self.web.execute(script).await == Ok(Value::Bool(true)) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
            look.tick().await;
        }
    }

    async fn is_live(&self) {
        self.until("it is live", "return document.getElementById('live').textContent === 'Live'")
            .await;
    }

    async fn theme(&self, theme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        self.tell("Emulation.setEmulatedMedia", features).await;
    }

    async fn width(&self, width: u32) {
        let metrics =
            json!({ "width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false });
        self.tell("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// What went wrong in the page.
    async fn trouble(&self) -> Value {
        self.ask("return window.__trouble").await
    }

    /// Runs a test and closes the browser, also if the test has failed.
    pub(crate) async fn run<F: Future<Output = ()>>(test: impl FnOnce(Arc<Browser>) -> F) {
        let browser = Arc::new(Browser::open().await);
        test(browser.clone()).await;
        browser.web.quit().await;
    }
}
