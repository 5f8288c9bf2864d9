//! Which file systems a database may lie on: those whose locks and syncs hold what they promise.

use std::path::Path;

use punctual_store::{ErrorKind, Result, StoreError};

/// Refuses a network or user-space file system, unless any is allowed.
pub(crate) fn check(path: &Path, is_any_ok: bool) -> Result<()> {
    judge(path, magic(path), is_any_ok)
}

fn judge(path: &Path, magic: Option<u64>, is_any_ok: bool) -> Result<()> {
    match magic.filter(|_| !is_any_ok).and_then(unreliable) {
        None => Ok(()),
        Some(name) => {
            let message = format!(
                "`{}` is on {name}, where file locks and syncs are not reliable; use a local \
                 disk, or PostgreSQL for several machines (the setting `database.any_file_system`, in \
                 Rust `OpenSqlite::any_file_system`, disables this check)",
                path.display()
            );
            Err(StoreError::new(ErrorKind::Denied, message))
        }
    }
}

/// What kind of file system holds the file or, before it exists, its directory.
#[cfg(target_os = "linux")]
fn magic(path: &Path) -> Option<u64> {
    let found = rustix::fs::statfs(path);
    let found = found.or_else(|_| rustix::fs::statfs(path.parent().unwrap_or(path)));
    // Some machines extend the sign of the number.
    found.ok().map(|about| about.f_type as u64 & 0xFFFF_FFFF)
}

/// Only Linux tells by a number.
#[cfg(not(target_os = "linux"))]
fn magic(_path: &Path) -> Option<u64> {
    None
}

/// The name of a file system that cannot be relied on, by its number (`statfs(2)`).
fn unreliable(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517B | 0xFE53_4D42 | 0xFF53_4D42 => "SMB",
        0x6573_5546 => "FUSE",
        0x0102_1997 => "9P",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x00C3_6400 => "Ceph",
        0x0BD0_0BD0 => "Lustre",
        0x786F_4256 => "a VirtualBox share",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_and_user_space_file_systems_are_refused_by_name() {
        let refused = [0x6969, 0xFF53_4D42, 0x6573_5546, 0x0102_1997].map(unreliable);
        assert_eq!(refused, [Some("NFS"), Some("SMB"), Some("FUSE"), Some("9P")]);
        // ext4, XFS, Btrfs, ZFS, tmpfs, overlayfs
        for local in [0xEF53, 0x5846_5342, 0x9123_683E, 0x2FC1_2FC1, 0x0102_1994, 0x794C_7630] {
            assert_eq!(unreliable(local), None);
        }
    }

    #[test]
    fn a_user_space_mount_is_refused_with_a_way_out() {
        let error = judge(Path::new("/mnt/share/jobs.db"), Some(0x6573_5546), false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        insta::assert_snapshot!(error, @"`/mnt/share/jobs.db` is on FUSE, where file locks and syncs are not reliable; use a local disk, or PostgreSQL for several machines (the setting `database.any_file_system`, in Rust `OpenSqlite::any_file_system`, disables this check)");
    }

    #[test]
    fn any_file_system_is_accepted_on_request() {
        assert_eq!(judge(Path::new("/mnt/share/jobs.db"), Some(0x6573_5546), true), Ok(()));
    }

    #[test]
    fn the_directories_of_this_machine_are_reliable() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(check(&directory.path().join("new.db"), false), Ok(()));
        if Path::new("/dev/shm").exists() {
            assert_eq!(check(Path::new("/dev/shm/new.db"), false), Ok(()));
        }
    }
}
