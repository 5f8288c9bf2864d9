//! Crontabs: read as Debian's cron reads them, and written as schedules.

mod expression;
mod import;
mod line;
mod name;

pub use import::{Ask, Imported, import};
pub use line::{Entry, Form, Tab, parse};
