//! The `deny` step of ci: licences, sources and duplicates of what we depend on.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::failure::Failure;
use crate::run::{self, cargo, run};

/// The first cargo-deny that understands everything in `deny.toml`.
const OLDEST: (u32, u32) = (0, 18);

/// The version of cargo-deny that is built if none is installed.
const VERSION: &str = "0.20.2";

/// Runs cargo-deny, after building it if need be.
pub(crate) fn deny() -> Result<(), Failure> {
    let deny = cargo_deny()?;
    run(Command::new(&deny).args(["--locked", "check", "bans", "licenses", "sources"]))?;
    let database = advisory_database();
    // A fetch that failed leaves a lock behind and no directory.
    let has_one = |mut entries: fs::ReadDir| {
        entries.any(|entry| entry.is_ok_and(|entry| entry.path().is_dir()))
    };
    if fs::read_dir(&database).is_ok_and(has_one) {
        // Offline, so that the same commit passes or fails with or without a network.
        run(Command::new(&deny).args(["--frozen", "check", "advisories"]))
    } else {
        eprintln!(
            "advisories not checked: no advisory database in `{}`; run `cargo deny fetch`",
            database.display()
        );
        Ok(())
    }
}

fn cargo_deny() -> Result<PathBuf, Failure> {
    let tools = Path::new("target/tools");
    let ours = tools.join("bin/cargo-deny");
    if let Some(found) = [PathBuf::from("cargo-deny"), ours.clone()].into_iter().find(is_new_enough)
    {
        return Ok(found);
    }
    eprintln!("cargo-deny {}.{} or newer not found: building {VERSION}", OLDEST.0, OLDEST.1);
    let build = Path::new("target/tools-build");
    // Not optimised: that would take longer than all it will ever do here.
    let mut install = cargo(["install", "cargo-deny", "--version", VERSION, "--locked", "--debug"]);
    run(install.arg("--root").arg(tools).env("CARGO_TARGET_DIR", build))?;
    // A gigabyte that is of no further use; if it stays, nothing is wrong but the space.
    let _ = fs::remove_dir_all(build);
    Ok(ours)
}

fn is_new_enough(cargo_deny: &PathBuf) -> bool {
    run::ask(Command::new(cargo_deny).arg("--version"))
        .is_ok_and(|printed| version(&printed) >= Some(OLDEST))
}

fn version(printed: &str) -> Option<(u32, u32)> {
    let mut numbers = printed.strip_prefix("cargo-deny ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The default location of the advisory database of cargo-deny.
fn advisory_database() -> PathBuf {
    env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cargo")))
        .unwrap_or_default()
        .join("advisory-dbs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert_eq!(version("cargo-deny 0.20.2"), Some((0, 20)));
        assert!(version("cargo-deny 0.9.1") < Some(OLDEST));
        assert!(version("cargo-deny 1.0.0") > Some(OLDEST));
        assert_eq!(version("cargo-audit 0.20.2"), None);
    }
}
