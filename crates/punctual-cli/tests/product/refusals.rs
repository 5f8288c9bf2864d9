//! Mistakes on the command line: the message and the exit code.

use crate::process::{Serving, punctual, text, write_with_mode};

#[test]
fn each_mistake_has_its_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    let check = |args: &[&str], code: i32, message: &str| {
        let output = server.run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(message), "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
    };
    check(&["job", "show", "7"], 2, "invalid id `7`");
    check(
        &["job", "show", "01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10"],
        3,
        "not found; it never existed",
    );
    check(&["schedule", "show", "none"], 3, "schedule `none` not found");
    check(&["man", "job", "dance"], 3, "unknown command `punctual job dance`");
    check(&["job", "enqueue", "ecko"], 2, "did you mean `echo`?");
    let unknown = ["schedule", "create", "u", "--every", "1h", "--kind", "ecko"];
    check(&unknown, 2, "--allow-unknown-kind");
    let meant = [&unknown[..], &["--allow-unknown-kind"]].concat();
    assert!(server.run(&meant).status.success());
    check(&["job", "enqueue", "echo", "--payload", "{"], 2, "--payload is not valid JSON");
    check(&["job", "enqueue", "echo", "--delay", "soon"], 2, "invalid duration `soon`");
    let bad = ["schedule", "create", "s", "--cron", "61 * * * *", "--kind", "echo"];
    check(&bad, 2, "must be between 0 and 59, got 61");
    let good = ["schedule", "create", "s", "--cron", "1 * * * *", "--kind", "echo"];
    assert!(server.run(&good).status.success());
    check(&good, 5, "schedule `s` already exists");
    check(&["schedule", "edit", "s"], 2, "nothing to change");
    let late = ["schedule", "edit", "s", "--start-within", "1h"];
    let unclear = [&late[..], &["--set", r#"{"job": 1}"#]].concat();
    check(&unclear, 2, "--set: `job` must be a JSON object");
    let made = ["schedule", "create", "nightly-backup", "--cron", "1 2 * * *", "--kind", "echo"];
    assert!(server.run(&made).status.success());
    check(&["schedule", "pause", "nigthly-backup"], 3, "did you mean `nightly-backup`?");
    let keyed = |payload| {
        ["job", "enqueue", "sleep", "--payload", payload, "--unique-key", "k", "--delay", "1h"]
    };
    assert!(server.run(&keyed(r#"{"seconds":1}"#)).status.success());
    check(&keyed(r#"{"seconds":2}"#), 5, "is held by job");
}

#[test]
fn out_of_reach_and_not_allowed_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let check = |args: &[&str], code: i32, message: &str| {
        let output = punctual(directory.path(), args).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(message), "{args:?}: {error}");
    };
    check(
        &["node", "list", "--server", "http://127.0.0.1:1"],
        6,
        "cannot reach the server at http://127.0.0.1:1: Connection refused",
    );
    check(
        &["node", "list", "--server", "127.0.0.1:7420"],
        2,
        "invalid server URL `127.0.0.1:7420`; use http://127.0.0.1:7420",
    );
    let variable = "PUNCTUAL__WORKER__MAX_RUNNING";
    let mut config = punctual(directory.path(), &["config", "check"]);
    let output = config.env(variable, "lots").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        format!(
            "error: environment variable `{variable}`: `worker.max_running` must be a whole \
             number, got \"lots\"\n"
        )
    );
    check(&["node", "list", "--database", "mysql://x"], 2, "unsupported database URL `mysql://x`");
    check(&["serve", "--listen", "0.0.0.0:0"], 4, "without a token");
    check(&["serve", "--listen", "nowhere"], 2, "invalid address `nowhere`");
    check(&["serve", "--role", "cook"], 2, "unknown role `cook`");
    check(&["serve", "--config", "missing.toml"], 2, "configuration file not found: missing.toml");
    std::fs::write(directory.path().join("punctual.toml"), "[server]\nlisen = \"x\"\n").unwrap();
    check(
        &["config", "check"],
        2,
        "`punctual.toml`: unknown key `server.lisen`; did you mean `listen`? expected one of listen,",
    );
    std::fs::write(directory.path().join("punctual.toml"), "[server]\nlisten = x\n").unwrap();
    check(&["config", "check"], 2, "`punctual.toml`: TOML parse error at line 2, column 10");
    write_with_mode(&directory.path().join("token"), "short", 0o600);
    std::fs::remove_file(directory.path().join("punctual.toml")).unwrap();
    check(&["serve", "--token-file", "token"], 2, "minimum 16");
    // What would keep a server from starting is told by whoever only checks, and before a unit is made.
    for ask in [&["config", "check"][..], &["serve", "--print-systemd-unit"]] {
        let check = |args: &[&str], code, message| check(&[ask, args].concat(), code, message);
        check(&["--token-file", "token"], 2, "minimum 16");
        check(&["--token-file", "nowhere"], 2, "cannot read the token file nowhere");
        check(&["--listen", "0.0.0.0:7347"], 4, "without a token");
        check(&["--database", "mysql://x"], 2, "unsupported database URL `mysql://x`");
    }
    let token = ["--token", "0123456789abcdef"];
    let open = [&["config", "check", "--listen", "0.0.0.0:7347"][..], &token].concat();
    assert!(punctual(directory.path(), &open).output().unwrap().status.success());
    let unit = [&["serve", "--print-systemd-unit"][..], &token].concat();
    check(&unit, 2, "--token-file");
}

#[test]
fn with_json_mistakes_are_objects_on_stderr() {
    let directory = tempfile::tempdir().unwrap();
    let check = |args: &[&str], code: i32, error: &str, hint: Option<&str>| {
        let output = punctual(directory.path(), args).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["code"], code, "{args:?}");
        assert!(said["error"].as_str().unwrap().contains(error), "{args:?}: {said}");
        match hint {
            Some(hint) => assert!(said["hint"].as_str().unwrap().contains(hint), "{said}"),
            None => assert!(said["hint"].is_null(), "{said}"),
        }
        assert!(output.stdout.is_empty(), "{args:?}");
    };
    let nowhere = ["node", "list", "--json", "--server", "http://127.0.0.1:1"];
    check(&nowhere, 6, "cannot reach the server", Some("punctual serve"));
    check(
        &["node", "list", "--json", "--database", "mysql://x"],
        2,
        "unsupported database URL `mysql://x`",
        None,
    );
    // Also what could not be understood.
    check(&["node", "dance", "--json"], 2, "unrecognized subcommand", None);
    let missing = ["job", "list", "--json", "--database", "sqlite://missing.db"];
    check(&missing, 3, "database not found: sqlite://missing.db", Some("db migrate"));
    let text_of = |args: &[&str]| punctual(directory.path(), args).output().unwrap().stderr;
    assert!(text(&text_of(&["node", "dance"])).starts_with("error: "));
}

#[test]
fn a_database_that_is_not_there_is_not_made_by_a_question() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let questions: [&[&str]; 10] = [
        &["job", "list"],
        &["job", "show", "01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10"],
        &["schedule", "list"],
        &["schedule", "pause", "s"],
        &["queue", "list"],
        &["why", "queue", "default"],
        &["doctor"],
        &["events"],
        &["db", "status"],
        &["db", "check"],
    ];
    let named = ["--database", "sqlite://new.db"];
    for question in questions {
        let output = punctual(here, question).args(named).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{question:?}: {error}");
        assert!(error.contains("database not found: sqlite://new.db"), "{error}");
        assert!(!here.join("new.db").exists(), "{question:?}");
    }
    // Whoever brings something along may make it, and what is said beats the environment.
    let mut enqueue = punctual(here, &["job", "enqueue", "echo"]);
    enqueue.args(named).env("PUNCTUAL_SERVER", "http://127.0.0.1:1");
    let output = enqueue.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(here.join("new.db").exists());
    let mut list = punctual(here, &["job", "list", "--server", "http://127.0.0.1:1"]);
    let output = list.env("PUNCTUAL_DATABASE", "sqlite://new.db").output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", text(&output.stderr));
    let both = ["job", "list", "--server", "http://127.0.0.1:1"];
    let output = punctual(here, &both).args(named).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--server and --database cannot be combined"));
}

#[test]
fn a_token_opens_what_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    write_with_mode(&directory.path().join("token"), "0123456789abcdef\n", 0o600);
    let server = Serving::start(directory.path(), &["serve", "--token-file", "token"]);
    assert_eq!(server.run(&["node", "list"]).status.code(), Some(4));
    assert_eq!(
        server.run(&["node", "list", "--token", "wrong-wrong-wrong"]).status.code(),
        Some(4)
    );
    assert!(server.run(&["node", "list", "--token", "0123456789abcdef"]).status.success());
}

