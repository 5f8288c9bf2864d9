//! The loops that make punctual run: fire, claim, execute, settle, beat, lead, reap.
//!
//! A node is an [`Engine`]. It sees the store through the port, and time, chance and tasks
//! through [`Env`], so that the simulator runs these same loops through any fault it can think
//! of. Everything that runs beside the work is a service of one shape: a pass, a rest, and again.

mod ahead;
mod apply;
mod batch;
mod beat;
mod breaker;
mod claimer;
mod clock_guard;
mod config;
mod counts;
mod database;
mod engine;
mod env;
mod error;
mod executor;
mod expirer;
mod failure_log;
mod handler;
mod leader;
mod level;
mod log;
mod places;
mod promoter;
mod queue_counter;
mod realign;
mod reaper;
mod scheduler;
mod schedules;
mod service;
mod session;
mod sets;
mod settler;
mod shortage;
mod skip_log;
#[doc(hidden)]
pub mod steps;
mod stop;
mod stranded;
pub mod telemetry;
mod watchdog;
mod wiring;
mod work;

pub use apply::{Applied, Manner, Step, Wanted, What};
pub use config::{Config, QueueOrder, ServedQueue, Timing};
pub use database::HeldClock;
pub use engine::{Engine, Health, RoleReport, Stopped};
pub use env::{Boxed, Env, System};
pub use error::EngineError;
pub use handler::{Attempt, Ended, Fired, Handler, Handlers};
pub use leader::{Leadership, MAINTENANCE, SCHEDULER};
pub use realign::Realigned;
pub use schedules::{ScheduleError, Schedules, Seen};
pub use sets::{Declared, REMOVED};
pub use stop::StopReason;
