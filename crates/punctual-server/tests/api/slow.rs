//! A database that takes too long, and what pages say then.

use axum::http::StatusCode;
use punctual::{Order, Punctual};
use punctual_server::Server;
use serde_json::json;
use tokio::task::JoinSet;

use crate::dashboard::get;
use crate::{Echo, echo};

/// Lists that are read at the same time.
const LISTS_MAX: usize = 32;
/// Jobs enqueued at once.
const BATCH: usize = 1_000;

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

#[tokio::test]
async fn queue_statistics_need_no_table_of_jobs_during_a_backlog() {
    let url = std::env::var("PUNCTUAL_TEST_POSTGRES");
    let url = url.expect("`cargo xtask test` says where PostgreSQL is");
    let schema = format!("backlog_{}", std::process::id());
    let (client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the server answers");
    drop(tokio::spawn(connection));
    let punctual = Punctual::postgres(&url).schema(&schema).producer().await.unwrap();
    let punctual = punctual.start().await.unwrap();
    let jobs = 2 * BATCH + 1;
    for batch in [BATCH, BATCH, 1] {
        punctual.enqueue_many((0..batch).map(|_| Order::from(&Echo(json!(1))))).await.unwrap();
    }
    // A node that runs none of them counts them when its term begins.
    let node = Punctual::postgres(&url).schema(&schema).await.unwrap().never_works();
    let node = node.start().await.unwrap();
    while node.admin().queue_stats(None, 1).await.unwrap().counted_at.is_none() {
        tokio::task::yield_now().await;
    }
    node.stop().await;
    let router = Server::new(punctual.clone()).router();
    // Every page with counts shows their age.
    for path in ["/", "/jobs", "/queues/default"] {
        let page = get(&router, path).await;
        assert!(page.text.contains("Jobs counted "), "{path}: {}", page.text);
    }
    // Every statement that reads ready jobs takes longer than a statement may take.
    let slow = format!(
        "ALTER TABLE {schema}.job_ready RENAME TO job_ready_kept;
         CREATE VIEW {schema}.job_ready AS
         SELECT job_ready_kept.* FROM {schema}.job_ready_kept, pg_sleep(5)"
    );
    client.batch_execute(&slow).await.unwrap();
    let (queues, page, metrics) = tokio::join!(
        get(&router, "/api/v1/queues"),
        get(&router, "/queues"),
        get(&router, "/metrics")
    );
    assert_eq!(queues.status, StatusCode::OK, "{}", queues.text);
    assert!(queues.text.contains(&format!("\"ready\":{jobs}")), "{}", queues.text);
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(page.text.contains("Jobs counted "), "{}", page.text);
    let depth =
        format!("punctual_queue_depth{{queue=\"default\",kind=\"echo\",state=\"ready\"}} {jobs}\n");
    assert!(metrics.text.contains(&depth), "{}", metrics.text);
    assert!(metrics.text.contains("punctual_queue_counted_seconds "), "{}", metrics.text);
    assert!(metrics.text.contains("punctual_metrics_errors_total 0\n"), "{}", metrics.text);

    // Without stored counts the gauges are missing, and a counter says so.
    client.batch_execute(&format!("DELETE FROM {schema}.queue_count")).await.unwrap();
    let metrics = get(&router, "/metrics").await;
    assert!(!metrics.text.contains("punctual_queue_depth{"), "{}", metrics.text);
    assert!(metrics.text.contains("punctual_metrics_errors_total 1\n"), "{}", metrics.text);
    punctual.stop().await;
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}

/// More lists than the database reads at once: those beyond the bound are refused, and the client learns
/// when to try again. Job counts are not lists.
#[tokio::test]
async fn a_refused_list_says_when_to_try_again() {
    let url = std::env::var("PUNCTUAL_TEST_POSTGRES");
    let url = url.expect("`cargo xtask test` says where PostgreSQL is");
    let schema = format!("refused_{}", std::process::id());
    let (mut client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the server answers");
    drop(tokio::spawn(connection));
    let punctual = Punctual::postgres(&url).schema(&schema).producer().await.unwrap();
    let punctual = punctual.start().await.unwrap();
    let router = Server::new(punctual.clone()).router();
    // A list waits for this lock until its statement times out.
    let locked = client.transaction().await.unwrap();
    locked.batch_execute(&format!("LOCK TABLE {schema}.job")).await.unwrap();
    let mut lists = JoinSet::new();
    for _ in 0..=LISTS_MAX {
        let router = router.clone();
        lists.spawn(async move { get(&router, "/api/v1/jobs").await });
    }
    // The others wait.
    let refused = lists.join_next().await.unwrap().unwrap();
    assert!(refused.text.contains("lists are being read at the same time"), "{}", refused.text);
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{}", refused.text);
    assert_eq!(refused.headers["retry-after"], "1");
    let metrics = get(&router, "/metrics").await;
    assert!(metrics.text.contains("punctual_metrics_errors_total 0\n"), "{}", metrics.text);
    assert!(metrics.text.contains("punctual_queue_counted_seconds 0\n"), "{}", metrics.text);
    lists.shutdown().await;
    locked.rollback().await.unwrap();
    punctual.stop().await;
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}
