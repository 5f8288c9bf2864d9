//! The PostgreSQL server that the tests use: one that is given, or one made for the occasion.

use std::env;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::guard::Stop;
use crate::needs::{POSTGRES, POSTGRES_OLDEST, on_path};
use crate::run;
use crate::throwaway::{Plan, Throwaway};

/// The environment variable that tells the tests where the server is.
pub(crate) const URL: &str = "PUNCTUAL_TEST_POSTGRES";

/// Ends when this value does.
pub(crate) struct Server {
    pub(crate) url: String,
    /// Where psql is, if not on PATH.
    pub(crate) bindir: Option<PathBuf>,
    version: String,
    /// None if the server was given and is not ours to stop.
    throwaway: Option<Throwaway>,
}

impl Server {
    /// The server that `PUNCTUAL_TEST_POSTGRES` names, else a new one.
    pub(crate) fn given_or_new(care: Care) -> Result<Self, Failure> {
        match env::var(URL) {
            Ok(url) if !url.is_empty() => Self::given(url),
            _ => Self::new(POSTGRES.ensure()?, care),
        }
    }

    fn given(url: String) -> Result<Self, Failure> {
        let bindir = POSTGRES.find();
        if bindir.is_none() && on_path("psql").is_none() {
            return Err(Failure::Failed(format!(
                "psql not found, which the tests need to query the server of {URL}; install the \
                 PostgreSQL client"
            )));
        }
        let other =
            format!("correct {URL}, or unset it so that `cargo xtask test` starts its own server");
        let version = version(bindir.as_deref(), &url).map_err(|failure| match failure {
            Failure::Failed(why) => {
                Failure::Failed(format!("cannot connect to the server of {URL}: {why}\n{other}"))
            }
            failure => failure,
        })?;
        if version.number / 10_000 < POSTGRES_OLDEST {
            let Version { text, .. } = version;
            return Err(Failure::Failed(format!(
                "the server of {URL} is PostgreSQL {text}, older than {POSTGRES_OLDEST}; {other}"
            )));
        }
        Ok(Self { url, bindir, version: version.text, throwaway: None })
    }

    /// A new server of the programs in this directory.
    pub(crate) fn new(bindir: PathBuf, care: Care) -> Result<Self, Failure> {
        let throwaway = Throwaway::start(&Plan {
            what: &format!("PostgreSQL of {}", bindir.display()),
            prefix: "punctual-postgres-",
            ready: READY,
            stop: Stop::Interrupt,
            command: &|dir, port| {
                let mut serve = Command::new("sh");
                serve.args(["-c", SERVE, "sh"]).arg(&bindir).arg(dir).arg(port.to_string());
                serve.arg(SUPERUSER).args(care.settings()).env("LC_ALL", "C").current_dir(dir);
                Ok(serve)
            },
        })?;
        let url = format!("postgres://{SUPERUSER}@127.0.0.1:{}/postgres", throwaway.port);
        // Not every distribution of the server brings the client.
        let client = match bindir.join("psql").is_file() {
            true => bindir.clone(),
            false => POSTGRES.ensure()?,
        };
        let version = version(Some(&client), &url)?.text;
        Ok(Self { url, bindir: Some(bindir), version, throwaway: Some(throwaway) })
    }
}

impl Display for Server {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {}", self.version)?;
        match &self.throwaway {
            // Not its url, which may hold a password.
            None => write!(f, ", from {URL}"),
            Some(Throwaway { port, dir, .. }) => {
                write!(f, " on port {port}, started for this run in {}", dir.display())
            }
        }
    }
}

struct Version {
    number: u32,
    text: String,
}

fn version(bindir: Option<&Path>, url: &str) -> Result<Version, Failure> {
    let psql = bindir.map_or_else(|| PathBuf::from("psql"), |dir| dir.join("psql"));
    let mut psql = Command::new(psql);
    if env::var_os("PGCONNECT_TIMEOUT").is_none() {
        psql.env("PGCONNECT_TIMEOUT", "10");
    }
    psql.args(["--no-psqlrc", "--no-password", "--tuples-only", "--no-align", "--dbname", url]);
    psql.args(["--command", "SHOW server_version_num", "--command", "SHOW server_version"]);
    let answer = run::ask(&mut psql)?;
    answer
        .split_once('\n')
        .and_then(|(number, text)| {
            Some(Version { number: number.parse().ok()?, text: text.into() })
        })
        .ok_or_else(|| Failure::Failed(format!("invalid PostgreSQL version `{answer}`")))
}

pub(crate) const SUPERUSER: &str = "postgres";

/// How much a server of ours cares about what it was given to keep.
#[derive(Clone, Copy)]
pub(crate) enum Care {
    /// The tests kill processes, never the machine, so what only helps after a power cut is off.
    /// `synchronous_commit` stays on: a killed server may lose what was not even written.
    AsTestsNeed,
    /// The default settings of PostgreSQL, on which speed is measured.
    Full,
}

impl Care {
    fn settings(self) -> &'static [&'static str] {
        match self {
            Care::AsTestsNeed => &["-c", "fsync=off", "-c", "full_page_writes=off"],
            Care::Full => &[],
        }
    }
}

/// Initialises a cluster and becomes its server. Its arguments are the directory of the programs,
/// the directory to live in, the port, the superuser, and settings.
///
/// With no locale the log speaks English, which `READY` relies on.
const SERVE: &str = r#"
"$1/initdb" --pgdata="$2/data" --username="$4" --auth=trust --encoding=UTF8 --no-locale \
    --no-sync --no-instructions >&2 &&
bin="$1" dir="$2" port="$3" && shift 4 &&
exec "$bin/postgres" -D "$dir/data" -k "$dir" -h 127.0.0.1 -p "$port" -c max_connections=200 "$@"
"#;

/// What the server logs when clients may connect.
const READY: &str = "database system is ready to accept connections";
