//! The layout of `--help`: commands in groups, options under headings.
//!
//! clap lists all subcommands under one heading. The groups are therefore part of a help template
//! that is generated from the commands themselves, so that each description is written once.

use std::fmt::Write as _;

use clap::builder::Resettable;
use clap::{Arg, ArgAction, Command};

/// Headings and the commands under each of them.
type Groups = &'static [(&'static str, &'static [&'static str])];

const PUNCTUAL: Groups = &[
    ("Run", &["serve", "dev", "exec"]),
    ("Inspect", &["top", "events", "why", "doctor", "leader"]),
    ("Change", &["schedule", "job", "queue", "node"]),
    ("Schedules as code", &["diff", "apply", "export", "import", "simulate", "schema", "cron"]),
    ("Administer", &["db", "config", "completions", "man"]),
];

const SCHEDULE: Groups = &[
    ("Inspect", &["list", "show", "next", "slots", "revisions"]),
    (
        "Change",
        &["create", "edit", "delete", "pause", "resume", "enable", "disable", "realign", "run"],
    ),
];

const JOB: Groups = &[
    ("Inspect", &["list", "show", "logs", "wait"]),
    ("Change", &["enqueue", "retry", "cancel", "move"]),
];

/// Commands that connect to nothing. They accept the connection options and do not list them.
const OFFLINE: &[&str] = &["import", "simulate", "schema", "cron", "completions", "man"];

/// Commands with the settings of a server: the database is the one to serve, and the token the one
/// to require.
const SERVERS: &[&str] = &["serve", "dev", "config"];

const OPTIONS: &str = "Options";

/// The heading of the options of a server, which [`crate::serve::settings::Flags`] uses as well.
pub(crate) const SERVER: &str = "Server";

/// The same commands, with their help laid out.
pub(crate) fn arranged(command: Command) -> Command {
    let connection: Vec<Arg> =
        command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    let command = command
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args([help_flag(), version_flag()].map(|flag| flag.help_heading(Resettable::Reset)))
        .mut_subcommands(|subcommand| {
            let subcommand = with_headings(subcommand);
            let subcommand = match subcommand.get_name() {
                name if OFFLINE.contains(&name) => {
                    subcommand.args(connection.iter().cloned().map(|arg| arg.hide(true)))
                }
                name if SERVERS.contains(&name) => {
                    subcommand.args(connection.iter().cloned().map(for_server))
                }
                "exec" => subcommand.args(connection.iter().cloned().map(for_recording)),
                _ => subcommand,
            };
            match subcommand.get_name() {
                "schedule" => grouped(subcommand, "punctual schedule", SCHEDULE),
                "job" => grouped(subcommand, "punctual job", JOB),
                _ => subcommand,
            }
        });
    grouped(command, "punctual", PUNCTUAL)
}

/// clap prints options without a heading first. With a heading they follow the groups of the command,
/// and the connection options come last.
fn with_headings(command: Command) -> Command {
    let headed = |arg: Arg| match arg.is_positional() || arg.get_help_heading().is_some() {
        true => arg,
        false if arg.get_id() == "json" => arg.help_heading(OPTIONS).display_order(990),
        false => arg.help_heading(OPTIONS),
    };
    command
        .mut_args(headed)
        .args([help_flag().help_heading(OPTIONS), version_flag().help_heading(OPTIONS)])
        .mut_subcommands(with_headings)
}

fn help_flag() -> Arg {
    let help = Arg::new("help").short('h').long("help").help("Print help");
    help.action(ArgAction::Help).display_order(998)
}

fn version_flag() -> Arg {
    let version = Arg::new("version").short('V').long("version").help("Print version");
    version.action(ArgAction::Version).display_order(999)
}

/// A connection option as a server reads it.
fn for_server(arg: Arg) -> Arg {
    let arg = arg.help_heading(SERVER);
    match arg.get_id().as_str() {
        "database" => arg.help(
            "Database: sqlite://FILE or postgres://USER@HOST/DATABASE [default: \
             sqlite://punctual.db]",
        ),
        "token" => arg.help("API token to require, if --token-file is not set"),
        _ => arg.hide(true),
    }
}

/// A connection option as `exec` reads it, which has no default server.
fn for_recording(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "server" => arg.help("Server that records the run"),
        "database" => arg.help(
            "Database that records the run, without a server: sqlite://FILE or \
             postgres://USER@HOST/DATABASE",
        ),
        _ => arg,
    }
}

/// Lists the subcommands in groups.
fn grouped(command: Command, name: &str, groups: Groups) -> Command {
    let list = list(&command, groups);
    command
        .help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n\
             {list}\n{{all-args}}{{after-help}}"
        ))
        // clap leaves `<COMMAND>` out where all subcommands are hidden.
        .override_usage(format!("{name} [OPTIONS] <COMMAND>"))
        .mut_subcommands(|subcommand| subcommand.hide(true))
}

fn list(command: &Command, groups: Groups) -> String {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let names = groups.iter().flat_map(|(_, names)| names.iter());
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let mut list = String::new();
    for (heading, names) in groups {
        // Writing to a string does not fail.
        let _ = writeln!(list, "{header}{heading}:{header:#}");
        for name in *names {
            let subcommand = command.find_subcommand(name);
            let about = subcommand.and_then(Command::get_about).cloned().unwrap_or_default();
            let aliases: Vec<&str> =
                subcommand.into_iter().flat_map(Command::get_visible_aliases).collect();
            let aliases = match aliases.is_empty() {
                true => String::new(),
                false => format!(" [alias: {}]", aliases.join(", ")),
            };
            let _ = writeln!(list, "  {literal}{name:<width$}{literal:#}  {about}{aliases}");
        }
        list.push('\n');
    }
    list.truncate(list.trim_end().len() + 1);
    list
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Arguments;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Arguments::command();
        let of = |name| command.find_subcommand(name).expect("a command with groups");
        for (command, groups) in
            [(&command, PUNCTUAL), (of("schedule"), SCHEDULE), (of("job"), JOB)]
        {
            let mut grouped: Vec<&str> =
                groups.iter().flat_map(|(_, names)| names.iter().copied()).collect();
            let mut commands: Vec<&str> =
                command.get_subcommands().map(|subcommand| subcommand.get_name()).collect();
            grouped.sort_unstable();
            commands.sort_unstable();
            assert_eq!(grouped, commands);
        }
    }

    #[test]
    fn the_layout_is_valid() {
        arranged(Arguments::command()).debug_assert();
    }
}
