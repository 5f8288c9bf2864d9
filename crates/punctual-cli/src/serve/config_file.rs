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
        Ok(Some(ConfigFile { path: absolute(path)?, text }))
    }
}

impl Provider for ConfigFile {
    fn metadata(&self) -> Metadata {
        Metadata::from("TOML file", self.path.as_path())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Toml::string(&self.text).data()
    }
}
