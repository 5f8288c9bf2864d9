//! The few words of WebDriver that the tests need. The crates that speak it whole bring dozens of
//! others, and one of them has every map of JSON in the workspace keep another order.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// What elements are called in answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

type Said<T> = Result<T, String>;

/// The driver's process; it dies with this value, and its browser with it.
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Driver {
    /// Starts it, and says where it listens.
    fn start() -> (Driver, u16) {
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts; `cargo xtask test` installs it");
        // It takes a port that is free, and says which.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        // Whatever else it says must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        (Driver(child), port.expect("it says where it listens"))
    }
}

/// A browser's window.
pub(super) struct Web {
    session: String,
    _driver: Driver,
}

/// Asks the driver; the answer is what it has for a value.
async fn ask(method: &'static str, url: String, body: Value) -> Said<Value> {
    let asked = tokio::task::spawn_blocking(move || {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let request = axum::http::Request::builder().method(method).uri(url);
        let request = request.header("content-type", "application/json");
        // What has no body must have none.
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let request = request.body(body).map_err(|error| error.to_string())?;
        let mut response = agent.run(request).map_err(|error| error.to_string())?;
        let text = response.body_mut().with_config().limit(64 << 20).read_to_string();
        let text = text.map_err(|error| error.to_string())?;
        let mut answer: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        match response.status().is_success() {
            true => Ok(answer["value"].take()),
            false => Err(answer["value"]["message"].to_string()),
        }
    });
    asked.await.map_err(|error| error.to_string())?
}

impl Web {
    pub(super) async fn open(flags: &[&str]) -> Web {
        let (driver, port) = Driver::start();
        let wishes = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": { "args": flags },
        } } });
        let root = format!("http://127.0.0.1:{port}/session");
        let opened = ask("POST", root.clone(), wishes).await.unwrap();
        let session = format!("{root}/{}", opened["sessionId"].as_str().unwrap());
        Web { session, _driver: driver }
    }

    async fn post(&self, path: &str, body: Value) -> Said<Value> {
        ask("POST", format!("{}/{path}", self.session), body).await
    }

    pub(super) async fn goto(&self, url: &str) -> Said<()> {
        self.post("url", json!({ "url": url })).await.map(drop)
    }

    pub(super) async fn current_url(&self) -> Said<String> {
        let url = ask("GET", format!("{}/url", self.session), Value::Null).await?;
        Ok(url.as_str().unwrap_or_default().to_owned())
    }

    /// What a script returns, or what it promises.
    pub(super) async fn execute(&self, script: &str) -> Said<Value> {
        self.post("execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// What is to be seen, as a PNG.
    pub(super) async fn screenshot(&self) -> Said<Vec<u8>> {
        use base64::Engine as _;
        let picture = ask("GET", format!("{}/screenshot", self.session), Value::Null).await?;
        let engine = base64::engine::general_purpose::STANDARD;
        engine.decode(picture.as_str().unwrap_or_default()).map_err(|error| error.to_string())
    }

    /// Tells the browser something that WebDriver has no word for.
    pub(super) async fn tell(&self, method: &str, parameters: Value) -> Said<Value> {
        self.post("goog/cdp/execute", json!({ "cmd": method, "params": parameters })).await
    }

    pub(super) async fn find(&self, selector: &str) -> Said<Element> {
        let wanted = json!({ "using": "css selector", "value": selector });
        let found = self.post("element", wanted).await?;
        let id = found[ELEMENT].as_str().ok_or("no element in the answer")?;
        Ok(Element(format!("{}/element/{id}", self.session)))
    }

    /// Closes it; one that is gone already is closed.
    pub(super) async fn quit(&self) {
        let _ = ask("DELETE", self.session.clone(), Value::Null).await;
    }
}

/// Something in a page.
pub(super) struct Element(String);

impl Element {
    pub(super) async fn click(&self) -> Said<()> {
        ask("POST", format!("{}/click", self.0), json!({})).await.map(drop)
    }

    pub(super) async fn send_keys(&self, text: &str) -> Said<()> {
        ask("POST", format!("{}/value", self.0), json!({ "text": text })).await.map(drop)
    }

    pub(super) async fn text(&self) -> Said<String> {
        let text = ask("GET", format!("{}/text", self.0), Value::Null).await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }
}
