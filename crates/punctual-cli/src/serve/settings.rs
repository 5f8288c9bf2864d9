//! What a server is told: defaults, a file, the environment, flags, each over the one before.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use figment::providers::{Env, Serialized};
use figment::{Figment, Source as Origin};
use punctual::QueueOrder;
use punctual_command::{Commands, Config as CommandSettings, Named};
use punctual_fs::FileError;
use punctual_secrets::{Secrets, Source};
use punctual_server::{Token, UnknownKinds};
use serde::{Deserialize, Serialize};

use super::config_file::ConfigFile;
use super::invalid::invalid_settings;
use crate::database::{DatabaseAccess, PARTITION_DAYS, check_partition_days};
use crate::exit::Failure;
use crate::help::SERVER;
use crate::redact::redacted;

/// Everything that a server can be told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) server: ServerSettings,
    pub(crate) database: DatabaseSettings,
    pub(crate) node: NodeSettings,
    pub(crate) worker: WorkerSettings,
    pub(crate) http: HttpSettings,
    pub(crate) log: LogSettings,
    /// How commands run.
    pub(crate) command: CommandSettings,
    /// Commands with a name.
    pub(crate) commands: BTreeMap<String, Named>,
    /// Where the secrets are that jobs refer to, by their names.
    pub(crate) secrets: BTreeMap<String, Source>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerSettings {
    /// Where it listens.
    pub(crate) listen: String,
    /// The file that holds the token which requests must carry.
    pub(crate) token_file: Option<PathBuf>,
    /// Can nothing be changed over HTTP?
    pub(crate) read_only: bool,
    /// What the process does: api, scheduler, worker.
    pub(crate) roles: Vec<String>,
    /// What becomes of orders whose kind nobody knows: refuse, allow.
    pub(crate) unknown_kinds: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DatabaseSettings {
    /// sqlite://FILE or postgres://…
    pub(crate) url: String,
    /// The file with the password of the PostgreSQL role. A relative path begins at the directory of
    /// the configuration file that has it.
    pub(crate) password_file: Option<PathBuf>,
    /// Are PostgreSQL servers on other machines accepted without verification?
    pub(crate) allow_insecure: bool,
    /// How long the server waits at its start for a database that cannot be reached.
    pub(crate) wait: String,
    /// Are SQLite files on network and user-space file systems accepted?
    pub(crate) any_file_system: bool,
    /// The number of future days that have their own partitions on PostgreSQL.
    pub(crate) partition_days: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeSettings {
    /// The node's lasting name.
    pub(crate) name: String,
    /// Its labels, by name.
    pub(crate) labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkerSettings {
    /// The queues it serves.
    pub(crate) queues: Vec<String>,
    /// The order of the queues: weighted, strict.
    pub(crate) queue_order: String,
    /// The most jobs at once.
    pub(crate) max_running: usize,
    /// How long running work may go on after the first request to stop.
    pub(crate) shutdown_grace: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpSettings {
    /// Networks and hosts that jobs of kind `http` may call although they are not public.
    pub(crate) allow: Vec<String>,
    /// Certificates of authorities to trust beside those of the machine.
    pub(crate) ca_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSettings {
    /// The levels to log, as `LEVEL` or `TARGET=LEVEL`, separated by commas.
    pub(crate) level: String,
    /// How a log event is written: text, json.
    pub(crate) format: String,
}

/// What the process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Api,
    Scheduler,
    Worker,
}

impl Role {
    const ALL: [Role; 3] = [Role::Api, Role::Scheduler, Role::Worker];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Role::Api => "api",
            Role::Scheduler => "scheduler",
            Role::Worker => "worker",
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            server: ServerSettings {
                listen: "127.0.0.1:7347".to_owned(),
                token_file: None,
                read_only: false,
                roles: Role::ALL.map(|role| role.as_str().to_owned()).to_vec(),
                unknown_kinds: "refuse".to_owned(),
            },
            database: DatabaseSettings {
                url: "sqlite://punctual.db".to_owned(),
                password_file: None,
                allow_insecure: false,
                wait: "60s".to_owned(),
                any_file_system: false,
                partition_days: PARTITION_DAYS,
            },
            node: NodeSettings { name: host_name(), labels: BTreeMap::new() },
            worker: WorkerSettings {
                queues: vec!["default".to_owned()],
                queue_order: "weighted".to_owned(),
                max_running: 100,
                shutdown_grace: "30s".to_owned(),
            },
            http: HttpSettings::default(),
            log: LogSettings { level: "warn,punctual=info".to_owned(), format: "text".to_owned() },
            command: CommandSettings::default(),
            commands: BTreeMap::new(),
            secrets: BTreeMap::new(),
        }
    }
}

/// The machine's name, for want of a better one.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "punctual".to_owned() } else { name.to_owned() }
}

const NODE: &str = "Node";

/// What can be said on the command line.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Flags {
    /// Configuration file [default: punctual.toml in the current directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:7347]
    #[arg(long, value_name = "ADDR", help_heading = SERVER)]
    listen: Option<String>,
    /// File with the API token (at least 16 characters). Addresses other than loopback require
    /// --token-file or --token
    #[arg(long, value_name = "FILE", help_heading = SERVER)]
    token_file: Option<PathBuf>,
    /// File with the password of the PostgreSQL role, for a database URL without one
    #[arg(long, value_name = "FILE", help_heading = SERVER)]
    database_password_file: Option<PathBuf>,
    /// Maximum time to wait at start for a PostgreSQL database that cannot be reached
    /// [default: 60s]
    #[arg(long, value_name = "DURATION", help_heading = SERVER)]
    database_wait: Option<String>,
    /// Reject all changes over HTTP, from the dashboard and the API
    #[arg(long, help_heading = SERVER)]
    read_only: bool,
    /// Roles of this process, separated by commas: api, scheduler, worker
    /// [default: api,scheduler,worker]
    #[arg(long = "role", value_name = "ROLE", value_delimiter = ',', help_heading = NODE)]
    roles: Vec<String>,
    /// Queues to serve, separated by commas [default: default]
    #[arg(long = "queue", value_name = "QUEUE", value_delimiter = ',', help_heading = NODE)]
    queues: Vec<String>,
    /// Permanent node name [default: host name]
    #[arg(long, value_name = "NAME", help_heading = NODE)]
    name: Option<String>,
    /// Node label, used by `run_on`. May be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", help_heading = NODE)]
    labels: Vec<String>,
}

