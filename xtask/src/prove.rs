//! `cargo xtask prove`: the full-size proofs and benches, one line of JSON each.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::guard::Orders;
use crate::needs::{self, Need};
use crate::postgres::Care;
use crate::run::{self, Guarded, cargo};
use crate::test::Servers;

/// A program that prints exactly one line of JSON which begins with `MARK`.
struct Proof {
    name: &'static str,
    about: &'static str,
    /// What cargo is to do, separated by blanks.
    cargo: &'static str,
    /// The environment variable that sets its size, and the full size.
    size: Option<(&'static str, u32)>,
    /// Can it also run for a given time instead?
    timed: bool,
    /// Does it need PostgreSQL, and a pooler before it?
    on_postgres: bool,
}

const PROOFS: &[Proof] = &[
    Proof {
        name: "cron",
        about: "a million random schedules, each checked against an independent oracle",
        cargo: "test --release -p punctual-core --test proof_cron -- --nocapture",
        size: Some(("PUNCTUAL_PROOF_CASES", 1_000_000)),
        timed: true,
        on_postgres: false,
    },
    Proof {
        name: "cron-bench",
        about: "speed of parsing expressions and of finding their slots",
        cargo: "bench -p punctual-core --bench cron -- --json",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "store",
        about: "5,000 random command sequences: SQLite compared with the reference model",
        cargo: "test --release -p punctual-sqlite --test conformance -- --nocapture random_commands",
        size: Some(("PUNCTUAL_PROOF_CASES", 5_000)),
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "sqlite-plans",
        about: "query plans of the hot statements, with a million jobs",
        cargo: "test --release -p punctual-sqlite --lib -- --nocapture hot_statements",
        size: Some(("PUNCTUAL_PROOF_ROWS", 1_000_000)),
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "pg-store",
        about: "5,000 random command sequences: PostgreSQL, direct and pooled, compared with the \
            model",
        cargo: "test --release -p punctual-postgres --test conformance -- --nocapture random_commands",
        size: Some(("PUNCTUAL_PROOF_CASES", 5_000)),
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "pg-attacks",
        about: "many concurrent processes on PostgreSQL: crashes, repeats, freezes, contended keys",
        cargo: "test --release -p punctual-postgres --test attacks -- --nocapture",
        size: Some(("PUNCTUAL_PROOF_SECONDS", 60)),
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "pg-plans",
        about: "query plans of the hot statements on PostgreSQL, with a million jobs and with stale \
            statistics",
        cargo: "test --release -p punctual-postgres --lib -- --nocapture hot_statements access_goes",
        size: Some(("PUNCTUAL_PROOF_ROWS", 1_000_000)),
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "api",
        about: "random requests generated from the OpenAPI description: none causes a server error",
        cargo: "test --release -p punctual-server --test api -- --nocapture no_request_is",
        size: Some(("PUNCTUAL_PROOF_REQUESTS", 20_000)),
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "sqlite-kill",
        about: "500 kills of a process that writes jobs and fires schedules on SQLite",
        cargo: "run --release -p punctual-bench -- sqlite-kill --kills 500",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "worker-kill",
        about: "200 kills and 50 stops of processes that run the engine on SQLite",
        cargo: "run --release -p punctual-bench -- worker-kill --kills 200 --stops 50",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "pg-worker-kill",
        about: "200 kills and 50 stops of processes that run the engine on PostgreSQL, three at a \
            time",
        cargo: "run --release -p punctual-bench -- worker-kill --backend postgres --kills 200 --stops 50",
        size: None,
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "command-kill",
        about: "100 kills of workers whose commands fork, start sessions and ignore TERM: no \
            process remains",
        cargo: "test --release -p punctual-cli --test product -- --nocapture outlives_a_killed_worker",
        size: Some(("PUNCTUAL_PROOF_KILLS", 100)),
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "connection-flood",
        about: "5,000 connections without a token, which send or read nothing: health checks are \
            answered and no job fails",
        cargo: "test --release -p punctual-cli --test product -- --nocapture connection_flood",
        size: Some(("PUNCTUAL_PROOF_CONNECTIONS", 5_000)),
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "exactly-once",
        about: "200 kills of processes whose handlers settle in their own transaction on SQLite",
        cargo: "run --release -p punctual-bench -- exactly-once --kills 200",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "pg-exactly-once",
        about: "the same on PostgreSQL, with three concurrent processes",
        cargo: "run --release -p punctual-bench -- exactly-once --backend postgres --kills 200",
        size: None,
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "pg-faults",
        about: "ten minutes of crashes, cuts, black holes and kills around three nodes on PostgreSQL",
        cargo: "run --release -p punctual-bench -- pg-faults",
        size: Some(("PUNCTUAL_PROOF_SECONDS", 600)),
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "pg-faults-pooled",
        about: "the same through a pooler in transaction mode",
        cargo: "run --release -p punctual-bench -- pg-faults --pooled",
        size: Some(("PUNCTUAL_PROOF_SECONDS", 600)),
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "slots",
        about: "ten minutes of kills, freezes, hand-overs and crashes while schedules fire on PostgreSQL",
        cargo: "run --release -p punctual-bench -- slots --backend postgres",
        size: Some(("PUNCTUAL_PROOF_SECONDS", 600)),
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "slots-pooled",
        about: "the same through a pooler in transaction mode",
        cargo: "run --release -p punctual-bench -- slots --backend postgres --pooled",
        size: Some(("PUNCTUAL_PROOF_SECONDS", 600)),
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "slots-sqlite",
        about: "200 kills of a process that fires schedules each second on SQLite",
        cargo: "run --release -p punctual-bench -- slots --backend sqlite --kills 200",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "torture",
        about: "ten minutes of kills, freezes, crash loops, clock jumps, crashes, fail-overs and full \
            disks on each database, judged by an account of its own",
        cargo: "test --release -p punctual-cli --test product -- --nocapture torture::",
        size: Some(("PUNCTUAL_PROOF_SECONDS", 600)),
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "crontab",
        about: "six crontab lines for three minutes with Debian's cron and with punctual: the \
            minutes match",
        cargo: "run --release -p punctual-bench -- crontab",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "dashboard",
        about: "every page of the dashboard with a million jobs on SQLite: time and size",
        cargo: "run --release -p punctual-bench -- dashboard --backend sqlite",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "pg-dashboard",
        about: "the same on PostgreSQL",
        cargo: "run --release -p punctual-bench -- dashboard --backend postgres",
        size: None,
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "queue-bench",
        about: "the engine on SQLite compared with a bare loop, its pickup time and its idle cost",
        cargo: "run --release -p punctual-bench -- queue --backend sqlite --json",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "schedule-bench",
        about: "the scheduler on SQLite: lateness, fires compared with the plain SQL statement, a \
            million schedules",
        cargo: "run --release -p punctual-bench -- schedule --backend sqlite --json",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "api-bench",
        about: "the API on SQLite compared with the library and with an empty route",
        cargo: "run --release -p punctual-bench -- api --backend sqlite --json",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "sim",
        about: "10,000 simulated clusters, each through two minutes of faults",
        cargo: "run --release -p punctual-sim -- prove --seconds 120",
        size: Some(("PUNCTUAL_PROOF_CASES", 10_000)),
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "sim-crashes",
        about: "2,000 simulated clusters whose servers crash again and again",
        cargo: "run --release -p punctual-sim -- prove --seconds 60 --faults crash-loop",
        size: Some(("PUNCTUAL_PROOF_CASES", 2_000)),
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "sim-crashes-sqlite",
        about: "200 simulated servers on SQLite that crash again and again",
        cargo: "run --release -p punctual-sim -- prove --seconds 30 --faults crash-loop --store sqlite",
        size: Some(("PUNCTUAL_PROOF_CASES", 200)),
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "sim-clock-jump",
        about: "500 simulated clusters whose clock is two hours ahead for a while, and is set back",
        cargo: "run --release -p punctual-sim -- prove --seconds 190 --faults clock-jump",
        size: Some(("PUNCTUAL_PROOF_CASES", 500)),
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "sim-bugs",
        about: "planted bugs, each of which the simulator must find",
        cargo: "run --release -p punctual-sim --features planted-bugs -- bugs",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "peers",
        about: "the engine on PostgreSQL compared with its peers, which are built first; takes a \
            long time",
        cargo: "run --release -p punctual-bench -- peers",
        size: None,
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "store-bench",
        about: "the SQLite store compared with plain SQL statements",
        cargo: "run --release -p punctual-bench -- store --backend sqlite --json",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "pg-store-bench",
        about: "the PostgreSQL store compared with plain SQL statements, its server cost, and old \
            transactions",
        cargo: "run --release -p punctual-bench -- store --backend postgres --json",
        size: None,
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "pg-queue-bench",
        about: "the engine on PostgreSQL compared with a bare loop, its pickup time and its idle \
            cost",
        cargo: "run --release -p punctual-bench -- queue --backend postgres --json --jobs 200000 --rounds 3",
        size: None,
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "queue-limit",
        about: "two nodes that share a queue with a limit of 1, compared with one node that runs \
            one job at a time",
        cargo: "run --release -p punctual-bench -- queue-limit --backend postgres --json",
        size: None,
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "pg-api-bench",
        about: "the API on PostgreSQL compared with the library and with an empty route",
        cargo: "run --release -p punctual-bench -- api --backend postgres --json",
        size: None,
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "stale-statistics",
        about: "settling on PostgreSQL after statistics of an idle moment, compared with fresh ones",
        cargo: "run --release -p punctual-bench -- stale-statistics --backend postgres --json",
        size: None,
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "counts-bench",
        about: "job counts of a million jobs in 1,000 queues, compared with 1,000 jobs, on SQLite",
        cargo: "run --release -p punctual-bench -- load --backend sqlite --json counts",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "remote-bench",
        about: "remote workers over HTTP compared with handlers of the engine, on SQLite",
        cargo: "run --release -p punctual-bench -- load --backend sqlite --json remote",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "lists-bench",
        about: "lateness of slots while 256 connections read lists, on SQLite",
        cargo: "run --release -p punctual-bench -- load --backend sqlite --json lists",
        size: None,
        timed: false,
        on_postgres: false,
    },
    Proof {
        name: "pg-counts-bench",
        about: "job counts of a million jobs in 1,000 queues, compared with 1,000 jobs, on PostgreSQL",
        cargo: "run --release -p punctual-bench -- load --backend postgres --json counts",
        size: None,
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "pg-remote-bench",
        about: "remote workers over HTTP compared with handlers of the engine, on PostgreSQL",
        cargo: "run --release -p punctual-bench -- load --backend postgres --json remote",
        size: None,
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "pg-lists-bench",
        about: "lateness of slots while 256 connections read lists, on PostgreSQL",
        cargo: "run --release -p punctual-bench -- load --backend postgres --json lists",
        size: None,
        timed: false,
        on_postgres: true,
    },
    Proof {
        name: "pg-schedule-bench",
        about: "the scheduler on PostgreSQL: lateness, fires compared with the plain SQL statement, a \
            million schedules",
        cargo: "run --release -p punctual-bench -- schedule --backend postgres --json",
        size: None,
        timed: false,
        on_postgres: true,
    },
];

/// How the line of JSON begins.
const MARK: &str = r#"{"proof":"#;

/// Runs the proof that is named in `args`, or all of them.
pub(crate) fn prove(args: &[&str]) -> Result<(), Failure> {
    let ask = Ask::parse(args)?;
    let chosen = PROOFS.iter().filter(|proof| ask.name.is_none_or(|name| name == proof.name));
    let mut failed = Vec::new();
    for proof in chosen {
        if ask.list {
            println!("{:<16} {}", proof.name, proof.about);
            continue;
        }
        match proof.run(&ask) {
            Ok(json) => println!("{json}"),
            Err(Failure::Failed(why)) => {
                eprintln!("error: {}: {why}", proof.name);
                failed.push(proof.name);
            }
            Err(failure) => return Err(failure),
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::Failed(format!("failed proofs: {}", failed.join(", "))))
    }
}

impl Proof {
    fn run(&self, ask: &Ask<'_>) -> Result<String, Failure> {
        let mut program = self.command(ask.minutes);
        program.args(&ask.rest);
        for need in self.needs() {
            need.ensure()?;
        }
        let servers = if self.on_postgres { Some(Servers::start(self.care())?) } else { None };
        if let Some(servers) = &servers {
            servers.tell(&mut program)?;
        }
        eprintln!("── {}: {}", self.name, run::line(&program));
        let mut proof = Guarded::start(&program, &Orders::default(), |guard| {
            guard.stdout(Stdio::piped());
        })?;
        let mut lines = Vec::new();
        if let Some(stdout) = proof.guard.stdout.take() {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                match json(&line) {
                    Some(json) => lines.push(json.to_owned()),
                    // Progress is optional: a closed stderr does not stop the proof.
                    None => drop(writeln!(io::stderr(), "{line}")),
                }
            }
        }
        let status = proof.wait()?;
        match <[String; 1]>::try_from(lines) {
            Ok([json]) if status.success() => Ok(json),
            Ok([json]) => Err(Failure::Failed(format!("{status}, after printing {json}"))),
            Err(lines) => Err(Failure::Failed(format!(
                "{status}; expected one line that starts with `{MARK}`, got {}",
                lines.len()
            ))),
        }
    }

