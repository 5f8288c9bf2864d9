//! The lines of a crontab: settings, entries, and what is neither.

use std::collections::BTreeMap;
use std::ops::Range;

use punctual_core::{When, Zone};

use super::expression;
use crate::place::{Mistake, Place, Source, echo};

/// Whose crontab it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A user's own, as `crontab -l` prints it.
    User,
    /// The system's, with a column for the user: `/etc/crontab` and the files of `/etc/cron.d`.
    System,
}

/// One entry of a crontab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it stands.
    pub place: Place,
    /// The line as it was written.
    pub line: String,
    /// When it is due, as punctual writes it.
    pub expression: String,
    /// As whom it runs, if the crontab says so.
    pub user: Option<String>,
    /// What the shell is given.
    pub command: String,
    /// What the command reads.
    pub stdin: Option<String>,
    /// The settings above it that commands see.
    pub env: BTreeMap<String, String>,
    /// The zone that `CRON_TZ` names above it.
    pub tz: Option<String>,
    /// What `RANDOM_DELAY` says above it, in minutes.
    pub delay_minutes: Option<u32>,
}

/// What is in a crontab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tab {
    /// What it runs.
    pub entries: Vec<Entry>,
    /// What is no entry, and cannot become a schedule.
    pub mistakes: Vec<Mistake>,
    /// What becomes something else than it was, or needs a look.
    pub attention: Vec<Mistake>,
}

const BLANKS: [char; 2] = [' ', '\t'];

/// Reads a crontab.
pub fn parse(source: &Source, form: Form) -> Tab {
    let mut reader = Reader { source, form, tab: Tab::default(), settings: BTreeMap::new() };
    let mut start = 0;
    for line in source.text.split_inclusive('\n') {
        reader.line(line.trim_end_matches(['\n', '\r']), start);
        start += line.len();
    }
    reader.tab
}

struct Reader<'a> {
    source: &'a Source,
    form: Form,
    tab: Tab,
    settings: BTreeMap<String, String>,
}

impl Reader<'_> {
    fn mistake(&mut self, span: Range<usize>, message: impl Into<String>, hint: &str) {
        let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        self.tab.mistakes.push(self.source.mistake(span, message, hint));
    }

    fn attention(&mut self, span: Range<usize>, message: impl Into<String>, hint: &str) {
        let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        self.tab.attention.push(self.source.mistake(span, message, hint));
    }

    fn line(&mut self, whole: &str, start: usize) {
        let line = whole.trim_start_matches(BLANKS);
        let at = start + whole.len() - line.len();
        if line.is_empty() || line.starts_with('#') {
            return;
        }
        match setting(line) {
            Some((name, value)) => self.set(name, value, at..at + line.len()),
            None => self.entry(line, at),
        }
    }

    fn set(&mut self, name: String, value: String, span: Range<usize>) {
        match name.as_str() {
            "MAILTO" if !value.is_empty() => self.attention(
                span.clone(),
                format!("MAILTO={} is ignored: output is not sent by mail", echo(&value)),
                "output is stored; show it with `punctual job logs ID`",
            ),
            "CRON_TZ" => {
                if let Err(error) = Zone::get(&value) {
                    self.mistake(span, error.to_string(), "");
                    return;
                }
            }
            "RANDOM_DELAY" if value.parse::<u32>().is_err() => {
                let value = echo(&value);
                let message =
                    format!("invalid RANDOM_DELAY `{value}`; expected a number of minutes");
                self.mistake(span, message, "");
                return;
            }
            _ => {}
        }
        self.settings.insert(name, value);
    }

    fn entry(&mut self, line: &str, at: usize) {
        let mut rest = Rest { line, at: 0 };
        let silenced = line
            .strip_prefix('-')
            .is_some_and(|more| more.starts_with(|one: char| one == '*' || one.is_ascii_digit()));
        if silenced {
            self.attention(
                at..at + 1,
                "the leading `-`, which turns off syslog messages, is ignored",
                "",
            );
            rest.at = 1;
        }
        let first = rest.at;
        let fields = if line[first..].starts_with('@') { 1 } else { 5 };
        let mut words: Vec<(&str, Range<usize>)> = Vec::new();
        for _ in 0..fields {
            words.extend(rest.word());
        }
        let end = words.last().map_or(first, |(_, span)| span.end);
        if words.len() < fields || line[end..].trim_matches(BLANKS).is_empty() {
            let message = "invalid line: neither a setting nor an entry with a command";
            let hint = match self.form {
                Form::User => "an entry has five fields and a command, such as `30 2 * * * backup`",
                Form::System => {
                    "an entry has five fields, a user and a command, such as \
                     `30 2 * * * root backup`"
                }
            };
            self.mistake(at..at + line.len(), message, hint);
            return;
        }
        if words[0].0 == "@reboot" {
            self.mistake(
                at..at + "@reboot".len(),
                "`@reboot` is not supported: it is an event, not a time",
                "start the program with the service manager, for example a systemd unit with \
                 `WantedBy=multi-user.target`",
            );
            return;
        }
        let written: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let read = expression::translate(&written);
        // `H` is spread by name, which is not known yet and makes no difference here.
        if let Err(error) = When::parse_named(&read.text, "crontab") {
            let span = at + first..at + end;
            let exact = expression::locate(&read.text, &error.span(), &words);
            let span = exact.map_or(span, |exact| at + exact.start..at + exact.end);
            let message = error.message();
            self.mistake(span, message, error.hint().unwrap_or(""));
            return;
        }
        for note in read.notes {
            self.attention(at + first..at + end, note, "");
        }
        let user = match self.form {
            Form::User => None,
            Form::System => rest.word().map(|(user, _)| user.to_owned()),
        };
        let command = rest.rest();
        if command.is_empty() {
            let hint = "in a system crontab, the sixth field is the user; for a user crontab, omit \
                        --system";
            self.mistake(at..at + line.len(), "missing command after the user", hint);
            return;
        }
        if self.form == Form::User && command.starts_with("root ") {
            self.attention(
                at..at + line.len(),
                "the command starts with `root`",
                "if `root` is the user column, add --system",
            );
        }
        let (command, stdin) = split_at_percent(command);
        let setting = |name: &str| self.settings.get(name).cloned();
        let entry = Entry {
            place: self.source.place(at),
            line: line.to_owned(),
            expression: read.text,
            user,
            command,
            stdin,
            tz: setting("CRON_TZ"),
            delay_minutes: setting("RANDOM_DELAY")
                .and_then(|text| text.parse().ok())
                .filter(|it| *it > 0),
            env: self.settings.clone(),
        };
        self.tab.entries.push(entry);
    }
}

