//! The engine over the store in memory, with a clock that the tests own: what it promises, a file
//! per subject.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocking;
mod claiming;
mod configuring;
mod expiring;
mod leading;
mod logging;
mod outcomes;
mod placing;
mod predecessors;
mod scheduling;
mod services;
mod settings;
mod settling;
mod shortage;
mod stopping;
mod touch;
mod world;
