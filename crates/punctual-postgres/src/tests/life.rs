//! The life of days: made ahead, dropped whole, and never in anybody's way.

use std::time::Duration;

use punctual_core::job::{AttemptOutcome, JobState, LogLevel, Next, Transition};
use punctual_core::{JobId, LeaseId, NodeId, ScheduleId, Timestamp};
use punctual_store::{
    At, ClaimAsk, Delay, Json, LogLine, NewJob, Origin, QueueShare, Retention, Settled, Settlement,
    StepAnswer, Store,
};

use super::{NOW, Schema, connect, job, node};
use crate::PostgresStore;
use crate::partitions;

const DAY: Duration = Duration::from_secs(86_400);

/// A store with the partitions of the day of `NOW` and of the day after it.
async fn with_days(schema: &Schema) -> PostgresStore {
    let store =
        PostgresStore::connect(&super::url(), schema.options().days_ahead(1)).await.unwrap();
    let mut conn = store.pool.take().await.unwrap();
    for instant in [NOW, NOW + DAY] {
        assert!(partitions::make_day(&mut conn, instant).await.unwrap());
    }
    drop(conn);
    store.join(At::Fixed(NOW), &node(worker())).await.unwrap();
    store
}

fn worker() -> NodeId {
    NodeId::mint(NOW, [1; 10])
}

async fn enqueue(store: &PostgresStore, job: NewJob) -> JobId {
    store.enqueue(At::Fixed(NOW), std::slice::from_ref(&job)).await.unwrap();
    job.id
}

/// Claims all that is ready.
async fn claim(store: &PostgresStore, at: Timestamp, number: u8) -> Vec<(JobId, LeaseId)> {
    let ask = ClaimAsk {
        node: worker(),
        lease: LeaseId::mint(at, [number; 10]),
        more: Vec::new(),
        queues: vec![QueueShare { name: "default".to_owned(), most: 200 }],
        kinds: vec!["send".to_owned()],
        most: 200,
    };
    let claimed = store.claim(At::Fixed(at), &ask).await.unwrap();
    claimed.jobs.iter().map(|job| (job.id, job.lease)).collect()
}

async fn settle(
    store: &PostgresStore,
    at: Timestamp,
    (job, lease): (JobId, LeaseId),
    outcome: AttemptOutcome,
    next: Next,
) -> Settled {
    let error = (outcome != AttemptOutcome::Succeeded).then(|| "boom".to_owned());
    let transition = Transition { outcome, next, error };
    let item = Settlement { job, lease, transition, result: None, then: Vec::new() };
    store.settle(At::Fixed(at), &[item]).await.unwrap().answers[0]
}

/// The tables that hold a job's row, by their names.
async fn tables_of(schema: &str, table: &str, column: &str, job: JobId) -> Vec<String> {
    let text = format!("SELECT tableoid::regclass::text FROM {schema}.{table} WHERE {column} = $1");
    let found = connect().await.query(&text, &[&job.as_uuid()]).await.unwrap();
    found.iter().map(|row| row.get::<_, String>(0).replace(&format!("{schema}."), "")).collect()
}

async fn prune(store: &PostgresStore, at: Timestamp) -> u64 {
    store.prune(At::Fixed(at), &Retention::default(), 100).await.unwrap().jobs
}

