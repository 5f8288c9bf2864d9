//! The browser that the tests look at the dashboard with, and the engine that looks for barriers in
//! its pages. Neither is part of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::failure::Failure;
use crate::needs::{CHROMIUM, NPM};
use crate::run;

/// The environment variable that tells the tests where the engine is.
pub(crate) const AXE: &str = "AXE_JS";

/// The engine, of one version, so that a new rule fails no old commit.
const PACKAGE: &str = "axe-core@4.14.0";

/// Finds or installs the browser, and answers with the path of the engine.
pub(crate) fn ensure() -> Result<PathBuf, Failure> {
    CHROMIUM.ensure()?;
    match env::var_os(AXE) {
        Some(path) if !path.is_empty() => Ok(path.into()),
        _ => fetch(&scratch()),
    }
}

/// A temporary folder in the target directory.
fn scratch() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target")).join("axe")
}

fn fetch(dir: &Path) -> Result<PathBuf, Failure> {
    let engine = dir.join("package/axe.min.js");
    if engine.is_file() {
        return Ok(engine);
    }
    let npm = NPM.ensure()?;
    fs::create_dir_all(dir).map_err(Failure::on(format_args!("create `{}`", dir.display())))?;
    let mut pack = Command::new(npm);
    let packed = run::ask(pack.args(["pack", "--silent", PACKAGE]).current_dir(dir))?;
    let file = packed.lines().last().unwrap_or_default().trim().to_owned();
    run::run(Command::new("tar").args(["-xzf", &file]).current_dir(dir))?;
    match engine.is_file() {
        true => Ok(engine),
        false => Err(Failure::Failed(format!(
            "axe.min.js not found in {PACKAGE}; set {AXE} to the path of a copy"
        ))),
    }
}
