//! JSON as text, in one form per meaning.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::MeaningDigest;

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
        Ok(Json(serde_json::to_string(&Sorted(&serde_json::to_value(value)?))?))
    }

    /// The canonical form of a document.
    pub fn parse(text: &str) -> Result<Json, serde_json::Error> {
        Json::new(&serde_json::from_str::<Value>(text)?)
    }

    /// A text that a store wrote as canonical JSON before.
    pub fn from_canonical(text: String) -> Json {
        Json(text)
    }

    /// The digest of the document, by which jobs with the same unique key are compared.
    pub fn meaning(&self) -> MeaningDigest {
        MeaningDigest::of(&self.0)
    }

    /// The document.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A value whose maps are written in the order of their keys. They are in that order already, unless
/// some crate in the program has serde_json keep them as they came, which must not change what
/// documents are equal.
struct Sorted<'a>(&'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(Sorted)),
            Value::Object(map) if map.keys().is_sorted() => {
                serializer.collect_map(map.iter().map(|(key, value)| (key, Sorted(value))))
            }
            Value::Object(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                serializer.collect_map(entries.into_iter().map(|(key, value)| (key, Sorted(value))))
            }
            plain => plain.serialize(serializer),
        }
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
