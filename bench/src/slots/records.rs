//! What the database itself says, read beside the store: the same tables on both databases.

use std::path::PathBuf;

use punctual_core::job::SlotOutcome;
use punctual_engine::SCHEDULER;
use rusqlite::{Connection, OpenFlags};
use tokio::runtime::Handle;

use crate::{Failure, backends};

pub(crate) type Id = [u8; 16];

/// Where it is read.
pub(crate) enum Source {
    Sqlite(PathBuf),
    Postgres { url: String, runtime: Handle },
}

pub(crate) struct ScheduleRecord {
    pub(crate) id: Id,
    pub(crate) created_at: i64,
    pub(crate) next_slot: Option<i64>,
}

pub(crate) struct SlotRecord {
    pub(crate) schedule: Id,
    pub(crate) job: Option<Id>,
    pub(crate) node: Id,
    pub(crate) slot: i64,
    pub(crate) end: Option<i64>,
    pub(crate) decided_at: i64,
    pub(crate) count: i64,
    pub(crate) outcome: SlotOutcome,
    pub(crate) term: i64,
}

pub(crate) struct JobRecord {
    pub(crate) id: Id,
    pub(crate) schedule: Option<Id>,
    pub(crate) slot: Option<i64>,
    pub(crate) finished_at: Option<i64>,
}

pub(crate) struct AttemptRecord {
    pub(crate) job: Id,
    pub(crate) claimed_at: i64,
    pub(crate) ended_at: i64,
}

pub(crate) struct TermRecord {
    pub(crate) term: i64,
    pub(crate) node: Id,
    pub(crate) at: i64,
}

/// Everything that the verdict is about; instants are µs.
pub(crate) struct Records {
    pub(crate) schedules: Vec<ScheduleRecord>,
    pub(crate) slots: Vec<SlotRecord>,
    pub(crate) jobs: Vec<JobRecord>,
    pub(crate) attempts: Vec<AttemptRecord>,
    /// In order.
    pub(crate) terms: Vec<TermRecord>,
    /// Jobs that have not ended in all that time.
    pub(crate) unfinished: u64,
}

/// The columns of a row by what they hold; each in the order in which they were asked for.
struct Row {
    ids: Vec<Option<Id>>,
    numbers: Vec<Option<i64>>,
}

impl Row {
    fn id(&self, index: usize) -> Result<Id, Failure> {
        Ok(self.ids.get(index).copied().flatten().ok_or("missing id")?)
    }

    fn number(&self, index: usize) -> Result<i64, Failure> {
        Ok(self.numbers.get(index).copied().flatten().ok_or("missing number")?)
    }
}

/// What to read: columns that hold ids, instants and other numbers, and from where.
struct Ask<'a> {
    ids: &'a [&'a str],
    instants: &'a [&'a str],
    numbers: &'a [&'a str],
    from: &'a str,
}

fn id_of(bytes: Option<Vec<u8>>) -> Result<Option<Id>, Failure> {
    bytes.map(|bytes| Id::try_from(bytes).map_err(|_| "an id has 16 bytes".into())).transpose()
}

impl Source {
    /// The first slot that nobody has decided.
    pub(crate) fn watermark(&self) -> Result<Option<i64>, Failure> {
        let none =
            Ask { ids: &[], instants: &["min(next_slot)"], numbers: &[], from: "{}schedule" };
        Ok(self.read(&none)?.first().and_then(|row| row.numbers[0]))
    }

    /// When somebody last decided a slot.
    pub(crate) fn last_decided(&self) -> Result<Option<i64>, Failure> {
        let none = Ask { ids: &[], instants: &["max(decided_at)"], numbers: &[], from: "{}slot" };
        Ok(self.read(&none)?.first().and_then(|row| row.numbers[0]))
    }

    /// How many jobs that were written before this instant have not ended.
    pub(crate) fn unfinished(&self, before: i64) -> Result<usize, Failure> {
        let from = "{}job WHERE NOT EXISTS (SELECT 1 FROM {}job_done WHERE job = id)";
        let live = Ask { ids: &[], instants: &["created_at"], numbers: &[], from };
        let is_before = |row: &&Row| row.numbers[0].is_some_and(|at| at < before);
        Ok(self.read(&live)?.iter().filter(is_before).count())
    }

    /// Every term of the schedules' leader, in order.
    pub(crate) fn terms(&self) -> Result<Vec<TermRecord>, Failure> {
        let from = format!("{{}}leader_change WHERE role = '{SCHEDULER}' ORDER BY id");
        let terms = Ask { ids: &["node"], instants: &["at"], numbers: &["term"], from: &from };
        let term = |row: &Row| {
            Ok(TermRecord { node: row.id(0)?, at: row.number(0)?, term: row.number(1)? })
        };
        self.read(&terms)?.iter().map(term).collect()
    }

