//! `punctual exec`: a command of an existing crontab line, with a record of what became of it.
//!
//! With a database the process joins as a node that leads nothing and serves one queue of its own,
//! orders a job of kind `exec` there and runs it; with a server it does the same as a worker elsewhere
//! (`there.rs`). The command is what matters: it runs exactly once, whether that can be recorded or not.

mod there;

use std::io::Write;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use punctual::{BoxError, Ctx, Done, Job, JobId, LogLevel, Punctual, ServedQueue};
use punctual_secrets::{Mask, Secrets};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

use crate::database::DatabaseAccess;
use crate::exit::Failure;
use crate::serve::{own_secrets, settings};
use crate::target::Target;
use crate::{output, target};

pub(crate) const AFTER_HELP: &str = "\
The command runs exactly once, even if the run cannot be recorded, and its exit code is the exit
code of `punctual exec`. Use it in front of the command of a crontab line.

Examples:
  punctual exec backup --database sqlite:///var/lib/punctual/punctual.db -- /opt/backup.sh --full
  punctual exec backup --server http://127.0.0.1:7347 -- /opt/backup.sh --full";

#[derive(Args)]
pub(crate) struct Exec {
    /// Name of the run, recorded as a tag of the job
    name: String,
    /// Configuration file; the values of its `[secrets]` are masked in the record [default:
    /// punctual.toml in the current directory]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// What is kept of it.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "exec", max_attempts = 1)]
struct Kept {
    name: String,
    argv: Vec<String>,
    host: String,
    /// The minute that it was started in, which is cron's slot.
    slot: String,
}

/// How long a database or server may take for what comes before the command.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the record of an end is waited for.
const RECORDING: Duration = Duration::from_secs(10);
/// No command of a crontab takes longer.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// The one run of the command.
struct Run {
    argv: Vec<String>,
    /// Nothing is kept of what it says that has not passed this.
    mask: Mask,
    is_taken: AtomicBool,
    ended: watch::Sender<Option<u8>>,
}

impl Exec {
    pub(crate) fn run(self, target: &Target) -> Result<(), Failure> {
        let runtime = target::runtime()?;
        let code = runtime.block_on(self.run_once(target))?;
        // Whatever is left of the node ends with the process.
        runtime.shutdown_timeout(Duration::from_secs(1));
        match code {
            0 => Ok(()),
            code => Err(Failure::as_another(code)),
        }
    }

    async fn run_once(&self, target: &Target) -> Result<u8, Failure> {
        let secrets = settings::secrets_of(self.config.clone())
            .and_then(|secrets| own_secrets::masking_those_of_client(&secrets, target));
        let run = Arc::new(Run {
            argv: self.command.clone(),
            mask: secrets.as_ref().map(Secrets::mask).unwrap_or_default(),
            is_taken: AtomicBool::new(false),
            ended: watch::Sender::new(None),
        });
        if let Err(error) = &secrets {
            // What cannot be masked is not kept.
            not_recorded(&error.text());
            return run.by_itself().await;
        }
        if let Some(server) = target.server(there::PATIENCE) {
            return there::run(server, self, &run).await;
        }
        let recorded = match target.database_access() {
            Ok(Some(database)) => {
                tokio::time::timeout(PATIENCE, self.record(&database, run.clone())).await
            }
            Err(failure) => Ok(Err(failure.text())),
            Ok(None) => Ok(Err("no database or server given; pass --database or --server, \
                            or set PUNCTUAL_DATABASE or PUNCTUAL_SERVER"
                .to_owned())),
        };
        let recorded = recorded.unwrap_or_else(|_| Err("no response from the database".to_owned()));
        let (node, job) = match recorded {
            Ok(recorded) => recorded,
            Err(why) => {
                not_recorded(&why);
                return run.by_itself().await;
            }
        };
        // The job is there. If nobody claims it the command must not wait for that.
        let code = tokio::select! {
            code = run.end() => code,
            () = run.overdue() => {
                not_recorded("no response from the database");
                run.by_itself().await?
            }
        };
        match node.wait_at_most(job, RECORDING).await {
            Ok(Some(_)) => {}
            Ok(None) => not_recorded("the database did not accept the result in time"),
            Err(error) => not_recorded(&error.to_string()),
        }
        node.stop().await;
        Ok(code)
    }

    /// Nobody else may run it, not even another run of the same line.
    fn queue(&self) -> String {
        format!("exec/{}@{}:{}", self.name, host(), std::process::id())
    }

    fn kept(&self, mask: &Mask) -> Kept {
        let now = output::now().floor_seconds();
        let slot = punctual::Timestamp::from_seconds(now - now.rem_euclid(60)).to_string();
        let argv = self.command.iter().map(|it| mask.text(it).into_owned()).collect();
        Kept { name: self.name.clone(), argv, host: host(), slot }
    }

