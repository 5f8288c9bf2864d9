//! Secrets by reference: a job says `secret://NAME`, the worker that runs it knows where the value
//! is, and a [`Mask`] takes the value out of whatever the job leaves behind.
//!
//! Only the reference is ever stored. The value is read when an attempt needs it, so that a secret
//! may be changed without a restart.
//!
//! ```
//! use punctual_secrets::{Secrets, Source};
//!
//! # let file = tempfile::NamedTempFile::new()?;
//! # std::fs::write(&file, "hunter22\n")?;
//! # let path = file.path().to_owned();
//! let secrets = Secrets::from_config([("mail", Source::file(path))])?;
//! let header = secrets.resolve("Bearer secret://mail")?;
//! assert_eq!(header.expose(), "Bearer hunter22");
//! let mask = secrets.mask();
//! assert_eq!(mask.text("sent `hunter22`"), "sent `•••`");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod mask;
mod secrets;
mod source;
#[cfg(test)]
mod tests;

pub use mask::{Mask, MaskStream};
pub use secrets::{Resolved, SecretError, Secrets};
pub use source::Source;
