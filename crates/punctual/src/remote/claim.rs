//! A claim that waits for work.

use std::time::Duration;

use punctual_core::job::{EXPIRED, JobState, Transition, refuse_start};
use punctual_core::{JobId, LeaseId, NodeId, Timestamp};
use punctual_engine::telemetry::{EndedAttempt, attempt_ended, jobs_expired};
use punctual_store::{
    Beaten, ClaimAsk, ClaimedJob, ExpiredJob, QueueShare, Settled, Settlement, Topic, limits, rules,
};

use super::attempt::Known;
use super::held::Holder;
use super::{CLAIM_MAX, Held, Remote, WAIT_MAX};
use crate::error::{Error, Result};

/// A wish for jobs of a remote worker.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The worker's node, by an id that it makes at each start.
    pub node: NodeId,
    /// Its lasting name.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// The queues to take jobs from, in this order.
    pub queues: Vec<String>,
    /// The kinds that it can work on.
    pub kinds: Vec<String>,
    /// The most jobs; up to [`CLAIM_MAX`].
    pub most: usize,
    /// How long to wait for the first one; up to [`WAIT_MAX`].
    pub wait: Duration,
    /// All that it works on already. Whatever the store holds for it beyond is given back.
    pub holds: Vec<Held>,
}

/// The answer to a claim.
#[derive(Clone, Debug)]
pub struct Claims {
    /// What time it is.
    pub at: Timestamp,
    /// The jobs.
    pub leases: Vec<Leased>,
    /// Jobs of the worker that somebody wants to stop.
    pub cancels: Vec<JobId>,
    /// Should the worker take no more jobs, and end?
    pub drain: bool,
}

/// A job, and the lease that it is worked on under.
#[derive(Clone, Debug)]
pub struct Leased {
    /// The lease.
    pub held: Held,
    /// The attempt may take until then.
    pub deadline: Timestamp,
    /// If the worker is not heard of until then, its jobs are taken back.
    pub expires_at: Timestamp,
    /// The job.
    pub job: ClaimedJob,
}

/// The first wait for work that nobody told of, and the longest: it doubles.
const LOOK_FIRST: Duration = Duration::from_millis(50);
const LOOK_LAST: Duration = Duration::from_secs(2);
/// The wait before a claim is repeated because another claim had locked its queues.
const CONTENDED_WAIT: Duration = Duration::from_millis(20);
/// The worker is heard of for as long as it waits here.
const BEAT: Duration = Duration::from_secs(2);

impl Wish {
    fn check(&self) -> Result<()> {
        let one_of = |what: &str, names: &[String]| match names.is_empty() {
            true => Err(Error::invalid(format!("`{what}` must not be empty"))),
            false => Ok(()),
        };
        one_of("queues", &self.queues)?;
        one_of("kinds", &self.kinds)?;
        if !(1..=CLAIM_MAX).contains(&self.most) {
            return Err(Error::invalid(format!(
                "`max` must be between 1 and {CLAIM_MAX}, got {}",
                self.most
            )));
        }
        if self.wait > WAIT_MAX {
            let show = punctual_core::format_duration;
            return Err(Error::invalid(format!(
                "`wait` must be at most {}, got {}; claim again instead",
                show(WAIT_MAX),
                show(self.wait)
            )));
        }
        let other = |held: &&Held| held.by.is_none_or(|by| by.node != self.node);
        match self.holds.iter().find(other) {
            Some(held) => Err(Error::invalid(format!(
                "lease `{held}` does not belong to node {}; pass only leases of this node",
                self.node
            ))),
            None => Ok(()),
        }
    }
}

impl Remote {
    /// Takes jobs for a remote worker, as soon as there are some.
    ///
    /// An error of kind `Fenced` says that the worker's node is dead: it must stop its work and come
    /// back under a new id.
    pub async fn claim(&self, wish: &Wish) -> Result<Claims> {
        wish.check()?;
        let env = &self.shared.env;
        let began = env.elapsed();
        let mut hints = self.shared.store.hints(Topic::Work);
        let mut beaten = self.enter(wish).await?;
        let mut beaten_at = began;
        self.set_right(wish, &beaten).await?;
        let mut look = LOOK_FIRST;
        loop {
            let drain = self.drains(wish.node).await?;
            let (leases, is_contended) =
                if drain { (Vec::new(), false) } else { self.take(wish).await? };
            let left = wish.wait.saturating_sub(env.elapsed().saturating_sub(began));
            if drain || !leases.is_empty() || left.is_zero() {
                return Ok(Claims { at: beaten.at, leases, cancels: beaten.cancels, drain });
            }
            if is_contended {
                env.sleep(env.jitter(CONTENDED_WAIT).min(left)).await;
                continue;
            }
            tokio::select! {
                () = hints.heard() => look = LOOK_FIRST,
                () = env.sleep(look.min(left)) => look = (look * 2).min(LOOK_LAST),
            }
            if env.elapsed().saturating_sub(beaten_at) >= BEAT {
                beaten_at = env.elapsed();
                beaten = self.enter(wish).await?;
            }
        }
    }

