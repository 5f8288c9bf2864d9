//! From what a job says and what the configuration allows to what is run.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use punctual_secrets::Secrets;

use crate::commands::{Known, Prepared};
use crate::config::Param;
use crate::limit::Limits;
use crate::payload::Command;
use crate::template::{Part, Template, fill};
use crate::users;
use crate::wire::Spec;

/// The shell of those who have to have one.
const SHELL: &str = "/bin/sh";

/// Why a command is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) text: String,
    /// Will another attempt be refused, too?
    pub(crate) is_final: bool,
}

/// What is to be run, as far as it can be said without looking at the machine.
#[derive(Debug, PartialEq)]
pub(crate) struct Wanted {
    argv: Vec<Argument>,
    shell: bool,
    env: BTreeMap<String, String>,
    cwd: PathBuf,
    user: Option<String>,
    group: Option<String>,
    stdin: Option<String>,
    success_codes: Vec<i32>,
    retry_codes: Option<Vec<i32>>,
    limits: Limits,
}

/// An argument in parts: what the configuration or a trusted job says may refer to secrets, what is
/// put in a place never does.
type Argument = Vec<(String, Trust)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    MayRefer,
    Data,
}

/// What is run, and what its end means.
pub(crate) struct Plan {
    pub(crate) spec: Spec,
    pub(crate) success_codes: Vec<i32>,
    pub(crate) retry_codes: Option<Vec<i32>>,
}

fn never(text: impl Into<String>) -> Refusal {
    Refusal { text: text.into(), is_final: true }
}

/// Another worker, or this one when somebody has mended it, may do better.
fn not_here(text: impl Into<String>) -> Refusal {
    Refusal { text: text.into(), is_final: false }
}

/// What a job wants, if it may.
pub(crate) fn resolve(known: &Known, job: &Command) -> Result<Wanted, Refusal> {
    match &job.name {
        Some(name) => {
            let Some(prepared) = known.named.get(name) else {
                return Err(not_here(unknown(known, name)));
            };
            of_name(known, name, prepared, job)
                .map_err(|error| never(format!("command `{name}`: {error}")))
        }
        None => of_argv(known, job).map_err(never),
    }
}

fn unknown(known: &Known, name: &str) -> String {
    let names: Vec<&str> = known.named.keys().map(String::as_str).collect();
    let hint = match punctual_core::nearest(name, names.iter().copied()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if names.is_empty() => {
            format!("add `[commands.{name}]` to the worker's configuration")
        }
        None => format!(
            "expected one of {}; to define it, add `[commands.{name}]` to the worker's \
             configuration",
            names.join(", ")
        ),
    };
    format!("unknown command `{name}`; {hint}")
}

fn of_name(
    known: &Known,
    name: &str,
    Prepared { argv, named, patterns }: &Prepared,
    job: &Command,
) -> Result<Wanted, String> {
    let own = [
        ("argv", !job.argv.is_empty()),
        ("shell", job.shell),
        ("env", !job.env.is_empty()),
        ("cwd", job.cwd.is_some()),
        ("user", job.user.is_some()),
        ("group", job.group.is_some()),
        ("success_codes", !job.success_codes.is_empty()),
        ("retry_codes", job.retry_codes.is_some()),
    ];
    if let Some((field, _)) = own.iter().find(|(_, is_given)| *is_given) {
        return Err(format!(
            "`{field}` cannot be set for a named command; remove it, or change `[commands.{name}]`"
        ));
    }
    if job.stdin.is_some() && !named.stdin {
        return Err(format!(
            "`stdin` is not accepted; remove it, or set `stdin = true` in `[commands.{name}]`"
        ));
    }
    let values = fill(&named.params, patterns, &job.params)?;
    let mut are_options_over = named.shell;
    let mut filled = Vec::new();
    for template in argv {
        filled.push(argument(template, &named.params, &values, are_options_over)?);
        are_options_over |= template.parts() == [Part::Text("--".to_owned())];
    }
    Ok(Wanted {
        argv: filled,
        shell: named.shell,
        env: named.env.clone(),
        cwd: named.cwd.clone().unwrap_or_else(|| known.config.cwd.clone()),
        user: named.user.clone(),
        group: named.group.clone(),
        stdin: job.stdin.clone(),
        success_codes: named.success_codes.clone(),
        retry_codes: named.retry_codes.clone(),
        limits: named.limits.over(known.config.limits),
    })
}

