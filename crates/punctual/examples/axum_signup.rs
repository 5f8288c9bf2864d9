//! A sign-up handler that inserts the user and enqueues the welcome mail in one transaction: either
//! both are committed or neither. The program then shuts down without losing jobs. Run it:
//! `cargo run -p punctual --features sqlx --example axum_signup`.

#![expect(clippy::panic_in_result_fn, reason = "an example fails by panicking")]

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use punctual::sqlx::{self, SqlitePool, query, query_scalar};
use punctual::{Ctx, Job, Punctual};
use serde::{Deserialize, Serialize};
use tower::ServiceExt;

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "mail")]
struct Welcome {
    email: String,
}

async fn welcome(job: Welcome, cx: Ctx) {
    cx.log(&format!("welcome, {}", job.email));
    println!("welcome, {}", job.email);
}

#[derive(Clone)]
struct App {
    pool: SqlitePool,
    punctual: Punctual,
}

#[derive(Deserialize)]
struct SignUp {
    email: String,
}

async fn sign_up(
    State(app): State<App>,
    Json(form): Json<SignUp>,
) -> Result<StatusCode, StatusCode> {
    let conflict = |_: sqlx::Error| StatusCode::CONFLICT;
    let mut tx = app.pool.begin_with("BEGIN IMMEDIATE").await.map_err(conflict)?;
    // A second sign-up with the same address fails here, before the job is enqueued.
    let user = query("INSERT INTO user (email) VALUES (?1)").bind(&form.email);
    user.execute(&mut *tx).await.map_err(conflict)?;
    let enqueued = app.punctual.enqueue_in(&mut tx, &Welcome { email: form.email }).await;
    enqueued.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    tx.commit().await.map_err(conflict)?;
    Ok(StatusCode::CREATED)
}

#[tokio::main]
async fn main() -> Result<(), punctual::BoxError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("app.db");
    let punctual = Punctual::sqlite(&path).await?.handle(welcome).start().await?;
    let pool = SqlitePool::connect(&format!("sqlite://{}", path.display())).await?;
    query("CREATE TABLE user (email TEXT UNIQUE)").execute(&pool).await?;
    let app = App { pool: pool.clone(), punctual: punctual.clone() };
    let router = Router::new().route("/signup", post(sign_up)).with_state(app);

    // In an application:
    //   let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    //   axum::serve(listener, router).await?;
    // In this example, the same user signs up twice.
    for expected in [StatusCode::CREATED, StatusCode::CONFLICT] {
        let request = axum::http::Request::post("/signup")
            .header("content-type", "application/json")
            .body(axum::body::Body::from(r#"{"email":"ada@example.com"}"#))?;
        let response = router.clone().oneshot(request).await?;
        assert_eq!(response.status(), expected);
    }
    let users: i64 = query_scalar("SELECT count(*) FROM user").fetch_one(&pool).await?;
    let jobs = punctual.admin().jobs(&punctual::JobFilter::default(), None, 10).await?.items;
    assert_eq!((users, jobs.len()), (1, 1));
    punctual.wait(jobs[0].id).await?;
    punctual.stop().await;
    Ok(())
}
