//! What must not be reached is not reached: every notation of every address that somebody could think
//! of, in a network in which all of them answer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use punctual::JobState;
use punctual_http::{Answer, Config, Resolve};
use serde_json::json;
use tokio::net::TcpStream;

use crate::network::{OF_INTERFACE, Trap, encoded, is_inside};
use crate::{ended, node};

/// Addresses that are not public, each once in its plain form.
const FORBIDDEN: [&str; 44] = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fc00::1",
    "fd12:3456::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "3fff::1",
    "100::1",
    "5f00::1",
    "64:ff9b:1::1",
];

/// The same addresses, written by somebody with something to hide.
const DISGUISED: [&str; 64] = [
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0x7f.1",
    "0177.0.0.1",
    "0177.1",
    "017700000001",
    "0x7F.0x0.0x0.0x1",
    "127.0.0.1.",
    "%31%32%37.0.0.1",
    "127%2E0%2E0%2E1",
    "127。0。0。1",
    "①②⑦.⓪.⓪.①",
    "１２７.０.０.１",
    "0",
    "0x0",
    "00.0.0.0",
    "0.0",
    "10.1",
    "167772161",
    "0xa000001",
    "0xa.0.0.1",
    "012.0.0.1",
    "012.1",
    "0x0a.0x00.0x0001",
    "2852039166",
    "0xa9fea9fe",
    "0xa9.0xfe.0xa9.0xfe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "169.16689662",
    "025177524776",
    "3232235777",
    "0xc0a80101",
    "192.168.257",
    "0300.0250.1.1",
    "2886729729",
    "0xac100001",
    "172.1048577",
    "[0:0:0:0:0:0:0:1]",
    "[0000::0001]",
    "[::0]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:10.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[::ffff:192.168.0.1]",
    "[::127.0.0.1]",
    "[::a00:1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:7f00:1::]",
    "[2002:a00:1::1]",
    "[2002:a9fe:a9fe::]",
    "[2001:0:7f00:1::]",
    "[2001:0:102:304::80ff:fffe]",
    "[2001:0:a9fe:a9fe::1]",
    "[2a00:1450::5efe:7f00:1]",
    "[2a00:1450::200:5efe:a00:1]",
    "[FD00:EC2::254]",
];

/// What is no URL that could be asked, whatever it leads to.
const WRONG: [&str; 12] = [
    "file:///etc/passwd",
    "ftp://93.184.216.34/",
    "gopher://127.0.0.1:80/_GET",
    "dict://127.0.0.1/",
    "http://user@93.184.216.34/",
    "http://user:pass@127.0.0.1/",
    "http://93.184.216.34@127.0.0.1/",
    "http://127.0.0.1#@93.184.216.34/",
    "http://[::1",
    "http://256.256.256.256/",
    "http:///x",
    "unix:/run/docker.sock",
];

/// Names, and what they stand for; of several answers each question gets the next.
fn names() -> BTreeMap<&'static str, Vec<Vec<&'static str>>> {
    BTreeMap::from([
        ("localhost", vec![vec!["127.0.0.1", "::1"]]),
        ("private.example", vec![vec!["10.9.9.9"]]),
        ("mapped.example", vec![vec!["::ffff:127.0.0.1"]]),
        ("metadata.example", vec![vec!["169.254.169.254"]]),
        ("mixed.example", vec![vec!["93.184.216.34", "192.168.7.7"]]),
        ("mixed6.example", vec![vec!["2606:4700::1", "fd00::7"]]),
        ("rebinding.example", vec![vec!["93.184.216.35"], vec!["127.0.0.1"], vec!["10.0.0.1"]]),
        ("public.example", vec![vec!["93.184.216.34"]]),
        ("both.example", vec![vec!["2606:4700::2", "93.184.216.36"]]),
        ("intra.example", vec![vec!["192.168.5.5"]]),
        ("badly-allowed.example", vec![vec!["169.254.169.254"]]),
        ("db.example", vec![vec!["10.1.0.2"]]),
        ("own.example", vec![vec!["2a00:1450::99"]]),
    ])
}

