//! Nothing outlives its attempt.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{Place, STUBBORN, STUBBORN_COUNT, ended, enqueue, log, marked, run, stubborn, until};

/// All that a command has started is gone so soon after its worker.
const GONE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(20);

const SETTINGS: &str = "[command]\nallow_api_argv = true\nkill_grace = \"300ms\"\n[worker]\nshutdown_grace = \"300ms\"\n";

/// The worker is killed while its command is at work, and, every other time, while it begins.
#[test]
fn nothing_of_a_command_outlives_a_killed_worker() {
    let kills = std::env::var("PUNCTUAL_PROOF_KILLS").ok().and_then(|it| it.parse().ok());
    let kills: usize = kills.unwrap_or(10);
    let (mut seen, mut slowest) = (0, Duration::ZERO);
    for kill in 0..kills {
        // Of its own each time: what an earlier worker left undone would be done again.
        let place = Place::new(SETTINGS);
        let program = place.file("stubborn", 0o755, STUBBORN);
        let mark = format!("killed-{}-{kill}", std::process::id());
        let server = place.serve();
        enqueue(&server, &stubborn(&program, &mark), &[]);
        let least = if kill % 2 == 0 { STUBBORN_COUNT } else { 1 };
        until("the command is there", PATIENCE, || marked(&mark) >= least);
        seen += marked(&mark);
        server.kill();
        let took = until("nothing is left of the command", GONE, || marked(&mark) == 0);
        slowest = slowest.max(took);
    }
    let slowest = slowest.as_millis();
    println!(
        r#"{{"proof":"command-kill","kills":{kills},"processes":{seen},"left":0,"slowest_ms":{slowest}}}"#
    );
}

#[test]
fn nothing_of_a_command_outlives_its_attempt() {
    let place = Place::new(SETTINGS);
    let program = place.file("stubborn", 0o755, STUBBORN);
    let server = place.serve();
    let mark = |what: &str| format!("{what}-{}", std::process::id());
    let is_up = |mark: &str| {
        until("the command is there", PATIENCE, || marked(mark) >= STUBBORN_COUNT);
    };

    // It takes too long.
    let late = mark("late");
    let job = enqueue(&server, &stubborn(&program, &late), &["--timeout", "2s"]);
    let job = ended(&server, &job);
    assert_eq!((&job["state"], marked(&late)), (&json!("failed"), 0), "{job}");
    assert_eq!(job["attempts"][0]["outcome"], "timed_out", "{job}");

    // Somebody calls it off.
    let off = mark("off");
    let job = enqueue(&server, &stubborn(&program, &off), &[]);
    is_up(&off);
    server.ask(&["job", "cancel", &job]);
    let cancelled = ended(&server, &job);
    assert_eq!((&cancelled["state"], marked(&off)), (&json!("cancelled"), 0), "{cancelled}");
    let lines = log(&server, &job);
    let told = "sending SIGTERM: the job was cancelled; SIGKILL follows after 300ms";
    assert!(lines.iter().any(|line| line["text"] == told), "{lines:?}");

    // It ends by itself, and leaves others behind.
    let left = mark("left");
    let leaving = json!({ "argv": [program, "leave"], "env": { "MARK": left } });
    let job = run(&server, &leaving);
    assert_eq!((&job["state"], marked(&left)), (&json!("succeeded"), 0), "{job}");
    assert!(job["result"]["left_behind"].as_u64().unwrap() >= 3, "{job}");

    // The worker is asked to stop.
    let drained = mark("drained");
    let job = enqueue(&server, &stubborn(&program, &drained), &[]);
    is_up(&drained);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(marked(&drained), 0);
    // A stop costs no attempt.
    let show = ["job", "show", &job, "--json", "--database", "sqlite://punctual.db"];
    let shown = crate::process::punctual(place.path(), &show).output().unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["state"], "ready", "{shown}");
}

