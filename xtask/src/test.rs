//! `cargo xtask test`: everything the tests need, then the tests.

use std::path::PathBuf;
use std::process::Command;

use crate::browser;
use crate::failure::Failure;
use crate::needs::{FAKETIME, IPROUTE, PYTHON};
use crate::newer_postgres;
use crate::pgbouncer::{self, Pooler};
use crate::postgres::{self, Care, Server};
use crate::run::{self, cargo};

/// Whether cargo may bring `Cargo.lock` up to date.
#[derive(Clone, Copy)]
pub(crate) enum Lockfile {
    MayChange,
    MustBeCurrent,
}

/// Runs the tests of the workspace, or with `args` those that the test runner picks by them.
pub(crate) fn test(lockfile: Lockfile, args: &[&str]) -> Result<(), Failure> {
    for need in [FAKETIME, IPROUTE, PYTHON] {
        need.ensure()?;
    }
    let servers = Servers::start(Care::AsTestsNeed)?;
    // Only the server's tests need it, and it takes half a minute to install.
    let axe = needs_browser(args).then(browser::ensure).transpose()?;
    let has_nextest = run::ask(&mut cargo(["nextest", "--version"])).is_ok();
    for mut runner in runners(has_nextest, args) {
        if matches!(lockfile, Lockfile::MustBeCurrent) {
            runner.arg("--locked");
        }
        runner.args(args);
        servers.tell(&mut runner)?;
        if let Some(axe) = &axe {
            runner.env(browser::AXE, axe);
        }
        run::run(&runner)?;
    }
    if args.is_empty() {
        newer_postgres::test_plans(has_nextest)?;
        for example in EXAMPLES {
            run::run(&Command::new(built_example(example)?))?;
        }
    }
    Ok(())
}

/// Where an example is. The tests have built it; asked for by itself, with other features of what it
/// depends on, everything would be built again.
fn built_example(name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(Failure::on("find the target directory"))?;
    Ok(own.with_file_name("examples").join(name))
}

/// Are the tests of the dashboard among those that are picked?
fn needs_browser(args: &[&str]) -> bool {
    let packages: Vec<&str> = args
        .windows(2)
        .filter_map(|two| ["-p", "--package"].contains(&two[0]).then_some(two[1]))
        .collect();
    packages.is_empty() || packages.contains(&"punctual-server")
}

/// The examples of the library: each shows something, checks it, and ends.
const EXAMPLES: &[&str] = &[
    "first_job",
    "quickstart",
    "axum_signup",
    "schedules",
    "testing",
    "layers",
    "checkpoints",
    "exactly_once",
];

/// The test whether the simulator still finds bugs. Asked for as part of the workspace, it shares
/// what was built for the others.
const PLANTED: &str = "test --workspace --features punctual-sim/planted-bugs --test planted";

/// The servers that the tests use. They end with this value, the pooler first.
pub(crate) struct Servers {
    pooler: Pooler,
    server: Server,
}

impl Servers {
    pub(crate) fn start(care: Care) -> Result<Self, Failure> {
        let server = Server::given_or_new(care)?;
        let pooler = Pooler::given_or_new(&server)?;
        eprintln!("the tests use {server}\nand {pooler}");
        Ok(Self { pooler, server })
    }

    /// Tells a program where they are.
    pub(crate) fn tell(&self, program: &mut Command) -> Result<(), Failure> {
        program.env(postgres::URL, &self.server.url).env(pgbouncer::URL, &self.pooler.url);
        if let Some(dir) = &self.server.bindir {
            program.env("PATH", run::path_starting_with(dir)?);
        }
        Ok(())
    }
}

/// Nextest runs each test in a process of its own, but no documentation tests. These it leaves to
/// `cargo test`, to which `args` meant for nextest would mean nothing.
fn runners(nextest: bool, args: &[&str]) -> Vec<Command> {
    let package_is_chosen =
        args.iter().any(|arg| arg.starts_with("-p") || arg.starts_with("--package"));
    let whole: &[&str] = if package_is_chosen { &[] } else { &["--workspace"] };
    let runner = |command: &[&'static str]| cargo(command.iter().chain(whole).copied());
    let mut runners = match (nextest, args) {
        (false, _) => vec![runner(&["test"])],
        (true, []) => vec![runner(&["nextest", "run"]), runner(&["test", "--doc"])],
        (true, _) => vec![runner(&["nextest", "run"])],
    };
    if args.is_empty() {
        // Bugs that are planted change what they are planted in, so they are built apart.
        runners.push(cargo(PLANTED.split(' ')));
    }
    runners
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nextest: bool, args: &[&str], expected: &[&str]) {
        let lines: Vec<String> = runners(nextest, args).iter().map(run::line).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn documentation_tests_run_with_and_without_nextest() {
        let planted = format!("cargo {PLANTED}");
        let (tests, docs) = ("cargo nextest run --workspace", "cargo test --doc --workspace");
        check(true, &[], &[tests, docs, &planted]);
        check(false, &[], &["cargo test --workspace", &planted]);
    }

    #[test]
    fn every_example_runs() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/punctual/examples");
        let files = std::fs::read_dir(directory).expect("there are examples");
        let mut names: Vec<String> = files
            .map(|file| file.expect("it can be read").path())
            .map(|path| path.file_stem().expect("it has a name").to_string_lossy().into_owned())
            .collect();
        let mut known: Vec<&str> = EXAMPLES.to_vec();
        names.sort();
        known.sort();
        assert_eq!(names, known);
    }

    #[test]
    fn arguments_go_to_one_runner() {
        check(true, &["-E", "test(x)"], &["cargo nextest run --workspace"]);
        check(false, &["some_test"], &["cargo test --workspace"]);
    }

    #[test]
    fn the_browser_is_for_the_tests_of_the_server() {
        assert!(needs_browser(&[]) && needs_browser(&["-p", "punctual-server"]));
        assert!(!needs_browser(&["-p", "punctual-core", "-E", "test(x)"]));
    }

    #[test]
    fn a_package_is_not_drowned_in_the_workspace() {
        check(true, &["-p", "xtask"], &["cargo nextest run"]);
        check(false, &["--package=xtask"], &["cargo test"]);
    }
}
