//! What an attempt's error says: the cause, and the way out.

use std::sync::Arc;

use punctual_http::Config;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{OK, Receiver, Seen, ended, loopback, node};

/// A key and a certificate for localhost that exist for tests, and guard nothing.
fn pem(name: &str) -> std::path::PathBuf {
    let tls = "../punctual-postgres/tests/tls";
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(tls).join(name)
}

/// Somebody who answers encrypted requests, at this port.
async fn encrypted() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let certificate = CertificateDer::from_pem_file(pem("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(pem("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            if Seen::read(&mut stream).await.is_some() {
                let _ = stream.write_all(OK.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        }
    });
    port
}

/// Somebody who knows nothing of encryption and does not listen, at this port.
async fn hasty() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(OK.as_bytes()).await.unwrap();
        }
    });
    port
}

async fn error(config: Config, payload: Value) -> String {
    let punctual = node(config).await;
    let finished = ended(&punctual, payload, 1).await;
    punctual.stop().await;
    let error = finished.error.unwrap();
    // Ports are new each time.
    let digits = |c: char| c.is_ascii_digit();
    let parts =
        error.split(':').map(|part| match part.find(|c| !digits(c)).unwrap_or(part.len()) {
            5 => format!("PORT{}", &part[5..]),
            _ => part.to_owned(),
        });
    parts.collect::<Vec<_>>().join(":")
}

#[tokio::test]
async fn each_error_names_the_cause_and_the_way_out() {
    let of = |payload: Value| error(loopback(), payload);
    let url = |url: &str| of(json!({ "url": url }));
    insta::assert_snapshot!(of(json!({})).await, @"invalid payload for kind `http`: missing field `url`; valid fields: method, url, headers, body or text, timeout, success, store_response, follow_redirects, sign, templates");
    insta::assert_snapshot!(url("example.com/hook").await, @"`url` `example.com/hook`: invalid URL (relative URL without a base); use a URL such as https://example.com/hook");
    insta::assert_snapshot!(url("gopher://example.com/").await, @"`url` `gopher://example.com/`: unsupported URL scheme; use http or https");
    insta::assert_snapshot!(url("https://example.com/{{job}}").await, @"`url` `https://example.com/{{job}}`: unknown variable `{{job}}`; expected one of job.id, attempt, due_at, slot, schedule, lease; to send literal braces, set `templates` to false");
    insta::assert_snapshot!(url("https://example.com/{{slot}}").await, @"`url` `https://example.com/{{slot}}`: `{{slot}}` has no value: the job was not created by a slot of a schedule; remove the variable, or create the job with a schedule");
    insta::assert_snapshot!(url("https://example.com/{{attempt").await, @"`url` `https://example.com/{{attempt`: `{{attempt` is not closed; add `}}`, or set `templates` to false to send literal braces");
    insta::assert_snapshot!(url("http://10.0.0.7/").await, @"request to `10.0.0.7` blocked: it is a private address; to allow it, add `10.0.0.7` to `http.allow` in the workers' configuration");
    insta::assert_snapshot!(url("http://169.254.169.254/latest/meta-data/").await, @"request to `169.254.169.254` blocked: it is a link-local address (cloud metadata); no setting allows this; use another host");
    insta::assert_snapshot!(url("http://[::ffff:10.0.0.7]/").await, @"request to `::ffff:10.0.0.7` blocked: it is a private address; to allow it, add `10.0.0.7` to `http.allow` in the workers' configuration");
    insta::assert_snapshot!(of(json!({"url": "http://127.0.0.1/", "headers": {"a": "secret://none"}})).await, @"header `a`: unknown secret `none`; define it in `[secrets]` of the worker's configuration (`punctual config show` lists the secrets)");
    insta::assert_snapshot!(url("http://127.0.0.1:1/").await, @"cannot connect to `http://127.0.0.1:1` (127.0.0.1:1: Connection refused (os error 111)); check that it is running and reachable from this machine");
    let own = Config { listeners: vec!["0.0.0.0:7347".parse().unwrap()], ..loopback() };
    insta::assert_snapshot!(error(own, json!({"url": "http://127.0.0.1:7347/api"})).await, @"request to `127.0.0.1` blocked: it is the address of this punctual server; jobs cannot send requests to the server that runs them");
    let database = Config { database: vec![("localhost".into(), 5432)], ..loopback() };
    insta::assert_snapshot!(error(database, json!({"url": "http://127.0.0.1:5432/"})).await, @"request to `127.0.0.1` blocked: it is the address of the database; jobs cannot send requests to the database");
}

#[tokio::test]
async fn each_answer_that_is_no_success_is_told_as_it_is() {
    let mut told = Vec::new();
    for answer in [
        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n",
        "",
        "nonsense\r\n\r\n",
    ] {
        let receiver = Receiver::answering(answer).await;
        told.push(error(loopback(), json!({ "url": receiver.url })).await);
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    `http://127.0.0.1:PORT` returned 404 (not found); the receiver rejected the request, so it is not retried
    `http://127.0.0.1:PORT` returned 401 (unauthorized); check the authentication headers
    `http://127.0.0.1:PORT` returned 410 (gone): the receiver no longer accepts this request; remove the job or its schedule
    `http://127.0.0.1:PORT` returned 302 (found); use the target URL, or set `follow_redirects` to 1, 2 or 3
    `http://127.0.0.1:PORT` returned 500 (internal server error)
    the request to `http://127.0.0.1:PORT` failed before a response arrived: connection closed before message completed
    the request to `http://127.0.0.1:PORT` failed before a response arrived: invalid HTTP version parsed
    "#);
}

#[tokio::test]
async fn encryption_is_checked_and_an_authority_may_be_named() {
    let port = encrypted().await;
    let to = |host: &str| json!({ "url": format!("https://{host}:{port}/") });
    let unknown = error(loopback(), to("127.0.0.1")).await;
    insta::assert_snapshot!(unknown, @"the TLS handshake with `https://127.0.0.1:PORT` failed: invalid peer certificate: UnknownIssuer; check its certificate, or add the CA that signed it with `http.ca_file` in the workers' configuration");
    let trusting = || Config { ca_file: Some(pem("cert.pem")), ..loopback() };
    let punctual = node(trusting()).await;
    for host in ["localhost", "127.0.0.1"] {
        let finished = ended(&punctual, to(host), 1).await;
        assert_eq!(finished.error, None, "{host}");
    }
    punctual.stop().await;
    insta::assert_snapshot!(error(trusting(), to("127.0.0.2")).await, @r#"the TLS handshake with `https://127.0.0.2:PORT` failed: invalid peer certificate: certificate not valid for name "127.0.0.2"; certificate is only valid for DnsName("localhost") or IpAddress(127.0.0.1); check its certificate, or add the CA that signed it with `http.ca_file` in the workers' configuration"#);
    let plain = json!({ "url": format!("https://127.0.0.1:{}/", hasty().await) });
    insta::assert_snapshot!(error(trusting(), plain).await, @"the TLS handshake with `https://127.0.0.1:PORT` failed: received corrupt message of type InvalidContentType; check its certificate, or add the CA that signed it with `http.ca_file` in the workers' configuration");
    let missing = Config { ca_file: Some("/nowhere.pem".into()), ..loopback() };
    insta::assert_snapshot!(error(missing, to("localhost")).await, @"cannot load the certificates of `http.ca_file` from `/nowhere.pem` (I/O error: No such file or directory (os error 2)); use a file in PEM format");
}
