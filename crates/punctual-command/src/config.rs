//! What a worker is told about commands.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limit::Limits;

/// The longest that a command may take to end when it is asked to. A node that is out of touch has to
/// be done with its work before others take it.
const KILL_GRACE_MAX: Duration = Duration::from_millis(3_500);

/// What of an attempt's output can be logged: a little less than the log of an attempt takes, so that
/// what is said about the rest is in it.
const LOG_BYTES_MAX: usize = 1_000_000;

/// The most of the last output that is kept with the end, for each stream: twice this fits in a result.
const TAIL_BYTES_MAX: usize = 12 << 10;

/// How commands run, all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where programs are looked for that are named without a directory; `PATH` for the program.
    pub search_path: Vec<PathBuf>,
    /// Variables of the worker that commands are given.
    pub env: Vec<String>,
    /// Where they run unless they say.
    pub cwd: PathBuf,
    /// Whom a job may ask to run as: `user` or `user:group`. Commands of the configuration need not
    /// be here.
    pub users: Vec<String>,
    /// May a job bring any program? Whoever can enqueue one can then do all that the worker can.
    pub allow_api_argv: bool,
    /// May a shell be used at all?
    pub allow_shell: bool,
    /// May a program gain rights that the worker has not, as with sudo?
    pub new_privileges: bool,
    /// From TERM to KILL.
    pub kill_grace: String,
    /// How much of the output of an attempt goes to the log.
    pub log_bytes: usize,
    /// How much of the end of each stream is kept with the attempt.
    pub tail_bytes: usize,
    /// What a program may use.
    pub limits: Limits,
}

/// A command of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The program and its arguments; `{name}` stands for a parameter.
    pub argv: Vec<String>,
    /// Its parameters.
    #[serde(default)]
    pub params: BTreeMap<String, Param>,
    /// Is the first of `argv` a text for `/bin/sh`?
    #[serde(default)]
    pub shell: bool,
    /// Variables beside those that every command has.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where it runs.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// As whom it runs.
    #[serde(default)]
    pub user: Option<String>,
    /// With which group.
    #[serde(default)]
    pub group: Option<String>,
    /// May a job give it something to read?
    #[serde(default)]
    pub stdin: bool,
    /// Exit codes that mean success; 0 unless they are said.
    #[serde(default)]
    pub success_codes: Vec<i32>,
    /// The only exit codes after which another attempt is worth while; all unless they are said.
    #[serde(default)]
    pub retry_codes: Option<Vec<i32>>,
    /// What it may use; what is not set is as for all commands.
    #[serde(default)]
    pub limits: Limits,
}

/// What a parameter may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "invalid parameter; expected string, integer, number or boolean, or a table with \
        `type`, `default`, `values` and `pattern`"
)]
pub enum Param {
    /// Anything of this type.
    Any(Type),
    /// More than that.
    Full(Full),
}

/// A parameter, in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Full {
    /// Its type.
    #[serde(rename = "type")]
    pub of: Type,
    /// What it is if a job does not say.
    #[serde(default)]
    pub default: Option<Value>,
    /// All that it may be.
    #[serde(default)]
    pub values: Option<Vec<Value>>,
    /// A regular expression that the whole of a text must match.
    #[serde(default)]
    pub pattern: Option<String>,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
}

impl Default for Config {
    fn default() -> Config {
        let directories =
            ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];
        Config {
            search_path: directories.map(PathBuf::from).to_vec(),
            env: ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "TZ", "USER"]
                .map(str::to_owned)
                .to_vec(),
            cwd: "/".into(),
            users: Vec::new(),
            allow_api_argv: false,
            allow_shell: false,
            new_privileges: false,
            kill_grace: "2s".to_owned(),
            log_bytes: 512 << 10,
            tail_bytes: 4 << 10,
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// From TERM to KILL.
    pub fn kill_grace(&self) -> Result<Duration, String> {
        let grace = punctual_core::parse_duration(&self.kill_grace)
            .map_err(|error| format!("command.kill_grace: {error}"))?;
        match grace <= KILL_GRACE_MAX {
            true => Ok(grace),
            false => Err(format!(
                "command.kill_grace must be at most 3500ms, got {}; a worker that loses contact \
                 with the database must stop its commands before their jobs are reclaimed",
                self.kill_grace
            )),
        }
    }

    /// Says what cannot be, and what would.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.kill_grace()?;
        if let Some(directory) = self.search_path.iter().find(|directory| !directory.is_absolute())
        {
            return Err(format!(
                "command.search_path: `{}` is not an absolute path; start it with `/`",
                directory.display()
            ));
        }
        if !self.cwd.is_absolute() {
            return Err(format!(
                "command.cwd: `{}` is not an absolute path; start it with `/`",
                self.cwd.display()
            ));
        }
        if self.log_bytes > LOG_BYTES_MAX {
            return Err(format!(
                "command.log_bytes must be at most {LOG_BYTES_MAX} (the size of an attempt's \
                 log), got {}",
                self.log_bytes
            ));
        }
        if self.tail_bytes > TAIL_BYTES_MAX {
            return Err(format!(
                "command.tail_bytes must be at most {TAIL_BYTES_MAX} (the output kept with an \
                 attempt), got {}",
                self.tail_bytes
            ));
        }
        self.limits.check("command.limits")
    }
}
