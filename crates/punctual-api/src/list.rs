//! Lists, in pages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// The entries of this page.
    pub items: Vec<T>,
    /// Pass this value as `cursor` to get the next page. Null on the last page. A page can be short
    /// or empty even if there is a next page.
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