#[tokio::test]
async fn a_day_is_dropped_and_what_must_stay_is_moved() {
    let schema = Schema::new();
    let store = with_days(&schema).await;
    let delayed = enqueue(&store, NewJob { delay: Delay::For(90 * DAY), ..job(NOW, 0) }).await;
    for number in 1..=6 {
        enqueue(&store, job(NOW, number)).await;
    }
    let tomorrow = enqueue(&store, NewJob { delay: Delay::For(DAY), ..job(NOW + DAY, 7) }).await;
    assert_eq!(tables_of(&schema.0, "job", "id", delayed).await, ["job_20270115"]);
    assert_eq!(tables_of(&schema.0, "job", "id", tomorrow).await, ["job_20270116"]);

    let claimed = claim(&store, NOW, 1).await;
    assert_eq!(claimed.len(), 6);
    let (running, failed, late) = (claimed[0], claimed[1], claimed[2]);
    for done in &claimed[3..] {
        settle(&store, NOW, *done, AttemptOutcome::Succeeded, Next::Succeeded).await;
    }
    settle(&store, NOW, failed, AttemptOutcome::Failed, Next::Failed).await;
    // One ends long after its day, still within its retention when that is dropped.
    let soon = NOW + 10 * DAY;
    settle(&store, soon, late, AttemptOutcome::Succeeded, Next::Succeeded).await;

    // Not before all of the day is old.
    assert_eq!(prune(&store, NOW + 14 * DAY).await, 0);
    assert_eq!(prune(&store, NOW + 15 * DAY).await, 3);
    assert_eq!(tables_of(&schema.0, "job", "id", delayed).await, ["job_default"]);
    assert_eq!(tables_of(&schema.0, "job", "id", tomorrow).await, ["job_20270116"]);
    for done in &claimed[3..] {
        assert_eq!(store.job(done.0).await.unwrap(), None);
    }
    for (id, state) in [
        (delayed, JobState::Scheduled),
        (running.0, JobState::Running),
        (failed.0, JobState::Failed),
        (late.0, JobState::Succeeded),
    ] {
        assert_eq!(store.job(id).await.unwrap().unwrap().view.state, state);
    }
    let detail = store.job(failed.0).await.unwrap().unwrap();
    assert_eq!(detail.attempts.len(), 1);

    // The late finisher: its lease holds, and its end is written where its body is now.
    let settled =
        settle(&store, NOW + 17 * DAY, running, AttemptOutcome::Succeeded, Next::Succeeded);
    assert_eq!(settled.await, Settled::Applied(JobState::Succeeded));
    assert_eq!(tables_of(&schema.0, "job_done", "job", running.0).await, ["job_done_default"]);

    // The delayed job runs when its time has come.
    let due = NOW + 90 * DAY;
    store.promote(At::Fixed(due), 10).await.unwrap();
    let claimed = claim(&store, due, 2).await;
    assert!(claimed.iter().any(|(id, _)| *id == delayed));

    // What was moved is pruned row by row when its own time is over.
    assert_eq!(prune(&store, NOW + 89 * DAY).await, 2);
    assert_eq!(prune(&store, NOW + 91 * DAY).await, 1);
    assert_eq!(store.job(failed.0).await.unwrap(), None);
}

#[tokio::test]
async fn steps_and_logs_go_with_their_day_or_stay_with_their_job() {
    let schema = Schema::new();
    let store = with_days(&schema).await;
    for number in 1..=2 {
        enqueue(&store, job(NOW, number)).await;
    }
    let claimed = claim(&store, NOW, 1).await;
    for (id, lease) in &claimed {
        let saved = store.save_step(At::Fixed(NOW), *id, *lease, "one", &Json::null()).await;
        assert_eq!(saved.unwrap(), StepAnswer::Saved);
        let (level, text) = (LogLevel::Info, "hello".to_owned());
        let line = LogLine { job: *id, attempt: 1, number: 1, level, text };
        store.write_log(At::Fixed(NOW), &[line]).await.unwrap();
    }
    let [(done, _), (running, lease)] = claimed[..] else { panic!("{claimed:?}") };
    settle(&store, NOW, claimed[0], AttemptOutcome::Succeeded, Next::Succeeded).await;
    assert_eq!(tables_of(&schema.0, "job_step", "job", done).await, ["job_step_20270115"]);
    assert_eq!(tables_of(&schema.0, "job_log", "job", done).await, ["job_log_20270115"]);

    assert_eq!(prune(&store, NOW + 15 * DAY).await, 1);
    for table in ["job_step", "job_log"] {
        assert!(tables_of(&schema.0, table, "job", done).await.is_empty());
        let tables = tables_of(&schema.0, table, "job", running).await;
        assert_eq!(tables, [format!("{table}_default")]);
    }
    assert_eq!(store.steps(running).await.unwrap().len(), 1);
    assert_eq!(store.log(running, None, 10).await.unwrap().items.len(), 1);

    // What was moved is pruned with its job.
    let late = NOW + 16 * DAY;
    settle(&store, late, (running, lease), AttemptOutcome::Succeeded, Next::Succeeded).await;
    assert_eq!(prune(&store, late + 15 * DAY).await, 1);
    for table in ["job_step", "job_log"] {
        assert!(tables_of(&schema.0, table, "job", running).await.is_empty());
    }
}

