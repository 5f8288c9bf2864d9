//! Writing jobs that have unique keys. They go in batches of their own: a key that is being taken
//! in somebody's open transaction must be waited for, and then only by those who want it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use punctual_core::{JobId, Timestamp};
use punctual_store::{
    At, ClusterKey, EnqueueAnswer, Enqueued, ErrorKind, KeyHash, NewJob, Rejection, Result,
    StoreError,
};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::bodies::Bodies;
use crate::cluster_key;
use crate::connection::{Bound, Conn};
use crate::error::{Fault, Outcome};
use crate::gather::{Call, Request, Work};
use crate::pool::Pool;
use crate::retry::run;
use crate::rows::{self, Instant};
use crate::session::{Fields, Session};
use crate::sql;
use crate::store::Shared;

/// How often a batch looks again because a key went to somebody else in between.
const LOOKS_MAX: usize = 8;

/// A key, by tenant.
type Key = (String, String);

/// Who holds a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) job: JobId,
    pub(crate) hash: KeyHash,
    pub(crate) expires_at: Option<Timestamp>,
}

/// What the database knows of the jobs of a batch.
#[derive(Default)]
struct Facts {
    exists: HashSet<JobId>,
    holders: HashMap<Key, Holder>,
}

/// What follows from it, job by job in the order they were asked for.
struct Decided {
    answers: Vec<EnqueueAnswer>,
    /// The keys to be taken, sorted.
    takes: BTreeMap<Key, Holder>,
    /// Which jobs are written.
    written: Vec<usize>,
}

/// Writes jobs with keys.
pub(crate) struct Keyed {
    /// Where batches go.
    pub(crate) pool: Pool,
    /// Where single calls go whose batch was held up.
    pub(crate) spare: Pool,
    pub(crate) shared: Arc<Shared>,
}

impl Work for Keyed {
    type Ask = Call<NewJob>;
    type Answer = Enqueued;

    fn rows((_, jobs): &Call<NewJob>) -> usize {
        jobs.len()
    }

    async fn run(self: &Arc<Self>, batch: Vec<Request<Self>>) {
        let mut rest = batch.into_iter().peekable();
        while let Some(first) = rest.next() {
            let at = first.ask.0;
            let mut group = vec![first];
            while let Some(next) = rest.next_if(|next| next.ask.0 == at) {
                group.push(next);
            }
            self.write(at, group).await;
        }
    }
}

impl Keyed {
    async fn write(self: &Arc<Self>, at: At, group: Vec<Request<Self>>) {
        let jobs: Vec<&NewJob> = group.iter().flat_map(|request| &request.ask.1).collect();
        let key = &self.shared.cluster_key;
        let mut taken = match self.pool.take().await {
            Ok(taken) => taken,
            Err(error) => return answer_all_alike(group, &error),
        };
        let fault = match enqueue(&mut taken, key, at, &jobs, Hurry::Batch).await {
            Ok((now, mut answers)) => {
                self.shared.enqueued(now, created(&jobs, &answers));
                for request in group {
                    let rest = answers.split_off(request.ask.1.len());
                    request.answer(Ok(Enqueued { at: now, answers }));
                    answers = rest;
                }
                return;
            }
            Err(fault) => fault,
        };
        if fault.is_lost() || taken.rollback().await.is_err() {
            taken.discard();
        }
        if !may_go_singly(&fault) {
            return answer_all_alike(group, &fault.tell(self.pool.server()));
        }
        // Each by itself, and not in the way of the next batch: whoever holds a key is waited for
        // by the call that wants it.
        for request in group {
            let keyed = self.clone();
            tokio::spawn(async move {
                let answer = keyed.write_one(at, &request.ask.1).await;
                request.answer(answer);
            });
        }
    }

    async fn write_one(&self, at: At, jobs: &[NewJob]) -> Result<Enqueued> {
        let jobs: Vec<&NewJob> = jobs.iter().collect();
        let key = &self.shared.cluster_key;
        let (now, answers) =
            run!(self.spare, enqueue, conn => enqueue(conn, key, at, &jobs, Hurry::Single))?;
        self.shared.enqueued(now, created(&jobs, &answers));
        Ok(Enqueued { at: now, answers })
    }
}