/// What is left of a line.
struct Rest<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Rest<'a> {
    fn word(&mut self) -> Option<(&'a str, Range<usize>)> {
        let rest = &self.line[self.at..];
        let start = self.at + rest.len() - rest.trim_start_matches(BLANKS).len();
        let end = self.line[start..].find(BLANKS).map_or(self.line.len(), |blank| start + blank);
        self.at = end;
        (start < end).then(|| (&self.line[start..end], start..end))
    }

    fn rest(&self) -> &'a str {
        self.line[self.at..].trim_matches(BLANKS)
    }
}

/// `NAME = value`, either of them in quotes or not.
fn setting(line: &str) -> Option<(String, String)> {
    let (name, rest) = match line.chars().next().filter(|one| ['"', '\''].contains(one)) {
        Some(quote) => line[1..].split_once(quote)?,
        None => {
            let end = line.find(|one: char| one == '=' || BLANKS.contains(&one))?;
            line.split_at(end)
        }
    };
    let value = rest.trim_start_matches(BLANKS).strip_prefix('=')?.trim_matches(BLANKS);
    if name.is_empty() {
        return None;
    }
    let unquoted = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote).and_then(|rest| rest.strip_suffix(*quote)));
    Some((name.to_owned(), unquoted.unwrap_or(value).to_owned()))
}

/// The first `%` ends the command; what follows is its input, where each further `%` is the end of
/// a line. `\%` is a percent sign.
fn split_at_percent(text: &str) -> (String, Option<String>) {
    let (mut command, mut stdin) = (String::new(), None::<String>);
    let mut is_escaped = false;
    for one in text.chars() {
        let target = stdin.as_mut().unwrap_or(&mut command);
        match one {
            '%' if is_escaped => {
                target.pop();
                target.push('%');
            }
            '%' => match &mut stdin {
                Some(stdin) => stdin.push('\n'),
                None => stdin = Some(String::new()),
            },
            one => target.push(one),
        }
        is_escaped = one == '\\' && !is_escaped;
    }
    let stdin =
        stdin.map(|text| if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" });
    (command.trim_end_matches(BLANKS).to_owned(), stdin.filter(|text| !text.is_empty()))
}
