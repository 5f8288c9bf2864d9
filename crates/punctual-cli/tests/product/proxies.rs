//! Proxies of the environment, and which requests go through them.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::process::{Serving, punctual, text};

const TOKEN: &str = "a-token-that-no-proxy-sees";

/// A command whose environment names the proxy in all ways.
fn behind(proxy: &TcpListener, server: &str) -> Command {
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let mut command = punctual(Path::new("/"), &["node", "list", "--server", server]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    {
        command.env(name, &url);
    }
    command.env_remove("no_proxy").env_remove("NO_PROXY").env("PUNCTUAL_TOKEN", TOKEN);
    command
}

#[test]
fn requests_to_this_machine_go_through_no_proxy() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let token = ("PUNCTUAL_TOKEN", TOKEN);
    let server = Serving::start_with(directory.path(), &["serve"], &[token]);
    let port = server.url.rsplit_once(':').unwrap().1.to_owned();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let output = behind(&proxy, &format!("http://{host}:{port}")).output().unwrap();
        assert!(output.status.success(), "{host}: {}", text(&output.stderr));
    }
    // A connection would wait here, even if it is closed by now.
    proxy.set_nonblocking(true).unwrap();
    let error = proxy.accept().map(drop).expect_err("no connection");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    proxy.set_nonblocking(false).unwrap();

    // The proxy is where requests to other machines go.
    let mut command = behind(&proxy, "http://punctual.invalid:7347");
    let asked = std::thread::spawn(move || command.output().unwrap());
    let (stream, _) = proxy.accept().unwrap();
    let mut request = String::new();
    BufReader::new(&stream).read_line(&mut request).unwrap();
    assert!(request.contains("punctual.invalid:7347"), "{request}");
    drop((stream, proxy));
    assert_eq!(asked.join().unwrap().status.code(), Some(6));
}
