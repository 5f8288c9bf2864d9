//! What holds of arguments and output, without any command.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use insta::assert_snapshot;
use punctual::LogLevel;
use punctual_secrets::{Mask, Secrets};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::config::{Param, Type};
use crate::limit::Limits;
use crate::orphans::Watched;
use crate::output::{Room, Stream};
use crate::plain::Plain;
use crate::run::Shim;
use crate::template::{Template, fill};
use crate::wire::{NotStarted, Spec, Step};
use crate::{Commands, Config, Named, explain};

/// What is left of bytes that come one by one, and all at once.
fn plain(text: &str) -> String {
    let mut whole = Plain::default();
    let mut at_once = whole.push(text.as_bytes());
    at_once.extend(whole.finish());
    let mut parted = Plain::default();
    let mut one_by_one = Vec::new();
    for byte in text.bytes() {
        one_by_one.extend(parted.push(&[byte]));
    }
    one_by_one.extend(parted.finish());
    assert_eq!(at_once, one_by_one, "{text:?}");
    String::from_utf8(at_once).expect("text stays text")
}

#[test]
fn what_is_for_terminals_is_taken_out() {
    assert_eq!(plain("\u{1b}[1;31mred\u{1b}[0m and\tplain\r\n"), "red and\tplain\r\n");
    assert_eq!(plain("\u{1b}]0;a title\u{7}text \u{1b}]8;;http://x\u{1b}\\link"), "text link");
    assert_eq!(plain("\u{1b}(Bx\u{1b}cy\u{0}\u{8}\u{7f}z"), "xyz");
    assert_eq!(plain("é\u{80}\u{9b}31mà § \u{a0}"), "é31mà § \u{a0}");
    // What is never closed ends with its line.
    assert_eq!(plain("\u{1b}]0;a title\nnext \u{1b}[3\nlast"), "\nnext \nlast");
}

/// What is logged of pieces of output, and the last of it.
fn logged(pieces: &[&[u8]], mask: &Mask, log_bytes: usize) -> (Vec<String>, String, bool) {
    let lines = Mutex::new(Vec::new());
    let log = |_: LogLevel, line: &str| {
        lines.lock().expect("nobody panics").push(line.to_owned());
    };
    let mut room = Room::new(log_bytes);
    let mut stream = Stream::new(LogLevel::Info, mask, 20);
    for piece in pieces {
        stream.push(piece, &mut room, &log);
    }
    let tail = stream.finish(&mut room, &log);
    (lines.into_inner().expect("nobody panics"), tail, room.is_full())
}

#[test]
fn lines_end_in_many_ways() {
    let output: &[&[u8]] = &[b"one\r", b"\ntwo\n\n10%\r20%\rdone", b"\xff no newline"];
    let (lines, tail, is_full) = logged(output, &Mask::default(), 1_000);
    assert_eq!(lines, ["one", "two", "", "10%", "20%", "done\u{fffd} no newline"]);
    assert_eq!((tail.as_str(), is_full), ("done\u{fffd} no newline", false));
    let long = "é".repeat(5_000);
    let (lines, ..) = logged(&[long.as_bytes()], &Mask::default(), 100_000);
    assert_eq!(lines.concat(), long);
    assert!(lines.iter().all(|line| line.len() <= 4_000), "{}", lines.len());
}

#[test]
fn what_is_beyond_the_room_is_left_out_but_for_its_end() {
    let output: Vec<&[u8]> = vec![b"0123456789\n"; 10];
    let (lines, tail, is_full) = logged(&output, &Mask::default(), 35);
    assert_eq!(lines.len(), 4);
    assert_snapshot!(lines[3], @"output truncated after 30 bytes in 3 lines; the end of the output is kept with the attempt");
    assert_eq!((tail.as_str(), is_full), ("0123456789", true));
}

