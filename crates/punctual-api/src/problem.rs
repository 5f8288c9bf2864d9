//! What went wrong, for programs and people (RFC 9457).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error response in the format of RFC 9457.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// URI of the problem type: `urn:punctual:problem:` followed by `code`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Short title of the problem type.
    pub title: String,
    /// HTTP status code.
    pub status: u16,
    /// What failed, with the value and, where possible, the remedy.
    pub detail: String,
    /// Stable code for programs, such as `not_found`.
    pub code: String,
    /// Invalid parts of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// How to fix the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// An invalid part of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// JSON pointer into the body, or the name of a parameter or header.
    pub pointer: String,
    /// What is invalid.
    pub detail: String,
}

impl FieldError {
    /// What could not be read, with its place.
    pub fn of(error: serde_path_to_error::Error<serde_json::Error>) -> FieldError {
        FieldError { pointer: pointer(error.path()), detail: error.into_inner().to_string() }
    }
}

/// A path as a JSON pointer.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

impl Problem {
    /// A problem of this code.
    pub fn new(status: u16, code: &str, title: &str, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("urn:punctual:problem:{code}"),
            title: title.to_owned(),
            status,
            detail: detail.into(),
            code: code.to_owned(),
            errors: Vec::new(),
            hint: None,
        }
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: &str) -> Problem {
        self.hint = Some(hint.to_owned());
        self
    }

    /// With the place in the request.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>, detail: impl Into<String>) -> Problem {
        self.errors.push(FieldError { pointer: pointer.into(), detail: detail.into() });
        self
    }
}
