//! Decides how connections to the hosts of a URL are encrypted and which server they accept.
//!
//! TLS is never given up because a server, or an attacker on the way to it, does not offer it: that
//! happens only with `prefer`, which is the default on this machine and must be allowed elsewhere.

use std::net::IpAddr;

use punctual_store::{ErrorKind, Exposure, Result, StoreError};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::url::{RootSource, SslMode, TlsSettings};

/// How connections are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsPolicy {
    pub(crate) mode: SslMode,
    /// Only with `VerifyFull`.
    pub(crate) roots: RootSource,
    /// The first host on another machine whose certificate is not verified.
    pub(crate) unverified_host: Option<String>,
}

/// How a host is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// A Unix socket. PostgreSQL has no TLS on it.
    Socket,
    /// This machine.
    Loopback,
    /// Another machine, with its name.
    Remote(String),
}

/// The endpoints of a URL, one per host. The address counts if a host has one, since that is what
/// the driver connects to.
pub(crate) fn endpoints(config: &Config) -> Vec<Endpoint> {
    let addresses = config.get_hostaddrs();
    let of = |(index, host): (usize, &Host)| match (addresses.get(index), host) {
        (Some(address), Host::Tcp(name)) => endpoint(is_loopback(*address), name),
        (Some(address), _) => endpoint(is_loopback(*address), &address.to_string()),
        (None, Host::Tcp(name)) => endpoint(is_loopback_name(name), name),
        #[cfg(unix)]
        (None, Host::Unix(_)) => Endpoint::Socket,
    };
    config.get_hosts().iter().enumerate().map(of).collect()
}

fn endpoint(is_loopback: bool, name: &str) -> Endpoint {
    if is_loopback { Endpoint::Loopback } else { Endpoint::Remote(name.to_owned()) }
}

/// Other names can lead to another machine, whatever they resolve to at the moment.
fn is_loopback_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_loopback)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Decides for all hosts of a URL: what the strictest of them needs applies to each.
///
/// # Errors
///
/// Returns `Denied` if a host on another machine would not be verified, unless `allow_insecure`, and
/// `Invalid` for settings that contradict each other.
pub(crate) fn decide(
    settings: &TlsSettings,
    endpoints: &[Endpoint],
    allow_insecure: bool,
) -> Result<TlsPolicy> {
    let remote = endpoints.iter().find_map(|endpoint| match endpoint {
        Endpoint::Remote(name) => Some(name.clone()),
        Endpoint::Socket | Endpoint::Loopback => None,
    });
    let default = if remote.is_some() { SslMode::VerifyFull } else { SslMode::Prefer };
    let mode = match (settings.mode, &settings.roots) {
        (Some(mode @ (SslMode::Disable | SslMode::Prefer)), Some(_)) => {
            return Err(StoreError::invalid(format!(
                "invalid database URL: `sslrootcert` contradicts `sslmode={}`, which does not \
                 verify certificates; remove one of them",
                mode.as_str()
            )));
        }
        (_, Some(_)) => SslMode::VerifyFull,
        (mode, None) => mode.unwrap_or(default),
    };
    let sockets = endpoints.iter().filter(|endpoint| **endpoint == Endpoint::Socket).count();
    if sockets > 0 && mode >= SslMode::Require {
        return Err(StoreError::invalid(match sockets == endpoints.len() {
            true => {
                "invalid database URL: PostgreSQL does not support TLS on a Unix socket; remove \
                     `sslmode` and `sslrootcert`, or use a host name"
            }
            false => {
                "invalid database URL: it combines a Unix socket, which does not support TLS, \
                      with hosts that require TLS; use either the socket or the hosts"
            }
        }));
    }
    let unverified_host = remote.filter(|_| mode < SslMode::VerifyFull);
    if let Some(host) = unverified_host.as_ref().filter(|_| !allow_insecure) {
        return Err(refusal(mode, host));
    }
    // The driver would ask for TLS first, on each connection.
    let mode = if sockets == endpoints.len() && sockets > 0 { SslMode::Disable } else { mode };
    let roots = settings.roots.clone().unwrap_or(RootSource::System);
    Ok(TlsPolicy { mode, roots, unverified_host })
}

impl TlsPolicy {
    /// Reports a host on another machine whose certificate is not verified.
    pub(crate) fn exposure(&self) -> Option<Exposure> {
        let (host, mode) = (self.unverified_host.as_deref()?, self.mode.as_str());
        Some(Exposure {
            code: "database_unverified",
            text: format!(
                "connections to the database server `{host}` use `sslmode={mode}`, which does not \
                 verify the server: another machine could read the password and the data"
            ),
            remedy: "use `sslmode=verify-full`, with `sslrootcert=FILE` for a private certificate \
                     authority, and remove `database.allow_insecure`"
                .to_owned(),
        })
    }
}

