//! Making connections: checked before they are used, so that nothing is written to the wrong server.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::hash;
use punctual_store::{ErrorKind, Exposure, Result, StoreError};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connection::{Conn, IDLE_MS, LOCK_MS, STATEMENT_MS};
use crate::disk::Disk;
use crate::driver::Driver;
use crate::error::{Fault, standby};
use crate::history::Watch;
use crate::options::Options;
use crate::settings::read_settings;
use crate::sql::{self, Texts};
use crate::tls_policy::TlsPolicy;
use crate::{password, rows, tls};

/// The oldest server that will do: the oldest that every test runs on. `xtask` looks for no older one.
const SERVER_OLDEST: i32 = 15;
/// How long a host may take to answer at all, before the next one of the url is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long all that is said until a connection can be used may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// What every connection of a store is made from.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Config,
    tls: MakeRustlsConnect,
    policy: Arc<TlsPolicy>,
    /// Read for each connection, so that the password can be changed without a restart.
    password_file: Option<PathBuf>,
    texts: Arc<Texts>,
    is_pooled: bool,
    /// The server as people know it, without user and password.
    server: String,
    pub(crate) history: Arc<Watch>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) driver: Arc<Driver>,
}

/// A stream of what the server says by itself.
pub(crate) type Listening =
    Connection<Socket, <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream>;

impl Connector {
    pub(crate) fn new(url: &str, options: &Options, driver: Arc<Driver>) -> Result<Connector> {
        let (mut config, policy) = read_settings(url, options)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("punctual");
        }
        // A connection whose other end is gone is found out in seconds.
        config.keepalives(true);
        config.keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(3));
        config.keepalives_retries(3);
        config.tcp_user_timeout(Duration::from_secs(5));
        if !options.is_pooled {
            let own = config.get_options().unwrap_or_default();
            config.options(format!("{own} {}", session_settings()));
        }
        let server = shown(&config);
        Ok(Connector {
            tls: tls::connector(&policy)?,
            policy: Arc::new(policy),
            password_file: options.password_file.clone(),
            texts: Arc::new(Texts::new(&options.schema)),
            is_pooled: options.is_pooled,
            history: Arc::new(Watch::new()),
            disk: Arc::new(Disk::new(&server)),
            driver,
            config,
            server,
        })
    }

    /// The same for statements for which one plan will do, whatever is asked for. It is made once: to make
    /// that of a claim takes half as long as to run it. Behind a pooler nothing is kept.
    pub(crate) fn with_fixed_plans(&self) -> Connector {
        let mut connector = self.clone();
        if !self.is_pooled {
            let settings = self.config.get_options().unwrap_or_default();
            connector.config.options(format!("{settings} -c plan_cache_mode=force_generic_plan"));
        }
        connector
    }

    /// The statements for its schema.
    pub(crate) fn texts(&self) -> &Arc<Texts> {
        &self.texts
    }

    /// The server as people know it.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Reports a host on another machine whose certificate is not verified.
    pub(crate) fn exposure(&self) -> Option<Exposure> {
        self.policy.exposure()
    }

    /// Does the url lead to a pooler?
    pub(crate) fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// A connection to a server that may be written to. It is made, and lives, on the store's own
    /// threads, whoever asks for it.
    pub(crate) async fn connect(self: &Arc<Connector>) -> Result<Conn> {
        let connector = self.clone();
        let connected =
            self.driver.spawn(async move { connector.in_time(connector.try_connect()).await });
        connected.await.unwrap_or_else(|_| {
            let message = format!("the store on {} is closed; reopen it", self.server);
            Err(StoreError::new(ErrorKind::Unreachable, message))
        })
    }

    /// Waits for a connection, but not for ever: a host may take it and then say nothing.
    async fn in_time<T>(&self, made: impl Future<Output = Result<T>>) -> Result<T> {
        let one = *self.config.get_connect_timeout().unwrap_or(&CONNECT_TIMEOUT);
        let hosts = u32::try_from(self.config.get_hosts().len()).unwrap_or(1);
        let patience = one * hosts + HANDSHAKE_TIMEOUT;
        match tokio::time::timeout(patience, made).await {
            Ok(made) => made,
            Err(_) => Err(Fault::Silence(patience).tell(&self.server)),
        }
    }

    async fn try_connect(&self) -> Result<Conn> {
        let (client, connection) = self.make().await?;
        let driven = tokio::spawn(async move {
            // Whoever uses the connection is told of its end by the error of a statement.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "PostgreSQL connection closed");
            }
        });
        let mut conn = Conn::new(client, driven.abort_handle(), self);
        self.check(&mut conn).await.map_err(|fault| fault.tell(&self.server))?;
        Ok(conn)
    }

    /// A connection whose messages the caller reads.
    pub(crate) async fn open(&self) -> Result<(Client, Listening)> {
        self.in_time(self.make()).await
    }

    async fn make(&self) -> Result<(Client, Listening)> {
        let mut config = self.config.clone();
        if let Some(file) = &self.password_file {
            // A file that is being replaced is there again soon.
            let away =
                |error: StoreError| StoreError::new(ErrorKind::Unreachable, error.to_string());
            config.password(password::read(file).map_err(away)?);
        }
        let connected = config.connect(self.tls.clone()).await;
        connected.map_err(|error| Fault::from(error).tell(&self.server))
    }

    async fn check(&self, conn: &mut Conn) -> std::result::Result<(), Fault> {
        let row = conn.query_one(&sql::IDENTITY, &[]).await?;
        let version: String = rows::get(&row, 1)?;
        judge(&self.server, rows::get(&row, 0)?, &version, rows::get(&row, 2)?)?;
        let timeline: Option<String> = rows::get(&row, 4)?;
        let timeline = timeline.as_deref().unwrap_or_default();
        self.history.saw(rows::get(&row, 3)?, timeline, rows::instant(&row, 5)?);
        Ok(())
    }
}

