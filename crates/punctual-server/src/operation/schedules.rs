//! Many schedules paused or resumed.

use futures_util::future::join_all;
use punctual::{Admin, BoxError, Ctx, Done, Failure, Schedule, Timestamp};
use punctual_api::OperationCounts;

use super::{AT_ONCE, Action, Bulk, PAGE, REASONS_MAX, is_its_own};
use crate::status::{Status, Wanted};

/// Is there anything to do to this schedule? One that is paused already keeps its reason and its end.
pub(crate) fn is_for(action: Action, schedule: &Schedule, now: Timestamp) -> bool {
    let is_paused = Status::of(schedule, now, &[]) == Status::Paused;
    match action {
        Action::Pause => schedule.enabled && !is_paused,
        Action::Resume => is_paused,
        Action::Retry | Action::Cancel | Action::Move => false,
    }
}

/// How many there are, in so many pages, and whether there may be more.
pub(crate) async fn count(
    action: Action,
    admin: &Admin,
    wanted: &Wanted,
    now: Timestamp,
    pages: usize,
) -> punctual::Result<(u64, bool)> {
    let (mut total, mut after) = (0, None::<String>);
    for _ in 0..pages {
        let page = admin.schedules(after.as_deref(), PAGE).await?;
        let is_meant = |it: &&Schedule| wanted.has(it, now) && is_for(action, it, now);
        total += page.iter().filter(is_meant).count() as u64;
        if page.len() < PAGE {
            return Ok((total, false));
        }
        after = page.last().map(|schedule| schedule.name.clone());
    }
    Ok((total, true))
}

pub(super) async fn operate(bulk: &Bulk, cx: &Ctx) -> Result<Done<OperationCounts>, BoxError> {
    let wanted = Wanted::new(&bulk.q, bulk.status.as_deref().unwrap_or_default());
    let until = bulk.until.as_deref().map(str::parse::<Timestamp>).transpose();
    let until = until.map_err(Failure::permanent)?;
    let asked_at: Timestamp = bulk.asked_at.parse().map_err(Failure::permanent)?;
    let admin = cx.admin().by(&bulk.who, &bulk.why);
    let now = admin.now().await?;
    let (total, _) = count(bulk.action, &admin, &wanted, now, usize::MAX).await?;
    let mut counts = OperationCounts::default();
    let mut after = None::<String>;
    loop {
        let page = admin.schedules(after.as_deref(), PAGE).await?;
        let is_last = page.len() < PAGE;
        after = page.last().map(|schedule| schedule.name.clone());
        let is_meant = |it: &Schedule| {
            it.created_at <= asked_at && wanted.has(it, now) && is_for(bulk.action, it, now)
        };
        let names: Vec<String> =
            page.into_iter().filter(is_meant).map(|schedule| schedule.name).collect();
        for part in names.chunks(AT_ONCE) {
            if let Some(reason) = cx.stop_reason() {
                return Err(format!("stopped ({reason:?}): {}", note(bulk, &counts, total)).into());
            }
            change(bulk.action, &admin, part, until, &mut counts).await?;
            let seen = counts.done + counts.skipped;
            let percent = seen * 100 / total.max(seen).max(1);
            cx.progress(u8::try_from(percent).unwrap_or(100), &note(bulk, &counts, total));
        }
        if is_last {
            cx.log(&note(bulk, &counts, total));
            return Ok(Done(counts));
        }
    }
}

/// Pauses or resumes these. One that is gone meanwhile keeps no other from it.
pub(crate) async fn change(
    action: Action,
    admin: &Admin,
    names: &[String],
    until: Option<Timestamp>,
    counts: &mut OperationCounts,
) -> punctual::Result<()> {
    let answers = join_all(names.iter().map(|name| async move {
        match action {
            Action::Pause => admin.pause_schedule(name, until).await.map(drop),
            _ => admin.resume_schedule(name).await.map(drop),
        }
    }));
    for answer in answers.await {
        match answer {
            Ok(()) => counts.done += 1,
            Err(error) if is_its_own(error.kind()) => {
                counts.skipped += 1;
                if counts.reasons.len() < REASONS_MAX {
                    counts.reasons.push(error.to_string());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn note(bulk: &Bulk, counts: &OperationCounts, total: u64) -> String {
    let (word, total) = (bulk.action.done(), total.max(counts.done + counts.skipped));
    match counts.skipped {
        0 => format!("{} of {total} {word}", counts.done),
        skipped => format!("{} of {total} {word}, {skipped} skipped", counts.done),
    }
}
