//! How SQLite carries out the statements: by which index.

use std::fmt::Write as _;
use std::time::Duration;

use punctual_core::job::{AttemptOutcome, JobState, Next, Transition};
use punctual_core::{LeaseId, NodeId, Nonce, ScheduleId};
use punctual_store::{
    Acquired, ClaimAsk, CountRequest, Cursor, Delay, Fence, JobFilter, QueueShare, Settlement,
    limits,
};
use rusqlite::Connection;

use super::{NOW, fresh, job, node};
use crate::lists::jobs_statement;
use crate::{claim, counts, jobs, leaders, nodes, settle, sql};

/// Jobs in a normal run; `PUNCTUAL_PROOF_ROWS` asks for more.
const ROWS: u32 = 50_000;

/// Fills a file with jobs in all places of life, and says how many.
fn fill(db: &Connection) -> u32 {
    let count = std::env::var("PUNCTUAL_PROOF_ROWS").map_or(ROWS, |text| text.parse().unwrap());
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let worker = NodeId::mint(NOW, [1; 10]);
    nodes::join(db, NOW, &node(worker)).unwrap();
    for number in 0..count {
        let mut job = job(number);
        job.queue = ["default", "mail", "zip"][number as usize % 3].to_owned();
        job.kind = ["send", "report"][number as usize % 2].to_owned();
        if number % 4 == 0 {
            job.delay = Delay::For(Duration::from_secs(u64::from(number)));
        }
        jobs::enqueue_unkeyed(db, NOW, &job).unwrap();
    }
    for round in 0..count / 1_000 {
        let ask = ClaimAsk {
            node: worker,
            lease: LeaseId::mint(NOW, [round as u8; 10]),
            more: Vec::new(),
            queues: vec![QueueShare { name: "default".to_owned(), most: 200 }],
            kinds: vec!["send".to_owned(), "report".to_owned()],
            most: 200,
        };
        let claimed = claim::claim(db, NOW, &ask).unwrap();
        for (index, job) in claimed.jobs.iter().take(150).enumerate() {
            let (outcome, next) = match index % 5 {
                0 => (AttemptOutcome::Failed, Next::Failed),
                _ => (AttemptOutcome::Succeeded, Next::Succeeded),
            };
            let transition = Transition { outcome, next, error: None };
            let item = Settlement {
                job: job.id,
                lease: job.lease,
                transition,
                result: None,
                then: Vec::new(),
            };
            settle::settle(db, NOW, &[item]).unwrap();
        }
    }
    db.execute_batch("COMMIT").unwrap();
    count
}

fn plan(db: &Connection, statement: &str) -> String {
    let mut explained = db.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    let count = explained.parameter_count();
    let unbound = rusqlite::params_from_iter(vec![rusqlite::types::Null; count]);
    let steps = explained.query_map(unbound, |row| row.get::<_, String>(3)).unwrap();
    steps.map(|step| step.unwrap() + "\n").collect()
}

fn list(filter: JobFilter) -> String {
    let ended = filter.is_by_end().then_some(NOW);
    let source = filter.source();
    jobs_statement(source, &filter, Some(Cursor { ended, job: job(7).id })).0
}

fn in_state(state: JobState) -> String {
    list(JobFilter { state: Some(state), ..JobFilter::default() })
}