    /// Releases the leases that the worker does not list.
    async fn set_right(&self, wish: &Wish, beaten: &Beaten) -> Result<()> {
        let is_unknown = |lease: &&LeaseId| !wish.holds.iter().any(|held| held.lease == **lease);
        let unknown: Vec<LeaseId> = beaten.strays.iter().filter(is_unknown).copied().collect();
        match unknown.is_empty() {
            true => Ok(()),
            false => self.give_back(wish.node, &unknown).await,
        }
    }

    /// Claims jobs at once, each under a lease of its own, so that each can be released separately. True
    /// if another claim had locked some of the queues.
    async fn take(&self, wish: &Wish) -> Result<(Vec<Leased>, bool)> {
        let env = &self.shared.env;
        let mint = || LeaseId::mint(env.wall(), env.seed());
        let share = |name: &String| QueueShare { name: name.clone(), most: wish.most };
        let ask = ClaimAsk {
            node: wish.node,
            lease: mint(),
            more: (1..wish.most).map(|_| mint()).collect(),
            queues: wish.queues.iter().map(share).collect(),
            kinds: wish.kinds.clone(),
            most: wish.most,
        };
        let claimed = self.shared.store.claim(env.at(), &ask).await?;
        punctual_engine::telemetry::jobs_unreadable(&claimed.unreadable);
        self.clock.saw(claimed.at, env.elapsed());
        let (mut leases, mut refused) = (Vec::new(), Vec::new());
        for job in claimed.jobs {
            match refuse_start(&job.standing(), claimed.at) {
                Some(transition) => refused.push((job, transition)),
                None => leases.push(self.start(wish.node, job, claimed.at)),
            }
        }
        if !refused.is_empty() {
            self.settle_refused(refused).await;
        }
        Ok((leases, !claimed.contended.is_empty()))
    }

    /// Ends claimed jobs that must not start. The worker gets the other jobs, also if this fails: what
    /// is not settled here is released with its next claim.
    async fn settle_refused(&self, refused: Vec<(ClaimedJob, Transition)>) {
        let settlement = |(job, transition): &(ClaimedJob, Transition)| Settlement {
            job: job.id,
            lease: job.lease,
            transition: transition.clone(),
            result: None,
            then: Vec::new(),
        };
        let batch: Vec<Settlement> = refused.iter().map(settlement).collect();
        let settled = match self.shared.store.settle(self.shared.env.at(), &batch).await {
            Ok(settled) => settled,
            Err(error) => {
                tracing::warn!(%error, "claimed jobs that must not start were not settled");
                return;
            }
        };
        let mut expired = Vec::new();
        for ((job, transition), answer) in refused.into_iter().zip(&settled.answers) {
            let Settled::Applied(state) = answer else { continue };
            let error = transition.error.as_deref();
            if error == Some(EXPIRED) {
                let ClaimedJob { id, queue, kind, due_at, .. } = job;
                expired.push(ExpiredJob { job: id, queue, kind, due_at, error: EXPIRED });
                continue;
            }
            attempt_ended(&EndedAttempt {
                job: job.id,
                kind: &job.kind,
                queue: &job.queue,
                number: job.attempt,
                duration: settled.at.since(job.claimed_at),
                outcome: transition.outcome,
                is_final: *state == JobState::Failed,
                retry_in: None,
                error,
            });
        }
        jobs_expired(settled.at, &expired);
        for job in &expired {
            self.count_expired(job, settled.at);
        }
    }

    /// A job as the worker gets it.
    fn start(&self, node: NodeId, job: ClaimedJob, now: Timestamp) -> Leased {
        let deadline = job.claimed_at + rules::remote_limit(job.timeout, job.budget, job.used);
        let by = Some(Holder { node });
        let held = Held { lease: job.lease, job: job.id, attempt: job.attempt, by };
        self.leases.add(Known::claimed(held, &job, deadline));
        Leased { held, deadline, expires_at: now + self.timing.dead, job }
    }
}

/// Names of queues and kinds are checked by the store; so many of them it would refuse.
const _: () = assert!(CLAIM_MAX <= limits::CLAIM_MAX);
