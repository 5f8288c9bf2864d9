//! Kinds of jobs that somebody serves, has served, or has ordered before; any other is most likely
//! a slip of the pen, and its job would wait for ever.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use punctual::{JobFilter, Punctual};
use punctual_api::Problem;
use tokio::sync::Mutex;

use crate::fault::Fault;

/// What becomes of orders whose kind nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownKinds {
    /// They are refused, unless the request says that it means it.
    #[default]
    Refuse,
    /// They wait for whoever will serve them.
    Allow,
}

/// Names that are remembered. A program has dozens; more come from somebody who makes them up.
const KNOWN_MAX: usize = 100_000;
/// Kinds that are named to whoever has to choose from them.
const TOLD_MAX: usize = 10;
/// What was written is repeated up to this many characters.
const ECHO_CHARS: usize = 120;

/// The kinds that are known. What is known once stays so for as long as the process lives: the only
/// worker of a kind may be starting again, and orders must not be lost meanwhile.
pub(crate) struct Kinds {
    known: RwLock<HashSet<String>>,
    /// How many looks at the database have begun.
    looks: AtomicU64,
    /// One looks, for all who wait.
    looking: Mutex<()>,
}

impl Kinds {
    pub(crate) fn new(known: impl IntoIterator<Item = String>) -> Kinds {
        let known = RwLock::new(known.into_iter().collect());
        Kinds { known, looks: AtomicU64::new(0), looking: Mutex::new(()) }
    }

    /// Is it known? A kind that was seen before costs nothing; for one that was not, the database
    /// is asked, after the question and not before.
    pub(crate) async fn knows(&self, kind: &str, punctual: &Punctual) -> punctual::Result<bool> {
        if self.has(kind) {
            return Ok(true);
        }
        let seen = self.looks.load(Ordering::Acquire);
        {
            let _one = self.looking.lock().await;
            // Whoever waited here need not look if somebody has begun to since.
            if self.looks.load(Ordering::Acquire) == seen {
                self.looks.fetch_add(1, Ordering::AcqRel);
                self.learn(present(punctual).await?);
            }
        }
        if self.has(kind) {
            return Ok(true);
        }
        // Jobs that have ended well are in no statistics.
        let of_kind = JobFilter { kind: Some(kind.to_owned()), ..JobFilter::default() };
        let was_there = match punctual.admin().jobs(&of_kind, None, 1).await {
            Ok(page) => !page.items.is_empty(),
            // What can be no kind was no job's.
            Err(error) if error.kind() == punctual::ErrorKind::Invalid => false,
            Err(error) => return Err(error),
        };
        if was_there {
            self.learn([kind.to_owned()]);
        }
        Ok(was_there)
    }

    fn has(&self, kind: &str) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).contains(kind)
    }

    fn learn(&self, kinds: impl IntoIterator<Item = String>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.extend(kinds);
    }

    /// What is wrong with a kind that is not known, in words.
    pub(crate) fn unknown(&self, kind: &str) -> String {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let shown: String = kind.chars().take(ECHO_CHARS).collect();
        let cut = if shown.len() < kind.len() { "…" } else { "" };
        let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
        names.sort_unstable();
        let advice = match punctual_core::nearest(&shown, names.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if names.is_empty() => "no kinds are known yet".to_owned(),
            None => {
                let more = if names.len() > TOLD_MAX { ", …" } else { "" };
                names.truncate(TOLD_MAX);
                format!("known kinds: {}{more}", names.join(", "))
            }
        };
        format!("unknown job kind `{shown}{cut}`; {advice}")
    }

    /// The refusal of a kind that stands at this place of the request.
    pub(crate) fn refusal(&self, kind: &str, pointer: &str) -> Fault {
        let detail = self.unknown(kind);
        let title = "Unknown job kind";
        let problem = Problem::new(422, "unknown_kind", title, &*detail).at(pointer, detail);
        Fault::from(problem.hint(
            "start a worker for this kind first, or add `?allow_unknown_kind=true` \
             (command line: `--allow-unknown-kind`)",
        ))
    }
}

/// The kinds of all nodes, and of all jobs that are unfinished or dead letters.
async fn present(punctual: &Punctual) -> punctual::Result<HashSet<String>> {
    let admin = punctual.admin();
    let nodes = admin.nodes().await?;
    let mut kinds: HashSet<String> = nodes.into_iter().flat_map(|node| node.info.kinds).collect();
    let mut after = None;
    loop {
        let page = admin.queue_stats(after.as_ref(), 500).await?;
        kinds.extend(page.items.into_iter().map(|stats| stats.kind));
        after = page.next;
        if after.is_none() || kinds.len() >= KNOWN_MAX {
            return Ok(kinds);
        }
    }
}