/// Names as the test has them; it counts how often each is asked for.
#[derive(Default)]
struct Names(Mutex<BTreeMap<String, usize>>);

impl Resolve for Names {
    fn resolve(&self, host: &str) -> Answer {
        let mut asked = self.0.lock().unwrap();
        let count = asked.entry(host.to_owned()).or_default();
        let answers = names().remove(host).unwrap_or_default();
        let found = answers.get(*count).or(answers.last()).cloned().unwrap_or_default();
        *count += 1;
        let found: Vec<IpAddr> = found.iter().map(|address| address.parse().unwrap()).collect();
        let is_down = host == "lost.example";
        Box::pin(async move {
            if is_down { Err(std::io::Error::other("the resolver is down")) } else { Ok(found) }
        })
    }
}

/// Ports of databases whose names are not resolved: with an error, and to nothing.
const LOST_PORTS: [u16; 2] = [5433, 5434];

/// What may be reached, and where it arrives.
const ALLOWED: [(&str, &str); 12] = [
    ("http://93.184.216.34/", "93.184.216.34"),
    ("http://1572395042/", "93.184.216.34"),
    ("http://172.32.0.1/", "172.32.0.1"),
    ("http://100.128.0.1:443/", "100.128.0.1"),
    ("http://[2606:4700::1]/", "2606:4700::1"),
    ("http://public.example/", "93.184.216.34"),
    ("http://both.example/", "2606:4700::2"),
    ("http://rebinding.example/", "93.184.216.35"),
    ("http://10.1.2.3/", "10.1.2.3"),
    ("http://intra.example/", "192.168.5.5"),
    ("http://10.1.0.2/", "10.1.0.2"),
    // An address of this machine that the configuration allows.
    ("http://9.9.9.9/", "9.9.9.9"),
];

fn forbidden() -> Vec<String> {
    let literal = |text: &&str| match text.contains(':') {
        true => format!("http://[{text}]/"),
        false => format!("http://{text}/"),
    };
    let mut urls: Vec<String> = FORBIDDEN.iter().map(literal).collect();
    urls.extend(DISGUISED.iter().map(|host| format!("http://{host}/")));
    urls.extend(WRONG.iter().map(|url| (*url).to_owned()));
    let hosts = ["localhost", "LOCALHOST", "private.example", "mapped.example", "metadata.example"];
    urls.extend(hosts.iter().map(|host| format!("http://{host}/")));
    urls.extend(
        ["mixed.example", "mixed6.example", "badly-allowed.example"]
            .map(|host| format!("http://{host}/")),
    );
    // Allowed by its network, but our own listener, and the database by address and by name.
    urls.extend(["http://10.1.0.1:7347/", "http://[::ffff:10.1.0.1]:7347/"].map(str::to_owned));
    urls.extend(["http://10.1.0.2:5432/", "http://db.example:5432/"].map(str::to_owned));
    // A database on this machine, by another of the machine's addresses; and one that may be anywhere
    // as long as its name is not resolved.
    urls.extend(["http://10.1.0.3:5432/", "http://intra.example:5432/"].map(str::to_owned));
    urls.extend(LOST_PORTS.map(|port| format!("http://10.1.0.3:{port}/")));
    // Public addresses that this machine has, which a firewall may protect from outside.
    let own = OF_INTERFACE.iter().filter(|address| **address != "9.9.9.9");
    urls.extend(own.map(literal));
    urls.extend(["http://[64:ff9b::8.8.4.4]/", "http://own.example/"].map(str::to_owned));
    // Where somebody else leads, in one step or two.
    let last = [
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/",
        "//10.0.0.1/x",
        "http://0x7f.1/",
        "http://[::1]/",
        "http://[::ffff:7f00:1]/",
        "http://localhost/",
        "http://private.example/",
        "file:///etc/passwd",
        "http://10.1.0.1:7347/",
        "http://user@93.184.216.34/",
        "http://8.8.4.4/",
    ];
    urls.extend(last.iter().map(|to| format!("http://public.example/to/{}", encoded(to))));
    let twice = |to: &&str| {
        let second = format!("http://93.184.216.34/to/{}", encoded(to));
        format!("http://public.example/to/{}", encoded(&second))
    };
    urls.extend(last.iter().take(3).map(twice));
    urls
}

