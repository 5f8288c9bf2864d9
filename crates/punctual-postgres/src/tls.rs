//! TLS, by rustls. `sslmode` means what it means to every PostgreSQL client: `prefer` and `require`
//! encrypt without asking who is there, `verify-full` asks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_store::{Result, StoreError};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What a url says about TLS that the driver does not know.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Is the server's certificate checked? `verify-ca` is answered with all of `verify-full`.
    is_verified: bool,
    /// The certificates to trust, instead of the system's.
    root: Option<PathBuf>,
}

/// Takes from a url what the driver would refuse; what is left is for the driver.
pub(crate) fn split(url: &str) -> (String, Wish) {
    let mut wish = Wish::default();
    let mut keep = |setting: &str| -> Option<String> {
        match setting.split_once('=') {
            Some(("sslmode", "verify-full" | "verify-ca")) => {
                wish.is_verified = true;
                Some("sslmode=require".to_owned())
            }
            Some(("sslrootcert", path)) => {
                wish.is_verified = true;
                wish.root = (path != "system").then(|| PathBuf::from(path));
                None
            }
            _ => Some(setting.to_owned()),
        }
    };
    let left = match (url.contains("://"), url.split_once('?')) {
        (true, Some((place, settings))) => {
            let settings: Vec<String> = settings.split('&').filter_map(&mut keep).collect();
            format!("{place}?{}", settings.join("&"))
        }
        (true, None) => url.to_owned(),
        (false, _) => {
            url.split_whitespace().filter_map(&mut keep).collect::<Vec<String>>().join(" ")
        }
    };
    (left, wish)
}

/// The connector for a wish.
pub(crate) fn connector(wish: &Wish) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let unusable =
        |error: rustls::Error| StoreError::invalid(format!("cannot initialize TLS: {error}"));
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let config = if wish.is_verified {
        let roots = match &wish.root {
            Some(path) => roots_in(path)?,
            None => system_roots()?,
        };
        builder.with_root_certificates(roots).with_no_client_auth()
    } else {
        let anyone = Arc::new(Anyone(provider));
        builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(config))
}

fn roots_in(path: &Path) -> Result<RootCertStore> {
    let unreadable = |why: String| {
        let path = path.display();
        StoreError::invalid(format!(
            "cannot load the certificates of `sslrootcert` from `{path}` ({why}); use a file in \
             PEM format"
        ))
    };
    let mut roots = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unreadable("no certificates found".to_owned()));
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let message = "no trusted root certificates found on this system; install them, or set \
            `sslrootcert`";
        return Err(StoreError::invalid(message));
    }
    Ok(roots)
}

/// Takes any certificate, as `sslmode=require` does: what is sent cannot be read on the way, but
/// whoever stands in the way is not found out.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_does_not_know_is_taken_from_the_url() {
        let verified =
            |root: Option<&str>| Wish { is_verified: true, root: root.map(PathBuf::from) };
        for (url, left, wish) in [
            ("postgres://a@b/c", "postgres://a@b/c", Wish::default()),
            ("postgres://b/c?sslmode=require", "postgres://b/c?sslmode=require", Wish::default()),
            (
                "postgres://b/c?sslmode=verify-full&connect_timeout=3",
                "postgres://b/c?sslmode=require&connect_timeout=3",
                verified(None),
            ),
            (
                "host=b sslrootcert=/etc/ca.pem sslmode=verify-ca",
                "host=b sslmode=require",
                verified(Some("/etc/ca.pem")),
            ),
        ] {
            assert_eq!(split(url), (left.to_owned(), wish), "{url}");
        }
    }
}