fn argument(
    template: &Template,
    params: &BTreeMap<String, Param>,
    values: &BTreeMap<String, String>,
    are_options_over: bool,
) -> Result<Argument, String> {
    let mut filled = Argument::new();
    for part in template.parts() {
        let (name, value) = match part {
            Part::Text(text) => {
                filled.push((text.clone(), Trust::MayRefer));
                continue;
            }
            Part::Place(name) => {
                (name, values.get(name).ok_or(format!("unknown parameter `{name}`"))?)
            }
        };
        // What is before it may be there and yet be empty.
        let is_first = filled.iter().all(|(before, _)| before.is_empty());
        let is_number = params.get(name).is_some_and(Param::is_number);
        if is_first && value.starts_with('-') && !is_number && !are_options_over {
            return Err(format!(
                "parameter `{name}` is `{value}`, which the program would read as an option; put \
                 `--` before it in the command's `argv` if the program supports this"
            ));
        }
        filled.push((value.clone(), Trust::Data));
    }
    Ok(filled)
}

fn of_argv(known: &Known, job: &Command) -> Result<Wanted, String> {
    let config = &known.config;
    if job.argv.first().is_none_or(String::is_empty) {
        return Err("missing command; set `name`, or `argv` if the worker allows it".to_owned());
    }
    if !config.allow_api_argv {
        return Err("`argv` is not allowed on this worker; use `name` with a command from its \
            configuration, or set `command.allow_api_argv = true` (any client that can enqueue \
            can then run any program)"
            .to_owned());
    }
    if job.shell && !config.allow_shell {
        return Err(
            "`shell` is not allowed on this worker; pass the program and its arguments as a list, \
             or set `command.allow_shell = true`"
                .to_owned(),
        );
    }
    check_script(job.shell, &job.argv)?;
    if !job.params.is_empty() {
        return Err("`params` requires `name`; put the values in `argv`".to_owned());
    }
    if let Some(user) = &job.user {
        let asked = match &job.group {
            Some(group) => format!("{user}:{group}"),
            None => user.clone(),
        };
        if !config.users.contains(&asked) {
            return Err(format!(
                "running as `{asked}` is not allowed on this worker; remove `user`, or add \
                 `{asked}` to `command.users`"
            ));
        }
    } else if job.group.is_some() {
        return Err("`group` requires `user`; set both, or remove `group`".to_owned());
    }
    check_variables(&job.env)?;
    if job.argv.iter().any(|argument| argument.contains('\0')) {
        return Err("an argument contains a NUL byte; remove it".to_owned());
    }
    Ok(Wanted {
        argv: job.argv.iter().map(|text| vec![(text.clone(), Trust::MayRefer)]).collect(),
        shell: job.shell,
        env: job.env.clone(),
        cwd: job.cwd.clone().unwrap_or_else(|| config.cwd.clone()),
        user: job.user.clone(),
        group: job.group.clone(),
        stdin: job.stdin.clone(),
        success_codes: job.success_codes.clone(),
        retry_codes: job.retry_codes.clone(),
        limits: config.limits,
    })
}

/// What is put in the text of a shell is run as shell, and a secret may be any text.
pub(crate) fn check_script(shell: bool, argv: &[String]) -> Result<(), String> {
    match argv.first() {
        Some(script) if shell && Secrets::is_reference(script) => {
            Err("a secret is not allowed in the text of a shell command, because the shell would \
                execute it; put it in `env` as NAME and use \"$NAME\""
                .to_owned())
        }
        _ => Ok(()),
    }
}

/// Names that no variable can have, and those that are ours.
pub(crate) fn check_variables(env: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!(
                "invalid environment variable name `{}`; it must not be empty or contain `=` or \
                 NUL",
                name.escape_debug()
            ));
        }
        if name.starts_with("PUNCTUAL_") {
            return Err(format!(
                "environment variable `{name}` is reserved (prefix PUNCTUAL_); use another name"
            ));
        }
        if value.contains('\0') {
            return Err(format!("environment variable `{name}` contains a NUL byte; remove it"));
        }
    }
    Ok(())
}

