//! What buttons do: plain forms, each authorised here and noted in the audit, answered with a page.

pub(super) mod many;

use axum::extract::Path;
use axum::response::Redirect;
use punctual::{JobId, Placement, QueueLimits, Timestamp};
use punctual_core::parse_duration;

use super::view::{View, encoded, own_place};
use crate::ask::FormBody;
use crate::fault::Fault;

/// What forms say; each uses what it needs.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Said {
    /// Where to go afterwards.
    back: String,
    /// Why.
    why: String,
    /// For how long, such as `2h`, or until when.
    until: String,
    queue: String,
    priority: String,
    /// When, for a job that is moved.
    due: String,
    max_running: String,
    /// What is done to all jobs or schedules of a filter, and the filter.
    action: String,
    q: String,
    status: String,
}

impl Said {
    /// Until when something is paused: a length from now, or an instant.
    async fn until(&self, view: &View) -> Result<Option<Timestamp>, Fault> {
        instant(view, "until", &self.until).await
    }

    /// Where jobs are moved to.
    async fn place(&self, view: &View) -> Result<Placement, Fault> {
        let priority = match self.priority.trim() {
            "" => None,
            text => Some(text.parse().map_err(|_| {
                Fault::invalid(
                    "priority",
                    format!("invalid priority `{text}`; expected -100 to 100"),
                )
            })?),
        };
        let queue = Some(self.queue.trim().to_owned()).filter(|queue| !queue.is_empty());
        Ok(Placement { queue, priority, due_at: instant(view, "due", &self.due).await? })
    }
}

/// An instant, or a length from now; empty is none.
async fn instant(view: &View, place: &str, text: &str) -> Result<Option<Timestamp>, Fault> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if let Ok(length) = parse_duration(text) {
        return Ok(Some(view.now().await? + length));
    }
    text.parse().map(Some).map_err(|_| {
        let wrong = format!(
            "invalid time `{text}`; \
             use a duration such as 2h, or a time such as 2027-01-15T08:00:00Z"
        );
        Fault::invalid(place, wrong)
    })
}

/// Back to where the button was, with a word of what was done.
fn back(view: &View, back: &str, fallback: &str, did: &str) -> Redirect {
    let place = own_place(back).unwrap_or(fallback);
    let (path, query) = place.split_once('?').unwrap_or((place, ""));
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("did="));
    let query: Vec<String> = kept.map(str::to_owned).chain([format!("did={did}")]).collect();
    Redirect::to(&view.to(&format!("{path}?{}", query.join("&"))))
}

fn unknown(action: &str) -> Fault {
    Fault::not_found(format!("unknown action `{action}`"))
}

/// A button of a schedule.
pub(super) async fn schedule(
    view: View,
    Path((name, action)): Path<(String, String)>,
    FormBody(said): FormBody<Said>,
) -> Result<Redirect, Fault> {
    let admin = view.admin_because(&said.why);
    let did = match action.as_str() {
        "run" => {
            admin.run_now(&name).await?;
            "ran"
        }
        "pause" => {
            admin.pause_schedule(&name, said.until(&view).await?).await?;
            "paused"
        }
        "resume" => {
            admin.resume_schedule(&name).await?;
            "resumed"
        }
        "enable" => {
            admin.enable_schedule(&name).await?;
            "enabled"
        }
        "disable" => {
            admin.disable_schedule(&name).await?;
            "disabled"
        }
        "realign" => {
            admin.realign_schedule(&name).await?;
            "realigned"
        }
        action => return Err(unknown(action)),
    };
    view.ui.0.kept.forget();
    view.ui.0.live.tell("schedules activity jobs queues");
    Ok(back(&view, &said.back, &format!("/schedules/{}", encoded(&name)), did))
}

/// A button of a job.
pub(super) async fn job(
    view: View,
    Path((id, action)): Path<(String, String)>,
    FormBody(said): FormBody<Said>,
) -> Result<Redirect, Fault> {
    let id: JobId = id.parse().map_err(|error| Fault::unreadable("id", format!("{error}")))?;
    let admin = view.admin_because(&said.why);
    let did = match action.as_str() {
        "retry" => {
            admin.retry(id).await?;
            "retried"
        }
        "cancel" => match admin.cancel(id).await? {
            true => "cancelled",
            false => "ended",
        },
        "move" => {
            admin.move_to(id, &said.place(&view).await?).await?;
            "moved"
        }
        action => return Err(unknown(action)),
    };
    view.ui.0.live.tell("jobs job queues activity");
    Ok(back(&view, &said.back, &format!("/jobs/{id}"), did))
}

/// A button of a queue.
pub(super) async fn queue(
    view: View,
    Path((name, action)): Path<(String, String)>,
    FormBody(said): FormBody<Said>,
) -> Result<Redirect, Fault> {
    let admin = view.admin_because(&said.why);
    let did = match action.as_str() {
        "pause" => {
            admin.pause_queue(&name, said.until(&view).await?).await?;
            "paused"
        }
        "resume" => {
            admin.resume_queue(&name).await?;
            "resumed"
        }
        "limit" => {
            let max_running = match said.max_running.trim() {
                "" => None,
                text => Some(text.parse().map_err(|_| {
                    Fault::invalid(
                        "max_running",
                        format!(
                            "invalid limit `{text}`; use a number, or leave it empty for no limit"
                        ),
                    )
                })?),
            };
            admin.limit_queue(&name, QueueLimits { max_running }).await?;
            "limited"
        }
        action => return Err(unknown(action)),
    };
    view.ui.0.live.tell("queues jobs activity");
    Ok(back(&view, &said.back, &format!("/queues/{}", encoded(&name)), did))
}