    /// What it runs besides Rust and the servers.
    fn needs(&self) -> &'static [Need] {
        match self.name {
            "crontab" => &[needs::CRON],
            // Without one of them it runs to its end, and fails because kinds of faults are missing.
            "torture" => &[needs::FAKETIME, needs::PYTHON],
            _ => &[],
        }
    }

    /// What measures speed does so on a server that keeps what it says it keeps.
    fn care(&self) -> Care {
        let measures = ["peers", "queue-limit", "stale-statistics"].contains(&self.name)
            || self.name.ends_with("-bench");
        if measures { Care::Full } else { Care::AsTestsNeed }
    }

    fn command(&self, minutes: Option<u32>) -> Command {
        let mut program = cargo(self.cargo.split(' '));
        // Only one of these may say how long it runs, also if the others are set around us.
        for name in [
            "PUNCTUAL_PROOF_CASES",
            "PUNCTUAL_PROOF_CONNECTIONS",
            "PUNCTUAL_PROOF_ROWS",
            "PUNCTUAL_PROOF_SECONDS",
            "PUNCTUAL_PROOF_MINUTES",
        ] {
            program.env_remove(name);
        }
        match (self.size, minutes.filter(|_| self.timed)) {
            (_, Some(minutes)) => drop(program.env("PUNCTUAL_PROOF_MINUTES", minutes.to_string())),
            (Some((name, size)), None) => drop(program.env(name, size.to_string())),
            (None, None) => {}
        }
        program
    }
}

