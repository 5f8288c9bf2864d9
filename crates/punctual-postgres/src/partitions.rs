//! Days of jobs: made ahead, and dropped whole when they are old, after what must stay was moved.
//!
//! Both need a moment in which nobody uses the tables, so both wait for it only briefly: whoever
//! reads for long has the right of way, and it is tried again with the next prune. Nor does that
//! moment grow with the day: what must stay of it is found by indexes.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::{At, Retention};
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::connection::{Conn, first};
use crate::error::{Fault, Outcome};
use crate::pool::{Pool, Taken};
use crate::rows::{self, Instant, Read};
use crate::{migrate, sql};

/// The tables that are partitioned alike, and the column that their day is read from.
const TWINS: [(&str, &str); 5] = [
    ("job", "id"),
    ("job_done", "job"),
    ("job_attempt", "job"),
    ("job_step", "job"),
    ("job_log", "job"),
];

/// Where a job stands that has not ended.
const SEATS: [&str; 4] = ["job_ready", "job_timer", "job_wait", "job_lease"];

const DAY_MS: i64 = 86_400_000;
/// More than this many jobs that must stay are not worth the time that nobody may use the tables:
/// the day is left, and dropped when less of it must stay.
const KEEP_MAX: usize = 10_000;
/// Days dropped with one prune, so that it ends.
const DROPS_MAX: usize = 3;

/// A day that is still there so long after it may go stays for a reason.
const OVERDUE: Duration = Duration::from_secs(86_400);

/// For how long others may be kept waiting, and for how long this waits for others; and that no day is
/// read whole meanwhile, also behind a pooler.
const SETTINGS: &str = "SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = '10s'; \
                        SET LOCAL enable_seqscan = off";

/// The server says first that it took too long.
const PATIENCE: Duration = Duration::from_secs(12);

/// A day of UTC, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Day(i64);

impl Day {
    fn of(instant: Timestamp) -> Day {
        Day(instant.as_micros().div_euclid(DAY_MS * 1_000).max(0))
    }

    fn start(self) -> Timestamp {
        Timestamp::from_micros(self.0 * DAY_MS * 1_000)
    }

    fn end(self) -> Timestamp {
        Day(self.0 + 1).start()
    }

    /// `20271231`
    fn name(self) -> String {
        self.start().to_string().chars().take(10).filter(char::is_ascii_digit).collect()
    }

    fn named(name: &str) -> Option<Day> {
        let (year, rest) = (name.get(..4)?, name.get(4..)?);
        let (month, day) = (rest.get(..2)?, rest.get(2..)?);
        let start: Timestamp = format!("{year}-{month}-{day}T00:00:00Z").parse().ok()?;
        Some(Day::of(start)).filter(|day| day.name() == name)
    }

    /// The least id of the day: the first 48 bits are milliseconds.
    fn bound(self) -> String {
        let hex = format!("{:012x}", self.0 * DAY_MS);
        format!("{}-{}-0000-0000-000000000000", &hex[..8], &hex[8..])
    }
}

/// The days that have partitions.
async fn days(conn: &mut Conn) -> Outcome<BTreeSet<Day>> {
    let text = "SELECT c.relname::text FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid \
                WHERE i.inhparent = to_regclass($1)";
    let parent = format!("{}.job", conn.texts().schema());
    let found = conn.query_text(text, &[(&parent, Type::TEXT)]).await?;
    let mut days = BTreeSet::new();
    for row in &found {
        let name: &str = rows::get(row, 0)?;
        days.extend(name.strip_prefix("job_").and_then(Day::named));
    }
    Ok(days)
}

/// Begins a transaction that changes tables; false if somebody else is doing that.
async fn begin(conn: &mut Conn) -> Outcome<bool> {
    let lock = migrate::lock(conn.texts().schema()).replace("pg_advisory", "pg_try_advisory");
    conn.begin().await?;
    conn.script(SETTINGS).await?;
    let locked = conn.query_text(&lock, &[]).await?;
    locked.first().map_or(Ok(false), |row| rows::get(row, 0))
}

/// Makes the partitions of today and of the days after it.
pub(crate) async fn make_ahead(conn: &mut Conn, at: At, days_ahead: u32) -> Outcome<()> {
    let row = conn.query_one(&sql::NOW, &[&rows::at(at)]).await?;
    let today = Day::of(rows::instant(&row, 0)?);
    let there = days(conn).await?;
    for day in (today.0..=today.0 + i64::from(days_ahead)).map(Day) {
        if !there.contains(&day) && !make(conn, day).await? {
            break;
        }
    }
    Ok(())
}

/// Has tomorrow its partitions?
pub(crate) async fn is_ahead(conn: &mut Conn, at: At) -> Outcome<bool> {
    let row = conn.query_one(&sql::NOW, &[&rows::at(at)]).await?;
    let today = Day::of(rows::instant(&row, 0)?);
    Ok(days(conn).await?.contains(&Day(today.0 + 1)))
}

