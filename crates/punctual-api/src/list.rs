//! Lists, in pages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Give it as `cursor` to go on; null at the end. A page may be short, or empty, while there
    /// is a next one.
    pub next_cursor: Option<String>,
}

impl<T> List<T> {
    /// All there is.
    pub fn whole(items: Vec<T>) -> List<T> {
        List { items, next_cursor: None }
    }
}

/// An instant, or whatever else has words, as text if it is there.
pub fn text(value: Option<impl ToString>) -> Option<String> {
    value.map(|value| value.to_string())
}