/// Not only at the start of a line: on a single core libtest writes `test name ... ` before it
/// runs the test, and the line of JSON comes right after that.
fn json(line: &str) -> Option<&str> {
    line.find(MARK).map(|start| line[start..].trim_end())
}

#[derive(Debug, Default, PartialEq)]
struct Ask<'a> {
    name: Option<&'a str>,
    minutes: Option<u32>,
    list: bool,
    /// Further arguments for the program of the proof.
    rest: Vec<&'a str>,
}

impl<'a> Ask<'a> {
    fn parse(args: &[&'a str]) -> Result<Self, Failure> {
        let mut ask = Self::default();
        let mut args = args.iter().copied();
        while let Some(arg) = args.next() {
            match arg {
                "--list" => ask.list = true,
                "--" if ask.name.is_some() => ask.rest.extend(args.by_ref()),
                "--minutes" => {
                    let minutes = args.next().and_then(|minutes| minutes.parse().ok());
                    ask.minutes =
                        Some(minutes.filter(|minutes| *minutes > 0).ok_or_else(|| {
                            Failure::Usage("`--minutes` needs a whole number of at least 1".into())
                        })?);
                }
                _ if arg.starts_with('-') => {
                    return Err(Failure::Usage(format!("unknown option `{arg}`")));
                }
                _ if ask.name.is_some() => {
                    return Err(Failure::Usage(format!(
                        "unexpected argument `{arg}`; pass one proof at a time"
                    )));
                }
                _ if PROOFS.iter().all(|proof| proof.name != arg) => {
                    let names: Vec<&str> = PROOFS.iter().map(|proof| proof.name).collect();
                    return Err(Failure::Usage(format!(
                        "unknown proof `{arg}`; expected one of {}",
                        names.join(", ")
                    )));
                }
                _ => ask.name = Some(arg),
            }
        }
        Ok(ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_in_any_order() {
        let ask = Ask { name: Some("cron"), minutes: Some(3), ..Ask::default() };
        assert_eq!(Ask::parse(&["cron", "--minutes", "3"]).unwrap(), ask);
        assert_eq!(Ask::parse(&["--minutes", "3", "cron"]).unwrap(), ask);
        assert_eq!(Ask::parse(&[]).unwrap(), Ask::default());
        assert!(Ask::parse(&["--list"]).unwrap().list);
        assert_eq!(
            Ask::parse(&["peers", "--", "--only", "fang"]).unwrap().rest,
            ["--only", "fang"]
        );
    }

    #[test]
    fn arguments_that_make_no_sense_are_usage_errors() {
        for args in [
            &["--minutes"][..],
            &["--minutes", "0"],
            &["--minutes", "soon"],
            &["--fast"],
            &["corn"],
            &["cron", "cron-bench"],
            &["--", "--only"],
        ] {
            assert!(matches!(Ask::parse(args), Err(Failure::Usage(_))), "{args:?}");
        }
    }

    #[test]
    fn the_names_of_proofs_are_offered_for_an_unknown_one() {
        let Err(Failure::Usage(what)) = Ask::parse(&["corn"]) else { panic!("`corn` passed") };
        assert!(
            what.starts_with("unknown proof `corn`; expected one of cron, cron-bench, "),
            "{what}"
        );
    }

    #[test]
    fn minutes_replace_the_number_of_cases() {
        let set = |proof: &Proof, minutes| -> Vec<String> {
            let command = proof.command(minutes);
            let envs = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
            envs.map(|(name, value)| format!("{}={}", name.display(), value.display())).collect()
        };
        let [cron, bench, ..] = PROOFS else { panic!("cron and its bench") };
        assert_eq!(set(cron, None), ["PUNCTUAL_PROOF_CASES=1000000"]);
        assert_eq!(set(cron, Some(5)), ["PUNCTUAL_PROOF_MINUTES=5"]);
        assert_eq!(set(bench, Some(5)), [] as [String; 0]);
    }

    #[test]
    fn json_is_found_among_what_libtest_prints() {
        assert_eq!(json(r#"{"proof":"cron"}"#), Some(r#"{"proof":"cron"}"#));
        assert_eq!(json(r#"test x ... {"proof":"cron"}"#), Some(r#"{"proof":"cron"}"#));
        assert_eq!(json("test result: ok. 1 passed"), None);
    }
}
