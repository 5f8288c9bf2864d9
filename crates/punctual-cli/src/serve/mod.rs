//! `punctual serve` and `punctual dev`: the product, in one process.

mod config_file;
mod demo;
mod http;
mod invalid;
pub(crate) mod kinds;
mod log;
mod lossy_writer;
pub(crate) mod own_secrets;
pub(crate) mod settings;
mod start;
pub(crate) mod systemd;

use std::future::pending;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use metrics_exporter_prometheus::PrometheusHandle;
use own_secrets::masking_own;
use punctual_command::Commands;
use punctual_secrets::Secrets;
use punctual_server::{Check, Closing, ConnectionLimits, Routers, Server, Token};
use settings::{Role, Settings};
use start::start_when_reachable;
use tower::ServiceExt;

use crate::exit::Failure;
use crate::{output, target};

/// How often measurements that nobody has asked for are put together.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Serves until the process is asked to end.
pub(crate) fn serve(
    settings: &Settings,
    token: Option<&str>,
    is_demo: bool,
) -> Result<(), Failure> {
    // Before anything is read: the environment may hold the token and the password.
    let hidden = punctual_command::hide_process();
    let admitted = admitted(settings, token)?;
    let settings = if is_demo { demo::settings(settings)? } else { settings.clone() };
    let secrets = masking_own(&settings.secrets()?, &settings, token)?;
    let runtime = target::runtime()?;
    let log = log::init(&settings.log)?;
    if let Err(error) = hidden {
        tracing::warn!(
            %error,
            "cannot hide this process: programs of the same user can read its environment"
        );
    }
    let served = runtime.block_on(run(&settings, admitted, secrets, is_demo));
    // All jobs are settled or released. What still blocks a thread, such as a lookup of a name, must
    // not keep the process from ending; nor must a stderr without a reader.
    runtime.shutdown_timeout(LAST_TASKS);
    log.flush(LAST_LINES);
    served.map_err(|failure| failure.report_within(LAST_LINES))
}

/// How long tasks may take to end once the node has stopped.
const LAST_TASKS: Duration = Duration::from_millis(500);

/// How long stderr may take to accept the last lines.
const LAST_LINES: Duration = Duration::from_millis(500);

/// The token that requests must carry, if the settings are such that a process may start with them.
pub(crate) fn admitted(settings: &Settings, token: Option<&str>) -> Result<Option<Token>, Failure> {
    let token = settings.token(token)?;
    refuse_strangers(settings.listen()?, token.is_some())?;
    // Whether it can be reached is found out by opening it.
    settings.database_access()?.check()?;
    Ok(token)
}

/// Checks the settings that a server reads from variables of other programs.
pub(crate) fn check_variables() -> Result<(), Failure> {
    log::check_variable()
}

/// Whoever reaches this process may do everything, unless they have to show a token.
fn refuse_strangers(listen: SocketAddr, has_token: bool) -> Result<(), Failure> {
    if listen.ip().is_loopback() || has_token {
        return Ok(());
    }
    Err(Failure::not_allowed(format!(
        "refusing to listen on {listen} without a token: any client could control this server"
    ))
    .hint("pass --token-file FILE, set PUNCTUAL_TOKEN, or listen on 127.0.0.1"))
}

/// Measurements are gathered until somebody asks, or until this is done now and then.
async fn keep_up(metrics: PrometheusHandle) {
    let mut now_and_then = tokio::time::interval(UPKEEP_EVERY);
    loop {
        now_and_then.tick().await;
        metrics.run_upkeep();
    }
}

