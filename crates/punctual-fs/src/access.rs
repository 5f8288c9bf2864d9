//! Who may read or change a file, decided from its mode and owner.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// Root can change every file anyway, so it is trusted as an owner.
const ROOT: u32 = 0;

/// Mode and owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAccess {
    /// The permission bits, such as 0o600.
    pub mode: u32,
    /// The user id of the owner.
    pub owner: u32,
}

impl From<&Metadata> for FileAccess {
    fn from(found: &Metadata) -> FileAccess {
        FileAccess { mode: found.mode() & 0o7777, owner: found.uid() }
    }
}

impl fmt::Display for FileAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mode {:04o}, owner uid {}", self.mode, self.owner)
    }
}

/// Can users other than the owner read or change the file?
pub fn is_exposed(access: FileAccess) -> bool {
    access.mode & 0o077 != 0
}

impl FileAccess {
    /// Can users who must not know a secret read or change the file?
    ///
    /// The group may read a file of root: that is how systemd and Kubernetes hand credentials to a
    /// service. PostgreSQL has the same rule for its private key.
    pub(crate) fn is_public(self) -> bool {
        let forbidden = if self.owner == ROOT { 0o037 } else { 0o077 };
        self.mode & forbidden != 0
    }

    /// Can every user of the machine change the file?
    pub(crate) fn is_writable_by_all(self) -> bool {
        self.mode & 0o002 != 0
    }

    /// Can users of the file's group change it?
    pub(crate) fn is_writable_by_group(self) -> bool {
        self.mode & 0o020 != 0
    }

    /// Can users other than the owner change the file?
    pub(crate) fn is_writable_by_others(self) -> bool {
        self.mode & 0o022 != 0
    }

    /// Does the file belong to a user other than root and this one?
    pub(crate) fn has_foreign_owner(self, user: u32) -> bool {
        self.owner != ROOT && self.owner != user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_reads_a_secret_and_the_group_one_of_root() {
        let is_public = |mode, owner| FileAccess { mode, owner }.is_public();
        for mode in [0o400, 0o600] {
            assert!(!is_public(mode, 1000) && !is_public(mode, ROOT), "{mode:o}");
        }
        for mode in [0o440, 0o640] {
            assert!(is_public(mode, 1000) && !is_public(mode, ROOT), "{mode:o}");
        }
        for mode in [0o604, 0o620, 0o644, 0o660, 0o666, 0o602, 0o601] {
            assert!(is_public(mode, 1000) && is_public(mode, ROOT), "{mode:o}");
        }
    }

    #[test]
    fn only_root_and_this_user_may_own_a_configuration() {
        let access = |mode, owner| FileAccess { mode, owner };
        assert!(!access(0o644, 1000).has_foreign_owner(1000));
        assert!(!access(0o644, ROOT).has_foreign_owner(1000));
        assert!(access(0o644, 1001).has_foreign_owner(1000));
        assert!(access(0o644, 1001).has_foreign_owner(ROOT));
        assert!(!access(0o644, 1000).is_writable_by_others());
        assert!(access(0o664, 1000).is_writable_by_others());
        assert!(access(0o646, 1000).is_writable_by_others());
    }
}
