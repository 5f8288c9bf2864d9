//! The file with the password of the role.

use std::path::Path;

use punctual_fs::{FileError, read_private};
use punctual_store::{ErrorKind, Result, StoreError};

/// Reads the password; newlines at its end do not belong to it.
///
/// # Errors
///
/// Returns `Denied` for a file that other users can read, and `Invalid` for one that is missing or
/// empty.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>> {
    let unreadable = |error: FileError| {
        let kind = match error {
            FileError::Refused(_) => ErrorKind::Denied,
            FileError::Io(_) => ErrorKind::Invalid,
        };
        let shown = file.display();
        StoreError::new(kind, format!("cannot read the password file `{shown}`: {error}"))
    };
    let mut password = read_private(file).map_err(unreadable)?;
    while matches!(password.last(), Some(b'\n' | b'\r')) {
        password.pop();
    }
    if password.is_empty() {
        let shown = file.display();
        let message = format!(
            "the password file `{shown}` is empty; write the password of the database role into it"
        );
        return Err(StoreError::invalid(message));
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_password_file_has_one_password_and_only_its_owner_reads_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("password");
        let read_with = |content: &str, mode: u32| {
            fs::write(&path, content).expect("it is written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
            read(&path).map_err(|error| {
                let message = error.to_string().replace(&path.display().to_string(), "PATH");
                let (before, after) = message.split_once(", owner uid ").unwrap_or((&message, ""));
                format!(
                    "{:?}: {before}{}",
                    error.kind(),
                    after.trim_start_matches(char::is_numeric)
                )
            })
        };
        assert_eq!(read_with(" s3cret \r\n\n", 0o600).as_deref(), Ok(b" s3cret ".as_slice()));
        insta::assert_snapshot!(read_with("s3cret\n", 0o604).unwrap_err(), @"Denied: cannot read the password file `PATH`: other users can read or change it (mode 0604); run `chmod 600 PATH`");
        insta::assert_snapshot!(read_with("\n", 0o600).unwrap_err(), @"Invalid: the password file `PATH` is empty; write the password of the database role into it");
        fs::remove_file(&path).expect("it is there");
        insta::assert_snapshot!(read(&path).unwrap_err().to_string().replace(&path.display().to_string(), "PATH"), @"cannot read the password file `PATH`: No such file or directory (os error 2)");
    }
}
