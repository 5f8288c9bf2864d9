//! Handlers that block their thread, on real threads and by the real clock: what must go on does,
//! and what is wrong is reported.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use punctual_conformance::{Fault, Faulty};
use punctual_core::job::{AttemptOutcome, JobState, Outcome};
use punctual_core::{JobId, Timestamp};
use punctual_engine::{Attempt, Boxed, Config, Ended, Engine, Env, Handler, System, Timing};
use punctual_store::memory::Memory;
use punctual_store::{At, Json, NewJob, Store};
use tokio::runtime::Runtime;

use crate::world::{and, done, ms, on, s};

/// An event that does not come in this time never comes.
const NEVER: Duration = s(30);

fn fast() -> Timing {
    Timing {
        beat: ms(20),
        give_up: ms(2_000),
        cancel_grace: ms(50),
        dead: ms(3_000),
        leader_lease: ms(1_000),
        leader_margin: ms(100),
        poll: ms(20),
        ..Timing::default()
    }
}

/// Blocks its thread until it is let go, and says when it began.
struct Blocks {
    began: Sender<JobId>,
    letting_go: Arc<Mutex<Receiver<()>>>,
}

impl Handler for Blocks {
    fn run(&self, attempt: Attempt) -> Boxed<Ended> {
        let (began, letting_go) = (self.began.clone(), self.letting_go.clone());
        Box::pin(async move {
            began.send(attempt.job.id).unwrap();
            letting_go.lock().unwrap().recv().unwrap();
            Ended::from(Outcome::Done)
        })
    }
}

/// Tells of counters whose labels name this kind, or that have no label.
struct Counters(Mutex<Vec<Sender<Counted>>>);

/// The name of a counter, and its kind.
type Counted = (String, Option<String>);

struct Told {
    name: String,
    kind: Option<String>,
}

impl CounterFn for Told {
    fn increment(&self, _: u64) {
        let listeners = counters().0.lock().unwrap();
        for listener in listeners.iter() {
            // Whoever has heard enough is gone.
            let _ = listener.send((self.name.clone(), self.kind.clone()));
        }
    }

    fn absolute(&self, _: u64) {}
}

struct Recorder;

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let label = key.labels().find(|label| label.key() == "kind");
        let kind = label.map(|label| label.value().to_owned());
        Counter::from_arc(Arc::new(Told { name: key.name().to_owned(), kind }))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn counters() -> &'static Counters {
    static COUNTERS: OnceLock<Counters> = OnceLock::new();
    COUNTERS.get_or_init(|| Counters(Mutex::default()))
}

/// Every increment of a counter from now on, in all tests of this process.
fn listen() -> Receiver<Counted> {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| metrics::set_global_recorder(Recorder).expect("the only one"));
    let (sender, receiver) = channel();
    counters().0.lock().unwrap().push(sender);
    receiver
}

struct Scene {
    runtime: Runtime,
    memory: Memory,
    engine: Engine,
    began: Receiver<JobId>,
    mailed: Receiver<JobId>,
    letting_go: Sender<()>,
    beats: Receiver<()>,
}

impl Scene {
    /// A node on so many threads, with one handler that blocks and one that does not.
    fn new(threads: usize, kind: &str) -> Scene {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_time()
            .build()
            .unwrap();
        let memory = Memory::new(|| System.wall());
        let (beat, beats) = channel();
        let store = Faulty::new(memory.clone(), move |method| {
            if method == "beat" {
                // After the test nobody listens.
                let _ = beat.send(());
            }
            Fault::None
        });
        let (tell, began) = channel();
        let (letting_go, wait) = channel();
        let blocks = Blocks { began: tell, letting_go: Arc::new(Mutex::new(wait)) };
        let config = Config { max_running: 1, timing: fast(), ..Config::default() };
        let (tell, mailed) = channel();
        let mails = move |attempt: Attempt| {
            tell.send(attempt.job.id).unwrap();
            done(attempt)
        };
        let handlers = and(on(kind, blocks), "mail", mails);
        let start = Engine::start(Arc::new(System), Arc::new(store), config, handlers);
        let engine = runtime.block_on(start).unwrap();
        Scene { runtime, memory, engine, began, mailed, letting_go, beats }
    }

