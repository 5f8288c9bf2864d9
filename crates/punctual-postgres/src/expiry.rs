//! Start deadlines: jobs that wait past them fail.

use punctual_core::Timestamp;
use punctual_core::job::EXPIRED;
use punctual_store::{At, ExpireRequest, ExpireResponse, ExpiredJob, rules};
use tokio_postgres::Row;

use crate::connection::{Bound, Conn};
use crate::error::Outcome;
use crate::rows::{self, Instant, Read};
use crate::{leaders, sql};

pub(crate) async fn expire(
    conn: &mut Conn,
    at: At,
    request: &ExpireRequest,
) -> Outcome<ExpireResponse> {
    let (now, renewed) = leaders::begin_renewed(conn, at, &request.fence, request.lease).await?;
    let mut response = ExpireResponse::nothing(now);
    if renewed.is_none() {
        conn.rollback().await?;
        return Ok(response);
    }
    response.led = true;
    let limit = rows::count(request.limit);
    let bound: Bound<'_> = &[
        &Instant(now),
        &limit,
        &rows::micros(request.recheck_after),
        &EXPIRED,
        &rules::UNREADABLE,
    ];
    for row in &conn.query(&sql::EXPIRE, bound).await? {
        let checked: i64 = rows::get(row, 0)?;
        response.is_more = checked > 0 && checked == limit;
        response.jobs.extend(read(row)?);
    }
    conn.commit().await?;
    Ok(response)
}

/// None: no job was ended.
fn read(row: &Row) -> Read<Option<ExpiredJob>> {
    let Some(is_readable) = rows::get::<Option<bool>>(row, 5)? else { return Ok(None) };
    let error = if is_readable { EXPIRED } else { rules::UNREADABLE };
    let due_at: Timestamp = rows::instant(row, 4)?;
    let (queue, kind) = (rows::get(row, 2)?, rows::get(row, 3)?);
    Ok(Some(ExpiredJob { job: rows::job_id(row, 1)?, queue, kind, due_at, error }))
}
