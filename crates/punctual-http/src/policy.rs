//! Where a request may go. Whoever may write a job would otherwise have the server ask whatever the
//! server can reach: its own API, the database, a cloud's metadata, the neighbours.
//!
//! A name is resolved once, every address that it stands for is looked at, and the connection goes to
//! exactly these: a name that means something else a moment later gains nothing. Whether an address is
//! open is a pure function of it.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;

use punctual::is_out_of_resources;
use url::{Host, Url};

use crate::trouble::Trouble;

/// What somebody may reach beyond the public internet, and what nobody may.
pub(crate) struct Policy {
    pub(crate) allow: Allow,
    /// Where this process listens.
    pub(crate) listeners: Vec<SocketAddr>,
    /// Where the database is, by name or address and port.
    pub(crate) database: Vec<(String, u16)>,
    pub(crate) resolver: Arc<dyn Resolve>,
}

/// Networks and hosts that may be reached although they are not public.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allow {
    nets: Vec<Net>,
    hosts: Vec<String>,
}

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Net {
    address: IpAddr,
    bits: u8,
}

/// What stands for a name.
pub trait Resolve: Send + Sync {
    /// All addresses of a host.
    fn resolve(&self, host: &str) -> Answer;
}

/// The addresses of a host, when they are known.
pub type Answer = Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>>;

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Public,
    /// To be reached only if it is allowed, since it is this.
    Private(&'static str),
    /// Never to be reached, since it is this.
    Never(&'static str),
}

impl Allow {
    /// Networks, written like `10.1.0.0/16`, addresses and names of hosts.
    pub(crate) fn parse(entries: &[String]) -> Result<Allow, String> {
        let mut allow = Allow::default();
        for entry in entries {
            let wrong = |why: &str| {
                Err(format!(
                    "http.allow: `{entry}` {why}; use a network such as 10.1.0.0/16, an IP \
                     address, or a host name such as intra.example"
                ))
            };
            match (Net::parse(entry), entry.contains('/')) {
                (Some(net), _) => allow.nets.push(net),
                (None, true) => return wrong("is not a valid network"),
                (None, false) => match Host::parse(entry) {
                    Ok(Host::Domain(host)) => allow.hosts.push(host),
                    Ok(_) => return wrong("is an IP address in an unsupported notation"),
                    Err(_) => return wrong("is not a valid host name"),
                },
            }
        }
        Ok(allow)
    }

    fn has_address(&self, address: IpAddr) -> bool {
        self.nets.iter().any(|net| net.contains(address))
    }

    fn has_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|allowed| allowed == host.trim_end_matches('.'))
    }
}

impl Net {
    fn parse(text: &str) -> Option<Net> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
        (bits <= most).then_some(Net { address, bits })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let shift = |width: u32| width - u32::from(self.bits);
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = |address: Ipv4Addr| address.to_bits().checked_shr(shift(32));
                shift(own) == shift(other)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = |address: Ipv6Addr| address.to_bits().checked_shr(shift(128));
                shift(own) == shift(other)
            }
            _ => false,
        }
    }
}

/// What is never reached: it is the machine itself, or hands out credentials to whoever asks.
const NEVER: [(&str, &str); 9] = [
    ("0.0.0.0/8", "an address of this machine"),
    ("169.254.0.0/16", "a link-local address (cloud metadata)"),
    ("100.100.100.200/32", "a cloud metadata address"),
    ("168.63.129.16/32", "a cloud metadata address"),
    ("192.0.0.192/32", "a cloud metadata address"),
    ("::/128", "an address of this machine"),
    ("fd00:ec2::/32", "a cloud metadata address"),
    ("fd20:ce::/32", "a cloud metadata address"),
    ("fe80::/10", "a link-local address (cloud metadata)"),
];

/// What is not on the public internet.
const PRIVATE: [(&str, &str); 15] = [
    ("10.0.0.0/8", "a private address"),
    ("100.64.0.0/10", "a carrier-grade NAT address"),
    ("127.0.0.0/8", "a loopback address"),
    ("172.16.0.0/12", "a private address"),
    ("192.0.0.0/24", "a reserved address"),
    ("192.0.2.0/24", "a documentation address"),
    ("192.88.99.0/24", "a reserved address"),
    ("192.168.0.0/16", "a private address"),
    ("198.18.0.0/15", "a benchmarking address"),
    ("198.51.100.0/24", "a documentation address"),
    ("203.0.113.0/24", "a documentation address"),
    ("224.0.0.0/4", "a multicast address"),
    ("240.0.0.0/4", "a reserved address"),
    ("2001:db8::/32", "a documentation address"),
    ("3fff::/20", "a documentation address"),
];