#[test]
fn hot_statements_go_by_their_index() {
    let (directory, store) = fresh();
    let db = Connection::open(directory.path().join("jobs.db")).unwrap();
    let rows = fill(&db);
    let schedule = Some(ScheduleId::mint(NOW, [3; 10]));
    let name = |name: &str| Some(name.to_owned());
    let hot: Vec<(&str, String, &str)> = vec![
        (
            "claim one kind",
            claim::statement(1),
            "punctual_job_ready USING PRIMARY KEY (queue=? AND kind=?)",
        ),
        ("claim three kinds", claim::statement(3), "MERGE (UNION ALL)"),
        (
            "take from the line",
            sql::READY_DELETE.to_owned(),
            "PRIMARY KEY (queue=? AND kind=? AND (rank,job)<(?,?))",
        ),
        ("settle", sql::LEASE_TAKE.to_owned(), "punctual_job_lease USING PRIMARY KEY (job=?)"),
        ("settle again", sql::ATTEMPT_RECORDED.to_owned(), "PRIMARY KEY (job=?)"),
        ("free a key", sql::KEY_RELEASE.to_owned(), "punctual_job_key_job"),
        ("strike off live", sql::LIVE_DELETE.to_owned(), "punctual_job_live_job"),
        (
            "due",
            sql::SCHEDULE_DUE.to_owned(),
            "punctual_schedule_due (shard=? AND due_at>? AND due_at<?)",
        ),
        (
            "due: next",
            sql::SCHEDULE_NEXT.to_owned(),
            "punctual_schedule_due (shard=? AND due_at>?)",
        ),
        (
            "schedules ahead",
            sql::SCHEDULES_AHEAD.to_owned(),
            "punctual_slot_decided (decided_at>?)",
        ),
        ("schedules ahead: by id", sql::SCHEDULES_AHEAD.to_owned(), "punctual_schedule_1 (id=?)"),
        ("realign", sql::SLOT_DISCARD.to_owned(), "PRIMARY KEY (schedule=? AND slot>?)"),
        ("realign: last row", sql::SLOT_LAST.to_owned(), "PRIMARY KEY (schedule=? AND slot<?)"),
        ("fire: unfinished jobs", sql::LIVE.to_owned(), "l USING PRIMARY KEY (schedule=?)"),
        ("promote", sql::TIMER_DUE.to_owned(), "punctual_job_timer USING PRIMARY KEY (due_at<?)"),
        ("promote: delete", sql::TIMER_DELETE.to_owned(), "PRIMARY KEY ((due_at,job)<(?,?))"),
        ("promote: free", sql::WAIT_NEXT.to_owned(), "w USING PRIMARY KEY (schedule>?)"),
        (
            "promote: in the way",
            sql::WAIT_NEXT.to_owned(),
            "o USING COVERING INDEX punctual_job_wait_job (job=?)",
        ),
        (
            "expire",
            sql::DEADLINE_PASSED.to_owned(),
            "punctual_job_deadline USING PRIMARY KEY (check_at<?)",
        ),
        ("expire: delete", sql::DEADLINE_DELETE.to_owned(), "PRIMARY KEY (check_at=? AND job=?)"),
        ("prune", sql::DONE_OLD.to_owned(), "punctual_job_done_finished (finished_at<?)"),
        ("prune: dead letters", sql::DONE_OLD.to_owned(), "punctual_job_done_died (finished_at<?)"),
        ("prune: slots", sql::SLOT_PRUNE.to_owned(), "punctual_slot_decided (decided_at<?)"),
        ("prune: keys", sql::KEY_PRUNE.to_owned(), "punctual_job_key_expiry (expires_at<?)"),
        (
            "running in a queue",
            sql::LEASE_RUNNING.to_owned(),
            "punctual_job_lease_node (node=? AND queue=?)",
        ),
        ("beat: jobs of a node", sql::LEASES_OF.to_owned(), "punctual_job_lease_node (node=?)"),
        ("beat: progress", sql::LEASE_PROGRESS.to_owned(), "PRIMARY KEY (job=?)"),
        (
            "prune: revisions",
            sql::REVISION_PRUNE.to_owned(),
            "punctual_schedule_revision_superseded (superseded_at<?)",
        ),
        ("running on a node", sql::LEASE_COUNT.to_owned(), "punctual_job_lease_node (node=?)"),
        ("cancel: in line", sql::READY_TAKE.to_owned(), "punctual_job_ready_job (job=?)"),
        ("cancel: timer", sql::TIMER_TAKE.to_owned(), "punctual_job_timer_job (job=?)"),
        ("cancel: behind others", sql::WAIT_TAKE.to_owned(), "punctual_job_wait_job (job=?)"),
        ("newest", list(JobFilter::default()), "sqlite_autoindex_punctual_job_1 (id<?)"),
        (
            "by queue",
            list(JobFilter { queue: name("mail"), ..JobFilter::default() }),
            "punctual_job_by_queue (queue=? AND id<?)",
        ),
        (
            "by schedule",
            list(JobFilter { schedule, ..JobFilter::default() }),
            "punctual_job_by_schedule (schedule=? AND id<?)",
        ),
        (
            "by tenant",
            list(JobFilter { tenant: name("acme"), ..JobFilter::default() }),
            "punctual_job_by_tenant (tenant=? AND id<?)",
        ),
        ("failed", in_state(JobState::Failed), "punctual_job_done_died ((finished_at,job)<(?,?))"),
        ("ready", in_state(JobState::Ready), "punctual_job_ready_job (job<?)"),
        ("running", in_state(JobState::Running), "s USING PRIMARY KEY (job<?)"),
        ("retrying", in_state(JobState::Retrying), "punctual_job_timer_job (job<?)"),
        ("blocked", in_state(JobState::Blocked), "punctual_job_wait_job (job<?)"),
        ("succeeded", in_state(JobState::Succeeded), "s USING PRIMARY KEY (job<?)"),
        ("cancelled", in_state(JobState::Cancelled), "punctual_job_done_cancelled (job<?)"),
        (
            "ready in a queue",
            list(JobFilter {
                state: Some(JobState::Ready),
                queue: name("mail"),
                ..JobFilter::default()
            }),
            "punctual_job_ready_job (job<?)",
        ),
        (
            "succeeded in a queue",
            list(JobFilter {
                state: Some(JobState::Succeeded),
                queue: name("mail"),
                ..JobFilter::default()
            }),
            "punctual_job_by_queue (queue=? AND id<?)",
        ),
        (
            "by kind",
            list(JobFilter { kind: name("send"), ..JobFilter::default() }),
            "sqlite_autoindex_punctual_job_1 (id<?)",
        ),
        (
            "by tag",
            list(JobFilter { tag: name("eu"), ..JobFilter::default() }),
            "sqlite_autoindex_punctual_job_1 (id<?)",
        ),
        ("statistics", sql::QUEUE_STATS.to_owned(), "PRIMARY KEY ((queue,kind)>(?,?))"),
        ("ledger", sql::SLOTS.to_owned(), "PRIMARY KEY (schedule=? AND (slot,run)<(?,?))"),
        ("revisions", sql::REVISIONS.to_owned(), "PRIMARY KEY (schedule=? AND revision<?)"),
        (
            "counters",
            sql::ROLLUPS.to_owned(),
            "PRIMARY KEY ((minute,metric,queue,kind)>(?,?,?,?) AND minute<?)",
        ),
        ("audit", sql::AUDITS.to_owned(), "USING INTEGER PRIMARY KEY (rowid<?)"),
        (
            "events: jobs",
            sql::EVENT_ENDED.to_owned(),
            "punctual_job_done_finished ((finished_at,job)>(?,?) AND finished_at<?)",
        ),
        (
            "events: dead letters",
            sql::EVENT_ENDED.to_owned(),
            "punctual_job_done_died ((finished_at,job)>(?,?) AND finished_at<?)",
        ),
        ("events: slots", sql::EVENT_SLOTS.to_owned(), "punctual_slot_decided"),
        ("events: audit", sql::EVENT_AUDITS.to_owned(), "punctual_audit_at"),
        ("a step", sql::STEP.to_owned(), "punctual_job_step USING PRIMARY KEY (job=? AND name=?)"),
        ("steps", sql::STEPS.to_owned(), "punctual_job_step USING PRIMARY KEY (job=?)"),
        ("steps: how many", sql::STEP_COUNT.to_owned(), "PRIMARY KEY (job=?)"),
        (
            "log",
            sql::LOG.to_owned(),
            "punctual_job_log USING PRIMARY KEY (job=? AND (attempt,number)>(?,?))",
        ),
        (
            "log newest",
            sql::LOG_NEWEST.to_owned(),
            "punctual_job_log USING PRIMARY KEY (job=? AND (attempt,number)<(?,?))",
        ),
        ("prune: logs", sql::LOG_DELETE.to_owned(), "punctual_job_log USING PRIMARY KEY (job=?)"),
        (
            "schedules of a set",
            sql::SCHEDULES_OF.to_owned(),
            "punctual_schedule_set_member (tenant=? AND set_name=? AND name>?)",
        ),
        ("one job", sql::JOB.to_owned(), "sqlite_autoindex_punctual_job_1 (id=?)"),
    ];
    let mut plans = String::new();
    let statements = hot.len();
    for (title, statement, index) in hot {
        let plan = plan(&db, &statement);
        assert!(plan.contains(index), "{title} does not go by {index}:\n{plan}");
        assert!(!plan.contains("SCAN punctual"), "{title} reads a whole table:\n{plan}");
        // A claim and a beat sort what one node takes or has; schedules are ahead of the clock rarely, and a
        // bounded number of them is read.
        let may_sort = title.starts_with("claim")
            || title == "beat: jobs of a node"
            || title.starts_with("schedules ahead");
        assert!(may_sort || !plan.contains("TEMP B-TREE"), "{title} sorts:\n{plan}");
        write!(plans, "{title}\n{plan}\n").unwrap();
    }
    insta::assert_snapshot!("plans", plans);
    drop(store);
    println!(
        "\n{{\"proof\":\"sqlite-plans\",\"rows\":{rows},\"statements\":{statements},\"by_their_index\":true}}"
    );
}