fn answer_all_alike(group: Vec<Request<Keyed>>, error: &StoreError) {
    for request in group {
        request.answer(Err(error.clone()));
    }
}

/// How long a key is waited for that somebody else is taking.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hurry {
    /// Hardly: all of the batch waits.
    Batch,
    /// As for any other lock.
    Single,
}

/// Would the calls of a batch fare better each by itself, and again?
fn may_go_singly(fault: &Fault) -> bool {
    let is_contended = matches!(fault, Fault::Store(error) if error.kind() == ErrorKind::Retry);
    fault.is_passing() || fault.is_about_a_value() || fault.is_lost() || is_contended
}

fn created<'a>(
    jobs: &'a [&'a NewJob],
    answers: &'a [EnqueueAnswer],
) -> impl Iterator<Item = &'a NewJob> {
    let pairs = jobs.iter().zip(answers);
    pairs.filter(|(_, answer)| **answer == EnqueueAnswer::Created).map(|(job, _)| *job)
}

/// Writes jobs of which some have keys, in one transaction.
async fn enqueue(
    conn: &mut Conn,
    key: &ClusterKey,
    at: At,
    jobs: &[&NewJob],
    hurry: Hurry,
) -> Outcome<(Timestamp, Vec<EnqueueAnswer>)> {
    let wanted = Wanted::of(jobs);
    let at = rows::at(at);
    let found = match hurry {
        Hurry::Batch => conn.begin_hurried_with(&sql::KEY_LOOK, &wanted.bound(&at)).await?,
        Hurry::Single => conn.begin_with(&sql::KEY_LOOK, &wanted.bound(&at)).await?,
    };
    let (now, facts) = wanted.read(jobs, &found)?;
    let (answers, bodies) = take_keys(conn, key, now, jobs, facts).await?;
    if bodies.is_empty() {
        conn.commit().await?;
    } else {
        bodies.commit(conn, now).await?;
    }
    Ok((now, answers))
}

/// Takes the keys of jobs inside a transaction; answers for each job, and says which are to be
/// written.
async fn take_keys<'a>(
    session: &mut impl Session,
    key: &ClusterKey,
    now: Timestamp,
    jobs: &[&'a NewJob],
    mut facts: Facts,
) -> Outcome<(Vec<EnqueueAnswer>, Bodies<'a>)> {
    let hashes: Vec<Option<KeyHash>> =
        jobs.iter().map(|job| job.unique.is_some().then(|| key.hash(job))).collect();
    let mut won: BTreeMap<Key, Holder> = BTreeMap::new();
    for _ in 0..LOOKS_MAX {
        let decided = decide(now, jobs, &hashes, &facts);
        if won.iter().any(|(key, holder)| decided.takes.get(key) != Some(holder)) {
            break;
        }
        let open: BTreeMap<&Key, &Holder> =
            decided.takes.iter().filter(|(key, _)| !won.contains_key(*key)).collect();
        if open.is_empty() {
            let mut bodies = Bodies::default();
            for index in &decided.written {
                bodies.push(jobs[*index], false);
            }
            return Ok((decided.answers, bodies));
        }
        let taken = take(session, now, &open).await?;
        let lost: Vec<Key> =
            open.keys().filter(|key| !taken.contains(**key)).map(|key| (*key).clone()).collect();
        for key in taken {
            if let Some(holder) = decided.takes.get(&key) {
                won.insert(key, holder.clone());
            }
        }
        for key in &lost {
            facts.holders.remove(key);
        }
        if !lost.is_empty() {
            let wanted: Vec<&NewJob> = jobs
                .iter()
                .copied()
                .filter(|job| key_of(job).is_some_and(|key| lost.contains(&key)))
                .collect();
            let (_, seen) = look(session, At::Fixed(now), &wanted).await?;
            // Who has won may be an earlier try of the same call, whose answer was lost.
            facts.exists.extend(seen.exists);
            facts.holders.extend(seen.holders.into_iter().filter(|(key, _)| lost.contains(key)));
        }
    }
    let message = "too many concurrent requests for the same unique keys; try again";
    Err(StoreError::new(ErrorKind::Retry, message).into())
}

