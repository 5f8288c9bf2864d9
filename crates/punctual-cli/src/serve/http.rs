//! Jobs of kind `http`: what they may call from this process, and what they never may.

use std::net::SocketAddr;

use punctual::Punctual;
use punctual::tokio_postgres::Config as Postgres;
use punctual::tokio_postgres::config::Host;
use punctual_http::{Config, Http};
use punctual_secrets::Secrets;

use super::settings::Settings;
use crate::exit::Failure;

/// What `punctual dev` allows beyond the public internet: whoever tries punctual has the receiver on
/// the same machine.
const DEV: [&str; 2] = ["127.0.0.0/8", "::1"];

/// The handler, for a process that listens there.
pub(super) fn handler(
    settings: &Settings,
    secrets: &Secrets,
    listens_at: Option<SocketAddr>,
    is_dev: bool,
) -> Result<Http, Failure> {
    let mut allow = settings.http.allow.clone();
    if is_dev {
        allow.extend(DEV.map(str::to_owned));
    }
    let config = Config {
        allow,
        ca_file: settings.http.ca_file.clone(),
        listeners: vec![listens_at.map_or_else(|| settings.listen(), Ok)?],
        database: database(&settings.database.url)?,
        secrets: secrets.clone(),
        resolver: None,
    };
    Http::new(config).map_err(Failure::usage)
}

/// What the URL of a database says, if it is one of PostgreSQL. It is read as connections read it, so
/// that what is guarded and masked is what is used.
pub(super) fn postgres(url: &str) -> Result<Option<Postgres>, Failure> {
    if !url.starts_with("postgres") {
        return Ok(None);
    }
    Ok(Some(Punctual::postgres(url).driver_config()?))
}

/// Where the database listens, if it does.
fn database(url: &str) -> Result<Vec<(String, u16)>, Failure> {
    let Some(config) = postgres(url)? else { return Ok(Vec::new()) };
    let names = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => Some(name.clone()),
        // What is reached by a file cannot be called.
        Host::Unix(_) => None,
    });
    let addresses = config.get_hostaddrs().iter().map(|address| Some(address.to_string()));
    let port = |index: usize| {
        let ports = config.get_ports();
        ports.get(index).or(ports.first()).copied().unwrap_or(5432)
    };
    let of = |(index, host): (usize, Option<String>)| Some((host?, port(index)));
    Ok(names.enumerate().chain(addresses.enumerate()).filter_map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_of_the_database_is_known() {
        let all = |url: &str| database(url).map_err(|_| ()).expect("a url");
        let one = |host: &str, port: u16| (host.to_owned(), port);
        assert_eq!(all("sqlite://x.db"), []);
        assert_eq!(all("postgres://a:b@db/x?sslmode=verify-full"), [one("db", 5432)]);
        assert_eq!(
            all("postgres://db1:1,db2:2/x?connect_timeout=3"),
            [one("db1", 1), one("db2", 2)]
        );
        assert_eq!(all("postgres:///x?host=/run/postgresql"), []);
        // A password can contain a `?`, and a key can be encoded.
        let url = "postgres://app:p?w@db:6432/x?ssl%6Dode=verify-full&sslrootcert=/ca.pem";
        assert_eq!(all(url), [one("db", 6432)]);
    }
}
