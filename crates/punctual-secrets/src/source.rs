//! Where the value of a secret is, and to whom it may be sent.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

/// Where the value of a secret is. Commands of this worker may use it; over HTTP it goes only to the
/// origins that it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Source {
    pub(crate) place: Place,
    /// As a URL's origin is written, such as `https://api.example`.
    http: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Env(String),
    File(PathBuf),
}

/// A source in a configuration.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    env: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    http: Vec<String>,
}

impl Source {
    /// In this environment variable of the worker.
    pub fn env(variable: impl Into<String>) -> Source {
        Source { place: Place::Env(variable.into()), http: Vec::new() }
    }

    /// In this file, without the newline at its end. A file that other users can read is refused when it
    /// is used.
    pub fn file(path: impl Into<PathBuf>) -> Source {
        Source { place: Place::File(path.into()), http: Vec::new() }
    }

    /// Requests to these origins, and to no others, may have it.
    pub fn for_http(self, origins: &[String]) -> Result<Source, String> {
        let http = origins.iter().map(|text| origin(text)).collect::<Result<_, _>>()?;
        Ok(Source { http, ..self })
    }

    /// May a request to this origin have it?
    pub(crate) fn is_for(&self, origin: &str) -> bool {
        self.http.iter().any(|own| own == origin)
    }
}

impl TryFrom<Written> for Source {
    type Error = String;

    fn try_from(written: Written) -> Result<Source, String> {
        let source = match (written.env, written.file) {
            (Some(variable), None) => Source::env(variable),
            (None, Some(file)) => Source::file(file),
            _ => {
                return Err(
                    "invalid secret source; use either { env = \"NAME\" } or { file = \"PATH\" }"
                        .to_owned(),
                );
            }
        };
        source.for_http(&written.http)
    }
}

impl From<Source> for Written {
    fn from(source: Source) -> Written {
        let (env, file) = match source.place {
            Place::Env(variable) => (Some(variable), None),
            Place::File(path) => (None, Some(path)),
        };
        Written { env, file, http: source.http }
    }
}

/// An origin, in the one way in which it is compared.
fn origin(text: &str) -> Result<String, String> {
    let is_origin = |url: &Url| {
        let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let has_user = !url.username().is_empty() || url.password().is_some();
        matches!(url.scheme(), "http" | "https") && is_bare && !has_user
    };
    match Url::parse(text).ok().filter(is_origin) {
        Some(url) => Ok(url.origin().ascii_serialization()),
        None => Err(format!(
            "`http` of a secret: invalid origin `{text}`; use a scheme, a host and, unless it is \
             the default, a port, such as https://api.example"
        )),
    }
}
