//! Every queue there is, for whoever has to stop all work at once.

use std::collections::BTreeMap;

use punctual::{Admin, Pause, StatsCursor};

use crate::fault::Fault;
use crate::operation::OPERATIONS;

/// Queues that are stopped at once: each takes a write.
pub(super) const QUEUES_MAX: usize = 1_000;
/// Pages of counts that are looked through for queues, 500 pairs of queue and kind each.
const PAGES: usize = 20;

/// Queues by name, each with the pause that is in force. That of operations is none of them: what was
/// begun to mend things must go on.
pub(super) struct Queues {
    pub(super) queues: BTreeMap<String, Option<Pause>>,
    /// Were there more than are looked at?
    pub(super) has_more: bool,
}

impl Queues {
    /// Those that have a setting or a job, or that a node serves.
    pub(super) async fn read(admin: &Admin) -> Result<Queues, Fault> {
        let now = admin.now().await?;
        let mut queues: BTreeMap<String, Option<Pause>> = BTreeMap::new();
        for queue in admin.queues().await? {
            queues.insert(queue.name, queue.pause.filter(|pause| pause.is_in_force(now)));
        }
        for node in admin.nodes().await? {
            for name in node.info.queues {
                queues.entry(name).or_default();
            }
        }
        let mut after: Option<StatsCursor> = None;
        for _ in 0..PAGES {
            let page = admin.queue_stats(after.as_ref(), 500).await?;
            for it in page.items {
                queues.entry(it.queue).or_default();
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        queues.remove(OPERATIONS);
        let has_more = after.is_some() || queues.len() > QUEUES_MAX;
        Ok(Queues { queues: queues.into_iter().take(QUEUES_MAX).collect(), has_more })
    }

    /// Those that are not paused.
    pub(super) fn open(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().filter(|(_, pause)| pause.is_none()).map(|(name, _)| name.as_str())
    }

    /// Those that are, each with whether it was paused together with the last one that was: by the same,
    /// for the same reason. One that was paused before for a reason of its own is none of these.
    pub(super) fn paused(&self) -> Vec<(&str, &Pause, bool)> {
        let paused = || self.queues.iter().filter_map(|(name, it)| Some((name, it.as_ref()?)));
        let last = paused().max_by_key(|(_, pause)| pause.since).map(|(_, pause)| &pause.by);
        paused().map(|(name, pause)| (name.as_str(), pause, Some(&pause.by) == last)).collect()
    }
}

#[cfg(test)]
mod tests {
    use punctual::{Actor, Timestamp};

    use super::*;

    #[test]
    fn what_was_paused_for_a_reason_of_its_own_is_not_resumed_with_the_rest() {
        let pause = |why: &str, since: i64| Pause {
            by: Actor { who: "ada".to_owned(), why: why.to_owned() },
            since: Timestamp::from_seconds(since),
            until: None,
        };
        let queues = BTreeMap::from([
            ("a".to_owned(), Some(pause("incident", 100))),
            ("b".to_owned(), None),
            ("c".to_owned(), Some(pause("new printer", 50))),
            ("d".to_owned(), Some(pause("incident", 101))),
        ]);
        let queues = Queues { queues, has_more: false };
        assert_eq!(queues.open().collect::<Vec<_>>(), ["b"]);
        let paused: Vec<(&str, bool)> =
            queues.paused().into_iter().map(|(name, _, is_one)| (name, is_one)).collect();
        assert_eq!(paused, [("a", true), ("c", false), ("d", true)]);
    }
}