/// What an address is by itself.
fn standing(address: IpAddr) -> Standing {
    let within = |table: &[(&str, &'static str)]| {
        let has = |net: &str| Net::parse(net).is_some_and(|net| net.contains(address));
        table.iter().find(|(net, _)| has(net)).map(|(_, what)| *what)
    };
    if let Some(what) = within(&NEVER) {
        return Standing::Never(what);
    }
    if let Some(what) = within(&PRIVATE) {
        return Standing::Private(what);
    }
    match address {
        // All that is public begins so; what is not lies in between, and more may be set apart.
        IpAddr::V6(v6) if v6.segments()[0] & 0xe000 != 0x2000 && inner(v6).is_empty() => {
            Standing::Private("not a public address")
        }
        _ => Standing::Public,
    }
}

/// The addresses of IPv4 that stand within one of IPv6, wherever somebody on the way may take them out.
fn inner(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match [a, b, c, d, e, f] {
        // Mapped, and the older compatible ones, of which `::` and `::1` are none.
        [0, 0, 0, 0, 0, 0xffff] | [0, 0, 0, 0, 0xffff, 0] => vec![v4(g, h)],
        [0, 0, 0, 0, 0, 0] if g != 0 || h > 1 => vec![v4(g, h)],
        // NAT64. In its local form the place is for the network to choose: that one is not public.
        [0x64, 0xff9b, 0, 0, 0, 0] => vec![v4(g, h)],
        // 6to4, and Teredo with its server and its client, who is written inverted.
        [0x2002, high, low, ..] => vec![v4(high, low)],
        [0x2001, 0, high, low, ..] => vec![v4(high, low), v4(!g, !h)],
        // ISATAP, under any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe] => vec![v4(g, h)],
        _ => Vec::new(),
    }
}

/// An address, and those that stand within it.
fn forms(address: IpAddr) -> Vec<IpAddr> {
    let within = match address {
        IpAddr::V6(v6) => inner(v6),
        IpAddr::V4(_) => Vec::new(),
    };
    std::iter::once(address).chain(within.into_iter().map(IpAddr::V4)).collect()
}

/// Does this machine have the address? Only what it has can be bound. Without a descriptor this is
/// unknown, and nothing may be called.
fn is_own(address: IpAddr) -> Result<bool, Trouble> {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => Ok(true),
        Err(error) if is_out_of_resources(&error) => Err(unknown(address, &error)),
        Err(_) => Ok(false),
    }
}

/// Is the address one of an interface of this machine? The system says so by the address that it would
/// send from: nothing is sent. Unlike [`is_own`], this holds where any address can be bound
/// (`net.ipv4.ip_nonlocal_bind`). Without a descriptor this is unknown, too.
fn is_of_interface(address: IpAddr) -> Result<bool, Trouble> {
    let any = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    // Any port will do.
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    match from {
        Ok(from) => Ok(from.ip() == address),
        Err(error) if is_out_of_resources(&error) => Err(unknown(address, &error)),
        // An address that cannot be reached is not here.
        Err(_) => Ok(false),
    }
}

fn unknown(address: IpAddr, error: &std::io::Error) -> Trouble {
    Trouble::OutOfResources(format!(
        "cannot check whether {address} is an address of this machine: {error}"
    ))
}

/// A URL that may be asked, as far as it can be told without resolving its host. What is wrong is told
/// without the URL, in which there may be a secret.
pub(crate) fn url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| {
        format!("invalid URL ({error}); use a URL such as https://example.com/hook")
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("unsupported URL scheme; use http or https".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL contains a user name or password; use a header instead, such as \
            `\"authorization\": \"secret://NAME\"`"
            .to_owned());
    }
    match url.host() {
        Some(_) => Ok(url),
        None => Err("the URL has no host; use a URL such as https://example.com/hook".to_owned()),
    }
}

