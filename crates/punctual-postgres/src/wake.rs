//! Waking whoever waits: at once in this process, by NOTIFY in others. Only a hint: everything is
//! found by looking, too.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{self, Either};
use futures_util::{StreamExt, stream};
use punctual_store::{Bell, Hints, Result, Topic};
use tokio::sync::Notify;
use tokio_postgres::AsyncMessage;

use crate::connect::{Connector, pause, sleep};
use crate::error::{Fault, Outcome};
use crate::pool::Pool;
use crate::retry::attempt;
use crate::sql;
use crate::store::Shared;

/// The shortest time between two messages. The first goes at once, what follows is told together:
/// a queue that stays busy needs no waking, and each message makes all commits that notify wait
/// for each other.
const SPACING: Duration = Duration::from_millis(10);
/// How often a listening connection is asked whether it still hears.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the first further try to listen waits, and the longest.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MOST: Duration = Duration::from_secs(5);

/// What a message begins with: jobs stand in line where others have been claimed already, at the
/// end of the line; a role is free; schedules have changed.
const BEHIND: &str = "behind";
const WORK: &str = "work";
const ROLES: &str = "roles";
const SCHEDULES: &str = "schedules";

/// Who is to be woken, and what is to be told to other processes.
pub(crate) struct Wake {
    bell: Bell,
    /// What other processes are to be told.
    pending: Mutex<BTreeSet<String>>,
    has_pending: Notify,
    /// Marks this store's own messages.
    sender: String,
}

impl Wake {
    pub(crate) fn new() -> Wake {
        static STORES: AtomicU64 = AtomicU64::new(0);
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        Wake {
            bell: Bell::default(),
            pending: Mutex::default(),
            has_pending: Notify::new(),
            sender: format!("{}.{number}", std::process::id()),
        }
    }

    /// Listens from now on.
    pub(crate) fn listen(&self, topic: Topic) -> Hints {
        self.bell.listen(topic)
    }

    /// Jobs stand in line, perhaps where others have been claimed already.
    pub(crate) fn tell_work(&self, is_behind: bool) {
        self.bell.ring(Topic::Work);
        self.tell(if is_behind { BEHIND } else { WORK });
    }

    /// Schedules have changed.
    pub(crate) fn tell_schedules(&self) {
        self.bell.ring(Topic::Schedules);
        self.tell(SCHEDULES);
    }

    /// A role is free, of which other processes were told with the resignation.
    pub(crate) fn ring_roles(&self) {
        self.bell.ring(Topic::Roles);
    }

    /// Jobs have finished. Other processes poll: a notification for each batch of results would delay all
    /// commits that notify.
    pub(crate) fn ring_finished(&self) {
        self.bell.ring(Topic::Finished);
    }

    /// What other processes are told of a role that is free.
    pub(crate) fn about_roles(&self) -> String {
        self.message(ROLES)
    }

    fn message(&self, word: &str) -> String {
        format!("{word} {}", self.sender)
    }

    fn tell(&self, word: &str) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.insert(self.message(word)) {
            self.has_pending.notify_one();
        }
    }

    fn take_pending(&self) -> Vec<String> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *pending).into_iter().collect()
    }
}

/// What is told of jobs in the caller's own transaction. By the time it commits, jobs that stood
/// after them may have been claimed, whoever listens; so it has no sender who would know already.
pub(crate) fn about_work_within() -> &'static str {
    BEHIND
}

/// The channel of a schema, so that two installations in one database do not wake each other.
pub(crate) fn channel(schema: &str) -> String {
    format!("punctual_{schema}")
}

/// Tells other processes, until the task is ended.
pub(crate) async fn tell(wake: Arc<Wake>, pool: Pool, channel: String) {
    loop {
        wake.has_pending.notified().await;
        let messages = wake.take_pending();
        let told = attempt!(pool, punctual_store::Repeat::Safe, conn => conn.query(&sql::NOTIFY, &[&channel, &messages]));
        if let Err(error) = told {
            tracing::debug!(%error, "NOTIFY failed, other processes fall back to polling");
        }
        sleep(SPACING).await;
    }
}

/// Listens to other processes on a connection of its own, until the task is ended.
pub(crate) async fn listen(shared: Arc<Shared>, connector: Arc<Connector>, channel: String) {
    let mut failures: u32 = 0;
    loop {
        match hear(&shared, &connector, &channel).await {
            Ok(()) => failures = 0,
            Err(error) => {
                // Once, and not with every further try.
                match failures {
                    0 => {
                        tracing::warn!(%error, "LISTEN failed, falling back to polling");
                    }
                    _ => tracing::debug!(%error, "LISTEN failed again, still polling"),
                }
                failures += 1;
            }
        }
        let longest = BACKOFF_FIRST * (1 << failures.min(6));
        pause(longest.min(BACKOFF_MOST), u64::from(failures)).await;
    }
}

/// What another process tells.
fn heed(shared: &Shared, message: &str) {
    let (word, sender) = message.split_once(' ').unwrap_or((message, ""));
    if sender == shared.wake.sender {
        return;
    }
    match word {
        BEHIND => {
            shared.marks.forget();
            shared.wake.bell.ring(Topic::Work);
        }
        WORK => shared.wake.bell.ring(Topic::Work),
        ROLES => shared.wake.bell.ring(Topic::Roles),
        SCHEDULES => shared.wake.bell.ring(Topic::Schedules),
        _ => {}
    }
}

/// Anything may have been missed.
fn heed_all(shared: &Shared) {
    shared.marks.forget();
    for topic in [Topic::Work, Topic::Roles, Topic::Schedules] {
        shared.wake.bell.ring(topic);
    }
}

/// Does the server answer?
async fn answered(
    asked: impl Future<Output = std::result::Result<(), tokio_postgres::Error>>,
) -> Outcome<()> {
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Fault::Silence(PATIENCE)),
    }
}

/// Listens until the connection ends. An error if it never came to that: a standby, for one, lets nobody
/// listen.
pub(crate) async fn hear(shared: &Shared, connector: &Connector, channel: &str) -> Result<()> {
    let (client, mut connection) = connector.open().await?;
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    let read = async {
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                heed(shared, notification.payload());
            }
        }
    };
    let listening = async {
        answered(client.batch_execute(&format!("LISTEN \"{channel}\""))).await?;
        // What was told before is missed, so everybody looks once.
        heed_all(shared);
        Ok(())
    };
    let mut read = pin!(read);
    // The answer comes by way of what is read.
    let listens = match future::select(pin!(listening), &mut read).await {
        Either::Left((listens, _)) => listens,
        // Reading has ended, and with it the connection: the answer says why.
        Either::Right(((), listening)) => listening.await,
    };
    listens.map_err(|fault: Fault| fault.tell(connector.server()))?;
    let ask = async {
        loop {
            // A connection that only waits does not find out by itself that nobody is there.
            sleep(KEEPALIVE).await;
            if answered(client.batch_execute("SELECT 1")).await.is_err() {
                return;
            }
        }
    };
    // Whichever ends first ends both, and the connection with them.
    future::select(read, pin!(ask)).await;
    Ok(())
}
