//! Two versions of a program as processes of their own, started, stopped and restarted in every order:
//! the schedules of the higher generation stand.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use punctual::{Builder, Definition, Punctual, cron, tokio_postgres};

use crate::{deliver, mail};

/// What a process is to be: where it keeps everything, the name of the program, and its version.
const ORDER: &str = "PUNCTUAL_TEST_VERSION";
/// How often a version is started or stopped in one story.
const STEPS: usize = 5;

/// A version of a program: its generation, and its schedules by name and hour.
#[derive(Clone, Copy, PartialEq)]
enum Version {
    Old,
    New,
}

impl Version {
    fn parts(self) -> (i64, [(&'static str, u8); 2]) {
        match self {
            Version::Old => (1, [("digest", 8), ("cleanup", 3)]),
            Version::New => (2, [("digest", 9), ("report", 6)]),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Version::Old => "old",
            Version::New => "new",
        }
    }
}

/// Where everything is kept: a file, or a schema on the server of the tests.
#[derive(Clone)]
enum Place {
    File(std::path::PathBuf),
    Schema(String),
}

pub(crate) fn server() -> String {
    std::env::var("PUNCTUAL_TEST_POSTGRES").expect("`cargo xtask test` says where PostgreSQL is")
}

impl Place {
    fn word(&self) -> String {
        match self {
            Place::File(path) => path.display().to_string(),
            Place::Schema(name) => format!("schema:{name}"),
        }
    }

    fn read(word: &str) -> Place {
        match word.strip_prefix("schema:") {
            Some(name) => Place::Schema(name.to_owned()),
            None => Place::File(word.into()),
        }
    }

    async fn node(&self) -> Builder {
        match self {
            Place::File(path) => Punctual::sqlite(path).await,
            Place::Schema(name) => Punctual::postgres(&server()).schema(name).await,
        }
        .unwrap()
    }

    async fn onlooker(&self) -> Punctual {
        let opened = match self {
            Place::File(path) => Punctual::sqlite(path).producer().await,
            Place::Schema(name) => Punctual::postgres(&server()).schema(name).producer().await,
        };
        opened.unwrap().start().await.unwrap()
    }
}

/// The process of a version; without an order it is a test that passes.
#[tokio::test]
async fn process() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let words: Vec<&str> = order.split(' ').collect();
    let [place, app, version] = words[..] else { panic!("{order}") };
    let version = if version == "new" { Version::New } else { Version::Old };
    let (generation, schedules) = version.parts();
    let builder = Place::read(place).node().await.handle(deliver).app(app).generation(generation);
    let builder = schedules.into_iter().fold(builder, |builder, (name, hour)| {
        builder.schedule(&format!("{app}-{name}"), cron(&format!("0 {hour} * * *")), &mail(name))
    });
    let punctual = builder.start().await.unwrap();
    println!("\nstarted");
    punctual.run_until_signal().await.unwrap();
}

struct Process(Child);

impl Process {
    fn start(place: &Place, app: &str, version: Version) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "deploying::process", "--nocapture"])
            .env(ORDER, format!("{} {app} {}", place.word(), version.name()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "started"), "the program did not start");
        Process(child)
    }

    fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        // The test runner's own lines may find nobody to read them; whatever it says of that, it ends.
        self.0.wait().unwrap();
    }
}

/// What is left of one that is dropped is of no use.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What stands: each schedule of the program with its expression, and why it is paused.
async fn standing(onlooker: &Punctual, app: &str) -> Vec<String> {
    let mut schedules = onlooker.admin().schedules(None, 500).await.unwrap();
    schedules.retain(|schedule| schedule.set == format!("code:{app}"));
    let told = schedules.iter().map(|schedule| {
        let definition: Definition = serde_json::from_str(schedule.spec.as_str()).unwrap();
        let name = schedule.name.trim_start_matches(&format!("{app}-"));
        let paused = schedule.pause.as_ref().map(|pause| format!(" paused: {}", pause.by.why));
        format!("{name} {}{}", definition.when[0], paused.unwrap_or_default())
    });
    told.collect()
}

/// What has to stand after these versions were started, the first one first.
fn expected(started: &[Version]) -> Vec<&'static str> {
    let mut expected = match (started.contains(&Version::Old), started.contains(&Version::New)) {
        (_, true) => vec!["digest 0 9 * * *", "report 0 6 * * *"],
        (true, false) => vec!["cleanup 0 3 * * *", "digest 0 8 * * *"],
        (false, false) => vec![],
    };
    // If the new one came first, the old one had nothing to leave behind.
    if started.first() == Some(&Version::Old) && started.contains(&Version::New) {
        expected.insert(0, "cleanup 0 3 * * * paused: removed from code");
    }
    expected
}

/// One story: at each step a version is stopped if it runs, and started if it does not. Where one
/// node at a time may work, the other one is stopped before.
async fn tell(place: &Place, order: usize) {
    let app = format!("shop{order}");
    let onlooker = place.onlooker().await;
    let (mut old, mut new) = (None, None);
    let mut started = Vec::new();
    for step in 0..STEPS {
        let version = if order >> step & 1 == 1 { Version::New } else { Version::Old };
        let (own, other) = match version {
            Version::Old => (&mut old, &mut new),
            Version::New => (&mut new, &mut old),
        };
        match own.take() {
            Some(process) => Process::stop(process),
            None => {
                if let (Place::File(_), Some(process)) = (place, other.take()) {
                    Process::stop(process);
                }
                *own = Some(Process::start(place, &app, version));
                started.push(version);
            }
        }
        let standing = standing(&onlooker, &app).await;
        assert_eq!(standing, expected(&started), "{order:05b}, step {step}");
    }
}

async fn tell_all(place: Place) {
    // Whoever comes first makes the tables.
    drop(place.node().await);
    for order in 0..1 << STEPS {
        tell(&place, order).await;
    }
}

#[tokio::test]
async fn the_higher_generation_stands_in_every_order_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    tell_all(Place::File(directory.path().join("app.db"))).await;
}

#[tokio::test]
async fn the_higher_generation_stands_in_every_order_on_postgresql() {
    let schema = format!("deploying_{}", std::process::id());
    tell_all(Place::Schema(schema.clone())).await;
    let (client, connection) =
        tokio_postgres::connect(&server(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}
