//! The server's log on stderr: level and format.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;

use tracing_subscriber::EnvFilter;

use super::lossy_writer::LossyWriter;
use super::settings::LogSettings;
use crate::exit::Failure;
use crate::output;

/// The variable that replaces `log.level`, as in other programs that use `tracing`.
const LEVEL_VARIABLE: &str = "RUST_LOG";

/// How an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// One line of text.
    Text,
    /// One line with a JSON object.
    Json,
}

/// Checks the settings, without starting to log.
pub(super) fn check(settings: &LogSettings) -> Result<(), Failure> {
    filter("log.level", &settings.level)?;
    format(&settings.format)?;
    Ok(())
}

/// Starts logging to stderr, panics included. In one process, the first call decides.
pub(super) fn init(settings: &LogSettings) -> Result<LossyWriter, Failure> {
    let filter = match level_of_variable()? {
        Some(filter) => filter,
        None => filter("log.level", &settings.level)?,
    };
    let format = format(&settings.format)?;
    let stderr = io::stderr();
    let has_colors =
        stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
    let writer = LossyWriter::start(output(stderr))
        .map_err(|error| Failure::failed(format!("cannot start the log thread: {error}")))?;
    let lines = LogLines { writer: writer.clone(), format, has_colors };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(has_colors)
        .with_writer(move || lines.clone());
    // An error means that this process already logs, as in tests.
    let _ = match format {
        Format::Text => log.try_init(),
        Format::Json => log.json().flatten_event(true).with_current_span(true).try_init(),
    };
    std::panic::set_hook(Box::new(log_panic));
    Ok(writer)
}

/// Takes formatted events, one for each call of `write`. Values of fields come from jobs, workers and
/// clients; nothing in them controls the terminal of the log's reader or begins another line.
#[derive(Clone)]
struct LogLines {
    writer: LossyWriter,
    format: Format,
    has_colors: bool,
}

impl Write for LogLines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = match self.format {
            Format::Json => output::in_json(&text).into_owned(),
            Format::Text => plain_event(&text, self.has_colors),
        };
        self.writer.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The event with further lines indented, so that none of them looks like an event. The formatter's
/// colours stay. It replaces the escape character in messages and errors, but not in values that are
/// recorded with `%`: these can set the same colours, and nothing else.
fn plain_event(event: &str, has_colors: bool) -> String {
    let event = event.trim_end_matches('\n').replace('\n', "\n    ");
    let event = match has_colors {
        true => output::visible_with_colors(&event),
        false => output::visible(&event).into_owned(),
    };
    format!("{event}\n")
}

/// A descriptor of its own: a thread that cannot write must not hold the lock of `io::stderr`.
fn output(stderr: io::Stderr) -> Box<dyn Write + Send> {
    match stderr.as_fd().try_clone_to_owned() {
        Ok(own) => Box::new(File::from(own)),
        Err(_) => Box::new(stderr),
    }
}

/// The usual hook writes to stderr itself, and would wait for its reader.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured)
        .then(|| tracing::field::display(backtrace));
    tracing::error!(
        thread = thread.name(),
        location = panic.location().map(tracing::field::display),
        backtrace,
        "panic: {}",
        panic.payload_as_str().unwrap_or("no message")
    );
}

/// Checks the variable that replaces `log.level`, as [`init`] does.
pub(super) fn check_variable() -> Result<(), Failure> {
    level_of_variable().map(drop)
}

/// The filter of `RUST_LOG`, if it is set.
fn level_of_variable() -> Result<Option<EnvFilter>, Failure> {
    match std::env::var(LEVEL_VARIABLE) {
        Ok(level) if !level.is_empty() => filter(LEVEL_VARIABLE, &level).map(Some),
        _ => Ok(None),
    }
}

const LEVEL_HINT: &str = "use off, error, warn, info, debug or trace, or TARGET=LEVEL, separated by commas, for example warn,punctual=info";

fn filter(name: &str, level: &str) -> Result<EnvFilter, Failure> {
    let invalid = |message: String| Failure::usage(message).hint(LEVEL_HINT);
    let directives = directives(level).map_err(|why| invalid(format!("{name}: {why}")))?;
    EnvFilter::builder()
        .parse(directives)
        .map_err(|error| invalid(format!("{name}: invalid level `{level}`: {error}")))
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The directives without spaces around them. `EnvFilter` takes a word that is not a level for a target
/// and then logs nothing else, so a target must have a level here.
fn directives(text: &str) -> Result<String, String> {
    let directives: Vec<String> = text
        .split(',')
        .map(str::trim)
        .filter(|directive| !directive.is_empty())
        .map(directive)
        .collect::<Result<_, _>>()?;
    match directives.is_empty() {
        true => Err("the level must not be empty".to_owned()),
        false => Ok(directives.join(",")),
    }
}

fn directive(directive: &str) -> Result<String, String> {
    if let Some((target, level)) = directive.rsplit_once('=') {
        return Ok(format!("{}={}", target.trim(), level.trim()));
    }
    let level = directive.to_ascii_lowercase();
    if LEVELS.contains(&level.as_str()) {
        return Ok(level);
    }
    let meant = LEVELS
        .into_iter()
        .find(|known| level.starts_with(known))
        .or_else(|| punctual_core::nearest(&level, LEVELS));
    let meant = meant.map_or_else(String::new, |known| format!("; did you mean `{known}`?"));
    Err(format!("unknown level `{directive}`{meant}"))
}

fn format(name: &str) -> Result<Format, Failure> {
    match name {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        other => Err(Failure::usage(format!(
            "log.format: unknown value `{other}`; expected text or json"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_keeps_the_colors_of_the_formatter_and_nothing_else() {
        let event = "\x1b[2mtime\x1b[0m \x1b[31mERROR\x1b[0m a\x1b]0;x\x07\u{9b}2J\u{202e}\nb\n";
        assert_eq!(
            plain_event(event, true),
            "\x1b[2mtime\x1b[0m \x1b[31mERROR\x1b[0m a\\x1b]0;x\\x07\\u{9b}2J\\u{202e}\n    b\n"
        );
        // Hidden, black, inverse and extended colours, and combinations.
        let event = "a\x1b[8mb\x1b[30mc\x1b[7md\x1b[38;5;0me\x1b[0;8mf\x1b[m\n";
        assert_eq!(
            plain_event(event, true),
            "a\\x1b[8mb\\x1b[30mc\\x1b[7md\\x1b[38;5;0me\\x1b[0;8mf\\x1b[m\n"
        );
        assert_eq!(plain_event("a\x1b[31mb\n", false), "a\\x1b[31mb\n");
    }

    #[test]
    fn a_word_that_is_no_level_is_an_error_and_not_a_target() {
        for (text, expected) in [
            ("warn,punctual=info", Ok("warn,punctual=info")),
            (" WARN , punctual = Debug ,", Ok("warn,punctual=Debug")),
            ("off", Ok("off")),
            ("warning", Err("unknown level `warning`; did you mean `warn`?")),
            ("info,wran", Err("unknown level `wran`; did you mean `warn`?")),
            ("loud", Err("unknown level `loud`")),
            ("punctual", Err("unknown level `punctual`")),
            ("", Err("the level must not be empty")),
            (" , ", Err("the level must not be empty")),
        ] {
            let found = directives(text);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text:?}");
            assert_eq!(filter("log.level", text).is_ok(), expected.is_ok(), "{text:?}");
        }
        assert!(filter("log.level", "punctual=loud").is_err());
    }
}
