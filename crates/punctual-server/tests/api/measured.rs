//! Metrics of the operations of the store.

use axum::body::Body;
use axum::http::Request;
use metrics_exporter_prometheus::PrometheusBuilder;
use punctual::{Definition, ErrorKind, Punctual};
use punctual_server::Server;

use crate::{World, echo};

const DAILY: &str = r#"{"when":["0 8 * * *"],"job":{"kind":"echo"}}"#;

#[tokio::test]
async fn operations_of_the_store_are_counted_by_operation_and_backend() {
    let recorder = PrometheusBuilder::new().install_recorder().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let builder = Punctual::sqlite(directory.path().join("app.db")).await.unwrap();
    let punctual = builder.handle(echo).start().await.unwrap();
    let server = Server { metrics: Some(recorder), ..Server::new(punctual.clone()) };
    let admin = punctual.admin();
    let world = World::with_router(punctual.clone(), server.router());

    let daily = Definition::parse(DAILY).unwrap();
    admin.create_schedule("daily", &daily).await.unwrap();
    let taken = admin.create_schedule("daily", &daily).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Conflict);

    let scrape = Request::get("/metrics").header("host", "localhost").body(Body::empty()).unwrap();
    let metrics = world.ask(scrape).await.body;
    let metrics = metrics.as_str().unwrap();
    let labels = r#"operation="create_schedule",backend="sqlite""#;
    for line in [
        format!("punctual_store_calls_total{{{labels}}} 2"),
        format!(r#"punctual_store_errors_total{{{labels},kind="conflict"}} 1"#),
        format!("punctual_store_rows_total{{{labels}}} 1"),
        format!("punctual_store_seconds_count{{{labels}}} 2"),
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
}
