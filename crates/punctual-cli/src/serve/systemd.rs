//! What systemd is told, where it looks after the process; elsewhere nothing is told to nobody.

use std::path::Path;
use std::time::Duration;

use sd_notify::NotifyState;

use super::settings::Flags;
use crate::exit::Failure;

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
        tracing::warn!(%error, "systemd cannot be told how the process is");
    }
}

async fn pause(length: Duration) {
    // Nothing ever ends but the time.
    let _ = tokio::time::timeout(length, std::future::pending::<()>()).await;
}

/// A unit for this program as it is called, to be put into `/etc/systemd/system/punctual.service`.
pub(crate) fn unit(flags: &Flags, database: Option<&str>) -> Result<String, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot tell where this program is: {error}")))?;
    // What is wrong with the settings is told now, not by a unit that does not start.
    let settings = flags.settings(database)?;
    let grace = settings.shutdown_grace()?.as_secs() + 10;
    let config = flags.config.as_deref().unwrap_or(Path::new("/etc/punctual/punctual.toml"));
    Ok(format!(
        "[Unit]
Description=punctual, durable cron and background jobs
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
ExecStart={} serve --config {}
WatchdogSec=30
TimeoutStopSec={grace}
Restart=always
RestartSec=1
DynamicUser=yes
StateDirectory=punctual
WorkingDirectory=/var/lib/punctual
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
",
        program.display(),
        config.display()
    ))
}
