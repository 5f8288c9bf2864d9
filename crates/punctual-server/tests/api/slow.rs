//! A database that takes too long, and what pages say then.

use axum::http::StatusCode;
use punctual::Punctual;
use punctual_server::Server;
use serde_json::json;

use crate::dashboard::get;
use crate::{Echo, echo};

#[tokio::test]
async fn a_list_that_takes_too_long_tells_how_to_narrow_it() {
    let url = std::env::var("PUNCTUAL_TEST_POSTGRES");
    let url = url.expect("`cargo xtask test` says where PostgreSQL is");
    let schema = format!("slow_{}", std::process::id());
    let (client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the server answers");
    drop(tokio::spawn(connection));
    let node = Punctual::postgres(&url).schema(&schema).await.unwrap().handle(echo);
    let node = node.start().await.unwrap();
    let id = node.enqueue(&Echo(json!(1))).await.unwrap().id;
    node.wait(id).await.unwrap();
    node.stop().await;
    let builder = Punctual::postgres(&url).schema(&schema).producer().await.unwrap();
    let punctual = builder.start().await.unwrap();
    // Whoever reads jobs waits for longer than a statement may take.
    let slow = format!(
        "ALTER TABLE {schema}.job RENAME TO job_kept;
         CREATE VIEW {schema}.job AS SELECT job_kept.* FROM {schema}.job_kept, pg_sleep(5)"
    );
    client.batch_execute(&slow).await.unwrap();
    let router = Server::new(punctual.clone()).router();
    let (jobs, timeline) =
        tokio::join!(get(&router, "/jobs?q=tag:eu"), get(&router, "/timeline?window=1h"));
    assert!(jobs.text.contains("statement timeout"), "{}", jobs.text);
    assert!(jobs.text.contains("or narrow the filter with queue:, kind:"), "{}", jobs.text);
    assert!(jobs.text.contains("name=\"q\" value=\"tag:eu\""), "{}", jobs.text);
    assert_eq!(timeline.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(timeline.text.contains("Choose a shorter time range"), "{}", timeline.text);
    punctual.stop().await;
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}
