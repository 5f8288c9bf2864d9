//! How PostgreSQL carries out the statements: by which index. The store's own connections forbid
//! reading whole tables; here that is allowed, and still not done.

use std::fmt::Write as _;
use std::time::Duration;

use punctual_core::job::{AttemptOutcome, JobState, Next, Transition};
use punctual_core::{LeaseId, NodeId, ScheduleId};
use punctual_store::{
    At, ClaimAsk, Cursor, Delay, JobFilter, KeyLifetime, KeyScope, NewJob, QueueShare, Settlement,
    Store, UniqueKey,
};
use tokio_postgres::Client;

use super::{NOW, Schema, connect, job, node};
use crate::PostgresStore;
use crate::lists::job_list;
use crate::partitions;
use crate::sql::{self, Statement, qualify};

/// Jobs in a normal run; `PUNCTUAL_PROOF_ROWS` asks for more.
const ROWS: u32 = 50_000;
/// Nodes that share the work.
const WORKERS: u32 = 25;
const AT: At = At::Fixed(NOW);
const DAY: Duration = Duration::from_secs(86_400);

/// Fills a store with jobs in all places of life, and says how many.
async fn fill(store: &PostgresStore) -> u32 {
    let count = std::env::var("PUNCTUAL_PROOF_ROWS").map_or(ROWS, |text| text.parse().unwrap());
    let worker = |round: u32| NodeId::mint(NOW, [(round % WORKERS) as u8; 10]);
    for round in 0..WORKERS {
        store.join(AT, &node(worker(round))).await.unwrap();
    }
    for part in 0..count / 1_000 {
        let jobs: Vec<NewJob> = (part * 1_000..(part + 1) * 1_000).map(varied).collect();
        store.enqueue(AT, &jobs).await.unwrap();
    }
    for round in 0..count / 1_000 {
        let ask = ClaimAsk {
            node: worker(round),
            lease: LeaseId::mint(NOW, [round as u8; 10]),
            more: Vec::new(),
            queues: vec![QueueShare { name: "default".to_owned(), most: 200 }],
            kinds: vec!["send".to_owned(), "report".to_owned()],
            most: 200,
        };
        let claimed = store.claim(AT, &ask).await.unwrap();
        let settle = |(index, job): (usize, &punctual_store::ClaimedJob)| {
            let (outcome, next) = match index % 5 {
                0 => (AttemptOutcome::Failed, Next::Failed),
                1 => (AttemptOutcome::Failed, Next::After(Duration::from_secs(60))),
                _ => (AttemptOutcome::Succeeded, Next::Succeeded),
            };
            let transition = Transition { outcome, next, error: None };
            Settlement { job: job.id, lease: job.lease, transition, result: None, then: Vec::new() }
        };
        let batch: Vec<Settlement> =
            claimed.jobs.iter().take(150).enumerate().map(settle).collect();
        store.settle(AT, &batch).await.unwrap();
    }
    count
}

fn varied(number: u32) -> NewJob {
    let mut job = job(NOW, number);
    job.queue = ["default", "mail", "zip"][number as usize % 3].to_owned();
    job.kind = ["send", "report"][number as usize % 2].to_owned();
    if number.is_multiple_of(4) {
        job.delay = Delay::For(Duration::from_secs(u64::from(number)));
    }
    if number % 1_000 == 7 {
        (job.tenant, job.queue) = ("rare".to_owned(), "rare".to_owned());
    }
    if number % 5 == 1 {
        let (scope, lifetime) = (KeyScope::Tenant, KeyLifetime::For(Duration::from_secs(3_600)));
        job.unique =
            Some(UniqueKey { key: number.to_string(), scope, lifetime, is_by_payload: false });
    }
    job
}

/// Jobs that wait, of many schedules. That they have no bodies is nothing to a plan.
const WAITING: &str = "
  INSERT INTO {schema}.job_live (schedule, job)
  SELECT s.id, gen_random_uuid()
  FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 500)) AS s, generate_series(1, 40);
  INSERT INTO {schema}.job_wait (schedule, slot, job, due_at, queue, kind, attempt, spent, crashes, priority, flags)
  SELECT schedule, now(), job, now(), 'default', 'send', 0, 0, 0, 0, 8 FROM {schema}.job_live";

