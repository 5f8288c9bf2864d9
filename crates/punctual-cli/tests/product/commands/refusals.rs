//! What cannot be run: the cause, and the way out.

use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{Place, run};
use crate::process::{punctual, text};

const SETTINGS: &str = r#"
[command]
allow_api_argv = true
search_path = ["/usr/bin", "/bin"]
users = ["no-such-user", "nobody"]

[commands.backup]
argv = ["/bin/echo", "{days}", "{target}"]
params = { days = "integer", target = { type = "string", values = ["all", "new"] } }
"#;

#[test]
fn an_attempt_that_cannot_start_says_why_and_what_to_do() {
    let place = Place::new(SETTINGS);
    place.file("plain", 0o644, "#!/bin/sh\n");
    place.file("no-interpreter", 0o755, "#!/usr/bin/pythn -u\n");
    place.file("garbage", 0o755, "\u{1}\u{2}\u{3}");
    let server = place.serve();
    let here = place.path().display().to_string();
    let error = |payload: Value| {
        let payload = payload.to_string().replace("HERE", &here);
        let job = run(&server, &serde_json::from_str(&payload).unwrap());
        assert_eq!(job["state"], "failed", "{job}");
        job["error"].as_str().unwrap().replace(&here, "HERE")
    };
    assert_snapshot!(error(json!({"argv": ["no-such-program"]})), @"program `no-such-program` not found in /usr/bin, /bin on this worker; install it, use its absolute path, or add its directory to `command.search_path`");
    assert_snapshot!(error(json!({"argv": ["/no/such/program"]})), @"program `/no/such/program` not found on this worker; install it, or correct the path");
    assert_snapshot!(error(json!({"argv": ["bin/backup"]})), @"program `bin/backup` is a relative path; use an absolute path, or only the file name");
    assert_snapshot!(error(json!({"argv": ["HERE/plain"]})), @"`HERE/plain` is not executable; run `chmod +x HERE/plain`");
    assert_snapshot!(error(json!({"argv": ["HERE"]})), @"`HERE` is a directory; use the path of a program");
    assert_snapshot!(error(json!({"argv": ["HERE/no-interpreter"]})), @"the interpreter `/usr/bin/pythn` of `HERE/no-interpreter` was not found on this worker; install it, or correct the first line of the script");
    assert_snapshot!(error(json!({"argv": ["HERE/garbage"]})), @"`HERE/garbage` is neither a program for this machine nor a script with an interpreter line; add a first line such as `#!/bin/sh`");
    assert_snapshot!(error(json!({"argv": ["true"], "cwd": "/no/such/directory"})), @"directory `/no/such/directory` not found on this worker; create it, or correct `cwd`");
    assert_snapshot!(error(json!({"argv": ["true"], "cwd": "/etc/passwd"})), @"`/etc/passwd` is not a directory; correct `cwd`");
    assert_snapshot!(error(json!({"argv": ["true"], "user": "no-such-user"})), @"user `no-such-user` not found on this worker; create it, or correct `user` (only /etc/passwd is searched)");
    assert_snapshot!(error(json!({"argv": ["true"], "env": {"A": "secret://none"}})), @"unknown secret `none`; define it in `[secrets]` of the worker's configuration (`punctual config show` lists the secrets)");
    assert_snapshot!(error(json!({"argv": ["sh", "-c", "echo oh no >&2; exit 3"]})), @r"
    the command exited with code 3; end of stderr:
    oh no
    ");
    assert_snapshot!(error(json!({"argv": ["sh", "-c", "kill -SEGV $$"]})), @"the command was terminated by signal SEGV; no output");
}

/// Root may do everything, but a command of somebody else may not.
#[test]
fn a_program_that_may_not_be_executed_says_who_may_not() {
    let place = Place::new(SETTINGS);
    let locked = place.path().join("locked");
    std::fs::create_dir(&locked).unwrap();
    let program = place.file("locked/program", 0o755, "#!/bin/sh\n");
    let is_root = rustix::process::geteuid().is_root();
    let mode = std::fs::Permissions::from_mode(if is_root { 0o700 } else { 0o600 });
    std::fs::set_permissions(&locked, mode).unwrap();
    let payload = match is_root {
        true => json!({ "argv": [program], "user": "nobody" }),
        false => json!({ "argv": [program] }),
    };
    let job = run(&place.serve(), &payload);
    let error = job["error"].as_str().unwrap();
    let way_out = format!(
        " cannot execute `{}`; grant read and execute access to the file and its directories, and check that the file system is not mounted with `noexec`",
        program.display()
    );
    let who = error.strip_suffix(&way_out).unwrap_or_else(|| panic!("{error}"));
    let who = who.strip_prefix("permission denied: ").unwrap_or_else(|| panic!("{error}"));
    assert!(who.starts_with(if is_root { "user id " } else { "the worker's user" }), "{who}");
}

#[test]
fn what_is_known_to_be_wrong_is_refused_when_it_is_enqueued() {
    let place = Place::new(SETTINGS);
    let server = place.serve();
    let refusal = |args: &[&str], payload: Value| {
        let output = server.run(&[args, &["--payload", &payload.to_string()]].concat());
        assert_eq!(output.status.code(), Some(2), "{payload}");
        text(&output.stderr).trim_end().to_owned()
    };
    let job = |payload: Value| refusal(&["job", "enqueue", "command"], payload);
    let named = |params: Value| job(json!({"name": "backup", "params": params}));
    assert_snapshot!(job(json!({"name": "bakcup"})), @"error: unknown command `bakcup`; did you mean `backup`?");
    assert_snapshot!(job(json!({})), @"error: missing command; set `name`, or `argv` if the worker allows it");
    assert_snapshot!(job(json!({"agrv": ["true"]})), @"error: invalid payload for kind `command`: unknown field `agrv`, expected one of `name`, `params`, `argv`, `shell`, `env`, `cwd`, `user`, `group`, `stdin`, `success_codes`, `retry_codes`");
    assert_snapshot!(job(json!({"argv": ["true"], "shell": true})), @"error: `shell` is not allowed on this worker; pass the program and its arguments as a list, or set `command.allow_shell = true`");
    assert_snapshot!(job(json!({"argv": ["true"], "user": "root"})), @"error: running as `root` is not allowed on this worker; remove `user`, or add `root` to `command.users`");
    assert_snapshot!(job(json!({"name": "backup", "cwd": "/"})), @"error: command `backup`: `cwd` cannot be set for a named command; remove it, or change `[commands.backup]`");
    assert_snapshot!(named(json!({"days": 3})), @"error: command `backup`: missing parameter `target`; expected a string");
    assert_snapshot!(named(json!({"days": "3", "target": "all"})), @r#"error: command `backup`: parameter `days` must be an integer, got "3""#);
    assert_snapshot!(named(json!({"days": 3, "target": "some"})), @r#"error: command `backup`: parameter `target` must be one of "all", "new", got "some""#);
    assert_snapshot!(named(json!({"day": 3})), @"error: command `backup`: unknown parameter `day`; did you mean `days`?");
    let create = ["schedule", "create", "s", "--every", "1h", "--kind", "command"];
    assert_snapshot!(refusal(&create, json!({"name": "bakcup"})), @"error: unknown command `bakcup`; did you mean `backup`?");
}

#[test]
fn a_job_brings_no_program_where_that_is_not_allowed() {
    let place = Place::new("");
    let server = place.serve();
    let payload = json!({"argv": ["id"]}).to_string();
    let refused = server.run(&["job", "enqueue", "command", "--payload", &payload]);
    assert_snapshot!(text(&refused.stderr), @"error: `argv` is not allowed on this worker; use `name` with a command from its configuration, or set `command.allow_api_argv = true` (any client that can enqueue can then run any program)");
    // Nobody is asked there; the worker refuses it all the same.
    let database = ["--database", "sqlite://punctual.db", "--json"];
    let mut enqueue = punctual(place.path(), &["job", "enqueue", "command"]);
    let made = enqueue.args(["--payload", &payload]).args(database).output().unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let job = super::ended(&server, made["id"].as_str().unwrap());
    assert_eq!((&job["state"], &job["attempts"][0]["attempt"]), (&json!("failed"), &json!(1)));
    assert!(job["error"].as_str().unwrap().starts_with("`argv` is not allowed on this worker"));
}

#[test]
fn mistakes_in_the_settings_are_reported_before_anything_starts() {
    let message = |settings: &str| {
        let place = Place::new(settings);
        let output = punctual(place.path(), &["config", "check"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{settings}");
        text(&output.stderr).trim_end().to_owned()
    };
    assert_snapshot!(message("[commands.a]\nargv = [\"x\", \"{y}\"]"), @"error: commands.a: unknown parameter `y` in `argv`; declare it in `params`, or write `{{y}}` for literal braces");
    assert_snapshot!(message("[commands.a]\nargv = [\"{y}\"]\nparams = { y = \"string\" }"), @"error: commands.a: the first element of `argv` must not contain a parameter; define one command for each program");
    assert_snapshot!(message("[commands.a]\nargv = [\"x\"]\nparams = { y = \"string\" }"), @"error: commands.a: parameter `y` is not used; add `{y}` to `argv`, or remove it from `params`");
    assert_snapshot!(message("[commands.a]\nargv = [\"x\", \"{y\"]"), @"error: commands.a: `{y` has an unmatched brace; write `{{` or `}}` for a literal brace");
    assert_snapshot!(message("[commands.a]\nargv = [\"x | y\"]\nshell = true"), @"error: commands.a: `shell` is not allowed on this worker; pass the program and its arguments as a list, or set `command.allow_shell = true`");
    assert_snapshot!(message("[command]\nallow_shell = true\n[commands.a]\nargv = [\"x {y}\"]\nshell = true\nparams = { y = \"string\" }"), @r#"error: commands.a: a parameter is not allowed in the text of a shell command, because the shell would execute it; pass it as an additional argument and use "$1""#);
    assert_snapshot!(message("[command]\nallow_shell = true\n[commands.a]\nargv = [\"x secret://y\"]\nshell = true"), @r#"error: commands.a: a secret is not allowed in the text of a shell command, because the shell would execute it; put it in `env` as NAME and use "$NAME""#);
    assert_snapshot!(message("[command]\nkill_grace = \"1m\""), @"error: command.kill_grace must be at most 3500ms, got 1m; a worker that loses contact with the database must stop its commands before their jobs are reclaimed");
    assert_snapshot!(message("[command]\nlimits = { memory_bytes = 1000 }"), @"error: command.limits.memory_bytes must be at least 268435456, got 1000; a program cannot start with less (to remove the limit, set it to \"none\")");
    assert_snapshot!(message("[secrets]\n\"a b\" = { env = \"X\" }"), @"error: secrets: invalid secret name `a b`; use letters, digits, `_` and `-`");
}
