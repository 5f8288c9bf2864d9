//! The loops that make punctual run: claim, execute, settle, beat, lead, reap.
//!
//! A node is an [`Engine`]. It sees the store through the port, and time, chance and tasks
//! through [`Env`], so that the simulator runs these same loops through any fault it can think
//! of. Everything that runs beside the work is a service of one shape: a pass, a rest, and again.

mod beat;
mod claimer;
mod config;
mod counts;
mod engine;
mod env;
mod error;
mod executor;
mod handler;
mod leader;
mod level;
mod places;
mod promoter;
mod reaper;
mod service;
mod session;
mod settler;
mod stop;
pub mod telemetry;
mod watchdog;
mod work;

pub use config::{Config, QueueOrder, ServedQueue, Timing};
pub use engine::{Engine, Health, Stopped};
pub use env::{Boxed, Env, System};
pub use error::EngineError;
pub use handler::{Attempt, Ended, Handler, Handlers};
pub use leader::{Leadership, MAINTENANCE};
pub use stop::StopReason;
