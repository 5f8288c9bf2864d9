//! Reading files whose permissions matter. A file is judged and read through one descriptor, so that
//! it cannot be exchanged in between.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use crate::access::FileAccess;

/// No secret is larger; a larger file is most likely the wrong one.
const PRIVATE_BYTES_MAX: u64 = 128 << 10;

/// No configuration is larger.
const TRUSTED_BYTES_MAX: u64 = 16 << 20;

/// Why a file was not read. The message does not repeat the path except in the remedy.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The permissions, the owner or the size are not acceptable.
    #[error("{0}")]
    Refused(String),
}

impl FileError {
    /// Does the file not exist?
    pub fn is_not_found(&self) -> bool {
        matches!(self, FileError::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a file with a token, a password or a key.
///
/// # Errors
///
/// Refuses a file that other users can read or change, that belongs to neither root nor this user,
/// or that is not a regular file.
pub fn read_private(path: &Path) -> Result<Vec<u8>, FileError> {
    let (file, access) = open(path)?;
    refuse_foreign_owner(path, access)?;
    if access.is_public() {
        return Err(FileError::Refused(format!(
            "other users can read or change it ({access}); run `chmod 600 {}`",
            path.display()
        )));
    }
    read(file, PRIVATE_BYTES_MAX)
}

/// Reads a file that decides what this process does, such as a configuration.
///
/// # Errors
///
/// Refuses a file that other users can change, that belongs to neither root nor this user, or that
/// is not a regular file.
pub fn read_trusted(path: &Path) -> Result<Vec<u8>, FileError> {
    let (file, access) = open(path)?;
    refuse_foreign_owner(path, access)?;
    if access.is_writable_by_others() {
        return Err(FileError::Refused(format!(
            "other users can change it ({access}); run `chmod go-w {}`",
            path.display()
        )));
    }
    read(file, TRUSTED_BYTES_MAX)
}

/// Opens a regular file. A FIFO without a writer does not block, and a terminal does not become the
/// controlling one.
fn open(path: &Path) -> Result<(File, FileAccess), FileError> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(FileError::Refused(
            "it is not a regular file; use the path of a file".to_owned(),
        ));
    }
    Ok((file, FileAccess::from(&found)))
}

/// The owner can change the content at any time.
fn refuse_foreign_owner(path: &Path, access: FileAccess) -> Result<(), FileError> {
    let user = rustix::process::geteuid().as_raw();
    if !access.has_foreign_owner(user) {
        return Ok(());
    }
    Err(FileError::Refused(format!(
        "it belongs to another user ({access}; this process runs as uid {user}); read it, then run \
         `chown {user} {}`",
        path.display()
    )))
}

fn read(file: File, most: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(FileError::Refused(format!(
            "it is larger than {} KiB; check the path",
            most >> 10
        )));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file(mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "content").expect("it is written");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("it is ours");
        file
    }

    fn refusal(read: fn(&Path) -> Result<Vec<u8>, FileError>, mode: u32) -> Option<String> {
        let file = file(mode);
        match read(file.path()) {
            Ok(bytes) => {
                assert_eq!(bytes, b"content");
                None
            }
            Err(error) => {
                let user = rustix::process::geteuid().as_raw();
                let message = error.to_string().replace(&file.path().display().to_string(), "PATH");
                Some(message.replace(&format!("uid {user}"), "uid ME"))
            }
        }
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused_with_the_remedy() {
        assert_eq!(refusal(read_private, 0o600), None);
        insta::assert_snapshot!(refusal(read_private, 0o644).unwrap_or_default(), @"other users can read or change it (mode 0644, owner uid ME); run `chmod 600 PATH`");
    }

    #[test]
    fn a_configuration_that_others_can_change_is_refused_with_the_remedy() {
        assert_eq!(refusal(read_trusted, 0o644), None);
        insta::assert_snapshot!(refusal(read_trusted, 0o664).unwrap_or_default(), @"other users can change it (mode 0664, owner uid ME); run `chmod go-w PATH`");
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read_to_its_end() {
        let file = file(0o600);
        fs::write(file.path(), vec![b'x'; (PRIVATE_BYTES_MAX + 1) as usize]).expect("written");
        let error = read_private(file.path()).expect_err("it is refused");
        assert_eq!(error.to_string(), "it is larger than 128 KiB; check the path");
    }

    #[test]
    fn a_fifo_is_refused_without_waiting_for_a_writer() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg("-m600").arg(&path).status();
        assert!(made.expect("mkfifo runs").success());
        for path in [path.as_path(), directory.path()] {
            for read in [read_private, read_trusted] {
                let error = read(path).expect_err("it is refused");
                assert_eq!(
                    error.to_string(),
                    "it is not a regular file; use the path of a file",
                    "{}",
                    path.display()
                );
            }
        }
    }

    #[test]
    fn a_secret_of_another_user_is_refused_also_for_root() {
        let file = file(0o600);
        // Only root can give a file away, and only root can read it then.
        if std::os::unix::fs::chown(file.path(), Some(12_345), None).is_err() {
            return;
        }
        let error = read_private(file.path()).expect_err("it is refused").to_string();
        assert!(error.contains("another user (mode 0600, owner uid 12345; this"), "{error}");
        assert!(error.contains("run `chown 0 "), "{error}");
    }
}
