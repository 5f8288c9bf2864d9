//! What the parts of a store know together.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_core::Timestamp;
use punctual_store::{ClusterKey, NewJob};

use crate::connection::Conn;
use crate::enqueue;
use crate::error::Outcome;
use crate::lists::all;
use crate::marks::{Marks, Place};
use crate::wake::Wake;
use crate::{rows, sql};

/// What the parts of a store know together.
pub(crate) struct Shared {
    /// The key of the hashes of unique keys.
    pub(crate) cluster_key: Arc<ClusterKey>,
    pub(crate) marks: Marks,
    pub(crate) wake: Arc<Wake>,
    /// Queues that are known to have a limit.
    pub(crate) limited: Mutex<HashSet<String>>,
}

impl Shared {
    pub(crate) fn new(cluster_key: ClusterKey) -> Shared {
        Shared {
            cluster_key: Arc::new(cluster_key),
            marks: Marks::default(),
            wake: Arc::new(Wake::new()),
            limited: Mutex::default(),
        }
    }

    /// Jobs were written at this instant.
    pub(crate) fn enqueued<'a>(&self, now: Timestamp, jobs: impl Iterator<Item = &'a NewJob>) {
        let mut first: BTreeMap<&str, Place> = BTreeMap::new();
        for job in jobs {
            if let Some(place) = enqueue::place(now, job) {
                let least = first.entry(&job.queue).or_insert(place);
                *least = place.min(*least);
            }
        }
        for (queue, place) in &first {
            self.marks.lower(queue, *place);
        }
        let is_behind = first.values().any(|(rank, _)| *rank < now);
        self.wake.tell_work(is_behind);
    }

    /// Jobs were put in line, wherever they stood before.
    pub(crate) fn put_in_line(&self) {
        self.marks.forget();
        self.wake.tell_work(true);
    }

    /// Is any of these queues known to have a limit?
    pub(crate) fn is_limited<'a>(&self, mut queues: impl Iterator<Item = &'a str>) -> bool {
        let limited = self.limited.lock().unwrap_or_else(PoisonError::into_inner);
        queues.any(|queue| limited.contains(queue))
    }

    /// Looks which of these queues have a limit.
    pub(crate) async fn remember_limited(
        &self,
        conn: &mut Conn,
        queues: &[&str],
    ) -> Outcome<HashSet<String>> {
        let found = all(conn, &sql::QUEUE_LIMITED, &[&queues], |row| rows::get(row, 0)).await?;
        let found: HashSet<String> = found.into_iter().collect();
        let mut limited = self.limited.lock().unwrap_or_else(PoisonError::into_inner);
        limited.retain(|queue| !queues.contains(&queue.as_str()));
        limited.extend(found.iter().cloned());
        Ok(found)
    }
}
