//! Encrypted connections: to anyone, or only to whom the certificate names. The key beside this file
//! is for this test and guards nothing; both certificates end in the next century.

#[path = "../common/mod.rs"]
mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::options;
use punctual_conformance::cluster::{Cluster, give};
use punctual_postgres::PostgresStore;
use punctual_store::Store;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
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

#[tokio::test]
async fn connections_are_encrypted_and_the_server_is_checked_if_that_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = server(directory.path());
    cluster.crash();
    cluster.start();
    let url = |settings: &str| format!("{}?{settings}", cluster.url());
    let root = |name: &str| format!("sslmode=verify-full&sslrootcert={}", file(name).display());
    for settings in ["sslmode=require", "sslmode=prefer", &root("cert.pem")] {
        let store = PostgresStore::connect(&url(settings), options("x")).await;
        assert!(store.unwrap_or_else(|error| panic!("{settings}: {error}")).queues().await.is_ok());
    }
    for (settings, said) in [
        ("sslmode=disable".to_owned(), "no encryption"),
        (root("other.pem"), "invalid peer certificate"),
        // The system trusts nobody who has signed this.
        ("sslmode=verify-full".to_owned(), "certificate"),
    ] {
        let error = PostgresStore::connect(&url(&settings), options("x")).await.unwrap_err();
        assert!(error.to_string().contains(said), "{settings}: {error}");
    }
}
