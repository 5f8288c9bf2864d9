//! Jobs that call a URL, by the binary as it is: whom it calls, and whom it never does.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::process::{Serving, punctual, text};

/// Somebody who takes every request.
fn receiver() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 8_192]);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    url
}

fn call(server: &Serving, url: &str) -> Value {
    let payload = json!({ "url": url, "body": {"job": "{{job.id}}"} }).to_string();
    let args = ["job", "enqueue", "http", "--payload", &payload, "--wait", "--json"];
    serde_json::from_slice(&server.run(&args).stdout).unwrap()
}

#[test]
fn loopback_is_called_only_to_try_it_and_the_server_never() {
    let (directory, url) = (tempfile::tempdir().unwrap(), receiver());
    let dev = Serving::start(directory.path(), &["dev"]);
    let done = call(&dev, &url);
    assert_eq!((&done["state"], &done["result"]), (&json!("succeeded"), &json!({"status": 204})));
    let own = call(&dev, &dev.url);
    assert!(
        own["error"].as_str().unwrap().contains("it is the address of this punctual server"),
        "{own}"
    );
    assert_eq!(dev.stop(), Some(0));

    let serve = Serving::start(directory.path(), &["serve"]);
    let refused = call(&serve, &url);
    assert!(refused["error"].as_str().unwrap().contains("it is a loopback address"), "{refused}");
    assert_eq!(serve.stop(), Some(0));

    let settings = "[http]\nallow = [\"10.1.0.0/99\"]\n";
    std::fs::write(directory.path().join("punctual.toml"), settings).unwrap();
    let output = punctual(directory.path(), &["config", "check"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("`10.1.0.0/99` is not a valid network"));
}
