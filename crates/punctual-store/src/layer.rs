//! Wrappers of stores that change some operations and forward the others.

use async_trait::async_trait;
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};
use std::time::Duration;

use crate::*;

macro_rules! define_layer {
    ($(
        $(#[doc = $doc:literal])+
        [$caller:ident, $repeat:ident $(, hint $topic:ident $(if $when:expr)?)* $(, rows $rows:expr)?]
        async fn $name:ident(&self $(, $argument:ident: $type:ty)* $(,)?) -> $response:ty
        { $($check:tt)* }
    )+) => {
        /// A wrapper of a store. An operation that it does not define goes to the inner store.
        #[async_trait]
        pub trait Layer: Send + Sync {
            /// The wrapped store.
            fn inner(&self) -> &dyn Store;
            /// Receives hints that something may have changed.
            fn hints(&self, topic: Topic) -> Hints {
                self.inner().hints(topic)
            }
            $(
                $(#[doc = $doc])+
                async fn $name(&self $(, $argument: $type)*) -> Result<$response> {
                    self.inner().$name($($argument),*).await
                }
            )+
        }

        #[async_trait]
        impl<L: Layer> Store for Layered<L> {
            fn hints(&self, topic: Topic) -> Hints {
                self.0.hints(topic)
            }

            fn stopped(&self) -> Option<StoreError> {
                self.0.inner().stopped()
            }

            fn exposures(&self) -> Vec<Exposure> {
                self.0.inner().exposures()
            }

            $(
                async fn $name(&self $(, $argument: $type)*) -> Result<$response> {
                    self.0.$name($($argument),*).await
                }
            )+
        }
    };
}

/// A store that consists of a [`Layer`] over another store.
#[derive(Clone, Debug)]
pub struct Layered<L>(pub L);

impl<L> std::ops::Deref for Layered<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.0
    }
}

crate::store_operations!(define_layer);
