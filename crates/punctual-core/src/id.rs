//! Identities: 128 bits each, of a type of their own so that they cannot be mixed up.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::Timestamp;

/// A text that is no identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid id `{text}`; expected a UUID such as 01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10")]
pub struct IdError {
    text: String,
}

macro_rules! ids {
    ($( $(#[$about:meta])* $name:ident, )+) => { $(
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// An id (UUID version 7) that sorts by the instant it was minted at. The random
            /// part comes from the caller, so that a simulated run can be repeated.
            pub fn mint(at: Timestamp, random: [u8; 10]) -> $name {
                let ms = at.as_micros().div_euclid(1_000).max(0).unsigned_abs();
                $name(uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid())
            }

            /// The least id that can be minted at or after this instant, to the millisecond.
            pub fn floor(at: Timestamp) -> $name {
                $name::mint(at, [0; 10])
            }

            /// The id with these bytes, as read from a store.
            pub const fn from_bytes(bytes: [u8; 16]) -> $name {
                $name(Uuid::from_bytes(bytes))
            }

            /// The bytes, as written to a store.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// The same as a `Uuid`.
            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<$name, IdError> {
                match Uuid::try_parse(text.trim()) {
                    Ok(uuid) => Ok($name(uuid)),
                    Err(_) => Err(IdError { text: crate::cron::echo(text) }),
                }
            }
        }
    )+ };
}

ids! {
    /// Names a job for ever, from before it is written: a write whose answer was lost can be
    /// repeated with the same id and makes no second job.
    JobId,
    /// Names one claim. Random, never counted: after a failover to an older state a counter
    /// would hand out the same number again and let a late worker settle another's attempt.
    LeaseId,
    /// Names one start of one process.
    NodeId,
    /// Names a schedule through all its revisions.
    ScheduleId,
    /// Makes a leader's term unique even if its number is handed out twice.
    Nonce,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_the_time_they_were_minted_at() {
        let early = JobId::mint(Timestamp::from_seconds(1_800_000_000), [0xFF; 10]);
        let late = JobId::mint(Timestamp::from_seconds(1_800_000_001), [0; 10]);
        assert!(early < late);
        assert_eq!(JobId::mint(Timestamp::MIN, [0; 10]), JobId::mint(Timestamp::EPOCH, [0; 10]));
    }

    #[test]
    fn an_id_prints_what_it_parses() {
        let id = LeaseId::mint(Timestamp::from_seconds(1_800_000_000), [7; 10]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(LeaseId::from_bytes(*id.as_bytes()), id);
        insta::assert_snapshot!("7".parse::<JobId>().unwrap_err(), @"invalid id `7`; expected a UUID such as 01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10");
    }
}
