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
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

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
    /// Read with the first request that needs it.
    tls: OnceLock<Result<TlsConnector, String>>,
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
    ) -> Result<Answer, String> {
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
            format!(
                "the request to {} failed before a response arrived: {}",
                shown(url),
                in_words(&error)
            )
        })?;
        let (head, incoming) = response.into_parts();
        let body = match wants_body {
            true => Some(read(incoming).await.map_err(|error| {
                format!("the response from {} is incomplete: {}", shown(url), in_words(&error))
            })?),
            false => None,
        };
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    async fn encrypted(
        &self,
        url: &Url,
        stream: TcpStream,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
        let connector = self.tls.get_or_init(|| connector(self.ca_file.as_deref())).clone()?;
        let name = match url.host() {
            Some(Host::Domain(host)) => ServerName::try_from(host.to_owned())
                .map_err(|_| format!("`{host}` is not a valid TLS server name"))?,
            Some(Host::Ipv4(address)) => ServerName::from(std::net::IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => ServerName::from(std::net::IpAddr::V6(address)),
            None => return Err("the URL has no host".to_owned()),
        };
        match tokio::time::timeout(CONNECT, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(format!(
                "the TLS handshake with {} failed: {}; check its certificate, or add the CA that \
                 signed it with `http.ca_file` in the workers' configuration",
                shown(url),
                in_words(&error)
            )),
            Err(_) => Err(format!(
                "the TLS handshake with {} timed out after {}s",
                shown(url),
                CONNECT.as_secs()
            )),
        }
    }
}

/// A URL in messages, without what may be private in it.
pub(crate) fn shown(url: &Url) -> String {
    format!("`{}`", url.origin().ascii_serialization())
}

/// A connection to the first address that takes one.
async fn connect(url: &Url, addresses: &[SocketAddr]) -> Result<TcpStream, String> {
    let mut troubles = Vec::new();
    for address in addresses {
        match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => troubles.push(format!("{address}: {error}")),
            Err(_) => troubles.push(format!("{address}: timed out after {}s", CONNECT.as_secs())),
        }
    }
    Err(format!(
        "cannot connect to {} ({}); check that it is running and reachable from this machine",
        shown(url),
        troubles.join("; ")
    ))
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

fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot initialize TLS: {error}"))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = ca_file {
        let unreadable = |why: String| {
            let file = file.display();
            format!(
                "cannot load the certificates of `http.ca_file` from `{file}` ({why}); use a file \
                 in PEM format"
            )
        };
        for certificate in
            CertificateDer::pem_file_iter(file).map_err(|error| unreadable(error.to_string()))?
        {
            let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
        }
    }
    if roots.is_empty() {
        return Err("no trusted root certificates found on this machine; install them (package \
            ca-certificates), or set `http.ca_file`"
            .to_owned());
    }
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
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