/// The prefix of the environment variables.
pub(super) const VARIABLES: &str = "PUNCTUAL__";

/// Every setting, for those who list them.
pub(crate) const KEYS: &[&str] = &[
    "server.listen",
    "server.token_file",
    "server.read_only",
    "server.roles",
    "server.unknown_kinds",
    "database.url",
    "database.password_file",
    "database.allow_insecure",
    "database.wait",
    "database.any_file_system",
    "database.partition_days",
    "node.name",
    "node.labels",
    "worker.queues",
    "worker.queue_order",
    "worker.max_running",
    "worker.shutdown_grace",
    "http.allow",
    "http.ca_file",
    "log.level",
    "log.format",
    "command.search_path",
    "command.env",
    "command.cwd",
    "command.users",
    "command.allow_api_argv",
    "command.allow_shell",
    "command.new_privileges",
    "command.kill_grace",
    "command.log_bytes",
    "command.tail_bytes",
    "command.limits",
    "commands",
    "secrets",
];

impl Flags {
    /// All layers, each over the one before. A database that was named for all commands counts as
    /// a flag.
    pub(crate) fn layers(&self, database: Option<&str>) -> Result<Figment, Failure> {
        let mut layers = Figment::from(Serialized::defaults(Settings::default()));
        if let Some(file) = ConfigFile::read(self.config.as_deref())? {
            layers = layers.merge(file);
        }
        layers = layers.merge(Env::prefixed(VARIABLES).split("__"));
        let mut flag = |key: &str, value: Option<figment::value::Value>| {
            if let Some(value) = value {
                let layer = Serialized::default(key, value);
                let named = Figment::from(layer);
                layers = std::mem::take(&mut layers).merge(named);
            }
        };
        let text = |value: &Option<String>| value.clone().map(figment::value::Value::from);
        let list = |values: &Vec<String>| {
            (!values.is_empty()).then(|| figment::value::Value::from(values.clone()))
        };
        flag("server.listen", text(&self.listen));
        flag("database.wait", text(&self.database_wait));
        flag("server.roles", list(&self.roles));
        flag("worker.queues", list(&self.queues));
        flag("node.name", text(&self.name));
        for label in &self.labels {
            let Some((name, value)) = label.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                return Err(Failure::usage(format!(
                    "invalid label `{label}`; expected KEY=VALUE, for example --label zone=eu"
                )));
            };
            // A name with a dot is one name and not two.
            let named = figment::value::Dict::from([(name.to_owned(), value.into())]);
            flag("node.labels", Some(named.into()));
        }
        let path = |file: &Option<PathBuf>| {
            let file = file.as_ref().map(|file| file.display().to_string());
            file.map(figment::value::Value::from)
        };
        flag("server.token_file", path(&self.token_file));
        flag("database.password_file", path(&self.database_password_file));
        flag("server.read_only", self.read_only.then(|| true.into()));
        flag("database.url", text(&database.map(str::to_owned)));
        Ok(layers)
    }

    pub(crate) fn settings(&self, database: Option<&str>) -> Result<Settings, Failure> {
        read(&self.layers(database)?)
    }

    /// The same flags again, for a process that starts in another directory. The files with secrets are
    /// not among them: the process may not be able to read them where they are.
    pub(crate) fn words(&self) -> Result<Vec<String>, Failure> {
        let mut words = Vec::new();
        let mut say = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
        if let Some(file) = &self.config {
            say("--config", absolute(file)?.display().to_string());
        }
        for (flag, value) in [
            ("--listen", &self.listen),
            ("--database-wait", &self.database_wait),
            ("--name", &self.name),
        ] {
            if let Some(value) = value {
                say(flag, value.clone());
            }
        }
        for (flag, values) in [("--role", &self.roles), ("--queue", &self.queues)] {
            if !values.is_empty() {
                say(flag, values.join(","));
            }
        }
        for label in &self.labels {
            say("--label", label.clone());
        }
        words.extend(self.read_only.then(|| "--read-only".to_owned()));
        Ok(words)
    }
}