/// Whatever is dropped in between, and wherever pieces end.
#[test]
fn a_secret_is_masked_before_and_after_the_log_is_full() {
    let mask = Mask::new(["canary-value"]);
    for filler in [0, 1, 100_000, 300_000, 300_007] {
        let mut all = b"first canary-value\n".repeat(3);
        all.extend(std::iter::repeat_n(b'x', filler));
        all.extend(b"canary-value\x1b[0mcanary-\x1b[1mvalue");
        for piece in [7, 1_000, 32_768] {
            let pieces: Vec<&[u8]> = all.chunks(piece).collect();
            let (lines, tail, _) = logged(&pieces, &mask, 20);
            let told = lines.concat() + &tail;
            assert!(!told.contains("canary") && tail.ends_with("••••••"), "{filler} {told}");
        }
    }
}

#[test]
fn places_are_read_and_filled() {
    let places = |text: &str| {
        let template = Template::read(text).expect("it can be read");
        template.places().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(places("a{b}c{d}"), ["b", "d"]);
    assert_eq!(places("{{b}} {{{c}}}"), ["c"]);
    assert!(Template::read("{a").is_err() && Template::read("a}").is_err());
    let params = BTreeMap::from([
        ("n".to_owned(), Param::Any(Type::Integer)),
        ("b".to_owned(), Param::Any(Type::Boolean)),
    ]);
    let told = |given: serde_json::Value| {
        fill(&params, &BTreeMap::new(), given.as_object().expect("an object"))
            .map_err(|error| error.to_string())
    };
    let filled = told(json!({ "n": 7, "b": true })).expect("both are fine");
    assert_eq!((filled["n"].as_str(), filled["b"].as_str()), ("7", "true"));
    assert_snapshot!(told(json!({ "n": 7.5, "b": true })).expect_err("no integer"), @"parameter `n` must be an integer, got 7.5");
    assert_snapshot!(told(json!({ "n": 7, "b": "true" })).expect_err("a text"), @r#"parameter `b` must be a boolean, got "true""#);
    assert_snapshot!(told(json!({ "n": 7, "x": 1 })).expect_err("unknown"), @"unknown parameter `x`; expected one of b, n");
}

/// A command with one parameter, as the configuration has it.
fn with_file(param: serde_json::Value) -> Result<Commands, String> {
    let named = Named {
        argv: vec!["rm".to_owned(), "--".to_owned(), "{file}".to_owned()],
        params: BTreeMap::from([(
            "file".to_owned(),
            serde_json::from_value(param).expect("a parameter"),
        )]),
        ..Named::default()
    };
    let all = BTreeMap::from([("remove".to_owned(), named)]);
    Commands::new(Config::default(), all, Secrets::default())
}

#[test]
fn a_parameter_matches_the_whole_of_its_pattern() {
    let pattern = r"[a-z0-9][a-z0-9_.-]*|\*";
    let commands = with_file(json!({ "type": "string", "pattern": pattern })).expect("a pattern");
    let check =
        |file: &str| commands.check(&json!({ "name": "remove", "params": { "file": file } }));
    for file in ["report-1.csv", "a", "*"] {
        assert_eq!(check(file), Ok(()), "{file}");
    }
    for file in ["../../etc/hostname", "a/b", "a\n", "", "*a", "x\nreport", " a"] {
        assert!(check(file).is_err(), "{file:?}");
    }
    assert_snapshot!(check("../../etc/hostname").expect_err("a path"), @r#"command `remove`: parameter `file` must match the pattern `[a-z0-9][a-z0-9_.-]*|\*`, got "../../etc/hostname""#);
}

#[test]
fn a_wrong_pattern_is_refused_with_its_place() {
    let refusal = |param: serde_json::Value| with_file(param).map(drop).expect_err("it is wrong");
    assert_snapshot!(refusal(json!({ "type": "string", "pattern": "[a-z" })), @"commands.remove: params.file: invalid pattern `[a-z`: found unclosed character class; use a regular expression such as `[a-z0-9_.-]+`, and a backslash before characters with a meaning");
    // It would be one if it only stood within a group.
    assert_snapshot!(refusal(json!({ "type": "string", "pattern": "a)|(b" })), @"commands.remove: params.file: invalid pattern `a)|(b`: found closing ')' without matching '('; use a regular expression such as `[a-z0-9_.-]+`, and a backslash before characters with a meaning");
    assert_snapshot!(refusal(json!({ "type": "integer", "pattern": "1" })), @r#"commands.remove: params.file: `pattern` requires `type = "string"`, but the type is an integer; remove `pattern`"#);
    assert_snapshot!(refusal(json!({ "type": "string", "pattern": "a+", "default": "ab" })), @r#"commands.remove: params.file: "ab" does not match the pattern `a+`"#);
    assert_snapshot!(refusal(json!({ "type": "string", "pattern": "a+", "values": ["a", "b"] })), @r#"commands.remove: params.file: "b" does not match the pattern `a+`"#);
}

/// A value that looks like an option does not become one.
#[test]
fn a_parameter_is_no_option() {
    let named = |argv: &[&str]| Named {
        argv: argv.iter().map(|text| (*text).to_owned()).collect(),
        params: BTreeMap::from([("file".to_owned(), Param::Any(Type::String))]),
        ..Named::default()
    };
    let all = BTreeMap::from([
        ("bare".to_owned(), named(&["rm", "{file}"])),
        ("after".to_owned(), named(&["rm", "--", "{file}"])),
        ("within".to_owned(), named(&["rm", "./{file}"])),
    ]);
    let commands = Commands::new(Config::default(), all, Secrets::default()).expect("all are fine");
    let check = |name: &str| commands.check(&json!({ "name": name, "params": { "file": "-rf" } }));
    assert_snapshot!(check("bare").expect_err("an option"), @"command `bare`: parameter `file` is `-rf`, which the program would read as an option; put `--` before it in the command's `argv` if the program supports this");
    assert_eq!((check("after"), check("within")), (Ok(()), Ok(())));
}

/// However it is put together, and whatever number it looks like.
#[test]
fn only_a_number_begins_with_a_dash() {
    let params = [
        ("a", Type::String),
        ("b", Type::String),
        ("whole", Type::Integer),
        ("part", Type::Number),
    ];
    let named = |argument: &str| Named {
        argv: vec!["ls".to_owned(), argument.to_owned()],
        params: params
            .iter()
            .filter(|(name, _)| argument.contains(&format!("{{{name}}}")))
            .map(|(name, of)| ((*name).to_owned(), Param::Any(*of)))
            .collect(),
        ..Named::default()
    };
    let all = ["{a}{b}", "{whole}", "{part},{whole}"].map(|text| (text.to_owned(), named(text)));
    let all = BTreeMap::from(all);
    let commands = Commands::new(Config::default(), all, Secrets::default()).expect("all are fine");
    let check = |name: &str, params| commands.check(&json!({ "name": name, "params": params }));
    assert_snapshot!(check("{a}{b}", json!({ "a": "", "b": "-la" })).expect_err("an option"), @"command `{a}{b}`: parameter `b` is `-la`, which the program would read as an option; put `--` before it in the command's `argv` if the program supports this");
    for text in ["-", "-1", "-inf", "-nan", "-1e5"] {
        let refused = check("{a}{b}", json!({ "a": text, "b": "la" })).expect_err(text);
        assert!(refused.contains("would read as an option"), "{refused}");
    }
    assert_eq!(check("{a}{b}", json!({ "a": "x", "b": "-la" })), Ok(()));
    assert_eq!(check("{whole}", json!({ "whole": -1 })), Ok(()));
    assert_eq!(check("{part},{whole}", json!({ "part": -1.5, "whole": -1 })), Ok(()));
}

/// A secret may be any text, and the text of a shell is run.
#[test]
fn a_secret_is_no_shell() {
    let config = Config { allow_api_argv: true, allow_shell: true, ..Config::default() };
    let named = |argv: &[&str]| {
        let argv = argv.iter().map(|text| (*text).to_owned()).collect();
        let named = Named { argv, shell: true, ..Named::default() };
        let all = BTreeMap::from([("a".to_owned(), named)]);
        Commands::new(config.clone(), all, Secrets::default())
    };
    assert_snapshot!(named(&["echo secret://x"]).expect_err("a script"), @r#"commands.a: a secret is not allowed in the text of a shell command, because the shell would execute it; put it in `env` as NAME and use "$NAME""#);
    let commands = named(&[r#"echo "$1""#, "secret://x"]).expect("an argument is data");
    let check = |argv: &[&str]| commands.check(&json!({ "argv": argv, "shell": true }));
    assert_snapshot!(check(&["echo secret://x"]).expect_err("a script"), @r#"a secret is not allowed in the text of a shell command, because the shell would execute it; put it in `env` as NAME and use "$NAME""#);
    assert_eq!(check(&[r#"echo "$1""#, "secret://x"]), Ok(()));
}

/// What a test cannot bring about without being somebody else.
#[test]
fn what_the_system_refuses_is_explained() {
    let spec = |become_ids| Spec {
        program: "/bin/sh".into(),
        args: Vec::new(),
        env: BTreeMap::new(),
        cwd: "/srv/private".into(),
        become_ids,
        stdin: None,
        limits: Limits::default(),
        open_files: None,
        new_privileges: false,
    };
    let message = |step: Step, errno: i32, become_ids| {
        let why = std::io::Error::from_raw_os_error(errno).to_string();
        explain::not_started(&spec(become_ids), &NotStarted { step, errno: Some(errno), why })
    };
    assert_snapshot!(message(Step::Directory, 13, None), @"permission denied: the worker's user cannot enter the directory `/srv/private`; grant access, or use another `cwd`");
    assert_snapshot!(message(Step::Start, 13, None), @"permission denied: the worker's user cannot execute `/bin/sh`; grant read and execute access to the file and its directories, and check that the file system is not mounted with `noexec`");
    assert_snapshot!(message(Step::Start, 13, Some((33, 33))), @"permission denied: user id 33 cannot execute `/bin/sh`; grant read and execute access to the file and its directories, and check that the file system is not mounted with `noexec`");
    assert_snapshot!(message(Step::Start, 1, Some((33, 33))), @"the worker is not permitted to switch to user id 33 to run `/bin/sh`: Operation not permitted (os error 1); run the worker as root, or remove `user`");
    assert_snapshot!(message(Step::Start, 7, None), @"the arguments and environment variables of `/bin/sh` are too long for the system; pass the data in a file or as `stdin`");
    assert_snapshot!(message(Step::Start, 11, None), @"cannot start `/bin/sh`: too many processes of the worker's user; raise `limits.processes` or the process limit of that user, or run fewer jobs at the same time");
    assert_snapshot!(message(Step::Prepare, 1, None), @"cannot prepare the command: Operation not permitted (os error 1); check the restrictions of the worker's container or service");
}

/// It has to see the end of its socket, even if its command has stopped it.
#[tokio::test]
async fn a_shim_is_woken_when_its_attempt_is_dropped() {
    let state = |pid: Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()));
        let stat = stat.expect("nobody has waited for it");
        stat.rsplit_once(") ").and_then(|(_, behind)| behind.chars().next())
    };
    let until = |pid: Pid, is_so: fn(Option<char>) -> bool| {
        let is_it = (0..2_000).any(|_| {
            std::thread::park_timeout(Duration::from_millis(5));
            is_so(state(pid))
        });
        assert!(is_it, "{:?}", state(pid));
    };
    let mut process = tokio::process::Command::new("sleep");
    let (child, watched) = Watched::start(process.arg("60")).expect("it starts");
    let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)).expect("it lives");
    kill_process(pid, Signal::STOP).expect("it is ours");
    until(pid, |state| state == Some('T'));
    drop(Shim(child, Arc::new(watched)));
    until(pid, |state| state == Some('S'));
    kill_process(pid, Signal::KILL).expect("it is ours");
}
