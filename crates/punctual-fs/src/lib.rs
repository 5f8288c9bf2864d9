//! Files that other users must not read, change or redirect.
//!
//! [`read_private`] reads tokens, passwords and keys, [`read_trusted`] reads configuration, and
//! [`create_private`] and [`open_or_create`] create databases and lock files.
//! [`refuse_foreign_database`] tells whether a server may run a database. Each rule is a pure
//! function of mode, owner and user.

mod access;
mod create;
mod database;
mod read;

pub use access::{FileAccess, is_exposed};
pub use create::{create_private, open_or_create, refuse_symlink};
pub use database::refuse_foreign_database;
pub use read::{FileError, read_private, read_trusted};
