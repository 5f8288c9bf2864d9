//! Two stores, the same random commands, every answer compared.
//!
//! The tests by name show what is promised; this finds what nobody thought of. A run follows from
//! its seed, and a failure names seed and step.

use std::fmt::Debug;
use std::time::Duration;

use punctual_core::job::{JobState, Outcome, decide};
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp, hash};
use punctual_store::*;

use crate::Subject;
use crate::world::{json, policy};

/// Drives both stores, which must be empty, with `steps` commands that follow from `seed`.
/// Panics at the first answer that differs.
pub async fn compare(seed: u64, steps: u64, reference: &dyn Subject, other: &dyn Subject) {
    let mut run = Run::new(seed, reference, other);
    if seed.is_multiple_of(2) {
        run.set_stage().await;
    }
    for step in 0..steps {
        run.step = step;
        run.command().await;
    }
    run.look_at_everything().await;
}

struct Run<'a> {
    seed: u64,
    step: u64,
    drawn: u64,
    now: Timestamp,
    subjects: [&'a dyn Subject; 2],
    reference: &'a dyn Store,
    other: &'a dyn Store,
    jobs: Vec<JobId>,
    claimed: Vec<ClaimedJob>,
    nodes: Vec<NodeId>,
    fences: Vec<Fence>,
    schedules: Vec<ScheduleId>,
    old_plans: Vec<SlotPlan>,
}

/// Asks both stores the same and answers with what they agree on.
macro_rules! both {
    ($run:ident, $method:ident($($argument:expr),*)) => {{
        let left = $run.reference.$method($($argument),*).await;
        let right = $run.other.$method($($argument),*).await;
        $run.agree(stringify!($method), left, right)
    }};
}

mod notes;
mod schedules;

use notes::SETS;