    fn enqueue(&self, kind: &str, timeout: Option<Duration>) -> JobId {
        let mut random = [0; 10];
        System.random(&mut random);
        let id = JobId::mint(Timestamp::EPOCH, random);
        // A second attempt would block again.
        let job =
            NewJob { timeout, max_attempts: 1, ..NewJob::new(id, "default", kind, Json::null()) };
        self.runtime.block_on(self.memory.enqueue(At::Database, &[job])).unwrap();
        id
    }
}

#[test]
fn heartbeats_go_on_while_every_thread_is_blocked() {
    // The only thread of the runtime.
    let scene = Scene::new(1, "blocks");
    let job = scene.enqueue("blocks", None);
    assert_eq!(scene.began.recv_timeout(NEVER), Ok(job));
    while scene.beats.try_recv().is_ok() {}
    for _ in 0..20 {
        scene.beats.recv_timeout(NEVER).expect("another heartbeat");
    }
    assert!(scene.engine.health().is_in_touch);
    scene.letting_go.send(()).unwrap();
    scene.engine.stop();
    assert_eq!(scene.runtime.block_on(scene.engine.stopped()).unsettled, 0);
    let detail = scene.runtime.block_on(scene.memory.job(job)).unwrap().unwrap();
    assert_eq!((detail.view.state, detail.crashes), (JobState::Succeeded, 0));
}

#[test]
fn a_handler_that_blocks_is_reported_and_keeps_its_place_until_it_returns() {
    let counted = listen();
    let wait_for = |name: &str, kind: Option<&str>| {
        let is_it =
            |(counter, of): &Counted| counter == name && (kind.is_none() || of.as_deref() == kind);
        while !is_it(&counted.recv_timeout(NEVER).unwrap_or_else(|_| panic!("no {name}"))) {}
    };
    let scene = Scene::new(2, "blocks and is reported");
    let job = scene.enqueue("blocks and is reported", Some(ms(100)));
    assert_eq!(scene.began.recv_timeout(NEVER), Ok(job));
    wait_for("punctual_handlers_stuck_total", Some("blocks and is reported"));
    // The attempt is over, its result will not count, and no other job can have its place.
    let detail = scene.runtime.block_on(scene.memory.job(job)).unwrap().unwrap();
    assert_eq!(detail.attempts[0].outcome, Some(AttemptOutcome::TimedOut));
    assert_eq!(scene.engine.health().free, 0);
    let next = scene.enqueue("mail", None);
    for _ in 0..20 {
        scene.beats.recv_timeout(NEVER).expect("another heartbeat");
    }
    assert!(scene.mailed.try_recv().is_err());
    scene.letting_go.send(()).unwrap();
    wait_for("punctual_results_late_total", None);
    assert_eq!(scene.mailed.recv_timeout(NEVER), Ok(next));
    scene.engine.stop();
    scene.runtime.block_on(scene.engine.stopped());
    let detail = scene.runtime.block_on(scene.memory.job(job)).unwrap().unwrap();
    assert_eq!(detail.view.state, JobState::Failed);
    assert_eq!(detail.attempts[0].outcome, Some(AttemptOutcome::TimedOut));
}

#[test]
fn a_stop_ends_while_handlers_block_every_thread() {
    // The only thread of the runtime, so that no timer of it ever ends.
    let scene = Scene::new(1, "blocks");
    let job = scene.enqueue("blocks", None);
    assert_eq!(scene.began.recv_timeout(NEVER), Ok(job));
    scene.engine.stop_now();
    let (tell, ended) = channel();
    std::thread::scope(|threads| {
        let (engine, handle) = (&scene.engine, scene.runtime.handle());
        threads.spawn(move || tell.send(handle.block_on(engine.stopped())).unwrap());
        let stopped = ended.recv_timeout(NEVER);
        scene.letting_go.send(()).unwrap();
        assert_eq!(stopped.expect("it stops").unsettled, 1);
    });
}
