//! Job counts as pages show them: of all queues, with their age.

use maud::{Markup, html};
use punctual::{Admin, QueueStats, StatsCursor, Timestamp};

use super::show;
use crate::fault::Fault;

/// Pairs of queue and kind that one request reads.
const PAGE: usize = 500;
/// Pages that are read for the totals of one page.
const PAGES_MAX: usize = 40;

/// Job counts by queue and kind.
pub(super) struct Counted {
    pub(super) items: Vec<QueueStats>,
    age: Age,
    /// Are there more pairs than were read?
    has_more: bool,
}

/// How old counts are, and whether they cover all jobs.
pub(super) struct Age {
    /// When stored counts were counted; none: they were counted for this page.
    pub(super) counted_at: Option<Timestamp>,
    pub(super) is_partial: bool,
}

impl Counted {
    /// Reads the counts of all queues.
    pub(super) async fn read(admin: &Admin) -> Result<Counted, Fault> {
        let mut items = Vec::new();
        let mut age = Age { counted_at: None, is_partial: false };
        let mut after: Option<StatsCursor> = None;
        for _ in 0..PAGES_MAX {
            let page = admin.queue_stats(after.as_ref(), PAGE).await?;
            items.extend(page.items);
            // Each page can be from another count: the oldest is shown.
            age.counted_at = age.counted_at.into_iter().chain(page.counted_at).min();
            age.is_partial |= page.is_partial;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(Counted { items, age, has_more: after.is_some() })
    }

    /// The age of the counts, and what they do not cover.
    pub(super) fn note(&self, now: Timestamp) -> Markup {
        html! {
            (self.age.note(now))
            @if self.has_more {
                p.notice.warn { "The numbers cover the first " (show::grouped(self.items.len() as u64)) " pairs of queue and kind; there are more." }
            }
        }
    }
}

impl Age {
    /// The age of stored job counts; nothing if all jobs were counted for this page.
    pub(super) fn note(&self, now: Timestamp) -> Markup {
        html! {
            @if let Some(at) = self.counted_at {
                p.faint #counted { "Jobs counted " (show::relative(now, at)) "." }
            } @else if self.is_partial {
                p.notice.warn #counted { "Not all jobs are counted yet. The real numbers are higher." }
            }
        }
    }
}
