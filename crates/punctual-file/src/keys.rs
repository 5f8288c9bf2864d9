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
    key("tz", "/tz", Kind::Zone, "IANA time zone of the cron expressions; default UTC"),
    key(
        "seconds",
        "/seconds",
        Kind::Flag,
        "Allow cron expressions with a seconds field; default false",
    ),
    key("start", "/start", Kind::Instant, "No slots before this time"),
    key("end", "/end", Kind::Instant, "No slots after this time"),
    key(
        "jitter",
        "/jitter",
        Kind::Length,
        "Maximum delay between a slot and its job, derived from schedule name and slot; default 0s",
    ),
    key(
        "dst_gap",
        "/dst_gap",
        Kind::Word(&["end", "skip"]),
        "Local times that a clock change skips: fire once at the end of the gap, or skip them",
    ),
    key(
        "dst_fold",
        "/dst_fold",
        Kind::Word(&["first", "second", "both"]),
        "Local times that a clock change repeats: fire the first time, the second time, or both",
    ),
    key(
        "missed",
        "/missed",
        Kind::Word(&["none", "latest", "all"]),
        "What to do with slots that are more than 60s late: record them (none), create one job for \
         the latest, or one job for each (all); default latest",
    ),
    key(
        "missed_window",
        "/missed_window",
        Kind::Length,
        "Maximum lateness of a slot that is caught up; default 1d",
    ),
    key(
        "missed_limit",
        "/missed_limit",
        Kind::Number(1, 1_000),
        "Maximum number of slots to catch up, newest first; default 100",
    ),
    key(
        "missed_pace",
        "/missed_pace",
        Kind::Number(1, 1_000),
        "Number of jobs started per second while slots are caught up; default 5",
    ),
    key(
        "missed_paused",
        "/missed_paused",
        Kind::Flag,
        "Treat slots during a pause as missed instead of skipped; default false",
    ),
    key(
        "overlap",
        "/overlap",
        Kind::Word(&["allow", "skip", "queue_one", "queue_all", "cancel_running"]),
        "What to do with a slot while an earlier job is unfinished; default skip",
    ),
    key(
        "run_on",
        "/run_on",
        Kind::RunOn,
        "Nodes that run the jobs: any, every_node, node NAME or label KEY=VALUE; default any",
    ),
    key(
        "pause_after_failures",
        "/pause_after_failures",
        Kind::Number(1, 1_000_000),
        "Pause the schedule after this many failed jobs in a row",
    ),
    key(
        "exclude",
        "/exclude",
        Kind::Excluded,
        "Days and weekly periods without slots; `@NAME` refers to a calendar",
    ),
    key(
        "on_excluded",
        "/on_excluded",
        Kind::Word(&["skip", "next_working_day"]),
        "What to do with an excluded slot: skip it, or move it to the next day on which its time \
         is not excluded; default skip",
    ),
    key("queue", "/job/queue", Kind::Text, "Queue of the jobs; default `default`"),
    key(
        "priority",
        "/job/priority",
        Kind::Number(-100, 100),
        "Priority of the jobs, higher first; default 0",
    ),
    key(
        "max_attempts",
        "/job/max_attempts",
        Kind::Number(1, 1_000),
        "Maximum number of attempts; default 5",
    ),
    key(
        "backoff",
        "/job/backoff",
        Kind::Backoff,
        "Delay between attempts: fixed, linear or exponential, a base, and optionally a maximum",
    ),
    key("timeout", "/job/timeout", Kind::Length, "Maximum run time of one attempt"),
    key("budget", "/job/budget", Kind::Length, "Maximum run time of all attempts together"),
    key(
        "start_within",
        "/job/start_within",
        Kind::Length,
        "Start deadline: no attempt starts later than this after the job was due",
    ),
    key("tags", "/job/tags", Kind::Texts, "Tags of the jobs"),
];

/// Keys that only a schedule has, and that say what it is.
pub(crate) const OWN: &[(&str, &str)] = &[
    ("name", "Schedule name"),
    ("renamed_from", "Previous name of the schedule; its history is kept"),
    ("enabled", "Whether the schedule fires; default true"),
    ("cron", "One or more cron expressions"),
    ("every", "One or more fixed intervals, such as 15m"),
    ("at", "One or more single slots: a time in RFC 3339, or a local time in `tz`"),
    ("job", "Job to create: a kind, or a table with kind and payload"),
    ("command", "Command to run: program and arguments, or a table"),
    ("http", "HTTP request to send: a URL or a table"),
];

/// Deprecated names of keys, each with the current name. They are read with a warning and never
/// written.
pub(crate) const DEPRECATED: &[(&str, &str)] = &[("must_start_within", "start_within")];

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
    ("must_start_within", "start_within"),
    ("on_time_within", "start_within"),
    ("holidays", "exclude"),
    ("blackout", "exclude"),
    ("not_before", "start"),
    ("not_after", "end"),
    ("disabled", "enabled"),
];

/// The current name of a key, if this one is deprecated.
pub(crate) fn renamed(name: &str) -> Option<&'static str> {
    DEPRECATED.iter().find(|(old, _)| *old == name).map(|(_, current)| *current)
}

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
