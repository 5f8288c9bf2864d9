//! Files that other users must not read or change, and passwords that must not be shown.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use punctual::rusqlite::Connection;
use serde_json::Value;

use crate::process::{Serving, punctual, text, write_with_mode};

/// Runs a command with variables: its exit code, and its stderr with the directory left out.
fn run(directory: &Path, args: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let output = punctual(directory, args).envs(variables.iter().copied()).output().unwrap();
    let here = directory.canonicalize().unwrap();
    let said = text(&output.stderr).replace(here.to_str().unwrap(), "HERE");
    (output.status.code().unwrap(), said)
}

/// A setting as `config show` prints it.
fn shown(directory: &Path, key: &str, variables: &[(&str, &str)]) -> Value {
    let mut command = punctual(directory, &["config", "show", "--json"]);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let shown: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    shown.as_array().unwrap().iter().find(|it| it["key"] == key).unwrap()["value"].clone()
}

#[test]
fn a_configuration_file_in_a_parent_directory_is_not_used() {
    let parent = tempfile::tempdir().unwrap();
    let planted = "[node]\nname = \"planted\"\n[command]\nallow_api_argv = true\n";
    write_with_mode(&parent.path().join("punctual.toml"), planted, 0o644);
    let below = parent.path().join("below");
    fs::create_dir(&below).unwrap();
    assert_ne!(shown(&below, "node.name", &[]), "planted");
    assert_eq!(shown(&below, "command.allow_api_argv", &[]), false);
    let output = punctual(&below, &["serve", "--print-systemd-unit"]).output().unwrap();
    assert!(!text(&output.stdout).contains("--config"), "{}", text(&output.stdout));
    assert_eq!(shown(parent.path(), "node.name", &[]), "planted");
}

#[test]
fn a_configuration_file_that_others_can_change_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let file = here.join("punctual.toml");
    let commands: [&[&str]; 4] = [
        &["config", "check"],
        &["serve"],
        &["serve", "--print-systemd-unit"],
        &["config", "check", "--config", "punctual.toml"],
    ];
    for mode in [0o620, 0o646] {
        write_with_mode(&file, "", mode);
        for args in commands {
            let (code, said) = run(here, args, &[]);
            assert_eq!(code, 4, "{args:?}: {said}");
            let mode = format!("other users can change it (mode {mode:04o}, owner uid ");
            assert!(said.contains("refusing to use the configuration file"), "{said}");
            assert!(said.contains("run `chmod go-w "), "{said}");
            assert!(said.contains(&mode) && said.contains("punctual.toml`"), "{said}");
        }
    }
    write_with_mode(&file, "", 0o644);
    assert_eq!(run(here, &["config", "check"], &[]).0, 0);
    // Only root can give a file away.
    if chown(&file, Some(12_345), None).is_ok() {
        let (code, said) = run(here, &["config", "check"], &[]);
        assert_eq!(code, 4, "{said}");
        assert!(said.contains("belongs to another user (mode 0644, owner uid 12345;"), "{said}");
        assert!(said.contains("run `chown 0 punctual.toml`"), "{said}");
    }
}

#[test]
fn a_token_or_password_file_that_others_can_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_with_mode(&here.join("secret"), "0123456789abcdef", 0o604);
    let (code, said) = run(here, &["serve", "--token-file", "secret"], &[]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("refusing to use the token file secret"), "{said}");
    assert!(said.contains("mode 0604") && said.contains("run `chmod 600 secret`"), "{said}");
    let postgres = ["--database", "postgres://app@127.0.0.1:1/app"];
    let with_password = ["config", "check", "--database-password-file", "secret"];
    let (code, said) = run(
        here,
        &[with_password, [postgres[0], postgres[1], "--listen", "127.0.0.1:0"]].concat(),
        &[],
    );
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("password file `secret`") && said.contains("chmod 600 secret"), "{said}");
    // A command that opens the database itself reads the environment.
    let status = [&["db", "status"][..], &postgres].concat();
    let (code, said) = run(here, &status, &[("PUNCTUAL__DATABASE__PASSWORD_FILE", "secret")]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("password file `secret`"), "{said}");
}

#[test]
fn the_password_of_the_database_has_one_source() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fs::create_dir(here.join("etc")).unwrap();
    write_with_mode(&here.join("etc/password"), "hunter2\n", 0o600);
    let config = |url: &str| {
        let text = format!("[database]\nurl = \"{url}\"\npassword_file = \"password\"\n");
        write_with_mode(&here.join("etc/punctual.toml"), &text, 0o644);
        run(here, &["config", "check", "--config", "etc/punctual.toml"], &[])
    };
    // The path begins at the configuration file.
    assert_eq!(config("postgres://app@127.0.0.1/app"), (0, String::new()));
    let (code, said) = config("postgres://app:hunter2@127.0.0.1/app");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("contains a password") && !said.contains("hunter2"), "{said}");
    let (code, said) = config("sqlite://x.db");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("database.password_file: has no effect on an SQLite database"), "{said}");
}

