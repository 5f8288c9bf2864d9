//! Bounds on what a store takes, each with the reason for its number. What is beyond one is refused
//! with the value and the way out; a text for people is cut instead.

/// Jobs written in one transaction: more makes commits long without making them cheaper.
pub const ENQUEUE_MAX: usize = 1_000;
/// Jobs claimed at once: beyond this a claim takes longer and gains nothing.
pub const CLAIM_MAX: usize = 200;
/// Transitions settled in one transaction, for the reason of an enqueue.
pub const SETTLE_MAX: usize = 1_000;
/// Jobs that one settlement writes: whoever has more to follow enqueues them in parts.
pub const THEN_MAX: usize = 100;
/// Jobs that one release gives back: each is settled.
pub const RELEASE_MAX: usize = 1_000;
/// Jobs that are requeued at once: each is written anew, and its key looked for.
pub const REQUEUE_MAX: usize = 1_000;
/// Timers promoted in one transaction: each is a job that moves, as in an enqueue.
pub const PROMOTE_MAX: usize = 1_000;
/// Start deadlines checked in one transaction: each may end a job, as in a settlement.
pub const EXPIRE_MAX: usize = 1_000;
/// Leases taken back in one transaction: each is settled.
pub const REAP_MAX: usize = 1_000;
/// Rows of each kind that one prune drops: old rows are in no hurry, and others wait to write.
pub const PRUNE_MAX: usize = 1_000;
/// Schedules fired in one transaction.
pub const FIRE_MAX: usize = 500;
/// Slots of one plan: all that a schedule may catch up, a minute of seconds, and what was skipped,
/// with what was excluded between.
pub const PLAN_SLOTS_MAX: usize = 1_400;
/// Ledger rows that one transaction of a realignment discards: other writers wait for it, and the rest
/// follows in the next one.
pub const REALIGN_ROWS_MAX: usize = 2_000;
/// Slots of all plans of one fire: each may be a job, as in an enqueue.
pub const FIRE_SLOTS_MAX: usize = 2_000;
/// Jobs that the slots of one plan become where each node has its own: as many as those of all plans.
/// With more nodes, older slots are missed.
pub const PLACE_MAX: usize = FIRE_SLOTS_MAX;
/// Schedules with held slots that one transaction makes due: the one in which a node joins, and then
/// each one that fires such slots. Each is a write to all indexes of the table, and a join must not
/// take too long.
pub const HELD_WAKE_MAX: usize = 500;
/// Unfinished jobs of a schedule that are looked at when it fires, and the most that wait for one
/// another: a schedule whose workers are gone has any number.
pub const LIVE_MAX: usize = 1_000;
/// Jobs that one fire calls off for one schedule: each is settled or its worker asked.
pub const FIRE_CANCEL_MAX: usize = 100;
/// Lists that a store reads at the same time, with those that wait for a connection. Three of them
/// are read at once on SQLite; if each takes 200 ms, the last one waits for two seconds.
pub const LISTS_MAX: usize = 32;
/// Rows of one page of a list.
pub const PAGE_MAX: usize = 500;
/// Rows that a page looks at: what is asked for may be rare, and nobody waits for a million others
/// to be passed over. Some 20 ms, then whoever asked goes on with the cursor.
pub const EXAMINE_MAX: usize = 5_000;
/// Schedules whose newest slots are read at once: as many as a page of them shows.
pub const RECENT_SCHEDULES_MAX: usize = 100;
/// Attempts that are drawn at once: more would be a wall, and a page of a megabyte.
pub const SPANS_MAX: usize = 2_000;
/// The time over which counters are added up at once: each minute has a row for each kind and metric.
pub const SUM_LENGTH_MAX: std::time::Duration = std::time::Duration::from_secs(7 * 86_400);
/// Unfinished and failed jobs up to which queue statistics are counted for each request. Counting
/// this many takes about a millisecond; with more jobs, the counts are stored.
pub const COUNT_LIVE_MAX: usize = 2_000;
/// Unfinished and failed jobs that a request counts when there are no stored counts yet. Counting this
/// many takes about ten milliseconds. If there are more, the counts of the request are incomplete.
pub const COUNT_REQUEST_MAX: usize = 10_000;