/// Writes jobs inside a transaction of the caller's.
pub(crate) async fn enqueue_within(
    session: &mut impl Session,
    key: &ClusterKey,
    at: At,
    jobs: &[&NewJob],
) -> Outcome<Enqueued> {
    let (now, facts) = look(session, at, jobs).await?;
    let (answers, bodies) = take_keys(session, key, now, jobs, facts).await?;
    bodies.write_within(session, now).await?;
    Ok(Enqueued { at: now, answers })
}

fn key_of(job: &NewJob) -> Option<Key> {
    Some((job.tenant.clone(), rows::text(&job.stored_key()?).into_owned()))
}

/// What time it is, which jobs are there already, and who holds the keys; in a transaction.
async fn look(session: &mut impl Session, at: At, jobs: &[&NewJob]) -> Outcome<(Timestamp, Facts)> {
    let wanted = Wanted::of(jobs);
    let at = rows::at(at);
    let found = session.query(&sql::KEY_LOOK, &wanted.bound(&at)).await?;
    wanted.read(jobs, &found)
}

/// Jobs and their keys as columns, to be looked for.
struct Wanted {
    ids: Vec<Uuid>,
    tenants: Vec<Option<String>>,
    names: Vec<Option<String>>,
}

impl Wanted {
    fn of(jobs: &[&NewJob]) -> Wanted {
        let ids = jobs.iter().map(|job| job.id.as_uuid()).collect();
        let keys = jobs.iter().map(|job| key_of(job).unzip());
        let (tenants, names) = keys.unzip();
        Wanted { ids, tenants, names }
    }

    fn bound<'b>(&'b self, at: &'b Option<Instant>) -> [&'b (dyn ToSql + Sync); 4] {
        [at, &self.ids, &self.tenants, &self.names]
    }

    fn read(self, jobs: &[&NewJob], found: &[impl Fields]) -> Outcome<(Timestamp, Facts)> {
        let mut keys: Vec<_> = self.tenants.into_iter().zip(self.names).collect();
        let mut now = Timestamp::EPOCH;
        let mut facts = Facts::default();
        for row in found {
            now = rows::instant(row, 0)?;
            let Some(number) = rows::get::<Option<i64>>(row, 1)? else { continue };
            let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
            let Some(job) = jobs.get(index) else { continue };
            if rows::get(row, 2)? {
                facts.exists.insert(job.id);
            }
            if let ((Some(tenant), Some(name)), Some(_)) =
                (std::mem::take(&mut keys[index]), rows::get::<Option<Uuid>>(row, 3)?)
            {
                let holder = Holder {
                    job: rows::job_id(row, 3)?,
                    hash: KeyHash::from_bytes(cluster_key::bytes(rows::get(row, 4)?)?),
                    expires_at: rows::instant_opt(row, 5)?,
                };
                facts.holders.insert((tenant, name), holder);
            }
        }
        Ok((now, facts))
    }
}

/// Decides one job after the other, as if each were alone.
fn decide(now: Timestamp, jobs: &[&NewJob], hashes: &[Option<KeyHash>], facts: &Facts) -> Decided {
    let mut exists = facts.exists.clone();
    let mut holders = facts.holders.clone();
    let mut decided = Decided { answers: Vec::new(), takes: BTreeMap::new(), written: Vec::new() };
    for (index, (job, hash)) in jobs.iter().zip(hashes).enumerate() {
        if let Err(message) = job.check_enqueued() {
            decided.answers.push(EnqueueAnswer::Rejected(Rejection::Invalid(message)));
            continue;
        }
        if exists.contains(&job.id) {
            decided.answers.push(EnqueueAnswer::Created);
            continue;
        }
        if let Some((key, hash)) = key_of(job).zip(*hash) {
            if let Some(holder) = holders.get(&key)
                && holder.expires_at.is_none_or(|expires_at| expires_at > now)
                && holder.job != job.id
            {
                decided.answers.push(match holder.hash == hash {
                    true => EnqueueAnswer::Duplicate(holder.job),
                    false => EnqueueAnswer::Rejected(Rejection::KeyTaken(holder.job)),
                });
                continue;
            }
            let mine = Holder { job: job.id, hash, expires_at: job.key_expires_at(now) };
            holders.insert(key.clone(), mine.clone());
            decided.takes.insert(key, mine);
        }
        exists.insert(job.id);
        decided.written.push(index);
        decided.answers.push(EnqueueAnswer::Created);
    }
    decided
}

