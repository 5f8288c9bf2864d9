//! Random requests, made from the API's own description: none of them may be the server's fault, and
//! every answer must be one that is described, its body included.

use axum::body::Body;
use axum::http::Request;
use punctual_core::hash;
use serde_json::{Map, Value, json};

use crate::World;
use crate::schema::Schema;

/// Chance that can be repeated.
struct Chance {
    seed: u64,
    drawn: u64,
}

impl Chance {
    fn below(&mut self, below: usize) -> usize {
        self.drawn += 1;
        (hash::draw(self.seed, self.drawn) % below.max(1) as u64) as usize
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}

/// Texts that mean something here, and texts that mean trouble elsewhere.
const TEXTS: &[&str] = &[
    "echo",
    "default",
    "daily",
    "mail",
    "failed",
    "ready",
    "succeeded",
    "0 8 * * *",
    "@every 1h",
    "61 * * * *",
    "UTC",
    "Europe/Paris",
    "Nowhere",
    "2027-01-15T08:00:00Z",
    "not a time",
    "1h",
    "90s",
    "-5m",
    "latest",
    "queue_one",
    "skip",
    "",
    " ",
    "a/b",
    "a b",
    "é",
    "\u{0}",
    "' OR 1=1 --",
    "<script>",
    "../../etc/passwd",
    "💥",
    "01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10",
    "1.2",
    "*",
    "%",
];

struct Maker {
    chance: Chance,
    description: Value,
    ids: Vec<String>,
    /// What a worker holds, as far as is known.
    leases: Vec<String>,
}

impl Maker {
    fn text(&mut self) -> String {
        if self.chance.once_in(40) {
            return "x".repeat(self.chance.below(400));
        }
        self.chance.of(TEXTS).to_owned()
    }

    /// A part of a path.
    fn part(&mut self, name: &str) -> String {
        let text = match name {
            "id" if !self.ids.is_empty() && !self.chance.once_in(4) => {
                let index = self.chance.below(self.ids.len());
                self.ids[index].clone()
            }
            "lease" if !self.leases.is_empty() && !self.chance.once_in(4) => {
                let index = self.chance.below(self.leases.len());
                self.leases[index].clone()
            }
            "name" if !self.chance.once_in(3) => "daily".to_owned(),
            _ => self.text(),
        };
        escaped(&text)
    }

    /// Something that fits a schema, or nearly.
    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if self.chance.once_in(25) {
            let odd = [
                json!(null),
                json!(7),
                json!(-1.5),
                json!("odd"),
                json!([]),
                json!({}),
                json!(true),
            ];
            return odd[self.chance.below(odd.len())].clone();
        }
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            let schema = self.description["components"]["schemas"][name].clone();
            return self.value(&schema, depth);
        }
        for choice in ["oneOf", "anyOf", "allOf"] {
            if let Some(choices) = schema[choice].as_array().filter(|choices| !choices.is_empty()) {
                let schema = choices[self.chance.below(choices.len())].clone();
                return self.value(&schema, depth);
            }
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds[self.chance.below(kinds.len())].as_str().unwrap_or(""),
            kind => kind.as_str().unwrap_or(""),
        };
        match kind {
            "string" => Value::String(self.text()),
            "integer" => match self.chance.below(6) {
                0 => json!(u64::MAX),
                1 => json!(-1),
                _ => json!(self.chance.below(120)),
            },
            "number" => json!(0.5),
            "boolean" => json!(self.chance.once_in(2)),
            "array" if depth < 5 => {
                let count = self.chance.below(4);
                (0..count).map(|_| self.value(&schema["items"], depth + 1)).collect()
            }
            "object" if depth < 5 => self.object(schema, depth),
            "null" => Value::Null,
            _ => json!({"any": [1, "thing"]}),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut object = Map::new();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, field) in schema["properties"].as_object().cloned().unwrap_or_default() {
            let is_required = required.iter().any(|it| *it == json!(name));
            if (is_required && !self.chance.once_in(15)) || self.chance.once_in(3) {
                object.insert(name, self.value(&field, depth + 1));
            }
        }
        if self.chance.once_in(20) {
            object.insert("unknown".to_owned(), json!(1));
        }
        Value::Object(object)
    }

    /// A body of one of the types that an operation takes: one value, or one on each line.
    fn body(&mut self, content: &Value) -> (&'static str, String) {
        const JSON: &str = "application/json";
        const LINES: &str = "application/x-ndjson";
        let (kind, lines) = match content.get(LINES) {
            Some(_) => (LINES, self.chance.below(4)),
            None => (JSON, 1),
        };
        let Some(schema) = content.get(kind).map(|content| content["schema"].clone()) else {
            return (JSON, String::new());
        };
        if self.chance.once_in(30) {
            return (kind, "{\"broken\": ".to_owned());
        }
        let lines: Vec<String> = (0..lines).map(|_| self.value(&schema, 0).to_string()).collect();
        (kind, lines.join("\n"))
    }

    /// A request for one of the operations, with the operation itself.
    fn request(&mut self) -> (Request<Body>, Value, String) {
        let paths = self.description["paths"].as_object().cloned().unwrap();
        let (path, methods) = paths.iter().nth(self.chance.below(paths.len())).unwrap();
        let methods = methods.as_object().unwrap();
        let (method, operation) = methods.iter().nth(self.chance.below(methods.len())).unwrap();
        let mut url = String::new();
        for piece in path.split_inclusive('/') {
            match piece.trim_end_matches('/').strip_prefix('{').and_then(|it| it.strip_suffix('}'))
            {
                Some(name) => {
                    url.push_str(&self.part(name));
                    url.push_str(if piece.ends_with('/') { "/" } else { "" });
                }
                None => url.push_str(piece),
            }
        }
        let mut separator = '?';
        let mut headers: Vec<(String, String)> = Vec::new();
        if self.chance.once_in(60) {
            url.push_str("?unheard_of=1");
            separator = '&';
        }
        for parameter in operation["parameters"].as_array().cloned().unwrap_or_default() {
            let name = parameter["name"].as_str().unwrap().to_owned();
            match parameter["in"].as_str() {
                // A long wait for a job would take the test as long.
                Some("query") if name == "timeout" => {
                    url.push_str(&format!("{separator}timeout=1ms"));
                    separator = '&';
                }
                // One that goes on for ever would, too.
                Some("query") if name == "follow" => {
                    url.push_str(&format!("{separator}follow=false"));
                    separator = '&';
                }
                Some("query") if self.chance.once_in(3) => {
                    let value = self.value(&parameter["schema"], 4);
                    let value = value.as_str().map_or(value.to_string(), str::to_owned);
                    url.push_str(&format!("{separator}{name}={}", escaped(&value)));
                    separator = '&';
                }
                Some("header") if self.chance.once_in(4) => headers.push((name, self.text())),
                _ => {}
            }
        }
        let (kind, body) = self.body(&operation["requestBody"]["content"]);
        let told = format!("{method} {url} {headers:?} {body}");
        let mut request = Request::builder().method(method.to_uppercase().as_str()).uri(&url);
        request = request.header("host", "localhost").header("content-type", kind);
        for (name, value) in &headers {
            if let Ok(value) = axum::http::HeaderValue::from_str(value) {
                request = request.header(name.as_str(), value);
            }
        }
        (request.body(Body::from(body)).unwrap(), operation.clone(), told)
    }
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let escape = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    // An empty part would be another path.
    if text.is_empty() { "%20".to_owned() } else { text.bytes().map(escape).collect() }
}

