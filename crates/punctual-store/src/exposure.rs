//! Weak spots in how a database is protected.

/// A way in which others can read or change the database or the connection to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// A word for programs, such as `database_readable`.
    pub code: &'static str,
    /// What is exposed, in one sentence.
    pub text: String,
    /// What to do about it.
    pub remedy: String,
}