/// Counts all jobs and stores the counts.
fn store_counts(db: &Connection) {
    let (node, nonce) = (NodeId::mint(NOW, [1; 10]), Nonce::mint(NOW, [1; 10]));
    let lease = Duration::from_secs(60);
    let won = leaders::acquire(db, NOW, "maintenance", node, nonce, lease).unwrap();
    let Acquired::Won { term, .. } = won else { panic!("the role is free") };
    let fence = Fence { role: "maintenance".to_owned(), term, nonce };
    let counted = counts::count(db).unwrap();
    let request = CountRequest { fence, lease };
    assert!(counts::store(db, NOW, &request, NOW, &counted).unwrap());
}

#[test]
fn stored_counts_are_read_without_the_tables_of_jobs() {
    let (_directory, store) = fresh();
    let db = Connection::open(store.path()).unwrap();
    fill(&db);
    let before = counts::all(&db).unwrap();
    store_counts(&db);
    for table in ["ready", "timer", "wait", "lease", "done"] {
        db.execute_batch(&format!("DROP TABLE punctual_job_{table}")).unwrap();
    }
    let stored = counts::queue_stats(&db, None, 10).unwrap();
    assert_eq!((stored.items, stored.counted_at), (before, Some(NOW)));
}

/// The steps of SQLite's machine that a statement took.
fn steps(db: &Connection, statement: &str, most: i64) -> i32 {
    let mut statement = db.prepare(statement).unwrap();
    let mut rows = statement.query([most]).unwrap();
    while rows.next().unwrap().is_some() {}
    drop(rows);
    statement.get_status(rusqlite::StatementStatus::VmStep)
}

#[test]
fn the_check_for_few_jobs_reads_a_bounded_number_of_rows() {
    let (_directory, store) = fresh();
    let db = Connection::open(store.path()).unwrap();
    fill(&db);
    let bounded = steps(&db, sql::QUEUE_STATS_LIVE, limits::COUNT_LIVE_MAX as i64 + 1);
    let whole = steps(&db, sql::QUEUE_STATS_LIVE, i64::MAX);
    assert!(bounded < whole / 5, "{bounded} of {whole} steps");
}
