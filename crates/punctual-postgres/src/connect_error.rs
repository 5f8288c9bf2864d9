//! Errors of a connection that neither time nor another try corrects: a certificate that cannot be
//! verified, or a missing password.

use std::error::Error;
use std::io;

use punctual_store::{ErrorKind, StoreError};
use rustls::CertificateError;

/// Explains such an error; `None` for all other errors.
pub(crate) fn explain(error: &tokio_postgres::Error, server: &str) -> Option<StoreError> {
    if let Some(certificate) = certificate_error(error) {
        return Some(explain_certificate(certificate, server));
    }
    // The driver has no other sign of it.
    let is_password_missing =
        error.source().is_some_and(|source| source.to_string() == "password missing");
    is_password_missing.then(|| {
        let message = format!(
            "{server} requires a password, and none is set; set `database.password_file` \
             (`--database-password-file`), or add the password to the URL"
        );
        StoreError::new(ErrorKind::Denied, message)
    })
}

fn certificate_error(error: &tokio_postgres::Error) -> Option<&CertificateError> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(rustls::Error::InvalidCertificate(certificate)) = error.downcast_ref() {
            return Some(certificate);
        }
        // The source of an I/O error is that of the error in it, which would be left out.
        cause = match error.downcast_ref().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn explain_certificate(error: &CertificateError, server: &str) -> StoreError {
    use CertificateError as E;
    // A machine that has just started may not have set its clock yet.
    let kind = match error {
        E::NotValidYet | E::NotValidYetContext { .. } => ErrorKind::Unreachable,
        _ => ErrorKind::Denied,
    };
    let new = "issue a certificate of version 3 that has the host name of the URL as \
               `subjectAltName`, and is not that of the certificate authority itself";
    let (reason, remedy) = match error {
        // Errors that rustls has no words for.
        E::Other(other) if other.to_string() == "UnsupportedCertVersion" => {
            ("it is not of X.509 version 3".to_owned(), new)
        }
        E::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
            ("it is that of a certificate authority (CA), not of a server".to_owned(), new)
        }
        E::UnknownIssuer => (
            error.to_string(),
            "install the certificate authority that issued it in the operating system, or set \
             `sslrootcert=FILE` in the URL",
        ),
        E::NotValidForName | E::NotValidForNameContext { .. } => (
            error.to_string(),
            "use a host name of the certificate in the URL, or issue a certificate that has this \
             one as `subjectAltName`",
        ),
        E::Expired | E::ExpiredContext { .. } => {
            (error.to_string(), "renew the certificate, or correct the clock of this machine")
        }
        E::NotValidYet | E::NotValidYetContext { .. } => {
            (error.to_string(), "correct the clock of this machine")
        }
        _ => (error.to_string(), new),
    };
    let message = format!("cannot verify {server} (invalid peer certificate: {reason}); {remedy}");
    StoreError::new(kind, message)
}
