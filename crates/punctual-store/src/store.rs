//! The trait that callers use. It is generated from the [list of operations](crate::operations).

use async_trait::async_trait;
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};
use std::time::Duration;

use crate::backend::Backend;
use crate::measure::measure;
use crate::*;

macro_rules! define_store {
    ($(
        $(#[doc = $doc:literal])+
        [$caller:ident, $repeat:ident $(, hint $topic:ident $(if $when:expr)?)* $(, rows $rows:expr)?]
        async fn $name:ident(&self $(, $argument:ident: $type:ty)* $(,)?) -> $response:ty
        { $($check:tt)* }
    )+) => {
        /// All that punctual stores. Each operation is one transaction: it is applied as a whole or not at
        /// all. Whether an operation may be repeated after a lost response: [`Operation::repeat`].
        ///
        /// Operations of every [`Backend`] check their arguments first, so a store never sees a request
        /// beyond the [`limits`]. Then they run the backend in a span, count and time it
        /// ([`describe_metrics`]), and raise the hint of the operation.
        ///
        /// A row that cannot be read, because the disk damaged it or another program wrote it, affects no
        /// other row. The operation that finds such a job fails it with [`rules::UNREADABLE`], and only the
        /// result of its worker still counts; such a schedule is quarantined. Lists show what can be read
        /// of it, or leave it out.
        #[async_trait]
        pub trait Store: Send + Sync {
            /// Receives hints that something may have changed.
            fn hints(&self, topic: Topic) -> Hints;
            /// Why the store accepts no calls until it is reopened; `None` while it accepts them.
            fn stopped(&self) -> Option<StoreError>;
            /// Reports ways in which others can read or change the database or the connection to it.
            fn exposures(&self) -> Vec<Exposure>;
            $(
                $(#[doc = $doc])+
                async fn $name(&self $(, $argument: $type)*) -> Result<$response>;
            )+
        }

        #[async_trait]
        impl<B: Backend> Store for B {
            fn hints(&self, topic: Topic) -> Hints {
                Backend::hints(self, topic)
            }

            fn stopped(&self) -> Option<StoreError> {
                Backend::stopped(self)
            }

            fn exposures(&self) -> Vec<Exposure> {
                Backend::exposures(self)
            }

            $(
                async fn $name(&self $(, $argument: $type)*) -> Result<$response> {
                    $($check)*
                    const OPERATION: Operation = Operation::$name;
                    self.admit(OPERATION)?;
                    let call = Backend::$name(self $(, $argument)*);
                    let response = measure(OPERATION, self.kind(), call, rows!($($rows)?)).await?;
                    $( raise_hint!(self, response, $topic $(if $when)?); )*
                    Ok(response)
                }
            )+
        }
    };
}

/// The function that counts the rows of a response.
macro_rules! rows {
    () => {
        |_| 1
    };
    ($rows:expr) => {
        $rows
    };
}

macro_rules! raise_hint {
    ($backend:ident, $response:ident, $topic:ident) => {
        $backend.raise_hint(OPERATION, Topic::$topic)
    };
    ($backend:ident, $response:ident, $topic:ident if $when:expr) => {
        if is_met(&$response, $when) {
            $backend.raise_hint(OPERATION, Topic::$topic);
        }
    };
}

/// Tells the compiler the type of the argument of a condition.
fn is_met<T>(response: &T, condition: impl FnOnce(&T) -> bool) -> bool {
    condition(response)
}

crate::store_operations!(define_store);
