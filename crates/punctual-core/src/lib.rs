//! The pure heart of punctual: what time it is, when a schedule is due, and why.
//!
//! Nothing here reads a clock, waits, or touches a database. Every function takes the
//! instants it needs and answers the same for the same arguments, so that the leader,
//! a preview on the command line and the simulator cannot disagree.
//!
//! ```
//! use punctual_core::{Spec, Timestamp, When, Zone};
//!
//! let spec = Spec::new(When::parse("30 2 * * *")?, Zone::get("Europe/Paris")?);
//! let from: Timestamp = "2027-03-27T12:00:00Z".parse()?;
//!
//! // 02:30 does not exist on 28 March 2027: the slot is at the end of the gap.
//! let slot = spec.next(from).expect("a daily schedule has a next slot");
//! assert_eq!(slot.to_string(), "2027-03-28T01:00:00Z");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod calendar;
mod civil;
mod clock_change;
pub mod cron;
mod every;
mod excluded_time;
pub mod hash;
pub mod histogram;
mod id;
mod in_zone;
pub mod job;
mod moved;
pub mod schedule;
mod sheet;
mod slots;
mod spec;
mod suggest;
mod terminal;
mod time;
mod warnings;
mod when;
mod words;
mod zone;

pub use calendar::{Calendar, CalendarError, CalendarText};
pub use clock_change::ClockChange;
pub use cron::{Cron, CronError};
pub use every::Every;
pub use excluded_time::ExcludedTime;
pub use id::{IdError, JobId, LeaseId, NodeId, Nonce, ScheduleId};
pub use moved::Moved;
pub use slots::Slots;
pub use spec::{DstFold, DstGap, Spec, Window};
pub use suggest::nearest;
pub use terminal::is_terminal_control;
pub use time::{Timestamp, TimestampError, format_duration, parse_duration};
pub use when::{AtError, When};
pub use words::UnknownWord;
pub use zone::{Zone, ZoneError};
