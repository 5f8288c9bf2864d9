//! Creating files that only their owner can read, and never at the other end of a symbolic link.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Only the owner may read and write.
const PRIVATE: u32 = 0o600;

/// Creates an empty file with mode 0600 unless something has this name already.
///
/// The file is not opened: closing a descriptor of an SQLite database releases every lock that the
/// process holds on it, also those of other connections.
///
/// # Errors
///
/// Returns the error of the system, except that the name exists.
pub fn create_private(path: &Path) -> io::Result<()> {
    match make(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(target_os = "linux")]
fn make(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(CWD, path, FileType::RegularFile, Mode::from_raw_mode(PRIVATE), 0)?)
}

/// Elsewhere only root may create a file without opening it.
#[cfg(not(target_os = "linux"))]
fn make(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path).map(drop)
}

/// Opens a file for reading and writing, and creates it with mode 0600 if it does not exist. A
/// symbolic link is not followed.
///
/// # Errors
///
/// Returns the error of the system; of a symbolic link it is `ELOOP`.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)
}

/// Returns the target if the path itself is a symbolic link.
///
/// # Errors
///
/// The target of the link, as an absolute path if it can be resolved.
pub fn refuse_symlink(path: &Path) -> Result<(), PathBuf> {
    match std::fs::read_link(path) {
        Ok(target) => Err(path.canonicalize().unwrap_or(target)),
        // It does not exist, or it is something else.
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it exists").permissions().mode() & 0o7777
    }

    #[test]
    fn a_created_file_is_private() {
        let directory = tempfile::tempdir().expect("a directory");
        let [made, opened] = ["made", "opened"].map(|name| directory.path().join(name));
        create_private(&made).expect("it is created");
        drop(open_or_create(&opened).expect("it is created"));
        assert_eq!([mode(&made), mode(&opened)], [0o600, 0o600]);
    }

    #[test]
    fn a_file_that_exists_keeps_its_content_and_its_mode() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        fs::write(&path, "content").expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("it is ours");
        create_private(&path).expect("it exists");
        drop(open_or_create(&path).expect("it opens"));
        assert_eq!((fs::read(&path).expect("it is read"), mode(&path)), (b"content".into(), 0o640));
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let [target, link] = ["target", "link"].map(|name| directory.path().join(name));
        symlink(&target, &link).expect("a link");
        let error = open_or_create(&link).expect_err("it is refused");
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
        create_private(&link).expect("the name exists");
        assert!(!target.exists(), "nothing is created at the other end");
        assert_eq!(refuse_symlink(&link), Err(target.clone()));
        assert_eq!(refuse_symlink(&target), Ok(()));
    }
}
