//! `punctual serve` and `punctual dev`: the product, in one process.

mod demo;
mod http;
mod invalid;
pub(crate) mod kinds;
pub(crate) mod settings;
pub(crate) mod systemd;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use punctual::{Builder, Punctual, ServedQueue, Timing};
use punctual_command::Commands;
use punctual_http::Http;
use punctual_server::{Check, Closing, OPERATIONS, Server, Token};
use settings::{Role, Settings};
use tokio::net::TcpListener;

use crate::exit::Failure;
use crate::target;

/// How often measurements that nobody has asked for are put together.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Serves until the process is asked to end.
pub(crate) fn serve(
    settings: &Settings,
    token: Option<&str>,
    is_demo: bool,
) -> Result<(), Failure> {
    log();
    let token = admitted(settings, token)?;
    let settings = if is_demo { demo::settings(settings)? } else { settings.clone() };
    target::runtime()?.block_on(run(&settings, token, is_demo))
}

/// The token that requests must carry, if the settings are such that a process may start with them.
pub(crate) fn admitted(settings: &Settings, token: Option<&str>) -> Result<Option<Token>, Failure> {
    let token = settings.token(token)?;
    refuse_strangers(settings.listen()?, token.is_some())?;
    // That it is there is seen by opening it.
    target::database(&settings.database.url)?;
    Ok(token)
}

/// Whoever reaches this process may do everything, unless they have to show a token.
fn refuse_strangers(listen: SocketAddr, has_token: bool) -> Result<(), Failure> {
    if listen.ip().is_loopback() || has_token {
        return Ok(());
    }
    Err(Failure::not_allowed(format!(
        "refusing to listen on {listen} without a token: any client could control this server\n\
         hint: pass --token-file FILE, set PUNCTUAL_TOKEN, or listen on 127.0.0.1"
    )))
}

/// Measurements are gathered until somebody asks, or until this is done now and then.
async fn keep_up(metrics: PrometheusHandle) {
    let mut now_and_then = tokio::time::interval(UPKEEP_EVERY);
    loop {
        now_and_then.tick().await;
        metrics.run_upkeep();
    }
}

async fn run(settings: &Settings, token: Option<Token>, is_demo: bool) -> Result<(), Failure> {
    let metrics = metrics_exporter_prometheus::PrometheusBuilder::new()
        .install_recorder()
        .map_err(|error| Failure::failed(format!("cannot start the metrics recorder: {error}")))?;
    punctual::describe_metrics();
    tokio::spawn(keep_up(metrics.clone()));
    let roles = settings.roles()?;
    let listen = settings.listen()?;
    let is_api = roles.contains(&Role::Api);
    // First the port: nothing is begun if somebody else has it.
    let listener = match TcpListener::bind(listen).await {
        Ok(listener) => Some(listener),
        // Whoever has not named an address has nobody who asks there.
        Err(error) if !is_api && settings.is_listen_usual() => {
            tracing::warn!(
                %listen,
                %error,
                "health checks and metrics disabled: cannot bind the default address; set --listen"
            );
            None
        }
        Err(error) => {
            return Err(Failure::failed(format!(
                "cannot listen on {listen}: {error}\nhint: pass another address with --listen"
            )));
        }
    };
    let listens_at = listener.as_ref().map(|listener| listener.local_addr().unwrap_or(listen));
    if roles.contains(&Role::Worker)
        && let Err(error) = punctual_command::adopt_orphans()
    {
        tracing::warn!(
            %error,
            "cannot adopt orphans: if a shim is killed, the processes of its command keep running"
        );
    }
    // One for all: what a job was handed stays masked, even if the secret has changed since.
    let secrets = settings.secrets()?;
    let commands = settings.commands(&secrets)?;
    let worker = (&commands, http::handler(settings, &secrets, listens_at, is_demo)?);
    let punctual = start(settings, &roles, worker, is_demo).await?;
    let demo = is_demo.then(|| demo::keep_busy(punctual.clone()));
    let told = roles.iter().map(|role| role.as_str().to_owned()).collect();
    // Only who runs commands knows which there are.
    let check = roles.contains(&Role::Worker).then(|| check(commands.clone()));
    let server = Server {
        roles: told,
        token,
        read_only: settings.server.read_only,
        metrics: Some(metrics),
        check,
        secrets,
        unknown_kinds: settings.unknown_kinds()?,
        kinds: kinds::ALL.map(str::to_owned).to_vec(),
        ..Server::new(punctual.clone())
    };
    let closing = server.closing.clone();
    let answering = listener.map(|listener| {
        let address = listener.local_addr().unwrap_or(listen);
        let app = match is_api {
            true => {
                say_hello(settings, address, is_demo);
                server.router()
            }
            false => {
                let kept = settings.shown_database();
                anstream::println!(
                    "Serving health checks and metrics on http://{address} (database: {kept})"
                );
                server.probes()
            }
        };
        tokio::spawn(answer(listener, app, closing.clone()))
    });
    systemd::ready();
    let stopped = until_signal(&punctual, &closing).await;
    drop(demo);
    if let Some(answering) = answering
        && tokio::time::timeout(LAST_ANSWERS, answering).await.is_err()
    {
        tracing::warn!("requests still running after the shutdown timeout were aborted");
    }
    let stopped = stopped?;
    match stopped.unsettled {
        0 => Ok(()),
        jobs => {
            let message =
                format!("{jobs} jobs could not be settled; other nodes will reclaim them");
            Err(Failure::failed(message))
        }
    }
}

