//! The keys of a schedule: what each is called, where it goes, what may stand there. Reading,
//! writing and the published schema all follow this one table.

/// What may stand at a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Any text but an empty one.
    Text,
    /// Texts.
    Texts,
    /// Days and times of the week, and names of calendars.
    Excluded,
    /// Yes or no.
    Flag,
    /// A whole number within these bounds.
    Number(i64, i64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// The name of a zone.
    Zone,
    /// A length of time.
    Length,
    /// An instant.
    Instant,
    /// Which nodes run it.
    RunOn,
    /// Waits between attempts.
    Backoff,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// What it is called.
    pub(crate) name: &'static str,
    /// Where it goes in the definition, as a JSON pointer.
    pub(crate) at: &'static str,
    /// What may stand there.
    pub(crate) kind: Kind,
    /// What it is for.
    pub(crate) about: &'static str,
}

const fn key(name: &'static str, at: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, at, kind, about }
}

/// Keys that a schedule and `[defaults]` may have, in the order in which they are written.
pub(crate) const KEYS: &[Key] = &[
    key(
        "tz",
        "/tz",
        Kind::Zone,
        "The zone of cron expressions, by its IANA name; UTC if nothing is said",
    ),
    key("seconds", "/seconds", Kind::Flag, "May expressions have a field for seconds?"),
    key("start", "/start", Kind::Instant, "No slot before this instant"),
    key("end", "/end", Kind::Instant, "No slot after this instant"),
    key(
        "jitter",
        "/jitter",
        Kind::Length,
        "Jobs start up to this long after their slot, spread by name",
    ),
    key(
        "dst_gap",
        "/dst_gap",
        Kind::Word(&["end", "skip"]),
        "What becomes of a time that the clocks skip",
    ),
    key(
        "dst_fold",
        "/dst_fold",
        Kind::Word(&["first", "second", "both"]),
        "What becomes of a time that the clocks repeat",
    ),
    key(
        "missed",
        "/missed",
        Kind::Word(&["none", "latest", "all"]),
        "What becomes of slots that nobody fired in time",
    ),
    key("missed_window", "/missed_window", Kind::Length, "How late a slot may be caught up"),
    key(
        "missed_limit",
        "/missed_limit",
        Kind::Number(1, 1_000),
        "How many slots are caught up, the newest",
    ),
    key(
        "missed_pace",
        "/missed_pace",
        Kind::Number(1, 1_000),
        "How many jobs a second begin while slots are caught up",
    ),
    key(
        "missed_paused",
        "/missed_paused",
        Kind::Flag,
        "Are slots of paused time missed, instead of skipped on purpose?",
    ),
    key(
        "overlap",
        "/overlap",
        Kind::Word(&["allow", "skip", "queue_one", "queue_all", "cancel_running"]),
        "What becomes of a slot while an earlier job is unfinished",
    ),
    key(
        "run_on",
        "/run_on",
        Kind::RunOn,
        "Which nodes run its jobs: any, every_node, node NAME, label K=V",
    ),
    key(
        "pause_after_failures",
        "/pause_after_failures",
        Kind::Number(1, 1_000_000),
        "Paused after this many failed jobs in a row",
    ),
    key(
        "exclude",
        "/exclude",
        Kind::Excluded,
        "Days and times of the week at which it does not fire; `@NAME` stands for a calendar",
    ),
    key(
        "on_excluded",
        "/on_excluded",
        Kind::Word(&["skip", "next_working_day"]),
        "What becomes of a slot that `exclude` has",
    ),
    key("queue", "/job/queue", Kind::Text, "Where its jobs wait"),
    key("priority", "/job/priority", Kind::Number(-100, 100), "Higher goes first"),
    key(
        "max_attempts",
        "/job/max_attempts",
        Kind::Number(1, 1_000),
        "The most counted attempts of a job",
    ),
    key(
        "backoff",
        "/job/backoff",
        Kind::Backoff,
        "The waits between attempts: fixed, linear or exponential, a first wait, and perhaps a longest",
    ),
    key("timeout", "/job/timeout", Kind::Length, "The most time for one attempt"),
    key("budget", "/job/budget", Kind::Length, "The most time for all attempts together"),
    key(
        "must_start_within",
        "/job/start_within",
        Kind::Length,
        "No attempt starts later than this after its job was due",
    ),
    key("tags", "/job/tags", Kind::Texts, "Words to find its jobs by"),
];

/// Keys that only a schedule has, and that say what it is.
pub(crate) const OWN: &[(&str, &str)] = &[
    ("name", "Its name, which is what it is known by"),
    ("renamed_from", "What it was called before: it keeps its history"),
    ("enabled", "Is it planned at all? True if nothing is said"),
    ("cron", "One or several cron expressions"),
    ("every", "A length of time: slots at this distance"),
    ("at", "An instant, or a local time of the zone: one slot"),
    ("job", "The job that a slot becomes: a kind, and what its handler is given"),
    ("command", "A command that a slot runs"),
    ("http", "A request that a slot sends"),
];

/// What others call it; two where they have one.
const ALIASES: &[(&str, &str)] = &[
    ("timezone", "tz"),
    ("time_zone", "tz"),
    ("zone", "tz"),
    ("schedule", "cron"),
    ("when", "cron"),
    ("expression", "cron"),
    ("interval", "every"),
    ("retry", "max_attempts backoff"),
    ("retries", "max_attempts"),
    ("attempts", "max_attempts"),
    ("catch_up", "missed"),
    ("misfire", "missed"),
    ("concurrency", "overlap"),
    ("run", "command"),
    ("exec", "command"),
    ("argv", "command"),
    ("url", "http"),
    ("kind", "job"),
    ("start_within", "must_start_within"),
    ("on_time_within", "must_start_within"),
    ("holidays", "exclude"),
    ("blackout", "exclude"),
    ("not_before", "start"),
    ("not_after", "end"),
    ("disabled", "enabled"),
];

/// The key that was probably meant, of these.
pub(crate) fn meant(written: &str, known: impl Iterator<Item = &'static str>) -> Option<String> {
    let known: Vec<&str> = known.collect();
    let alias = ALIASES.iter().find(|(other, _)| *other == written).map(|(_, key)| *key);
    let is_known = |alias: &&str| alias.split(' ').all(|key| known.contains(&key));
    let nearest = || punctual_core::nearest(written, known.iter().copied());
    let meant = alias.filter(is_known).or_else(nearest)?;
    Some(format!("did you mean `{}`?", meant.replace(' ', "` and `")))
}

/// What files call a part of a definition, such as `job.start_within`.
pub fn key_of(field: &str) -> &str {
    let pointer = format!("/{}", field.replace('.', "/"));
    match KEYS.iter().find(|key| key.at == pointer) {
        Some(key) => key.name,
        None if field == "when" => "cron",
        None => field,
    }
}