impl<'a> Run<'a> {
    fn new(seed: u64, reference: &'a dyn Subject, other: &'a dyn Subject) -> Run<'a> {
        Run {
            seed,
            step: 0,
            drawn: 0,
            now: Timestamp::from_seconds(1_798_761_600),
            subjects: [reference, other],
            reference: reference.store(),
            other: other.store(),
            jobs: Vec::new(),
            claimed: Vec::new(),
            nodes: Vec::new(),
            fences: Vec::new(),
            schedules: Vec::new(),
            old_plans: Vec::new(),
        }
    }

    fn agree<T: PartialEq + Debug>(
        &self,
        method: &str,
        left: Result<T>,
        right: Result<T>,
    ) -> Option<T> {
        assert_eq!(left, right, "{method}, seed {}, step {}", self.seed, self.step);
        left.ok()
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        hash::draw(self.seed, self.drawn)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        let index = self.draw() as usize;
        (!items.is_empty()).then(|| items[index % items.len()].clone())
    }

    fn seconds(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.below(most * 1_000 + 1))
    }

    fn random(&mut self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[2..].copy_from_slice(&self.draw().to_be_bytes());
        bytes
    }

    fn at(&self) -> At {
        At::Fixed(self.now)
    }

    /// Half of the runs begin with a leader and schedules: by chance alone they come late.
    async fn set_stage(&mut self) {
        self.join_or_leave().await;
        while self.fences.iter().all(|fence| fence.role != "scheduler/0") {
            self.lead().await;
        }
        while self.schedules.len() < 3 {
            self.create_schedule().await;
        }
    }

    async fn command(&mut self) {
        match self.below(62) {
            0..=3 => self.pass(),
            4..=9 => self.enqueue().await,
            10..=14 => self.claim().await,
            15..=20 => self.settle().await,
            21 => self.cancel().await,
            22 => self.requeue().await,
            23 => self.place().await,
            24 => self.join_or_leave().await,
            25..=26 => self.beat().await,
            27 => self.lead().await,
            28 => drop(both!(self, promote(self.at(), 1 + self.step as usize % 5))),
            29 => self.reap().await,
            30 => self.prune().await,
            31 => self.create_schedule().await,
            32 => self.change_schedule().await,
            33..=35 => self.fire().await,
            36 => self.change_queue().await,
            37 => self.note().await,
            38 => self.release().await,
            39 => self.spoil().await,
            // Freed one by one, so that often.
            40..=42 => drop(both!(self, promote(self.at(), 1 + self.step as usize % 5))),
            43..=47 => self.fire().await,
            48..=51 => self.clear_the_way().await,
            52..=54 => self.save_step().await,
            55 | 56 => self.write_log().await,
            57..=59 => self.register().await,
            _ => self.look().await,
        }
    }

    fn pass(&mut self) {
        let back = self.one_in(50);
        let length = match self.below(6) {
            0 => Duration::from_micros(self.below(10)),
            1 => self.seconds(3_600),
            _ => self.seconds(10),
        };
        self.now = if back { self.now - length } else { self.now + length };
    }

    fn new_job(&mut self) -> NewJob {
        let queue = ["default", "bulk"][self.below(2) as usize];
        let kind = ["mail", "report", "resize"][self.below(3) as usize];
        let payload = [r#"{"a":1}"#, r#"{"b":[2]}"#][self.below(2) as usize];
        let id = JobId::mint(self.now, self.random());
        let id = if self.one_in(15) { self.pick(&self.jobs.clone()).unwrap_or(id) } else { id };
        let mut job = NewJob::new(id, queue, kind, json(payload));
        job.priority = self.below(9) as i16 - 4;
        job.max_attempts = 1 + self.below(4) as u32;
        if self.one_in(3) {
            let scope = [KeyScope::Tenant, KeyScope::Kind, KeyScope::Queue][self.below(3) as usize];
            let lifetime =
                if self.one_in(3) { KeyLifetime::For(self.seconds(60)) } else { KeyLifetime::Job };
            job.unique = Some(UniqueKey {
                key: format!("k{}", self.below(3)),
                scope,
                lifetime,
                is_by_payload: false,
            });
        }
        if self.one_in(4) {
            job.delay = if self.one_in(2) {
                Delay::For(self.seconds(20))
            } else {
                Delay::Until(self.now + self.seconds(20))
            };
        }
        if self.one_in(5) {
            job.tenant = "acme".to_owned();
            job.tags = vec!["eu".to_owned(), format!("t{}", self.below(3))];
            job.trace = Some("trace".to_owned());
        }
        if self.one_in(5) {
            job.budget = Some(self.seconds(60));
            job.timeout = Some(self.seconds(60));
            job.start_within = Some(self.seconds(60));
        }
        if self.one_in(25) {
            job.priority = 1_000;
        }
        job
    }

    fn origin(&mut self, schedule: ScheduleId, slot: Option<Timestamp>) -> Option<Origin> {
        let facts = [r#"{"late":true}"#, "null"][self.below(2) as usize];
        Some(Origin { schedule, slot, facts: json(facts) })
    }

    /// Somebody runs a schedule by hand, or says so of a slot that is not theirs to fire.
    fn manual_run(&mut self, schedule: ScheduleId) -> NewJob {
        let slot = self.one_in(10).then_some(self.now);
        NewJob { origin: self.origin(schedule, slot), ..self.new_job() }
    }

    async fn enqueue(&mut self) {
        let mut jobs: Vec<NewJob> = (0..1 + self.below(4)).map(|_| self.new_job()).collect();
        if self.one_in(5)
            && let Some(schedule) = self.pick(&self.schedules.clone())
        {
            jobs.push(self.manual_run(schedule));
        }
        if both!(self, enqueue(self.at(), &jobs)).is_some() {
            self.jobs.extend(jobs.iter().map(|job| job.id));
        }
    }

    async fn claim(&mut self) {
        let Some(node) = self.pick(&self.nodes.clone()) else { return self.join_or_leave().await };
        let mut queues = vec!["default", "bulk", "none"];
        if self.one_in(2) {
            queues.reverse();
        }
        let most = self.below(6) as usize;
        let ask = ClaimAsk {
            node,
            lease: LeaseId::mint(self.now, self.random()),
            more: Vec::new(),
            queues: queues
                .into_iter()
                .map(|name| QueueShare { name: name.to_owned(), most: 1 + self.below(4) as usize })
                .collect(),
            kinds: if self.one_in(3) {
                vec!["report".to_owned()]
            } else {
                vec!["resize".to_owned(), "mail".to_owned()]
            },
            most,
        };
        if let Some(claimed) = both!(self, claim(self.at(), &ask)) {
            self.claimed.extend(claimed.jobs);
        }
    }

    fn outcome(&mut self) -> Outcome {
        let error = || "boom".to_owned();
        match self.below(10) {
            0 | 1 => Outcome::Done,
            2 => Outcome::Fail(error()),
            3 => Outcome::RetryAfter(self.seconds(10), error()),
            4 => Outcome::FailForGood(error()),
            5 => Outcome::Panicked(error()),
            6 => Outcome::Released,
            7 => Outcome::Snooze(self.seconds(10)),
            8 => Outcome::OutOfResources(error()),
            _ => Outcome::Cancel(error()),
        }
    }

    async fn settle(&mut self) {
        let claimed = self.claimed.clone();
        let mut batch = Vec::new();
        for _ in 0..1 + self.below(4) {
            // Mostly recent leases, now and then one that ended long ago.
            let from = if self.one_in(4) { 0 } else { claimed.len().saturating_sub(6) };
            let Some(job) = self.pick(&claimed[from..]) else { return };
            let transition = decide(&job.standing(), self.outcome(), &policy(), self.now);
            let result = self.one_in(3).then(|| json("[1]"));
            let then = self.followers();
            self.jobs.extend(then.iter().map(|job| job.id));
            batch.push(Settlement { job: job.id, lease: job.lease, transition, result, then });
            if self.one_in(5) {
                batch.push(batch[0].clone());
            }
        }
        both!(self, settle(self.at(), &batch));
    }

    fn actor(&mut self) -> Actor {
        Actor::new(["ana", "bob"][self.below(2) as usize], "because")
    }

    fn some_job(&mut self) -> JobId {
        let unknown = JobId::mint(self.now, self.random());
        let jobs = self.jobs.clone();
        let from = if self.one_in(3) { 0 } else { jobs.len().saturating_sub(10) };
        self.pick(&jobs[from..]).unwrap_or(unknown)
    }

    async fn cancel(&mut self) {
        let (job, actor) = (self.some_job(), self.actor());
        both!(self, cancel(self.at(), job, &actor));
    }

    /// Calls off jobs of a schedule for which others may wait, and frees those.
    async fn clear_the_way(&mut self) {
        let Some(schedule) = self.pick(&self.schedules.clone()) else { return };
        let filter = JobFilter { schedule: Some(schedule), ..JobFilter::default() };
        let Some(page) = both!(self, jobs(&filter, None, 100)) else { return };
        let actor = self.actor();
        for view in page.items {
            let is_in_the_way = !view.state.is_final() && view.state != JobState::Blocked;
            if is_in_the_way && !self.one_in(10) {
                both!(self, cancel(self.at(), view.id, &actor));
            }
        }
        for most in 1..=self.below(3) as usize {
            both!(self, promote(self.at(), most));
        }
    }

    async fn requeue(&mut self) {
        let (jobs, actor) = (vec![self.some_job(), self.some_job(), self.some_job()], self.actor());
        both!(self, requeue(self.at(), &jobs, &actor));
    }

    async fn place(&mut self) {
        let (job, actor) = (self.some_job(), self.actor());
        let to = Placement {
            queue: self.one_in(2).then(|| ["default", "bulk"][self.below(2) as usize].to_owned()),
            priority: self.one_in(2).then(|| self.below(300) as i16 - 150),
            due_at: self.one_in(2).then(|| self.now + self.seconds(20) - Duration::from_secs(10)),
        };
        both!(self, place(self.at(), job, &to, &actor));
    }

    async fn join_or_leave(&mut self) {
        if self.nodes.len() > 2 && self.one_in(2) {
            if let Some(node) = self.pick(&self.nodes.clone()) {
                both!(self, leave(self.at(), node));
            }
            return;
        }
        let again = self.one_in(6).then(|| self.pick(&self.nodes.clone())).flatten();
        let info = NodeInfo {
            id: again.unwrap_or_else(|| NodeId::mint(self.now, self.random())),
            name: format!("n{}", self.below(3)),
            version: "1".to_owned(),
            queues: self.node_queues(),
            kinds: vec!["mail".to_owned(), "report".to_owned()],
            labels: vec![("zone".to_owned(), "a".to_owned())],
        };
        both!(self, join(self.at(), &info));
        self.nodes.push(info.id);
    }

    /// The queues of a node. Some are of nodes or labels, for which slots may wait.
    fn node_queues(&mut self) -> Vec<String> {
        let mut queues = vec!["default".to_owned()];
        if self.one_in(3) {
            queues.push(["@n0", "@zone=a"][self.below(2) as usize].to_owned());
        }
        queues
    }

    async fn beat(&mut self) {
        let nodes = self.nodes.clone();
        // All of them, so that some stay alive for long.
        for node in nodes {
            if !self.one_in(4) {
                let roles = if self.one_in(3) { Vec::new() } else { self.fences.clone() };
                let progress = (0..self.below(3)).filter_map(|_| self.progress()).collect();
                let leases = self.some_leases();
                let lease = Duration::from_secs(5);
                let seeks = self.sought_roles();
                let ask = BeatAsk { node, is_remote: false, roles, seeks, lease, leases, progress };
                both!(self, beat(self.at(), &ask));
            }
        }
    }

    /// The leases of some claims, new and old.
    fn some_leases(&mut self) -> Vec<LeaseId> {
        let claimed = self.claimed.clone();
        (0..self.below(5)).filter_map(|_| Some(self.pick(&claimed)?.lease)).collect()
    }

    fn progress(&mut self) -> Option<Progress> {
        let claimed = self.claimed.clone();
        let job = self.pick(&claimed[claimed.len().saturating_sub(6)..])?;
        let percent = self.one_in(2).then(|| self.below(120) as u8);
        let note = ["", "half way"][self.below(2) as usize].to_owned();
        Some(Progress { job: job.id, lease: job.lease, percent, note })
    }

    async fn release(&mut self) {
        let Some(node) = self.pick(&self.nodes.clone()) else { return };
        let leases = self.some_leases();
        both!(self, release(self.at(), node, &leases));
    }

    async fn lead(&mut self) {
        let Some(node) = self.pick(&self.nodes.clone()) else { return };
        if self.one_in(4) {
            if let Some(fence) = self.pick(&self.fences.clone()) {
                both!(self, resign(self.at(), &fence));
            }
            return;
        }
        let role = ["scheduler/0", "maintenance"][self.below(2) as usize];
        let nonce = Nonce::mint(self.now, self.random());
        let won = both!(self, acquire(self.at(), role, node, nonce, Duration::from_secs(5)));
        if let Some(Acquired::Won { term, .. }) = won {
            self.fences.push(Fence { role: role.to_owned(), term, nonce });
            let known = self.fences.len();
            self.fences.drain(..known.saturating_sub(4));
        }
    }

    async fn reap(&mut self) {
        let Some(fence) = self.pick(&self.fences.clone()) else { return };
        let most = 1 + self.below(4) as usize;
        let ask = ReapAsk {
            fence,
            lease: Duration::from_secs(5),
            node_lifetime: self.seconds(15),
            policy: policy(),
            most,
        };
        let request = ExpireRequest {
            fence: ask.fence.clone(),
            lease: ask.lease,
            recheck_after: self.seconds(15),
            limit: most,
        };
        both!(self, expire(self.at(), &request));
        let request = CountRequest { fence: ask.fence.clone(), lease: ask.lease };
        both!(self, reap(self.at(), &ask));
        both!(self, count_queues(self.at(), &request));
    }

    async fn prune(&mut self) {
        let retention = Retention {
            finished: self.seconds(600),
            failed: self.seconds(1_200),
            ledger: self.seconds(600),
            records: self.seconds(600),
            nodes: self.seconds(60),
        };
        let most = 1 + self.below(5) as usize;
        both!(self, prune(self.at(), &retention, most));
    }

    fn sought_roles(&mut self) -> Vec<String> {
        let all = ["maintenance", "no-role", "scheduler/0"];
        all.iter().filter(|_| self.one_in(2)).map(|role| (*role).to_owned()).collect()
    }

    /// Now and then, so that most of a run is sound.
    async fn spoil(&mut self) {
        if !self.one_in(3) {
            return;
        }
        let job = self.some_job();
        let what = match self.below(5) {
            0 => rules::Spoil::Body(job),
            1 => rules::Spoil::Tags(job),
            2 => rules::Spoil::Seat(job),
            3 => rules::Spoil::Lease(job),
            _ => {
                let Some(schedule) = self.pick(&self.schedules.clone()) else { return };
                rules::Spoil::Schedule(schedule)
            }
        };
        for subject in self.subjects {
            subject.spoil(what).await;
        }
    }

    async fn change_queue(&mut self) {
        let name = ["default", "bulk"][self.below(2) as usize];
        let change = match self.below(5) {
            0 => QueueChange::Pause { until: self.one_in(3).then(|| self.now + self.seconds(30)) },
            1 => QueueChange::Limit(QueueLimits {
                max_running: self.one_in(2).then(|| self.below(4) as u32),
            }),
            _ => QueueChange::Resume,
        };
        let actor = self.actor();
        both!(self, change_queue(self.at(), name, &change, &actor));
    }

    async fn note(&mut self) {
        let entry =
            AuditEntry { actor: self.actor(), action: "test".into(), subject: "x".to_owned() };
        both!(self, audit(self.at(), &entry));
        let count = RollupCount {
            minute: Timestamp::from_seconds(self.now.floor_seconds() / 60 * 60),
            metric: ["succeeded", "failed"][self.below(2) as usize].to_owned(),
            queue: "default".to_owned(),
            kind: "mail".to_owned(),
            count: 1 + self.below(3) as i64,
            sum: self.below(1_000) as i64,
        };
        let counts = [count.clone(), count];
        both!(self, roll_up(&counts));
    }

    async fn look(&mut self) {
        let job = self.some_job();
        both!(self, job(job));
        let state = self.below(JobState::ALL.len() as u64 + 3) as usize;
        let filter = JobFilter {
            state: JobState::ALL.get(state).copied(),
            queue: self.one_in(3).then(|| "bulk".to_owned()),
            kind: self.one_in(4).then(|| "mail".to_owned()),
            tenant: self.one_in(4).then(|| "acme".to_owned()),
            schedule: if self.one_in(4) { self.pick(&self.schedules.clone()) } else { None },
            tag: self.one_in(5).then(|| "eu".to_owned()),
        };
        let most = 1 + self.below(4) as usize;
        let page = both!(self, jobs(&filter, None, most));
        if let Some(cursor) = page.and_then(|page| page.next) {
            both!(self, jobs(&filter, Some(cursor), most));
        }
    }

    /// Everything that can be read, so that nothing differs unseen.
    async fn look_at_everything(&mut self) {
        for job in self.jobs.clone() {
            both!(self, job(job));
            both!(self, log(job, None, limits::PAGE_MAX));
        }
        for job in self.claimed.clone() {
            both!(self, steps(job.id));
        }
        both!(self, jobs(&JobFilter::default(), None, limits::PAGE_MAX));
        both!(self, nodes());
        both!(self, leaders());
        both!(self, queues());
        let page = both!(self, queue_stats(None, 2));
        if let Some(cursor) = page.and_then(|page| page.next) {
            both!(self, queue_stats(Some(&cursor), limits::PAGE_MAX));
        }
        both!(self, audits(None, limits::PAGE_MAX));
        let page = both!(self, events(&EventCursor::at(Timestamp::MIN), Timestamp::MAX, 5));
        if let Some(cursor) = page.and_then(|page| page.next) {
            both!(self, events(&cursor, Timestamp::MAX, limits::PAGE_MAX));
        }
        let metric = self.one_in(2).then(|| "failed".to_owned());
        let filter = RollupFilter { from: Timestamp::MIN, to: Timestamp::MAX, metric };
        let page = both!(self, rollups(&filter, None, 2));
        if let Some(cursor) = page.and_then(|page| page.next) {
            both!(self, rollups(&filter, Some(&cursor), limits::PAGE_MAX));
        }
        for role in ["scheduler/0", "maintenance"] {
            both!(self, leader_changes(role, 100));
        }
        for tenant in ["", "acme"] {
            both!(self, schedules(tenant, None, 100));
            both!(self, schedule_named(tenant, "s1"));
            for set in SETS {
                both!(self, schedules_of(tenant, set, None, 100));
            }
        }
        for set in SETS {
            both!(self, generation(set));
        }
        for most in [2, limits::PAGE_MAX] {
            both!(self, schedules_ahead(self.now, most));
        }
        for id in self.schedules.clone() {
            both!(self, schedule(id));
            both!(self, revisions(id, None, limits::PAGE_MAX));
            both!(self, slots(id, None, limits::PAGE_MAX));
        }
    }
}
