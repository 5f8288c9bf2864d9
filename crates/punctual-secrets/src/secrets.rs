//! Where secrets are, and texts that refer to them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use punctual_fs::FileError;

use crate::mask::Mask;
use crate::source::{Place, Source};

/// What a reference begins with.
const SCHEME: &str = "secret://";

/// A shorter value is in every other word, and a mask for it would hide everything.
const VALUE_MIN: usize = 4;

/// A longer one is no secret but somebody's wrong file, and every byte of output is compared with it.
const VALUE_MAX: usize = 64 << 10;

/// Values of one secret that are masked: whoever changes it more often than an attempt lasts has
/// another problem.
const KEPT: usize = 8;

/// The secrets that a worker may use.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Arc<Known>);

#[derive(Default)]
struct Known {
    sources: BTreeMap<String, Source>,
    /// Values that were read, the newest last: what was handed out once is masked for good.
    seen: Mutex<BTreeMap<String, Vec<String>>>,
    /// Values that are masked and that nothing can refer to.
    masked: Vec<String>,
    /// Files whose content is masked and that nothing can refer to. They are read for each mask.
    masked_files: Vec<PathBuf>,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("sources", &self.sources).finish_non_exhaustive()
    }
}

/// A text whose references were replaced. It shows itself only to who asks with
/// [`expose`](Resolved::expose).
#[derive(Clone, PartialEq, Eq)]
pub struct Resolved {
    text: String,
    has_secret: bool,
}

/// Why a text could not be resolved. No message has a value in it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SecretError {
    /// A name that cannot be referred to.
    #[error("invalid secret name `{0}`; use letters, digits, `_` and `-`")]
    BadName(String),
    /// Nobody knows it here.
    #[error(
        "unknown secret `{0}`; define it in `[secrets]` of the worker's configuration \
         (`punctual config show` lists the secrets)"
    )]
    Unknown(String),
    /// It may not be sent there.
    #[error(
        "secret `{name}` must not be sent to `{origin}`; to allow it, add the origin to `http` in \
         `[secrets.{name}]` of the worker's configuration"
    )]
    NotFor {
        /// The secret.
        name: String,
        /// Who would get it.
        origin: String,
    },
    /// Its variable is not set.
    #[error(
        "secret `{name}`: environment variable `{variable}` is not set; set it for the process \
         that runs the job"
    )]
    NotSet {
        /// The secret.
        name: String,
        /// Its variable.
        variable: String,
    },
    /// Its file cannot be read.
    #[error(
        "secret `{name}`: cannot read {file}: {why}; check the path, and the permissions of the \
         process that runs the job"
    )]
    Unreadable {
        /// The secret.
        name: String,
        /// Its file.
        file: String,
        /// What the system says.
        why: String,
        /// The number of the system's error.
        errno: Option<i32>,
    },
    /// Other users can read its file.
    #[error("secret `{name}`: refusing to use {file}: {why}")]
    Exposed {
        /// The secret.
        name: String,
        /// Its file.
        file: String,
        /// The permissions, and the command that corrects them.
        why: String,
    },
    /// Its value cannot be one.
    #[error("secret `{name}`: the value {why}")]
    BadValue {
        /// The secret.
        name: String,
        /// What is wrong with it, and the way out.
        why: &'static str,
    },
}

impl SecretError {
    /// The system's error, if the value could not be read because of one.
    pub fn os_error(&self) -> Option<std::io::Error> {
        match self {
            SecretError::Unreadable { errno: Some(errno), .. } => {
                Some(std::io::Error::from_raw_os_error(*errno))
            }
            _ => None,
        }
    }
}

impl Secrets {
    /// The secrets of these names. Nothing is read yet: a process that never uses one does not
    /// need it.
    pub fn from_config<N: Into<String>>(
        sources: impl IntoIterator<Item = (N, Source)>,
    ) -> Result<Secrets, SecretError> {
        let sources: BTreeMap<String, Source> =
            sources.into_iter().map(|(name, source)| (name.into(), source)).collect();
        match sources.keys().find(|name| name.is_empty() || !name.chars().all(is_of_name)) {
            Some(name) => Err(SecretError::BadName(name.clone())),
            None => Ok(Secrets(Arc::new(Known { sources, ..Known::default() }))),
        }
    }

    /// The same secrets, with a mask that also covers these values, such as the password of the
    /// database. No reference leads to them. Values of less than 4 bytes are left out: they are in
    /// every other word.
    #[must_use]
    pub fn masking(&self, values: impl IntoIterator<Item = String>) -> Secrets {
        let is_long_enough = |value: &String| value.len() >= VALUE_MIN;
        let mut known = self.copied();
        known.masked.extend(values.into_iter().filter(is_long_enough));
        Secrets(Arc::new(known))
    }

    /// The same secrets, with masks that also cover the content of these files, such as a file with the
    /// password of the database. It is read for each mask, because it may change; older content stays
    /// masked. No reference leads to it. A file that cannot be read is left out.
    #[must_use]
    pub fn masking_files(&self, files: impl IntoIterator<Item = PathBuf>) -> Secrets {
        let mut known = self.copied();
        known.masked_files.extend(files);
        Secrets(Arc::new(known))
    }

