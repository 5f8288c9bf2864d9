//! What a program may use.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Processes of the worker's user: about 80 for each of 100 jobs at once. A program that does nothing
/// but start others is stopped before the machine runs out of process numbers.
pub(crate) const PROCESSES_DEFAULT: u64 = 8_192;

/// Open files of one process: more than servers need, and little enough that a program which closes
/// none does not exhaust the machine.
pub(crate) const OPEN_FILES_DEFAULT: u64 = 65_536;

/// The process that becomes the command has its limits already, and has to come so far.
const MEMORY_BYTES_MIN: u64 = 256 << 20;

/// As with memory.
const OPEN_FILES_MIN: u64 = 32;

/// One limit, written as a number, as `"none"` or as `"default"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// What is usual: of processes and open files as much as stops only programs that run away, of
    /// everything else what the worker has.
    #[default]
    Default,
    /// What the worker has.
    None,
    /// This much.
    At(u64),
}

/// What a program may use. No core is ever dumped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Processor time of one process, in seconds.
    pub cpu_seconds: Limit,
    /// Address space of one process.
    pub memory_bytes: Limit,
    /// Processes of the user, all together.
    pub processes: Limit,
    /// Open files of one process.
    pub open_files: Limit,
    /// The largest file.
    pub file_bytes: Limit,
}

impl Limit {
    /// This one, unless it is the default; then the other.
    fn or(self, other: Limit) -> Limit {
        match self {
            Limit::Default => other,
            set => set,
        }
    }
}

impl Limits {
    /// These limits, and where one is the default, that of `general`.
    pub(crate) fn over(self, general: Limits) -> Limits {
        Limits {
            cpu_seconds: self.cpu_seconds.or(general.cpu_seconds),
            memory_bytes: self.memory_bytes.or(general.memory_bytes),
            processes: self.processes.or(general.processes),
            open_files: self.open_files.or(general.open_files),
            file_bytes: self.file_bytes.or(general.file_bytes),
        }
    }

    /// Has the configuration a limit on processes? Without one, a lack of them is one of the machine.
    pub(crate) fn has_own_processes(&self) -> bool {
        matches!(self.processes, Limit::At(_))
    }

    pub(crate) fn check(&self, at: &str) -> Result<(), String> {
        let floors = [
            ("memory_bytes", self.memory_bytes, MEMORY_BYTES_MIN),
            ("open_files", self.open_files, OPEN_FILES_MIN),
            ("cpu_seconds", self.cpu_seconds, 1),
            ("processes", self.processes, 2),
        ];
        for (name, limit, least) in floors {
            match limit {
                Limit::At(limit) if limit < least => {
                    return Err(format!(
                        "{at}.{name} must be at least {least}, got {limit}; a program cannot start \
                         with less (to remove the limit, set it to \"none\")"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Limit::Default => serializer.serialize_str("default"),
            Limit::None => serializer.serialize_str("none"),
            Limit::At(limit) => serializer.serialize_u64(*limit),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Limit, D::Error> {
        deserializer.deserialize_any(LimitVisitor)
    }
}

struct LimitVisitor;

impl Visitor<'_> for LimitVisitor {
    type Value = Limit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, \"none\" or \"default\"")
    }

    fn visit_u64<E: de::Error>(self, limit: u64) -> Result<Limit, E> {
        Ok(Limit::At(limit))
    }

    fn visit_i64<E: de::Error>(self, limit: i64) -> Result<Limit, E> {
        let limit = u64::try_from(limit);
        limit.map(Limit::At).map_err(|_| E::custom("a limit must not be negative"))
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Limit, E> {
        match word {
            "none" => Ok(Limit::None),
            "default" => Ok(Limit::Default),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_is_a_number_or_a_word() {
        let read = |value: serde_json::Value| serde_json::from_value::<Limit>(value);
        for (written, limit) in [
            (json!(5), Limit::At(5)),
            (json!("none"), Limit::None),
            (json!("default"), Limit::Default),
        ] {
            assert_eq!(read(written.clone()).ok(), Some(limit));
            assert_eq!(json!(limit), written);
        }
        let error = read(json!("unlimited")).expect_err("no such word").to_string();
        assert!(error.contains("expected a whole number, \"none\" or \"default\""), "{error}");
        assert!(read(json!(-1)).is_err() && read(json!(1.5)).is_err());
    }

    #[test]
    fn a_command_takes_the_general_limits_for_those_it_does_not_set() {
        let general =
            Limits { cpu_seconds: Limit::At(60), processes: Limit::At(50), ..Limits::default() };
        let own =
            Limits { cpu_seconds: Limit::At(600), open_files: Limit::None, ..Limits::default() };
        let expected = Limits { processes: Limit::At(50), ..own };
        assert_eq!(own.over(general), expected);
    }
}
