//! Partitions of a PostgreSQL database.

use punctual::{Punctual, tokio_postgres};
use punctual_conformance::support::ThrowawaySchema;

use crate::deploying::server;

#[tokio::test]
async fn partitions_are_created_for_as_many_days_as_configured() {
    let (client, connection) =
        tokio_postgres::connect(&server(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let count = async |days: Option<u32>| {
        let name = format!("partitions_{}_{}", std::process::id(), days.unwrap_or(1_000));
        let schema = ThrowawaySchema(name);
        let open = Punctual::postgres(&server()).schema(&schema.0).producer();
        let open = match days {
            Some(days) => open.partition_days(days),
            None => open,
        };
        drop(open.await.unwrap());
        let statement =
            "SELECT count(*) FROM pg_inherits WHERE inhparent = ($1 || '.job')::regclass";
        let count: i64 = client.query_one(statement, &[&schema.0]).await.unwrap().get(0);
        count
    };
    // The default partition, today, and the days ahead.
    assert_eq!(count(Some(0)).await, 1);
    assert_eq!(count(Some(3)).await, 5);
    assert_eq!(count(None).await, 16);
}
