//! Schedules in files. Text comes in; definitions go out, or all its mistakes with their places.
//!
//! Nothing here reads a file, asks a clock or writes anything; a file that another names beside it is
//! read by whoever calls.
//!
//! ```
//! let text = r#"
//! set = "ops"
//!
//! [[schedule]]
//! name = "digest"
//! cron = "0 8 * * MON-FRI"
//! tz = "Europe/Paris"
//! job = { kind = "send_digest", payload = { tier = "free" } }
//! "#;
//! let source = punctual_file::Source::new("schedules.toml", text);
//! let sets = punctual_file::read(&[source]).expect("it has no mistakes");
//! assert_eq!(sets[0].schedules[0].definition.when, ["0 8 * * MON-FRI"]);
//! ```

mod calendars;
pub mod crontab;
mod job;
mod keys;
mod place;
mod read;
mod schema;
pub mod simulate;
mod toml_text;
mod value;
mod write;

pub use calendars::beside;
pub use keys::key_of;
pub use place::{Mistake, Mistakes, Place, Source};
pub use read::{Declared, Set, read, read_beside};
pub use schema::schema;
pub use write::write;
