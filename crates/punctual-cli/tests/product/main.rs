//! The product as people run it: real processes, real ports, real databases.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod canaries;
mod client;
mod cluster;
#[cfg(target_os = "linux")]
mod commands;
#[cfg(target_os = "linux")]
mod connection_flood;
mod disk;
mod doctor;
mod ending;
mod exec;
mod expiry;
mod files;
mod http;
mod keeping;
mod logs;
mod overtaken;
mod process;
mod protection;
mod proxies;
mod realign;
mod refusals;
mod settings;
mod starting;
mod stopping;
mod terminal;
mod torture;
mod walk;
mod watching;
mod workers;
