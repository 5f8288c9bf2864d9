//! One life of a node: from joining under an id to leaving, or to being declared dead.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::NodeId;
use punctual_store::{ErrorKind, Result, Topic};
use tokio::sync::Notify;

use crate::EngineError;
use crate::level::Level;
use crate::service::{self, Rest, Service, within};
use crate::stop::StopReason;
use crate::telemetry;
use crate::wiring::{NodeLife, Parts};

/// A wish of this level: finish what runs, start nothing, and stop.
pub(crate) const STOP: u64 = 1;
/// A wish of this level: stop at once.
pub(crate) const STOP_NOW: u64 = 2;

/// How a life ended.
pub(crate) enum Over {
    /// As asked; so many jobs could not be settled and are left to the reaper.
    Stopped { unsettled: usize },
    /// The others declared it dead.
    Dead,
}

pub(crate) struct Session {
    pub(crate) life: NodeLife,
    /// Ends what makes new work: claims and offices.
    quiet: Arc<Level>,
    /// Ends everything.
    over: Arc<Level>,
}

impl Session {
    /// Joins under a new id and starts all services.
    pub(crate) async fn begin(parts: Arc<Parts>) -> std::result::Result<Session, EngineError> {
        let Parts { env, store, config, .. } = &*parts;
        let node = NodeId::mint(env.wall(), env.seed());
        // Joining is the first heartbeat: trust in it begins before it is sent.
        let life = NodeLife::new(parts.clone(), node);
        let sent = env.elapsed();
        let info = parts.info(node);
        let joined = within(&**env, config.timing.call, store.join(env.at(), &info)).await?;
        parts.database.told_time(joined.at, sent);
        let session = Session { life, quiet: Arc::default(), over: Arc::default() };
        session.start()?;
        Ok(session)
    }

    /// Starts the services. Their order decides which one runs first, also in the simulator.
    fn start(&self) -> std::result::Result<(), EngineError> {
        let Session { life, quiet, over } = self;
        let Parts { env, config, roles, .. } = &*life.parts;
        let wakes = &life.wakes;

        // On a thread of their own: a handler that blocks must not make its node look dead, and
        // somebody has to notice that it does.
        let pulse = service::run(env.clone(), life.beat(), Arc::default(), over.clone());
        let watch =
            service::run(env.clone(), life.watchdog(), wakes.watchdog.clone(), over.clone());
        let both = async {
            tokio::join!(pulse, watch);
        };
        env.spawn_apart("punctual-beat", Box::pin(both))
            .map_err(|error| EngineError::Thread(error.to_string()))?;

        self.run(life.settler(), &wakes.settler, over);
        if !config.queues.is_empty() {
            self.run(life.scribe(), &wakes.scribe, over);
            self.run(life.claimer(), &wakes.claimer, quiet);
            self.pass_on(Topic::Work, &wakes.claimer);
        }
        self.run(life.seeker(), &roles.seeker, quiet);
        self.pass_on(Topic::Roles, &roles.seeker);
        self.run(life.promoter(), &wakes.promoter, quiet);
        self.run(life.expirer(), &life.passed.wake, quiet);
        if config.schedules {
            self.run(life.ahead_search(), &life.ahead.wake, quiet);
            self.run(life.scheduler(), &wakes.scheduler, quiet);
            self.pass_on(Topic::Schedules, &wakes.scheduler);
            self.pass_on_terms(&wakes.scheduler);
        }
        self.run(life.pruner(), &Arc::default(), quiet);
        self.run(life.breaker(), &Arc::default(), quiet);
        self.run(life.stranded(), &Arc::default(), quiet);
        let new_term = Arc::<Notify>::default();
        self.run(life.queue_counter(), &new_term, quiet);
        self.pass_on_terms(&new_term);
        self.run(life.roll_up(), &Arc::default(), over);
        let new_term = Arc::<Notify>::default();
        self.run(life.reaper(), &new_term, quiet);
        self.pass_on_terms(&new_term);
        Ok(())
    }

    /// Writes what is left of the logs.
    async fn write_out(&self) -> Result<()> {
        let mut scribe = self.life.scribe();
        while scribe.run_once().await?.rest == Rest::None {}
        Ok(())
    }

    fn run(&self, service: impl Service + 'static, wake: &Arc<Notify>, over: &Arc<Level>) {
        let env = &self.life.parts.env;
        let loops = service::run(env.clone(), service, wake.clone(), over.clone());
        env.spawn(Box::pin(loops));
    }

    /// Wakes a service whenever the store gives a hint.
    fn pass_on(&self, topic: Topic, wake: &Arc<Notify>) {
        let (mut hints, wake) = (self.life.parts.store.hints(topic), wake.clone());
        let quiet = self.quiet.clone();
        self.life.parts.env.spawn(Box::pin(async move {
            loop {
                tokio::select! {
                    biased;
                    () = quiet.reached(1) => return,
                    () = hints.heard() => wake.notify_one(),
                }
            }
        }));
    }

