//! A connection of a proof's own, straight to the server, and the end of others.

use tokio_postgres::{Client, Error, NoTls};

pub(crate) async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Ends up to this many other connections at the server; which ones follows from the salt.
pub(crate) async fn end_some(client: &Client, most: i64, salt: i32) -> Result<u64, Error> {
    let text = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() \
                ORDER BY hashint4(pid # $1) LIMIT $2";
    Ok(client.query(text, &[&salt, &most]).await?.len() as u64)
}
