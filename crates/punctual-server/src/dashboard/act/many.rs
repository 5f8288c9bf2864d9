//! What is done to many at once: to what was ticked, to all that match, to everything.

use axum::response::{IntoResponse, Redirect, Response};
use futures_util::future::join_all;
use punctual::{ErrorKind, JobId, Placement, Timestamp};
use punctual_api::{MoveRequest, OperationCounts, OperationRequest, text};

use super::{Said, back, instant, unknown};
use crate::ask::FormBody;
use crate::dashboard::everything;
use crate::dashboard::pages::confirm::Many;
use crate::dashboard::show::plural;
use crate::dashboard::view::View;
use crate::fault::Fault;
use crate::operation::{Action, schedules};
use crate::routes::operations;

/// The most that a form changes at once: a page of them.
const SELECTED_MAX: usize = 200;
/// Changes that are under way at once; a database commits them together.
const AT_ONCE: usize = 50;

/// A form whose fields repeat, which only pairs can hold.
struct Pairs(Vec<(String, String)>);

impl Pairs {
    fn value(&self, wanted: &str) -> &str {
        self.0.iter().find(|(name, _)| name == wanted).map_or("", |(_, value)| value.as_str())
    }

    /// Was it asked, and answered?
    fn is_sure(&self) -> bool {
        self.value("sure") == "yes"
    }

    /// Whatever was ticked, at least one and no more than a form may change.
    fn ticked(&self, wanted: &str, most: usize) -> Result<Vec<String>, Fault> {
        let values: Vec<String> = self
            .0
            .iter()
            .filter(|(name, _)| name == wanted)
            .map(|(_, value)| value.clone())
            .collect();
        if values.is_empty() {
            let wrong = format!("no {wanted}s selected; select at least one");
            return Err(Fault::invalid(wanted, wrong));
        }
        if values.len() > most {
            let wrong = format!("too many {wanted}s selected: {}, maximum {most}", values.len());
            return Err(Fault::invalid(wanted, wrong));
        }
        Ok(values)
    }
}

/// Whoever stops many things says why.
fn reason(why: &str) -> Result<&str, Fault> {
    match why.trim() {
        "" => Err(Fault::invalid("why", "the reason is empty; enter a reason for the pause")),
        why => Ok(why),
    }
}

/// What is done to the jobs that were selected; before they are called off, somebody is asked.
pub(in crate::dashboard) async fn jobs(
    view: View,
    FormBody(pairs): FormBody<Vec<(String, String)>>,
) -> Result<Response, Fault> {
    let pairs = Pairs(pairs);
    let ids: Vec<JobId> = pairs
        .ticked("job", SELECTED_MAX)?
        .iter()
        .map(|id| id.parse().map_err(|error| Fault::unreadable("job", format!("{error}"))))
        .collect::<Result<_, Fault>>()?;
    if pairs.value("action") == "cancel" && !pairs.is_sure() {
        let question = Many {
            title: format!("Cancel {}?", plural(ids.len() as u64, "job", "jobs")),
            meaning: "Waiting jobs are cancelled immediately. Running jobs are asked to stop. \
                      You can retry them later.",
            place: "/jobs",
            button: "Cancel jobs",
            said: &pairs.0,
        };
        return Ok(question.ask(&view).into_response());
    }
    let admin = view.admin_because(pairs.value("why"));
    let mut has_refused = false;
    for id in ids {
        let done = match pairs.value("action") {
            "retry" => admin.retry(id).await.map(|()| true),
            "cancel" => admin.cancel(id).await,
            action => return Err(unknown(action)),
        };
        // One that ended, or began, meanwhile keeps no other from being done.
        match done {
            Ok(done) => has_refused |= !done,
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {
                has_refused = true;
            }
            Err(error) => return Err(error.into()),
        }
    }
    view.ui.0.live.tell("jobs job queues activity");
    let did = match (has_refused, pairs.value("action")) {
        (true, _) => "some",
        (false, "retry") => "retried",
        (false, _) => "cancelled",
    };
    Ok(back(&view, pairs.value("back"), "/jobs", did).into_response())
}