/// A command of the worker's own user can signal the process that watches over it.
#[test]
fn a_command_that_stops_or_kills_its_shim_ends_all_the_same() {
    let place = Place::new(SETTINGS);
    let server = place.serve();
    let mark = |what: &str| format!("{what}-{}", std::process::id());
    let script = "kill -$0 $PPID; while :; do sleep 0.05; done";
    let payload = |signal: &str, mark: &str| json!({ "argv": ["sh", "-c", script, signal], "env": { "MARK": mark } });

    // It takes too long, and the shim is stopped.
    let late = mark("stopped-late");
    let job = enqueue(&server, &payload("STOP", &late), &["--timeout", "1s"]);
    let job = ended(&server, &job);
    let attempt = &job["attempts"][0];
    assert_eq!((&attempt["outcome"], marked(&late)), (&json!("timed_out"), 0), "{job}");
    // The shim was woken to be told, and not only when the worker gave up waiting for it: 3 s later.
    let at = |name: &str| attempt[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let took = at("ended_at").duration_since(at("claimed_at"));
    assert!(took.as_millis() < 3_500, "{job}");

    // The shim is gone, and the command with it.
    let alone = mark("alone");
    let job = run(&server, &payload("KILL", &alone));
    assert!(job["error"].as_str().unwrap().starts_with("lost contact with"), "{job}");
    until("nothing is left of the command", GONE, || marked(&alone) == 0);

    // The worker is killed, and the shim is stopped.
    let killed = mark("stopped-killed");
    let job = enqueue(&server, &payload("STOP", &killed), &[]);
    until("the shim is stopped", PATIENCE, || is_shim_stopped(&job));
    assert_ne!(marked(&killed), 0);
    server.kill();
    until("nothing is left of the command", GONE, || marked(&killed) == 0);
}

/// The worker ends what its command cannot take along, and nothing else.
#[test]
fn what_a_killed_shim_leaves_behind_is_ended_by_the_worker() {
    let place = Place::new(SETTINGS);
    let program = place.file("stubborn", 0o755, STUBBORN);
    let server = place.serve();
    let mark = |what: &str| format!("{what}-{}", std::process::id());

    // One that began before it and one that began after it, which go on.
    let patient = "while [ ! -e \"$0\" ]; do sleep 0.05; done";
    let (end, others) = (place.path().join("end"), mark("others"));
    let other = json!({ "argv": ["sh", "-c", patient, end], "env": { "MARK": others } });
    let before = enqueue(&server, &other, &[]);
    until("the first is there", PATIENCE, || shim_of(&before).is_some());
    let left = mark("left-by-shim");
    let job = enqueue(&server, &stubborn(&program, &left), &[]);
    until("the command is there", PATIENCE, || marked(&left) >= STUBBORN_COUNT);
    let after = enqueue(&server, &other, &[]);
    until("the last is there", PATIENCE, || shim_of(&after).is_some());
    kill_process(shim_of(&job).unwrap(), Signal::KILL).unwrap();
    until("nothing is left of the command", GONE, || marked(&left) == 0);
    let lost = ended(&server, &job);
    assert!(lost["error"].as_str().unwrap().starts_with("lost contact with"), "{lost}");
    let lines = log(&server, &job);
    let told = "killed the processes that the command left running: ";
    assert!(lines.iter().any(|line| line["text"].as_str().unwrap().starts_with(told)), "{lines:?}");
    std::fs::write(&end, "").unwrap();
    for job in [before, after] {
        assert_eq!(ended(&server, &job)["state"], "succeeded");
    }
    // Nor is a corpse left.
    until("the worker has no child", PATIENCE, || children_of(server.pid()) == 0);
    assert_eq!(marked(&others), 0);

    // The command itself does not have to wait for the worker, which may be held up.
    let alone = mark("alone-by-kernel");
    let job = enqueue(&server, &json!({ "argv": ["sleep", "60"], "env": { "MARK": alone } }), &[]);
    until("the command is there", PATIENCE, || marked(&alone) == 1);
    let worker = Pid::from_raw(server.pid().try_into().unwrap()).unwrap();
    kill_process(worker, Signal::STOP).unwrap();
    kill_process(shim_of(&job).unwrap(), Signal::KILL).unwrap();
    until("nothing is left of the command", GONE, || marked(&alone) == 0);
    kill_process(worker, Signal::CONT).unwrap();
    assert_eq!(ended(&server, &job)["state"], "failed");
}

/// The process that watches over the command of a job.
fn shim_of(job: &str) -> Option<Pid> {
    let own = format!("__run-command\0{job}\0");
    let is_it = |entry: &std::fs::DirEntry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|it| it.ends_with(own.as_bytes()))
    };
    let mut all = std::fs::read_dir("/proc").unwrap().flatten();
    let name = all.find(is_it)?.file_name();
    name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
}

/// What the system tells of a process, from its state on.
fn stat(pid: &str) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ").map(|(_, behind)| behind.to_owned())
}

fn children_of(parent: u32) -> usize {
    let parent = parent.to_string();
    let is_child = |entry: &std::fs::DirEntry| {
        let stat = entry.file_name().to_str().and_then(stat);
        stat.is_some_and(|stat| stat.split(' ').nth(1) == Some(&parent))
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(is_child).count()
}

fn is_shim_stopped(job: &str) -> bool {
    let stat = shim_of(job).and_then(|pid| stat(&pid.as_raw_pid().to_string()));
    stat.is_some_and(|stat| stat.starts_with('T'))
}

/// Whoever listens to TERM is given the time for it.
#[test]
fn a_command_that_listens_may_clean_up() {
    let place = Place::new("[command]\nallow_api_argv = true\n");
    let script = "trap 'echo cleaned up; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let server = place.serve();
    let job = enqueue(&server, &json!({ "argv": ["sh", "-c", script] }), &[]);
    until("it is ready", PATIENCE, || {
        server.ask(&["job", "show", &job])["state"] == "running"
            && !server.run(&["job", "logs", &job]).stdout.is_empty()
    });
    server.ask(&["job", "cancel", &job]);
    ended(&server, &job);
    let lines = log(&server, &job);
    assert!(lines.iter().any(|line| line["text"] == "cleaned up"), "{lines:?}");
}
