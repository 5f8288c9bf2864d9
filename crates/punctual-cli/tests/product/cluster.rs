//! Three nodes on one PostgreSQL.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use punctual::Timestamp;
use serde_json::Value;

use crate::process::{Serving, punctual, text};

/// A database of the test's own, on the server that the tests are given.
pub(crate) struct Database {
    server: String,
    name: String,
}

impl Database {
    pub(crate) fn new() -> Database {
        let server = std::env::var("PUNCTUAL_TEST_POSTGRES")
            .expect("PUNCTUAL_TEST_POSTGRES says where a server is; `cargo xtask test` starts one");
        let name = format!("punctual_product_{}", std::process::id());
        let database = Database { server, name };
        database.run(&format!("CREATE DATABASE {}", database.name));
        database
    }

    /// The number in the only row of a query, in this database.
    pub(crate) fn count(&self, query: &str) -> i64 {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client.query_one(query, &[]).await.unwrap().get(0)
        })
    }

    fn run(&self, statement: &str) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&self.server, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(statement).await.unwrap();
        });
    }

    /// Where the server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        let config: tokio_postgres::Config = self.server.parse().unwrap();
        let host = match &config.get_hosts()[0] {
            tokio_postgres::config::Host::Tcp(host) => host.clone(),
            host => panic!("{host:?} has no address"),
        };
        SocketAddr::new(host.parse().unwrap(), config.get_ports()[0])
    }

    pub(crate) fn url(&self) -> String {
        // What is behind the last slash, up to the parameters, is the database.
        let (base, parameters) = self.server.split_once('?').unwrap_or((&self.server, ""));
        let scheme = base.find("://").unwrap() + 3;
        let path = base[scheme..].find('/').map_or(base.len(), |slash| scheme + slash);
        let parameters =
            if parameters.is_empty() { String::new() } else { format!("?{parameters}") };
        format!("{}/{}{parameters}", &base[..path], self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.run(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

fn items(list: &Value) -> &Vec<Value> {
    list["items"].as_array().unwrap()
}

/// A leader that nobody wakes looks for schedules less often than that.
const AT_ONCE: Duration = Duration::from_secs(5);

fn instant(text: &Value) -> Timestamp {
    text.as_str().unwrap().parse().unwrap()
}

/// Asks again until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..5_000 {
        if is_so() {
            return;
        }
        // Each question is a process, which takes its time.
    }
    panic!("it never came to be: {what}");
}

#[test]
fn three_nodes_share_the_work_and_the_death_of_one() {
    let database = Database::new();
    let url = database.url();
    let serve = |name: &str, role: &str| {
        let args = ["serve", "--database", &url, "--name", name, "--role", role];
        Serving::start(Path::new("/tmp"), &args)
    };
    let api = serve("a", "api");
    let nodes = [serve("b", "api,scheduler,worker"), serve("c", "api,scheduler,worker")];
    until("both lead or work", || items(&api.ask(&["node", "list"])).len() == 2);
    until("both roles are led", || items(&api.ask(&["leader"])).len() == 2);

    // A schedule that is made through the one fires on the other's leadership at once.
    let often = ["schedule", "create", "often", "--every", "1s", "--kind", "echo"];
    let made = api.ask(&often);
    until("it fires", || !items(&api.ask(&["schedule", "slots", "often"])).is_empty());
    let slots = api.ask(&["schedule", "slots", "often", "-n", "500"]);
    let first = items(&slots).last().unwrap();
    assert_eq!(
        (&first["slot"], &first["outcome"]),
        (&made["next_slot"], &"fired".into()),
        "{first}"
    );
    let late = instant(&first["decided_at"]).since(instant(&first["slot"]));
    assert!(late < AT_ONCE, "{late:?} late: {first}");
    let told = || text(&api.run(&["events", "--topics", "schedules"]).stdout);
    until("it is told", || told().contains("often"));
    let checked = punctual(Path::new("/tmp"), &["db", "check", "--database", &url]).output();
    assert_eq!(text(&checked.unwrap().stdout), "Database OK\n");
    for node in items(&api.ask(&["node", "list"])) {
        assert_ne!(node["name"], "a", "one that only answers is no node");
    }

    // The leader dies, and all continues.
    let leaders = api.ask(&["leader"]);
    let leads = |leaders: &Value| {
        let scheduler = items(leaders).iter().find(|it| it["role"] == "scheduler/0").unwrap();
        (scheduler["name"].clone(), scheduler["term"].clone())
    };
    let (name, term) = leads(&leaders);
    let [b, c] = nodes;
    let (dies, lives) = if name == "b" { (b, c) } else { (c, b) };
    dies.kill();
    until("another leads", || leads(&api.ask(&["leader"])).1 != term);
    let decided = items(&lives.ask(&["schedule", "slots", "often", "-n", "500"])).len();
    until("it goes on firing", || {
        items(&lives.ask(&["schedule", "slots", "often", "-n", "500"])).len() > decided + 1
    });
    let done = lives.ask(&["job", "enqueue", "echo", "--payload", "1", "--wait"]);
    assert_eq!(done["state"], "succeeded");
    assert_eq!(lives.stop(), Some(0));
}
