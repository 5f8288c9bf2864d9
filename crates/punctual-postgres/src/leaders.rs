//! Roles, each led by one node for a term.

use std::time::Duration;

use punctual_core::{NodeId, Nonce, Timestamp};
use punctual_store::{Acquired, At, Fence, rules};

use crate::connection::{Conn, first};
use crate::error::Outcome;
use crate::rows::{self, Instant};
use crate::sql;

pub(crate) async fn acquire(
    conn: &mut Conn,
    at: At,
    role: &str,
    node: NodeId,
    nonce: Nonce,
    lease: Duration,
) -> Outcome<Acquired> {
    let at = rows::at(at);
    let mut found = conn.begin_with(&sql::LEADER_LOCK, &[&at, &role]).await?;
    if found.is_empty() {
        conn.query(&sql::LEADER_BEGIN, &[&role]).await?;
        found = conn.query(&sql::LEADER_LOCK, &[&at, &role]).await?;
    }
    let row = first(found, "leader_lock")?;
    let now = rows::instant(&row, 0)?;
    let held = rows::leader_from(&row, 1)?;
    // The answer to an earlier try was lost.
    if held.fence.nonce == nonce && held.fence.term > 0 {
        conn.commit().await?;
        return Ok(Acquired::Won { at: now, term: held.fence.term, until: held.until });
    }
    if held.until > now {
        // A clock that was set back must not leave a dead leader in office.
        let until = rules::clamp_lease(held.until, now, lease);
        if until != held.until {
            conn.query(&sql::LEADER_UNTIL, &[&role, &Instant(until)]).await?;
        }
        conn.commit().await?;
        return Ok(Acquired::Held { at: now, by: held.node, until });
    }
    let (term, until) = (held.fence.term + 1, now + lease);
    let (nonce, node) = (nonce.as_uuid(), node.as_uuid());
    let begun: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [&role, &term, &nonce, &node, &Instant(now), &Instant(until), &rows::micros(lease)];
    conn.commit_with(&sql::LEADER_PUT, &begun).await?;
    Ok(Acquired::Won { at: now, term, until })
}

/// A term that was just renewed.
pub(crate) struct Renewed {
    /// The end of the lease.
    pub(crate) until: Timestamp,
    /// The watched time of the role.
    pub(crate) watched: Duration,
    /// Who leads.
    pub(crate) node: NodeId,
}

/// Begins a transaction by renewing a term, if it is not over; every write that needs leadership
/// does. The row stays locked, so that the term does not end before the transaction does.
pub(crate) async fn begin_renewed(
    conn: &mut Conn,
    at: At,
    fence: &Fence,
    lease: Duration,
) -> Outcome<(Timestamp, Option<Renewed>)> {
    let bound: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&rows::at(at), &fence.role, &fence.term, &fence.nonce.as_uuid(), &rows::micros(lease)];
    let row = first(conn.begin_with(&sql::LEADER_RENEW, &bound).await?, "leader_renew")?;
    let now = rows::instant(&row, 0)?;
    let Some(until) = rows::instant_opt(&row, 1)? else { return Ok((now, None)) };
    let renewed = Renewed { until, watched: rows::length(&row, 2)?, node: rows::node_id(&row, 3)? };
    Ok((now, Some(renewed)))
}

/// Gives a role up, and tells those who listen.
pub(crate) async fn resign(
    conn: &mut Conn,
    at: At,
    fence: &Fence,
    channel: &str,
    message: &str,
) -> Outcome<bool> {
    let resigned = rules::resigned(fence.nonce);
    let told = conn
        .query(
            &sql::LEADER_RESIGN,
            &[
                &rows::at(at),
                &fence.role,
                &fence.term,
                &fence.nonce.as_uuid(),
                &resigned.as_uuid(),
                &channel,
                &message,
            ],
        )
        .await?;
    Ok(!told.is_empty())
}
