//! Reads a database URL and the options for it: all that is known before a server is contacted.

use punctual_store::{Result, StoreError};
use tokio_postgres::Config;

use crate::options::Options;
use crate::tls_policy::TlsPolicy;
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

/// Reads a URL: what the driver needs, with the TLS mode that the policy decides.
pub(crate) fn read_settings(url: &str, options: &Options) -> Result<(Config, TlsPolicy)> {
    options.check()?;
    let (url, tls_settings) = url::split(url)?;
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        StoreError::invalid(format!(
            "invalid database URL ({}); use a URL such as \
             postgres://user:password@host:5432/database",
            cause.unwrap_or_else(|| error.to_string())
        ))
    })?;
    if config.get_hosts().is_empty() {
        return Err(StoreError::invalid(
            "the database URL has no host; use a URL such as \
             postgres://user:password@host:5432/database",
        ));
    }
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
