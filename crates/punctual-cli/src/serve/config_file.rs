//! The configuration file: found, checked and read.

use std::path::{Path, PathBuf};

use figment::providers::{Format, Toml};
use figment::value::{Dict, Map};
use figment::{Error, Metadata, Profile, Provider};
use punctual_fs::FileError;

use super::settings::absolute;
use crate::exit::Failure;

/// The file that is read from the current directory if no file is named.
pub(super) const NAME: &str = "punctual.toml";

/// A configuration file that only root and this user can change.
pub(super) struct ConfigFile {
    path: PathBuf,
    text: String,
}

impl ConfigFile {
    /// Reads the named file, or `punctual.toml` of the current directory if there is one. Parent
    /// directories are not searched: another user may own them, and a configuration runs commands.
    pub(super) fn read(named: Option<&Path>) -> Result<Option<ConfigFile>, Failure> {
        let path = named.unwrap_or(Path::new(NAME));
        let shown = path.display();
        let bytes = match punctual_fs::read_trusted(path) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() && named.is_none() => return Ok(None),
            Err(error) if error.is_not_found() => {
                return Err(Failure::usage(format!("configuration file not found: {shown}")));
            }
            Err(FileError::Refused(why)) => {
                let message = format!("refusing to use the configuration file {shown}: {why}");
                return Err(Failure::not_allowed(message));
            }
            Err(FileError::Io(error)) => {
                let message = format!("cannot read the configuration file {shown}: {error}");
                return Err(Failure::usage(message));
            }
        };
        let text = String::from_utf8(bytes).map_err(|_| {
            Failure::usage(format!("configuration file {shown}: not valid UTF-8; save it as UTF-8"))
        })?;
        check_syntax(path, &text)?;
        Ok(Some(ConfigFile { path: absolute(path)?, text }))
    }
}

/// Rejects text that is not TOML. The error of the parser repeats the line, which may contain a
/// password, so only its position and the reason are shown.
fn check_syntax(path: &Path, text: &str) -> Result<(), Failure> {
    let Err(error) = <Toml as Format>::from_str::<Dict>(text) else { return Ok(()) };
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let reason = error.message().trim().replace('\n', "; ");
    Err(Failure::usage(format!(
        "`{}`: TOML parse error at line {line}, column {column}: {reason}",
        path.display()
    )))
}

impl Provider for ConfigFile {
    fn metadata(&self) -> Metadata {
        Metadata::from("TOML file", self.path.as_path())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Toml::string(&self.text).data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let refused = check_syntax(Path::new("punctual.toml"), text);
        refused.expect_err("text that is not TOML").message().to_owned()
    }

    #[test]
    fn a_syntax_error_has_a_position_and_does_not_repeat_the_line() {
        for text in [
            "[database]\nurl=\"postgres://app:S3cretPw@db/app\n",
            "[database]\nurl=\"postgres://app:S3cretPw@db/app",
            "[database]\nurl=postgres://app:S3cretPw@db/app\n",
            "[database]\nurl=\"x\" S3cretPw\n",
            "[database]\nurl=S3cretPw\n",
            "[database]\nurl=\"S3cretPw\\q\"\n",
        ] {
            let refused = refused(text);
            assert!(!refused.contains("S3cretPw"), "{refused}");
            assert!(
                refused.starts_with("`punctual.toml`: TOML parse error at line 2, column "),
                "{refused}"
            );
        }
    }
}