    /// Wakes a service whenever a term begins or ends.
    fn pass_on_terms(&self, wake: &Arc<Notify>) {
        let (roles, wake) = (self.life.parts.roles.clone(), wake.clone());
        let quiet = self.quiet.clone();
        self.life.parts.env.spawn(Box::pin(async move {
            let mut seen = roles.changed.get();
            loop {
                tokio::select! {
                    biased;
                    () = quiet.reached(1) => return,
                    () = roles.changed.reached(seen + 1) => {
                        seen = roles.changed.get();
                        wake.notify_one();
                    }
                }
            }
        }));
    }

    /// Lives until the node is told to stop or is declared dead.
    pub(crate) async fn live(&self, wish: &Level) -> Over {
        tokio::select! {
            biased;
            () = wish.reached(STOP) => {}
            () = self.life.dead.reached(1) => return self.die().await,
        }
        self.quiet.raise(1);
        self.life.work.close();
        tokio::select! {
            biased;
            () = self.shut_down(wish) => {}
            () = self.life.parts.out_of_time.reached(1) => {}
        }
        self.over.raise(1);
        Over::Stopped { unsettled: self.life.work.held() }
    }

    /// Hands over the roles, drains, and leaves.
    async fn shut_down(&self, wish: &Level) {
        let Parts { store, config, roles, .. } = &*self.life.parts;
        tokio::join!(roles.resign_all(&**store, config.timing.call), self.drain(wish));
        self.over.raise(1);
        // With jobs that other nodes have to take back, the node stays on the list.
        if self.life.work.held() == 0 && self.life.dead.get() == 0 {
            let mut roll_up = self.life.roll_up();
            let (counted, written, left) =
                tokio::join!(roll_up.run_once(), self.write_out(), self.leave());
            let errors =
                [("roll_up", counted.err()), ("scribe", written.err()), ("leave", left.err())];
            for (what, error) in errors {
                error.inspect(|error| telemetry::failed(what, error));
            }
        }
    }

    /// Tells running attempts of the shutdown and lets them finish until the grace ends. Shortly
    /// before, they are requested to stop; at the end, they are dropped and released.
    async fn drain(&self, wish: &Level) {
        let Parts { env, config, .. } = &*self.life.parts;
        let ends = env.elapsed().saturating_add(config.shutdown_grace);
        let time_left = || ends.saturating_sub(env.elapsed());
        self.life.work.announce_shutdown(ends);
        // A second stop request skips the waiting.
        tokio::select! {
            biased;
            () = self.life.work.emptied() => return,
            () = wish.reached(STOP_NOW) => {}
            () = self.life.dead.reached(1) => {}
            () = env.sleep(time_left().saturating_sub(config.timing.cancel_grace)) => {}
        }
        self.life.work.stop_all(StopReason::Shutdown);
        tokio::select! {
            biased;
            () = self.life.work.emptied() => return,
            () = wish.reached(STOP_NOW) => {}
            () = self.life.dead.reached(1) => {}
            () = env.sleep(time_left()) => {}
        }
        self.life.work.drop_all();
        // The settler writes how they ended, until the node is out of time.
        tokio::select! {
            biased;
            () = self.life.work.emptied() => {}
            () = self.life.dead.reached(1) => {}
        }
    }

    /// Takes the node from the list.
    async fn leave(&self) -> Result<()> {
        match self.strike_off().await {
            // The answer to a claim was lost: a last heartbeat tells of its jobs and gives them
            // back.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.life.beat().run_once().await?;
                self.strike_off().await
            }
            left => left,
        }
    }

    async fn strike_off(&self) -> Result<()> {
        let Parts { env, store, config, .. } = &*self.life.parts;
        within(&**env, config.timing.call, store.leave(env.at(), self.life.node)).await
    }

    /// Its jobs are another's by now: whatever still runs has to end before the node comes back.
    async fn die(&self) -> Over {
        self.quiet.raise(1);
        self.life.parts.roles.forget();
        self.life.work.close();
        self.life.work.stop_all(StopReason::OutOfTouch);
        let grace: Duration = self.life.parts.config.timing.cancel_grace;
        tokio::select! {
            biased;
            () = self.life.work.emptied() => {}
            () = self.life.parts.env.sleep(grace) => {}
        }
        self.life.work.drop_all();
        self.over.raise(1);
        telemetry::rejoined();
        Over::Dead
    }
}

impl Drop for Session {
    /// A session that is dropped leaves no loop behind.
    fn drop(&mut self) {
        self.quiet.raise(1);
        self.over.raise(1);
    }
}
