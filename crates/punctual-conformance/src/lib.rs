//! One suite for every store: the promises of the port, each as a test that any store must pass,
//! with no skips.
//!
//! A store's crate makes the tests its own with one line:
//!
//! ```text
//! punctual_conformance::suite!(|| async { MySubject::new() });
//! ```
//!
//! Each test gets a fresh store. A case is a public function of a [`World`]; `build.rs` collects them, so
//! that a case is registered by being written. In addition to the cases there is [`commands`], which drives two
//! stores with the same random commands and compares every answer, [`faulty`], which wraps a store so
//! that requests or replies get lost, and [`cluster`], a PostgreSQL server that may be crashed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod bounds;
pub mod brought;
pub mod cancel;
pub mod claim;
#[cfg(unix)]
pub mod cluster;
pub mod commands;
pub mod enqueue;
pub mod events;
pub mod expiry;
pub mod faulty;
pub mod firing;
pub mod held;
pub mod hints;
pub mod leaders;
pub mod lists;
pub mod look;
pub mod nodes;
pub mod notes;
pub mod overdue;
pub mod overlap;
pub mod overtaken;
pub mod predecessors;
pub mod queues;
pub mod realign;
pub mod schedules;
pub mod sets;
pub mod settle;
#[cfg(unix)]
pub mod support;
pub mod then;
pub mod unreadable;
pub mod upkeep;
mod world;

use async_trait::async_trait;
use punctual_store::Store;
use punctual_store::memory::Memory;
use punctual_store::rules::Spoil;

pub use faulty::{Fault, Faulty};
pub use world::World;

/// A store under test.
#[async_trait]
pub trait Subject: Send + Sync {
    /// The store.
    fn store(&self) -> &dyn Store;
    /// Makes something unreadable that is there, as damage or a foreign hand would.
    async fn spoil(&self, what: Spoil);
}

#[async_trait]
impl Subject for Memory {
    fn store(&self) -> &dyn Store {
        self
    }

    async fn spoil(&self, what: Spoil) {
        Memory::spoil(self, what);
    }
}

#[async_trait]
impl<S: Subject + Store> Subject for Faulty<S> {
    fn store(&self) -> &dyn Store {
        self
    }

    async fn spoil(&self, what: Spoil) {
        self.inner().spoil(what).await;
    }
}

include!(concat!(env!("OUT_DIR"), "/suites.rs"));

/// Makes a test of each case of [`suite!`].
#[doc(hidden)]
#[macro_export]
macro_rules! run_cases {
    ($make:expr; $( $module:ident: $( $case:ident ),+ ; )+) => { $(
        mod $module {
            use super::*;
            $(
                #[tokio::test]
                async fn $case() {
                    let make = $make;
                    let subject = make().await;
                    $crate::$module::$case(&$crate::World::new(&subject)).await;
                }
            )+
        }
    )+ };
}

/// Makes a test of each case of [`firing_suite!`].
#[doc(hidden)]
#[macro_export]
macro_rules! run_firing_cases {
    ($make:expr; $( $module:ident: $( $case:ident ),+ ; )+) => { $(
        mod $module {
            use super::*;
            $(
                #[tokio::test]
                async fn $case() {
                    let make = $make;
                    let (store, _alive) = make().await;
                    $crate::firing::$module::$case(&$crate::firing::Stage::new(store)).await;
                }
            )+
        }
    )+ };
}
