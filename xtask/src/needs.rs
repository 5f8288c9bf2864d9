//! What the tests need from the machine besides Rust: found, else installed, else asked for.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

use crate::failure::Failure;
use crate::run;

/// Programs that the tests need.
pub(crate) struct Need {
    /// What is missing, as a user would call it.
    what: &'static str,
    /// Looks for the directory that holds the programs.
    find: fn() -> Option<PathBuf>,
    /// The packages of Debian and its descendants that bring them.
    packages: &'static [&'static str],
    /// Files, by path and content, that exist only while the packages are being installed.
    while_installing: &'static [(&'static str, &'static str)],
    /// Commands that undo what the packages have set up beyond the programs; they may fail.
    after_installing: &'static [&'static [&'static str]],
    /// What to do on any other machine.
    way_out: &'static str,
}

/// A PostgreSQL server and its tools, of a version that punctual supports.
pub(crate) const POSTGRES: Need = Need {
    what: "PostgreSQL 15 or newer",
    find: find_postgres,
    packages: &["postgresql"],
    // Debian's package would otherwise create a cluster and start it with the machine.
    while_installing: &[(
        "/etc/postgresql-common/createcluster.d/punctual-xtask.conf",
        "create_main_cluster = false\n",
    )],
    after_installing: &[],
    way_out: "install the server and psql with your package manager, or set \
        PUNCTUAL_TEST_POSTGRES to the URL of a running server",
};

/// The pooler that most installations have before PostgreSQL.
pub(crate) const PGBOUNCER: Need = Need {
    what: "pgbouncer",
    find: find_pgbouncer,
    packages: &["pgbouncer"],
    // Debian's package would otherwise start a service, now and with the machine.
    while_installing: &[("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n")],
    after_installing: &[&["systemctl", "--quiet", "disable", "pgbouncer"]],
    way_out: "install it with your package manager, or set PUNCTUAL_TEST_PGBOUNCER to the URL of \
        a pooler in transaction mode",
};

/// What makes a network for one test, in which all addresses are local.
pub(crate) const IPROUTE: Need = Need {
    what: "`ip` (iproute2)",
    find: || beside_path("ip"),
    packages: &["iproute2"],
    while_installing: &[],
    after_installing: &[],
    way_out: "install it with your package manager",
};

/// What runs the worker that is an example, the script that checks the protocol, and the torture.
pub(crate) const PYTHON: Need = Need {
    what: "python3 with its standard library",
    find: find_python,
    packages: &["python3"],
    while_installing: &[],
    after_installing: &[],
    way_out: "install Python 3.9 or newer with your package manager",
};

/// The library that moves the clock of one process.
pub(crate) const FAKETIME: Need = Need {
    what: "libfaketime",
    find: find_faketime,
    packages: &["faketime"],
    while_installing: &[],
    after_installing: &[],
    way_out: "install libfaketime with your package manager",
};

/// Debian's cron.
pub(crate) const CRON: Need = Need {
    what: "the cron of Debian",
    find: || Some(PathBuf::from("/usr/sbin")).filter(|dir| dir.join("cron").is_file()),
    packages: &["cron"],
    // Debian's package would otherwise start a service, now and with the machine.
    while_installing: &[("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n")],
    after_installing: &[&["systemctl", "--quiet", "disable", "cron"]],
    way_out: "run this proof as root on Debian or a derived distribution",
};

/// The browser that the dashboard is looked at with, its driver, and letters: without a font every
/// one of them is a box.
pub(crate) const CHROMIUM: Need = Need {
    what: "Chromium with its driver",
    find: find_chromium,
    packages: &["chromium", "chromium-driver", "fonts-dejavu-core"],
    while_installing: &[],
    after_installing: &[],
    way_out: "install chromium and chromedriver of the same version with your package manager",
};

/// What fetches the engine that looks for barriers in pages.
pub(crate) const NPM: Need = Need {
    what: "npm",
    find: || on_path("npm"),
    packages: &["npm"],
    while_installing: &[],
    after_installing: &[],
    way_out: "install it with your package manager, or set AXE_JS to the path of axe-core's axe.min.js",
};

/// The oldest PostgreSQL that punctual supports.
pub(crate) const POSTGRES_OLDEST: u32 = 15;

impl Need {
    /// The directory that holds the programs, if the machine has them.
    pub(crate) fn find(&self) -> Option<PathBuf> {
        (self.find)()
    }

    /// The same, after installing them if that is possible here.
    pub(crate) fn ensure(&self) -> Result<PathBuf, Failure> {
        if let Some(dir) = self.find() {
            return Ok(dir);
        }
        if rustix::process::geteuid().is_root() && on_path("apt-get").is_some() {
            eprintln!("{} is missing: installing {}", self.what, self.packages.join(", "));
            self.install()?;
        }
        self.find().ok_or_else(|| {
            Failure::Failed(format!("the tests need {}: {}", self.what, self.way_out))
        })
    }

    fn install(&self) -> Result<(), Failure> {
        let _files = self
            .while_installing
            .iter()
            .map(|(path, content)| PassingFile::create(Path::new(path), content))
            .collect::<Result<Vec<_>, _>>()?;
        run::run(Command::new("apt-get").arg("update"))?;
        run::run(
            Command::new("apt-get")
                .env("DEBIAN_FRONTEND", "noninteractive")
                .args(["install", "-y", "--no-install-recommends"])
                .args(self.packages),
        )?;
        for command in self.after_installing {
            if let [program, args @ ..] = command {
                // There may be no such program, and then there is nothing to undo.
                let _ = run::ask(Command::new(program).args(args));
            }
        }
        Ok(())
    }
}

