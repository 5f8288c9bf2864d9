//! What happens, for whoever listens. One reader serves all listeners of the process, and there is
//! none while nobody listens; whoever has fallen behind reads by itself until it has caught up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::{Admin, Event, EventCursor, Punctual};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Events that wait for a slow listener; behind them it reads by itself.
const WAITING_MAX: usize = 1_000;
/// Events of one read.
const READ_MAX: usize = 500;
/// What happens within this time is read together, however often it is hinted.
const GATHER: Duration = Duration::from_millis(50);
/// How long to leave a database alone that does not answer.
const AFTER_AN_ERROR: Duration = Duration::from_secs(1);

/// Where listeners come from.
pub(crate) struct Feed {
    punctual: Punctual,
    /// Where the reader tells what it reads, while there is one.
    reader: Mutex<Option<broadcast::Sender<Arc<Event>>>>,
}

impl Feed {
    pub(crate) fn new(punctual: Punctual) -> Feed {
        Feed { punctual, reader: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<broadcast::Sender<Arc<Event>>>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody who is told all that happens after this; without an end, or as far as it goes now.
    pub(crate) async fn listen(
        self: &Arc<Feed>,
        after: EventCursor,
        is_endless: bool,
    ) -> punctual::Result<Listener> {
        let heard = if is_endless { Some(self.subscribe().await?) } else { None };
        let admin = self.punctual.admin();
        let mut listener = Listener {
            feed: self.clone(),
            admin,
            after,
            heard,
            read: VecDeque::new(),
            is_behind: true,
        };
        // Whoever cannot be served is told so at once.
        listener.catch_up().await?;
        Ok(listener)
    }

    async fn subscribe(self: &Arc<Feed>) -> punctual::Result<broadcast::Receiver<Arc<Event>>> {
        if let Some(reader) = &*self.lock() {
            return Ok(reader.subscribe());
        }
        let start = self.punctual.admin().events_until().await?;
        let mut reader = self.lock();
        if let Some(reader) = &*reader {
            return Ok(reader.subscribe());
        }
        let (teller, heard) = broadcast::channel(WAITING_MAX);
        *reader = Some(teller.clone());
        tokio::spawn(self.clone().read(teller, start));
        Ok(heard)
    }

    /// Is nobody there any more? Then there is no reader, either.
    fn is_over(&self, teller: &broadcast::Sender<Arc<Event>>) -> bool {
        let mut reader = self.lock();
        let is_over = teller.receiver_count() == 0;
        if is_over {
            *reader = None;
        }
        is_over
    }

    async fn read(self: Arc<Feed>, teller: broadcast::Sender<Arc<Event>>, mut after: EventCursor) {
        let admin = self.punctual.admin();
        while !self.is_over(&teller) {
            match admin.events(&after, READ_MAX).await {
                Ok(page) => {
                    if let Some(last) = page.next.clone().or(page.items.last().map(Event::cursor)) {
                        after = last;
                    }
                    for event in page.items {
                        // It fails if nobody listens, which the next round finds out.
                        let _ = teller.send(Arc::new(event));
                    }
                    if page.next.is_none() {
                        admin.news().await;
                        pause(GATHER).await;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot read new events, retrying");
                    pause(AFTER_AN_ERROR).await;
                }
            }
        }
    }
}

/// Waits without a clock of its own.
async fn pause(length: Duration) {
    // Nothing ever ends but the time.
    let _ = tokio::time::timeout(length, std::future::pending::<()>()).await;
}

/// Somebody who is told what happens.
pub(crate) struct Listener {
    feed: Arc<Feed>,
    admin: Admin,
    /// The last one that was told, or the place where it begins.
    after: EventCursor,
    /// What the reader tells; none for one who wants no more than there is.
    heard: Option<broadcast::Receiver<Arc<Event>>>,
    read: VecDeque<Event>,
    is_behind: bool,
}

impl Listener {
    /// The next event; none at the end. Whoever listens without an end hears of no trouble, and goes
    /// on when it is over; for others there would be no telling it from the end.
    pub(crate) async fn next(&mut self) -> Option<punctual::Result<Event>> {
        loop {
            if let Some(event) = self.read.pop_front() {
                self.after = event.cursor();
                return Some(Ok(event));
            }
            if self.is_behind {
                if let Err(error) = self.catch_up().await {
                    tracing::warn!(%error, "cannot read past events");
                    if self.heard.is_none() {
                        self.is_behind = false;
                        return Some(Err(error));
                    }
                    pause(AFTER_AN_ERROR).await;
                }
                continue;
            }
            match self.heard.as_mut()?.recv().await {
                // What was read meanwhile is told once.
                Ok(event) if event.cursor() <= self.after => {}
                Ok(event) => self.read.push_back((*event).clone()),
                Err(RecvError::Lagged(_)) => self.is_behind = true,
                Err(RecvError::Closed) => {
                    self.heard = Some(self.feed.subscribe().await.ok()?);
                    self.is_behind = true;
                }
            }
        }
    }

    async fn catch_up(&mut self) -> punctual::Result<()> {
        let page = self.admin.events(&self.after, READ_MAX).await?;
        self.is_behind = page.next.is_some();
        if let (true, Some(next)) = (page.items.is_empty(), page.next) {
            // Nothing of it could be read.
            self.after = next;
        }
        self.read.extend(page.items);
        Ok(())
    }
}
