//! Why a request has no response, and what follows for the job.

use std::error::Error as StdError;
use std::fmt;

use punctual::is_out_of_resources;
use punctual_secrets::SecretError;

/// Why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Another attempt may succeed.
    Passing(String),
    /// No attempt can succeed.
    Lasting(String),
    /// This process lacked memory, threads or open files. Another attempt may succeed, and this one does
    /// not count.
    OutOfResources(String),
}

impl Trouble {
    /// The trouble that this error causes: a lack of resources, or one that may pass.
    pub(crate) fn passing(error: &(dyn StdError + 'static), text: String) -> Trouble {
        if is_out_of_resources(error) {
            Trouble::OutOfResources(text)
        } else {
            Trouble::Passing(text)
        }
    }

    /// The same with a longer message.
    pub(crate) fn map(self, longer: impl FnOnce(String) -> String) -> Trouble {
        match self {
            Trouble::Passing(text) => Trouble::Passing(longer(text)),
            Trouble::Lasting(text) => Trouble::Lasting(longer(text)),
            Trouble::OutOfResources(text) => Trouble::OutOfResources(longer(text)),
        }
    }
}

/// A mistake in the job.
impl From<String> for Trouble {
    fn from(text: String) -> Trouble {
        Trouble::Lasting(text)
    }
}

impl From<SecretError> for Trouble {
    fn from(error: SecretError) -> Trouble {
        match error.os_error() {
            Some(cause) if is_out_of_resources(&cause) => {
                Trouble::OutOfResources(error.to_string())
            }
            _ => Trouble::Lasting(error.to_string()),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Trouble::Passing(text) | Trouble::Lasting(text) | Trouble::OutOfResources(text)) =
            self;
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    #[test]
    fn a_lack_of_resources_is_recognized_behind_other_errors() {
        let of = |error: Error| Trouble::passing(&error, "text".to_owned());
        let (shortage, passing) =
            (Trouble::OutOfResources("text".to_owned()), Trouble::Passing("text".to_owned()));
        // ENOMEM, ENFILE, EMFILE; EAGAIN, EACCES and ECONNREFUSED.
        for errno in [12, 23, 24] {
            let error = Error::from_raw_os_error(errno);
            assert_eq!(of(Error::other(Error::other(error))), shortage, "{errno}");
        }
        for errno in [11, 13, 111] {
            assert_eq!(of(Error::other(Error::from_raw_os_error(errno))), passing, "{errno}");
        }
    }

    #[test]
    fn a_secret_that_cannot_be_read_for_lack_of_descriptors_is_no_mistake() {
        let unreadable = |errno| SecretError::Unreadable {
            name: "a".to_owned(),
            file: "/a".to_owned(),
            why: "why".to_owned(),
            errno: Some(errno),
        };
        assert!(matches!(Trouble::from(unreadable(24)), Trouble::OutOfResources(_)));
        assert!(matches!(Trouble::from(unreadable(13)), Trouble::Lasting(_)));
    }
}