#[test]
fn an_unverified_database_server_must_be_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let url = "postgres://app:hunter2@db.example/app?sslmode=require";
    for args in [["config", "check"], ["db", "status"], ["job", "list"]] {
        let (code, said) = run(here, &[&args[..], &["--database", url]].concat(), &[]);
        assert_eq!(code, 4, "{args:?}: {said}");
        assert!(
            said.contains("refusing to connect to `db.example` with `sslmode=require`"),
            "{said}"
        );
        assert!(
            said.contains("`database.allow_insecure = true`") && !said.contains("hunter2"),
            "{said}"
        );
    }
    let allowed = ("PUNCTUAL__DATABASE__ALLOW_INSECURE", "true");
    assert_eq!(run(here, &["config", "check", "--database", url], &[allowed]).0, 0);
    // What comes after the policy is reached, and no connection is made.
    let url = "postgres://app@db.example/app?sslmode=require";
    let missing = ("PUNCTUAL__DATABASE__PASSWORD_FILE", "missing");
    let (code, said) = run(here, &["db", "status", "--database", url], &[allowed, missing]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("cannot read the password file `missing`"), "{said}");
}

#[test]
fn no_password_is_shown_or_printed() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for (url, expected) in [
        ("postgres://app:hunter2@db/app", "postgres://app@db/app"),
        ("postgres://app:p?hunter2@db/app", "postgres://app@db/app"),
        ("postgres://db/app?password=hunter2", "postgres://db/app"),
        ("host=db user=app password=hunter2", "host=db user=app"),
    ] {
        let value = shown(here, "database.url", &[("PUNCTUAL__DATABASE__URL", url)]);
        assert_eq!(value, expected, "{url}");
        for args in [&["serve"][..], &["db", "status"], &["config", "check"]] {
            let (_, said) = run(here, &[args, &["--help"]].concat(), &[("PUNCTUAL_DATABASE", url)]);
            assert!(!said.contains("hunter2"), "{said}");
            let mut help = punctual(here, &[args, &["--help"]].concat());
            let output = help.env("PUNCTUAL_DATABASE", url).output().unwrap();
            assert!(!text(&output.stdout).contains("hunter2"), "{}", text(&output.stdout));
        }
        if url.starts_with("postgres") {
            let unit = ["serve", "--print-systemd-unit"];
            let (code, said) = run(here, &unit, &[("PUNCTUAL_DATABASE", url)]);
            assert_eq!(code, 2, "{said}");
            assert!(
                said.contains("--database-password-file FILE") && !said.contains("hunter2"),
                "{said}"
            );
        }
    }
    let url = "postgres://app:p@hunter2@127.0.0.1/app";
    for args in [&["db", "status"][..], &["config", "check"], &["config", "show"], &["serve"]] {
        let (code, said) = run(here, args, &[("PUNCTUAL_DATABASE", url)]);
        assert_ne!(code, 0, "{said}");
        assert!(said.contains("as `%40`") && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_unit_loads_secrets_as_credentials() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for name in ["token", "my password"] {
        write_with_mode(&here.join(name), "0123456789abcdef", 0o600);
    }
    let args = [
        "serve",
        "--print-systemd-unit",
        "--token-file",
        "token",
        "--database-password-file",
        "my password",
        "--database",
        "postgres://app@127.0.0.1/app",
    ];
    let output = punctual(here, &args).output().unwrap();
    let root = here.canonicalize().unwrap();
    let unit = text(&output.stdout).replace(root.to_str().unwrap(), "HERE");
    let unit = unit.replace(env!("CARGO_BIN_EXE_punctual"), "PROGRAM");
    let of = |key: &str| {
        unit.lines().filter(|line| line.starts_with(key)).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(of("ExecStart="), @"ExecStart=PROGRAM serve --database postgres://app@127.0.0.1/app --token-file ${CREDENTIALS_DIRECTORY}/token --database-password-file ${CREDENTIALS_DIRECTORY}/database-password");
    insta::assert_snapshot!(of("LoadCredential="), @r#"
    LoadCredential=token:HERE/token
    LoadCredential="database-password:HERE/my password"
    "#);
}

#[test]
fn a_new_database_is_private_whatever_the_umask_and_others_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let database = ["--database", "sqlite://punctual.db"];
    let run_in = |umask: &str, args: &[&str]| {
        let mut command = Command::new("sh");
        let script = format!("umask {umask}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_punctual")]).args(args).args(database);
        command.env_remove("PUNCTUAL_SERVER").env_remove("PUNCTUAL_DATABASE").current_dir(here);
        command.output().unwrap()
    };
    assert!(run_in("000", &["db", "migrate"]).status.success());
    assert!(run_in("000", &["db", "backup", "copy.db"]).status.success());
    for name in ["punctual.db", "copy.db"] {
        assert_eq!(fs::metadata(here.join(name)).unwrap().mode() & 0o777, 0o600, "{name}");
    }
    let finding = || {
        let found: Value =
            serde_json::from_slice(&run_in("022", &["doctor", "--json"]).stdout).unwrap();
        let findings = found["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["code"] == "database_readable")
    };
    assert_eq!(finding(), None);
    fs::set_permissions(here.join("punctual.db"), fs::Permissions::from_mode(0o644)).unwrap();
    let found = finding().expect("it is reported");
    assert_eq!(found["severity"], "warning");
    assert!(found["remedy"].as_str().unwrap().starts_with("run `chmod 600 "), "{found}");
}

/// A cluster key that can be recognized in outputs.
const CLUSTER_KEY: &str = "cluster-key-of-32-bytes-48213709";
const CLUSTER_KEY_BASE64: &str = "Y2x1c3Rlci1rZXktb2YtMzItYnl0ZXMtNDgyMTM3MDk";

/// Whether bytes contain the cluster key: as it is, in hexadecimal, in base64 or as a JSON list.
fn has_cluster_key(bytes: &[u8]) -> bool {
    let hex: String = CLUSTER_KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let list = serde_json::to_string(CLUSTER_KEY.as_bytes()).unwrap();
    let content = text(bytes);
    let list = list.trim_matches(['[', ']']);
    [CLUSTER_KEY, &hex, &hex.to_uppercase(), CLUSTER_KEY_BASE64, list]
        .iter()
        .any(|form| content.contains(*form))
}

#[test]
fn the_cluster_key_is_in_backups_but_in_no_output_or_response() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    assert_eq!(run(here, &["db", "migrate", "--database", "sqlite://punctual.db"], &[]).0, 0);
    let db = Connection::open(here.join("punctual.db")).unwrap();
    let set = "UPDATE punctual_cluster_key SET key = CAST(?1 AS BLOB)";
    assert_eq!(db.execute(set, [CLUSTER_KEY]).unwrap(), 1);
    drop(db);
    let mut command = punctual(here, &["serve"]);
    let log = fs::File::create(here.join("stderr")).unwrap();
    command.env("RUST_LOG", "debug").stderr(log);
    let server = Serving::of(command);

    // Requests that use the key, and their responses.
    let mut outputs: Vec<(String, Vec<u8>)> = Vec::new();
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    for (payload, status) in [("1", 201), ("1", 200), ("2", 422)] {
        let body = format!(r#"{{"kind": "echo", "payload": {payload}, "delay": "1h"}}"#);
        let request = agent.post(format!("{}/api/v1/jobs", server.url));
        let request = request.header("content-type", "application/json");
        let mut response = request.header("idempotency-key", "once").send(&body).unwrap();
        assert_eq!(response.status(), status);
        outputs.push(("POST jobs".to_owned(), response.body_mut().read_to_vec().unwrap()));
    }
    let job = server.ask(&["job", "list"])["items"][0]["id"].as_str().unwrap().to_owned();

    let description: Value =
        serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
    for (path, operations) in description["paths"].as_object().unwrap() {
        let content = &operations["get"]["responses"]["200"]["content"];
        let path = path.replace("/jobs/{id}", &format!("/jobs/{job}"));
        // A long poll would wait for the end of the job.
        let is_answered = !path.contains('{') && !path.ends_with("/wait");
        if content.get("application/json").is_some() && is_answered {
            let mut response = agent.get(format!("{}{path}", server.url)).call().unwrap();
            outputs.push((path, response.body_mut().read_to_vec().unwrap()));
        }
    }
    assert!(outputs.len() > 12, "responses of all lists");
    for args in [
        &["config", "show", "--json"][..],
        &["doctor", "--json"],
        &["why", "job", &job],
        &["export"],
    ] {
        let local = ["--database", "sqlite://punctual.db"];
        let local = if args[0] == "config" { &[][..] } else { &local[..] };
        let output = punctual(here, args).args(local).output().unwrap();
        assert!(!output.stdout.is_empty(), "{args:?}: {}", text(&output.stderr));
        outputs.push((args.join(" "), [output.stdout, output.stderr].concat()));
    }
    let backup = ["db", "backup", "copy.db", "--database", "sqlite://punctual.db"];
    assert_eq!(run(here, &backup, &[]).0, 0);
    assert_eq!(server.stop(), Some(0));
    outputs.push(("log".to_owned(), fs::read(here.join("stderr")).unwrap()));
    for (name, output) in &outputs {
        assert!(!has_cluster_key(output), "{name}: {}", text(output));
    }
    // This also shows that the search finds a key.
    assert!(has_cluster_key(&fs::read(here.join("copy.db")).unwrap()));
}

#[test]
fn a_server_does_not_run_a_database_that_others_can_change() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let file = here.join("punctual.db");
    assert_eq!(run(here, &["db", "migrate", "--database", "sqlite://punctual.db"], &[]).0, 0);
    let is_refused = |expected: &[&str]| {
        for command in ["serve", "dev"] {
            let (code, said) = run(here, &[command, "--listen", "127.0.0.1:0"], &[]);
            assert_eq!(code, 4, "{command}: {said}");
            assert!(expected.iter().all(|part| said.contains(part)), "{command}: {said}");
        }
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o602)).unwrap();
    is_refused(&["refusing to run the database", "mode 0602", "run `chmod o-w punctual.db`"]);
    // Other commands run nothing.
    assert_eq!(run(here, &["db", "status", "--database", "sqlite://punctual.db"], &[]).0, 0);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o660)).unwrap();
    let serving = Serving::start(here, &["serve"]);
    assert_eq!(serving.stop(), Some(0));
    // Only root can give a file away.
    if chown(&file, Some(12_345), None).is_ok() {
        is_refused(&["belongs to another user", "owner uid 12345", "run `chown 0 punctual.db`"]);
    }
}

