//! Separates the TLS settings of a database URL from the rest, which the driver reads.
//!
//! The driver does not know `sslrootcert` and `verify-full`, and of two values of one key it takes
//! the last. Both forms are read: `postgres://…?key=value` and `key=value key=value`.

use std::borrow::Cow;
use std::iter::Peekable;
use std::path::PathBuf;
use std::str::CharIndices;

use percent_encoding::percent_decode_str;
use punctual_store::{Result, StoreError};

/// The values of `sslmode`, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SslMode {
    /// Never encrypts.
    Disable,
    /// Encrypts if the server offers it, without checking its certificate.
    Prefer,
    /// Encrypts without checking the certificate.
    Require,
    /// Encrypts, and checks the certificate and the host name. `verify-ca` has the same effect.
    VerifyFull,
}

impl SslMode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SslMode::Disable => "disable",
            SslMode::Prefer => "prefer",
            SslMode::Require => "require",
            SslMode::VerifyFull => "verify-full",
        }
    }
}

/// Trusted certificate authorities, as `sslrootcert` names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RootSource {
    /// Those of the operating system.
    System,
    /// Those of a file in PEM format.
    File(PathBuf),
}

/// The TLS settings of a URL.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    pub(crate) mode: Option<SslMode>,
    pub(crate) roots: Option<RootSource>,
}

/// Splits a URL into what the driver reads and the TLS settings.
///
/// # Errors
///
/// Returns `Invalid` for an unknown `sslmode`, a key that appears twice, and a text that cannot be read.
pub(crate) fn split(url: &str) -> Result<(String, TlsSettings)> {
    let mut settings = TlsSettings::default();
    let rest = match url.contains("://") {
        true => split_url(url, &mut settings)?,
        false => split_words(url, &mut settings)?,
    };
    Ok((rest, settings))
}

fn split_url(url: &str, settings: &mut TlsSettings) -> Result<String> {
    let Some(query) = query_start(url) else { return Ok(url.to_owned()) };
    let (place, query) = (&url[..query], &url[query + 1..]);
    let mut kept = Vec::new();
    for parameter in query.split('&') {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if !settings.take(&decoded(key), &decoded(value))? {
            kept.push(parameter);
        }
    }
    Ok(if kept.is_empty() { place.to_owned() } else { format!("{place}?{}", kept.join("&")) })
}

/// Is there an `@` besides the one that ends user and password? The parameters may contain some.
pub(crate) fn has_stray_at(url: &str) -> bool {
    let place = &url[..query_start(url).unwrap_or(url.len())];
    url.contains("://") && place.matches('@').count() > 1
}

/// Where the parameters of a URL begin. A `?` in the password is not their start.
fn query_start(url: &str) -> Option<usize> {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let rest = &url[authority..];
    let path = rest.find('/').unwrap_or(rest.len());
    let host = rest[..path].rfind('@').map_or(0, |at| at + 1);
    rest[host..].find('?').map(|at| authority + host + at)
}

fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

fn split_words(text: &str, settings: &mut TlsSettings) -> Result<String> {
    let mut kept = Vec::new();
    let mut words = Words { text, chars: text.char_indices().peekable() };
    while let Some((word, key, value)) = words.next_setting()? {
        if !settings.take(key, &value)? {
            kept.push(word);
        }
    }
    Ok(kept.join(" "))
}

