//! Trying again: what stood in the way of others, and what a lost connection left unanswered.

use std::time::Duration;

use punctual_store::{Repeat, Result};

use crate::connect::pause;
use crate::error::Outcome;
use crate::pool::{Pool, Taken};

/// How often a transaction is tried again that stood in the way of others.
const TRIES_MAX: u64 = 3;
/// How long it waits before, at most: about as long as the transaction of the other.
const WAIT_MOST: Duration = Duration::from_millis(40);
/// The tries of one transaction.
pub(crate) struct Tries {
    made: u64,
    repeat: Repeat,
    was_lost: bool,
}

impl Tries {
    pub(crate) fn new(repeat: Repeat) -> Tries {
        Tries { made: 0, repeat, was_lost: false }
    }

    /// The answer, or none if it is to be tried again.
    pub(crate) async fn judge<T>(
        &mut self,
        pool: &Pool,
        mut taken: Taken,
        outcome: Outcome<T>,
    ) -> Option<Result<T>> {
        let fault = match outcome {
            Ok(answer) => return Some(Ok(answer)),
            Err(fault) => fault,
        };
        self.made += 1;
        if fault.is_lost() {
            taken.discard();
            if self.repeat == Repeat::Safe && !std::mem::replace(&mut self.was_lost, true) {
                return None;
            }
            return Some(Err(fault.tell(pool.server())));
        }
        if taken.rollback().await.is_err() {
            taken.discard();
        }
        if fault.is_passing() && self.made <= TRIES_MAX {
            pause(WAIT_MOST, self.made).await;
            return None;
        }
        Some(Err(fault.tell(pool.server())))
    }
}

/// Runs a transaction on a connection of a pool, and again where that helps and harms nobody.
/// A macro, because a closure cannot lend its argument to the future it makes.
macro_rules! attempt {
    ($pool:expr, $repeat:expr, $conn:ident => $work:expr) => {{
        let pool: &$crate::pool::Pool = &$pool;
        let mut tries = $crate::retry::Tries::new($repeat);
        loop {
            let mut taken = match pool.take().await {
                Ok(taken) => taken,
                Err(error) => break Err(error),
            };
            let outcome = {
                let $conn: &mut $crate::connection::Conn = &mut taken;
                $work.await
            };
            if let Some(answer) = tries.judge(pool, taken, outcome).await {
                break answer;
            }
        }
    }};
}

/// Runs the transaction of an operation, and repeats it as the operation is declared.
macro_rules! run {
    ($pool:expr, $operation:ident, $conn:ident => $work:expr) => {
        $crate::retry::attempt!(
            $pool,
            punctual_store::Operation::$operation.repeat(),
            $conn => $work
        )
    };
}

/// Reads a list on a connection of the store's pool, if not too many lists are being read. Lists never take
/// the last connection, so that no single row waits for them.
macro_rules! list {
    ($store:expr, $conn:ident => $work:expr) => {{
        let _permit = $store.lists.admit()?;
        // The semaphore is never closed; without a place the list waits for a connection like any read.
        let _place = $store.list_places.acquire().await.ok();
        $crate::retry::attempt!($store.pool, punctual_store::Repeat::Safe, $conn => $work)
    }};
}

pub(crate) use {attempt, list, run};
