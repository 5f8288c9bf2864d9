//! The lateness of slots while many clients read the most expensive list, and without them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use punctual::{Order, Punctual};
use punctual_core::schedule::{Definition, Overlap};
use punctual_engine::{Env, System};
use tokio::task::JoinSet;

use super::{fill, serve};
use crate::Failure;
use crate::client::{Connection, get};
use crate::databases::Databases;
use crate::measure::Times;
use crate::report::{Figure, Goal, Unit};

const SCHEDULE: &str = "every-second";
/// Two filters that no index combines.
const LIST: &str = "/api/v1/jobs?limit=50&tag=t7&kind=sleep";
/// Pause of a client after a rejected request; clients of the API wait for `Retry-After`, which is 1 s.
const RETRY_AFTER: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Slots that are read at once.
const PAGE: usize = 200;

/// What the clients did.
#[derive(Default)]
struct Requests {
    is_over: AtomicBool,
    lists: AtomicU64,
    rejected: AtomicU64,
}

pub(super) async fn measure(
    databases: &Databases,
    jobs: usize,
    connections: usize,
    slots: usize,
) -> Result<Vec<Figure>, Failure> {
    let database = databases.fresh("lists").await?;
    let (punctual, server) = serve(&database).await?;
    eprintln!("enqueueing {jobs} jobs …");
    fill(&punctual, jobs, |n| {
        let kind = if n % 3 == 0 { "sleep" } else { "mail" };
        Order::of_kind(kind, &n).queue("lists").tag(&format!("t{}", n % 10))
    })
    .await?;
    database.rest().await?;
    let mut definition = Definition::new("* * * * * *", "none");
    definition.seconds = true;
    definition.overlap = Overlap::Allow;
    punctual.admin().create_schedule(SCHEDULE, &definition).await?;
    let mut decided = 0;
    eprintln!("{slots} slots without load …");
    let quiet = late(&punctual, &mut decided, slots).await?;
    eprintln!("{slots} slots while {connections} connections read lists …");
    let requests = Arc::new(Requests::default());
    let clients = {
        let requests = requests.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        tokio::task::spawn_blocking(move || {
            runtime.block_on(read_lists(server, connections, requests))
        })
    };
    // The ledger is a list, too: it is read when the clients are gone.
    System.sleep(Duration::from_secs(slots as u64)).await;
    requests.is_over.store(true, Ordering::Relaxed);
    clients.await??;
    let loaded = late(&punctual, &mut decided, slots).await?;
    punctual.stop().await;
    let (lists, rejected) =
        (requests.lists.load(Ordering::Relaxed), requests.rejected.load(Ordering::Relaxed));
    let name = |what| format!("lateness of slots, {connections} list readers / none, {what}");
    Ok(vec![
        Figure::of(name("median"), Unit::Millis, quiet.median, loaded.median),
        Figure::of(name("p99"), Unit::Millis, quiet.p99, loaded.p99).goal(Goal::AtMost(5.0)),
        Figure::of(name("max"), Unit::Millis, quiet.max, loaded.max),
        Figure::alone("lists read", Unit::Rows, lists as f64),
        Figure::alone("lists rejected with 503", Unit::Rows, rejected as f64),
    ])
}

/// Waits until this many further slots are decided and returns how late they were. `decided` is the
/// number of all slots so far.
async fn late(punctual: &Punctual, decided: &mut usize, slots: usize) -> Result<Times, Failure> {
    let wanted = *decided + slots;
    loop {
        System.sleep(LOOK_EVERY).await;
        let times = ledger(punctual).await?;
        if times.len() >= wanted {
            let late = times[*decided..wanted].to_vec();
            *decided = times.len();
            return Ok(Times::of(late));
        }
    }
}

/// The lateness of every slot, oldest first.
async fn ledger(punctual: &Punctual) -> Result<Vec<Duration>, Failure> {
    let (mut late, mut after) = (Vec::new(), None);
    loop {
        let page = punctual.admin().slots(SCHEDULE, after, PAGE).await?;
        late.extend(page.items.iter().map(|slot| slot.decided_at.since(slot.slot)));
        after = page.next;
        if after.is_none() {
            late.reverse();
            return Ok(late);
        }
    }
}

async fn read_lists(
    server: SocketAddr,
    connections: usize,
    requests: Arc<Requests>,
) -> Result<(), Failure> {
    let mut clients = JoinSet::new();
    for _ in 0..connections {
        let requests = requests.clone();
        clients.spawn(async move {
            let mut connection = Connection::open(server).await?;
            while !requests.is_over.load(Ordering::Relaxed) {
                match connection.exchange(&get(LIST)).await? {
                    (200, _) => drop(requests.lists.fetch_add(1, Ordering::Relaxed)),
                    (503, _) => {
                        requests.rejected.fetch_add(1, Ordering::Relaxed);
                        System.sleep(RETRY_AFTER).await;
                    }
                    (status, body) => {
                        let body = String::from_utf8_lossy(body);
                        return Err(format!("list rejected with {status}: {body}").into());
                    }
                }
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(())
}
