//! Connections are encrypted, and the server is verified, as the URL and the policy say: an impostor
//! gets no byte of a statement or a password. The key next to this file is for this test and guards
//! nothing; all certificates expire in the next century.

#[path = "../common/mod.rs"]
mod common;
mod impostor;
mod network;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::options;
use impostor::{Impostor, PASSWORD, SSL_REQUEST, Tls};
use punctual_conformance::cluster::{Cluster, give};
use punctual_postgres::{Options, PostgresStore};
use punctual_store::{ErrorKind, Store, StoreError};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/postgres_tls").join(name)
}

fn root(name: &str) -> String {
    format!("sslrootcert={}", file(name).display())
}

/// A server that takes encrypted connections only.
fn server(directory: &Path) -> Cluster {
    for name in ["cert.pem", "key.pem"] {
        let path = directory.join(name);
        fs::copy(file(name), &path).expect("a copy");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        give(&path);
    }
    give(directory);
    let at = |name: &str| directory.join(name).display().to_string();
    let cluster = Cluster::new(
        &[
            "ssl = on",
            &format!("ssl_cert_file = '{}'", at("cert.pem")),
            &format!("ssl_key_file = '{}'", at("key.pem")),
        ],
        None,
    );
    let hba = "local all all trust\nhostssl all all all trust\n";
    fs::write(cluster.data.join("pg_hba.conf"), hba).expect("it can be written");
    cluster
}

/// Connects to an impostor, which must fail.
async fn refused(url: &str, options: Options) -> StoreError {
    match PostgresStore::connect(url, options).await {
        Ok(_) => panic!("{url}: connected to an impostor"),
        Err(error) => error,
    }
}

fn url(host: &str, impostor: &Impostor, settings: &str) -> String {
    let password = String::from_utf8_lossy(PASSWORD);
    format!("postgres://app:{password}@{host}:{}/app?{settings}", impostor.port)
}

fn has_password(received: &[Vec<u8>]) -> bool {
    received.iter().any(|record| record.windows(PASSWORD.len()).any(|part| part == PASSWORD))
}

