//! Nodes and their heartbeats.

use punctual_core::{NodeId, Timestamp};
use punctual_store::{BeatAsk, Beaten, NodeInfo, RoleBeat, rules};
use rusqlite::{Connection, params};

use crate::error::Outcome;
use crate::{leaders, rows, sql};

pub(crate) fn join(db: &Connection, now: Timestamp, info: &NodeInfo) -> Outcome<Timestamp> {
    db.prepare_cached(sql::NODE_JOIN)?.execute(params![
        info.id.as_bytes(),
        info.name,
        info.version,
        rows::list_text(&info.queues),
        rows::list_text(&info.kinds),
        rows::list_text(&info.labels),
        now.as_micros(),
    ])?;
    Ok(now)
}

pub(crate) fn beat(db: &Connection, now: Timestamp, ask: &BeatAsk) -> Outcome<Beaten> {
    let node = ask.node.as_bytes();
    let alive = db.prepare_cached(sql::NODE_BEAT)?.execute(params![node, now.as_micros()])? == 1;
    let mut roles = Vec::new();
    for fence in &ask.roles {
        let renewed = if alive { leaders::renew(db, now, fence, ask.lease)? } else { None };
        roles.push(match renewed {
            Some((until, steady_since)) => RoleBeat::Renewed { until, steady_since },
            None => RoleBeat::Lost,
        });
    }
    let mut statement = db.prepare_cached(sql::LEASE_CANCELS)?;
    let cancels = statement.query_map([node], |row| rows::job_id(row, 0))?;
    let cancels = cancels.collect::<rusqlite::Result<_>>()?;
    Ok(Beaten { at: now, alive, running: leases(db, ask.node)?, cancels, roles })
}

/// Is the node there, and not declared dead?
pub(crate) fn is_alive(db: &Connection, node: NodeId) -> Outcome<bool> {
    Ok(db.prepare_cached(sql::NODE_ALIVE)?.exists([node.as_bytes()])?)
}

pub(crate) fn leave(db: &Connection, node: NodeId) -> Outcome<()> {
    let leases = leases(db, node)?;
    if leases > 0 {
        return Err(rules::still_at_work(node, leases).into());
    }
    db.prepare_cached(sql::NODE_LEAVE)?.execute([node.as_bytes()])?;
    Ok(())
}

/// How many jobs a node has under lease.
fn leases(db: &Connection, node: NodeId) -> Outcome<u64> {
    let mut statement = db.prepare_cached(sql::LEASE_COUNT)?;
    Ok(statement.query_row([node.as_bytes()], |row| row.get(0))?)
}