/// What handlers noted of some jobs, and schedules of several sets.
const NOTES: &str = "
  INSERT INTO {schema}.job_step (job, name, at, result)
  SELECT j.id, n::text, now(), '1' FROM (SELECT id FROM {schema}.job LIMIT 5000) AS j, generate_series(1, 4) AS n;
  INSERT INTO {schema}.job_log (job, attempt, number, level, at, text)
  SELECT j.id, 1, n, 2, now(), 'x' FROM (SELECT id FROM {schema}.job LIMIT 5000) AS j, generate_series(1, 10) AS n;
  INSERT INTO {schema}.schedule (id, tenant, name, owner, set_name, shard, enabled, revision, stamp, created_at, changed_at)
  SELECT gen_random_uuid(), '', 's' || n, '', 'code:' || n % 20, 0, false, 1, 1, now(), now()
  FROM generate_series(1, 2000) AS n";

/// A value that few jobs have, for a list; a plan that is kept for any values does not look at it.
fn value(of: &str) -> &'static str {
    match of {
        "text" => "'rare'",
        "int8" => "50",
        "uuid" => "'ffffffff-0000-0000-0000-000000000000'",
        "timestamptz" => "now()",
        _ => "NULL",
    }
}

/// The plan of a statement. A prepared one is kept for any values, a list is planned for its own.
async fn plan(client: &Client, schema: &str, text: &str, types: &[String]) -> String {
    let declared = if types.is_empty() { String::new() } else { format!("({})", types.join(", ")) };
    let prepare = format!("PREPARE plan {declared} AS {}", qualify(text, schema));
    client.batch_execute(&prepare).await.unwrap_or_else(|error| panic!("{error:?}\n{prepare}"));
    let values: Vec<&str> = types.iter().map(|of| value(of)).collect();
    let values = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
    let steps =
        client.simple_query(&format!("EXPLAIN (COSTS OFF) EXECUTE plan {values}")).await.unwrap();
    client.batch_execute("DEALLOCATE plan").await.unwrap();
    explained(steps).replace(&format!("{schema}."), "").replace(schema, "SCHEMA")
}

/// What the server explains, line by line.
pub(super) fn explained(steps: Vec<tokio_postgres::SimpleQueryMessage>) -> String {
    let mut lines = String::new();
    for step in steps {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = step {
            writeln!(lines, "{}", row.get(0).unwrap_or_default()).unwrap();
        }
    }
    lines
}

/// A statement, and the types of its parameters.
type Text = (String, Vec<String>);

fn of(statement: &Statement) -> Text {
    let types = statement.types.iter().map(|of| of.name().to_owned()).collect();
    (statement.text.to_owned(), types)
}

fn list(filter: JobFilter) -> Text {
    let ended = filter.is_by_end().then_some(NOW);
    let cursor = Some(Cursor { ended, job: job(NOW, 7).id });
    let list = job_list("{schema}", filter.source(), &filter, cursor, 50);
    let types = list.bound().iter().map(|(_, of)| of.name().to_owned()).collect();
    (list.text, types)
}

fn in_state(state: JobState) -> Text {
    list(JobFilter { state: Some(state), ..JobFilter::default() })
}