/// Which job holds the unique key of this one.
pub(crate) async fn holder(conn: &mut Conn, at: At, job: &NewJob) -> Outcome<Option<JobId>> {
    let Some(key) = key_of(job) else { return Ok(None) };
    let (now, mut facts) = look(conn, at, &[job]).await?;
    let holder = facts.holders.remove(&key);
    let is_in_force = |holder: &Holder| holder.expires_at.is_none_or(|expires_at| expires_at > now);
    Ok(holder.filter(is_in_force).map(|holder| holder.job))
}

/// Takes keys that are free, whose time is over, or that the job itself holds for a fixed time; tells
/// which it got.
async fn take(
    session: &mut impl Session,
    now: Timestamp,
    open: &BTreeMap<&Key, &Holder>,
) -> Outcome<HashSet<Key>> {
    let tenants: Vec<&str> = open.keys().map(|(tenant, _)| tenant.as_str()).collect();
    let names: Vec<&str> = open.keys().map(|(_, name)| name.as_str()).collect();
    let jobs: Vec<Uuid> = open.values().map(|holder| holder.job.as_uuid()).collect();
    let hashes: Vec<&[u8]> =
        open.values().map(|holder| holder.hash.as_bytes().as_slice()).collect();
    let expiries: Vec<Option<Instant>> =
        open.values().map(|holder| holder.expires_at.map(Instant)).collect();
    session.query(&sql::KEY_CLEAR, &[&tenants, &names, &jobs, &Instant(now)]).await?;
    let bound: Bound<'_> = &[&tenants, &names, &jobs, &hashes, &expiries];
    let taken = session.query(&sql::KEY_TAKE, bound).await?;
    taken.iter().map(|row| Ok((rows::get(row, 0)?, rows::get(row, 1)?))).collect()
}

/// Takes the key of one job, if it has one; or says who holds it.
pub(crate) async fn take_one(
    conn: &mut Conn,
    cluster_key: &ClusterKey,
    now: Timestamp,
    job: &NewJob,
) -> Outcome<Option<Holder>> {
    let Some(key) = key_of(job) else { return Ok(None) };
    let hash = cluster_key.hash(job);
    let mine = Holder { job: job.id, hash, expires_at: job.key_expires_at(now) };
    for _ in 0..LOOKS_MAX {
        let wanted = BTreeMap::from([(&key, &mine)]);
        if !take(conn, now, &wanted).await?.is_empty() {
            return Ok(None);
        }
        let (_, mut facts) = look(conn, At::Fixed(now), &[job]).await?;
        if let Some(holder) = facts.holders.remove(&key) {
            return Ok(Some(holder).filter(|holder| holder.job != job.id));
        }
    }
    let message = "too many concurrent requests for the same unique key; try again";
    Err(StoreError::new(ErrorKind::Retry, message).into())
}

/// Gives the key that a job holds, if it does, the name that it has for the job as it will be; or
/// says who else holds that.
pub(crate) async fn rename(
    conn: &mut Conn,
    now: Timestamp,
    was: &NewJob,
    will_be: &NewJob,
) -> Outcome<Option<JobId>> {
    let (Some(old), Some(new)) = (key_of(was), key_of(will_be)) else { return Ok(None) };
    if old == new {
        return Ok(None);
    }
    let in_force = |holder: &&Holder| holder.expires_at.is_none_or(|expires_at| expires_at > now);
    for _ in 0..LOOKS_MAX {
        let (_, facts) = look(conn, At::Fixed(now), &[was, will_be]).await?;
        let held = facts.holders.get(&old).filter(in_force);
        let Some(mine) = held.filter(|holder| holder.job == was.id) else { return Ok(None) };
        let there = facts.holders.get(&new).filter(in_force);
        if let Some(rival) = there.filter(|holder| holder.job != was.id) {
            return Ok(Some(rival.job));
        }
        if there.is_some() || !take(conn, now, &BTreeMap::from([(&new, mine)])).await?.is_empty() {
            let (tenant, key) = &old;
            conn.query(&sql::KEY_DROP, &[tenant, key, &was.id.as_uuid()]).await?;
            return Ok(None);
        }
    }
    let message = "too many concurrent requests for the same unique key; try again";
    Err(StoreError::new(ErrorKind::Retry, message).into())
}
