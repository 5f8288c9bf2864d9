//! Who there is on this machine, as its files say.

use std::path::Path;

use crate::plan::{Refusal, not_here};

/// A user of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: String,
}

/// Finds a user by name or number.
pub(crate) fn user(name: &str) -> Result<User, Refusal> {
    let of_line = |fields: &[&str]| {
        let [name, _, uid, gid, _, home, ..] = fields else { return None };
        let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
        Some(User { name: (*name).to_owned(), uid, gid, home: (*home).to_owned() })
    };
    find(Path::new("/etc/passwd"), name, of_line)?.ok_or_else(|| {
        not_here(format!(
            "user `{name}` not found on this worker; create it, or correct `user` (only \
             /etc/passwd is searched)"
        ))
    })
}

/// Finds the number of a group by name or number.
pub(crate) fn group(name: &str) -> Result<u32, Refusal> {
    let of_line = |fields: &[&str]| fields.get(2)?.parse().ok();
    find(Path::new("/etc/group"), name, of_line)?.ok_or_else(|| {
        not_here(format!(
            "group `{name}` not found on this worker; create it, or correct `group` (only \
             /etc/group is searched)"
        ))
    })
}

/// The first line whose name or number is this.
fn find<T>(
    file: &Path,
    name: &str,
    of_line: impl Fn(&[&str]) -> Option<T>,
) -> Result<Option<T>, Refusal> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Refusal::unreadable(Some(&error), format!("cannot read {}: {error}", file.display()))
    })?;
    let is_number = name.parse::<u32>().is_ok();
    Ok(text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_it = fields.first() == Some(&name) || is_number && fields.get(2) == Some(&name);
        if is_it { of_line(&fields) } else { None }
    }))
}
