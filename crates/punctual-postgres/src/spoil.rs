//! Damages rows, for tests.

use punctual_store::rules::Spoil;
use tokio_postgres::types::Type;

use crate::connection::Conn;
use crate::error::Outcome;
use crate::sql;

/// PostgreSQL keeps to its types, so that damage is a value that none of ours has.
pub(crate) async fn spoil(conn: &mut Conn, what: Spoil) -> Outcome<()> {
    let (id, texts): (uuid::Uuid, &[&str]) = match what {
        Spoil::Body(job) => {
            (job.as_uuid(), &["UPDATE {schema}.job SET timeout_us = -1 WHERE id = $1"])
        }
        Spoil::Tags(job) => (job.as_uuid(), &["UPDATE {schema}.job SET tags = '7' WHERE id = $1"]),
        Spoil::Seat(job) => (
            job.as_uuid(),
            &[
                "UPDATE {schema}.job_ready SET attempt = -1 WHERE job = $1",
                "UPDATE {schema}.job_timer SET attempt = -1 WHERE job = $1",
                "UPDATE {schema}.job_wait SET attempt = -1 WHERE job = $1",
                "UPDATE {schema}.job_lease SET attempt = -1 WHERE job = $1",
            ],
        ),
        Spoil::Lease(job) => (
            job.as_uuid(),
            &[
                "UPDATE {schema}.job_lease SET lease = '00000000-0000-0000-0000-000000000000' WHERE job = $1",
            ],
        ),
        Spoil::Unfinished(job) => (
            job.as_uuid(),
            &[
                "INSERT INTO {schema}.job_live (schedule, job) SELECT schedule, id FROM {schema}.job WHERE id = $1",
            ],
        ),
        Spoil::Schedule(id) => {
            (id.as_uuid(), &["UPDATE {schema}.schedule SET spec = NULL WHERE id = $1"])
        }
    };
    for text in texts {
        let text = sql::qualify(text, conn.texts().schema());
        conn.query_text(&text, &[(&id, Type::UUID)]).await?;
    }
    Ok(())
}
