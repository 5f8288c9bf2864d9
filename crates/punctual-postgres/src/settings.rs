//! Reads a database URL and the options for it: all that is known before a server is contacted.

use punctual_store::{Result, StoreError};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::options::Options;
use crate::tls_policy::TlsPolicy;
use crate::url::TlsSettings;
use crate::{password, tls, tls_policy, url};

/// Checks a URL and options without connecting.
///
/// # Errors
///
/// Returns the errors that [`PostgresStore::connect`](crate::PostgresStore::connect) would return
/// before it reaches the server.
pub fn check_settings(url: &str, options: &Options) -> Result<()> {
    for url in [Some(url), options.direct_url.as_deref()].into_iter().flatten() {
        let (_, policy) = read_settings(url, options)?;
        tls::connector(&policy)?;
    }
    Ok(())
}

/// Reads a URL as a store does, without the TLS settings: hosts, ports, user, password and the like.
/// Nothing is contacted and no file is read.
///
/// # Errors
///
/// Returns `Invalid` for a URL that [`PostgresStore::connect`](crate::PostgresStore::connect) cannot
/// read. No message contains a password or a part of one.
pub fn parse_url(url: &str) -> Result<Config> {
    Ok(parse(url)?.0)
}

fn parse(url: &str) -> Result<(Config, TlsSettings)> {
    if url::has_stray_at(url) {
        return Err(stray_at());
    }
    let (url, tls_settings) = url::split(url)?;
    let config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        StoreError::invalid(format!(
            "invalid database URL ({}); use a URL such as \
             postgres://user:password@host:5432/database",
            cause.unwrap_or_else(|| error.to_string())
        ))
    })?;
    let hosts = config.get_hosts();
    if hosts.is_empty() {
        return Err(StoreError::invalid(
            "the database URL has no host; use a URL such as \
             postgres://user:password@host:5432/database",
        ));
    }
    if hosts.iter().any(|host| matches!(host, Host::Tcp(name) if name.contains('@'))) {
        return Err(stray_at());
    }
    Ok((config, tls_settings))
}

/// The driver ends the password at the first `@`. The rest of it would be a part of the host, which
/// messages and DNS queries contain; therefore no part of the URL is repeated here.
fn stray_at() -> StoreError {
    StoreError::invalid(
        "invalid database URL: more than one `@` before the parameters, or an `@` in the host; write \
         `@` in the user name and in the password as `%40`",
    )
}

/// Reads a URL: what the driver needs, with the TLS mode that the policy decides.
pub(crate) fn read_settings(url: &str, options: &Options) -> Result<(Config, TlsPolicy)> {
    options.check()?;
    let (mut config, tls_settings) = parse(url)?;
    let endpoints = tls_policy::endpoints(&config);
    let policy = tls_policy::decide(&tls_settings, &endpoints, options.allow_insecure)?;
    config.ssl_mode(tls::driver_mode(policy.mode));
    if let Some(file) = &options.password_file {
        if config.get_password().is_some() {
            return Err(StoreError::invalid(format!(
                "the database URL contains a password, and the password file `{}` is set; use \
                 one of them",
                file.display()
            )));
        }
        // The first connection would find out later, after other work has begun.
        password::read(file)?;
    }
    Ok((config, policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_an_at_sign_in_the_password_is_refused_without_a_part_of_it() {
        for url in [
            "postgres://u:p@hunter2@h/d",
            "postgres://u:p@hunter,2@h/d",
            "postgres://u:p@hunter:2@h/d",
            "postgres://u:p@hunter/2@h/d",
            "postgres://u:p@hunter?2@h/d?sslmode=verify-full",
            "postgres://u:p@@hunter@h",
            "postgres://u:p@hunter%402/d",
            "host=u:p@hunter dbname=d",
        ] {
            let error = parse_url(url).expect_err(url).to_string();
            assert!(error.contains("as `%40`") && !error.contains("hunter"), "{url}: {error}");
        }
        for url in [
            "postgres://u%40x:p%40hunter2@h/d",
            "postgres://u:p%40@h/d?sslrootcert=/ca@home.pem&application_name=a@b",
            "postgres:///d?host=/run/postgresql",
            "host=h password=p@hunter2 user=u@x",
        ] {
            let config = parse_url(url).expect(url);
            assert_eq!(config.get_hosts().len(), 1, "{url}");
        }
    }
}
