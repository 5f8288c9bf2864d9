//! Roles, each led by one node for a term.

use std::time::Duration;

use punctual_core::{NodeId, Nonce, Timestamp};
use punctual_store::{Acquired, Fence, Leader, rules};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Outcome;
use crate::rows::{self, Read};
use crate::sql;

pub(crate) fn acquire(
    db: &Connection,
    now: Timestamp,
    role: &str,
    node: NodeId,
    nonce: Nonce,
    lease: Duration,
) -> Outcome<Acquired> {
    let held: Option<(i64, Option<Leader>)> = db
        .prepare_cached(sql::LEADER)?
        .query_row([role], |row| Ok((row.get(1)?, rows::leader(row).ok())))
        .optional()?;
    let term = match held {
        None => 1,
        // What cannot be read nobody can hold.
        Some((term, None)) => term + 1,
        // The answer to an earlier try was lost.
        Some((_, Some(held))) if held.fence.nonce == nonce => {
            return Ok(Acquired::Won { at: now, term: held.fence.term, until: held.until });
        }
        Some((_, Some(held))) if held.until > now => {
            // A clock that was set back must not leave a dead leader in office.
            let until = rules::clamp_lease(held.until, now, lease);
            if until != held.until {
                db.prepare_cached(sql::LEADER_UNTIL)?.execute(params![role, until.as_micros()])?;
            }
            return Ok(Acquired::Held { at: now, by: held.node, until });
        }
        Some((term, _)) => term + 1,
    };
    let until = now + lease;
    db.prepare_cached(sql::LEADER_PUT)?.execute(params![
        role,
        term,
        nonce.as_bytes(),
        node.as_bytes(),
        now.as_micros(),
        until.as_micros(),
        rows::micros(lease),
    ])?;
    let change = params![role, term, node.as_bytes(), now.as_micros()];
    db.prepare_cached(sql::LEADER_CHANGE_INSERT)?.execute(change)?;
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

/// Renews a term, if it is not over; every write that needs leadership begins with this.
pub(crate) fn renew(
    db: &Connection,
    now: Timestamp,
    fence: &Fence,
    lease: Duration,
) -> Outcome<Option<Renewed>> {
    let renewed = params![
        fence.role,
        fence.term,
        fence.nonce.as_bytes(),
        (now + lease).as_micros(),
        now.as_micros(),
        rows::micros(lease)
    ];
    let read = |row: &Row| -> Read<Renewed> {
        Ok(Renewed {
            until: rows::instant(row, 0)?,
            watched: rows::length(row, 1)?,
            node: rows::node_id(row, 2)?,
        })
    };
    let mut statement = db.prepare_cached(sql::LEADER_RENEW)?;
    Ok(statement.query_row(renewed, |row| Ok(read(row).ok())).optional()?.flatten())
}

pub(crate) fn resign(db: &Connection, now: Timestamp, fence: &Fence) -> Outcome<bool> {
    let resigned = rules::resigned(fence.nonce);
    let ended = params![
        fence.role,
        fence.term,
        fence.nonce.as_bytes(),
        now.as_micros(),
        resigned.as_bytes()
    ];
    Ok(db.prepare_cached(sql::LEADER_RESIGN)?.execute(ended)? == 1)
}

/// Ends the leases of all leaders that are not alive.
pub(crate) fn expire(db: &Connection) -> Outcome<()> {
    db.prepare_cached(sql::LEADER_EXPIRE)?.execute([])?;
    Ok(())
}

/// The end of a role's lease, if anybody ever led it.
pub(crate) fn lease_until(db: &Connection, role: &str) -> Outcome<Option<Timestamp>> {
    let mut lease = db.prepare_cached(sql::LEADER_LEASE)?;
    Ok(lease.query_row([role], |row| rows::instant(row, 0)).optional()?)
}
