//! The statements, one per file, each headed by its purpose, its index and what it locks.

use std::collections::HashMap;

use tokio_postgres::types::Type;

/// A statement and the types of its parameters. They are declared, because behind a pooler nothing
/// is prepared, and because an inferred type may be another than the one meant.
pub(crate) struct Statement {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) types: &'static [Type],
}

/// The statements for one schema.
pub(crate) struct Texts {
    schema: String,
    texts: HashMap<&'static str, String>,
}

impl Texts {
    pub(crate) fn new(schema: &str) -> Texts {
        let texts =
            ALL.iter().map(|statement| (statement.name, qualify(statement.text, schema))).collect();
        Texts { schema: schema.to_owned(), texts }
    }

    /// The name of the schema, which needs no quotes.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn of(&self, statement: &Statement) -> &str {
        // Every statement is in the list, so the fallback is never taken.
        self.texts.get(statement.name).map_or(statement.text, String::as_str)
    }
}

/// A text with the schema put in.
pub(crate) fn qualify(text: &str, schema: &str) -> String {
    text.replace("{schema}", schema)
}

/// Declares a constant for each file of the directory `sql`, and a list of them all.
macro_rules! statements {
    ($( $name:ident = $file:literal ($( $type:ident ),* $(,)?), )+) => {
        $(
            pub(crate) const $name: Statement = Statement {
                name: $file,
                text: include_str!(concat!("../sql/", $file, ".sql")),
                types: &[$( Type::$type ),*],
            };
        )+

        /// All of them.
        pub(crate) const ALL: &[&Statement] = &[$( &$name, )+];
    };
}

