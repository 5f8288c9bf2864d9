//! Queues: pause and limits.

use punctual_store::{Actor, At, Queue, QueueChange};

use crate::connection::{Conn, first};
use crate::error::Outcome;
use crate::rows::{self, Instant};
use crate::{jobs, sql, upkeep};

pub(crate) async fn change(
    conn: &mut Conn,
    at: At,
    name: &str,
    change: &QueueChange,
    actor: &Actor,
) -> Outcome<Queue> {
    let now = jobs::begin(conn, at).await?;
    conn.query(&sql::QUEUE_BEGIN, &[&name]).await?;
    let mut queue = rows::queue(&first(conn.query(&sql::QUEUE, &[&name]).await?, "queue")?)?;
    let action = queue.change(change, actor, now);
    let pause = queue.pause.as_ref();
    conn.query(
        &sql::QUEUE_PUT,
        &[
            &queue.name,
            &pause.map(|pause| rows::text(&pause.by.who)),
            &pause.map(|pause| rows::text(&pause.by.why)),
            &pause.map(|pause| Instant(pause.since)),
            &pause.and_then(|pause| pause.until).map(Instant),
            &queue.limits.max_running.map(i64::from),
        ],
    )
    .await?;
    upkeep::note(conn, now, actor, &action, name).await?;
    conn.commit().await?;
    Ok(queue)
}
