//! Who holds a unique key.

use punctual_core::JobId;
use punctual_store::{At, JobDetail, KeyLifetime, KeyScope, NewJob, Store, UniqueKey};

use super::cluster::Cluster;
use super::unfinished::doing;
use super::{Reason, Why, answered};
use crate::Result;
use crate::wording::{length, when};

/// Says which job holds the unique key of a job that somebody wants to write, and until when.
pub async fn key(store: &dyn Store, at: At, job: &NewJob) -> Result<Why> {
    let subject = subject(job);
    let facts = Facts::read(store, at, job).await;
    answered(&subject, facts.map(|facts| explain(job, &facts, subject.clone())))
}

/// All that the answer depends on.
struct Facts {
    cluster: Cluster,
    holder: Option<Holder>,
}

struct Holder {
    id: JobId,
    /// A key may be held for longer than its job is kept.
    job: Option<JobDetail>,
}

impl Facts {
    async fn read(store: &dyn Store, at: At, job: &NewJob) -> punctual_store::Result<Facts> {
        let cluster = Cluster::read(store, at).await?;
        let holder = match store.key_holder(at, job).await? {
            Some(id) => Some(Holder { id, job: store.job(id).await? }),
            None => None,
        };
        Ok(Facts { cluster, holder })
    }
}

fn subject(job: &NewJob) -> String {
    let Some(unique) = &job.unique else { return format!("job {} without a key", job.id) };
    match unique.scope {
        KeyScope::Tenant => shown(unique),
        KeyScope::Kind => format!("{} among jobs of kind `{}`", shown(unique), job.kind),
        KeyScope::Queue => format!("{} in queue `{}`", shown(unique), job.queue),
    }
}

fn shown(unique: &UniqueKey) -> String {
    match unique.is_by_payload {
        true => "key by payload".to_owned(),
        false => format!("key `{}`", unique.key),
    }
}

fn explain(job: &NewJob, facts: &Facts, subject: String) -> Why {
    let why = |state: &str, reason| Why { subject, state: state.to_owned(), reasons: vec![reason] };
    let Some(unique) = &job.unique else {
        return why("free", Reason::new("no_key", "the job has no unique key"));
    };
    let Some(holder) = &facts.holder else {
        let text = format!("no job holds the {}", shown(unique));
        return why("free", Reason::new("key_free", text));
    };
    why("held", held(job, unique, holder, &facts.cluster))
}

/// Stores tell who holds a key, and not for how long: a job like this one would have it as long as
/// this one asks.
fn held(job: &NewJob, unique: &UniqueKey, holder: &Holder, cluster: &Cluster) -> Reason {
    let id = holder.id;
    let who = match id == job.id {
        true => format!("the {} is held by this job itself, {id}", shown(unique)),
        false => format!("the {} is held by job {id}", shown(unique)),
    };
    let Some(found) = &holder.job else {
        let text = format!("{who}, which was deleted; the key has not expired yet");
        return Reason::new("key_held", text).remedy("wait, or use another key");
    };
    let view = &found.view;
    let is_final = view.state.is_final();
    let until = match (is_final, unique.lifetime) {
        (_, KeyLifetime::For(wait)) => format!(
            "if it is held for {}, as this job requests, it becomes free {}",
            length(wait),
            when(cluster.now, view.created_at + wait)
        ),
        (false, KeyLifetime::Job) => "it becomes free when that job finishes".to_owned(),
        // A key goes with its job, unless it was taken for a length of time.
        (true, KeyLifetime::Job) => {
            "it is held for a fixed time, which has not passed yet".to_owned()
        }
    };
    let text = format!(
        "{who} of kind `{}` in queue `{}`, {}; {until}",
        view.kind,
        view.queue,
        doing(found, cluster)
    );
    let reason = Reason::new("key_held", text);
    match is_final {
        true => reason.remedy("wait, or use another key"),
        false => reason.remedy(format!(
            "wait, or cancel that job: `punctual job cancel {id}`; for its state: \
             `punctual why job {id}`"
        )),
    }
}