statements! {
    ATTEMPT_LAST = "attempt_last" (UUID),
    ATTEMPT_RECORDED = "attempt_recorded" (UUID_ARRAY, UUID_ARRAY, INT2_ARRAY),
    ATTEMPTS = "attempts" (UUID),
    AUDIT_INSERT = "audit_insert" (TIMESTAMPTZ, TEXT, TEXT, TEXT, TEXT),
    AUDIT_PRUNE = "audit_prune" (TIMESTAMPTZ, INT8),
    AUDITS = "audits" (INT8, INT8),
    BEAT = "beat" (
        TIMESTAMPTZ, UUID, TEXT_ARRAY, INT8_ARRAY, UUID_ARRAY, INT8, UUID_ARRAY, UUID_ARRAY,
        UUID_ARRAY, INT2_ARRAY, TEXT_ARRAY, TEXT, INT8, TEXT_ARRAY, TEXT,
    ),
    CLAIM = "claim" (
        TIMESTAMPTZ, TEXT_ARRAY, INT4_ARRAY, TIMESTAMPTZ_ARRAY, UUID_ARRAY, TEXT_ARRAY, INT8, UUID_ARRAY,
        UUID, BOOL, TEXT,
    ),
    CLUSTER_KEY = "cluster_key" (),
    DONE_DELETE = "done_delete" (UUID),
    DONE_INSERT = "done_insert" (UUID, INT2, TIMESTAMPTZ, INT4, INT4, INT4, TEXT, TEXT, TEXT),
    DONE_LOCK = "done_lock" (UUID),
    DONE_OLD = "done_old" (TIMESTAMPTZ, TIMESTAMPTZ, INT8),
    EVENT_AUDITS = "event_audits" (TIMESTAMPTZ, INT8, TIMESTAMPTZ, INT8),
    EVENT_ENDED = "event_ended" (TIMESTAMPTZ, UUID, TIMESTAMPTZ, INT8),
    EVENT_HORIZON = "event_horizon" (FLOAT8),
    EVENT_LEADERS = "event_leaders" (TIMESTAMPTZ, TEXT, INT8, TIMESTAMPTZ, INT8),
    EVENT_SLOTS = "event_slots" (TIMESTAMPTZ, UUID, TIMESTAMPTZ, INT4, TIMESTAMPTZ, INT8),
    EXPIRE = "expire" (TIMESTAMPTZ, INT8, INT8, TEXT, TEXT),
    GENERATION = "generation" (TEXT),
    GENERATION_RAISE = "generation_raise" (TEXT, INT8),
    HISTORY_CHANGED = "history_changed" (),
    HISTORY_RECORD = "history_record" (INT8, INT8, INT8),
    IDENTITY = "identity" (),
    JOB = "job" (UUID),
    JOB_INSERT = "job_insert" (
        TIMESTAMPTZ, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY,
        INT4_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, TIMESTAMPTZ_ARRAY, UUID_ARRAY,
        TIMESTAMPTZ_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        TEXT_ARRAY, INT2_ARRAY, BOOL_ARRAY,
    ),
    JOB_INSERT_NEW = "job_insert_new" (
        TIMESTAMPTZ, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY,
        INT4_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, TIMESTAMPTZ_ARRAY, UUID_ARRAY,
        TIMESTAMPTZ_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        TEXT_ARRAY, INT2_ARRAY, BOOL_ARRAY,
    ),
    JOB_KEY_OF = "job_key_of" (UUID),
    JOB_PLACE = "job_place" (UUID, TEXT, INT2),
    JOB_QUEUE = "job_queue" (UUID_ARRAY),
    JOB_REFRESH = "job_refresh" (UUID, INT4),
    JOB_STATE = "job_state" (UUID),
    JOBS = "jobs" (),
    KEY_CLEAR = "key_clear" (TEXT_ARRAY, TEXT_ARRAY, UUID_ARRAY, TIMESTAMPTZ),
    KEY_DROP = "key_drop" (TEXT, TEXT, UUID),
    KEY_LOOK = "key_look" (TIMESTAMPTZ, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY),
    KEY_PRUNE = "key_prune" (TIMESTAMPTZ, INT8),
    KEY_RELEASE = "key_release" (UUID),
    KEY_TAKE = "key_take" (TEXT_ARRAY, TEXT_ARRAY, UUID_ARRAY, BYTEA_ARRAY, TIMESTAMPTZ_ARRAY),
    LEADER_BEGIN = "leader_begin" (TEXT),
    LEADER_CHANGE_PRUNE = "leader_change_prune" (TIMESTAMPTZ, INT8),
    LEADER_CHANGES = "leader_changes" (TEXT, INT8),
    LEADER_LOCK = "leader_lock" (TIMESTAMPTZ, TEXT),
    LEADER_PUT = "leader_put" (TEXT, INT8, UUID, UUID, TIMESTAMPTZ, TIMESTAMPTZ, INT8),
    LEADER_RENEW = "leader_renew" (TIMESTAMPTZ, TEXT, INT8, UUID, INT8),
    LEADER_RESIGN = "leader_resign" (TIMESTAMPTZ, TEXT, INT8, UUID, UUID, TEXT, TEXT),
    LEADER_UNTIL = "leader_until" (TEXT, TIMESTAMPTZ),
    LEADERS = "leaders" (),
    LEASE_CALL_OFF = "lease_call_off" (UUID, TEXT),
    LEASE_CANCEL = "lease_cancel" (UUID, TEXT),
    LEASE_CANCEL_ASKED = "lease_cancel_asked" (UUID),
    LEASE_DROP = "lease_drop" (UUID_ARRAY, TIMESTAMPTZ, TEXT),
    LEASE_HOLD = "lease_hold" (TIMESTAMPTZ, UUID, UUID),
    LEASE_ORPHANS = "lease_orphans" (INT8),
    LEASE_OVERDUE = "lease_overdue" (TIMESTAMPTZ, TEXT, INT8, INT8),
    LEASE_RUNNING = "lease_running" (TEXT_ARRAY),
    LEASES_OF = "leases_of" (UUID, UUID_ARRAY, INT8),
    LIVE = "live" (UUID_ARRAY, INT8, TIMESTAMPTZ),
    LIVE_DELETE = "live_delete" (UUID),
    LIVE_INSERT = "live_insert" (UUID, UUID),
    LOG = "log" (UUID, INT4, INT4, INT8),
    LOG_INSERT = "log_insert" (
        TIMESTAMPTZ, UUID_ARRAY, INT4_ARRAY, INT4_ARRAY, INT2_ARRAY, TEXT_ARRAY,
    ),
    LOG_NEWEST = "log_newest" (UUID, INT4, INT4, INT8),
    META_GET = "meta_get" (),
    META_PUT = "meta_put" (TEXT, INT8),
    NODE_DIE = "node_die" (TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INT8),
    NODE_JOIN = "node_join" (
        UUID, TEXT, TEXT, TEXT, TEXT, TEXT, TIMESTAMPTZ, TEXT, TEXT_ARRAY, INT8,
    ),
    NODE_LEAVE = "node_leave" (UUID),
    NODE_LIVE = "node_live" (),
    NODE_PRUNE = "node_prune" (TIMESTAMPTZ),
    NODES = "nodes" (),
    NOTES_PRUNE = "notes_prune" (UUID_ARRAY),
    NOTIFY = "notify" (TEXT, TEXT_ARRAY),
    NOTIFY_WITHIN = "notify_within" (TEXT, TEXT),
    NOW = "now" (TIMESTAMPTZ),
    PROMOTE = "promote" (TIMESTAMPTZ, INT8, TEXT),
    QUEUE = "queue" (TEXT),
    QUEUE_BEGIN = "queue_begin" (TEXT),
    QUEUE_COUNT = "queue_count" (),
    QUEUE_COUNT_DELETE = "queue_count_delete" (),
    QUEUE_COUNT_INSERT = "queue_count_insert" (
        TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY,
        INT8_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ,
    ),
    QUEUE_LIMITED = "queue_limited" (TEXT_ARRAY),
    QUEUE_LOCK = "queue_lock" (TEXT_ARRAY),
    QUEUE_PUT = "queue_put" (TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, INT8),
    QUEUE_STATS = "queue_stats" (TEXT, TEXT, INT8),
    QUEUE_STATS_LIVE = "queue_stats_live" (INT8),
    QUEUES = "queues" (),
    READY_INSERT = "ready_insert" (UUID, TEXT, TEXT, TIMESTAMPTZ, INT4, INT4, INT4, INT2, INT2),
    RECENT_SLOTS = "recent_slots" (UUID_ARRAY, INT8),
    REVISION_INSERT = "revision_insert" (UUID, INT8, TEXT, TEXT, TEXT, TIMESTAMPTZ),
    REVISION_PRUNE = "revision_prune" (TIMESTAMPTZ, INT8),
    REVISIONS = "revisions" (UUID, INT8, INT8),
    ROLLUP_ADD = "rollup_add" (
        TIMESTAMPTZ_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY,
    ),
    ROLLUP_PRUNE = "rollup_prune" (TIMESTAMPTZ, INT8),
    ROLLUPS = "rollups" (TIMESTAMPTZ, TEXT, TEXT, TEXT, TIMESTAMPTZ, INT8),
    SCHEDULE = "schedule" (UUID),
    SCHEDULE_ADVANCE = "schedule_advance" (
        UUID_ARRAY, INT8_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ,
    ),
    SCHEDULE_DELETE = "schedule_delete" (UUID),
    SCHEDULE_DUE = "schedule_due" (TIMESTAMPTZ, INT2, INT8, INT8),
    SCHEDULE_HOLD = "schedule_hold" (
        UUID_ARRAY, INT8_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY,
        TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY,
    ),
    SCHEDULE_INSERT = "schedule_insert" (
        UUID, TEXT, TEXT, TEXT, INT2, INT8, INT8, BOOL, TIMESTAMPTZ, TIMESTAMPTZ, TEXT, TEXT,
    ),
    SCHEDULE_LOCK = "schedule_lock" (UUID),
    SCHEDULE_MARK = "schedule_mark" (UUID_ARRAY),
    SCHEDULE_NAMED = "schedule_named" (TEXT, TEXT),
    SCHEDULE_PLACE = "schedule_place" (UUID, TEXT, TEXT, INT8, TIMESTAMPTZ),
    SCHEDULE_SET_ASIDE = "schedule_set_aside" (UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY),
    SCHEDULE_UPDATE = "schedule_update" (
        UUID, TEXT, INT8, INT8, BOOL, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TEXT, TIMESTAMPTZ,
        TIMESTAMPTZ, TIMESTAMPTZ, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ,
    ),
    SCHEDULE_WAKE = "schedule_wake" (TIMESTAMPTZ, TEXT_ARRAY, INT8),
    SCHEDULES = "schedules" (TEXT, TEXT, INT8),
    SCHEDULES_AHEAD = "schedules_ahead" (TIMESTAMPTZ, INT8, INT8),
    SCHEDULES_OF = "schedules_of" (TEXT, TEXT, TEXT, INT8),
    SETTLE = "settle" (
        TIMESTAMPTZ, UUID_ARRAY, UUID_ARRAY, INT2_ARRAY, INT2_ARRAY, INT8_ARRAY, TEXT_ARRAY,
        TEXT_ARRAY, TEXT,
    ),
    SLOT_CUT = "slot_cut" (UUID, TIMESTAMPTZ, TIMESTAMPTZ, INT8),
    SLOT_DISCARD = "slot_discard" (UUID, TIMESTAMPTZ, INT8),
    SLOT_INSERT = "slot_insert" (
        UUID_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, INT8_ARRAY, INT2_ARRAY, TEXT_ARRAY,
        UUID_ARRAY, INT8_ARRAY, INT8, UUID, TIMESTAMPTZ, INT4_ARRAY,
    ),
    SLOT_LAST = "slot_last" (UUID, TIMESTAMPTZ),
    SLOT_PRUNE = "slot_prune" (TIMESTAMPTZ, INT8),
    SLOTS = "slots" (UUID, TIMESTAMPTZ, INT4, INT8),
    SPANS = "spans" (UUID, INT8, UUID),
    STEP_DELETE = "step_delete" (UUID),
    STEP_SAVE = "step_save" (UUID, TEXT, TIMESTAMPTZ, TEXT, INT8),
    STEPS = "steps" (UUID),
    SUMS = "sums" (TIMESTAMPTZ, TIMESTAMPTZ, FLOAT8, BOOL),
    TIMER_INSERT = "timer_insert" (UUID, TEXT, TEXT, TIMESTAMPTZ, INT4, INT4, INT4, INT2, INT2),
    UPCOMING = "upcoming" (INT2, INT8),
    WAIT_FREE = "wait_free" (TIMESTAMPTZ, INT8, TEXT),
    WAIT_INSERT = "wait_insert" (
        UUID, TEXT, TEXT, TIMESTAMPTZ, INT4, INT4, INT4, INT2, INT2, UUID, TIMESTAMPTZ,
    ),
    WAITING_TAKE = "waiting_take" (UUID),
}
