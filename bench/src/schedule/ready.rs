//! Plans that are ready to be fired, as the scheduler would make them for slots on time.

use std::time::Duration;

use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{Facts, Rule};
use punctual_core::{NodeId, Timestamp};
use punctual_engine::SCHEDULER;
use punctual_store::{
    Acquired, At, Delay, Fence, FireAnswer, Json, NewJob, Origin, SlotDecision, SlotPlan, SlotRow,
    Store, limits,
};

use super::lot::Lot;
use crate::ids::Ids;
use crate::raw::{KIND, PAYLOAD, QUEUE};
use crate::{Failure, node_info};

/// Longer than the bench.
const LEASE: Duration = Duration::from_secs(86_400);

/// Whoever calls the store's fire and nothing else.
pub(crate) struct Bare<'a> {
    store: &'a dyn Store,
    fence: Fence,
    ids: Ids,
    lot: &'a Lot,
    rule: Rule,
}

impl<'a> Bare<'a> {
    pub(crate) async fn lead(store: &'a dyn Store, lot: &'a Lot) -> Result<Bare<'a>, Failure> {
        let ids = Ids::since(store.now(At::Database).await?, 7);
        let (node, nonce): (NodeId, _) = (ids.node(), ids.nonce());
        store.join(At::Database, &node_info(node)).await?;
        let won = store.acquire(At::Database, SCHEDULER, node, nonce, LEASE).await?;
        let Acquired::Won { term, .. } = won else {
            return Err("another node leads in the benchmark database".into());
        };
        let fence = Fence { role: SCHEDULER.to_owned(), term, nonce };
        let rule = lot.definition.rule(&lot.name(0))?;
        Ok(Bare { store, fence, ids, lot, rule })
    }

    /// The plans of a class that nobody has fired before.
    pub(crate) fn plans(&self, class: usize, slot: Timestamp) -> Result<Vec<SlotPlan>, Failure> {
        let next_slot = self.rule.spec.next(slot);
        let plan = |number| self.plan(number, slot, next_slot);
        self.lot.class(class).map(plan).collect()
    }

    fn plan(
        &self,
        number: usize,
        slot: Timestamp,
        next_slot: Option<Timestamp>,
    ) -> Result<SlotPlan, Failure> {
        let (schedule, definition) = (self.lot.id(number)?, &self.lot.definition);
        let facts = Facts {
            name: self.lot.name(number),
            revision: 1,
            when: definition.when.clone(),
            tz: definition.tz.clone(),
            caught_up: false,
            missed_count: 0,
            backoff: None,
        };
        let origin = Origin { schedule, slot: Some(slot), facts: Json::new(&facts)? };
        let payload = Json::from_canonical(PAYLOAD.to_owned());
        let job = NewJob {
            delay: Delay::Until(slot),
            origin: Some(origin),
            ..NewJob::new(self.ids.job(), QUEUE, KIND, payload)
        };
        let row = SlotRow {
            slot,
            end: None,
            count: 1,
            outcome: SlotOutcome::Fired,
            reason: None,
            job: Some(job),
        };
        let decision = SlotDecision::Advance {
            overlap: self.rule.overlap,
            slots: vec![row],
            next_slot,
            hold_for: self.rule.hold_for(),
        };
        Ok(SlotPlan { schedule, stamp: 1, decision })
    }

    /// Fires, as many at once as may be.
    pub(crate) async fn fire(&self, plans: &[SlotPlan]) -> Result<(), Failure> {
        for some in plans.chunks(limits::FIRE_MAX) {
            let fired = self.store.fire(At::Database, &self.fence, LEASE, some).await?;
            let is_applied = |answer: &FireAnswer| *answer == FireAnswer::Applied;
            if fired.answers.len() != some.len() || !fired.answers.iter().all(is_applied) {
                return Err(format!("not all slots were fired: {:?}", fired.answers.first()).into());
            }
        }
        Ok(())
    }
}
