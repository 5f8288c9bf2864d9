//! Who is measured, how, and with how much.

/// What a harness is written in, and its name there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Harness {
    /// This program.
    Ours,
    /// A package of `bench/peers/rust`.
    Rust(&'static str),
    /// A queue of `bench/peers/node/harness.mjs`.
    Node(&'static str),
    /// A queue of `bench/peers/python/harness.py`.
    Python(&'static str),
}

/// A queue in one configuration.
pub(super) struct Rival {
    pub(super) name: &'static str,
    pub(super) harness: Harness,
    /// A configuration that is not the default one.
    pub(super) variant: &'static str,
    pub(super) measures: &'static [&'static str],
    /// How many jobs are drained: enough for some seconds.
    pub(super) jobs: usize,
    /// Workers or jobs at once, whatever it counts, while draining.
    pub(super) busy: usize,
    /// The same for a pickup, and when idle.
    pub(super) idle: usize,
    /// What is left of a job that has succeeded.
    pub(super) history: History,
}

/// What is left of a job that has succeeded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    /// The job and how it ended, for days.
    Kept,
    /// A line in a log, without the job.
    Logged,
    /// The job, until its part of a ring is needed again, which is soon.
    Briefly,
    /// Nothing.
    None,
}

impl History {
    pub(super) fn word(self) -> &'static str {
        match self {
            History::Kept => "kept",
            History::Logged => "logged",
            History::Briefly => "briefly",
            History::None => "none",
        }
    }

    /// How many times its drain ours is to be.
    pub(super) fn goal(self) -> f64 {
        if self == History::None { 1.0 } else { 3.0 }
    }
}

/// The measures in which peers run one after the other, each with a database of its own.
pub(super) const MEASURES: [&str; 5] = ["drain", "bulk", "enqueue1", "enqueue8", "latency"];
/// A configuration that only changes how work is taken.
const TAKING: &[&str] = &["drain", "latency"];
/// Without a call that writes many jobs.
const SINGLY: &[&str] = &["drain", "enqueue1", "enqueue8", "latency"];
/// With polling so rare that measuring a pickup would be measuring the poll.
const POLLS: &[&str] = &["drain", "bulk", "enqueue1", "enqueue8"];
const PICKUP: &[&str] = &["latency"];

const fn rival(name: &'static str, harness: Harness, history: History) -> Rival {
    let measures = &MEASURES;
    Rival { name, harness, variant: "", measures, jobs: 0, busy: 1, idle: 1, history }
}

/// The first is ours. Configurations are those that each one's documents or own benchmarks call
/// fast, beside its default.
pub(super) const RIVALS: &[Rival] = &[
    Rival { jobs: 200_000, ..rival(OURS, Harness::Ours, History::Kept) },
    Rival { jobs: 10_000, busy: 50, idle: 50, ..rival("awa", AWA, History::Briefly) },
    Rival {
        variant: "fastest",
        measures: TAKING,
        jobs: 20_000,
        busy: 1_024,
        idle: 1_024,
        ..rival("awa fastest", AWA, History::Briefly)
    },
    Rival { jobs: 5_000, ..rival("apalis-postgres", APALIS, History::Kept) },
    Rival {
        variant: "tuned",
        measures: TAKING,
        jobs: 50_000,
        busy: 2,
        ..rival("apalis-postgres tuned", APALIS, History::Kept)
    },
    Rival { jobs: 240, busy: 24, idle: 24, ..rival("graphile_worker", GRAPHILE_RS, History::None) },
    Rival {
        variant: "fastest",
        measures: TAKING,
        jobs: 100_000,
        busy: 500,
        idle: 500,
        ..rival("graphile_worker fastest", GRAPHILE_RS, History::None)
    },
    // It looks only every 5 seconds unless told to, which `often` does.
    Rival { measures: &[], idle: 2, ..rival("fang", Harness::Rust("peer-fang"), History::None) },
    Rival {
        variant: "often",
        measures: SINGLY,
        jobs: 5_000,
        busy: 10,
        idle: 2,
        ..rival("fang often", Harness::Rust("peer-fang"), History::None)
    },
    Rival { jobs: 5_000, ..rival("graphile-worker", GRAPHILE, History::None) },
    Rival {
        variant: "fastest",
        measures: TAKING,
        jobs: 100_000,
        busy: 24,
        idle: 24,
        ..rival("graphile-worker fastest", GRAPHILE, History::None)
    },
    Rival { measures: POLLS, jobs: 50_000, busy: 4, ..rival("pg-boss", PG_BOSS, History::Kept) },
    Rival {
        variant: "notify",
        measures: PICKUP,
        ..rival("pg-boss notify", PG_BOSS, History::Kept)
    },
    Rival {
        jobs: 4_000,
        busy: 10,
        idle: 10,
        ..rival("procrastinate", Harness::Python("procrastinate"), History::Kept)
    },
    Rival {
        jobs: 20_000,
        busy: 10,
        idle: 10,
        ..rival("pgqueuer", Harness::Python("pgqueuer"), History::Logged)
    },
];

pub(super) const OURS: &str = "punctual";
const AWA: Harness = Harness::Rust("peer-awa");
const APALIS: Harness = Harness::Rust("peer-apalis");
const GRAPHILE_RS: Harness = Harness::Rust("peer-graphile");
const GRAPHILE: Harness = Harness::Node("graphile");
const PG_BOSS: Harness = Harness::Node("pg-boss");

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Nobody builds the rivals in CI; at least they are there, and nothing names a registry's host.
    #[test]
    fn every_rival_has_a_harness_and_what_it_needs_is_pinned() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let read = |file: &str| fs::read_to_string(peers.join(file)).expect(file);
        for rival in RIVALS {
            match rival.harness {
                Harness::Ours => {}
                Harness::Rust(name) => {
                    let folder = name.trim_start_matches("peer-");
                    let manifest = read(&format!("rust/{folder}/Cargo.toml"));
                    assert!(manifest.contains(&format!("name = \"{name}\"")), "{manifest}");
                    assert!(read("rust/Cargo.lock").contains(&format!("name = \"{name}\"")));
                }
                Harness::Node(name) => assert!(read("node/harness.mjs").contains(name)),
                Harness::Python(name) => assert!(read("python/harness.py").contains(name)),
            }
        }
        let locked = read("node/package-lock.json");
        let lock: serde_json::Value = serde_json::from_str(&locked).expect("JSON");
        assert!(lock["packages"]["node_modules/pg-boss"]["version"].is_string());
        assert!(
            !locked.contains("\"resolved\""),
            "create the lock file with --omit-lockfile-registry-resolved"
        );
        for line in read("python/requirements.txt").lines() {
            assert!(line.contains("=="), "`{line}` is not pinned");
        }
    }
}
