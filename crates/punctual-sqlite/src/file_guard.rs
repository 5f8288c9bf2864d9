//! Detects that the files of an open database were deleted, replaced or truncated.
//!
//! SQLite keeps writing to the open file, whatever its path leads to by then, and in WAL mode it
//! never compares the two. A write that is acknowledged after that is lost with the next restart.
//!
//! Files are compared by device and inode from `stat`. They are never opened here: closing any
//! descriptor of a database releases all POSIX locks that the process holds on it.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use punctual_fs::{FileAccess, is_exposed};
use punctual_store::{ErrorKind, Exposure, StoreError};

/// The files of an open database as they were when it was opened.
#[derive(Debug)]
pub(crate) struct FileGuard {
    files: Vec<GuardedFile>,
}

#[derive(Debug)]
struct GuardedFile {
    path: PathBuf,
    role: &'static str,
    device: u64,
    inode: u64,
    /// SQLite truncates its log itself, but never its database.
    may_be_empty: bool,
}

impl FileGuard {
    /// Records the database and its write-ahead log, both of which must exist, and the lock file
    /// if this process holds it.
    pub(crate) fn new(database: &Path, lock: Option<&File>) -> io::Result<FileGuard> {
        let wal = sibling(database, "-wal");
        let mut files = vec![
            GuardedFile::new(database, "database file", false, &fs::metadata(database)?),
            GuardedFile::new(&wal, "write-ahead log", true, &fs::metadata(&wal)?),
        ];
        if let Some(lock) = lock {
            let path = lock_path(database);
            files.push(GuardedFile::new(&path, "lock file", true, &lock.metadata()?));
        }
        Ok(FileGuard { files })
    }

    /// The error of the first file that is not the recorded one.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.files.iter().try_for_each(GuardedFile::check)
    }
}

impl GuardedFile {
    fn new(path: &Path, role: &'static str, may_be_empty: bool, found: &Metadata) -> GuardedFile {
        let (device, inode) = (found.dev(), found.ino());
        GuardedFile { path: path.to_owned(), role, device, inode, may_be_empty }
    }

    fn check(&self) -> Result<(), StoreError> {
        let event = match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) != (self.device, self.inode) => "replaced",
            Ok(found) if found.len() == 0 && !self.may_be_empty => "truncated",
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "deleted or renamed",
            // A path that cannot be examined, for example for lack of permission, does not prove
            // that the file was deleted.
            Err(_) => return Ok(()),
        };
        let message = format!(
            "{} `{}` was {event} while it was in use; no further requests are accepted; stop \
             every process that uses it, restore the database, then start again",
            self.role,
            self.path.display()
        );
        Err(StoreError::new(ErrorKind::Unreachable, message))
    }
}

/// Reports files of a database that other users can read or change.
pub(crate) fn exposures(database: &Path) -> Vec<Exposure> {
    let files = [database.to_owned(), sibling(database, "-wal"), sibling(database, "-shm")];
    let access =
        |path: &Path| fs::symlink_metadata(path).ok().map(|found| FileAccess::from(&found));
    let exposed: Vec<(&PathBuf, FileAccess)> = files
        .iter()
        .filter_map(|path| Some((path, access(path)?)))
        .filter(|(_, access)| is_exposed(*access))
        .collect();
    let Some((path, access)) = exposed.first() else { return Vec::new() };
    let paths: Vec<String> = exposed.iter().map(|(path, _)| path.display().to_string()).collect();
    vec![Exposure {
        code: "database_readable",
        text: format!("other users can read or change `{}` ({access})", path.display()),
        remedy: format!("run `chmod 600 {}`", paths.join(" ")),
    }]
}

/// The file whose lock the engine holds.
pub(crate) fn lock_path(database: &Path) -> PathBuf {
    sibling(database, ".lock")
}

fn sibling(database: &Path, suffix: impl AsRef<OsStr>) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
