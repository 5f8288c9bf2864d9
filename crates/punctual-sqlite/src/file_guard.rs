//! Detects that the files of an open database were deleted, replaced or truncated.
//!
//! SQLite keeps writing to the open file, whatever its path leads to by then, and in WAL mode it
//! never compares the two. A write that is acknowledged after that is lost with the next restart.
//!
//! Files are compared by device and inode from `stat`. The database and its shared memory are never
//! opened here: closing any descriptor of them releases all POSIX locks that the process holds on them.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use punctual_fs::{FileAccess, is_exposed};
use punctual_store::{ErrorKind, Exposure, StoreError};

/// How a write-ahead log begins; its last bit is the byte order of its checksums.
const WAL_MAGIC: u32 = 0x377f_0682;

/// The files of an open database as they were when it was opened.
#[derive(Debug)]
pub(crate) struct FileGuard {
    files: Vec<GuardedFile>,
    /// The open write-ahead log. SQLite has no locks on it.
    wal: File,
}

/// The role of the write-ahead log in messages.
const WAL: &str = "write-ahead log";

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
    /// Records the database, its write-ahead log and its shared memory, all of which must exist, and
    /// the lock file if this process holds it.
    pub(crate) fn new(database: &Path, lock: Option<&File>) -> io::Result<FileGuard> {
        let (wal, shm) = (sibling(database, "-wal"), sibling(database, "-shm"));
        let mut files = vec![
            GuardedFile::new(database, "database file", false, &fs::metadata(database)?),
            GuardedFile::new(&wal, WAL, true, &fs::metadata(&wal)?),
            GuardedFile::new(&shm, "shared memory", true, &fs::metadata(&shm)?),
        ];
        if let Some(lock) = lock {
            let path = lock_path(database);
            files.push(GuardedFile::new(&path, "lock file", true, &lock.metadata()?));
        }
        Ok(FileGuard { files, wal: File::open(&wal)? })
    }

    /// The error of the first file that is not the recorded one.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.files.iter().try_for_each(GuardedFile::check)?;
        if self.has_log_header() {
            return Ok(());
        }
        let log = self.files.iter().find(|file| file.role == WAL);
        log.map_or(Ok(()), |log| Err(log.error("truncated")))
    }

    /// Does the log begin with its header? If another process truncated it, SQLite writes behind the
    /// end, and the log begins with a hole. SQLite itself truncates it only to nothing.
    fn has_log_header(&self) -> bool {
        let mut magic = [0; 4];
        match self.wal.read_exact_at(&mut magic, 0) {
            Ok(()) => u32::from_be_bytes(magic) & !1 == WAL_MAGIC,
            // It is empty, or cannot be examined, which proves nothing.
            Err(_) => true,
        }
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
        Err(self.error(event))
    }

    fn error(&self, event: &str) -> StoreError {
        let message = format!(
            "{} `{}` was {event} while it was in use; no further requests are accepted; stop \
             every process that uses it, restore the database, then start again",
            self.role,
            self.path.display()
        );
        StoreError::new(ErrorKind::Unreachable, message)
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