/// A line that is being written keeps its job, and goes with it.
#[tokio::test]
async fn a_line_that_is_written_while_its_job_is_pruned_does_not_stay() {
    let schema = Schema::new();
    let store = schema.open().await;
    store.join(At::Fixed(NOW), &node(worker())).await.unwrap();
    let id = enqueue(&store, job(NOW, 1)).await;
    let claimed = claim(&store, NOW, 1).await;
    settle(&store, NOW, claimed[0], AttemptOutcome::Succeeded, Next::Succeeded).await;
    let writer = connect().await;
    writer.batch_execute("BEGIN").await.unwrap();
    let text = crate::sql::qualify(crate::sql::LOG_INSERT.text, &schema.0);
    let write = writer.prepare_typed(&text, crate::sql::LOG_INSERT.types).await.unwrap();
    let none: Option<crate::rows::Instant> = None;
    let (attempt, level, said) = (vec![1_i32], vec![1_i16], vec!["hello"]);
    writer
        .query(&write, &[&none, &vec![id.as_uuid()], &attempt, &attempt, &level, &said])
        .await
        .unwrap();
    let (pruned, ()) = tokio::join!(prune(&store, NOW + 15 * DAY), async {
        let waits =
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
        let statement = format!("%{}.job_done_default%", schema.0);
        let watcher = connect().await;
        while watcher.query(waits, &[&statement]).await.unwrap().is_empty() {}
        writer.batch_execute("COMMIT").await.unwrap();
    });
    assert_eq!(pruned, 1);
    assert!(tables_of(&schema.0, "job_log", "job", id).await.is_empty());
}

#[tokio::test]
async fn a_day_that_is_dropped_leaves_jobs_that_wait_for_others() {
    let schema = Schema::new();
    let store = with_days(&schema).await;
    enqueue(&store, job(NOW, 1)).await;
    let claimed = claim(&store, NOW, 1).await;
    settle(&store, NOW, claimed[0], AttemptOutcome::Succeeded, Next::Succeeded).await;
    let schedule = ScheduleId::mint(NOW, [3; 10]);
    let origin = Some(Origin { schedule, slot: None, facts: Json::null() });
    let id = enqueue(&store, NewJob { origin, ..job(NOW, 2) }).await;
    let wait = "WITH gone AS (DELETE FROM {schema}.job_ready RETURNING *)
      INSERT INTO {schema}.job_wait (schedule, slot, job, due_at, queue, kind, attempt, spent, crashes, priority, flags)
      SELECT v.schedule, due_at, g.job, due_at, queue, kind, attempt, spent, crashes, priority, flags
      FROM gone AS g JOIN {schema}.job_live AS v ON v.job = g.job";
    connect().await.batch_execute(&crate::sql::qualify(wait, &schema.0)).await.unwrap();

    assert_eq!(prune(&store, NOW + 16 * DAY).await, 1);
    assert_eq!(tables_of(&schema.0, "job", "id", id).await, ["job_default"]);
    assert_eq!(store.job(id).await.unwrap().unwrap().view.state, JobState::Blocked);
    store.promote(At::Fixed(NOW + 16 * DAY), 10).await.unwrap();
    assert_eq!(claim(&store, NOW + 16 * DAY, 2).await[0].0, id);
}

#[tokio::test]
async fn a_long_reader_makes_the_upkeep_of_days_give_way() {
    let schema = Schema::new();
    let store = with_days(&schema).await;
    let id = enqueue(&store, job(NOW, 1)).await;
    let claimed = claim(&store, NOW, 1).await;
    settle(&store, NOW, claimed[0], AttemptOutcome::Succeeded, Next::Succeeded).await;

    let mut client = connect().await;
    let reader = client.transaction().await.unwrap();
    reader.query(&format!("SELECT id FROM {}.job", schema.0), &[]).await.unwrap();
    assert_eq!(prune(&store, NOW + 16 * DAY).await, 0);
    assert!(store.job(id).await.unwrap().is_some());
    // Others are not held up for longer than the upkeep waits.
    enqueue(&store, job(NOW, 2)).await;
    reader.rollback().await.unwrap();
    assert_eq!(prune(&store, NOW + 16 * DAY).await, 1);
    assert_eq!(store.job(id).await.unwrap(), None);
}

