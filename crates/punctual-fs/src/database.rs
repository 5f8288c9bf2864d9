//! Which SQLite databases a server may run. Jobs and schedules in a database decide what the server
//! executes, so a database of another user is as dangerous as a program of another user.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::access::FileAccess;
use crate::read::FileError;

/// Files next to a database that its users share. SQLite takes over the content of the journals, finds
/// pages through `-shm`, and the engine holds a lock on `.lock`.
const COMPANIONS: [&str; 4] = ["-wal", "-journal", "-shm", ".lock"];

/// Refuses an existing database that every user can change, or that belongs to neither root nor this
/// user. Nothing is opened: closing a descriptor of a database releases all its POSIX locks.
///
/// The journals, the shared memory file and the lock file must fulfil the same rule, except that users
/// of the group may own them if they can change the database.
///
/// # Errors
///
/// `Refused` with the path, its mode and owner and the remedy, or the error of the system.
pub fn refuse_foreign_database(path: &Path) -> Result<(), FileError> {
    let user = rustix::process::geteuid().as_raw();
    let database = access(path)?;
    if let Some(why) = database.and_then(|found| refusal(path, found, user, false)) {
        return Err(FileError::Refused(why));
    }
    let is_shared = database.is_some_and(FileAccess::is_writable_by_group);
    for suffix in COMPANIONS {
        let file = sibling(path, suffix);
        if let Some(why) = access(&file)?.and_then(|found| refusal(&file, found, user, is_shared)) {
            return Err(FileError::Refused(why));
        }
    }
    Ok(())
}

/// Mode and owner, unless nothing has this name.
fn access(path: &Path) -> io::Result<Option<FileAccess>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(FileAccess::from(&found))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Why a process of this user must not run the file.
fn refusal(path: &Path, access: FileAccess, user: u32, is_shared: bool) -> Option<String> {
    let shown = path.display();
    if access.has_foreign_owner(user) && !is_shared {
        return Some(format!(
            "`{shown}` belongs to another user ({access}; this process runs as uid {user}), who \
             decides which programs its jobs run; if you trust the content, run `chown {user} \
             {shown}`, otherwise use another path"
        ));
    }
    access.is_writable_by_all().then(|| {
        format!(
            "every user can change `{shown}` ({access}) and so decide which programs its jobs run; \
             if you trust the content, run `chmod o-w {shown}`, otherwise use another path"
        )
    })
}

fn sibling(database: &Path, suffix: impl AsRef<OsStr>) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_server_runs_databases_of_root_and_of_its_own_user() {
        let is_refused = |mode, owner, user, is_shared| {
            refusal(Path::new("x.db"), FileAccess { mode, owner }, user, is_shared).is_some()
        };
        for (mode, owner) in [(0o600, 1000), (0o660, 1000), (0o644, 0)] {
            assert!(!is_refused(mode, owner, 1000, false), "{mode:o} {owner}");
        }
        for (mode, owner) in [(0o602, 1000), (0o666, 1000), (0o600, 1001), (0o646, 0)] {
            assert!(is_refused(mode, owner, 1000, false), "{mode:o} {owner}");
        }
        assert!(is_refused(0o600, 1000, 0, false), "root runs no database of another user");
        assert!(!is_refused(0o660, 1001, 1000, true), "the journal of a shared database");
        assert!(is_refused(0o662, 1001, 1000, true), "a journal that all users can change");
    }

    #[test]
    fn a_companion_that_all_users_can_change_is_refused_with_the_remedy() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = directory.path().join("x.db");
        refuse_foreign_database(&database).expect("a new database");
        for name in ["x.db-wal", "x.db-journal", "x.db-shm", "x.db.lock", "x.db"] {
            let file = directory.path().join(name);
            let set = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode));
            fs::write(&file, "").expect("it is written");
            set(0o602).expect("it is ours");
            let error = refuse_foreign_database(&database).expect_err("it is refused").to_string();
            assert!(error.contains(&format!("run `chmod o-w {}`", file.display())), "{error}");
            set(0o660).expect("it is ours");
            refuse_foreign_database(&database).expect("it is allowed");
        }
    }
}