#[tokio::test]
async fn connections_are_encrypted_and_the_server_is_verified_if_the_url_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = server(directory.path());
    cluster.crash();
    cluster.start();
    let url = |settings: &str| format!("{}?{settings}", cluster.url());
    let full = format!("sslmode=verify-full&{}", root("cert.pem"));
    for settings in ["sslmode=require", "sslmode=prefer", "", &full, &root("cert.pem")] {
        let store = PostgresStore::connect(&url(settings), options("x")).await;
        assert!(store.unwrap_or_else(|error| panic!("{settings}: {error}")).queues().await.is_ok());
    }
    for (settings, said) in [
        ("sslmode=disable".to_owned(), "no encryption"),
        (root("other.pem"), "invalid peer certificate"),
        // No authority of the system has signed this certificate.
        ("sslmode=verify-full".to_owned(), "certificate"),
        ("sslrootcert=system".to_owned(), "certificate"),
    ] {
        let error = PostgresStore::connect(&url(&settings), options("x")).await.unwrap_err();
        assert!(error.to_string().contains(said), "{settings}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_tls_gets_no_password_and_no_statement() {
    let mut impostor = Impostor::start(Tls::Refused).await;
    let system = "sslrootcert=system".to_owned();
    for settings in
        [root("cert.pem"), system, "sslmode=verify-full".into(), "sslmode=require".into()]
    {
        let error = refused(&url("127.0.0.1", &impostor, &settings), options("x")).await;
        let received = impostor.received().await;
        assert_eq!(received, [SSL_REQUEST], "{settings}: {error}");
        assert!(error.to_string().contains("server does not support TLS"), "{settings}: {error}");
    }
    // The listening connection behind a pooler goes the same way.
    let pooled = options("x").pooled().direct_url(&url("127.0.0.1", &impostor, &root("no.pem")));
    let error = refused(&url("127.0.0.1", &impostor, ""), pooled).await;
    assert!(error.to_string().contains("cannot load the certificates"), "{error}");
    assert_eq!(impostor.received().await, Vec::<Vec<u8>>::new());
    // With `prefer`, the default on this machine, the impostor does get the password.
    refused(&url("127.0.0.1", &impostor, ""), options("x")).await;
    assert!(has_password(&impostor.received().await));
}

#[tokio::test]
async fn a_server_with_another_certificate_gets_no_password_and_no_statement() {
    let mut impostor = Impostor::start(Tls::offered()).await;
    for (host, root, said) in [
        ("127.0.0.1", root("other.pem"), "invalid peer certificate"),
        ("127.0.0.2", root("cert.pem"), "not valid for name"),
    ] {
        let error = refused(&url(host, &impostor, &root), options("x")).await;
        assert_eq!(impostor.received().await, [SSL_REQUEST], "{host}: {error}");
        assert!(error.to_string().contains(said), "{host}: {error}");
    }
    // `require` does not verify the server.
    refused(&url("127.0.0.1", &impostor, "sslmode=require"), options("x")).await;
    assert!(has_password(&impostor.received().await));
}

#[tokio::test]
async fn a_certificate_that_cannot_be_verified_is_a_lasting_error_with_its_remedy() {
    for (certificate, host, settings, reason, remedy) in [
        ("cert.pem", "127.0.0.1", root("other.pem"), "UnknownIssuer", "`sslrootcert=FILE`"),
        ("cert.pem", "127.0.0.2", root("cert.pem"), "not valid for name", "`subjectAltName`"),
        ("version1.pem", "127.0.0.1", root("cert.pem"), "not of X.509 version 3", "version 3"),
        ("authority.pem", "127.0.0.1", root("authority.pem"), "authority (CA)", "version 3"),
    ] {
        let impostor = Impostor::start(Tls::with_certificate(certificate)).await;
        let error = refused(&url(host, &impostor, &settings), options("x")).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{certificate}: {error}");
        let text = error.to_string();
        assert!(text.contains("cannot verify PostgreSQL at"), "{certificate}: {error}");
        assert!(text.contains("invalid peer certificate: "), "{certificate}: {error}");
        assert!(text.contains(reason) && text.contains(remedy), "{certificate}: {error}");
        for unwanted in ["check that it is running", "OtherError", "certificate: invalid"] {
            assert!(!text.contains(unwanted), "{certificate}: {error}");
        }
    }
}

#[tokio::test]
async fn a_missing_password_is_a_lasting_error_with_its_remedy() {
    let impostor = Impostor::start(Tls::Refused).await;
    let url = format!("postgres://app@127.0.0.1:{}/app", impostor.port);
    let error = refused(&url, options("x")).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let text = error.to_string();
    assert!(text.contains("requires a password, and none is set"), "{error}");
    assert!(text.contains("`database.password_file`"), "{error}");
}

#[tokio::test]
async fn off_this_machine_the_server_is_verified_unless_that_is_switched_off() {
    let name = "off_this_machine_the_server_is_verified_unless_that_is_switched_off";
    if !network::is_inside(name, &file("cert.pem")) {
        return;
    }
    // Both are impostors on this machine under an address of another one.
    let host = "203.0.113.7";
    for tls in [Tls::Refused, Tls::offered()] {
        let mut impostor = Impostor::start(tls).await;
        let error = refused(&url(host, &impostor, ""), options("x")).await;
        assert_eq!(impostor.received().await, [SSL_REQUEST], "{error}");
        for weak in ["sslmode=disable", "sslmode=prefer", "sslmode=require"] {
            let error = refused(&url(host, &impostor, weak), options("x")).await;
            assert_eq!(error.kind(), ErrorKind::Denied, "{weak}: {error}");
            assert_eq!(impostor.received().await, Vec::<Vec<u8>>::new(), "{weak}");
        }
        let direct = options("x").pooled().direct_url(&url(host, &impostor, "sslmode=prefer"));
        let error = refused(&url("127.0.0.1", &impostor, ""), direct).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert_eq!(impostor.received().await, Vec::<Vec<u8>>::new());
        let allowed = options("x").allow_insecure(true);
        refused(&url(host, &impostor, "sslmode=prefer"), allowed).await;
        assert!(has_password(&impostor.received().await));
    }
}
