//! The name of a lease, as it goes to whoever works and back.

use std::fmt;
use std::str::FromStr;

use punctual_core::{JobId, LeaseId, NodeId};

/// A lease of one job, by a name that says all that a call about it has to know, so that nobody has to
/// remember it.
///
/// It is no secret and no permission: whoever may ask at all may name it. The lease in it is random,
/// and the store alone says whether it is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The lease.
    pub lease: LeaseId,
    /// The job.
    pub job: JobId,
    /// The number of the attempt.
    pub attempt: u32,
    /// The remote worker that holds it. None: a node with a handler does, which waits for somebody
    /// else to end its job.
    pub by: Option<Holder>,
}

/// A remote worker that holds a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The worker's node.
    pub node: NodeId,
}

/// A text that is no name of a lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid lease `{0}`; pass the `lease` value of the claim response unchanged")]
pub struct HeldError(String);

/// What is repeated of a text that cannot be read.
const ECHO_MAX: usize = 120;

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { lease, job, attempt, by } = self;
        write!(f, "{lease}.{job}.{attempt}")?;
        match by {
            Some(Holder { node }) => write!(f, ".{node}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Held {
    type Err = HeldError;

    fn from_str(text: &str) -> Result<Held, HeldError> {
        read(text).ok_or_else(|| HeldError(text.chars().take(ECHO_MAX).collect()))
    }
}

fn read(text: &str) -> Option<Held> {
    let mut parts = text.split('.');
    let lease = parts.next()?.parse().ok()?;
    let job = parts.next()?.parse().ok()?;
    let attempt = parts.next()?.parse().ok()?;
    let by = match parts.next() {
        Some(node) => Some(Holder { node: node.parse().ok()? }),
        None => None,
    };
    parts.next().is_none().then_some(Held { lease, job, attempt, by })
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;

    use super::*;

    #[test]
    fn a_name_reads_back() {
        let now = Timestamp::from_seconds(1_800_000_000);
        let (lease, job) = (LeaseId::mint(now, [1; 10]), JobId::mint(now, [2; 10]));
        let by = Holder { node: NodeId::mint(now, [3; 10]) };
        for by in [None, Some(by)] {
            let held = Held { lease, job, attempt: 3, by };
            assert_eq!(held.to_string().parse(), Ok(held));
        }
        for text in ["", "x", &format!("{lease}"), &format!("{lease}.{job}.1.2"), "1.2.3.4.5.6"] {
            assert_eq!(text.parse::<Held>(), Err(HeldError(text.to_owned())));
        }
    }
}
