//! A demonstration: schedules and jobs that keep happening, some of which fail.

use std::time::Duration;

use punctual::{Builder, Job, Overlap, Punctual, cron, every};
use punctual_command::{Command, Named};
use serde_json::json;

use super::kinds::{Echo, Fail, Sleep};
use super::settings::Settings;
use crate::exit::Failure;

/// Settings under which the demonstration works. Whoever tries it out may run any program, if nobody
/// else can reach it.
pub(super) fn settings(settings: &Settings) -> Result<Settings, Failure> {
    let mut settings = settings.clone();
    settings.command.allow_api_argv |= settings.listen()?.ip().is_loopback();
    let clock = Named { argv: vec!["date".into(), "-u".into()], ..Named::default() };
    settings.commands.entry("clock".to_owned()).or_insert(clock);
    Ok(settings)
}

pub(super) fn schedules(builder: Builder) -> Builder {
    let seconds = Duration::from_secs;
    builder
        .app("demo")
        .schedule("heartbeat", every(seconds(5)), &Echo(json!("still here")))
        .schedule("backup", cron("*/2 * * * *").tz("Europe/Paris"), &Sleep { seconds: 20.0 })
        // It takes longer than its distance: slots are skipped, and the ledger says so.
        .schedule(
            "slow-report",
            every(seconds(10)).overlap(Overlap::Skip),
            &Sleep { seconds: 25.0 },
        )
        .schedule(
            "flaky-sync",
            every(seconds(30)),
            Fail {
                message: Some("upstream closed the connection".into()),
                times: Some(1),
                permanent: false,
            }
            .order()
            .max_attempts(3),
        )
        .schedule(
            "clock",
            every(seconds(60)),
            &Command { name: Some("clock".to_owned()), ..Command::default() },
        )
        .schedule("weekly-digest", cron("0 8 * * MON").tz("America/New_York"), &Echo(json!("news")))
}

/// Orders jobs now and then, until it is stopped or the answer is dropped.
#[expect(clippy::disallowed_methods, reason = "it is an application of its own")]
pub(super) fn keep_busy(punctual: Punctual) -> Demo {
    let task = tokio::spawn(async move {
        for number in 0_u64.. {
            let ordered = match number % 6 {
                5 => {
                    let message = Some(format!("order {number} has no address"));
                    let lost = Fail { message, times: None, permanent: true };
                    punctual.enqueue(lost.order().tag("demo")).await
                }
                3 => {
                    punctual
                        .enqueue(
                            Sleep { seconds: 2.0 }
                                .order()
                                .tag("demo")
                                .delay(Duration::from_secs(5)),
                        )
                        .await
                }
                _ => punctual.enqueue(Echo(json!({ "order": number })).order().tag("demo")).await,
            };
            if punctual.is_stopped() {
                return;
            }
            if let Err(error) = ordered {
                tracing::warn!(%error, "demo: cannot enqueue a job");
            }
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    });
    Demo(task)
}

/// The demonstration goes on for as long as this lives.
pub(super) struct Demo(tokio::task::JoinHandle<()>);

impl Drop for Demo {
    fn drop(&mut self) {
        self.0.abort();
    }
}