/// Queues that one node serves; a claim looks at each.
pub const QUEUES_MAX: usize = 200;
/// Kinds that one node serves; a claim looks at each.
pub const KINDS_MAX: usize = 500;
/// Labels of a node.
pub const LABELS_MAX: usize = 50;
/// Roles that a beat renews: each is a write, every second.
pub const ROLES_MAX: usize = 100;
/// Leases that a node names at once: each stands for at least one job that it runs.
pub const LEASES_MAX: usize = 10_000;
/// Reports of progress in one beat: each is a write, and what is left out goes with the next.
pub const PROGRESS_MAX: usize = 500;
/// Steps of one job: the next attempt reads them all, and a loop that saves one in each turn is a
/// mistake.
pub const STEPS_MAX: usize = 1_000;
/// Lines of a log written at once: each is a row.
pub const LOG_LINES_MAX: usize = 1_000;
/// The number of a line within its attempt: nobody reads more, and they are dropped together.
pub const LOG_NUMBER_MAX: u32 = 10_000;
/// Schedules of a set that are written at once, as many as are fired at once.
pub const SET_ENTRIES_MAX: usize = 500;
/// Counters added to at once: each is a write.
pub const ROLLUP_MAX: usize = 1_000;
/// What is added to a counter at once, in either direction: a year in microseconds is a thirtieth
/// of it, and thousands of additions fit in the number that is kept.
pub const ROLLUP_VALUE_MAX: i64 = 1_000_000_000_000_000;

/// A payload: larger things belong in a blob store, with a reference here.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1_024;
/// A result: whoever looks at a job reads it.
pub const RESULT_BYTES_MAX: usize = 64 * 1_024;
/// A schedule's definition: it holds the payload of its jobs, and each revision is kept whole.
pub const SPEC_BYTES_MAX: usize = 64 * 1_024;
/// The text of an error; what is longer is cut, since it is for people.
pub const ERROR_BYTES_MAX: usize = 16 * 1_024;
/// Why a slot was skipped, a schedule set aside or something done; what is longer is cut, since it
/// is a sentence for people.
pub const REASON_BYTES_MAX: usize = 1_000;
/// The note of a progress; what is longer is cut, since it is one line for people.
pub const NOTE_BYTES_MAX: usize = 500;
/// A line of a log; what is longer is cut, since it is for people.
pub const LOG_LINE_BYTES_MAX: usize = 4 * 1_024;
/// Names of queues, kinds, tenants, owners, roles, schedules, sets, steps, metrics and of people.
pub const NAME_BYTES_MAX: usize = 200;
/// A unique key.
pub const KEY_BYTES_MAX: usize = 500;
/// A trace: the two headers of the W3C with room to spare; half of one would lead nowhere.
pub const TRACE_BYTES_MAX: usize = 1_000;
/// What a schedule tells the handler of its jobs: its name, expressions and zone fit.
pub const FACTS_BYTES_MAX: usize = 16 * 1_024;
/// Tags of one job; each is a name.
pub const TAGS_MAX: usize = 20;
/// Priorities go this far in both directions.
pub const PRIORITY_MAX: i16 = 100;
/// Attempts of one job.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// How far ahead a unit of priority puts a job: a rank is its due time less this per unit, so
/// that a low job waits at most the difference behind newer ones, and nothing starves.
pub const SECONDS_PER_PRIORITY: i64 = 60;

/// Cuts a text for people to its bound, at a character's end.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Checks a name: not empty unless it may be, not too long, nothing that cannot be seen.
pub fn check_name(what: &str, name: &str, may_be_empty: bool) -> Result<(), String> {
    if name.is_empty() && !may_be_empty {
        return Err(format!("{what} must not be empty; set a value"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!(
            "{what} is too long: {} bytes, maximum {NAME_BYTES_MAX}; use a shorter value",
            name.len()
        ));
    }
    match name.chars().find(|character| character.is_control()) {
        Some(control) => Err(format!(
            "{what} `{}` contains the control character {control:?}; remove it",
            name.escape_debug()
        )),
        None => Ok(()),
    }
}
