//! Sets of words that are the same in code, SQL, API and on the screen.

/// Declares an enum of which each variant has one word for people and programs and one number
/// for storage, with the functions that go both ways. Both are for ever: rows hold the numbers.
macro_rules! words {
    (
        $(#[$about:meta])*
        pub enum $name:ident as $what:literal {
            $( $(#[$variant_about:meta])* $variant:ident = ($word:literal, $code:literal), )+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[$variant_about])* $variant, )+
        }

        impl $name {
            /// Every one there is.
            pub const ALL: &'static [$name] = &[$( $name::$variant, )+];

            /// The word, as it stands in API, command line and metrics.
            pub const fn as_str(self) -> &'static str {
                match self { $( $name::$variant => $word, )+ }
            }

            /// The number that stores keep for it.
            pub const fn code(self) -> i16 {
                match self { $( $name::$variant => $code, )+ }
            }

            /// What a stored number means, if it means anything.
            pub const fn from_code(code: i16) -> Option<$name> {
                match code { $( $code => Some($name::$variant), )+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                let word = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(from)?;
                word.parse().map_err(serde::de::Error::custom)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(word: &str) -> Result<$name, $crate::UnknownWord> {
                match word {
                    $( $word => Ok($name::$variant), )+
                    _ => Err($crate::UnknownWord::new($what, word, &[$( $word, )+])),
                }
            }
        }
    };
}

pub(crate) use words;

/// A word that is none of the set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{word}`; expected one of {known}")]
pub struct UnknownWord {
    what: &'static str,
    word: String,
    known: String,
}

impl UnknownWord {
    pub(crate) fn new(what: &'static str, word: &str, known: &[&str]) -> UnknownWord {
        UnknownWord { what, word: crate::cron::echo(word), known: known.join(", ") }
    }
}