/// How long requests that are under way may take once all jobs are put away.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Answers until the process is about to end. Then nobody new is let in, streams end, and what is
/// under way is answered.
async fn answer(listener: TcpListener, app: axum::Router, closing: Closing) {
    let served =
        axum::serve(listener, app).with_graceful_shutdown(async move { closing.begun().await });
    if let Err(error) = served.await {
        tracing::error!(%error, "HTTP server failed");
    }
}

/// Runs until the process is asked to end, and tells systemd and whoever is connected when that is.
async fn until_signal(
    punctual: &Punctual,
    closing: &Closing,
) -> Result<punctual::Stopped, Failure> {
    let mut signals = Signals::new()?;
    let run = punctual.run_until_signal();
    tokio::pin!(run);
    let stopped = tokio::select! {
        stopped = &mut run => Some(stopped?),
        () = signals.next() => None,
    };
    systemd::stopping();
    closing.begin();
    match stopped {
        Some(stopped) => Ok(stopped),
        None => Ok(run.await?),
    }
}

/// Requests to end the process, beside those who act on them.
struct Signals([tokio::signal::unix::Signal; 2]);

impl Signals {
    fn new() -> Result<Signals, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))
        };
        Ok(Signals([listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

/// What is wrong with a payload, for kinds of which that is known beforehand.
fn check(commands: Commands) -> Check {
    Arc::new(move |kind, payload| match kind {
        "command" => commands.check(payload),
        _ => Ok(()),
    })
}

/// How long a handler that was told to stop may take: longer than a command that is killed.
fn cancel_grace(commands: &Commands) -> Duration {
    Timing::default().cancel_grace.max(commands.kill_grace() + Duration::from_secs(1))
}

async fn start(
    settings: &Settings,
    roles: &[Role],
    (commands, http): (&Commands, Http),
    is_demo: bool,
) -> Result<Punctual, Failure> {
    let has = |role: Role| roles.contains(&role);
    let url = &settings.database.url;
    if !has(Role::Scheduler) && !has(Role::Worker) {
        return target::opened(url, true).await;
    }
    let mut builder = target::node(url).await?.name(&settings.node.name);
    for (label, value) in &settings.node.labels {
        builder = builder.label(label, value);
    }
    let builder = punctual_server::handle_operations(kinds::handle(builder, commands))
        .timing(Timing { cancel_grace: cancel_grace(commands), ..Timing::default() })
        .max_running(settings.worker.max_running)
        .shutdown_grace(settings.shutdown_grace()?);
    let builder = match has(Role::Worker) {
        true => http.handle(serving(builder, settings)),
        false => builder.never_works(),
    };
    let builder = if has(Role::Scheduler) { builder } else { builder.never_leads() };
    let builder = if is_demo { demo::schedules(builder) } else { builder };
    Ok(builder.start().await?)
}

fn serving(builder: Builder, settings: &Settings) -> Builder {
    // Operations have a queue of their own, which is served wherever jobs are done.
    let names = settings.worker.queues.iter().map(String::as_str);
    let names = names.filter(|name| *name != OPERATIONS).chain([OPERATIONS]);
    builder.queues(names.map(ServedQueue::new))
}

fn say_hello(settings: &Settings, address: SocketAddr, is_demo: bool) {
    anstream::println!("Listening on http://{address} (database: {})", settings.shown_database());
    if is_demo {
        anstream::println!(
            "
  dashboard  http://{address}/
  API        http://{address}/api/openapi.json
  metrics    http://{address}/metrics

Try in another terminal:
  punctual schedule list
  punctual job enqueue echo --payload '\"hello\"' --wait
  punctual job list --state failed

Press Ctrl-C to stop. The data is kept."
        );
    }
}

/// What happens goes to stderr; `RUST_LOG` says how much.
fn log() {
    use tracing_subscriber::EnvFilter;
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,punctual=info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call, as in tests, changes nothing.
    let _ = log.try_init();
}
