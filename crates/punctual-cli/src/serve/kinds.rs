//! Kinds that need nobody's code: some for trying, and programs.

use std::time::Duration;

use punctual::{BoxError, Builder, Ctx, Done, Failure, Job};
use punctual_command::{Commands, command};
use punctual_server::Bulk;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Answers with its payload.
#[derive(Serialize, Deserialize, Job)]
#[serde(transparent)]
pub(super) struct Echo(pub(super) Value);

/// Takes its time.
#[derive(Default, Serialize, Deserialize, Job)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Sleep {
    pub(super) seconds: f64,
}

/// Fails: always, or for its first attempts.
#[derive(Default, Serialize, Deserialize, Job)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Fail {
    /// What it says.
    pub(super) message: Option<String>,
    /// How many attempts fail; all if nothing is said.
    pub(super) times: Option<u32>,
    /// Should it be tried no more?
    pub(super) permanent: bool,
}

async fn echo(job: Echo, cx: Ctx) -> Done<Value> {
    cx.log("returning the payload as the result");
    Done(job.0)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a handler of the application's own takes its own time"
)]
async fn sleep(job: Sleep, cx: Ctx) -> Result<(), BoxError> {
    let length = Duration::try_from_secs_f64(job.seconds).map_err(Failure::permanent)?;
    let parts: u8 = 10;
    for part in 0..parts {
        cx.progress(part * 10, &format!("slept {}% of {}s", part * 10, job.seconds));
        tokio::select! {
            () = tokio::time::sleep(length / u32::from(parts)) => {}
            reason = cx.must_stop() => return Err(format!("sleep interrupted: {reason:?}").into()),
        }
    }
    Ok(())
}

async fn fail(job: Fail, cx: Ctx) -> Result<(), BoxError> {
    if job.times.is_some_and(|times| cx.attempt() > times) {
        return Ok(());
    }
    let message = job.message.unwrap_or_else(|| "the payload requested this failure".to_owned());
    match job.permanent {
        true => Err(Failure::permanent(message).into()),
        false => Err(message.into()),
    }
}

/// The kinds that a process of this program serves, if it works.
pub(crate) const ALL: [&str; 6] = ["echo", "sleep", "fail", "command", "http", Bulk::KIND];

pub(super) fn handle(builder: Builder, commands: &Commands) -> Builder {
    let builder = builder.handle(echo).handle(sleep).handle(fail);
    builder.state(commands.clone()).handle(command).state(())
}