/// What a worker holds that has just come: jobs that nobody else does.
async fn claimed(world: &World) -> Vec<String> {
    let job = json!({"kind": "far", "queue": "far"});
    let jobs = json!({ "jobs": vec![job; 10] }).to_string();
    world.say("POST /jobs:batch?allow_unknown_kind=true", &jobs).await;
    let claim =
        json!({"name": "w", "version": "1", "queues": ["far"], "kinds": ["far"], "max": 10});
    let claimed = world.say("POST /claims", &claim.to_string()).await;
    let leases = claimed.body["leases"].as_array().unwrap();
    leases.iter().map(|it| it["lease"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn no_request_is_the_servers_fault_and_every_answer_is_described() {
    let requests = std::env::var("PUNCTUAL_PROOF_REQUESTS").ok().and_then(|it| it.parse().ok());
    let requests: usize = requests.unwrap_or(2_000);
    let world = World::new().await;
    world.say("PUT /schedules/daily", r#"{"when":["0 8 * * *"],"job":{"kind":"echo"}}"#).await;
    // The committed one, which another test holds to be the present one.
    let schema = Schema::committed();
    let description = schema.description().clone();
    let chance = Chance { seed: 7, drawn: 0 };
    let mut maker = Maker { chance, description, ids: Vec::new(), leases: Vec::new() };
    let (mut refused, mut unknown, mut logged) = (0, 0, 0);
    for number in 0..requests {
        if number % 200 == 0 {
            maker.leases = claimed(&world).await;
        }
        let (request, operation, told) = maker.request();
        let answer = world.ask(request).await;
        let status = answer.status.as_u16();
        assert!(status < 500, "{told}: {status} {}", answer.body);
        let content_type = answer.headers.get("content-type").map(|it| it.to_str().unwrap());
        let checked = schema.check_answer(&operation, status, content_type, &answer.body);
        checked.unwrap_or_else(|error| panic!("{told}: {status}: {error}"));
        refused += usize::from(!answer.status.is_success());
        unknown += usize::from(answer.body["code"] == "unknown_kind");
        logged += usize::from(answer.status.is_success() && answer.body["next"].is_u64());
        for field in ["id", "job"] {
            maker.ids.extend(answer.body[field].as_str().map(str::to_owned));
        }
    }
    assert!(unknown > 0, "kinds that nobody knows are among them");
    assert!(logged > 0, "lines that are written by a worker are among them");
    assert!(refused > requests / 20 && refused < requests * 19 / 20, "{refused} of {requests}");
    println!(
        r#"{{"proof":"api","requests":{requests},"refused":{refused},"faults":0,"undescribed":0,"bodies":"checked"}}"#
    );
}