    /// Joins and orders the job.
    async fn record(
        &self,
        database: &DatabaseAccess,
        run: Arc<Run>,
    ) -> Result<(Punctual, JobId), String> {
        let (queue, kept) = (self.queue(), self.kept(&run.mask));
        let builder = database.node().await.map_err(|error| error.text())?;
        let node = builder
            .name(&format!("exec {}", self.name))
            .never_leads()
            .queues([ServedQueue::new(&queue)])
            .state(run)
            .handle(exec)
            .start()
            .await
            .map_err(|error| error.to_string())?;
        let order = kept.order().queue(&queue).timeout(LONGEST).tag(&self.name);
        match node.enqueue(order).await {
            Ok(receipt) => Ok((node, receipt.id)),
            Err(error) => {
                node.stop_now().await;
                Err(error.to_string())
            }
        }
    }
}

fn host() -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    match host.trim() {
        "" => "localhost".to_owned(),
        host => host.to_owned(),
    }
}

fn not_recorded(why: &str) {
    output::say_warning(&format!(
        "this run is not recorded: {why}; the command itself is not affected"
    ));
}

async fn exec(_: Kept, cx: Ctx<Arc<Run>>) -> Result<Done<Value>, BoxError> {
    let run = cx.state().clone();
    let code = match run.take() {
        true => run.piped(|level, line| cx.log_at(level, line)).await,
        // It was started without waiting for this.
        false => run.end().await,
    };
    match code {
        0 => Ok(Done(json!({"exit_code": 0}))),
        code => Err(punctual::Failure::permanent(format!("exit code {code}")).into()),
    }
}

impl Run {
    /// Is it for the caller to start the command?
    fn take(&self) -> bool {
        !self.is_taken.swap(true, Ordering::SeqCst)
    }

    /// How the command ended.
    async fn end(&self) -> u8 {
        let mut ended = self.ended.subscribe();
        let end = ended.wait_for(Option::is_some).await;
        end.ok().and_then(|code| *code).unwrap_or(1)
    }

    /// Ends if nobody has started the command in time.
    #[expect(clippy::disallowed_methods, reason = "the command line has no engine to ask")]
    async fn overdue(&self) {
        tokio::time::sleep(PATIENCE).await;
        if self.is_taken.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    /// Runs the command as if there were nobody to record it; if somebody has started it meanwhile,
    /// waits for that.
    async fn by_itself(&self) -> Result<u8, Failure> {
        if !self.take() {
            return Ok(self.end().await);
        }
        let status = tokio::process::Command::new(&self.argv[0]).args(&self.argv[1..]).status();
        let code = match status.await {
            Ok(status) => code_of(status),
            Err(error) => self.not_found(&error),
        };
        self.ended.send_replace(Some(code));
        Ok(code)
    }

    /// Runs the command; what it says is passed on and kept.
    async fn piped(&self, note: impl Fn(LogLevel, &str)) -> u8 {
        let note = |level: LogLevel, line: &str| note(level, &self.mask.text(line));
        let mut command = tokio::process::Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let code = self.not_found(&error);
                note(LogLevel::Error, &format!("cannot run `{}`: {error}", self.argv[0]));
                self.ended.send_replace(Some(code));
                return code;
            }
        };
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let passed = async {
            tokio::join!(
                pass_on(out, std::io::stdout(), |line| note(LogLevel::Info, line)),
                pass_on(err, std::io::stderr(), |line| note(LogLevel::Warn, line)),
            )
        };
        let (status, _) = tokio::join!(child.wait(), passed);
        let code = status.map_or(1, code_of);
        self.ended.send_replace(Some(code));
        code
    }

    /// As a shell has it.
    fn not_found(&self, error: &std::io::Error) -> u8 {
        output::say_error(&format!("cannot run `{}`: {error}", self.argv[0]));
        if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

/// The code, or what a shell makes of a signal.
fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Passes on what is said as it comes, and notes it line by line.
async fn pass_on(
    from: Option<impl AsyncRead + Unpin>,
    mut to: impl Write,
    mut note: impl FnMut(&str),
) {
    let Some(mut from) = from else { return };
    let (mut chunk, mut line) = (vec![0; 8_192], Vec::new());
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        // Whoever has closed it does not want to know.
        let _ = to.write_all(&chunk[..count]).and_then(|()| to.flush());
        for byte in &chunk[..count] {
            match byte {
                b'\n' => note(&String::from_utf8_lossy(&std::mem::take(&mut line))),
                byte => line.push(*byte),
            }
        }
    }
    if !line.is_empty() {
        note(&String::from_utf8_lossy(&line));
    }
}