#[tokio::test]
async fn hot_statements_go_by_their_index() {
    let schema = Schema::new();
    let store = schema.open().await;
    let rows = fill(&store).await;
    let client = connect().await;
    for text in [WAITING, NOTES] {
        client.batch_execute(&qualify(text, &schema.0)).await.unwrap();
    }
    let tables = "job, job_ready, job_timer, job_wait, job_lease, job_done, job_attempt, job_step, \
                  job_log, job_key, job_live, job_deadline, schedule";
    let tables: Vec<String> =
        tables.split(", ").map(|table| format!("{}.{table}", schema.0)).collect();
    client.batch_execute(&format!("ANALYZE {}", tables.join(", "))).await.unwrap();
    client.batch_execute("SET jit = off").await.unwrap();

    let schedule = Some(ScheduleId::mint(NOW, [3; 10]));
    let name = |name: &str| Some(name.to_owned());
    let hot: Vec<(&str, Text, &[&str])> = vec![
        (
            "claim",
            of(&sql::CLAIM),
            &[
                "Index Scan using job_ready_order on job_ready",
                "Tid Scan on job_ready",
                "using job_default_pkey",
            ],
        ),
        ("settle", of(&sql::SETTLE), &["Index Scan using job_lease_pkey on job_lease"]),
        (
            "settle again",
            of(&sql::ATTEMPT_RECORDED),
            &["using job_done_default_pkey", "using job_attempt_default_pkey"],
        ),
        ("beat", of(&sql::BEAT), &["job_lease_node", "job_lease_pkey", "hashed SubPlan"]),
        ("enqueue with a key", of(&sql::KEY_LOOK), &["job_key_pkey", "job_default_pkey"]),
        ("due", of(&sql::SCHEDULE_DUE), &["schedule_due"]),
        ("schedules ahead", of(&sql::SCHEDULES_AHEAD), &["slot_decided", "schedule_pkey"]),
        ("realign", of(&sql::SLOT_DISCARD), &["slot_pkey"]),
        ("realign: last row", of(&sql::SLOT_LAST), &["slot_pkey"]),
        ("fire: unfinished jobs", of(&sql::LIVE), &["job_live_order", "job_wait_pkey"]),
        ("fire: call off", of(&sql::LEASE_CALL_OFF), &["job_lease_pkey"]),
        ("fire: queues of jobs", of(&sql::JOB_QUEUE), &["job_default_pkey"]),
        ("promote", of(&sql::PROMOTE), &["job_timer_due", "Tid Scan on job_timer"]),
        (
            "promote: free",
            of(&sql::WAIT_FREE),
            &["job_wait_order", "job_live_order", "Tid Scan on job_wait", "job_timer_due"],
        ),
        ("running in a queue", of(&sql::LEASE_RUNNING), &["job_lease_node"]),
        ("strays of a node", of(&sql::LEASES_OF), &["job_lease_node"]),
        ("overdue", of(&sql::LEASE_OVERDUE), &["job_lease_node", "job_default_pkey"]),
        ("cancel", of(&sql::WAITING_TAKE), &["job_ready_pkey", "job_timer_pkey", "job_wait_pkey"]),
        (
            "where a job is",
            of(&sql::JOB_STATE),
            &[
                "job_ready_pkey",
                "job_timer_pkey",
                "job_wait_pkey",
                "job_lease_pkey",
                "job_done_default_pkey",
            ],
        ),
        (
            "prune",
            of(&sql::DONE_OLD),
            &["job_done_finished", "job_done_default_finished_at_job_idx"],
        ),
        ("prune: slots", of(&sql::SLOT_PRUNE), &["slot_decided"]),
        ("prune: keys", of(&sql::KEY_PRUNE), &["job_key_expiry"]),
        ("newest", list(JobFilter::default()), &["job_default_pkey"]),
        (
            "by queue",
            list(JobFilter { queue: name("mail"), ..JobFilter::default() }),
            &["job_default_queue_id_idx"],
        ),
        (
            "by schedule",
            list(JobFilter { schedule, ..JobFilter::default() }),
            &["job_default_schedule_id_idx"],
        ),
        (
            "by tenant",
            list(JobFilter { tenant: name("acme"), ..JobFilter::default() }),
            &["job_default_tenant_id_idx"],
        ),
        ("failed", in_state(JobState::Failed), &["job_done_default_finished_at_job_idx"]),
        ("ready", in_state(JobState::Ready), &["job_ready_pkey"]),
        ("running", in_state(JobState::Running), &["job_lease_pkey"]),
        ("retrying", in_state(JobState::Retrying), &["job_timer_pkey"]),
        ("blocked", in_state(JobState::Blocked), &["job_wait_pkey"]),
        ("succeeded", in_state(JobState::Succeeded), &["job_done_default_pkey"]),
        ("cancelled", in_state(JobState::Cancelled), &["job_done_default_job_idx"]),
        ("statistics", of(&sql::QUEUE_STATS), &["queue_count_pkey"]),
        ("one job", of(&sql::JOB), &["job_default_pkey"]),
        ("save a step: its lease", of(&sql::LEASE_HOLD), &["job_lease_pkey"]),
        ("save a step", of(&sql::STEP_SAVE), &["job_step_default_pkey"]),
        ("steps", of(&sql::STEPS), &["job_step_default_pkey"]),
        ("write a log", of(&sql::LOG_INSERT), &["job_default_pkey"]),
        ("log", of(&sql::LOG), &["job_log_default_pkey"]),
        ("log newest", of(&sql::LOG_NEWEST), &["job_log_default_pkey"]),
        ("prune: notes", of(&sql::NOTES_PRUNE), &["job_step_default_pkey", "job_log_default_pkey"]),
        ("schedules of a set", of(&sql::SCHEDULES_OF), &["schedule_set_member"]),
        ("events: jobs", of(&sql::EVENT_ENDED), &["job_done_default_finished_at_idx"]),
        ("events: slots", of(&sql::EVENT_SLOTS), &["slot_decided"]),
        ("events: audit", of(&sql::EVENT_AUDITS), &["audit_at"]),
        ("attempts", of(&sql::ATTEMPTS), &["job_attempt_default_pkey"]),
    ];
    let statements = hot.len();
    let mut wrong = String::new();
    for (title, (text, types), indexes) in hot {
        let mode =
            if text.contains("AS looked_at") { "force_custom_plan" } else { "force_generic_plan" };
        client.batch_execute(&format!("SET plan_cache_mode = {mode}")).await.unwrap();
        let plan = plan(&client, &schema.0, &text, &types).await;
        for index in indexes {
            if !plan.contains(index) {
                writeln!(wrong, "{title} does not go by {index}:\n{plan}").unwrap();
            }
        }
        // What few rows match may be sorted at the source; all that is joined to them must not be.
        let joins = plan.split("WindowAgg").next().unwrap_or_default();
        if text.contains("AS looked_at") && joins.contains("Sort") {
            writeln!(wrong, "{title} sorts, so that it cannot stop early:\n{plan}").unwrap();
        }
        // Small tables are rightly read whole; these may be large.
        for table in [
            "job_default",
            "job_ready",
            "job_timer",
            "job_wait",
            "job_lease",
            "job_done_default",
            "job_step_default",
            "job_log_default",
            "schedule",
        ] {
            if plan.contains(&format!("Seq Scan on {table}")) {
                writeln!(wrong, "{title} reads the whole of {table}:\n{plan}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    println!(
        "\n{{\"proof\":\"pg-plans\",\"rows\":{rows},\"statements\":{statements},\"by_their_index\":true}}"
    );
}

/// There are as many partitions as days are kept; a statement that knows the ids of its jobs reads the one
/// partition that each is in.
#[tokio::test]
async fn statements_by_id_read_one_partition() {
    let schema = Schema::new();
    let store = schema.open().await;
    let mut conn = store.pool.take().await.unwrap();
    for days in 0..3 {
        assert!(partitions::make_day(&mut conn, NOW + days * DAY).await.unwrap());
    }
    let job = job(NOW, 1);
    store.enqueue(AT, std::slice::from_ref(&job)).await.unwrap();
    let id = format!("ARRAY['{}']::uuid[]", job.id);
    let client = connect().await;
    client.batch_execute("SET plan_cache_mode = force_generic_plan").await.unwrap();
    for (statement, values) in [
        (&sql::LOG_INSERT, format!("NULL, {id}, '{{1}}', '{{1}}', '{{2}}', '{{hello}}'")),
        (&sql::JOB_QUEUE, id.clone()),
        (&sql::KEY_LOOK, format!("NULL, {id}, '{{NULL}}', '{{NULL}}'")),
        (&sql::ATTEMPT_RECORDED, format!("{id}, {id}, '{{1}}'")),
    ] {
        let types: Vec<&str> = statement.types.iter().map(|of| of.name()).collect();
        let text = qualify(statement.text, &schema.0);
        let prepare = format!("PREPARE plan ({}) AS {text}", types.join(", "));
        client.batch_execute(&prepare).await.unwrap();
        let explain = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE plan";
        let plan = explained(client.simple_query(&format!("{explain} ({values})")).await.unwrap());
        client.batch_execute("DEALLOCATE plan").await.unwrap();
        let reads = |line: &&str| line.contains("Scan") && !line.contains("never executed");
        let days = ["_default", "_20270115", "_20270116", "_20270117"];
        let is_read = |day: &&str| plan.lines().filter(reads).any(|line| line.contains(*day));
        let read: Vec<&str> = days.into_iter().filter(is_read).collect();
        assert_eq!(read, ["_20270115"], "{}:\n{plan}", statement.name);
    }
}

/// A table is not analysed until a minute or so after it was filled; a claim that sorted all that
/// waits would meanwhile take longer the more there is.
#[tokio::test]
async fn a_claim_goes_in_order_through_a_table_of_which_nothing_is_known() {
    let schema = Schema::new();
    let store = schema.open().await;
    // With a thousand it would not sort.
    for part in 0..20 {
        let numbers = part * 1_000..(part + 1) * 1_000;
        let jobs: Vec<NewJob> = numbers.map(|number| job(NOW, number)).collect();
        store.enqueue(AT, &jobs).await.unwrap();
    }
    let client = connect().await;
    client.batch_execute("SET plan_cache_mode = force_generic_plan").await.unwrap();
    let (text, types) = of(&sql::CLAIM);
    let plan = plan(&client, &schema.0, &text, &types).await;
    assert!(plan.contains("Index Scan using job_ready_order on job_ready"), "{plan}");
    assert!(!plan.contains("Sort"), "{plan}");
}
