//! TLS with rustls, as the [policy](crate::tls_policy) decides: `prefer` and `require` encrypt without
//! checking the certificate, `verify-full` checks it.

use std::path::Path;
use std::sync::Arc;

use punctual_store::{Result, StoreError};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::tls_policy::TlsPolicy;
use crate::url::{RootSource, SslMode};

/// The connector for a policy.
pub(crate) fn connector(policy: &TlsPolicy) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let unusable =
        |error: rustls::Error| StoreError::invalid(format!("cannot initialize TLS: {error}"));
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let config = if policy.mode == SslMode::VerifyFull {
        let roots = match &policy.roots {
            RootSource::File(path) => roots_in(path)?,
            RootSource::System => system_roots()?,
        };
        builder.with_root_certificates(roots).with_no_client_auth()
    } else {
        let anyone = Arc::new(Anyone(provider));
        builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(config))
}

/// The mode as the driver knows it. `Prefer` is the only one with which the driver falls back to an
/// unencrypted connection.
pub(crate) fn driver_mode(mode: SslMode) -> tokio_postgres::config::SslMode {
    use tokio_postgres::config::SslMode as Driver;
    match mode {
        SslMode::Disable => Driver::Disable,
        SslMode::Prefer => Driver::Prefer,
        SslMode::Require | SslMode::VerifyFull => Driver::Require,
    }
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

/// Accepts any certificate, as `sslmode=require` does. It protects against eavesdropping, but not
/// against a server that pretends to be the database.
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
