//! What is unhealthy in an installation, and what to do about it.
//!
//! It looks through the port alone, in pages and up to bounds, and says so when it stopped before
//! the end. Each part first reads its facts and then decides from them what there is to find.

mod clocks;
mod history;
mod nodes;
mod queues;
mod schedules;

use std::fmt;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_engine::{Health, Timing};
use punctual_store::{
    At, ErrorKind, Exposure, Result, Retention, Store, StoreError, limits as bounds,
};
use serde::Serialize;

use crate::why::cluster::Cluster;
use crate::why::{Reason, is_unreachable};
use crate::wording::{count, instant, listed};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// What was looked at.
    pub examined: Examined,
    /// What is amiss, problems first.
    pub findings: Vec<Finding>,
}

/// How much was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examined {
    /// When, by the database's clock.
    pub at: Option<String>,
    /// Which database it is, with its version and schema.
    pub database: Option<String>,
    /// Nodes, dead ones included.
    pub nodes: usize,
    /// Pairs of queue and kind in which something is.
    pub kinds: usize,
    /// Schedules.
    pub schedules: usize,
    /// Schedules of which the ledger and the jobs were looked at, too.
    pub histories: usize,
    /// What was left out because a bound was reached.
    pub left_out: Vec<String>,
}

/// Something amiss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A word for programs, such as `no_node_for_kind`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence for people.
    pub text: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Work is not done, or done wrongly.
    Problem,
    /// Worth a look.
    Warning,
}

/// From where on something is amiss, and how much is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Whose schedules are looked at: stores keep no list of tenants.
    pub tenants: Vec<String>,
    /// The most schedules that are looked at.
    pub schedules: usize,
    /// The most schedules of which the ledger and the jobs are looked at, too; each takes two reads.
    pub histories: usize,
    /// The most pairs of queue and kind that are looked at; each is counted.
    pub kinds: usize,
    /// What lasts shorter mends itself.
    pub late: Duration,
    /// A difference between the clocks of this host and of the database that is worth a look.
    pub skew_warning: Duration,
    /// One that is a problem.
    pub skew_problem: Duration,
    /// A failover that is longer ago is forgotten.
    pub forked: Duration,
    /// A node that is silent for longer should be declared dead.
    pub node_lifetime: Duration,
    /// A pause without an end that lasts longer may have been forgotten.
    pub pause: Duration,
    /// So many jobs of a schedule that failed in a row are a problem.
    pub failures: usize,
    /// So many failed jobs are worth a look.
    pub dead_letters: u64,
    /// How long history is kept.
    pub retention: Retention,
    /// History that is older than that by so much should have been pruned.
    pub overdue: Duration,
    /// The schema that this program writes, if the caller knows it.
    pub schema: Option<i64>,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        Thresholds {
            tenants: vec![String::new()],
            schedules: 5_000,
            histories: 500,
            kinds: 1_000,
            late: punctual_core::schedule::ON_TIME,
            skew_warning: Duration::from_secs(1),
            skew_problem: Duration::from_secs(60),
            forked: days(1),
            node_lifetime: Timing::default().dead,
            pause: days(7),
            failures: 3,
            dead_letters: 1,
            retention: Retention::default(),
            overdue: days(1),
            schema: None,
        }
    }
}

/// Looks at all that can be wrong with an installation. `wall` is what this host's clock says now.
///
/// A database that does not answer is a finding, after those that were made before it fell silent.
pub async fn examine(store: &dyn Store, at: At, wall: Timestamp, limits: &Thresholds) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    if let Err(error) = diagnosis.look(store, at, wall, limits).await {
        diagnosis.findings.push(silent(store, &error));
    }
    diagnosis.findings.sort_by_key(|finding| finding.severity);
    diagnosis
}

fn silent(store: &dyn Store, error: &StoreError) -> Finding {
    if let Some(stopped) = store.stopped() {
        let text = format!("the server accepts no requests until it is restarted: {stopped}");
        let remedy =
            "fix the cause, then restart the server; see its log for the time of the event";
        return Finding::problem(Reason::new("store_stopped", text).remedy(remedy));
    }
    if is_unreachable(error) {
        return Finding::problem(Reason::unreachable(error));
    }
    let text = format!("the database returned an error: {error}");
    Finding::problem(Reason::new("database_error", text).remedy("fix the cause of this error"))
}

