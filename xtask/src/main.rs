//! What the project does to itself, run as `cargo xtask …`: test, ci, prove, tidy.

mod browser;
mod ci;
mod compare;
mod deny;
mod failure;
mod guard;
mod needs;
mod newer_postgres;
mod pgbouncer;
mod postgres;
mod prove;
mod run;
mod test;
mod throwaway;
mod tidy;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use failure::Failure;

const USAGE: &str = "\
usage:
  cargo xtask test [-- ARGS]       run all tests against a temporary PostgreSQL server
                                   and a connection pooler;
                                   ARGS go to the test runner, e.g. `-- -p punctual-core`
  cargo xtask ci                   run every check that a change must pass
  cargo xtask prove [NAME] [--minutes N] [--list] [-- ARGS]
                                   run the full-size proofs and benchmarks, or only NAME;
                                   each prints one line of JSON; ARGS go to NAME
  cargo xtask prove compare REV NAME [--rounds N] [--goal RATIO] [-- ARGS]
                                   run the benchmark NAME with REV and with this tree in
                                   turn, and compare the figures; default: 3 rounds, 0.98
  cargo xtask tidy                 run quick text checks on every file
  cargo xtask help                 print this help";

fn main() -> ExitCode {
    match dispatch(env::args_os().skip(1).collect()) {
        Ok(code) => code,
        Err(failure) => {
            match &failure {
                Failure::Usage(what) => eprintln!("error: {what}\n\n{USAGE}"),
                Failure::Failed(what) => eprintln!("error: {what}"),
                Failure::Interrupted => eprintln!("interrupted"),
            }
            failure.exit_code()
        }
    }
}

fn dispatch(args: Vec<OsString>) -> Result<ExitCode, Failure> {
    // Not in the usage: xtask starts itself this way, and only so.
    if let [first, orders @ ..] = args.as_slice()
        && first == guard::COMMAND
    {
        return guard::guard(orders);
    }
    let args = args
        .into_iter()
        .map(|arg| arg.into_string().map_err(|arg| Failure::Usage(format!("{arg:?} is not UTF-8"))))
        .collect::<Result<Vec<_>, _>>()?;

    env::set_current_dir(workspace()).map_err(Failure::on("enter the workspace"))?;
    run::watch_signals()?;
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["help" | "--help" | "-h"] => println!("{USAGE}"),
        ["test"] => test::test(test::Lockfile::MayChange, &[])?,
        ["test", "--", args @ ..] => test::test(test::Lockfile::MayChange, args)?,
        ["test", ..] => {
            return Err(Failure::Usage("arguments for the test runner must follow `--`".into()));
        }
        ["ci"] => ci::ci()?,
        ["prove", "compare", args @ ..] => compare::compare(args)?,
        ["prove", args @ ..] => prove::prove(args)?,
        ["tidy"] => tidy::tidy()?,
        [command @ ("ci" | "tidy" | "help"), ..] => {
            return Err(Failure::Usage(format!("`{command}` takes no arguments")));
        }
        [command, ..] => return Err(Failure::Usage(format!("unknown command `{command}`"))),
    }
    Ok(ExitCode::SUCCESS)
}

/// The directory of the workspace: where cargo says xtask is now, else where it was compiled.
fn workspace() -> PathBuf {
    let xtask = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().map(Path::to_path_buf).unwrap_or(xtask)
}