async fn run(
    settings: &Settings,
    token: Option<Token>,
    secrets: Secrets,
    is_demo: bool,
) -> Result<(), Failure> {
    // From the first moment on: a server that still waits for its database stops, too.
    let mut signals = Signals::new()?;
    let metrics = metrics_exporter_prometheus::PrometheusBuilder::new()
        .install_recorder()
        .map_err(|error| Failure::failed(format!("cannot start the metrics recorder: {error}")))?;
    punctual::describe_metrics();
    punctual_server::describe_metrics();
    lossy_writer::describe_metrics();
    tokio::spawn(keep_up(metrics.clone()));
    let roles = settings.roles()?;
    let listen = settings.listen()?;
    let is_api = roles.contains(&Role::Api);
    // First the port: nothing is begun if somebody else has it.
    let listener = match punctual_server::bind(listen) {
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
            return Err(Failure::failed(format!("cannot listen on {listen}: {error}"))
                .hint("pass another address with --listen"));
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
    let commands = settings.commands(&secrets)?;
    let http = http::handler(settings, &secrets, listens_at, is_demo)?;
    let (closing, started) = (Closing::default(), Arc::<OnceLock<Routers>>::default());
    let address = listens_at.unwrap_or(listen);
    let open_files = open_files();
    let running_max = if roles.contains(&Role::Worker) { settings.worker.max_running } else { 0 };
    let answering = listener.map(|listener| {
        let limits = connection_limits(open_files, running_max);
        let routers = routers_once_started(&started);
        tokio::spawn(punctual_server::listen(listener, routers, limits, closing.clone()))
    });
    let punctual = tokio::select! {
        biased;
        () = signals.next() => {
            tracing::info!("stopped by a signal before the database was reached");
            return Ok(());
        }
        started = start_when_reachable(settings, &roles, (&commands, &http), is_demo) => started?,
    };
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
        closing: closing.clone(),
        ..Server::new(punctual.clone())
    };
    if answering.is_some() {
        // It is set once.
        let _ = started.set(if is_api { server.routers() } else { server.probes() });
        say_hello(settings, address, is_api, is_demo);
    }
    systemd::ready();
    let has_ended_by_itself = tokio::select! {
        biased;
        () = signals.next() => false,
        () = punctual.stopping() => true,
    };
    systemd::stopping();
    closing.begin();
    // Requests have no more time than jobs.
    let grace = settings.shutdown_grace()?.saturating_add(ENDING);
    let out_of_time = tokio::time::timeout(grace, pending::<()>());
    let stopped = tokio::select! {
        stopped = punctual.stop() => stopped,
        () = signals.next() => punctual.stop_now().await,
    };
    drop(demo);
    if let Some(answering) = answering {
        tokio::select! {
            biased;
            _ = answering => {}
            _ = tokio::time::timeout(LAST_ANSWERS, pending::<()>()) => unanswered(),
            _ = out_of_time => unanswered(),
        }
    }
    if let Some(error) = punctual.store_failure() {
        return Err(Failure::failed(error));
    }
    match stopped.unsettled {
        0 if has_ended_by_itself => {
            Err(Failure::failed("the node ended unexpectedly; see the log"))
        }
        0 => Ok(()),
        jobs => {
            let message =
                format!("{jobs} jobs could not be settled; other nodes will reclaim them");
            Err(Failure::failed(message))
        }
    }
}

/// How long requests may take after the last job was settled or released.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// How long requests may take after the shutdown grace.
const ENDING: Duration = Duration::from_secs(1);

fn unanswered() {
    tracing::warn!("requests still running after the shutdown timeout were aborted");
}

/// The limits of connections of a process that may open this many files and run this many jobs. Logs
/// them.
fn connection_limits(open_files: Option<u64>, running_max: usize) -> ConnectionLimits {
    let limits = ConnectionLimits::for_open_files(open_files, running_max);
    let (limit, per_address) = (limits.total, limits.per_address);
    tracing::info!(limit, per_address, open_files, "connections");
    if let Some(wanted) = limits.open_files_wanted() {
        tracing::warn!(
            limit,
            open_files,
            "few connections are allowed, because few files may be open; raise the hard limit of open \
             files to {wanted} (`ulimit -n`, `LimitNOFILE=`)"
        );
    }
    limits
}

/// Raises the limit of open files; the answer is the limit, if there is one.
fn open_files() -> Option<u64> {
    if let Err(error) = punctual_command::raise_open_files() {
        tracing::warn!(%error, "cannot raise the soft limit of open files");
    }
    punctual_command::open_files()
}

/// Routers that answer like these once they are set. Until then the server is starting.
fn routers_once_started(started: &Arc<OnceLock<Routers>>) -> Routers {
    let router = |choose: fn(&Routers) -> &Router| {
        let (started, starting) = (started.clone(), punctual_server::starting());
        Router::new().fallback(move |request: Request| {
            let router = started.get().map_or(&starting, choose).clone();
            router.oneshot(request)
        })
    };
    Routers { all: router(|routers| &routers.all), probes: router(|routers| &routers.probes) }
}

/// Requests to end the process.
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

fn say_hello(settings: &Settings, address: SocketAddr, is_api: bool, is_demo: bool) {
    let database = settings.shown_database();
    let mut hello = match is_api {
        true => format!("Listening on http://{address} (database: {database})\n"),
        false => format!(
            "Serving health checks and metrics on http://{address} (database: {database})\n"
        ),
    };
    if is_demo && is_api {
        hello.push_str(&format!(
            "
  dashboard  http://{address}/
  API        http://{address}/api/openapi.json
  metrics    http://{address}/metrics

Try in another terminal:
  punctual schedule list
  punctual job enqueue echo --payload '\"hello\"' --wait
  punctual job list --state failed

Press Ctrl-C to stop. The data is kept.
"
        ));
    }
    // On a thread of its own: the reader of stdout may be stopped or may have exited, which must not
    // stop a server.
    let print = move || output::stdout().write_all(hello.as_bytes());
    if let Err(error) = std::thread::Builder::new().spawn(print) {
        tracing::warn!(%error, "cannot start a thread to print the address");
    }
}
