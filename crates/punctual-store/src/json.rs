//! JSON as text, in one form per meaning.

use std::fmt;

use serde::Serialize;

/// A JSON document in canonical form: keys sorted, no blanks. Equal documents are equal texts,
/// whatever order a map had, so that a hash of the text is a hash of the meaning.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(String);

impl Json {
    /// The empty document, `null`.
    pub fn null() -> Json {
        Json("null".to_owned())
    }

    /// The canonical form of a value.
    pub fn new(value: &impl Serialize) -> Result<Json, serde_json::Error> {
        // A `Value` keeps its keys sorted.
        Ok(Json(serde_json::to_value(value)?.to_string()))
    }

    /// The canonical form of a document.
    pub fn parse(text: &str) -> Result<Json, serde_json::Error> {
        Json::new(&serde_json::from_str::<serde_json::Value>(text)?)
    }

    /// A text that a store wrote as canonical JSON before.
    pub fn from_canonical(text: String) -> Json {
        Json(text)
    }

    /// The document.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_documents_are_equal_texts() {
        let one = Json::parse(r#"{ "b": [1, 2.5], "a": {"z": null, "y": "é"} }"#).unwrap();
        let other = Json::parse(r#"{"a":{"y":"\u00e9","z":null},"b":[1,2.5]}"#).unwrap();
        assert_eq!(one, other);
        assert_eq!(Json::parse(one.as_str()).unwrap(), one);
    }
}
