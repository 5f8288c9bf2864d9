//! Builds the rivals, outside of the source tree.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::rivals::Harness;
use crate::Failure;

/// Where our harnesses for them are.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

/// What has been built, or why not.
pub(super) struct Built {
    directory: PathBuf,
    /// The start of each command; what is common to several is built once.
    known: HashMap<String, Result<Vec<String>, String>>,
}

impl Built {
    /// Nothing is built yet; it will be in this directory.
    pub(super) fn new(directory: PathBuf) -> Result<Built, Failure> {
        fs::create_dir_all(&directory)?;
        Ok(Built { directory: directory.canonicalize()?, known: HashMap::new() })
    }

    /// How a harness is called, or why it cannot be.
    pub(super) fn command(&mut self, harness: Harness) -> Result<Vec<String>, String> {
        let (what, name) = match harness {
            Harness::Ours => ("ours", ""),
            Harness::Rust(package) => (package, ""),
            Harness::Node(name) => ("node", name),
            Harness::Python(name) => ("python", name),
        };
        if !self.known.contains_key(what) {
            eprintln!("build {what} …");
            let command = self.build(harness).map_err(|why| why.to_string());
            self.known.insert(what.to_owned(), command);
        }
        let mut command = self.known[what].clone()?;
        command.extend((!name.is_empty()).then(|| name.to_owned()));
        Ok(command)
    }

    fn cargo(&self, which: &[&str]) -> Result<(), Failure> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut build = Command::new(cargo);
        // What cargo tells us of ourselves would be news to their build scripts, which run again.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_") && name != "CARGO_HOME" {
                build.env_remove(name);
            }
        }
        build.args(["build", "--release", "--locked"]).args(which);
        build.arg("--target-dir").arg(self.directory.join("rust"));
        // Macros that check their statements would ask a database.
        build.env("SQLX_OFFLINE", "true").env_remove("DATABASE_URL");
        run(build.current_dir(Path::new(SOURCES).join("rust")))
    }

    fn build(&self, harness: Harness) -> Result<Vec<String>, Failure> {
        let here = |name: &str| self.directory.join(name);
        let words =
            |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
        match harness {
            Harness::Ours => {
                let ours = std::env::current_exe()?;
                Ok(vec![ours.display().to_string(), "peer".to_owned()])
            }
            Harness::Rust(package) => {
                // All at once, since features that they share would be built again for each; if
                // that fails, the one alone, for a reason that is its own.
                self.cargo(&["--workspace", "--keep-going"])
                    .or_else(|_| self.cargo(&["--package", package]))?;
                Ok(words(&[here("rust").join("release").join(package)]))
            }
            Harness::Node(_) => {
                // Modules are looked for beside the program, so it goes where they are.
                let folder = here("node");
                fs::create_dir_all(&folder)?;
                for file in ["package.json", "package-lock.json", "harness.mjs"] {
                    fs::copy(Path::new(SOURCES).join("node").join(file), folder.join(file))?;
                }
                run(Command::new("npm")
                    .args(["ci", "--no-audit", "--no-fund"])
                    .current_dir(&folder))?;
                // The newest ones need a newer Node than most machines have: it is a package, too.
                Ok(words(&[folder.join("node_modules/.bin/node"), folder.join("harness.mjs")]))
            }
            Harness::Python(_) => {
                let (venv, sources) = (here("python"), Path::new(SOURCES).join("python"));
                run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
                let mut install = Command::new(venv.join("bin/pip"));
                install.args([
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--requirement",
                ]);
                run(install.arg(sources.join("requirements.txt")))?;
                Ok(words(&[venv.join("bin/python"), sources.join("harness.py")]))
            }
        }
    }
}

/// Runs a program to its end; the reason why it failed is what it said last.
fn run(program: &mut Command) -> Result<(), Failure> {
    let name = program.get_program().display().to_string();
    let output = program
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run `{name}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(8)..].join("\n");
    Err(format!("`{name}` failed ({}): {last}", output.status).into())
}