#[test]
fn settings_say_where_they_come_from() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("punctual.toml"), "[worker]\nmax_running = 7\n").unwrap();
    let mut show =
        punctual(directory.path(), &["config", "show", "--json", "--listen", "127.0.0.1:1"]);
    let url = "postgres://u:p%40ss@host/app?connect_timeout=3";
    show.env("PUNCTUAL_DATABASE", url);
    let output = show.env("PUNCTUAL__NODE__NAME", "from-env").output().unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |key: &str| {
        let found = shown.as_array().unwrap().iter().find(|it| it["key"] == key).unwrap().clone();
        (found["value"].clone(), found["from"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("worker.max_running").0, 7);
    assert!(of("worker.max_running").1.contains("punctual.toml"), "{}", of("worker.max_running").1);
    assert_eq!(of("node.name").0, "from-env");
    assert!(of("node.name").1.contains("environment"), "{}", of("node.name").1);
    assert_eq!(of("server.listen"), ("127.0.0.1:1".into(), "flag".to_owned()));
    assert_eq!(of("worker.shutdown_grace").1, "default");
    assert_eq!(of("worker.queue_order").0, "weighted");
    assert_eq!(of("database.any_file_system").0, false);
    assert_eq!(of("database.partition_days").0, 14);
    assert_eq!(
        of("database.url"),
        ("postgres://u@host/app".into(), "--database or PUNCTUAL_DATABASE".to_owned()),
        "{url}"
    );
}

#[test]
fn settings_of_databases_and_queues_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let check = |settings: &str, expected: Result<(), &str>| {
        write_with_mode(&directory.path().join("punctual.toml"), settings, 0o600);
        let output = punctual(directory.path(), &["config", "check"]).output().unwrap();
        let error = text(&output.stderr);
        match expected {
            Ok(()) => assert!(output.status.success(), "{settings}: {error}"),
            Err(message) => {
                assert_eq!(output.status.code(), Some(2), "{settings}: {error}");
                assert!(error.contains(message), "{settings}: {error}");
            }
        }
    };
    check("[worker]\nqueue_order = \"strict\"\n", Ok(()));
    let message = "worker.queue_order: unknown value `random`; expected weighted or strict";
    check("[worker]\nqueue_order = \"random\"\n", Err(message));
    check("[database]\nany_file_system = true\n", Ok(()));
    let on_postgres = "[database]\nurl = \"postgres://app@localhost/app\"\n";
    let message = "database.any_file_system: has no effect on a PostgreSQL database";
    check(&format!("{on_postgres}any_file_system = true\n"), Err(message));
    check(&format!("{on_postgres}partition_days = 0\n"), Ok(()));
    let message = "database.partition_days: 367 is too many; the maximum is 366";
    check(&format!("{on_postgres}partition_days = 367\n"), Err(message));
    let message = "database.partition_days: has no effect on an SQLite database";
    check("[database]\npartition_days = 3\n", Err(message));
}
