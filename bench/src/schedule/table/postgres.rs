//! Schedules in PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Timestamp;
use tokio_postgres::Client;
use uuid::Uuid;

use super::{Lot, ON_TIME, Table};
use crate::Failure;
use crate::databases::PostgresDatabase;

const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// A millisecond from one to the next, a day from now.
const FILL: &str = "
INSERT INTO punctual.schedule (id, tenant, name, owner, set_name, shard, revision, stamp, enabled, next_slot, created_at, changed_at, spec)
SELECT ($2::text || lpad(to_hex(n), 12, '0'))::uuid, '', $3::text || n,
  CASE WHEN n % $4::bigint = 0 THEN $5::text || ((n / $4) % $6::bigint) ELSE '' END,
  '', 0, 1, 1, true, now() + interval '1 day' + n * interval '1 millisecond', now(), now(), $7::text::json
FROM generate_series(0, $1::bigint - 1) AS n";

const STAGE: &str = "
UPDATE punctual.schedule SET next_slot = 'epoch'::timestamptz + $2::bigint * interval '1 microsecond' WHERE owner = $1";

const LATE: &str = "
SELECT (extract(epoch FROM decided_at - slot) * 1000000)::bigint FROM punctual.slot
WHERE schedule BETWEEN $1 AND $2 AND slot_end IS NULL
  AND slot >= 'epoch'::timestamptz + $3::bigint * interval '1 microsecond'";

const ROWS_BEHIND: &str = "
SELECT count(*) FROM punctual.slot
WHERE schedule BETWEEN $1 AND $2 AND decided_at - slot > $3::bigint * interval '1 microsecond'";

const IS_BEHIND: &str = "
SELECT FROM punctual.schedule
WHERE shard = 0 AND due_at <= 'epoch'::timestamptz + $1::bigint * interval '1 microsecond' LIMIT 1";

struct PostgresTable(Client);

pub(super) async fn open(database: &PostgresDatabase) -> Result<impl Table + use<>, Failure> {
    Ok(PostgresTable(database.connect().await?))
}

impl PostgresTable {
    /// The first and the last id that a lot may have.
    fn ids(lot: &Lot) -> Result<[Uuid; 2], Failure> {
        Ok([lot.id(0)?.as_uuid(), lot.id(lot.count)?.as_uuid()])
    }
}

#[async_trait(?Send)]
impl Table for PostgresTable {
    async fn now(&self) -> Result<Timestamp, Failure> {
        Ok(Timestamp::from_micros(self.0.query_one(NOW, &[]).await?.try_get(0)?))
    }

    async fn fill(&self, lot: &Lot) -> Result<(), Failure> {
        let (class, name) = (format!("{}/", lot.number), lot.name(0));
        let count = |count: usize| i64::try_from(count);
        self.0
            .execute(
                FILL,
                &[
                    &count(lot.count)?,
                    &lot.prefix(),
                    &name.trim_end_matches('0'),
                    &count(lot.stride)?,
                    &class,
                    &count(lot.classes)?,
                    &lot.spec()?,
                ],
            )
            .await?;
        Ok(())
    }

    async fn stage(&self, lot: &Lot, class: usize, slot: Timestamp) -> Result<usize, Failure> {
        let class = format!("{}/{class}", lot.number);
        Ok(usize::try_from(self.0.execute(STAGE, &[&class, &slot.as_micros()]).await?)?)
    }

    async fn late(&self, lot: &Lot, from: Timestamp) -> Result<Vec<Duration>, Failure> {
        let [first, last] = Self::ids(lot)?;
        let found = self.0.query(LATE, &[&first, &last, &from.as_micros()]).await?;
        let micros = |micros: i64| Duration::from_micros(micros.max(0).unsigned_abs());
        Ok(found.iter().map(|row| row.try_get(0).map(micros)).collect::<Result<_, _>>()?)
    }

    async fn rows_behind(&self, lot: &Lot) -> Result<usize, Failure> {
        let [first, last] = Self::ids(lot)?;
        let on_time = i64::try_from(ON_TIME.as_micros())?;
        let row = self.0.query_one(ROWS_BEHIND, &[&first, &last, &on_time]).await?;
        Ok(usize::try_from(row.try_get::<_, i64>(0)?)?)
    }

    async fn is_behind(&self, since: Timestamp) -> Result<bool, Failure> {
        Ok(!self.0.query(IS_BEHIND, &[&since.as_micros()]).await?.is_empty())
    }
}
