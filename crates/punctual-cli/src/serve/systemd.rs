//! What systemd is told, where it looks after the process; elsewhere nothing is told to nobody.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sd_notify::NotifyState;

use super::config_file;
use super::settings::{Flags, VARIABLES, absolute};
use crate::exit::Failure;
use crate::output;
use crate::redact::has_password;

/// Tells that the process serves and, again and again, that it does not hang.
pub(super) fn ready() {
    tell(NotifyState::Ready);
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    tokio::spawn(async move {
        loop {
            // A runtime that is stuck does not get here. Whether the database answers is nothing that
            // a restart would mend.
            tell(NotifyState::Watchdog);
            pause(limit / 3).await;
        }
    });
}

/// Tells that the process has been asked to end.
pub(super) fn stopping() {
    tell(NotifyState::Stopping);
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot notify systemd");
    }
}

async fn pause(length: Duration) {
    // Nothing ever ends but the time.
    let _ = tokio::time::timeout(length, std::future::pending::<()>()).await;
}

/// A unit for this program as it is called, to be put into `/etc/systemd/system/punctual.service`.
pub(crate) fn unit(
    flags: &Flags,
    database: Option<&str>,
    token: Option<&str>,
) -> Result<String, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::failed(format!("cannot find the path of this program: {error}"))
    })?;
    let mut flags = flags.clone();
    flags.config = config(&flags)?;
    // What is wrong with the settings is told now, not by a unit that does not start.
    let settings = flags.settings(database)?;
    if settings.server.token_file.is_none() && token.is_some() {
        return Err(Failure::usage(
            "refusing to write the token into a systemd unit: all users can read units",
        )
        .hint(
            "set PUNCTUAL_TOKEN in an environment file of the service, or pass --token-file FILE",
        ));
    }
    if database.is_some_and(has_password) {
        return Err(Failure::usage(
            "refusing to write the database password into a systemd unit: all users can read units",
        )
        .hint(
            "remove it from the URL and pass --database-password-file FILE, which the unit loads \
             as a credential, or set PUNCTUAL_DATABASE in an environment file of the service",
        ));
    }
    super::admitted(&settings, None)?;
    let grace = settings.shutdown_grace()?.as_secs().saturating_add(10);
    // Besides waiting for its database, the first start with a new version upgrades the tables.
    let start = settings.database_wait()?.as_secs().saturating_add(90);
    let mut command = vec![program.display().to_string(), "serve".to_owned()];
    command.extend(flags.words()?);
    command.extend(database.into_iter().flat_map(|url| ["--database".to_owned(), url.to_owned()]));
    refuse_control_characters(&command)?;
    let mut command: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let mut credentials = String::new();
    for (flag, name, file) in [
        ("--token-file", "token", &settings.server.token_file),
        ("--database-password-file", "database-password", &settings.database.password_file),
    ] {
        if let Some(file) = file {
            let file = absolute(file)?;
            refuse_control_characters(&[flag.to_owned(), file.display().to_string()])?;
            credentials.push_str(&credential(name, &file));
            // systemd replaces the variable.
            command.extend([flag.to_owned(), format!("${{CREDENTIALS_DIRECTORY}}/{name}")]);
        }
    }
    let command = command.join(" ");
    warn_of_variables();
    // Only the process itself is told to stop: it ends the commands of its jobs when their time is over.
    Ok(format!(
        "[Unit]
Description=punctual, durable cron and background jobs
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
ExecStart={command}
{credentials}WatchdogSec=30
TimeoutStartSec={start}
KillMode=mixed
TimeoutStopSec={grace}
Restart=always
RestartSec=1
DynamicUser=yes
UMask=0077
StateDirectory=punctual
StateDirectoryMode=0700
RuntimeDirectory=punctual
RuntimeDirectoryMode=0700
WorkingDirectory=/var/lib/punctual
LimitNOFILE=65536
LimitCORE=0

{SANDBOX}
[Install]
WantedBy=multi-user.target
"
    ))
}

/// A newline ends a line of a unit, and what follows it would be another setting.
fn refuse_control_characters(words: &[String]) -> Result<(), Failure> {
    let Some(at) = words.iter().position(|word| word.contains(char::is_control)) else {
        return Ok(());
    };
    let flag = at.checked_sub(1).map_or("the path of this program", |flag| &words[flag]);
    Err(Failure::usage(format!(
        "refusing to write the value of {flag} into a systemd unit: {:?} contains control \
         characters; remove them",
        words[at]
    )))
}

/// Settings of this environment are checked with the others, but the unit does not set them.
fn warn_of_variables() {
    let mut names: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with(VARIABLES))
        .collect();
    if names.is_empty() {
        return;
    }
    names.sort();
    output::say_warning(&format!(
        "environment variables are not part of the unit: {}; use options or the configuration file \
         instead, or set them in an environment file of the service",
        names.join(", ")
    ));
}

/// What the server and its commands cannot do. Settings that break interpreters with a compiler of
/// their own (`MemoryDenyWriteExecute=`) or programs that read `/proc` (`ProcSubset=`) are left out.
const SANDBOX: &str =
    "# The commands of jobs run in this sandbox, too. If they need more, relax it in a drop-in:
# other directories for writing: ReadWritePaths=DIRECTORY
# home directories: ProtectHome=no
# devices: PrivateDevices=no
# commands as other users (`user`): DynamicUser=no, User=root, NoNewPrivileges=no,
#   CapabilityBoundingSet=~, RestrictSUIDSGID=no
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
LockPersonality=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
# It contains @resources, which resource limits of commands need.
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
";

/// A file with a secret that systemd reads as root and hands to the service alone.
fn credential(name: &str, file: &Path) -> String {
    let source = format!("{name}:{}", file.display()).replace('%', "%%");
    format!("LoadCredential={}\n", in_quotes(&source))
}

/// Where settings are kept by those who have a unit.
const USUAL_CONFIG: &str = "/etc/punctual/punctual.toml";

/// The file with the settings: the one that was named, the one that is here, or the usual one. If there
/// is none, the unit names none, since one that is missing would keep it from starting.
fn config(flags: &Flags) -> Result<Option<PathBuf>, Failure> {
    let here_or_usual = || [config_file::NAME, USUAL_CONFIG].map(PathBuf::from);
    let found =
        flags.config.clone().or_else(|| here_or_usual().into_iter().find(|it| it.is_file()));
    found.as_deref().map(absolute).transpose()
}

/// A word as systemd reads it in a command.
fn quoted(word: &str) -> String {
    in_quotes(&word.replace('%', "%%").replace('$', "$$"))
}

/// A word in quotes if it needs them.
fn in_quotes(word: &str) -> String {
    let is_plain =
        |letter: char| !letter.is_whitespace() && !['"', '\'', '\\', ';'].contains(&letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_word_stays_one_word_to_systemd() {
        for (word, written) in [
            ("zone=eu", "zone=eu"),
            ("a b", "\"a b\""),
            ("50%", "50%%"),
            ("$HOME", "$$HOME"),
            ("say \"hi\"\\", "\"say \\\"hi\\\"\\\\\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(word), written);
        }
    }
}
