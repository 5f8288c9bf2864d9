//! `cargo xtask prove compare REV NAME`: runs a benchmark with the build of a revision and with this
//! tree in turn, and compares their figures.
//!
//! The revision is checked out as a git worktree below the target directory and removed at the end; its
//! build artifacts are kept for the next comparison. The order is old, new, new, old, so that a machine
//! that slowly becomes busier or hotter affects both builds alike.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::run::{self, cargo};

/// Number of runs of each build, unless given.
const ROUNDS: usize = 3;

/// Lowest acceptable ratio of new to old, unless given.
const GOAL: &str = "0.98";

/// Arguments of the comparison.
#[derive(Debug, PartialEq)]
struct Request<'a> {
    revision: &'a str,
    benchmark: &'a str,
    rounds: usize,
    goal: &'a str,
    /// Arguments for the benchmark itself.
    rest: Vec<&'a str>,
}

impl<'a> Request<'a> {
    fn parse(args: &[&'a str]) -> Result<Self, Failure> {
        let usage = |what: &str| Failure::Usage(what.to_owned());
        let (mut rounds, mut goal, mut rest) = (ROUNDS, GOAL, Vec::new());
        let mut names = Vec::new();
        let mut args = args.iter().copied();
        while let Some(arg) = args.next() {
            match arg {
                "--rounds" => {
                    let given = args.next().and_then(|rounds| rounds.parse().ok());
                    // One pair has no spread, so a single round cannot show a miss.
                    rounds = given
                        .filter(|rounds| *rounds >= 2)
                        .ok_or_else(|| usage("`--rounds` requires a whole number of at least 2"))?;
                }
                "--goal" => {
                    let given = args.next().filter(|goal| goal.parse().is_ok_and(f64::is_finite));
                    goal = given.ok_or_else(|| usage("`--goal` requires a number such as 0.98"))?;
                }
                "--" => rest.extend(args.by_ref()),
                _ if arg.starts_with('-') => {
                    return Err(Failure::Usage(format!("unknown option `{arg}`")));
                }
                name => names.push(name),
            }
        }
        let [revision, benchmark] = names[..] else {
            return Err(usage("`prove compare` requires a revision and the name of a benchmark"));
        };
        Ok(Self { revision, benchmark, rounds, goal, rest })
    }

    /// The command that runs the benchmark in the tree at `directory` and prints its line of JSON.
    fn command(&self, directory: &Path) -> Command {
        let mut program = cargo(["xtask", "prove", self.benchmark]);
        if !self.rest.is_empty() {
            program.arg("--").args(&self.rest);
        }
        program.current_dir(directory);
        program
    }
}

/// Which of the two builds runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    Old,
    New,
}

impl Build {
    fn name(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
        }
    }
}

/// Old, new, new, old, and so on: each round has one run of both.
fn order(rounds: usize) -> impl Iterator<Item = Build> {
    (0..rounds).flat_map(|round| match round % 2 {
        0 => [Build::Old, Build::New],
        _ => [Build::New, Build::Old],
    })
}

/// Runs the comparison that `args` describe and prints its result.
pub(crate) fn compare(args: &[&str]) -> Result<(), Failure> {
    let request = Request::parse(args)?;
    let worktree = Worktree::add(request.revision)?;
    let path = worktree.directory.with_extension("jsonl");
    let mut lines = String::new();
    for build in order(request.rounds) {
        let mut program = match build {
            Build::Old => request.command(&worktree.directory),
            Build::New => request.command(Path::new(".")),
        };
        if build == Build::Old {
            program.env("CARGO_TARGET_DIR", &worktree.target);
        }
        eprintln!("── {} build: {}", build.name(), request.benchmark);
        let json = run::ask_aloud(&mut program)?;
        lines.push_str(&format!("{{\"build\":\"{}\",\"result\":{json}}}\n", build.name()));
        // Written after each run, so that an interrupted comparison leaves its figures.
        fs::write(&path, &lines)
            .map_err(Failure::on(format_args!("write `{}`", path.display())))?;
    }
    let mut report =
        cargo(["run", "--release", "--quiet", "-p", "punctual-bench", "--", "compare"]);
    run::run(report.arg(&path).args(["--goal", request.goal]))
}

/// A checkout of a revision. Dropping it removes the checkout; its build artifacts stay.
struct Worktree {
    directory: PathBuf,
    target: PathBuf,
}

impl Worktree {
    fn add(revision: &str) -> Result<Self, Failure> {
        let name = format!("{revision}^{{commit}}");
        let mut resolve = git(["rev-parse", "--verify", "--short=12", &name]);
        let commit = run::ask(&mut resolve)
            .map_err(|_| Failure::Usage(format!("unknown revision `{revision}`")))?;
        let root = std::env::current_dir().map_err(Failure::on("find the workspace"))?;
        let root = root.join("target/compare");
        let worktree = Self { directory: root.join(&commit), target: root.join("target") };
        // A killed comparison leaves its checkout.
        worktree.remove();
        let directory = worktree.directory.display().to_string();
        run::ask(&mut git(["worktree", "add", "--detach", &directory, &commit]))?;
        Ok(worktree)
    }

    fn remove(&self) {
        let directory = self.directory.display().to_string();
        // Fails if there is no such checkout, which is the goal.
        let _ = run::ask(&mut git(["worktree", "remove", "--force", &directory]));
        let _ = fs::remove_dir_all(&self.directory);
        let _ = run::ask(&mut git(["worktree", "prune"]));
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        self.remove();
    }
}

fn git<const N: usize>(args: [&str; N]) -> Command {
    let mut git = Command::new("git");
    git.args(args);
    git
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_and_a_benchmark_are_required() {
        let request = Request::parse(&["main~1", "api-bench", "--rounds", "5"]).unwrap();
        let expected = Request {
            revision: "main~1",
            benchmark: "api-bench",
            rounds: 5,
            goal: GOAL,
            rest: Vec::new(),
        };
        assert_eq!(request, expected);
        let args = ["main", "api-bench", "--goal", "0.9", "--", "--slice-ms", "9"];
        assert_eq!(Request::parse(&args).unwrap().rest, ["--slice-ms", "9"]);
        for args in [
            &["main"][..],
            &[],
            &["main", "a", "b"],
            &["main", "a", "--rounds", "1"],
            &["main", "a", "--goal", "fast"],
            &["main", "a", "--goal", "nan"],
            &["main", "a", "--fast"],
        ] {
            assert!(matches!(Request::parse(args), Err(Failure::Usage(_))), "{args:?}");
        }
    }

    #[test]
    fn builds_alternate() {
        use Build::{New, Old};
        assert_eq!(order(3).collect::<Vec<_>>(), [Old, New, New, Old, Old, New]);
    }
}
