//! What a command is given, and what is kept of it.

use std::os::unix::fs::DirBuilderExt;

use serde_json::{Value, json};

use super::{Place, ended, enqueue, log, run};
use crate::process::{Serving, punctual};

const SETTINGS: &str = r#"
[command]
allow_api_argv = true
env = ["FOR_COMMANDS"]
limits = { open_files = 77 }

[commands.show]
argv = ["printf", "<%s>", "{target}", "n={days}", "{{}}"]
params = { days = "integer", target = "string" }

[commands.quote]
argv = ["/bin/echo", "--", "{text}"]
params = { text = { type = "string", default = "-n", values = ["-n", "x"] } }

[commands.count]
argv = ["wc", "-c"]
stdin = true
"#;

fn serve(place: &Place) -> Serving {
    let mut command = punctual(place.path(), &["serve"]);
    command.env("FOR_COMMANDS", "yes").env("NOT_FOR_COMMANDS", "no");
    command.stderr(std::process::Stdio::null());
    Serving::of(command)
}

#[test]
fn a_command_is_given_what_it_needs_and_nothing_else() {
    let place = Place::new(SETTINGS);
    let server = serve(&place);
    let script = "umask; pwd; ulimit -n; ulimit -c; grep NoNewPrivs /proc/self/status; cat; echo; env | sort; echo to stderr >&2; exit 3";
    let payload = json!({
        "argv": ["/bin/sh", "-c", script], "cwd": "/tmp", "stdin": "given",
        "env": { "MORE": "of it" }, "success_codes": [3],
    });
    let job = enqueue(&server, &payload, &[]);
    let told = ended(&server, &job);
    let result = &told["result"];
    assert_eq!((&told["state"], &result["exit_code"]), (&json!("succeeded"), &json!(3)), "{told}");
    let lines: Vec<&str> = result["stdout"].as_str().unwrap().lines().collect();
    assert_eq!(lines[..6], ["0077", "/tmp", "77", "0", "NoNewPrivs:\t1", "given"], "{lines:?}");
    let variables: Vec<&str> =
        lines[6..].iter().map(|line| line.split('=').next().unwrap()).collect();
    let expected = [
        "FOR_COMMANDS",
        "MORE",
        "PATH",
        "PUNCTUAL_ATTEMPT",
        "PUNCTUAL_DUE_AT",
        "PUNCTUAL_JOB",
        "PUNCTUAL_LAST_ATTEMPT",
        "PWD",
    ];
    // Some shells add what they need for themselves.
    let own = |name: &&str| !matches!(*name, "_" | "OLDPWD" | "SHLVL");
    assert_eq!(variables.into_iter().filter(own).collect::<Vec<_>>(), expected);
    assert!(lines.contains(&&*format!("PUNCTUAL_JOB={job}")), "{lines:?}");

    // Its output is its log, line by line.
    let logged = log(&server, &job);
    let has = |level: &str, text: &str| {
        logged.iter().any(|line| line["level"] == level && line["text"] == text)
    };
    assert!(has("info", "given") && has("warn", "to stderr"), "{logged:?}");
}

#[test]
fn a_named_command_takes_each_parameter_as_one_argument() {
    let place = Place::new(SETTINGS);
    let server = serve(&place);
    let stdout = |payload: Value| {
        let job = run(&server, &payload);
        assert_eq!(job["state"], "succeeded", "{job}");
        job["result"]["stdout"].as_str().unwrap().to_owned()
    };
    let params = json!({ "days": -3, "target": "a b; {days} $(id) secret://none" });
    assert_eq!(
        stdout(json!({ "name": "show", "params": params })),
        "<a b; {days} $(id) secret://none><n=-3><{}>"
    );
    assert_eq!(stdout(json!({ "name": "quote" })), "-- -n");
    assert_eq!(stdout(json!({ "name": "count", "stdin": "12345" })).trim(), "5");
}