    /// Everything; jobs that were written before this instant should have ended.
    pub(crate) fn records(&self, before: i64) -> Result<Records, Failure> {
        let schedules = Ask {
            ids: &["id"],
            instants: &["created_at", "next_slot"],
            numbers: &[],
            from: "{}schedule",
        };
        let schedule = |row: &Row| {
            let (created_at, next_slot) = (row.number(0)?, row.numbers[1]);
            Ok(ScheduleRecord { id: row.id(0)?, created_at, next_slot })
        };
        let jobs = Ask {
            ids: &["id", "schedule"],
            instants: &["slot", "finished_at"],
            numbers: &[],
            from: "{}job LEFT JOIN {}job_done ON job = id",
        };
        let job = |row: &Row| {
            let (slot, finished_at) = (row.numbers[0], row.numbers[1]);
            Ok(JobRecord { id: row.id(0)?, schedule: row.ids[1], slot, finished_at })
        };
        Ok(Records {
            schedules: self
                .read(&schedules)?
                .iter()
                .map(schedule)
                .collect::<Result<_, Failure>>()?,
            slots: self.slots()?,
            jobs: self.read(&jobs)?.iter().map(job).collect::<Result<_, Failure>>()?,
            attempts: self.attempts()?,
            terms: self.terms()?,
            unfinished: self.unfinished(before)? as u64,
        })
    }

    fn slots(&self) -> Result<Vec<SlotRecord>, Failure> {
        let slots = Ask {
            ids: &["schedule", "job", "node"],
            instants: &["slot", "slot_end", "decided_at"],
            numbers: &["count", "outcome", "term"],
            from: "{}slot ORDER BY schedule, slot, run",
        };
        let slot = |row: &Row| {
            let code = i16::try_from(row.number(4)?)?;
            Ok(SlotRecord {
                schedule: row.id(0)?,
                job: row.ids[1],
                node: row.id(2)?,
                slot: row.number(0)?,
                end: row.numbers[1],
                decided_at: row.number(2)?,
                count: row.number(3)?,
                outcome: SlotOutcome::from_code(code).ok_or("invalid slot outcome")?,
                term: row.number(5)?,
            })
        };
        self.read(&slots)?.iter().map(slot).collect()
    }

    /// Those that failed or were given up, those that succeeded, and those under way.
    fn attempts(&self) -> Result<Vec<AttemptRecord>, Failure> {
        let mut attempts = Vec::new();
        for (instants, from) in [
            (&["claimed_at", "ended_at"][..], "{}job_attempt"),
            (&["claimed_at", "finished_at"], "{}job_done WHERE outcome = 1"),
            (&["claimed_at"], "{}job_lease"),
        ] {
            for row in self.read(&Ask { ids: &["job"], instants, numbers: &[], from })? {
                let ended_at = row.numbers.get(1).copied().flatten().unwrap_or(i64::MAX);
                attempts.push(AttemptRecord {
                    job: row.id(0)?,
                    claimed_at: row.number(0)?,
                    ended_at,
                });
            }
        }
        Ok(attempts)
    }

    fn read(&self, ask: &Ask<'_>) -> Result<Vec<Row>, Failure> {
        let numbers = ask.numbers.iter().map(|name| format!("CAST({name} AS bigint)"));
        let ids = ask.ids.len();
        match self {
            Source::Sqlite(file) => {
                let columns: Vec<String> =
                    ask.ids.iter().chain(ask.instants).map(|name| (*name).to_owned()).collect();
                let columns: Vec<String> = columns.into_iter().chain(numbers).collect();
                let text = select(&columns, ask.from, "punctual_");
                let db = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
                db.busy_timeout(super::PATIENCE)?;
                let mut statement = db.prepare(&text)?;
                let mut rows = statement.query([])?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    let id = |index| id_of(row.get(index)?);
                    let numbers = (ids..columns.len()).map(|index| row.get(index));
                    found.push(Row {
                        ids: (0..ids).map(id).collect::<Result<_, Failure>>()?,
                        numbers: numbers.collect::<Result<_, _>>()?,
                    });
                }
                Ok(found)
            }
            Source::Postgres { url, runtime } => {
                let micros =
                    |name: &&str| format!("CAST(extract(epoch FROM {name}) * 1000000 AS bigint)");
                let columns: Vec<String> = ask
                    .ids
                    .iter()
                    .map(|name| format!("uuid_send({name})"))
                    .chain(ask.instants.iter().map(micros))
                    .chain(numbers)
                    .collect();
                let text = select(&columns, ask.from, "punctual.");
                let rows = runtime.block_on(async {
                    let client = backends::connect(url).await?;
                    client.query(&text, &[]).await
                })?;
                let row = |row: &tokio_postgres::Row| {
                    let id = |index| id_of(row.try_get(index)?);
                    let numbers = (ids..columns.len()).map(|index| row.try_get(index));
                    Ok(Row {
                        ids: (0..ids).map(id).collect::<Result<_, Failure>>()?,
                        numbers: numbers.collect::<Result<_, _>>()?,
                    })
                };
                rows.iter().map(row).collect()
            }
        }
    }
}

fn select(columns: &[String], from: &str, prefix: &str) -> String {
    format!("SELECT {} FROM {}", columns.join(", "), from.replace("{}", prefix))
}
