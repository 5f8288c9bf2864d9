//! A store behind a bad connection: requests get lost before they are carried out, replies after.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};
use punctual_store::*;
use tokio::sync::Notify;

/// What happens to a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// The request is lost: the store never sees it.
    Request,
    /// The reply is lost: the store has done it, and the caller does not know.
    Reply,
    /// The request is lost, and nobody says so: there never is a reply.
    Silence,
    /// The request takes too long: the store cancels it and says so.
    Timeout,
    /// The reply is held up until somebody lets it go.
    Held(Arc<Notify>),
}

/// Wraps a store; `decide` is asked before each call, by the name of the method.
pub struct Faulty<S: ?Sized> {
    store: Arc<S>,
    decide: Box<dyn Fn(&'static str) -> Fault + Send + Sync>,
}

impl<S> Faulty<S> {
    /// A store whose calls suffer what `decide` says.
    pub fn new(
        store: S,
        decide: impl Fn(&'static str) -> Fault + Send + Sync + 'static,
    ) -> Faulty<S> {
        Faulty::over(Arc::new(store), decide)
    }
}

impl<S: ?Sized> Faulty<S> {
    /// The same, over a store that others use as well.
    pub fn over(
        store: Arc<S>,
        decide: impl Fn(&'static str) -> Fault + Send + Sync + 'static,
    ) -> Faulty<S> {
        Faulty { store, decide: Box::new(decide) }
    }

    /// The store without its bad connection.
    pub fn inner(&self) -> &S {
        &self.store
    }
}

fn lost() -> StoreError {
    StoreError::new(
        ErrorKind::Unreachable,
        "the connection was lost; it is unknown whether the request was applied",
    )
}

fn cancelled() -> StoreError {
    StoreError::new(ErrorKind::Retry, "the request took too long and was cancelled").timed_out()
}

/// Passes each call on, unless it suffers a fault.
macro_rules! define_faulty {
    ($(
        $(#[doc = $doc:literal])+
        [$caller:ident, $repeat:ident $(, hint $topic:ident $(if $when:expr)?)* $(, rows $rows:expr)?]
        async fn $name:ident(&self $(, $argument:ident: $type:ty)* $(,)?) -> $response:ty
        { $($check:tt)* }
    )+) => {
        #[async_trait]
        impl<S: Store + ?Sized> Store for Faulty<S> {
            fn hints(&self, topic: Topic) -> Hints {
                self.store.hints(topic)
            }

            fn stopped(&self) -> Option<StoreError> {
                self.store.stopped()
            }

            fn exposures(&self) -> Vec<Exposure> {
                self.store.exposures()
            }

            $(
                async fn $name(&self $(, $argument: $type)*) -> Result<$response> {
                    match (self.decide)(stringify!($name)) {
                        Fault::None => self.store.$name($($argument),*).await,
                        Fault::Request => Err(lost()),
                        Fault::Reply => {
                            self.store.$name($($argument),*).await?;
                            Err(lost())
                        }
                        Fault::Timeout => Err(cancelled()),
                        Fault::Silence => std::future::pending().await,
                        Fault::Held(letting_go) => {
                            let reply = self.store.$name($($argument),*).await;
                            letting_go.notified().await;
                            reply
                        }
                    }
                }
            )+
        }
    };
}

punctual_store::store_operations!(define_faulty);