impl TlsSettings {
    /// Takes a setting if it is about TLS and the driver does not read it.
    fn take(&mut self, key: &str, value: &str) -> Result<bool> {
        match key {
            "sslmode" => once(key, self.mode.replace(mode(value)?).is_none())?,
            "sslrootcert" => once(key, self.roots.replace(roots(value)?).is_none())?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn once(key: &str, is_first: bool) -> Result<()> {
    match is_first {
        true => Ok(()),
        false => Err(StoreError::invalid(format!(
            "invalid database URL: `{key}` is set twice; keep one value"
        ))),
    }
}

fn mode(value: &str) -> Result<SslMode> {
    match value {
        "disable" => Ok(SslMode::Disable),
        "prefer" => Ok(SslMode::Prefer),
        "require" => Ok(SslMode::Require),
        "verify-ca" | "verify-full" => Ok(SslMode::VerifyFull),
        other => Err(StoreError::invalid(format!(
            "invalid database URL: unknown sslmode `{}`; use verify-full, require, prefer or disable",
            other.escape_debug()
        ))),
    }
}

fn roots(value: &str) -> Result<RootSource> {
    match value {
        "" => Err(StoreError::invalid(
            "invalid database URL: `sslrootcert` is empty; use a file in PEM format, or `system`",
        )),
        "system" => Ok(RootSource::System),
        path => Ok(RootSource::File(PathBuf::from(path))),
    }
}

/// Reads `key = 'value'` as libpq and the driver do.
struct Words<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
}

impl<'a> Words<'a> {
    /// The next setting: as it is written, its key and its value.
    fn next_setting(&mut self) -> Result<Option<(&'a str, &'a str, String)>> {
        self.skip(char::is_whitespace);
        let start = self.position();
        self.skip(|c| c != '=' && !c.is_whitespace());
        let key = &self.text[start..self.position()];
        if key.is_empty() && start == self.text.len() {
            return Ok(None);
        }
        self.skip(char::is_whitespace);
        if self.chars.next_if(|(_, c)| *c == '=').is_none() {
            return Err(malformed());
        }
        self.skip(char::is_whitespace);
        let value = self.value()?;
        Ok(Some((&self.text[start..self.position()], key, value)))
    }

    fn value(&mut self) -> Result<String> {
        let is_quoted = self.chars.next_if(|(_, c)| *c == '\'').is_some();
        let mut value = String::new();
        loop {
            let ends = |c: char| if is_quoted { c == '\'' } else { c.is_whitespace() };
            match self.chars.next_if(|(_, c)| !ends(*c)) {
                Some((_, '\\')) => value.extend(self.chars.next().map(|(_, c)| c)),
                Some((_, c)) => value.push(c),
                None if is_quoted => {
                    // The closing quote, unless the text ends without one.
                    return self.chars.next().map(|_| value).ok_or_else(malformed);
                }
                None => return Ok(value),
            }
        }
    }

    fn skip(&mut self, skipped: impl Fn(char) -> bool) {
        while self.chars.next_if(|(_, c)| skipped(*c)).is_some() {}
    }

    fn position(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |(at, _)| *at)
    }
}

/// The text may contain a password, so no part of it is repeated.
fn malformed() -> StoreError {
    StoreError::invalid(
        "invalid database URL: expected `key=value` settings; use a URL such as \
         postgres://user@host:5432/database",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls(mode: Option<SslMode>, root: Option<&str>) -> TlsSettings {
        let roots = root.map(|root| roots(root).expect("a source"));
        TlsSettings { mode, roots }
    }

    #[test]
    fn tls_settings_are_taken_from_a_url() {
        use SslMode::{Require, VerifyFull};
        for (url, rest, settings) in [
            ("postgres://a@b/c", "postgres://a@b/c", tls(None, None)),
            ("postgres://b/c?sslmode=require", "postgres://b/c", tls(Some(Require), None)),
            (
                "postgres://b/c?sslmode=verify-full&connect_timeout=3",
                "postgres://b/c?connect_timeout=3",
                tls(Some(VerifyFull), None),
            ),
            // A key can be encoded, and a path can contain an `@`.
            (
                "postgres://b/c?ssl%6Dode=require&sslrootcert=/ca@home.pem",
                "postgres://b/c",
                tls(Some(Require), Some("/ca@home.pem")),
            ),
            // A password can contain a `?`.
            (
                "postgres://a:x?sslmode=disable@b/c?sslrootcert=system",
                "postgres://a:x?sslmode=disable@b/c",
                tls(None, Some("system")),
            ),
            (
                "host=b sslrootcert=/etc/ca.pem sslmode=verify-ca",
                "host=b",
                tls(Some(VerifyFull), Some("/etc/ca.pem")),
            ),
            (
                r"host = b password='a b\' c=d' sslmode = 'require'",
                r"host = b password='a b\' c=d'",
                tls(Some(Require), None),
            ),
        ] {
            assert_eq!(split(url), Ok((rest.to_owned(), settings)), "{url}");
        }
    }

    #[test]
    fn a_setting_that_is_wrong_or_set_twice_is_refused() {
        let refused = |url: &str| split(url).expect_err("it is refused").to_string();
        insta::assert_snapshot!(refused("postgres://b/c?sslmode=require&sslmode=disable"), @"invalid database URL: `sslmode` is set twice; keep one value");
        insta::assert_snapshot!(refused("host=b sslmode=require sslmode=require"), @"invalid database URL: `sslmode` is set twice; keep one value");
        insta::assert_snapshot!(refused("postgres://b/c?sslrootcert=system&sslrootcert=/ca.pem"), @"invalid database URL: `sslrootcert` is set twice; keep one value");
        insta::assert_snapshot!(refused("postgres://b/c?sslmode=allow"), @"invalid database URL: unknown sslmode `allow`; use verify-full, require, prefer or disable");
        insta::assert_snapshot!(refused("postgres://b/c?sslmode="), @"invalid database URL: unknown sslmode ``; use verify-full, require, prefer or disable");
        insta::assert_snapshot!(refused("postgres://b/c?sslrootcert="), @"invalid database URL: `sslrootcert` is empty; use a file in PEM format, or `system`");
        insta::assert_snapshot!(refused("host=b password='hunter2"), @"invalid database URL: expected `key=value` settings; use a URL such as postgres://user@host:5432/database");
    }
}
