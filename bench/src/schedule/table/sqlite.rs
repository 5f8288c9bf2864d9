//! Schedules in SQLite.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::{Lot, ON_TIME, Table};
use crate::Failure;

const NOW: &str = "SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER)";

/// A millisecond from one to the next, a day from now.
const FILL: &str = "
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?1)
INSERT INTO punctual_schedule (id, tenant, name, owner, set_name, shard, revision, stamp, enabled, next_slot, created_at, changed_at, spec)
SELECT unhex(?2 || printf('%012x', n), '-'), '', ?3 || n,
  CASE WHEN n % ?4 = 0 THEN ?5 || ((n / ?4) % ?6) ELSE '' END,
  '', 0, 1, 1, 1, ?7 + 86400000000 + n * 1000, ?7, ?7, ?8
FROM numbers";

const STAGE: &str = "UPDATE punctual_schedule SET next_slot = ?2 WHERE owner = ?1";

const LATE: &str = "
SELECT decided_at - slot FROM punctual_slot
WHERE schedule BETWEEN ?1 AND ?2 AND slot >= ?3 AND slot_end IS NULL";

const ROWS_BEHIND: &str = "
SELECT count(*) FROM punctual_slot WHERE schedule BETWEEN ?1 AND ?2 AND decided_at - slot > ?3";

const IS_BEHIND: &str = "
SELECT 1 FROM punctual_schedule INDEXED BY punctual_schedule_due WHERE shard = 0 AND due_at <= ?1 LIMIT 1";

struct SqliteTable(Connection);

pub(super) fn open(path: &Path) -> Result<impl Table + use<>, Failure> {
    let db = Connection::open(path)?;
    // What is written here is there before anything is measured, and made anew if it is lost.
    db.pragma_update(None, "synchronous", "OFF")?;
    db.pragma_update(None, "cache_size", -262_144)?;
    Ok(SqliteTable(db))
}

impl SqliteTable {
    /// The first and the last id that a lot may have.
    fn ids(lot: &Lot) -> Result<[Vec<u8>; 2], Failure> {
        let bytes = |number| Ok::<_, Failure>(lot.id(number)?.as_bytes().to_vec());
        Ok([bytes(0)?, bytes(lot.count)?])
    }
}

#[async_trait(?Send)]
impl Table for SqliteTable {
    async fn now(&self) -> Result<Timestamp, Failure> {
        Ok(Timestamp::from_micros(self.0.query_row(NOW, [], |row| row.get(0))?))
    }

    async fn fill(&self, lot: &Lot) -> Result<(), Failure> {
        let class = format!("{}/", lot.number);
        self.0.execute(
            FILL,
            params![
                lot.count as i64,
                lot.prefix(),
                lot.name(0).trim_end_matches('0'),
                lot.stride as i64,
                class,
                lot.classes as i64,
                self.now().await?.as_micros(),
                lot.spec()?
            ],
        )?;
        // So that the pages are not written in the middle of a measurement.
        self.0.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    async fn stage(&self, lot: &Lot, class: usize, slot: Timestamp) -> Result<usize, Failure> {
        let staged =
            self.0.execute(STAGE, params![format!("{}/{class}", lot.number), slot.as_micros()])?;
        self.0.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(staged)
    }

    async fn late(&self, lot: &Lot, from: Timestamp) -> Result<Vec<Duration>, Failure> {
        let [first, last] = Self::ids(lot)?;
        let mut late = self.0.prepare(LATE)?;
        let found = late.query_map(params![first, last, from.as_micros()], |row| row.get(0))?;
        Ok(found
            .map(|micros: rusqlite::Result<i64>| {
                micros.map(|micros| Duration::from_micros(micros.max(0).unsigned_abs()))
            })
            .collect::<Result<_, _>>()?)
    }

    async fn rows_behind(&self, lot: &Lot) -> Result<usize, Failure> {
        let [first, last] = Self::ids(lot)?;
        let asked = params![first, last, i64::try_from(ON_TIME.as_micros())?];
        let rows: i64 = self.0.query_row(ROWS_BEHIND, asked, |row| row.get(0))?;
        Ok(usize::try_from(rows)?)
    }

    async fn is_behind(&self, since: Timestamp) -> Result<bool, Failure> {
        let found = self.0.query_row(IS_BEHIND, [since.as_micros()], |_| Ok(()));
        Ok(found.optional()?.is_some())
    }
}
