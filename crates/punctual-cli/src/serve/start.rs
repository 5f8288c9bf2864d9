//! Starts the node or producer of a server, and waits for a database that cannot be reached yet.

use std::time::Duration;

use punctual::{Builder, Punctual, QueueOrder, ServedQueue, Timing};
use punctual_command::Commands;
use punctual_http::Http;
use punctual_server::OPERATIONS;
use tokio::time::{Instant, timeout};

use super::settings::{Role, Settings};
use super::{demo, kinds};
use crate::exit::Failure;

/// The first and the longest wait before the database is tried again.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// How often the log says that the database still cannot be reached.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Starts, and tries again for up to `database.wait` while the database cannot be reached. Other
/// errors, such as a wrong password, are final at once; so are all errors of a SQLite file.
pub(super) async fn start_when_reachable(
    settings: &Settings,
    roles: &[Role],
    worker: (&Commands, &Http),
    is_demo: bool,
) -> Result<Punctual, Failure> {
    let wait = settings.database_wait()?;
    let (began, mut pause, mut log_at) = (now(), TRY_AGAIN.0, None);
    loop {
        let failure = match start(settings, roles, worker, is_demo).await {
            Err(failure) if failure.is_out_of_reach() && settings.is_postgres() => failure,
            started => return started,
        };
        let waited = began.elapsed();
        if waited >= wait {
            return Err(failure);
        }
        if log_at.is_none_or(|log_at| waited >= log_at) {
            log_at = Some(waited + LOG_EVERY);
            let [waited, wait] = [waited, wait].map(in_seconds);
            tracing::warn!(
                error = failure.text(),
                waited,
                wait,
                "cannot reach the database, retrying"
            );
        }
        let rest = pause.min(wait.saturating_sub(waited));
        // Nothing ends it but the time.
        let _ = timeout(rest, std::future::pending::<()>()).await;
        pause = (pause * 2).min(TRY_AGAIN.1);
    }
}

fn in_seconds(length: Duration) -> String {
    punctual_core::format_duration(Duration::from_secs(length.as_secs()))
}

#[expect(clippy::disallowed_methods, reason = "the outermost layer of the command line")]
fn now() -> Instant {
    Instant::now()
}

/// How long a handler that was asked to stop may take: longer than a command that is killed.
fn cancel_grace(commands: &Commands) -> Duration {
    Timing::default().cancel_grace.max(commands.kill_grace() + Duration::from_secs(1))
}

async fn start(
    settings: &Settings,
    roles: &[Role],
    (commands, http): (&Commands, &Http),
    is_demo: bool,
) -> Result<Punctual, Failure> {
    let has = |role: Role| roles.contains(&role);
    let database = settings.database_access()?;
    database.refuse_foreign_file()?;
    if !has(Role::Scheduler) && !has(Role::Worker) {
        return database.opened(true).await;
    }
    let builder = database.node().await?;
    // Another user may have created the file since it was checked; no job has run yet.
    database.refuse_foreign_file()?;
    let mut builder = builder.name(&settings.node.name);
    for (label, value) in &settings.node.labels {
        builder = builder.label(label, value);
    }
    let builder = punctual_server::handle_operations(kinds::handle(builder, commands))
        .timing(Timing { cancel_grace: cancel_grace(commands), ..Timing::default() })
        .max_running(settings.worker.max_running)
        .shutdown_grace(settings.shutdown_grace()?);
    let builder = match has(Role::Worker) {
        true => http.handle(serving(builder, settings)?),
        false => builder.never_works(),
    };
    let builder = if has(Role::Scheduler) { builder } else { builder.never_leads() };
    let builder = if is_demo { demo::schedules(builder) } else { builder };
    Ok(builder.start().await?)
}

fn serving(builder: Builder, settings: &Settings) -> Result<Builder, Failure> {
    // Operations have a queue of their own, which is served wherever jobs are done.
    let names = settings.worker.queues.iter().map(String::as_str);
    let mut names: Vec<&str> = names.filter(|name| *name != OPERATIONS).collect();
    let order = settings.queue_order()?;
    match order {
        // Operations are few and must not wait until all other queues are empty.
        QueueOrder::Strict => names.insert(0, OPERATIONS),
        QueueOrder::Weighted => names.push(OPERATIONS),
    }
    Ok(builder.queues(names.into_iter().map(ServedQueue::new)).queue_order(order))
}
