//! `cargo xtask ci`: everything a change must pass, in the order of what fails soonest.

use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::run::{cargo, run};
use crate::test::Lockfile;
use crate::{deny, test, tidy};

type Step = (&'static str, fn() -> Result<(), Failure>);

const STEPS: &[Step] = &[
    ("format", || run(&cargo(["fmt", "--all", "--check"]))),
    ("tidy", tidy::tidy),
    ("clippy", || {
        // The planted bugs are in libraries, and one test looks for them.
        for what in ["--all-targets", "--features=punctual-sim/planted-bugs --lib --test planted"] {
            let mut clippy = cargo(["clippy", "--workspace", "--locked"]);
            run(clippy.args(what.split(' ')).args(["--", "-D", "warnings"]))?;
        }
        Ok(())
    }),
    ("features", || {
        for features in FEATURES {
            let mut clippy =
                cargo(["clippy", "-p", "punctual", "--locked", "--no-default-features"]);
            run(clippy.args(["--features", features, "--", "-D", "warnings"]))?;
        }
        Ok(())
    }),
    ("doc", || {
        let mut doc = cargo(["doc", "--workspace", "--no-deps", "--locked"]);
        run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    }),
    ("test", || test::test(Lockfile::MustBeCurrent, &[])),
    ("deny", deny::deny),
];

/// What people may choose of the library: the least of it, one database without sqlx, and the other
/// with it. The rest of CI builds it whole.
const FEATURES: &[&str] = &["", "derive,testing", "sqlite", "postgres,sqlx"];

/// Runs the steps until one fails, then says how long each took.
pub(crate) fn ci() -> Result<(), Failure> {
    let mut report = String::new();
    let outcome = STEPS.iter().try_for_each(|(name, step)| {
        eprintln!("\n── {name}");
        let (outcome, took) = timed(step);
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        report.push_str(&format!("{name:<8} {:>7.1} s  {verdict}\n", took.as_secs_f64()));
        outcome.map_err(|failure| match failure {
            Failure::Failed(what) => Failure::Failed(format!("ci failed at {name}: {what}")),
            failure => failure,
        })
    });
    eprintln!("\n── seconds\n{report}");
    outcome
}

#[expect(clippy::disallowed_methods, reason = "the duration of a step is only displayed")]
fn timed<T>(step: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = step();
    (value, start.elapsed())
}
