//! One request over a connection of its own, to one of the addresses that the policy has passed. No
//! proxy, no pool, no second look at a name.

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HeaderMap;
use hyper::rt::{Read, Write};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use punctual::is_out_of_resources;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::{CertificateResult, ErrorKind as CertificatesErrorKind};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::trouble::Trouble;

/// How long a connection may take to be there.
const CONNECT: Duration = Duration::from_secs(5);
/// The most that is read of an answer.
pub(crate) const BODY_BYTES_MAX: usize = 1_024 * 1_024;

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// If it was asked for.
    pub(crate) body: Option<Body>,
}

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    /// Was there more than is read?
    pub(crate) is_truncated: bool,
}

/// Sends requests.
pub(crate) struct Client {
    ca_file: Option<PathBuf>,
    /// Prepared by the first request that needs it. Errors are not kept: the next request tries again.
    tls: OnceLock<TlsConnector>,
}

impl Client {
    pub(crate) fn new(ca_file: Option<PathBuf>) -> Client {
        Client { ca_file, tls: OnceLock::new() }
    }

    /// Asks, and reads the answer as far as that is wanted.
    pub(crate) async fn ask(
        &self,
        url: &Url,
        addresses: &[SocketAddr],
        request: Request<Full<Bytes>>,
        wants_body: bool,
    ) -> Result<Answer, Trouble> {
        let stream = connect(url, addresses).await?;
        // What drives the connection ends with this request, however that ends.
        let mut driver = JoinSet::new();
        let response = if url.scheme() == "https" {
            let stream = self.encrypted(url, stream).await?;
            send(stream, request, &mut driver).await
        } else {
            send(stream, request, &mut driver).await
        };
        let response = response.map_err(|error| {
            let text = format!(
                "the request to {} failed before a response arrived: {}",
                shown(url),
                in_words(&error)
            );
            Trouble::passing(&error, text)
        })?;
        let (head, incoming) = response.into_parts();
        let body = match wants_body {
            true => Some(read(incoming).await.map_err(|error| {
                let text =
                    format!("the response from {} is incomplete: {}", shown(url), in_words(&error));
                Trouble::passing(&error, text)
            })?),
            false => None,
        };
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    async fn encrypted(
        &self,
        url: &Url,
        stream: TcpStream,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Trouble> {
        let connector = self.connector()?;
        let name = match url.host() {
            Some(Host::Domain(host)) => ServerName::try_from(host.to_owned()).map_err(|_| {
                Trouble::Passing(format!("`{host}` is not a valid TLS server name"))
            })?,
            Some(Host::Ipv4(address)) => ServerName::from(std::net::IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => ServerName::from(std::net::IpAddr::V6(address)),
            None => return Err(Trouble::Passing("the URL has no host".to_owned())),
        };
        match tokio::time::timeout(CONNECT, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => {
                let text = format!(
                    "the TLS handshake with {} failed: {}; check its certificate, or add the CA that \
                     signed it with `http.ca_file` in the workers' configuration",
                    shown(url),
                    in_words(&error)
                );
                Err(Trouble::passing(&error, text))
            }
            Err(_) => Err(Trouble::Passing(format!(
                "the TLS handshake with {} timed out after {}s",
                shown(url),
                CONNECT.as_secs()
            ))),
        }
    }

    fn connector(&self) -> Result<TlsConnector, Trouble> {
        if let Some(connector) = self.tls.get() {
            return Ok(connector.clone());
        }
        let connector = connector(self.ca_file.as_deref())?;
        Ok(self.tls.get_or_init(|| connector).clone())
    }
}

/// A URL in messages, without what may be private in it.
pub(crate) fn shown(url: &Url) -> String {
    format!("`{}`", url.origin().ascii_serialization())
}

/// A connection to the first address that takes one.
async fn connect(url: &Url, addresses: &[SocketAddr]) -> Result<TcpStream, Trouble> {
    let mut troubles = Vec::new();
    let mut is_shortage = false;
    for address in addresses {
        match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => {
                is_shortage |= is_out_of_resources(&error);
                troubles.push(format!("{address}: {error}"));
            }
            Err(_) => troubles.push(format!("{address}: timed out after {}s", CONNECT.as_secs())),
        }
    }
    let (url, why) = (shown(url), troubles.join("; "));
    if is_shortage {
        return Err(Trouble::OutOfResources(format!("cannot connect to {url} ({why})")));
    }
    Err(Trouble::Passing(format!(
        "cannot connect to {url} ({why}); check that it is running and reachable from this machine"
    )))
}

async fn send<T>(
    stream: T,
    request: Request<Full<Bytes>>,
    driver: &mut JoinSet<()>,
) -> hyper::Result<Response<Incoming>>
where
    TokioIo<T>: Read + Write + Unpin + Send + 'static,
{
    let (mut sender, connection): (SendRequest<Full<Bytes>>, _) =
        http1::handshake(TokioIo::new(stream)).await?;
    // What goes wrong with the connection is told to whoever waits for the answer.
    driver.spawn(async move { drop(connection.await) });
    sender.send_request(request).await
}

async fn read(mut incoming: Incoming) -> hyper::Result<Body> {
    let mut bytes = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let room = BODY_BYTES_MAX - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return Ok(Body { bytes, is_truncated: true });
        }
    }
    Ok(Body { bytes, is_truncated: false })
}

fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, Trouble> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Trouble::Passing(format!("cannot initialize TLS: {error}")))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted(rustls_native_certs::load_native_certs())?);
    if let Some(file) = ca_file {
        let text = |why: &dyn StdError| {
            let file = file.display();
            format!(
                "cannot load the certificates of `http.ca_file` from `{file}` ({why}); use a file \
                 in PEM format"
            )
        };
        let unreadable = |error: PemError| match &error {
            PemError::Io(cause) => Trouble::passing(cause, text(&error)),
            _ => Trouble::Passing(text(&error)),
        };
        for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
            let certificate = certificate.map_err(unreadable)?;
            roots.add(certificate).map_err(|error| Trouble::Passing(text(&error)))?;
        }
    }
    if roots.is_empty() {
        return Err(Trouble::Passing(
            "no trusted root certificates found on this machine; install them (package \
             ca-certificates), or set `http.ca_file`"
                .to_owned(),
        ));
    }
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The certificates that this machine trusts. Unreadable ones are skipped, unless they could not be read for
/// lack of resources: without them, requests would fail as long as the process lives.
fn trusted(loaded: CertificateResult) -> Result<Vec<CertificateDer<'static>>, Trouble> {
    for error in &loaded.errors {
        if let CertificatesErrorKind::Io { inner, .. } = &error.kind
            && is_out_of_resources(inner)
        {
            return Err(Trouble::OutOfResources(format!(
                "cannot load the trusted root certificates of this machine: {error}"
            )));
        }
    }
    Ok(loaded.certs)
}

/// An error and what is behind it.
fn in_words(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEM: &str = "../punctual-postgres/tests/postgres_tls/cert.pem";

    #[test]
    fn an_error_of_the_first_request_does_not_stay() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("ca.pem");
        let client = Client::new(Some(file.clone()));
        assert!(matches!(client.connector(), Err(Trouble::Passing(_))));
        std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(PEM), file).expect("a copy");
        assert!(client.connector().is_ok());
    }

    #[test]
    fn certificates_that_cannot_be_read_for_lack_of_descriptors_are_not_skipped() {
        let loaded = |errno: i32| {
            let kind = CertificatesErrorKind::Io {
                inner: std::io::Error::from_raw_os_error(errno),
                path: PathBuf::from("/etc/ssl/certs"),
            };
            let error = rustls_native_certs::Error { context: "test", kind };
            let mut loaded = CertificateResult::default();
            loaded.errors.push(error);
            loaded
        };
        assert!(matches!(trusted(loaded(24)), Err(Trouble::OutOfResources(_))));
        assert_eq!(trusted(loaded(13)), Ok(Vec::new()));
    }
}