impl Diagnosis {
    /// Is nothing wrong? Warnings are worth a look, but nothing is wrong by them.
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Problem)
    }

    async fn look(
        &mut self,
        store: &dyn Store,
        at: At,
        wall: Timestamp,
        limits: &Thresholds,
    ) -> Result<()> {
        let schema = store.schema().await?;
        self.examined.database =
            Some(format!("{} {}, schema {}", schema.backend, schema.database, schema.version));
        self.findings.extend(clocks::schema(&schema, limits));
        let cluster = Cluster::read_with(store, at, limits.node_lifetime).await?;
        self.examined.at = Some(instant(cluster.now));
        self.examined.nodes = cluster.nodes.len();
        self.findings.extend(clocks::skew(cluster.now, wall, limits));
        self.findings.extend(clocks::ahead(&cluster, limits));
        self.findings.extend(clocks::forked(&schema, cluster.now, limits));
        if let Err(error) = store.check_writable().await {
            if error.kind() != ErrorKind::Full {
                return Err(error);
            }
            let reason = Reason::new("disk_full", format!("writes fail: {error}"));
            let remedy = "free disk space; the server continues without a restart";
            self.findings.push(Finding::problem(reason.remedy(remedy)));
        }
        self.findings.extend(store.exposures().into_iter().map(
            |Exposure { code, text, remedy }| {
                Finding::warning(Reason::new(code, text).remedy(remedy))
            },
        ));
        let faults = store.faults(at, &limits.retention).await?.into_iter();
        self.findings
            .extend(faults.map(|text| Finding::warning(Reason::new("database_setup", text))));
        self.findings.extend(nodes::findings(&cluster, limits));

        let queues = queues::Facts::read(store, limits).await?;
        self.examined.kinds = queues.stats.len();
        if queues.has_more {
            self.left_out("queue/kind pairs", queues.stats.len());
        }
        self.findings.extend(queues::findings(&queues, &cluster, limits));

        let schedules = schedules::Facts::read(store, limits).await?;
        self.examined.schedules = schedules.all.len();
        self.examined.histories = schedules.histories.len();
        if schedules.has_more {
            self.left_out("schedules", schedules.all.len());
        }
        if schedules.has_more_histories {
            self.left_out("slots and jobs of schedules", schedules.histories.len());
        }
        self.findings.extend(schedules::findings(&schedules, &cluster, limits));
        let ahead = store.schedules_ahead(cluster.now, bounds::PAGE_MAX).await?;
        self.findings.extend(clocks::schedules_ahead(&ahead, cluster.now));

        let history = history::Facts::read(store, cluster.now, limits).await?;
        self.findings.extend(history::findings(&history, &cluster, limits));
        Ok(())
    }

    /// Adds what only the node itself knows.
    pub(crate) fn add_node(&mut self, health: &Health) {
        if health.lacks_resources {
            let text = format!(
                "this server (node {}) pauses claiming, because it lacks memory, processes or open \
                 files",
                health.node
            );
            let remedy = "raise its limits (`ulimit -n`, `LimitNOFILE`, `TasksMax`, `MemoryMax`) or \
                          run fewer jobs at the same time; its log names the errors";
            let reason = Reason::new("lack_of_resources", text).remedy(remedy);
            self.findings.push(Finding::problem(reason));
        }
        if let Some(clock) = &health.held_clock {
            // Before its consequences, such as late schedules.
            self.findings.insert(0, clocks::held(health.node, clock));
        }
        self.findings.sort_by_key(|finding| finding.severity);
    }

    fn left_out(&mut self, what: &str, seen: usize) {
        self.examined.left_out.push(format!("{what} after the first {seen}"));
    }
}

impl Finding {
    fn problem(reason: Reason) -> Finding {
        Finding::new(Severity::Problem, reason)
    }

    fn warning(reason: Reason) -> Finding {
        Finding::new(Severity::Warning, reason)
    }

    fn new(severity: Severity, reason: Reason) -> Finding {
        let Reason { code, text, remedy } = reason;
        Finding { code, severity, text, remedy }
    }
}

/// The findings, each with its way out, and in the last line how many they are and what was looked
/// at.
impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { severity, text, remedy, .. } in &self.findings {
            let word = match severity {
                Severity::Problem => "problem",
                Severity::Warning => "warning",
            };
            writeln!(f, "{word}: {text}")?;
            if let Some(remedy) = remedy {
                writeln!(f, "    → {remedy}")?;
            }
        }
        let is_problem = |finding: &&Finding| finding.severity == Severity::Problem;
        let problems = self.findings.iter().filter(is_problem).count();
        match (problems, self.findings.len() - problems) {
            (0, 0) => write!(f, "no problems found")?,
            (problems, warnings) => write!(
                f,
                "{}, {}",
                count(problems as u64, "problem", "problems"),
                count(warnings as u64, "warning", "warnings")
            )?,
        }
        write!(f, "; checked: {}", self.examined)
    }
}

impl fmt::Display for Examined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(database) = &self.database else { return f.write_str("nothing") };
        let seen = [
            count(self.nodes as u64, "node", "nodes"),
            count(self.kinds as u64, "queue/kind pair", "queue/kind pairs"),
            count(self.schedules as u64, "schedule", "schedules"),
        ];
        write!(f, "{database}, {}", listed(seen))?;
        if !self.left_out.is_empty() {
            write!(f, "; not checked: {}", listed(&self.left_out))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::NodeId;
    use punctual_engine::HeldClock;

    use super::*;

    #[test]
    fn a_clock_that_the_node_does_not_trust_is_the_first_problem() {
        let late = Finding::problem(Reason::new("firing_late", "late".to_owned()));
        let mut diagnosis = Diagnosis { findings: vec![late], ..Diagnosis::default() };
        let healthy = Health {
            node: NodeId::from_bytes([7; 16]),
            is_in_touch: true,
            held: 0,
            free: 10,
            lacks_resources: false,
            is_clock_trusted: true,
            held_clock: None,
            is_history_trusted: true,
        };
        diagnosis.add_node(&healthy);
        assert_eq!(diagnosis.findings.len(), 1);
        let since = Timestamp::from_seconds(1_800_000_000);
        let held_clock = Some(HeldClock { ahead: Duration::from_secs(6_180), since });
        diagnosis.add_node(&Health { is_clock_trusted: false, held_clock, ..healthy });
        let finding = &diagnosis.findings[0];
        assert_eq!((finding.code, finding.severity), ("clock_held", Severity::Problem));
        insta::assert_snapshot!(finding.text, @"the database clock jumped ahead by 1h43m at 2027-01-15T08:00:00Z and is not trusted by this server (node 07070707-0707-0707-0707-070707070707): slots are decided at most one minute ahead of the expected time, until the clock has run normally for two minutes");
        let remedy = finding.remedy.as_deref().unwrap_or_default();
        assert!(remedy.starts_with("check the clock of the database host"), "{remedy}");
    }
}