/// The oldest day that should be gone, and how many those are.
pub(crate) async fn overdue(
    conn: &mut Conn,
    at: At,
    retention: &Retention,
) -> Outcome<Option<(String, usize)>> {
    let row = conn.query_one(&sql::NOW, &[&rows::at(at)]).await?;
    let days = old(conn, rows::instant(&row, 0)? - OVERDUE, retention).await?;
    Ok(days.first().map(|day| (day.name(), days.len())))
}

/// Makes the partitions of one day; false if somebody else is doing that.
async fn make(conn: &mut Conn, day: Day) -> Outcome<bool> {
    if !begin(conn).await? {
        conn.rollback().await?;
        return Ok(false);
    }
    if !days(conn).await?.contains(&day) {
        let schema = conn.texts().schema().to_owned();
        // Attaching alone lets others go on, and whoever planned before it and looks after it would
        // look for the rows that are moved where they no longer are: a claim would find a job without
        // its body, and take it out of the line.
        for (table, _) in TWINS {
            conn.script(&format!("LOCK TABLE ONLY {schema}.{table} IN ACCESS EXCLUSIVE MODE"))
                .await?;
        }
        let (name, from, to) = (day.name(), day.bound(), Day(day.0 + 1).bound());
        conn.be_patient(PATIENCE);
        for (table, column) in TWINS {
            let (parent, part) = (format!("{schema}.{table}"), format!("{schema}.{table}_{name}"));
            // Rows that came before their day lie in the default partition, and would forbid it.
            conn.script(&format!(
                "LOCK TABLE {parent}_default IN ACCESS EXCLUSIVE MODE;
                 CREATE TABLE {part} (LIKE {parent} INCLUDING ALL);
                 WITH strays AS (DELETE FROM {parent}_default
                   WHERE {column} >= '{from}' AND {column} < '{to}' RETURNING *)
                 INSERT INTO {part} SELECT * FROM strays;
                 ALTER TABLE {parent} ATTACH PARTITION {part} FOR VALUES FROM ('{from}') TO ('{to}')"
            ))
            .await?;
        }
    }
    conn.commit().await?;
    Ok(true)
}

/// Makes new days and drops old ones, as far as that is possible now; tells how many jobs went. New
/// ones first: what has no day lies in the default, where it is in the way of its day.
pub(crate) async fn upkeep(
    pool: &Pool,
    now: Timestamp,
    retention: &Retention,
    days_ahead: u32,
) -> u64 {
    if days_ahead == 0 {
        return 0;
    }
    let mut conn = match pool.take().await {
        Ok(conn) => conn,
        Err(error) => {
            tracing::warn!(%error, "partition maintenance skipped");
            return 0;
        }
    };
    if let Err(fault) = make_ahead(&mut conn, At::Fixed(now), days_ahead).await {
        match given_way(pool, conn, &fault).await {
            Some(sound) => conn = sound,
            None => return 0,
        }
    }
    let mut dropped = 0;
    if let Err(fault) = drop_old(&mut conn, now, retention, &mut dropped).await {
        given_way(pool, conn, &fault).await;
    }
    dropped
}

/// Says why days were not looked after, and gives the connection back if it can still be used.
async fn given_way(pool: &Pool, mut conn: Taken, fault: &Fault) -> Option<Taken> {
    let error = fault.tell(pool.server());
    match fault.is_lock_timeout() {
        true => tracing::debug!(%error, "partition maintenance postponed: the tables are in use"),
        false => tracing::warn!(%error, "partition maintenance failed"),
    }
    if fault.is_lost() || conn.rollback().await.is_err() {
        conn.discard();
        return None;
    }
    Some(conn)
}

async fn drop_old(
    conn: &mut Conn,
    now: Timestamp,
    retention: &Retention,
    dropped: &mut u64,
) -> Outcome<()> {
    let mut drops = 0;
    for day in old(conn, now, retention).await? {
        if drops == DROPS_MAX {
            break;
        }
        if let Some(jobs) = drop_day(conn, day, now, retention).await? {
            *dropped += jobs;
            drops += 1;
        }
    }
    Ok(())
}

/// The days of which not all need be kept any more, oldest first.
async fn old(conn: &mut Conn, now: Timestamp, retention: &Retention) -> Outcome<Vec<Day>> {
    let shortest = retention.finished.min(retention.failed);
    let days = days(conn).await?.into_iter();
    Ok(days.filter(|day| day.end() <= now - shortest).collect())
}

/// Finds what of a day must stay: what has not ended, which stands somewhere, and what ended too
/// lately. It reads indexes by the day's ids and by ends, and no more of the day than that.
fn staying_text(schema: &str, day: Day) -> String {
    let (name, from, to) = (day.name(), day.bound(), Day(day.0 + 1).bound());
    let seats = SEATS.map(|table| {
        format!("SELECT job FROM {schema}.{table} WHERE job >= '{from}' AND job < '{to}'")
    });
    format!(
        "{} UNION ALL SELECT job FROM {schema}.job_done_{name} WHERE outcome <> 2 AND finished_at >= $1 \
         UNION ALL SELECT job FROM {schema}.job_done_{name} WHERE outcome = 2 AND finished_at >= $2 \
         LIMIT {}",
        seats.join(" UNION ALL "),
        KEEP_MAX + 1
    )
}