/// May a server of this version be written to?
fn judge(server: &str, number: i32, version: &str, is_standby: bool) -> Result<()> {
    if number / 10_000 < SERVER_OLDEST {
        let message = format!(
            "{server} is version {version}, the oldest supported version is {SERVER_OLDEST}; \
             upgrade the server, or use another one"
        );
        return Err(StoreError::new(ErrorKind::Denied, message));
    }
    if is_standby { Err(standby(server)) } else { Ok(()) }
}

/// A plan that was made while a table was empty would read the whole of it later; no statement of
/// ours wants that. Compiling plans costs more than running ours, and a table that must be read
/// whole looks dear enough to be compiled.
fn session_settings() -> String {
    format!(
        "-c statement_timeout={STATEMENT_MS} -c lock_timeout={LOCK_MS} \
         -c idle_in_transaction_session_timeout={IDLE_MS} -c enable_seqscan=off -c jit=off"
    )
}

/// Host, port and database of a url.
fn shown(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => String::new(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5_432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("PostgreSQL at {host}:{port}/{database}")
}

/// Waits a little, but not as long as somebody else who began at the same time.
pub(crate) async fn pause(longest: Duration, seed: u64) {
    let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX).max(1);
    let share = hash::draw(u64::from(std::process::id()), seed) % micros;
    sleep(Duration::from_micros(micros / 2 + share / 2)).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "the simulator does not run this store, so its waits may use real time"
)]
pub(crate) async fn sleep(length: Duration) {
    tokio::time::sleep(length).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_or_a_standby_is_refused() {
        let told = |number, version, is_standby| {
            let error = judge("PostgreSQL at db:5432/app", number, version, is_standby);
            let error = error.expect_err("it is refused");
            format!("{:?}: {error}", error.kind())
        };
        insta::assert_snapshot!(told(140_018, "14.18", false), @"Denied: PostgreSQL at db:5432/app is version 14.18, the oldest supported version is 15; upgrade the server, or use another one");
        insta::assert_snapshot!(told(150_004, "15.4", true), @"Unreachable: PostgreSQL at db:5432/app is a read-only standby; use the URL of the primary, or wait until the standby is promoted");
        assert_eq!(judge("", 150_000, "15.0", false), Ok(()));
    }
}
