//! Leading roles: taken by a lease, trusted only from the moment the lease was asked for, and
//! given up at the first doubt.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{NodeId, Nonce, Timestamp};
use punctual_store::{Acquired, Fence, Hints, Result, RoleBeat, Store, limits};
use tokio::sync::Notify;

use crate::config::Timing;
use crate::env::Env;
use crate::level::Level;
use crate::service::{Report, Rest, Service, within};
use crate::telemetry;

pub use punctual_store::MAINTENANCE;
/// The role under which a node fires schedules.
pub const SCHEDULER: &str = "scheduler/0";

/// Everything a node leads or wants to lead.
pub(crate) struct Roles {
    env: Arc<dyn Env>,
    lease: Duration,
    margin: Duration,
    roles: Mutex<BTreeMap<String, Role>>,
    /// Rises whenever a term begins or ends.
    pub(crate) changed: Level,
    pub(crate) seeker: Arc<Notify>,
}

struct Role {
    /// Of the term that is held or asked for. It stays while the node is unsure, so that asking
    /// again answers whether the term is still its own.
    nonce: Nonce,
    fence: Option<Fence>,
    /// The last term that was logged. A term that is confirmed after a doubt is not a new one.
    logged: Option<(i64, Nonce)>,
    trusted_until: Duration,
    try_at: Duration,
    is_wanted: bool,
}