/// What is done to the schedules that were selected; before they are paused, somebody is asked.
pub(in crate::dashboard) async fn schedules(
    view: View,
    FormBody(pairs): FormBody<Vec<(String, String)>>,
) -> Result<Response, Fault> {
    let pairs = Pairs(pairs);
    let names = pairs.ticked("schedule", SELECTED_MAX)?;
    let action = of_schedules(pairs.value("action"))?;
    let mut until = None;
    if action == Action::Pause {
        reason(pairs.value("why"))?;
        until = instant(&view, "until", pairs.value("until")).await?;
        if !pairs.is_sure() {
            let question = Many {
                title: format!("Pause {}?", plural(names.len() as u64, "schedule", "schedules")),
                meaning: "Slots are skipped while a schedule is paused, and recorded in the \
                          ledger. Existing jobs continue.",
                place: "/schedules",
                button: "Pause schedules",
                said: &pairs.0,
            };
            return Ok(question.ask(&view).into_response());
        }
    }
    let admin = view.admin_because(pairs.value("why").trim());
    let mut counts = OperationCounts::default();
    for part in names.chunks(AT_ONCE) {
        schedules::change(action, &admin, part, until, &mut counts).await?;
    }
    view.ui.0.kept.forget();
    view.ui.0.live.tell("schedules activity");
    let did = match (counts.skipped, action) {
        (1.., _) => "some-schedules",
        (0, Action::Pause) => "paused",
        (0, _) => "resumed",
    };
    Ok(back(&view, pairs.value("back"), "/schedules", did).into_response())
}

/// An action of schedules, by its word.
pub(in crate::dashboard) fn of_schedules(word: &str) -> Result<Action, Fault> {
    match word {
        "pause" => Ok(Action::Pause),
        "resume" => Ok(Action::Resume),
        word => Err(unknown(word)),
    }
}

/// Begins what is to be done to all jobs of a filter, and leads to where it can be followed.
pub(in crate::dashboard) async fn operate(
    view: View,
    FormBody(said): FormBody<Said>,
) -> Result<Redirect, Fault> {
    let to = match said.action.as_str() {
        "move" => {
            let Placement { queue, priority, due_at } = said.place(&view).await?;
            Some(MoveRequest { queue, priority, at: text(due_at) })
        }
        _ => None,
    };
    let ask = OperationRequest { action: said.action, q: said.q, to, why: said.why };
    let id = operations::begin(&view.ui.0.app, &view.who, ask).await?;
    view.ui.0.live.tell("jobs queues");
    Ok(follow(&view, id))
}

/// Begins to pause or resume all schedules of a filter.
pub(in crate::dashboard) async fn operate_schedules(
    view: View,
    FormBody(said): FormBody<Said>,
) -> Result<Redirect, Fault> {
    let action = of_schedules(&said.action)?;
    let mut until: Option<Timestamp> = None;
    if action == Action::Pause {
        reason(&said.why)?;
        until = said.until(&view).await?;
    }
    let (q, status) = (said.q.trim().to_owned(), said.status.trim().to_owned());
    let ask = operations::Schedules { action, q, status, until, why: said.why.trim().to_owned() };
    let id = operations::begin_schedules(&view.ui.0.app, &view.who, ask).await?;
    view.ui.0.kept.forget();
    view.ui.0.live.tell("jobs schedules");
    Ok(follow(&view, id))
}

fn follow(view: &View, id: JobId) -> Redirect {
    Redirect::to(&view.to(&format!("/operations/{id}?did=begun")))
}

/// Pauses every queue that is open, at once: whoever asks for it has no time for a background job,
/// and may have nobody to do it.
pub(in crate::dashboard) async fn pause_everything(
    view: View,
    FormBody(said): FormBody<Said>,
) -> Result<Redirect, Fault> {
    let why = reason(&said.why)?;
    let until = said.until(&view).await?;
    let admin = view.admin_because(why);
    let everything = everything::Queues::read(&admin).await?;
    let open: Vec<&str> = everything.open().collect();
    for part in open.chunks(AT_ONCE) {
        for paused in join_all(part.iter().map(|name| admin.pause_queue(name, until))).await {
            paused?;
        }
    }
    view.ui.0.live.tell("queues jobs activity");
    let did = if everything.has_more { "some-queues" } else { "all-paused" };
    Ok(back(&view, "", "/queues", did))
}

/// Resumes the queues that were ticked.
pub(in crate::dashboard) async fn resume_everything(
    view: View,
    FormBody(pairs): FormBody<Vec<(String, String)>>,
) -> Result<Redirect, Fault> {
    let pairs = Pairs(pairs);
    let names = pairs.ticked("queue", everything::QUEUES_MAX)?;
    let admin = view.admin_because(pairs.value("why").trim());
    for part in names.chunks(AT_ONCE) {
        for resumed in join_all(part.iter().map(|name| admin.resume_queue(name))).await {
            resumed?;
        }
    }
    view.ui.0.live.tell("queues jobs activity");
    Ok(back(&view, "", "/queues", "all-resumed"))
}
