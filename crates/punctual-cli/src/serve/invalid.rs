//! Messages for settings that cannot be read: where the value is from, its key and what is allowed.

use figment::error::{Actual, Kind};
use figment::{Error, Source};
use punctual_core::nearest;

use super::settings::VARIABLES;
use crate::exit::Failure;

/// The failure for an error of figment.
pub(super) fn invalid_settings(error: &Error) -> Failure {
    let message = message(error);
    Failure::usage(match origin(error) {
        Some(origin) => format!("{origin}: {message}"),
        None => message,
    })
}

/// The file or the environment variable that has the value.
fn origin(error: &Error) -> Option<String> {
    let metadata = error.metadata.as_ref()?;
    match &metadata.source {
        Some(file @ Source::File(_)) => Some(format!("`{file}`")),
        Some(_) => None,
        None if metadata.name.contains(VARIABLES) && !error.path.is_empty() => {
            let name = error.path.join("__").to_uppercase();
            Some(format!("environment variable `{VARIABLES}{name}`"))
        }
        None => None,
    }
}

fn message(error: &Error) -> String {
    let key = error.path.join(".");
    match &error.kind {
        Kind::UnknownField(name, keys) => {
            let meant = nearest(name, keys.iter().copied());
            let meant = meant.map_or_else(String::new, |key| format!("did you mean `{key}`? "));
            format!("unknown key `{key}`; {meant}expected one of {}", keys.join(", "))
        }
        Kind::UnknownVariant(name, values) => {
            format!("`{key}`: unknown value `{name}`; expected one of {}", values.join(", "))
        }
        Kind::MissingField(name) => {
            let key: Vec<&str> = error.path.iter().map(String::as_str).chain([&**name]).collect();
            format!("missing key `{}`", key.join("."))
        }
        Kind::InvalidValue(Actual::Signed(number), expected)
            if *number < 0 && is_unsigned(expected) =>
        {
            format!("`{key}` must be at least 0, got {number}")
        }
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            format!(
                "`{key}` must be {}, got {}",
                allowed(expected),
                found(actual, is_secret(error))
            )
        }
        Kind::Message(message) if key.is_empty() => message.trim_end().to_owned(),
        Kind::Message(message) => format!("`{key}`: {message}"),
        kind if key.is_empty() => kind.to_string(),
        kind => format!("`{key}`: {kind}"),
    }
}

/// Values of these settings may be passwords and are not printed.
fn is_secret(error: &Error) -> bool {
    error.path.first().is_some_and(|key| ["database", "secrets"].contains(&key.as_str()))
}

fn is_unsigned(expected: &str) -> bool {
    ["u8", "u16", "u32", "u64", "u128", "usize"].contains(&expected)
}

/// A Rust type as an operator knows it.
fn allowed(expected: &str) -> &str {
    match expected {
        expected if is_unsigned(expected) => "a whole number",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "path string" => "a string",
        "a sequence" => "a list",
        "a map" => "a table",
        expected if expected.starts_with("struct ") => "a table",
        expected => expected,
    }
}

fn found(actual: &Actual, is_secret: bool) -> String {
    match actual {
        Actual::Str(_) if is_secret => "a string".to_owned(),
        Actual::Str(text) => format!("{text:?}"),
        Actual::Bool(value) => value.to_string(),
        Actual::Unsigned(number) => number.to_string(),
        Actual::Signed(number) => number.to_string(),
        Actual::Float(number) => number.to_string(),
        Actual::Seq => "a list".to_owned(),
        Actual::Map => "a table".to_owned(),
        Actual::Unit => "no value".to_owned(),
        actual => actual.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use figment::Figment;
    use figment::providers::{Format, Serialized, Toml};
    use insta::assert_snapshot;

    use super::super::settings::{Settings, read};

    /// The message for a file with this text.
    fn refused(text: &str) -> String {
        let layers = Figment::from(Serialized::defaults(Settings::default()));
        let refused = read(&layers.merge(Toml::string(text)));
        refused.expect_err("settings that are refused").message().to_owned()
    }

    #[test]
    fn unknown_keys_are_named_with_the_known_ones() {
        assert_snapshot!(refused("[server]\nlisen = \"x\""), @"unknown key `server.lisen`; did you mean `listen`? expected one of listen, token_file, read_only, roles, unknown_kinds");
        assert_snapshot!(refused("[sever]\nlisten = \"x\""), @"unknown key `sever`; did you mean `server`? expected one of server, database, node, worker, http, log, command, commands, secrets");
        assert_snapshot!(refused("[worker]\nconcurrency = 3"), @"unknown key `worker.concurrency`; expected one of queues, queue_order, max_running, shutdown_grace");
        assert_snapshot!(refused("[commands.a]\nargs = [\"x\"]"), @"unknown key `commands.a.args`; did you mean `argv`? expected one of argv, params, shell, env, cwd, user, group, stdin, success_codes, retry_codes, limits");
        assert_snapshot!(refused("[commands.a]\nshell = true"), @"missing key `commands.a.argv`");
    }

    #[test]
    fn wrong_types_are_told_with_the_value() {
        assert_snapshot!(refused("[worker]\nmax_running = \"lots\""), @r#"`worker.max_running` must be a whole number, got "lots""#);
        assert_snapshot!(refused("[worker]\nmax_running = -1"), @"`worker.max_running` must be at least 0, got -1");
        assert_snapshot!(refused("[worker]\nmax_running = 1.5"), @"`worker.max_running` must be a whole number, got 1.5");
        assert_snapshot!(refused("[worker]\nqueues = \"mail\""), @r#"`worker.queues` must be a list, got "mail""#);
        assert_snapshot!(refused("[worker]\nqueues = [\"mail\", 1]"), @"`worker.queues.1` must be a string, got 1");
        assert_snapshot!(refused("[server]\nread_only = \"yes\""), @r#"`server.read_only` must be true or false, got "yes""#);
        assert_snapshot!(refused("[server]\ntoken_file = 1"), @"`server.token_file` must be a string, got 1");
        assert_snapshot!(refused("server = true"), @"`server` must be a table, got true");
        assert_snapshot!(refused("[commands.a]\nargv = [\"x\"]\nparams = { y = 1 }"), @"`commands.a.params.y`: invalid parameter; expected string, integer, number or boolean, or a table with `type`, `default`, `values` and `pattern`");
    }

    #[test]
    fn values_that_may_be_secret_are_not_printed() {
        assert_snapshot!(refused("[secrets]\nkey = \"hunter2\""), @"`secrets.key` must be a table, got a string");
        assert_snapshot!(refused("secrets = \"hunter2\""), @"`secrets` must be a table, got a string");
        assert_snapshot!(refused("[secrets]\nkey = { }"), @r#"`secrets.key`: invalid secret source; use either { env = "NAME" } or { file = "PATH" }"#);
        assert_snapshot!(refused("database = \"postgres://a:hunter2@b\""), @"`database` must be a table, got a string");
    }
}
