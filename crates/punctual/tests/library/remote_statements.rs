//! The statements that remote workers cost PostgreSQL, counted on the way to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punctual::remote::{End, Failed, Leased, Remote, Wish};
use punctual::testing::Frozen;
use punctual::{Definition, JobState, Order, Overlap, Punctual, tokio_postgres};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A connection to the server that counts statements.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

/// Messages of a client: a letter, the length in four bytes, and the content. The first has no letter.
#[derive(Default)]
struct Messages {
    has_begun: bool,
    rest: Vec<u8>,
}

impl Messages {
    /// Takes bytes; how many statements they execute.
    fn statements(&mut self, bytes: &[u8]) -> usize {
        self.rest.extend_from_slice(bytes);
        let mut executed = 0;
        loop {
            let letter_bytes = usize::from(self.has_begun);
            let Some(length) = self.rest.get(letter_bytes..letter_bytes + 4) else { break };
            let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            let end = letter_bytes + length;
            if self.rest.len() < end {
                break;
            }
            let message: Vec<u8> = self.rest.drain(..end).collect();
            executed += usize::from(self.has_begun && message[0] == b'E');
            self.has_begun = true;
        }
        executed
    }
}

impl Counter {
    /// Starts to listen; the URL of the server through this.
    async fn start(&self, url: &str) -> String {
        let (user, rest) = url.split_once('@').unwrap();
        let (server, database) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (counter, server) = (self.clone(), server.to_owned());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(counter.clone().forward(client, server.clone()));
            }
        });
        let separator = if database.contains('?') { '&' } else { '?' };
        format!("{user}@127.0.0.1:{port}/{database}{separator}sslmode=disable")
    }

    async fn forward(self, client: TcpStream, server: String) {
        let server = TcpStream::connect(server).await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        tokio::spawn(async move {
            // The end of a connection is no failure of a test.
            let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
        });
        let (mut messages, mut bytes) = (Messages::default(), vec![0; 65_536]);
        while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
            self.0.fetch_add(messages.statements(&bytes[..count]), Ordering::AcqRel);
            if to_server.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    }

    fn take(&self) -> usize {
        self.0.swap(0, Ordering::AcqRel)
    }
}

fn worker(remote: &Remote, most: usize) -> Wish {
    Wish {
        node: remote.mint(),
        name: "worker".to_owned(),
        version: String::new(),
        queues: vec!["default".to_owned()],
        kinds: vec!["paint".to_owned()],
        most,
        wait: Duration::ZERO,
        holds: Vec::new(),
    }
}

async fn complete(remote: &Remote, leases: &[Leased]) {
    for leased in leases {
        assert_eq!(remote.complete(&leased.held, None).await.unwrap(), JobState::Succeeded);
    }
}

async fn enqueue(frozen: &Frozen, count: usize) {
    for _ in 0..count {
        frozen.enqueue(Order::of_kind("paint", &"red")).await.unwrap();
    }
}