#[test]
fn a_fifo_is_no_configuration_and_no_token_file() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let made = Command::new("mkfifo").args(["-m600", "fifo"]).current_dir(here).status().unwrap();
    assert!(made.success());
    for flag in ["--config", "--token-file"] {
        let (code, said) = run(here, &["config", "check", flag, "fifo"], &[]);
        assert_eq!(code, 4, "{said}");
        assert!(said.contains("fifo: it is not a regular file"), "{said}");
    }
}

#[test]
fn a_syntax_error_does_not_show_the_password_of_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let broken = "[database]\nurl=\"postgres://app:S3cretPw@db/app\n";
    write_with_mode(&here.join("punctual.toml"), broken, 0o600);
    for args in [&["config", "check"][..], &["config", "show"], &["serve"], &["exec", "true"]] {
        let (code, said) = run(here, args, &[]);
        assert!(code != 0 && !said.contains("S3cret"), "{args:?}: {code} {said}");
        let place = "`punctual.toml`: TOML parse error at line 2, column ";
        assert!(args[0] == "exec" || said.contains(place), "{args:?}: {said}");
    }
}

#[test]
fn a_level_that_does_not_exist_is_refused_wherever_it_is_set() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for variable in ["PUNCTUAL__LOG__LEVEL", "RUST_LOG"] {
        for args in [&["config", "check"][..], &["serve", "--listen", "127.0.0.1:0"]] {
            let (code, said) = run(here, args, &[(variable, "warning")]);
            assert_eq!(code, 2, "{variable} {args:?}: {said}");
            assert!(said.contains("unknown level `warning`; did you mean `warn`?"), "{said}");
        }
        assert_eq!(run(here, &["config", "check"], &[(variable, " Info ")]).0, 0);
    }
    let (code, said) = run(here, &["config", "check"], &[("PUNCTUAL__LOG__LEVEL", "")]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("log.level: the level must not be empty"), "{said}");
}

#[test]
fn a_newline_in_an_option_adds_no_line_to_a_unit() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for (flag, value) in [
        ("--name", "a\nExecStartPre=/bin/sh"),
        ("--label", "a=b\nUser=root"),
        ("--database", "sqlite://a\nUser=root"),
        ("--queue", "a\tb"),
    ] {
        let args = ["serve", "--print-systemd-unit", flag, value];
        let output = punctual(here, &args).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(2), ""), "{said}");
        let expected = format!("the value of {flag} into a systemd unit: {value:?} contains");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn variables_that_a_unit_does_not_set_are_named_without_their_values() {
    let directory = tempfile::tempdir().unwrap();
    let unit = ["serve", "--print-systemd-unit"];
    let url = ("PUNCTUAL__DATABASE__URL", "postgres://app:hunter2@127.0.0.1/app");
    let (code, said) = run(directory.path(), &unit, &[url]);
    assert_eq!(code, 0, "{said}");
    let expected = "environment variables are not part of the unit: PUNCTUAL__DATABASE__URL;";
    assert!(said.contains(expected) && !said.contains("hunter2"), "{said}");
    assert_eq!(run(directory.path(), &unit, &[]), (0, String::new()));
}