/// A path that means the same wherever somebody stands.
pub(crate) fn absolute(file: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(file).map_err(|error| {
        Failure::failed(format!("cannot resolve the path {}: {error}", file.display()))
    })
}

/// The token in a file that only the server can read.
fn token_in(file: &Path) -> Result<String, Failure> {
    let shown = file.display();
    let bytes = punctual_fs::read_private(file).map_err(|error| match error {
        FileError::Io(error) => {
            Failure::usage(format!("cannot read the token file {shown}: {error}"))
        }
        FileError::Refused(why) => {
            Failure::not_allowed(format!("refusing to use the token file {shown}: {why}"))
        }
    })?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("the token file {shown} is not valid UTF-8 text")))
}

/// The secrets that a file of settings names, for a process that needs nothing else of it.
pub(crate) fn secrets_of(config: Option<PathBuf>) -> Result<Secrets, Failure> {
    /// Other keys are ignored.
    #[derive(Deserialize)]
    struct Only {
        secrets: BTreeMap<String, Source>,
    }
    let layers = Flags { config, ..Flags::default() }.layers(None)?;
    let Only { secrets } = layers.extract().map_err(|error| invalid_settings(&error))?;
    of_sources(secrets)
}

fn of_sources(sources: BTreeMap<String, Source>) -> Result<Secrets, Failure> {
    Secrets::from_config(sources).map_err(|error| Failure::usage(format!("secrets: {error}")))
}

/// The settings that the layers come to, checked.
pub(crate) fn read(layers: &Figment) -> Result<Settings, Failure> {
    let mut settings: Settings = layers.extract().map_err(|error| invalid_settings(&error))?;
    let origin = layers.find_metadata("database.password_file");
    if let (Some(file), Some(Origin::File(config))) =
        (&mut settings.database.password_file, origin.and_then(|it| it.source.as_ref()))
        && let Some(directory) = config.parent()
    {
        *file = directory.join(&*file);
    }
    settings.database_access()?;
    settings.listen()?;
    settings.roles()?;
    settings.unknown_kinds()?;
    settings.queue_order()?;
    settings.shutdown_grace()?;
    settings.database_wait()?;
    super::log::check(&settings.log)?;
    let secrets = settings.secrets()?;
    settings.commands(&secrets)?;
    super::http::handler(&settings, &secrets, None, false)?;
    Ok(settings)
}

impl Settings {
    pub(crate) fn listen(&self) -> Result<SocketAddr, Failure> {
        let text = &self.server.listen;
        text.replace("localhost:", "127.0.0.1:").parse().map_err(|_| {
            Failure::usage(format!(
                "server.listen: invalid address `{text}`; expected IP:PORT, for example \
                 127.0.0.1:7347"
            ))
        })
    }

    /// Does it listen where all do of whom nothing else is said?
    pub(crate) fn is_listen_usual(&self) -> bool {
        self.server.listen == Settings::default().server.listen
    }