/// A file that goes when this value goes, with the directories made for it.
struct PassingFile {
    /// The file first, then the directories from the innermost outwards.
    created: Vec<PathBuf>,
}

impl PassingFile {
    /// Creates a file. An existing file is kept.
    fn create(path: &Path, content: &str) -> Result<Self, Failure> {
        let cannot = || Failure::on(format!("create `{}`", path.display()));
        let dirs = path.ancestors().skip(1).take_while(|dir| !dir.exists()).map(PathBuf::from);
        let mut passing = Self { created: dirs.collect() };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(cannot())?;
        }
        match File::create_new(path) {
            Ok(mut file) => {
                passing.created.insert(0, path.to_path_buf());
                file.write_all(content.as_bytes()).map_err(cannot())?;
                // Some are run, and those that are read are harmed by it as little as by being read.
                file.set_permissions(Permissions::from_mode(0o755)).map_err(cannot())?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot()(error)),
        }
        Ok(passing)
    }
}

impl Drop for PassingFile {
    fn drop(&mut self) {
        for path in &self.created {
            // A directory that the packages have put something into refuses to go, and should.
            let _ = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

/// A daemon, whose directory is often not on PATH.
fn find_pgbouncer() -> Option<PathBuf> {
    beside_path("pgbouncer")
}

/// The directory of a program, on PATH or where those for administrators are.
fn beside_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .find(|dir| dir.join(program).is_file())
}

/// Debian's `python3-minimal` has neither `http` nor `json` nor `unittest`.
fn find_python() -> Option<PathBuf> {
    let imports = ["-c", "import http.client, json, unittest"];
    let has_library =
        |dir: &PathBuf| run::ask(Command::new(dir.join("python3")).args(imports)).is_ok();
    beside_path("python3").filter(has_library)
}

fn find_faketime() -> Option<PathBuf> {
    let libraries = fs::read_dir("/usr/lib").ok()?;
    libraries
        .filter_map(|entry| Some(entry.ok()?.path().join("faketime")))
        .find(|directory| directory.join("libfaketimeMT.so.1").is_file())
}

/// The driver is of the browser's own version only if they come together.
fn find_chromium() -> Option<PathBuf> {
    on_path("chromedriver").filter(|_| {
        ["chromium", "chromium-browser", "google-chrome"]
            .into_iter()
            .any(|name| on_path(name).is_some())
    })
}

fn find_postgres() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let configured = run::ask(Command::new("pg_config").arg("--bindir")).ok().map(PathBuf::from);
    env::split_paths(&path)
        .chain(debian_postgres(Path::new("/usr/lib/postgresql")))
        .chain(configured)
        .find(|dir| holds_postgres(dir))
}

/// Debian installs versions side by side, none of them on PATH; the newest comes first.
fn debian_postgres(root: &Path) -> Vec<PathBuf> {
    let mut versions: Vec<u32> = fs::read_dir(root)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    versions.sort_unstable_by(|left, right| right.cmp(left));
    versions.into_iter().map(|version| root.join(version.to_string()).join("bin")).collect()
}

fn holds_postgres(dir: &Path) -> bool {
    ["initdb", "postgres", "psql"].iter().all(|program| dir.join(program).is_file())
        && run::ask(Command::new(dir.join("postgres")).arg("--version"))
            .is_ok_and(|version| postgres_major(&version) >= Some(POSTGRES_OLDEST))
}

/// `postgres (PostgreSQL) 15.14 (Debian …)` and `postgres (PostgreSQL) 19beta1` begin alike.
fn postgres_major(version: &str) -> Option<u32> {
    let number = version.split_once("(PostgreSQL) ")?.1;
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().ok()
}

/// The program that a shell would start by this name.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_postgres_prints() {
        for (printed, major) in [
            ("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", Some(15)),
            ("postgres (PostgreSQL) 9.6.24", Some(9)),
            ("postgres (PostgreSQL) 19beta1", Some(19)),
            ("postgres (PostgreSQL) 18", Some(18)),
            ("postgres (PostgreSQL) devel", None),
            ("something else", None),
        ] {
            assert_eq!(postgres_major(printed), major, "{printed}");
        }
    }

    #[test]
    fn the_newest_of_debians_versions_comes_first_by_number() {
        let root = tempfile::tempdir().unwrap();
        for name in ["9", "15", "17", "common"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let expected: Vec<_> =
            ["17", "15", "9"].iter().map(|version| root.path().join(version).join("bin")).collect();
        assert_eq!(debian_postgres(root.path()), expected);
        assert_eq!(debian_postgres(&root.path().join("absent")), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_passing_file_leaves_nothing_of_its_own_and_everything_of_others() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a/b/file");
        drop(PassingFile::create(&file, "ours").unwrap());
        assert!(!root.path().join("a").exists());

        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(&file, "theirs").unwrap();
        drop(PassingFile::create(&file, "ours").unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
        fs::remove_file(&file).unwrap();

        let passing = PassingFile::create(&file, "ours").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "ours");
        drop(passing);
        assert!(root.path().join("a/b").exists() && !file.exists());
    }
}
