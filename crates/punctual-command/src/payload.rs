//! What a job of kind `command` says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use punctual::Job;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A program to run: a named command of the worker's configuration with its parameters, or, where
/// that is allowed, any program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Job)]
#[job(kind = "command")]
#[serde(default, deny_unknown_fields)]
pub struct Command {
    /// The command, as the configuration names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its parameters.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    /// Any program and its arguments, instead of a name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// Is the first of `argv` a text for `/bin/sh`, and are the others its `$1`, `$2`, …?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
    /// Variables beside those that every command has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// As whom it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// With which group; that of the user unless it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What it reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Exit codes that mean success; 0 unless they are said.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub success_codes: Vec<i32>,
    /// The only exit codes after which another attempt is worth while; all unless they are said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_codes: Option<Vec<i32>>,
}