impl Roles {
    pub(crate) fn new(env: Arc<dyn Env>, timing: &Timing) -> Roles {
        Roles {
            env,
            lease: timing.leader_lease,
            margin: timing.leader_margin,
            roles: Mutex::default(),
            changed: Level::default(),
            seeker: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Role>> {
        // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
        self.roles.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn nonce(&self) -> Nonce {
        Nonce::mint(self.env.wall(), self.env.seed())
    }

    /// The node wants to lead this role from now on.
    pub(crate) fn want(&self, role: &str) {
        let fresh = Role {
            nonce: self.nonce(),
            fence: None,
            logged: None,
            trusted_until: Duration::ZERO,
            try_at: Duration::ZERO,
            is_wanted: true,
        };
        self.lock().entry(role.to_owned()).or_insert(fresh).is_wanted = true;
        self.seeker.notify_one();
    }

    fn unwant(&self, role: &str) {
        if let Some(role) = self.lock().get_mut(role) {
            role.is_wanted = false;
        }
        self.seeker.notify_one();
    }

    /// The term under which the node leads a role, if it may still trust it.
    pub(crate) fn current(&self, role: &str) -> Option<Fence> {
        let roles = self.lock();
        let role = roles.get(role).filter(|role| self.env.elapsed() < role.trusted_until)?;
        role.fence.clone()
    }

    /// The terms that the node holds, trusted or not.
    pub(crate) fn fences(&self) -> Vec<Fence> {
        self.lock().values().filter_map(|role| role.fence.clone()).collect()
    }

    /// A heartbeat has told what became of these terms.
    pub(crate) fn renewed(
        &self,
        sent: Duration,
        asked: &[Fence],
        answers: &[RoleBeat],
        now: Timestamp,
    ) {
        for (fence, answer) in asked.iter().zip(answers) {
            match answer {
                RoleBeat::Renewed { until, .. } => self.trust(fence, sent, until.since(now)),
                RoleBeat::Lost => self.lost(fence),
            }
        }
    }

    /// The roles that the node wants and does not lead, which a heartbeat asks about.
    pub(crate) fn sought(&self) -> Vec<String> {
        let roles = self.lock();
        let sought = roles.iter().filter(|(_, role)| role.is_wanted && role.fence.is_none());
        sought.map(|(name, _)| name.clone()).take(limits::ROLES_MAX).collect()
    }

    /// A heartbeat has told until when these roles are led: whoever waits for the end of a lease
    /// need not ask sooner. Who has something to ask, because its own term may still hold, does.
    pub(crate) fn told(&self, sought: &[String], leases: &[Option<Timestamp>], now: Timestamp) {
        let elapsed = self.env.elapsed();
        let mut is_free = false;
        let mut roles = self.lock();
        for (name, until) in sought.iter().zip(leases) {
            let waits = |role: &&mut Role| role.fence.is_none() && role.try_at > elapsed;
            let Some(role) = roles.get_mut(name).filter(waits) else { continue };
            let wait = until.map(|until| until.since(now)).unwrap_or_default();
            // A lease that is too long to be true, since the clock was set back, is for the
            // store to cut when somebody asks.
            if wait <= self.lease {
                role.try_at = elapsed + wait;
                is_free |= wait.is_zero();
            }
        }
        drop(roles);
        if is_free {
            self.seeker.notify_one();
        }
    }

    /// The term is led for so long from the moment the question was sent, less a margin.
    ///
    /// Never for longer than a lease lasts: a term that is asked for again after the clock was set
    /// back may be said to end hours from now, and whoever else asks cuts it.
    pub(crate) fn trust(&self, fence: &Fence, sent: Duration, lease: Duration) {
        let mut roles = self.lock();
        if let Some(role) = roles.get_mut(&fence.role).filter(|role| role.nonce == fence.nonce) {
            // A term that was not trusted any more begins anew for whoever waits for it.
            let was_led = role.fence.replace(fence.clone()).is_some()
                && self.env.elapsed() < role.trusted_until;
            role.trusted_until = sent + lease.min(self.lease).saturating_sub(self.margin);
            let term = Some((fence.term, fence.nonce));
            let is_new = std::mem::replace(&mut role.logged, term) != term;
            drop(roles);
            if is_new {
                telemetry::term_began(fence);
            } else if !was_led {
                telemetry::term_confirmed(fence);
            }
            if !was_led {
                self.changed.step();
            }
        }
    }

    /// The term is over, and only another one will do.
    pub(crate) fn lost(&self, fence: &Fence) {
        let nonce = self.nonce();
        let mut roles = self.lock();
        if let Some(role) = roles.get_mut(&fence.role).filter(|role| role.nonce == fence.nonce) {
            *role = Role {
                nonce,
                fence: None,
                logged: None,
                trusted_until: Duration::ZERO,
                try_at: self.env.elapsed(),
                is_wanted: role.is_wanted,
            };
            drop(roles);
            telemetry::term_lost(fence);
            self.changed.step();
            self.seeker.notify_one();
        }
    }

    /// Something went wrong with a write under these terms. The node does not lead until the
    /// store has said that it does.
    pub(crate) fn unsure(&self, fences: &[Fence]) {
        let mut roles = self.lock();
        let mut is_changed = false;
        for fence in fences {
            if let Some(role) = roles.get_mut(&fence.role).filter(|role| role.nonce == fence.nonce)
            {
                is_changed |= role.fence.take().is_some();
                role.trusted_until = Duration::ZERO;
                role.try_at = self.env.elapsed();
            }
        }
        drop(roles);
        if is_changed {
            telemetry::stepped_down();
            self.changed.step();
            self.seeker.notify_one();
        }
    }

    /// Forgets every term, also those that it asked for and does not know of: the node is dead and
    /// comes back as another, who must not lead in its name.
    pub(crate) fn forget(&self) {
        for fence in self.fences() {
            self.lost(&fence);
        }
        for role in self.lock().values_mut() {
            role.nonce = self.nonce();
        }
    }

    /// Gives up everything that is led, at once, so that others need not wait for the leases;
    /// and wants nothing more, so that what is being won is given up as well.
    pub(crate) async fn resign_all(&self, store: &dyn Store, patience: Duration) {
        for role in self.lock().values_mut() {
            role.is_wanted = false;
        }
        let resigned = async {
            for fence in self.fences() {
                self.resign(store, &fence, patience).await;
            }
        };
        // However many they are: at worst their leases run out.
        tokio::select! {
            biased;
            () = resigned => {}
            () = self.env.sleep(patience) => {}
        }
        self.forget();
    }

    fn is_wanted(&self, role: &str) -> bool {
        self.lock().get(role).is_some_and(|role| role.is_wanted)
    }

    async fn resign(&self, store: &dyn Store, fence: &Fence, patience: Duration) {
        // Whatever the store answers, the node leads no more; at worst the lease runs out.
        self.lost(fence);
        let call = store.resign(self.env.at(), fence);
        if let Err(error) = within(&*self.env, patience, call).await {
            telemetry::failed("resign", &error);
        }
    }
}

/// Takes roles that nobody leads.
pub(crate) struct Seeker {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) node: NodeId,
    pub(crate) timing: Timing,
    pub(crate) hints: Hints,
}

impl Seeker {
    async fn acquire(&self, role: &str, nonce: Nonce) -> Result<bool> {
        let env = &*self.roles.env;
        let sent = env.elapsed();
        let call = self.store.acquire(env.at(), role, self.node, nonce, self.timing.leader_lease);
        match within(env, self.timing.call, call).await? {
            Acquired::Won { at, term, until } => {
                let fence = Fence { role: role.to_owned(), term, nonce };
                if !self.roles.is_wanted(role) {
                    // The node changed its mind while it asked.
                    self.roles.resign(&*self.store, &fence, self.timing.call).await;
                    return Ok(false);
                }
                self.roles.trust(&fence, sent, until.since(at));
                Ok(true)
            }
            Acquired::Held { at, until, .. } => {
                // The lease may be renewed until it ends; a clock that is far ahead of it may not
                // put off the next try.
                let wait = until.since(at).min(self.timing.leader_lease);
                if let Some(role) = self.roles.lock().get_mut(role) {
                    role.try_at = env.elapsed() + wait;
                }
                Ok(false)
            }
        }
    }
}

#[async_trait]
impl Service for Seeker {
    fn name(&self) -> &'static str {
        "seeker"
    }

    async fn run_once(&mut self) -> Result<Report> {
        if self.hints.take() {
            // Somebody has resigned: nobody waits for the end of that lease.
            self.roles.lock().values_mut().for_each(|role| role.try_at = Duration::ZERO);
        }
        let env = &*self.roles.env;
        let now = env.elapsed();
        let unwanted: Vec<Fence> = {
            let roles = self.roles.lock();
            roles.values().filter(|role| !role.is_wanted).filter_map(|r| r.fence.clone()).collect()
        };
        for fence in &unwanted {
            self.roles.resign(&*self.store, fence, self.timing.call).await;
        }
        let seeks = |role: &Role| role.is_wanted && role.fence.is_none();
        let due: Vec<(String, Nonce)> = {
            let roles = self.roles.lock();
            // No more than a heartbeat can renew.
            let held = roles.values().filter(|role| role.fence.is_some()).count();
            let due = roles.iter().filter(|(_, role)| seeks(role) && role.try_at <= now);
            due.take(limits::ROLES_MAX.saturating_sub(held))
                .map(|(name, role)| (name.clone(), role.nonce))
                .collect()
        };
        let (mut won, mut failed) = (0, None);
        for (role, nonce) in due {
            // One role that cannot be had does not keep the node from the others.
            match self.acquire(&role, nonce).await {
                Ok(is_won) => won += usize::from(is_won),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let next = self.roles.lock().values().filter(|role| seeks(role)).map(|r| r.try_at).min();
        let rest = next.map_or(Rest::UntilWoken, |next| {
            // Those who wait for the same lease do not all ask in the same instant.
            let crowd = Duration::from_micros(env.pick(100_000));
            Rest::AtMost(next.saturating_sub(env.elapsed()) + crowd)
        });
        Ok(Report::new(won, rest))
    }
}

/// How long whoever waits for the end of trust sleeps at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A role of the application's own, which at most one node leads at a time.
///
/// Leadership is a lease: it may end at any moment, and a leader that is slow may overlap with
/// its successor. What must not happen twice has to be fenced by the term.
#[derive(Clone)]
pub struct Leadership {
    pub(crate) role: String,
    pub(crate) roles: Arc<Roles>,
}

impl Leadership {
    /// The role.
    pub fn role(&self) -> &str {
        &self.role
    }

    /// Does this node lead it, as far as it may trust?
    pub fn is_leader(&self) -> bool {
        self.term().is_some()
    }

    /// The term under which this node leads it; numbers grow from term to term.
    pub fn term(&self) -> Option<Fence> {
        self.roles.current(&self.role)
    }

    /// Ends when this node leads the role.
    pub async fn won(&self) -> Fence {
        loop {
            let seen = self.roles.changed.get();
            if let Some(fence) = self.term() {
                return fence;
            }
            self.roles.changed.reached(seen + 1).await;
        }
    }

    /// Ends when this node does not lead the role, or may no longer trust that it does.
    pub async fn lost(&self) {
        loop {
            let seen = self.roles.changed.get();
            let trusted_until = self.roles.lock().get(&self.role).map(|role| role.trusted_until);
            let left = trusted_until.unwrap_or_default().saturating_sub(self.roles.env.elapsed());
            if left.is_zero() || self.term().is_none() {
                return;
            }
            tokio::select! {
                biased;
                () = self.roles.changed.reached(seen + 1) => {}
                // Sleep stands still while the machine is suspended; trust does not.
                () = self.roles.env.sleep(left.min(LOOK_AGAIN)) => {}
            }
        }
    }

    /// Gives the role up and does not seek it again.
    pub fn resign(&self) {
        self.roles.unwant(&self.role);
    }
}
