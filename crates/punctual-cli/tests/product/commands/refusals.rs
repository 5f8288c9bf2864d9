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
    assert_snapshot!(error(json!({"argv": ["no-such-program"]})), @"there is no program `no-such-program` in /usr/bin, /bin on this worker; install it, give its absolute path, or add its directory to `command.search_path`");
    assert_snapshot!(error(json!({"argv": ["/no/such/program"]})), @"there is no program `/no/such/program` on this worker; install it there, or correct the path");
    assert_snapshot!(error(json!({"argv": ["bin/backup"]})), @"the program `bin/backup` is given by a path from some directory; give its absolute path, or its name alone");
    assert_snapshot!(error(json!({"argv": ["HERE/plain"]})), @"`HERE/plain` is not executable; make it so with `chmod +x HERE/plain`");
    assert_snapshot!(error(json!({"argv": ["HERE"]})), @"`HERE` is a directory; name a program in it");
    assert_snapshot!(error(json!({"argv": ["HERE/no-interpreter"]})), @"`HERE/no-interpreter` asks for the interpreter `/usr/bin/pythn`, which is not on this worker; install it there, or correct the first line");
    assert_snapshot!(error(json!({"argv": ["HERE/garbage"]})), @"`HERE/garbage` is neither a program for this machine nor a script whose first line names its interpreter; begin it with a line like `#!/bin/sh`");
    assert_snapshot!(error(json!({"argv": ["true"], "cwd": "/no/such/directory"})), @"there is no directory `/no/such/directory` on this worker; create it there, or correct `cwd`");
    assert_snapshot!(error(json!({"argv": ["true"], "cwd": "/etc/passwd"})), @"`/etc/passwd` is no directory; correct `cwd`");
    assert_snapshot!(error(json!({"argv": ["true"], "user": "no-such-user"})), @"there is no user `no-such-user` on this worker; create it there, or correct `user` (only /etc/passwd is asked)");
    assert_snapshot!(error(json!({"argv": ["true"], "env": {"A": "secret://none"}})), @"there is no secret `none` here; name its variable or file in `[secrets]` of the worker's configuration");
    assert_snapshot!(error(json!({"argv": ["sh", "-c", "echo oh no >&2; exit 3"]})), @r"
    the command exited with code 3; the last of its stderr:
    oh no
    ");
    assert_snapshot!(error(json!({"argv": ["sh", "-c", "kill -SEGV $$"]})), @"the command was ended by signal SEGV; it wrote nothing");
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
        " may not execute `{}`; permit it to read and execute the file and to enter its directories, and see that they are not mounted with `noexec`",
        program.display()
    );
    let who = error.strip_suffix(&way_out).unwrap_or_else(|| panic!("{error}"));
    assert!(who.starts_with(if is_root { "user number " } else { "the worker's user" }), "{who}");
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
    assert_snapshot!(job(json!({"name": "bakcup"})), @"error: there is no command `bakcup`; did you mean `backup`?");
    assert_snapshot!(job(json!({})), @"error: the payload names no command; give `name`, or `argv` where that is allowed");
    assert_snapshot!(job(json!({"agrv": ["true"]})), @"error: the payload does not fit kind `command`: unknown field `agrv`, expected one of `name`, `params`, `argv`, `shell`, `env`, `cwd`, `user`, `group`, `stdin`, `success_codes`, `retry_codes`");
    assert_snapshot!(job(json!({"argv": ["true"], "shell": true})), @"error: a shell is not allowed here; give the program and its arguments one by one, or set `command.allow_shell = true`");
    assert_snapshot!(job(json!({"argv": ["true"], "user": "root"})), @"error: a job may not run as `root` here; leave it out, or add `root` to `command.users`");
    assert_snapshot!(job(json!({"name": "backup", "cwd": "/"})), @"error: command `backup`: `cwd` is for the configuration to say; leave it out, or change `[commands.backup]`");
    assert_snapshot!(named(json!({"days": 3})), @"error: command `backup`: parameter `target` is missing; give a string");
    assert_snapshot!(named(json!({"days": "3", "target": "all"})), @r#"error: command `backup`: parameter `days` is "3"; give an integer"#);
    assert_snapshot!(named(json!({"days": 3, "target": "some"})), @r#"error: command `backup`: parameter `target` is "some"; it may be "all", "new""#);
    assert_snapshot!(named(json!({"day": 3})), @"error: command `backup`: there is no parameter `day`; did you mean `days`?");
    let create = ["schedule", "create", "s", "--every", "1h", "--kind", "command"];
    assert_snapshot!(refusal(&create, json!({"name": "bakcup"})), @"error: there is no command `bakcup`; did you mean `backup`?");
}

#[test]
fn a_job_brings_no_program_where_that_is_not_allowed() {
    let place = Place::new("");
    let server = place.serve();
    let payload = json!({"argv": ["id"]}).to_string();
    let refused = server.run(&["job", "enqueue", "command", "--payload", &payload]);
    assert_snapshot!(text(&refused.stderr), @"error: a job may not bring its own program here; name a command of the worker's configuration with `name`, or set `command.allow_api_argv = true` if whoever can enqueue may do all that the worker can");
    // Nobody is asked there; the worker refuses it all the same.
    let database = ["--database", "sqlite://punctual.db", "--json"];
    let mut enqueue = punctual(place.path(), &["job", "enqueue", "command"]);
    let made = enqueue.args(["--payload", &payload]).args(database).output().unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let job = super::ended(&server, made["id"].as_str().unwrap());
    assert_eq!((&job["state"], &job["attempts"][0]["attempt"]), (&json!("failed"), &json!(1)));
    assert!(job["error"].as_str().unwrap().starts_with("a job may not bring its own program"));
}

#[test]
fn mistakes_in_the_settings_are_told_before_anything_starts() {
    let told = |settings: &str| {
        let place = Place::new(settings);
        let output = punctual(place.path(), &["config", "check"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{settings}");
        text(&output.stderr).trim_end().to_owned()
    };
    assert_snapshot!(told("[commands.a]\nargv = [\"x\", \"{y}\"]"), @"error: commands.a: there is no parameter `y`; name its type in `params`, or write `{{y}}` for the braces themselves");
    assert_snapshot!(told("[commands.a]\nargv = [\"{y}\"]\nparams = { y = \"string\" }"), @"error: commands.a: which program runs is not for a parameter to say; name a command for each program");
    assert_snapshot!(told("[commands.a]\nargv = [\"x\"]\nparams = { y = \"string\" }"), @"error: commands.a: the parameter `y` is used nowhere; put `{y}` in argv, or leave it out");
    assert_snapshot!(told("[commands.a]\nargv = [\"x\", \"{y\"]"), @"error: commands.a: `{y` has a brace without its other; write `{{` or `}}` for the brace itself");
    assert_snapshot!(told("[commands.a]\nargv = [\"x | y\"]\nshell = true"), @"error: commands.a: it uses a shell, and `command.allow_shell` is false; allow it, or give the program and its arguments one by one");
    assert_snapshot!(told("[command]\nallow_shell = true\n[commands.a]\nargv = [\"x {y}\"]\nshell = true\nparams = { y = \"string\" }"), @r#"error: commands.a: a parameter within the text of a shell would be read as shell; give it as a further argument and write "$1""#);
    assert_snapshot!(told("[command]\nallow_shell = true\n[commands.a]\nargv = [\"x secret://y\"]\nshell = true"), @r#"error: commands.a: a secret within the text of a shell would be read as shell; put it in `env` as NAME and write "$NAME""#);
    assert_snapshot!(told("[command]\nkill_grace = \"1m\""), @"error: command.kill_grace is 1m; the most is 3500ms, since a worker that is out of touch has to end its work before others take it");
    assert_snapshot!(told("[command]\nlimits = { memory_bytes = 1000 }"), @"error: command.limits.memory_bytes is 1000; the least is 268435456, which is what it takes to start a program");
    assert_snapshot!(told("[secrets]\n\"a b\" = { env = \"X\" }"), @"error: secrets: `a b` is no name for a secret; use letters, digits, `_` and `-`");
}
