//! Bounds on what a store takes, each with the reason for its number.

/// Jobs written in one transaction: more makes commits long without making them cheaper.
pub const ENQUEUE_MAX: usize = 1_000;
/// Jobs claimed at once: beyond this a claim takes longer and gains nothing.
pub const CLAIM_MAX: usize = 200;
/// Transitions settled in one transaction.
pub const SETTLE_MAX: usize = 1_000;
/// Schedules fired in one transaction.
pub const FIRE_MAX: usize = 500;
/// Rows of one page of a list.
pub const PAGE_MAX: usize = 500;
/// Kinds that one node serves; a claim looks at each.
pub const KINDS_MAX: usize = 500;
/// Jobs that one release gives back: as with a settle, more makes commits long and nothing cheaper.
pub const RELEASE_MAX: usize = 1_000;
/// Leases that a node names at once: each stands for at least one job that it runs.
pub const LEASES_MAX: usize = 10_000;
/// Reports of progress in one beat: each is a write, and what is left out goes with the next.
pub const PROGRESS_MAX: usize = 500;

/// A payload: larger things belong in a blob store, with a reference here.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1_024;
/// A result.
pub const RESULT_BYTES_MAX: usize = 64 * 1_024;
/// The text of an error; what is longer is cut, since it is for people.
pub const ERROR_BYTES_MAX: usize = 16 * 1_024;
/// The note of a progress; what is longer is cut, since it is one line for people.
pub const NOTE_BYTES_MAX: usize = 500;
/// Names of queues, kinds, tenants, owners, roles and schedules.
pub const NAME_BYTES_MAX: usize = 200;
/// A unique key.
pub const KEY_BYTES_MAX: usize = 500;
/// Tags of one job, and the length of each.
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
        return Err(format!("the {what} is empty"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("the {what} has {} bytes; the most is {NAME_BYTES_MAX}", name.len()));
    }
    match name.chars().find(|character| character.is_control()) {
        Some(control) => Err(format!("the {what} `{}` contains {control:?}", name.escape_debug())),
        None => Ok(()),
    }
}