fn refusal(mode: SslMode, host: &str) -> StoreError {
    let message = format!(
        "refusing to connect to `{host}` with `sslmode={}`, which does not verify the server: \
         another machine could read the password and the data; use `sslmode=verify-full` (with \
         `sslrootcert=FILE` for a private certificate authority), or accept the risk with \
         `database.allow_insecure = true` (in Rust: `allow_insecure(true)`)",
        mode.as_str()
    );
    StoreError::new(ErrorKind::Denied, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url;

    fn policy(url: &str, allow_insecure: bool) -> Result<TlsPolicy> {
        let (rest, settings) = url::split(url)?;
        let config: Config = rest.parse().expect("a url that the driver reads");
        decide(&settings, &endpoints(&config), allow_insecure)
    }

    fn mode(url: &str) -> SslMode {
        policy(url, false).unwrap_or_else(|error| panic!("{url}: {error}")).mode
    }

    #[test]
    fn off_loopback_and_sockets_the_default_is_verify_full() {
        for url in [
            "postgres://db.example/app",
            "postgres://10.0.0.1/app",
            "postgres://[2001:db8::1]/app",
            "postgres://localhost.example/app",
            // Names that resolve to this machine today.
            "postgres://localhost./app",
            "postgres://127.1/app",
            "postgres://ip6-localhost/app",
            // One host decides for all.
            "postgres://localhost,db.example/app",
            // The address decides, not the name.
            "host=localhost hostaddr=10.0.0.1",
            "host=localhost,localhost hostaddr=127.0.0.1,10.0.0.1",
        ] {
            assert_eq!(mode(url), SslMode::VerifyFull, "{url}");
        }
    }

    #[test]
    fn on_loopback_the_default_is_prefer_and_on_a_socket_no_tls() {
        for url in [
            "postgres://localhost/app",
            "postgres://LOCALHOST/app",
            "postgres://127.0.0.1/app",
            "postgres://127.9.9.9:6432/app",
            "postgres://[::1]/app",
            "postgres://[::ffff:127.0.0.1]/app",
            "host=db.example hostaddr=127.0.0.1",
            "host=/run/postgresql,localhost",
        ] {
            assert_eq!(mode(url), SslMode::Prefer, "{url}");
        }
        assert_eq!(mode("postgres:///app?host=/run/postgresql"), SslMode::Disable);
    }

    #[test]
    fn sslrootcert_implies_verify_full_everywhere() {
        for url in [
            "postgres://localhost/app?sslrootcert=/ca.pem",
            "postgres://localhost/app?sslrootcert=system",
            "postgres://db.example/app?sslrootcert=/ca.pem&sslmode=require",
            "postgres://db.example/app?sslrootcert=/ca.pem&sslmode=verify-ca",
        ] {
            assert_eq!(mode(url), SslMode::VerifyFull, "{url}");
        }
    }

    #[test]
    fn a_weaker_mode_off_loopback_must_be_allowed() {
        for weak in ["disable", "prefer", "require"] {
            assert!(policy(&format!("postgres://localhost/app?sslmode={weak}"), false).is_ok());
            let url = format!("postgres://localhost,db.example/app?sslmode={weak}");
            let error = policy(&url, false).expect_err("it is refused");
            assert_eq!(error.kind(), ErrorKind::Denied);
            let allowed = policy(&url, true).expect("it is allowed");
            assert_eq!(allowed.mode.as_str(), weak);
            let exposure = allowed.exposure().expect("it is reported");
            assert!(exposure.text.contains("`db.example` use `sslmode="), "{}", exposure.text);
        }
        // What is allowed is not the default.
        let policy = policy("postgres://db.example/app", true).expect("it is fine");
        assert_eq!((policy.mode, policy.exposure()), (SslMode::VerifyFull, None));
    }

    #[test]
    fn a_refusal_names_the_host_and_the_remedy() {
        let refused = |url: &str| policy(url, false).expect_err("it is refused").to_string();
        insta::assert_snapshot!(refused("postgres://a:pw@db.example/app?sslmode=require"), @"refusing to connect to `db.example` with `sslmode=require`, which does not verify the server: another machine could read the password and the data; use `sslmode=verify-full` (with `sslrootcert=FILE` for a private certificate authority), or accept the risk with `database.allow_insecure = true` (in Rust: `allow_insecure(true)`)");
        insta::assert_snapshot!(refused("postgres://localhost/app?sslrootcert=system&sslmode=disable"), @"invalid database URL: `sslrootcert` contradicts `sslmode=disable`, which does not verify certificates; remove one of them");
        insta::assert_snapshot!(refused("host=/run/postgresql sslmode=verify-full"), @"invalid database URL: PostgreSQL does not support TLS on a Unix socket; remove `sslmode` and `sslrootcert`, or use a host name");
        insta::assert_snapshot!(refused("host=/run/postgresql,db.example"), @"invalid database URL: it combines a Unix socket, which does not support TLS, with hosts that require TLS; use either the socket or the hosts");
    }
}