#[tokio::test]
async fn a_result_costs_the_same_statements_however_many_leases_its_worker_has() {
    let url = std::env::var("PUNCTUAL_TEST_POSTGRES").expect("set by `cargo xtask test`");
    let schema = format!("remote_statements_{}", std::process::id());
    let counter = Counter::default();
    let through = counter.start(&url).await;
    let builder = Punctual::postgres(&through).schema(&schema).await.unwrap();
    let frozen = builder.start_frozen().await.unwrap();
    enqueue(&frozen, 124).await;

    // The first use of a connection is not counted.
    let remote = frozen.remote();
    let claims = remote.claim(&worker(&remote, 1)).await.unwrap();
    complete(&remote, &claims.leases).await;
    counter.take();

    // Workers with one lease.
    let mut with_one = 0;
    for _ in 0..20 {
        let claims = remote.claim(&worker(&remote, 1)).await.unwrap();
        counter.take();
        complete(&remote, &claims.leases).await;
        with_one += counter.take();
    }
    assert_eq!(with_one, 20);

    // A worker with many, together with their claim.
    let claims = remote.claim(&worker(&remote, 60)).await.unwrap();
    assert_eq!(claims.leases.len(), 60);
    let claim = counter.take();
    assert!(claim <= 5, "{claim} statements of a claim");
    complete(&remote, &claims.leases[..20]).await;
    assert_eq!(counter.take(), 20);
    complete(&remote, &claims.leases[20..]).await;
    assert_eq!(counter.take(), 40);

    // A result that arrives at another process.
    let claims = remote.claim(&worker(&remote, 43)).await.unwrap();
    assert_eq!(claims.leases.len(), 43);
    let other = frozen.remote();
    complete(&other, &claims.leases[..1]).await;
    counter.take();
    complete(&other, &claims.leases[1..]).await;
    let elsewhere = counter.take();
    assert!(elsewhere <= 3 * 42, "{elsewhere} statements for 42 results");

    // Many results in one request, of leases that this process has no copy of.
    enqueue(&frozen, 42).await;
    let claims = remote.claim(&worker(&remote, 42)).await.unwrap();
    assert_eq!(claims.leases.len(), 42);
    counter.take();
    let ends = claims.leases.iter().map(|leased| (leased.held, End::Completed(None))).collect();
    for state in other.settle(ends).await {
        assert_eq!(state.unwrap(), JobState::Succeeded);
    }
    let together = counter.take();
    assert!(together <= 3 * 42, "{together} statements for 42 results in one request");

    // Failures of a schedule's jobs, whose backoff is read from the schedule.
    let admin = frozen.admin();
    let definition =
        Definition { overlap: Overlap::Allow, ..Definition::new("0 2 * * *", "paint") };
    admin.create_schedule("walls", &definition).await.unwrap();
    for _ in 0..42 {
        admin.run_now("walls").await.unwrap();
    }
    let claims = remote.claim(&worker(&remote, 42)).await.unwrap();
    assert_eq!(claims.leases.len(), 42);
    counter.take();
    let failed = Failed { error: "no colour".to_owned(), retry: true, retry_after: None };
    for leased in &claims.leases {
        let state = other.fail(&leased.held, failed.clone()).await.unwrap();
        assert_eq!(state, JobState::Retrying);
    }
    let failures = counter.take();
    // And those that read the schedule, whose backoff is kept for a second.
    assert!(failures <= 3 * 42 + 10, "{failures} statements for 42 failures");

    drop((remote, other, frozen));
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}

/// Each row of a settlement takes 60 ms, so that 42 of them exceed the statement timeout of two seconds.
#[tokio::test]
async fn results_that_exceed_the_statement_timeout_together_are_settled_in_parts() {
    let url = std::env::var("PUNCTUAL_TEST_POSTGRES").expect("set by `cargo xtask test`");
    let schema = format!("remote_timeouts_{}", std::process::id());
    let builder = Punctual::postgres(&url).schema(&schema).await.unwrap();
    let frozen = builder.start_frozen().await.unwrap();
    enqueue(&frozen, 42).await;
    let remote = frozen.remote();
    let claims = remote.claim(&worker(&remote, 42)).await.unwrap();
    assert_eq!(claims.leases.len(), 42);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let slow = format!(
        "CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN PERFORM pg_sleep(0.06); RETURN OLD; END $$;
         CREATE TRIGGER slow BEFORE DELETE ON {schema}.job_lease
         FOR EACH ROW EXECUTE FUNCTION {schema}.wait()"
    );
    client.batch_execute(&slow).await.unwrap();
    let ends = claims.leases.iter().map(|leased| (leased.held, End::Completed(None))).collect();
    for state in remote.settle(ends).await {
        assert_eq!(state.unwrap(), JobState::Succeeded);
    }
    drop((remote, frozen));
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}
