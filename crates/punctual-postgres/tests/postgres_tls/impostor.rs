//! A server that pretends to be PostgreSQL, such as an attacker on the way to it: it offers no TLS or
//! another certificate, asks for the password in clear text, and records every byte that it receives.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_rustls::TlsAcceptor;

use crate::file;

/// The question for TLS, which contains nothing secret.
pub(crate) const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// `AuthenticationCleartextPassword`.
const ASK_PASSWORD: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 3];

/// What the impostor answers to the question for TLS.
#[derive(Clone)]
pub(crate) enum Tls {
    Refused,
    Offered(TlsAcceptor),
}

impl Tls {
    /// With the certificate of this directory, which is for `localhost` and 127.0.0.1.
    pub(crate) fn offered() -> Tls {
        Tls::with_certificate("cert.pem")
    }

    /// With a certificate for the key of this directory, which may be one that no server should have.
    pub(crate) fn with_certificate(name: &str) -> Tls {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certificate = CertificateDer::from_pem_file(file(name)).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(file("key.pem")).expect("a key");
        let key = provider.key_provider.load_private_key(key).expect("a usable key");
        let resolver = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        Tls::Offered(TlsAcceptor::from(Arc::new(config)))
    }
}

/// A listening impostor.
pub(crate) struct Impostor {
    pub(crate) port: u16,
    records: UnboundedReceiver<Vec<u8>>,
}

impl Impostor {
    /// Listens on every address and handles one connection after the other.
    pub(crate) async fn start(tls: Tls) -> Impostor {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (sender, records) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if sender.send(converse(stream, &tls).await).is_err() {
                    return;
                }
            }
        });
        Impostor { port, records }
    }

    /// What each connection so far has sent, decrypted.
    pub(crate) async fn received(&mut self) -> Vec<Vec<u8>> {
        // A connection without a byte comes after all others.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        drop(TcpStream::connect(address).await.expect("it listens"));
        let mut received = Vec::new();
        loop {
            match self.records.recv().await.expect("it runs") {
                record if record.is_empty() => return received,
                record => received.push(record),
            }
        }
    }
}

/// Talks to one client until it closes the connection, and returns all that it has sent.
async fn converse(mut stream: TcpStream, tls: &Tls) -> Vec<u8> {
    let mut received = Vec::new();
    let mut first = [0; 8];
    if stream.read_exact(&mut first).await.is_err() {
        return received;
    }
    received.extend(first);
    if first != SSL_REQUEST {
        ask_password(stream, &mut received).await;
        return received;
    }
    match tls {
        Tls::Refused => {
            if stream.write_all(b"N").await.is_ok() {
                ask_password(stream, &mut received).await;
            }
        }
        Tls::Offered(acceptor) => {
            if stream.write_all(b"S").await.is_ok()
                && let Ok(stream) = acceptor.accept(stream).await
            {
                ask_password(stream, &mut received).await;
            }
        }
    }
    received
}

/// Asks for the password after the first message, and keeps reading.
async fn ask_password(mut stream: impl AsyncRead + AsyncWrite + Unpin, received: &mut Vec<u8>) {
    let mut buffer = [0; 4_096];
    let mut is_asked = false;
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        received.extend(&buffer[..count]);
        if !is_asked && stream.write_all(&ASK_PASSWORD).await.is_err() {
            return;
        }
        is_asked = true;
        if received.windows(PASSWORD.len()).any(|part| part == PASSWORD) {
            return;
        }
    }
}

/// The password of the test: with it the impostor has what it wants.
pub(crate) const PASSWORD: &[u8] = b"hunter2-hunter2";