#[test]
fn a_schedule_tells_its_command_the_slot() {
    let place = Place::new("[commands.env]\nargv = [\"env\"]\n");
    let server = place.serve();
    let create = ["schedule", "create", "each", "--every", "1s", "--kind", "command"];
    server.ask(&[&create[..], &["--payload", r#"{"name":"env"}"#]].concat());
    let ran = server.ask(&["schedule", "run", "each"]);
    let job = ended(&server, ran["job"].as_str().unwrap());
    let has = |job: &Value, line: &str| {
        job["result"]["stdout"].as_str().unwrap().lines().any(|told| told == line)
    };
    assert!(has(&job, "PUNCTUAL_SCHEDULE=each"), "{job}");
    let find = || {
        let list = server.ask(&["job", "list", "--schedule", "each", "--state", "succeeded"]);
        let items = list["items"].as_array().unwrap().clone();
        items.into_iter().find(|job| job["slot"].is_string())
    };
    super::until("a slot has made a job", std::time::Duration::from_secs(20), || find().is_some());
    let slot = find().unwrap();
    let job = server.ask(&["job", "show", slot["id"].as_str().unwrap()]);
    let told = format!("PUNCTUAL_SLOT={}", slot["slot"].as_str().unwrap());
    assert!(has(&job, &told), "{told} {job}");
}

/// Switches that are off unless somebody turns them on.
#[test]
fn a_shell_and_other_users_are_there_for_those_who_allow_them() {
    let place =
        Place::new("[command]\nallow_api_argv = true\nallow_shell = true\nusers = [\"nobody\"]\n");
    let server = place.serve();
    let script = r#"echo "$1" | tr a b"#;
    let job = run(&server, &json!({ "argv": [script, "a a; id"], "shell": true }));
    assert_eq!(job["result"]["stdout"], "b b; id", "{job}");

    let script = "id -u; echo $HOME; touch /etc/mine || exit 7";
    let job = run(&server, &json!({ "argv": ["sh", "-c", script], "user": "nobody" }));
    let error = job["error"].as_str().unwrap();
    if rustix::process::geteuid().is_root() {
        assert!(error.starts_with("the command exited with code 7"), "{error}");
        let logged = log(&server, job["id"].as_str().unwrap());
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
        let nobody = passwd.lines().find(|line| line.starts_with("nobody:")).unwrap();
        let fields: Vec<&str> = nobody.split(':').collect();
        let told: Vec<&Value> = logged.iter().map(|line| &line["text"]).collect();
        assert!(told.contains(&&json!(fields[2])) && told.contains(&&json!(fields[5])), "{told:?}");
    } else {
        assert!(error.contains("cannot switch to `nobody`; run the worker as root"), "{error}");
    }
}

/// The shim has to live to the end, whatever its command may use.
#[test]
fn limits_are_for_the_command_and_not_for_its_shim() {
    let place = Place::new(
        "[command]\nallow_api_argv = true\nlimits = { cpu_seconds = 100, file_bytes = 4096 }\n",
    );
    let server = place.serve();
    let script = "wc -c; grep -E 'Max (cpu time|file size)' /proc/self/limits /proc/$PPID/limits";
    // More to read than the command may write.
    let payload = json!({ "argv": ["sh", "-c", script], "stdin": "x".repeat(10_000) });
    let job = run(&server, &payload);
    assert_eq!(job["state"], "succeeded", "{job}");
    let stdout = job["result"]["stdout"].as_str().unwrap();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let told: Vec<Vec<String>> =
        stdout.lines().map(|line| words(line.split_once(':').map_or(line, |it| it.1))).collect();
    let own = std::fs::read_to_string("/proc/self/limits").unwrap();
    let own = |name: &str| words(own.lines().find(|line| line.starts_with(name)).unwrap());
    let expected = [
        words("10000"),
        words("Max cpu time 100 100 seconds"),
        words("Max file size 4096 4096 bytes"),
        own("Max cpu time"),
        own("Max file size"),
    ];
    assert_eq!(told, expected, "{stdout}");
}

/// What only the worker may enter is not for a command of somebody else.
#[test]
fn a_directory_is_entered_as_the_user_of_the_command() {
    let place = Place::new("[command]\nallow_api_argv = true\nusers = [\"nobody\"]\n");
    let private = place.path().join("private");
    std::fs::DirBuilder::new().mode(0o700).create(&private).unwrap();
    let server = place.serve();
    let payload = json!({ "argv": ["pwd"], "user": "nobody", "cwd": private });
    let job = run(&server, &payload);
    let error = job["error"].as_str().unwrap();
    let expected = match rustix::process::geteuid().is_root() {
        true => format!("cannot enter the directory `{}`; grant access", private.display()),
        false => "cannot switch to `nobody`".to_owned(),
    };
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn only_the_codes_that_say_so_are_tried_again() {
    let place = Place::new("[command]\nallow_api_argv = true\n");
    let server = place.serve();
    let exits = |code: &str| {
        let payload = json!({ "argv": ["sh", "-c", code], "retry_codes": [75] }).to_string();
        let args = ["job", "enqueue", "command", "--max-attempts", "2", "--payload", &payload];
        server.ask(&args)["id"].as_str().unwrap().to_owned()
    };
    let (never, again) = (exits("exit 9"), exits("exit 75"));
    let never = ended(&server, &never);
    assert_eq!((&never["state"], &never["attempt"]), (&json!("failed"), &json!(1)), "{never}");
    super::until("it waits for another attempt", std::time::Duration::from_secs(20), || {
        let state = server.ask(&["job", "show", &again])["state"].clone();
        assert_ne!(state, "succeeded");
        state == "retrying" || state == "failed"
    });
    let again = server.ask(&["job", "show", &again]);
    assert!(again["state"] == "retrying" || again["attempt"] == 2, "{again}");
}

/// 100 MB of output take no more room than one.
#[test]
fn much_output_is_bounded_and_the_memory_flat() {
    const BYTES: u64 = 100 << 20;
    let place = Place::new("[command]\nallow_api_argv = true\n");
    let server = place.serve();
    let much = |bytes: u64| {
        let script = format!("yes 'a line of some output' | head -c {bytes}; echo; echo the end");
        json!({ "argv": ["sh", "-c", script] })
    };
    // Everything is in its place after the first.
    run(&server, &much(2 << 20));
    let before = high_water(server.pid());
    let job = enqueue(&server, &much(BYTES), &[]);
    let told = ended(&server, &job);
    // The kernel counts pages roughly, so that the second reading may be a little less.
    let grown = high_water(server.pid()).saturating_sub(before);
    assert!(grown < 16 << 10, "it took {grown} kB more");
    let result = &told["result"];
    assert_eq!(result["truncated"], true, "{told}");
    assert_eq!(result["output_bytes"], BYTES + 9);
    let tail = result["stdout"].as_str().unwrap();
    assert!(tail.ends_with("\nthe end") && tail.len() <= 4 << 10, "{} bytes", tail.len());
    let lines = log(&server, &job);
    assert!(lines.len() < 10_000, "{}", lines.len());
    let kept: usize = lines.iter().map(|line| line["text"].as_str().unwrap().len()).sum();
    assert!(kept <= (512 << 10) + 200, "{kept} bytes");
    let last = lines.last().unwrap()["text"].as_str().unwrap();
    assert!(last.starts_with("output truncated after "), "{last}");
}

/// The most memory that a process ever had, in kB.
fn high_water(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
