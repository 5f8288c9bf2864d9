//! Waking whoever waits for jobs: at once in this process, by NOTIFY in others. Only a hint:
//! everything is found by looking, too.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, future, stream};
use punctual_store::Result;
use tokio::sync::{Notify, watch};
use tokio_postgres::AsyncMessage;

use crate::connect::{Connector, pause, sleep};
use crate::pool::Pool;
use crate::retry::attempt;
use crate::sql;

/// The shortest time between two messages. The first goes at once, what follows is told together:
/// a queue that stays busy needs no waking, and each message makes all commits that notify wait
/// for each other.
const SPACING: Duration = Duration::from_millis(10);
/// How often a listening connection is asked whether it still hears.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How long it may take to answer.
const KEEPALIVE_PATIENCE: Duration = Duration::from_secs(5);
/// How long the first further try to listen waits, and the longest.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MOST: Duration = Duration::from_secs(5);

/// What a message about a queue begins with, and one about a role.
const QUEUE: char = 'q';
const ROLE: char = 'r';

/// Who is to be woken, and what is to be told to other processes.
pub(crate) struct Wake {
    /// By queue; those who wait for any of several are there several times.
    waiting: Mutex<BTreeMap<String, Vec<Arc<watch::Sender<u64>>>>>,
    roles: watch::Sender<u64>,
    /// Queues that other processes are to be told of.
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
            waiting: Mutex::default(),
            roles: watch::Sender::new(0),
            pending: Mutex::default(),
            has_pending: Notify::new(),
            sender: format!("{}.{number}", std::process::id()),
        }
    }

    /// Counts hints about any of these queues.
    pub(crate) fn queues(&self, names: &[String]) -> watch::Receiver<u64> {
        let sender = Arc::new(watch::Sender::new(0));
        let receiver = sender.subscribe();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            let those = waiting.entry(name.clone()).or_default();
            those.retain(|sender| sender.receiver_count() > 0);
            those.push(sender.clone());
        }
        receiver
    }

    /// Counts hints about roles.
    pub(crate) fn roles(&self) -> watch::Receiver<u64> {
        self.roles.subscribe()
    }

    /// Jobs stand in line in these queues, put there by this process.
    pub(crate) fn put_in_line<'a>(&self, queues: impl Iterator<Item = &'a str>) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_new = false;
        for queue in queues {
            if !pending.contains(queue) {
                pending.insert(queue.to_owned());
                self.hint(queue);
                is_new = true;
            }
        }
        if is_new {
            self.has_pending.notify_one();
        }
    }

    fn hint(&self, queue: &str) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for sender in waiting.get(queue).into_iter().flatten() {
            sender.send_modify(|count| *count += 1);
        }
    }

    /// Anything may have been missed.
    fn hint_all(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for sender in waiting.values().flatten() {
            sender.send_modify(|count| *count += 1);
        }
        self.roles.send_modify(|count| *count += 1);
    }

    /// The message about a role that is free.
    pub(crate) fn about_role(&self, role: &str) -> String {
        format!("{ROLE}{role}")
    }

    fn about_queue(&self, queue: &str) -> String {
        format!("{QUEUE}{queue}\n{}", self.sender)
    }

    fn hear(&self, message: &str) {
        match message.chars().next() {
            Some(QUEUE) => {
                let (queue, sender) = message[1..].split_once('\n').unwrap_or((&message[1..], ""));
                if sender != self.sender {
                    self.hint(queue);
                }
            }
            Some(ROLE) => self.roles.send_modify(|count| *count += 1),
            _ => {}
        }
    }
}

/// The channel of a schema, so that two installations in one database do not wake each other.
pub(crate) fn channel(schema: &str) -> String {
    format!("punctual_{schema}")
}

/// Tells other processes, until the task is ended.
pub(crate) async fn tell(wake: Arc<Wake>, pool: Pool, channel: String) {
    loop {
        wake.has_pending.notified().await;
        let queues =
            std::mem::take(&mut *wake.pending.lock().unwrap_or_else(PoisonError::into_inner));
        let messages: Vec<String> = queues.iter().map(|queue| wake.about_queue(queue)).collect();
        let told =
            attempt!(pool, Harmless, conn => conn.query(&sql::NOTIFY, &[&channel, &messages]));
        if let Err(error) = told {
            tracing::debug!(%error, "other processes were not told of jobs; they find them by looking");
        }
        sleep(SPACING).await;
    }
}

/// Listens to other processes on a connection of its own, until the task is ended.
pub(crate) async fn listen(wake: Arc<Wake>, connector: Arc<Connector>, channel: String) {
    let mut failures: u32 = 0;
    loop {
        match hear(&wake, &connector, &channel).await {
            Ok(()) => failures = 0,
            Err(error) => {
                failures += 1;
                tracing::debug!(%error, "listening for jobs of other processes is not possible");
            }
        }
        let longest = BACKOFF_FIRST * (1 << failures.min(6));
        pause(longest.min(BACKOFF_MOST), u64::from(failures)).await;
    }
}

/// Listens until the connection ends.
async fn hear(wake: &Wake, connector: &Connector, channel: &str) -> Result<()> {
    let (client, mut connection) = connector.open().await?;
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    let read = async {
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                wake.hear(notification.payload());
            }
        }
    };
    let ask = async {
        if client.batch_execute(&format!("LISTEN \"{channel}\"")).await.is_err() {
            return;
        }
        // What was told before is missed, so everybody looks once.
        wake.hint_all();
        loop {
            // A connection that only waits does not find out by itself that nobody is there.
            sleep(KEEPALIVE).await;
            let asked = client.simple_query("SELECT 1");
            let answer = tokio::time::timeout(KEEPALIVE_PATIENCE, asked).await;
            if !matches!(answer, Ok(Ok(_))) {
                return;
            }
        }
    };
    // Whichever ends first ends both, and the connection with them.
    future::select(pin!(read), pin!(ask)).await;
    Ok(())
}