#[test]
fn what_must_not_be_reached_is_not_reached() {
    if is_inside("ssrf::what_must_not_be_reached_is_not_reached") {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(calls_everything());
    }
}

async fn calls_everything() {
    let trap = Trap::default();
    for port in [80, 443, 5432, 5433, 5434, 7347] {
        trap.listen(port).await;
    }
    // First, that the trap holds: what is called here does arrive.
    for address in ["10.0.0.1:80", "169.254.169.254:80", "[fd00:ec2::254]:80", "127.0.0.1:5432"] {
        TcpStream::connect(address).await.unwrap();
    }
    let count = || -> usize { trap.arrived().values().sum() };
    while count() < 4 {
        tokio::task::yield_now().await;
    }
    let before = trap.arrived();

    let names = Arc::new(Names::default());
    let punctual = node(Config {
        allow: ["10.1.0.0/16", "intra.example", "badly-allowed.example", "9.9.9.9"]
            .map(str::to_owned)
            .to_vec(),
        listeners: vec!["10.1.0.1:7347".parse().unwrap()],
        database: vec![
            ("db.example".into(), 5432),
            ("lost.example".into(), LOST_PORTS[0]),
            ("nowhere.example".into(), LOST_PORTS[1]),
        ],
        resolver: Some(names.clone()),
        ..Config::default()
    })
    .await;
    let urls = forbidden();
    assert!(urls.len() >= 120, "{}", urls.len());
    for url in &urls {
        let payload = json!({ "url": url, "follow_redirects": 3, "timeout": "5s" });
        let finished = ended(&punctual, payload, 1).await;
        assert_eq!(finished.state, JobState::Failed, "{url}");
        let error = finished.error.unwrap();
        let is_ours = ["blocked", "`url`", "not followed", "cannot resolve"];
        assert!(is_ours.iter().any(|words| error.contains(words)), "{url}: {error}");
        if url.contains("8.8.4.4/") || url.contains("2a00:1450::99") {
            assert!(error.contains("is an address of this machine; to allow it"), "{url}: {error}");
        }
    }
    // A resolver may be back a moment later.
    for (port, host) in LOST_PORTS.iter().zip(["lost.example", "nowhere.example"]) {
        let before = names.0.lock().unwrap()[host];
        ended(&punctual, json!({ "url": format!("http://10.1.0.3:{port}/") }), 3).await;
        assert_eq!(names.0.lock().unwrap()[host], before + 3, "{host} is tried again");
    }
    for (url, arrives) in ALLOWED {
        let before = trap.count(arrives);
        let finished = ended(&punctual, json!({ "url": url }), 1).await;
        assert_eq!(finished.error, None, "{url}");
        assert_eq!(trap.count(arrives), before + 1, "{url} arrives at {arrives}");
    }
    punctual.stop().await;
    assert_eq!(names.0.lock().unwrap()["rebinding.example"], 1, "a name is resolved once");

    // Whatever arrived is where it may: 0 connections to anything else.
    let may: Vec<IpAddr> = ALLOWED.iter().map(|(_, address)| address.parse().unwrap()).collect();
    for (at, count) in trap.arrived() {
        let before = before.get(&at).copied().unwrap_or(0);
        let is_allowed = may.contains(&at.ip()) && [80, 443].contains(&at.port());
        assert!(is_allowed || count == before, "{} connections to {at}", count - before);
    }
}