    pub(crate) fn roles(&self) -> Result<Vec<Role>, Failure> {
        let read = |name: &String| {
            let role = Role::ALL.into_iter().find(|role| role.as_str() == name);
            role.ok_or_else(|| {
                Failure::usage(format!(
                    "server.roles: unknown role `{name}`; expected api, scheduler or worker"
                ))
            })
        };
        let roles: Vec<Role> = self.server.roles.iter().map(read).collect::<Result<_, _>>()?;
        match roles.is_empty() {
            true => Err(Failure::usage(
                "server.roles must not be empty; expected api, scheduler or worker",
            )),
            false => Ok(roles),
        }
    }

    pub(crate) fn unknown_kinds(&self) -> Result<UnknownKinds, Failure> {
        match self.server.unknown_kinds.as_str() {
            "refuse" => Ok(UnknownKinds::Refuse),
            "allow" => Ok(UnknownKinds::Allow),
            other => Err(Failure::usage(format!(
                "server.unknown_kinds: unknown value `{other}`; expected refuse or allow"
            ))),
        }
    }

    pub(crate) fn queue_order(&self) -> Result<QueueOrder, Failure> {
        match self.worker.queue_order.as_str() {
            "weighted" => Ok(QueueOrder::Weighted),
            "strict" => Ok(QueueOrder::Strict),
            other => Err(Failure::usage(format!(
                "worker.queue_order: unknown value `{other}`; expected weighted or strict"
            ))),
        }
    }

    pub(crate) fn shutdown_grace(&self) -> Result<Duration, Failure> {
        punctual_core::parse_duration(&self.worker.shutdown_grace)
            .map_err(|error| Failure::usage(format!("worker.shutdown_grace: {error}")))
    }

    /// How long the server waits at its start for a database that cannot be reached.
    pub(crate) fn database_wait(&self) -> Result<Duration, Failure> {
        punctual_core::parse_duration(&self.database.wait)
            .map_err(|error| Failure::usage(format!("database.wait: {error}")))
    }

    /// Is the database a server that may be unreachable for a while?
    pub(crate) fn is_postgres(&self) -> bool {
        self.database.url.starts_with("postgres")
    }

    /// The database with the settings for connections to it.
    pub(crate) fn database_access(&self) -> Result<DatabaseAccess, Failure> {
        let DatabaseSettings {
            url,
            password_file,
            allow_insecure,
            wait: _,
            any_file_system,
            partition_days,
        } = self.database.clone();
        for (key, is_set) in [
            ("password_file", password_file.is_some()),
            ("allow_insecure", allow_insecure),
            ("partition_days", partition_days != PARTITION_DAYS),
        ] {
            if is_set && url.starts_with("sqlite") {
                return Err(Failure::usage(format!(
                    "database.{key}: has no effect on an SQLite database; remove it, or set \
                     `database.url` to a PostgreSQL URL"
                )));
            }
        }
        if any_file_system && self.is_postgres() {
            return Err(Failure::usage(
                "database.any_file_system: has no effect on a PostgreSQL database; remove it, or \
                 set `database.url` to an SQLite URL",
            ));
        }
        check_partition_days(partition_days)?;
        Ok(DatabaseAccess { url, password_file, allow_insecure, any_file_system, partition_days })
    }

    /// The commands that jobs may ask for.
    pub(crate) fn commands(&self, secrets: &Secrets) -> Result<Commands, Failure> {
        let (config, named) = (self.command.clone(), self.commands.clone());
        Commands::new(config, named, secrets.clone()).map_err(Failure::usage)
    }

    /// The secrets that jobs may refer to; none is read yet.
    pub(crate) fn secrets(&self) -> Result<Secrets, Failure> {
        of_sources(self.secrets.clone())
    }

    /// The token: from the file if one is named, or what `--token` or the environment gives.
    pub(crate) fn token(&self, given: Option<&str>) -> Result<Option<Token>, Failure> {
        let secret = self.token_text(given)?;
        secret.map(|secret| Token::new(&secret).map_err(Failure::usage)).transpose()
    }

    /// The same as it is written.
    pub(super) fn token_text(&self, given: Option<&str>) -> Result<Option<String>, Failure> {
        Ok(match &self.server.token_file {
            Some(file) => Some(token_in(file)?),
            None => given.filter(|token| !token.is_empty()).map(str::to_owned),
        })
    }

    /// The database, without what may be secret: a password, and parameters, where one may stand too.
    pub(crate) fn shown_database(&self) -> String {
        redacted(&self.database.url)
    }
}