/// All that the shim needs, with secrets in it, as this machine has it.
pub(crate) fn plan(
    known: &Known,
    job: &Command,
    variables: Vec<(&'static str, String)>,
) -> Result<Plan, Refusal> {
    let wanted = resolve(known, job)?;
    let secrets = &known.secrets;
    let mut args = Vec::new();
    for argument in &wanted.argv {
        args.push(expose(secrets, argument)?);
    }
    let (program, args) = match wanted.shell {
        // What stands where the name of the script would.
        true => {
            let script = args.remove(0);
            let before = ["-c".to_owned(), script, "sh".to_owned()];
            (PathBuf::from(SHELL), before.into_iter().chain(args).collect())
        }
        false => {
            let name = args.remove(0);
            (program(&name, &known.config.search_path).map_err(not_here)?, args)
        }
    };
    let mut env = inherited(known);
    let become_ids = identity(&wanted, &mut env).map_err(not_here)?;
    for (name, value) in &wanted.env {
        let value = secrets.resolve(value).map_err(|error| not_here(error.to_string()))?;
        env.insert(name.clone(), value.into_exposed());
    }
    env.extend(variables.into_iter().map(|(name, value)| (name.to_owned(), value)));
    let stdin = match &wanted.stdin {
        // Of a named command it is data from whoever enqueued the job.
        Some(text) if job.name.is_none() => {
            let text = secrets.resolve(text).map_err(|error| not_here(error.to_string()))?;
            Some(text.into_exposed())
        }
        stdin => stdin.clone(),
    };
    let spec = Spec {
        program,
        args,
        env,
        cwd: wanted.cwd,
        become_ids,
        stdin,
        limits: wanted.limits,
        new_privileges: known.config.new_privileges,
    };
    let success_codes = match wanted.success_codes.is_empty() {
        true => vec![0],
        false => wanted.success_codes,
    };
    Ok(Plan { spec, success_codes, retry_codes: wanted.retry_codes })
}

fn expose(secrets: &Secrets, argument: &Argument) -> Result<String, Refusal> {
    let mut whole = String::new();
    for (text, trust) in argument {
        match trust {
            Trust::Data => whole.push_str(text),
            Trust::MayRefer => {
                let text = secrets.resolve(text).map_err(|error| not_here(error.to_string()))?;
                whole.push_str(text.expose());
            }
        }
    }
    Ok(whole)
}

/// The variables of the worker that a command may have, and where it finds programs.
fn inherited(known: &Known) -> BTreeMap<String, String> {
    let allowed = known.config.env.iter();
    let mut env: BTreeMap<String, String> =
        allowed.filter_map(|name| Some((name.clone(), std::env::var(name).ok()?))).collect();
    let path: Vec<String> =
        known.config.search_path.iter().map(|directory| directory.display().to_string()).collect();
    env.entry("PATH".to_owned()).or_insert(path.join(":"));
    env
}

/// Whom to become, if somebody else than the worker is.
fn identity(
    wanted: &Wanted,
    env: &mut BTreeMap<String, String>,
) -> Result<Option<(u32, u32)>, String> {
    let Some(name) = &wanted.user else { return Ok(None) };
    let user = users::user(name)?;
    let gid = wanted.group.as_deref().map(users::group).transpose()?.unwrap_or(user.gid);
    for (variable, value) in [("HOME", &user.home), ("USER", &user.name), ("LOGNAME", &user.name)] {
        env.insert(variable.to_owned(), value.clone());
    }
    match own_ids() {
        own if own == (user.uid, gid) => Ok(None),
        (0, _) => Ok(Some((user.uid, gid))),
        (uid, _) => Err(format!(
            "the worker runs as user id {uid} and cannot switch to `{name}`; run the worker as \
             root, or remove `user`"
        )),
    }
}

#[cfg(target_os = "linux")]
fn own_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

#[cfg(not(target_os = "linux"))]
fn own_ids() -> (u32, u32) {
    (u32::MAX, u32::MAX)
}

/// The program of that name: as it is said, or the first on the search path.
fn program(name: &str, search_path: &[PathBuf]) -> Result<PathBuf, String> {
    if Path::new(name).is_absolute() {
        return Ok(PathBuf::from(name));
    }
    if name.contains('/') {
        return Err(format!(
            "program `{name}` is a relative path; use an absolute path, or only the file name"
        ));
    }
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let found = search_path.iter().map(|directory| directory.join(name)).find(is_program);
    found.ok_or_else(|| {
        let directories: Vec<String> =
            search_path.iter().map(|directory| directory.display().to_string()).collect();
        format!(
            "program `{name}` not found in {} on this worker; install it, use its absolute path, \
             or add its directory to `command.search_path`",
            directories.join(", ")
        )
    })
}
