//! The end of attempts, as remote workers report it.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_core::job::{JobState, Outcome as Decided, RetryPolicy, Transition, decide};
use punctual_engine::telemetry::{EndedAttempt, attempt_ended};
use punctual_store::{Json, Settled, Settlement, Settlements, StoreError, limits};

use super::attempt::Known;
use super::held::Holder;
use super::join::join_all;
use super::{Held, Remote, lost};
use crate::error::{Error, ErrorKind, Result};

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The work is done, with this result.
    Completed(Option<Json>),
    /// The work could not be done.
    Failed(Failed),
    /// The job is due again after this time. The attempt does not count.
    Snoozed(Duration),
}

/// How an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What went wrong.
    pub error: String,
    /// May another attempt mend it?
    pub retry: bool,
    /// The wait before it, instead of the usual one.
    pub retry_after: Option<Duration>,
}

/// An end that can be written.
struct Decision {
    known: Known,
    item: Settlement,
}

/// Attempts that are read at the same time, if this process has no copy of them.
const READS_AT_ONCE: usize = 8;
/// Timeouts after which a request tries no smaller transactions.
const TIMEOUTS_MAX: u32 = 4;

impl Remote {
    /// The work is done. The call can be repeated for the same lease.
    pub async fn complete(&self, held: &Held, result: Option<Json>) -> Result<JobState> {
        self.settle_one(held, End::Completed(result)).await
    }

    /// The work could not be done.
    pub async fn fail(&self, held: &Held, failed: Failed) -> Result<JobState> {
        self.settle_one(held, End::Failed(failed)).await
    }

    /// The job is due again after this time. The attempt does not count.
    pub async fn snooze(&self, held: &Held, wait: Duration) -> Result<JobState> {
        self.settle_one(held, End::Snoozed(wait)).await
    }

    async fn settle_one(&self, held: &Held, end: End) -> Result<JobState> {
        self.settle(vec![(*held, end)]).await.pop().unwrap_or_else(|| Err(no_answer()))
    }

    /// Ends many attempts with one request. There is one answer for each, in their order.
    pub async fn settle(&self, ends: Vec<(Held, End)>) -> Vec<Result<JobState>> {
        let mut attempts = Vec::with_capacity(ends.len());
        for part in ends.chunks(READS_AT_ONCE) {
            attempts.extend(join_all(part.iter().map(|(held, _)| self.known(held))).await);
        }
        let mut answers = Vec::with_capacity(ends.len());
        let (mut decisions, mut places) = (Vec::new(), Vec::new());
        for ((held, end), known) in ends.into_iter().zip(attempts) {
            let decision = match known {
                Ok(known) => self.decide(held, known, end).await,
                Err(error) => Err(error),
            };
            match decision {
                Ok(decision) => {
                    places.push(answers.len());
                    decisions.push(decision);
                    answers.push(Err(no_answer()));
                }
                Err(error) => answers.push(Err(error)),
            }
        }
        for (place, answer) in places.into_iter().zip(self.write(&decisions).await) {
            answers[place] = answer;
        }
        answers
    }

    async fn decide(&self, held: Held, known: Known, end: End) -> Result<Decision> {
        let (outcome, result) = match end {
            End::Completed(result) => (Decided::Done, result),
            End::Failed(failed) => (failed.outcome(), None),
            End::Snoozed(wait) => (Decided::Snooze(wait), None),
        };
        let policy = match outcome {
            Decided::Fail(_) => self.policy_of(known.schedule).await?,
            _ => RetryPolicy::default(),
        };
        let transition: Transition =
            decide(&known.standing, outcome, &policy, known.standing.claimed_at);
        let Held { job, lease, .. } = held;
        Ok(Decision {
            known,
            item: Settlement { job, lease, transition, result, then: Vec::new() },
        })
    }

    /// Writes the ends, as many in one transaction as possible.
    async fn write(&self, decisions: &[Decision]) -> Vec<Result<JobState>> {
        let mut answers = Vec::with_capacity(decisions.len());
        let mut nodes = BTreeSet::new();
        let (mut rest, mut most, mut timeouts) = (decisions, limits::SETTLE_MAX, 0);
        while !rest.is_empty() {
            let (part, after) = rest.split_at(most.min(rest.len()));
            match self.send(part).await {
                Ok(settled) => answers.extend(self.answers(part, settled).await),
                // The same transaction would take too long again.
                Err(error) if error.is_timeout() && part.len() > 1 && timeouts < TIMEOUTS_MAX => {
                    most = part.len() / 2;
                    timeouts += 1;
                    continue;
                }
                // One that the store refuses must not stop the others.
                Err(error) if is_refusal(&error) && part.len() > 1 => {
                    for one in part.chunks(1) {
                        answers.extend(match self.send(one).await {
                            Ok(settled) => self.answers(one, settled).await,
                            Err(error) => vec![Err(error.into())],
                        });
                    }
                }
                Err(error) => {
                    let error = Error::from(error);
                    answers.extend(part.iter().map(|_| Err(error.clone())));
                }
            }
            rest = after;
        }
        // A result that was accepted is also a heartbeat.
        for (decision, answer) in decisions.iter().zip(&answers) {
            if let (Some(Holder { node }), Ok(_)) = (decision.known.held.by, answer) {
                nodes.insert(node);
            }
        }
        for node in nodes {
            self.listen(node).await;
        }
        answers
    }

    async fn send(&self, part: &[Decision]) -> punctual_store::Result<Settlements> {
        let items: Vec<Settlement> = part.iter().map(|decision| decision.item.clone()).collect();
        let env = &self.shared.env;
        let settled = self.shared.store.settle(env.at(), &items).await?;
        self.clock.saw(settled.at, env.elapsed());
        Ok(settled)
    }

    async fn answers(&self, part: &[Decision], settled: Settlements) -> Vec<Result<JobState>> {
        let mut answers = Vec::with_capacity(part.len());
        let mut found = settled.answers.iter();
        for Decision { known, item } in part {
            let held = &known.held;
            answers.push(match found.next() {
                Some(Settled::Applied(state)) => {
                    self.count(known, item.transition.outcome, settled.at);
                    let transition = &item.transition;
                    attempt_ended(&EndedAttempt {
                        job: held.job,
                        kind: &known.kind,
                        queue: &known.queue,
                        number: held.attempt,
                        duration: settled.at.since(known.standing.claimed_at),
                        outcome: transition.outcome,
                        is_final: *state == JobState::Failed,
                        retry_in: transition.next.wait(),
                        error: transition.error.as_deref(),
                    });
                    Ok(*state)
                }
                Some(Settled::Already) => match self.shared.store.job(held.job).await {
                    Ok(Some(detail)) => Ok(detail.view.state),
                    Ok(None) => Err(lost(held)),
                    Err(error) => Err(error.into()),
                },
                Some(Settled::Fenced) => Err(lost(held)),
                None => Err(no_answer()),
            });
            self.leases.remove(held.lease);
        }
        answers
    }
}

impl Failed {
    fn outcome(self) -> Decided {
        let Failed { error, retry, retry_after } = self;
        let error = match error.is_empty() {
            true => "no error message from the worker".to_owned(),
            false => error,
        };
        match (retry, retry_after) {
            (false, _) => Decided::FailForGood(error),
            (true, Some(wait)) => Decided::RetryAfter(wait, error),
            (true, None) => Decided::Fail(error),
        }
    }
}

/// Is it the value that the store refuses?
fn is_refusal(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Limit)
}

fn no_answer() -> Error {
    Error::new(ErrorKind::Corrupt, "the database returned no result for the job")
}