/// Moves the rows of some jobs out of a day. Through the parent, which has no place for that day any
/// more but the default.
fn moving_text(schema: &str, (table, column): (&str, &str), day: Day) -> String {
    let name = day.name();
    format!(
        "INSERT INTO {schema}.{table} SELECT d.* FROM unnest($1::uuid[]) AS s(id) CROSS JOIN LATERAL (\
         SELECT * FROM {schema}.{table}_{name} AS x WHERE x.{column} = s.id OFFSET 0) AS d"
    )
}

/// What of a day must stay; none if that is too much.
async fn staying(
    conn: &mut Conn,
    day: Day,
    bounds: &[(&(dyn ToSql + Sync), Type)],
) -> Outcome<Option<Vec<Uuid>>> {
    let text = staying_text(conn.texts().schema(), day);
    let found = conn.query_text(&text, bounds).await?;
    if found.len() > KEEP_MAX {
        return Ok(None);
    }
    // Each once, also if damage has left one in two places.
    let ids = found.iter().map(|row| rows::get(row, 0)).collect::<Read<BTreeSet<Uuid>>>()?;
    Ok(Some(ids.into_iter().collect()))
}

/// Drops a day, and tells how many jobs went with it; none if too much of it must stay.
async fn drop_day(
    conn: &mut Conn,
    day: Day,
    now: Timestamp,
    retention: &Retention,
) -> Outcome<Option<u64>> {
    let schema = conn.texts().schema().to_owned();
    let name = day.name();
    let before = |kept: Duration| Instant(now - kept);
    let (finished, failed) = (before(retention.finished), before(retention.failed));
    let bounds: [(&(dyn ToSql + Sync), Type); 2] =
        [(&finished, Type::TIMESTAMPTZ), (&failed, Type::TIMESTAMPTZ)];
    if !begin(conn).await? {
        conn.rollback().await?;
        return Ok(None);
    }
    conn.be_patient(PATIENCE);
    if staying(conn, day, &bounds).await?.is_none() {
        conn.rollback().await?;
        tracing::warn!(
            day = name,
            "expired partition not dropped yet: more than {KEEP_MAX} of its jobs must be kept"
        );
        return Ok(None);
    }
    // Only told, so that it is counted before anybody is kept waiting.
    let total = number(conn, &format!("SELECT count(*) FROM {schema}.job_{name}"), &[]).await?;
    for (table, _) in TWINS {
        conn.script(&format!(
            "ALTER TABLE {schema}.{table} DETACH PARTITION {schema}.{table}_{name}"
        ))
        .await?;
    }
    // From here on nobody else can reach the day, or change what must stay of it.
    let Some(staying) = staying(conn, day, &bounds).await? else {
        conn.rollback().await?;
        return Ok(None);
    };
    for twin in TWINS.into_iter().rev() {
        let text = moving_text(&schema, twin, day);
        conn.query_text(&text, &[(&staying, Type::UUID_ARRAY)]).await?;
    }
    for (table, _) in TWINS {
        conn.script(&format!("DROP TABLE {schema}.{table}_{name}")).await?;
    }
    conn.commit().await?;
    Ok(Some(u64::try_from(total).unwrap_or(0).saturating_sub(staying.len() as u64)))
}

/// The number that a statement answers with.
async fn number(
    conn: &mut Conn,
    text: &str,
    bound: &[(&(dyn ToSql + Sync), Type)],
) -> Outcome<i64> {
    rows::get(&first(conn.query_text(text, bound).await?, "a count")?, 0)
}

/// Makes the partitions of the day of an instant; for tests.
#[cfg(test)]
pub(crate) async fn make_day(conn: &mut Conn, instant: Timestamp) -> Outcome<bool> {
    make(conn, Day::of(instant)).await
}

/// The statements that are run while nobody may use the tables; for tests.
#[cfg(test)]
pub(crate) fn dropping_texts(schema: &str, instant: Timestamp) -> (String, Vec<String>) {
    let day = Day::of(instant);
    let moving = TWINS.into_iter().map(|twin| moving_text(schema, twin, day));
    (staying_text(schema, day), moving.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_bounded_by_the_ids_minted_on_it() {
        let noon = Timestamp::from_seconds(1_798_761_600 + 43_200);
        let day = Day::of(noon);
        assert_eq!(day.name(), "20270101");
        assert_eq!(Day::named("20270101"), Some(day));
        for text in ["default", "2027010", "20271301", "20270132", ""] {
            assert_eq!(Day::named(text), None, "{text}");
        }
        let id = |instant: Timestamp, random: u8| {
            punctual_core::JobId::mint(instant, [random; 10]).to_string()
        };
        assert!(day.bound() <= id(day.start(), 0));
        assert!(id(day.end() - Duration::from_millis(1), 0xFF) < Day(day.0 + 1).bound());
        assert!(Day(day.0 + 1).bound() <= id(day.end(), 0));
    }
}