impl Policy {
    /// The addresses that a request for this URL goes to, if it may go to all of them.
    pub(crate) async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, Trouble> {
        let port = url.port_or_known_default().unwrap_or(80);
        let (host, found) = match url.host() {
            Some(Host::Ipv4(address)) => (address.to_string(), vec![IpAddr::V4(address)]),
            Some(Host::Ipv6(address)) => (address.to_string(), vec![IpAddr::V6(address)]),
            Some(Host::Domain(host)) => (host.to_owned(), self.resolve(host).await?),
            None => return Err(Trouble::Lasting("the URL has no host".to_owned())),
        };
        let database = self.database_at(port).await?;
        for address in &found {
            self.check(&host, SocketAddr::new(*address, port), &database)?;
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, Trouble> {
        let unresolved = |why: &str| {
            format!(
                "cannot resolve host `{host}` ({why}); check the name, and the DNS resolver of \
                 the machine that runs the job"
            )
        };
        match self.resolver.resolve(host).await {
            Ok(found) if found.is_empty() => Err(Trouble::Passing(unresolved("no address found"))),
            Ok(found) => Ok(found),
            Err(error) => Err(Trouble::passing(&error, unresolved(&error.to_string()))),
        }
    }

    /// Where the database is, if it listens on this port: looked up anew, since it may have moved.
    async fn database_at(&self, port: u16) -> Result<Vec<IpAddr>, Trouble> {
        let mut found = Vec::new();
        for (host, _) in self.database.iter().filter(|(_, own)| *own == port) {
            match host.parse() {
                Ok(address) => found.extend(forms(address)),
                // It may be anywhere, so that nothing is called till this is known.
                Err(_) => {
                    let addresses = self.resolve(host).await.map_err(|trouble| {
                        trouble.map(|why| {
                            format!(
                                "requests to port {port} (the database port) are blocked until the \
                                 address of the database is known: {why}"
                            )
                        })
                    })?;
                    found.extend(addresses.into_iter().flat_map(forms));
                }
            }
        }
        Ok(found)
    }

    /// May a request for this host go to this address?
    fn check(&self, host: &str, to: SocketAddr, database: &[IpAddr]) -> Result<(), Trouble> {
        let is_literal = host.parse::<IpAddr>().is_ok();
        let refused = |what: &str, way_out: &str| {
            let place = if is_literal { "it is ".to_owned() } else { format!("{} is ", to.ip()) };
            Err(Trouble::Lasting(format!("request to `{host}` blocked: {place}{what}; {way_out}")))
        };
        // On this machine it may listen at more addresses than its own name stands for.
        let mut is_database_here = false;
        for address in database {
            is_database_here |= is_own(*address)?;
        }
        let has_open_listener =
            self.listeners.iter().any(|at| at.port() == to.port() && at.ip().is_unspecified());
        for form in forms(to.ip()) {
            let is_own = (has_open_listener || is_database_here) && is_own(form)?;
            let listens = |at: &&SocketAddr| {
                let is_there = at.ip() == form || at.ip().is_unspecified() && is_own;
                at.port() == to.port() && is_there
            };
            if self.listeners.iter().any(|at| listens(&at)) {
                return refused(
                    "the address of this punctual server",
                    "jobs cannot send requests to the server that runs them",
                );
            }
            if database.contains(&form) || is_database_here && is_own {
                return refused(
                    "the address of the database",
                    "jobs cannot send requests to the database",
                );
            }
            let standing = match standing(form) {
                Standing::Public if is_of_interface(form)? => {
                    Standing::Private("an address of this machine")
                }
                standing => standing,
            };
            match standing {
                Standing::Public => {}
                Standing::Never(what) => {
                    return refused(what, "no setting allows this; use another host");
                }
                Standing::Private(_)
                    if self.allow.has_address(form) || self.allow.has_host(host) => {}
                Standing::Private(what) => {
                    let way_out = format!(
                        "to allow it, add `{}` to `http.allow` in the workers' configuration",
                        if is_literal { form.to_string() } else { host.to_owned() }
                    );
                    return refused(what, &way_out);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_what_its_range_is() {
        let is = |text: &str| standing(text.parse().expect("an address"));
        for public in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "198.20.0.1"] {
            assert_eq!(is(public), Standing::Public, "{public}");
        }
        for private in ["10.0.0.1", "127.9.9.9", "192.168.1.1", "224.0.0.1", "255.255.255.255"] {
            assert!(matches!(is(private), Standing::Private(_)), "{private}");
        }
        for private in ["::1", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1", "100::1", "5f00::1"]
        {
            assert!(matches!(is(private), Standing::Private(_)), "{private}");
        }
        for never in ["0.0.0.0", "169.254.169.254", "::", "fe80::1", "fd00:ec2::254"] {
            assert!(matches!(is(never), Standing::Never(_)), "{never}");
        }
    }

    #[test]
    fn every_network_of_the_tables_is_one() {
        for (net, _) in NEVER.iter().chain(&PRIVATE) {
            let parsed = Net::parse(net).unwrap_or_else(|| panic!("{net}"));
            assert!(parsed.contains(parsed.address), "{net}");
        }
        let all = Net::parse("0.0.0.0/0").expect("a network");
        assert!(all.contains([255, 1, 2, 3].into()) && !all.contains(Ipv6Addr::LOCALHOST.into()));
    }

    #[test]
    fn what_may_be_allowed_is_a_network_an_address_or_a_host() {
        let parse = |text: &str| Allow::parse(&[text.to_owned()]);
        assert!(parse("10.1.0.0/16").expect("a network").has_address([10, 1, 2, 3].into()));
        assert!(!parse("10.1.0.0/16").expect("a network").has_address([10, 2, 2, 3].into()));
        assert!(parse("Intra.Example").expect("a host").has_host("intra.example."));
        let wrong = |text: &str| parse(text).expect_err("it is none");
        insta::assert_snapshot!(wrong("10.1.0.0/33"), @"http.allow: `10.1.0.0/33` is not a valid network; use a network such as 10.1.0.0/16, an IP address, or a host name such as intra.example");
        insta::assert_snapshot!(wrong("0x7f.1"), @"http.allow: `0x7f.1` is an IP address in an unsupported notation; use a network such as 10.1.0.0/16, an IP address, or a host name such as intra.example");
        insta::assert_snapshot!(wrong("a b"), @"http.allow: `a b` is not a valid host name; use a network such as 10.1.0.0/16, an IP address, or a host name such as intra.example");
    }
}
