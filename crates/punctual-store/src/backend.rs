//! The trait that a database implements to become a [`Store`].

use async_trait::async_trait;
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};
use std::time::Duration;

use crate::*;

macro_rules! define_backend {
    ($(
        $(#[doc = $doc:literal])+
        [$caller:ident, $repeat:ident $(, hint $topic:ident $(if $when:expr)?)* $(, rows $rows:expr)?]
        async fn $name:ident(&self $(, $argument:ident: $type:ty)* $(,)?) -> $response:ty
        { $($check:tt)* }
    )+) => {
        /// A database behind the operations. Every backend is a [`Store`], whose methods check the
        /// arguments before they call these, and measure the calls. Callers use [`Store`]; only a store
        /// imports this trait, because the methods of both have the same names.
        #[async_trait]
        pub trait Backend: Send + Sync {
            /// The kind of the database: the label `backend` of the metrics.
            fn kind(&self) -> &'static str;
            /// Receives hints that something may have changed.
            fn hints(&self, topic: Topic) -> Hints;
            /// Tells all nodes that something may have changed, after an operation that declares it.
            fn raise_hint(&self, operation: Operation, topic: Topic);
            /// Rejects operations that this handle may not use.
            fn admit(&self, _operation: Operation) -> Result<()> {
                Ok(())
            }
            /// Why the store accepts no calls until it is reopened; `None` while it accepts them.
            fn stopped(&self) -> Option<StoreError> {
                None
            }
            /// Reports ways in which others can read or change the database or the connection to it.
            fn exposures(&self) -> Vec<Exposure> {
                Vec::new()
            }
            $(
                $(#[doc = $doc])+
                async fn $name(&self $(, $argument: $type)*) -> Result<$response>;
            )+
        }
    };
}

crate::store_operations!(define_backend);