/// Jobs of the day of `NOW` that ended on it, and what the server does of its own accord after that.
const MANY: &str = "
  INSERT INTO {schema}.job (id, tenant, owner, queue, kind, priority, max_attempts, created_at, payload)
  SELECT (lpad(to_hex(1800000000000 + n / 100), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid,
    '', '', 'default', 'send', 0, 1, to_timestamp(1800000000), '{}'
  FROM generate_series(1, 100000) AS n;
  INSERT INTO {schema}.job_done (job, outcome, finished_at, attempt, spent, crashes, queue, kind)
  SELECT id, CASE WHEN n % 1000 = 0 THEN 2 ELSE 1 END, created_at, 1, 1, 0, 'default', 'send'
  FROM (SELECT id, created_at, row_number() OVER () AS n FROM {schema}.job) AS j";

/// While a day is dropped nobody may use the tables; so it may take no longer the more jobs it has.
#[tokio::test]
async fn a_day_of_many_jobs_is_dropped_without_being_read() {
    let schema = Schema::new();
    let store = with_days(&schema).await;
    let client = connect().await;
    client.batch_execute(&crate::sql::qualify(MANY, &schema.0)).await.unwrap();
    for table in ["job", "job_done"] {
        let vacuum = format!("VACUUM (ANALYZE) {}.{table}_20270115", schema.0);
        client.batch_execute(&vacuum).await.unwrap();
    }
    let plan = async |text: &str| {
        client.batch_execute(&format!("PREPARE dropping AS {text}")).await.unwrap();
        let is_by_end = text.contains("$2");
        let values = if is_by_end { "('2027-01-16', '2027-01-16')" } else { "('{}')" };
        let explain = format!("EXPLAIN (COSTS OFF) EXECUTE dropping {values}");
        let steps = client.simple_query(&explain).await.unwrap();
        client.batch_execute("DEALLOCATE dropping").await.unwrap();
        super::plans::explained(steps)
    };
    let (staying, moving) = partitions::dropping_texts(&schema.0, NOW);
    let plan_of_staying = plan(&staying).await;
    for index in ["job_done_20270115_finished_at_idx", "job_done_20270115_finished_at_job_idx"] {
        assert!(plan_of_staying.contains(index), "{index}:\n{plan_of_staying}");
    }
    for text in moving {
        let plan = plan(&text).await;
        assert!(plan.contains("_20270115_pkey"), "{plan}");
    }

    let unfinished = enqueue(&store, job(NOW, 200_000)).await;
    let later = NOW + 15 * DAY;
    let mut pruned = std::pin::pin!(prune(&store, later));
    let mut number = 2;
    let dropped = loop {
        // A connection that arrives meanwhile is accepted.
        tokio::select! {
            dropped = &mut pruned => break dropped,
            _ = enqueue(&store, job(later, number)) => number += 1,
        }
    };
    assert_eq!(dropped, 100_000 - 100);
    assert_eq!(tables_of(&schema.0, "job", "id", unfinished).await, ["job_default"]);
    let failed = format!("SELECT count(*) FROM {}.job_done_default WHERE outcome = 2", schema.0);
    assert_eq!(client.query_one(&failed, &[]).await.unwrap().get::<_, i64>(0), 100);
}

#[tokio::test]
async fn a_day_that_cannot_be_dropped_keeps_no_new_one_from_being_made() {
    let schema = Schema::new();
    let store = with_days(&schema).await;
    let id = enqueue(&store, job(NOW, 1)).await;
    let reader = connect().await;
    let read = format!("BEGIN; LOCK TABLE {}.job_20270115 IN ACCESS SHARE MODE", schema.0);
    reader.batch_execute(&read).await.unwrap();
    let later = NOW + 16 * DAY;
    prune(&store, later).await;
    reader.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(tables_of(&schema.0, "job", "id", id).await, ["job_20270115"]);
    let id = enqueue(&store, job(later, 2)).await;
    assert_eq!(tables_of(&schema.0, "job", "id", id).await, ["job_20270131"]);
}

#[tokio::test]
async fn jobs_that_come_before_their_day_move_into_it() {
    let schema = Schema::new();
    let store = schema.open().await;
    let id = enqueue(&store, job(NOW, 1)).await;
    assert_eq!(tables_of(&schema.0, "job", "id", id).await, ["job_default"]);
    let mut conn = store.pool.take().await.unwrap();
    assert!(partitions::make_day(&mut conn, NOW).await.unwrap());
    assert_eq!(tables_of(&schema.0, "job", "id", id).await, ["job_20270115"]);
    drop(conn);
    assert_eq!(store.job(id).await.unwrap().unwrap().view.state, JobState::Ready);
}

#[tokio::test]
async fn today_and_the_days_after_it_are_made_when_a_store_opens() {
    let schema = Schema::new();
    let store =
        PostgresStore::connect(&super::url(), schema.options().days_ahead(3)).await.unwrap();
    let now = store.now(At::Database).await.unwrap();
    for days in 0..4 {
        let id = JobId::mint(now + days * DAY, [7; 10]);
        let new = NewJob { id, ..job(now, 1) };
        store.enqueue(At::Database, &[new]).await.unwrap();
        let tables = tables_of(&schema.0, "job", "id", id).await;
        assert!(tables[0].starts_with("job_2"), "{tables:?}");
    }
    // Made again by the prune, as days pass.
    let later = now + 5 * DAY;
    store.prune(At::Fixed(later), &Retention::default(), 1).await.unwrap();
    let id = enqueue(&store, job(later, 2)).await;
    assert!(tables_of(&schema.0, "job", "id", id).await[0].starts_with("job_2"));
}

/// Somebody else makes a day while a job of that day is on its way to the default partition.
#[tokio::test]
async fn a_job_that_meets_its_day_being_made_is_written_there() {
    let schema = Schema::new();
    let store = schema.open().await;
    let name = &schema.0;
    let maker = connect().await;
    let (from, to) =
        ("00000000-0000-0000-0000-000000000000", "ffffffff-0000-0000-0000-000000000000");
    let make = format!(
        "BEGIN; LOCK TABLE {name}.job_default IN ACCESS EXCLUSIVE MODE;
         CREATE TABLE {name}.job_day (LIKE {name}.job INCLUDING ALL);
         ALTER TABLE {name}.job ATTACH PARTITION {name}.job_day FOR VALUES FROM ('{from}') TO ('{to}')"
    );
    maker.batch_execute(&make).await.unwrap();
    let jobs = [job(NOW, 1)];
    let (written, ()) = tokio::join!(store.enqueue(At::Fixed(NOW), &jobs), async {
        let waits = format!(
            "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = '{name}.job_default'::regclass"
        );
        while maker.query(&waits, &[]).await.unwrap().is_empty() {}
        maker.batch_execute("COMMIT").await.unwrap();
    });
    assert_eq!(written.unwrap().answers, [punctual_store::EnqueueAnswer::Created]);
    assert_eq!(tables_of(name, "job", "id", jobs[0].id).await, ["job_day"]);
}

/// Whoever has begun to read a table knows nothing of a day that is made now, and would miss the
/// rows that move there.
#[tokio::test]
async fn a_day_is_made_only_while_nobody_reads() {
    let schema = Schema::new();
    let store = schema.open().await;
    let reader = connect().await;
    let make = async || {
        let mut conn = store.pool.take().await.unwrap();
        let made = partitions::make_day(&mut conn, NOW).await;
        // At once, and not when the server has seen that the connection is gone.
        conn.rollback().await.unwrap();
        made
    };
    for table in ["job", "job_done", "job_attempt", "job_step", "job_log"] {
        let read = format!("BEGIN; LOCK TABLE ONLY {}.{table} IN ACCESS SHARE MODE", schema.0);
        reader.batch_execute(&read).await.unwrap();
        assert!(make().await.unwrap_err().is_lock_timeout(), "{table}");
        reader.batch_execute("ROLLBACK").await.unwrap();
    }
    assert!(make().await.unwrap());
}
