//! A network of one's own, in which every address there is belongs to this machine.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;

use crate::{OK, Seen, say};

/// Says that this process is in such a network.
const INSIDE: &str = "PUNCTUAL_TEST_INSIDE";

/// Every address, of IPv4 and IPv6, is local: whatever is called, a listener here hears it. Public
/// addresses that an interface has are these only; requests to others come from `127.0.0.1`, as they
/// would from another machine's address.
pub(crate) const OF_INTERFACE: [&str; 3] = ["8.8.4.4", "9.9.9.9", "2a00:1450::99"];
const PREPARE: &str = "ip link set lo up \
    && ip route add local 0.0.0.0/0 dev lo src 127.0.0.1 && ip -6 route add local ::/0 dev lo \
    && ip addr add 8.8.4.4/32 dev lo && ip addr add 9.9.9.9/32 dev lo \
    && ip addr add 2a00:1450::99/128 dev lo nodad \
    && exec \"$0\" \"$@\"";

/// Runs the test of this name again in a network of its own, unless this is there already.
pub(crate) fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let status = Command::new("unshare")
        .args(["--net", "sh", "-c", PREPARE])
        .arg(own)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare makes a network for the test; install util-linux");
    assert!(
        status.success(),
        "the test failed in its own network, or there is none: that needs root (or CAP_SYS_ADMIN) and `ip` of iproute2; see above"
    );
    false
}

/// Listeners at every address, that count.
#[derive(Clone, Default)]
pub(crate) struct Trap(Arc<Mutex<BTreeMap<SocketAddr, usize>>>);

impl Trap {
    /// Listens on a port of every address. It answers, and leads elsewhere if it is asked for
    /// `/to/…`.
    pub(crate) async fn listen(&self, port: u16) {
        let listener = TcpListener::bind(("::", port)).await.unwrap();
        let counts = self.0.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let at = stream.local_addr().unwrap();
                let at = SocketAddr::new(at.ip().to_canonical(), at.port());
                *counts.lock().unwrap().entry(at).or_default() += 1;
                tokio::spawn(async move {
                    let Some(request) = Seen::read(&mut stream).await else { return };
                    let path = request.line.split(' ').nth(1).unwrap().to_owned();
                    match path.strip_prefix("/to/") {
                        Some(place) => {
                            let moved = format!(
                                "HTTP/1.1 307 Moved\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n",
                                decoded(place)
                            );
                            say(&mut stream, &moved).await;
                        }
                        None => say(&mut stream, OK).await,
                    }
                });
            }
        });
    }

    /// Where connections arrived, and how many.
    pub(crate) fn arrived(&self) -> BTreeMap<SocketAddr, usize> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, address: &str) -> usize {
        let address: IpAddr = address.parse().unwrap();
        self.arrived().iter().filter(|(at, _)| at.ip() == address).map(|(_, count)| count).sum()
    }
}

/// A text in the form in which it can be a part of a path.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn decoded(text: &str) -> String {
    let bytes = text.split('%').skip(1).map(|hex| u8::from_str_radix(hex, 16).unwrap());
    String::from_utf8(bytes.collect()).unwrap()
}
