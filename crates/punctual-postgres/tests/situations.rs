//! Bad situations, and the sentence that each gives.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Fresh, Schema, connect, direct_url, options, schema};
use punctual_conformance::cluster::{Cluster, give};
use punctual_conformance::support::may_mount;
use punctual_core::{JobId, NodeId, Timestamp, hash};
use punctual_postgres::{Options, PostgresStore};
use punctual_store::{
    Actor, At, AuditEntry, BeatAsk, EnqueueAnswer, ErrorKind, Event, EventCursor, JobFilter, Json,
    NewJob, NodeInfo, Retention, Store, StoreError,
};
use tokio_postgres::NoTls;

/// Opens a store that cannot be opened, and tells why, with ports left out.
async fn refused(url: &str, options: Options) -> String {
    told(&PostgresStore::connect(url, options).await.expect_err("it is refused"))
}

fn told(error: &StoreError) -> String {
    let mut message = String::new();
    let mut rest = error.to_string();
    // The port is another in each run.
    while let Some(at) = rest.find("127.0.0.1:") {
        let (before, after) = rest.split_at(at + "127.0.0.1:".len());
        message.push_str(before);
        message.push_str("PORT");
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    }
    format!("{:?}: {message}{rest}", error.kind())
}

/// Runs a script as the superuser of a server.
async fn script(url: &str, text: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client.batch_execute(text).await.expect("the script runs");
}