    fn copied(&self) -> Known {
        Known {
            sources: self.0.sources.clone(),
            seen: Mutex::new(self.seen().clone()),
            masked: self.0.masked.clone(),
            masked_files: self.0.masked_files.clone(),
        }
    }

    /// The text with every `secret://NAME` in it replaced. The name goes as far as letters, digits,
    /// `_` and `-` do.
    pub fn resolve(&self, text: &str) -> Result<Resolved, SecretError> {
        self.replaced(text, |_| Ok(()))
    }

    /// The same for a text that is sent to an origin, such as `https://api.example`: each secret in it
    /// must name that, since whoever may order a job would otherwise have them all sent to himself.
    pub fn resolve_for(&self, origin: &str, text: &str) -> Result<Resolved, SecretError> {
        self.replaced(text, |name| match self.0.sources.get(name) {
            Some(source) if !source.is_for(origin) => {
                Err(SecretError::NotFor { name: name.to_owned(), origin: origin.to_owned() })
            }
            _ => Ok(()),
        })
    }

    fn replaced(
        &self,
        text: &str,
        check: impl Fn(&str) -> Result<(), SecretError>,
    ) -> Result<Resolved, SecretError> {
        let mut resolved = String::with_capacity(text.len());
        let (mut rest, mut has_secret) = (text, false);
        while let Some((before, after)) = rest.split_once(SCHEME) {
            let end = after.find(|c| !is_of_name(c)).unwrap_or(after.len());
            let (name, behind) = after.split_at(end);
            check(name)?;
            resolved.push_str(before);
            resolved.push_str(&self.value(name)?);
            (rest, has_secret) = (behind, true);
        }
        resolved.push_str(rest);
        Ok(Resolved { text: resolved, has_secret })
    }

    /// Does the text refer to a secret? For those who may not use one.
    pub fn is_reference(text: &str) -> bool {
        text.contains(SCHEME)
    }

    /// A mask for every value that was handed out, and for those that could be.
    pub fn mask(&self) -> Mask {
        for name in self.0.sources.keys() {
            // What cannot be read cannot get anywhere.
            let _ = self.value(name);
        }
        for file in &self.0.masked_files {
            // Names have no colon, so no reference leads to the value.
            let name = format!("file:{}", file.display());
            if let Ok(value) = read(&name, &Source::file(file.clone())) {
                self.remember(&name, &value);
            }
        }
        let seen = self.seen();
        Mask::new(seen.values().flatten().chain(&self.0.masked).map(String::as_str))
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<String, Vec<String>>> {
        // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
        self.0.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn value(&self, name: &str) -> Result<String, SecretError> {
        let source =
            self.0.sources.get(name).ok_or_else(|| SecretError::Unknown(name.to_owned()))?;
        let value = read(name, source)?;
        self.remember(name, &value);
        Ok(value)
    }

    /// Keeps a value for masks.
    fn remember(&self, name: &str, value: &str) {
        let mut seen = self.seen();
        let values = seen.entry(name.to_owned()).or_default();
        if !values.iter().any(|known| known == value) {
            if values.len() == KEPT {
                values.remove(0);
            }
            values.push(value.to_owned());
        }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn read(name: &str, source: &Source) -> Result<String, SecretError> {
    let bad = |why| SecretError::BadValue { name: name.to_owned(), why };
    let value = match &source.place {
        Place::Env(variable) => std::env::var(variable).map_err(|error| match error {
            std::env::VarError::NotPresent => {
                SecretError::NotSet { name: name.to_owned(), variable: variable.clone() }
            }
            std::env::VarError::NotUnicode(_) => bad("is not valid UTF-8; store it as UTF-8 text"),
        })?,
        Place::File(file) => {
            let bytes = punctual_fs::read_private(file).map_err(|error| {
                let (name, file) = (name.to_owned(), file.display().to_string());
                match error {
                    FileError::Io(error) => SecretError::Unreadable {
                        name,
                        file,
                        why: error.to_string(),
                        errno: error.raw_os_error(),
                    },
                    FileError::Refused(why) => SecretError::Exposed { name, file, why },
                }
            })?;
            let text = String::from_utf8(bytes)
                .map_err(|_| bad("is not valid UTF-8; store it as UTF-8 text"))?;
            text.trim_end_matches(['\n', '\r']).to_owned()
        }
    };
    match value.len() {
        0..VALUE_MIN => {
            Err(bad("is shorter than 4 bytes, which is too short to mask; use a longer value"))
        }
        VALUE_MIN..=VALUE_MAX => Ok(value),
        _ => Err(bad("is longer than 64 KiB; use a file that contains only the secret")),
    }
}

impl Resolved {
    /// The text, with the values in it.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// The text, with the values in it.
    pub fn into_exposed(self) -> String {
        self.text
    }

    /// Was there a reference in it?
    pub fn has_secret(&self) -> bool {
        self.has_secret
    }
}

impl std::fmt::Debug for Resolved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.has_secret {
            true => f.write_str("Resolved(•••)"),
            false => f.debug_tuple("Resolved").field(&self.text).finish(),
        }
    }
}