#[tokio::test]
async fn a_url_that_makes_no_sense_is_explained() {
    insta::assert_snapshot!(refused("postgres://h:port/d", options("x")).await, @"Invalid: invalid database URL (invalid value for option `port`); use a URL such as postgres://user:password@host:5432/database");
    insta::assert_snapshot!(refused("mysql://h/d", options("x")).await, @"Invalid: invalid database URL (unexpected EOF); use a URL such as postgres://user:password@host:5432/database");
    insta::assert_snapshot!(refused("postgres://h/d?sslmode=sometimes", options("x")).await, @"Invalid: invalid database URL: unknown sslmode `sometimes`; use verify-full, require, prefer or disable");
    insta::assert_snapshot!(refused("postgres://h/d?sslrootcert=/nowhere/ca.pem", options("x")).await, @"Invalid: cannot load the certificates of `sslrootcert` from `/nowhere/ca.pem` (I/O error: No such file or directory (os error 2)); use a file in PEM format");
    insta::assert_snapshot!(refused("user=me", options("x")).await, @"Invalid: the database URL has no host; use a URL such as postgres://user:password@host:5432/database");
    insta::assert_snapshot!(refused("postgres://h/d", options("Jobs; DROP")).await, @"Invalid: invalid schema name `Jobs; DROP`; use lower-case letters, digits and `_`, do not start with a digit or with `pg_`");
    insta::assert_snapshot!(refused("postgres://h/d", options("pg_jobs")).await, @"Invalid: invalid schema name `pg_jobs`; use lower-case letters, digits and `_`, do not start with a digit or with `pg_`");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let url = format!("postgres://me:secret@127.0.0.1:{port}/app");
    let sentence = refused(&url, options("x")).await;
    assert!(!sentence.contains("secret"), "{sentence}");
    insta::assert_snapshot!(sentence, @"Unreachable: cannot connect to PostgreSQL at 127.0.0.1:PORT/app (Connection refused (os error 111)); check that it is running and accepts connections, and the host, port and TLS settings of the URL");
    // A server that has no TLS, though it is asked for.
    let url = format!("{}?sslmode=require", direct_url());
    insta::assert_snapshot!(refused(&url, options("x")).await, @"Unreachable: cannot connect to PostgreSQL at 127.0.0.1:PORT/postgres (server does not support TLS); check that it is running and accepts connections, and the host, port and TLS settings of the URL");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named() {
    let (place, _) =
        direct_url().rsplit_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    insta::assert_snapshot!(refused(&format!("{place}/none_of_ours"), options("x")).await, @r#"NotFound: database not found on PostgreSQL at 127.0.0.1:PORT/none_of_ours (database "none_of_ours" does not exist); create it, or correct the URL"#);
}

#[tokio::test]
async fn a_wrong_password_is_denied_and_not_repeated() {
    let cluster = Cluster::new(&["password_encryption = 'scram-sha-256'"], None);
    script(&cluster.url(), "CREATE ROLE app LOGIN PASSWORD 'right'").await;
    script(&cluster.url(), "CREATE DATABASE app OWNER app").await;
    let hba = "local all all trust\nhost all postgres all trust\nhost all all all scram-sha-256\n";
    fs::write(cluster.data.join("pg_hba.conf"), hba).unwrap();
    script(&cluster.url(), "SELECT pg_reload_conf()").await;
    let url = |password: &str| cluster.url_of(&format!("app:{password}"), "app");
    let store = PostgresStore::connect(&url("right"), options("x")).await.unwrap();
    assert_eq!(store.schema().await.unwrap().version, 1);
    insta::assert_snapshot!(refused(&url("wrong"), options("x")).await, @r#"Denied: PostgreSQL at 127.0.0.1:PORT/app rejected the login (password authentication failed for user "app"); check the user and password of the URL, and `pg_hba.conf`"#);
}

#[tokio::test]
async fn a_password_file_is_read_for_each_connection() {
    let cluster = Cluster::new(&["password_encryption = 'scram-sha-256'"], None);
    script(&cluster.url(), "CREATE ROLE app LOGIN PASSWORD 'old'").await;
    script(&cluster.url(), "CREATE DATABASE app OWNER app").await;
    let hba = "local all all trust\nhost all postgres all trust\nhost all all all scram-sha-256\n";
    fs::write(cluster.data.join("pg_hba.conf"), hba).unwrap();
    script(&cluster.url(), "SELECT pg_reload_conf()").await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("password");
    fs::write(&file, "old\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let (url, with_file) = (cluster.url_of("app", "app"), options("x").password_file(&file));
    let store = PostgresStore::connect(&url, with_file.clone()).await.unwrap();
    // A new password counts from the next connection on.
    fs::write(&file, "new\n").unwrap();
    let rotate = "ALTER ROLE app PASSWORD 'new'; SELECT pg_terminate_backend(pid) FROM \
        pg_stat_activity WHERE usename = 'app'";
    script(&cluster.url(), rotate).await;
    // The first calls may still meet a connection that was ended.
    let mut tries = 0;
    while let Err(error) = store.queues().await {
        tries += 1;
        assert!(tries < 20, "{error}");
    }
    let both = cluster.url_of("app:new", "app");
    let message = refused(&both, with_file).await;
    assert!(message.contains("contains a password, and the password file"), "{message}");
}

#[tokio::test]
async fn a_missing_privilege_says_what_to_grant() {
    let cluster = Cluster::new(&[], None);
    script(&cluster.url(), "CREATE ROLE app LOGIN").await;
    script(&cluster.url(), "CREATE DATABASE app").await;
    let url = cluster.url_of("app", "app");
    insta::assert_snapshot!(refused(&url, options("x")).await, @"Denied: permission denied on PostgreSQL at 127.0.0.1:PORT/app (permission denied for database app); grant the missing privilege, or run `punctual db migrate` as the schema owner");
    // A schema that the role is given is enough.
    script(&cluster.url_of("postgres", "app"), "CREATE SCHEMA x AUTHORIZATION app").await;
    let store = PostgresStore::connect(&url, options("x")).await.unwrap();
    assert_eq!(store.schema().await.unwrap().version, 1);
    // One that it may only look at is not.
    script(
        &cluster.url_of("postgres", "app"),
        "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA x TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA x TO reader",
    )
    .await;
    let reader =
        PostgresStore::connect(&cluster.url_of("reader", "app"), options("x")).await.unwrap();
    assert_eq!(reader.queues().await.unwrap(), []);
    let error = reader.enqueue(At::Database, &[job(1, 10)]).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"Denied: permission denied on PostgreSQL at 127.0.0.1:PORT/app (permission denied for table job); grant the missing privilege, or run `punctual db migrate` as the schema owner");
}

#[tokio::test]
async fn a_standby_is_refused_until_it_is_promoted() {
    let primary = Cluster::new(&[], None);
    let store = PostgresStore::connect(&primary.url(), options("x")).await.unwrap();
    let standby = Cluster::standby_of(&primary);
    insta::assert_snapshot!(refused(&standby.url(), options("x")).await, @"Unreachable: PostgreSQL at 127.0.0.1:PORT/postgres is a read-only standby; use the URL of the primary, or wait until the standby is promoted");
    drop(store);
    drop(primary);
    standby.promote();
    let store = PostgresStore::connect(&standby.url(), options("x")).await.unwrap();
    assert_eq!(store.history().borrow().timeline, "00000002");
}

#[tokio::test]
async fn a_schema_from_the_future_is_refused_if_it_is_breaking() {
    let schema = Schema(schema());
    let url = direct_url();
    let open = || PostgresStore::connect(&url, options(&schema.0));
    drop(open().await.unwrap());
    let client = connect().await;
    let set = |name: &'static str, number: i64| {
        let text = format!(
            "INSERT INTO {}.meta VALUES ('{name}', {number}) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            schema.0
        );
        let client = &client;
        async move { client.batch_execute(&text).await.unwrap() }
    };
    set("schema_version", 900).await;
    drop(open().await.unwrap());
    set("schema_breaking", 899).await;
    let sentence = refused(&direct_url(), options(&schema.0)).await;
    let sentence = sentence.replace(&schema.0, "SCHEMA").replace("/postgres", "/DATABASE");
    insta::assert_snapshot!(sentence, @"SchemaTooNew: schema `SCHEMA` of PostgreSQL at 127.0.0.1:PORT/DATABASE has version 900, this program supports up to 1; upgrade the program, or restore a backup from before the upgrade");
}

#[tokio::test]
async fn an_old_schema_is_refused_if_it_may_not_be_migrated() {
    let schema = Schema(schema());
    let may_not = || options(&schema.0).auto_migrate(false);
    let sentence = refused(&direct_url(), may_not()).await;
    let sentence = sentence.replace(&schema.0, "SCHEMA").replace("/postgres", "/DATABASE");
    insta::assert_snapshot!(sentence, @"SchemaTooOld: schema `SCHEMA` of PostgreSQL at 127.0.0.1:PORT/DATABASE has version 0, this program needs 1; run `punctual db migrate`");
    drop(PostgresStore::connect(&direct_url(), options(&schema.0)).await.unwrap());
    drop(PostgresStore::connect(&direct_url(), may_not()).await.unwrap());
}

#[tokio::test]
async fn tables_that_were_dropped_are_missed() {
    let schema = Schema(schema());
    let store = PostgresStore::connect(&direct_url(), options(&schema.0)).await.unwrap();
    let client = connect().await;
    client.batch_execute(&format!("DROP TABLE {}.rollup", schema.0)).await.unwrap();
    let error = store.roll_up(&[]).await.unwrap_err();
    let sentence = told(&error).replace(&schema.0, "SCHEMA").replace("/postgres", "/DATABASE");
    insta::assert_snapshot!(sentence, @r#"NotFound: a table of punctual is missing on PostgreSQL at 127.0.0.1:PORT/DATABASE (relation "SCHEMA.rollup" does not exist); run `punctual db migrate`, or restore the schema"#);
}

fn job(number: u32, bytes: usize) -> NewJob {
    let mut random = [0; 10];
    random[6..].copy_from_slice(&number.to_be_bytes());
    // Of a kind that cannot be compressed.
    let text: String = (0..bytes as u64 / 16)
        .map(|part| format!("{:016x}", hash::draw(number.into(), part)))
        .collect();
    let payload = Json::new(&text).expect("it is JSON");
    let id = JobId::mint(Timestamp::from_seconds(1_800_000_000), random);
    NewJob::new(id, "default", "send", payload)
}

/// A small file system, for as long as this lives.
struct Mount(PathBuf);

impl Mount {
    fn small(at: &Path, options: &str) -> Mount {
        fs::create_dir_all(at).expect("a directory");
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).status();
        assert!(
            done.is_ok_and(|status| status.success()),
            "a file system in a namespace of its own"
        );
        Mount(at.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()), "it is still in use");
    }
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_acknowledged() {
    if !may_mount("a_full_disk_loses_nothing_that_was_acknowledged") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    give(directory.path());
    let mount = Mount::small(&directory.path().join("small"), "size=24m");
    give(&mount.0);
    let ballast = mount.0.join("ballast");
    fs::write(&ballast, vec![0; 8 << 20]).unwrap();
    let cluster = Cluster::new(&[], None);
    // The tables lie on the small file system, the log does not: without a log there is no server.
    let space = mount.0.join("space");
    fs::create_dir(&space).unwrap();
    give(&space);
    let create = format!("CREATE TABLESPACE small LOCATION '{}'", space.display());
    script(&cluster.url(), &create).await;
    script(&cluster.url(), "CREATE DATABASE app TABLESPACE small").await;
    let url = cluster.url_of("postgres", "app");
    let store = PostgresStore::connect(&url, options("x")).await.unwrap();
    assert_eq!(store.check_writable().await, Ok(()));
    let info = NodeInfo {
        id: NodeId::mint(Timestamp::EPOCH, [1; 10]),
        name: "n".to_owned(),
        version: String::new(),
        queues: Vec::new(),
        kinds: Vec::new(),
        labels: Vec::new(),
    };
    store.join(At::Database, &info).await.unwrap();
    let beat = BeatAsk {
        node: info.id,
        is_remote: false,
        roles: Vec::new(),
        seeks: Vec::new(),
        lease: Duration::from_secs(5),
        leases: Vec::new(),
        progress: Vec::new(),
    };
    let mut acknowledged = Vec::new();
    let error = loop {
        let next = job(u32::try_from(acknowledged.len()).unwrap(), 40_000);
        match store.enqueue(At::Database, std::slice::from_ref(&next)).await {
            Ok(enqueued) => {
                assert_eq!(enqueued.answers, [EnqueueAnswer::Created]);
                acknowledged.push(next.id);
            }
            Err(error) => break error,
        }
    };
    let sentence = told(&error);
    let (start, end) = (sentence.find('(').unwrap(), sentence.find("); the").unwrap());
    let sentence = format!("{}SAID{}", &sentence[..=start], &sentence[end..]);
    insta::assert_snapshot!(sentence, @"Full: no disk space on PostgreSQL at 127.0.0.1:PORT/app (SAID); the request was not applied; free some space and try again");
    // A heartbeat finds room in its page, and proves nothing.
    assert!(store.beat(At::Database, &beat).await.unwrap().alive);
    for _ in 0..2 {
        assert_eq!(store.check_writable().await.unwrap_err().kind(), ErrorKind::Full);
    }
    // What is there can still be read, and the store goes on once there is room.
    assert!(acknowledged.len() > 50, "{}", acknowledged.len());
    assert!(store.job(acknowledged[0]).await.unwrap().is_some());
    fs::remove_file(&ballast).unwrap();
    assert_eq!(store.check_writable().await, Ok(()));
    let last = job(1_000_000, 10);
    store.enqueue(At::Database, std::slice::from_ref(&last)).await.unwrap();
    acknowledged.push(last.id);
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.jobs(&JobFilter::default(), after, 500).await.unwrap();
        found.extend(page.items.iter().map(|view| view.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    found.reverse();
    assert_eq!(found, acknowledged);
    drop(store);
    drop(cluster);
}

#[tokio::test]
async fn what_is_amiss_with_the_set_up_is_told() {
    let kept = Retention::default();
    // Without days none is missing, and on a direct connection timeouts are our own.
    let Fresh { store, .. } = Fresh::direct().await;
    assert_eq!(store.faults(At::Database, &kept).await.unwrap(), [""; 0]);
    let Fresh { store, .. } = Fresh::pooled().await;
    let faults = store.faults(At::Database, &kept).await.unwrap();
    assert_eq!(faults.len(), 3, "{faults:?}");
    insta::assert_snapshot!(faults[0], @"role `postgres` has no statement_timeout, so a hung session behind the pooler never times out; set it with ALTER ROLE postgres SET statement_timeout = '2000ms'");

    let schema = Schema(schema());
    let with_days = options(&schema.0).days_ahead(1);
    let store = PostgresStore::connect(&direct_url(), with_days).await.unwrap();
    assert_eq!(store.faults(At::Database, &kept).await.unwrap(), [""; 0]);
    // Nobody looks after them.
    let later = store.now(At::Database).await.unwrap() + 30 * Duration::from_secs(86_400);
    let faults = store.faults(At::Fixed(later), &kept).await.unwrap();
    assert_eq!(faults.len(), 2, "{faults:?}");
    insta::assert_snapshot!(faults[0], @"the partitions for tomorrow are missing; check that a node leads `maintenance`, which creates them");
    assert!(faults[1].starts_with("partitions of 2 days, starting with 2"), "{}", faults[1]);
    // A prune does.
    store.prune(At::Fixed(later), &kept, 1).await.unwrap();
    assert_eq!(store.faults(At::Fixed(later), &kept).await.unwrap(), [""; 0]);
}

/// Who did something, as events tell it up to a minute from now.
async fn doers(store: &PostgresStore) -> Vec<String> {
    let until = store.now(At::Database).await.expect("the time") + Duration::from_secs(60);
    let start = EventCursor::at(Timestamp::from_seconds(0));
    let page = store.events(&start, until, 100).await.expect("events");
    let who = |event| match event {
        Event::Did(audit) => Some(audit.entry.actor.who),
        _ => None,
    };
    page.items.into_iter().filter_map(who).collect()
}

#[tokio::test]
async fn what_is_younger_than_an_open_transaction_is_told_after_it() {
    let Fresh { store, schema } = Fresh::direct().await;
    let note = async |who: &str| {
        let actor = Actor::new(who, "");
        let (action, subject) = ("look".into(), "it".to_owned());
        store.audit(At::Database, &AuditEntry { actor, action, subject }).await.unwrap();
    };
    note("before").await;
    let slow = connect().await;
    let write = format!(
        "BEGIN; INSERT INTO {}.audit (at, who, why, action, subject)
         VALUES (clock_timestamp(), 'slow', '', 'look', 'it')",
        schema.0
    );
    slow.batch_execute(&write).await.unwrap();
    note("quick").await;
    // A reader who were told of the quick one now would go on behind it.
    assert_eq!(doers(&store).await, ["before"]);
    slow.batch_execute("COMMIT").await.unwrap();
    assert_eq!(doers(&store).await, ["before", "slow", "quick"]);
    // Somebody who only reads is in nobody's way.
    let read = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM {}.audit", schema.0);
    slow.batch_execute(&read).await.unwrap();
    note("last").await;
    assert_eq!(doers(&store).await, ["before", "slow", "quick", "last"]);
    // The schema can be dropped once nobody looks at it.
    slow.batch_execute("COMMIT").await.unwrap();
}
