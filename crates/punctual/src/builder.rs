//! What a node does, said before it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::job::{Backoff, RetryPolicy};
use punctual_core::schedule::Template;
use punctual_engine::{
    Config, Declared, Ended, Engine, Handlers, QueueOrder, Schedules, ServedQueue, Timing,
};
use punctual_store::Retention;
use tower_layer::Layer;
use tower_service::Service;

use crate::connect::Ground;
use crate::ctx::Shared;
use crate::error::{Error, Result};
use crate::handler::{Call, Handler, HandlerService, Innermost, Registered};
use crate::job::{Job, Settings};
use crate::order::Order;
use crate::outcome::BoxError;
use crate::punctual::{Known, Punctual};
use crate::start_check::{HandlerQueue, log_warnings};
use crate::when::When;

/// A node before it starts: its state, handlers and schedules, and how it works.
///
/// ```
/// use punctual::{Ctx, Job, Punctual};
///
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// struct Greet { name: String }
///
/// async fn greet(job: Greet, cx: Ctx<String>) { println!("{}, {}", cx.state(), job.name) }
///
/// # #[tokio::main] async fn main() -> punctual::Result<()> {
/// let punctual = Punctual::memory().state("Hello".to_owned()).handle(greet).start().await?;
/// punctual.enqueue(&Greet { name: "Ada".into() }).await?;
/// # punctual.stop().await; Ok(()) }
/// ```
#[must_use = "nothing runs until `start` is called"]
pub struct Builder<S = ()> {
    state: S,
    plan: Plan,
}

type Wrap = Box<dyn Fn(HandlerService) -> HandlerService + Send + Sync>;

/// Everything but the state.
pub(crate) struct Plan {
    pub(crate) shared: Shared,
    is_producer: bool,
    handlers: Vec<Entry>,
    elsewhere: BTreeSet<String>,
    schedules: Vec<(String, When, Order)>,
    set: (String, i64),
    layers: Vec<Wrap>,
    queues: Option<Vec<ServedQueue>>,
    config: Config,
}

struct Entry {
    kind: &'static str,
    settings: Settings,
    make: Box<dyn FnOnce(Arc<Shared>) -> HandlerService + Send>,
}

impl Builder {
    pub(crate) fn on(ground: Ground) -> Builder {
        let Ground { env, store, backend, is_producer } = ground;
        let plan = Plan {
            shared: Shared { env, store, backend, trace: None, counts: Arc::default() },
            is_producer,
            handlers: Vec::new(),
            elsewhere: BTreeSet::new(),
            schedules: Vec::new(),
            set: (program(), 0),
            layers: Vec::new(),
            queues: None,
            config: Config { name: program(), ..Config::default() },
        };
        Builder { state: (), plan }
    }
}

/// The name of this program, as far as it has one.
fn program() -> String {
    let path = std::env::current_exe().ok();
    let stem = path.as_ref().and_then(|path| path.file_stem()).and_then(|stem| stem.to_str());
    stem.unwrap_or("program").to_owned()
}

impl<S: Clone + Send + Sync + 'static> Builder<S> {
    /// What handlers that are added from here on find in [`Ctx::state`](crate::Ctx::state).
    pub fn state<T>(self, state: T) -> Builder<T> {
        Builder { state, plan: self.plan }
    }

    /// Does the work of a kind, which is that of the function's first argument.
    pub fn handle<H, Shape>(mut self, handler: H) -> Builder<S>
    where
        H: Handler<S, Shape>,
        Shape: 'static,
    {
        let state = self.state.clone();
        self.plan.handlers.push(Entry {
            kind: H::Job::KIND,
            settings: H::Job::settings(),
            make: Box::new(move |shared| Innermost { handler, state, shared }.service()),
        });
        self
    }

    fn set(mut self, set: impl FnOnce(&mut Plan)) -> Builder<S> {
        set(&mut self.plan);
        self
    }

    /// Jobs of this type are handled by other programs; to order them here is no mistake.
    pub fn handled_elsewhere<J: Job>(self) -> Builder<S> {
        self.set(|plan| plan.elsewhere.extend([J::KIND.to_owned()]))
    }

    /// Wraps every handler in a `tower` layer; the last one that is added is the outermost.
    pub fn layer<L>(self, layer: L) -> Builder<S>
    where
        L: Layer<HandlerService> + Send + Sync + 'static,
        L::Service: Service<Call, Response = Ended> + Clone + Send + Sync + 'static,
        <L::Service as Service<Call>>::Error: Into<BoxError>,
        <L::Service as Service<Call>>::Future: Send + 'static,
    {
        let wrap = move |service: HandlerService| service.within(&layer);
        self.set(|plan| plan.layers.push(Box::new(wrap)))
    }

    /// A schedule that makes this job at each slot.
    ///
    /// The schedules of a program are a set: to register them again changes nothing, one that is
    /// no longer registered is paused with the reason "removed from code", and an operator's pause
    /// holds. In a rolling deployment, where two versions run at once, give each a
    /// [`generation`](Builder::generation).
    pub fn schedule(self, name: &str, when: When, job: impl Into<Order>) -> Builder<S> {
        let order = job.into();
        self.set(|plan| plan.schedules.push((name.to_owned(), when, order)))
    }

    /// The name of the set that contains the schedules of this program [default: the name of the
    /// executable]. Different programs that share a database need different names.
    ///
    /// A process that registers no schedules never changes the schedules of its app: it may be a
    /// producer or a worker of the same app. After removing the last schedule from the code, pause
    /// or delete it with [`Admin`](crate::Admin).
    pub fn app(self, name: &str) -> Builder<S> {
        self.set(|plan| plan.set.0 = name.to_owned())
    }

    /// The generation of this program's schedules, for instance the number of the build. One that
    /// is lower than what was registered before changes nothing; an equal or a higher one stands.
    pub fn generation(self, generation: i64) -> Builder<S> {
        self.set(|plan| plan.set.1 = generation)
    }

    /// The node's lasting name; that of the executable unless said otherwise.
    pub fn name(self, name: &str) -> Builder<S> {
        self.set(|plan| plan.config.name = name.to_owned())
    }

    /// The version of your program, as nodes and the dashboard's deploy marks show it; that of punctual
    /// unless said otherwise.
    pub fn version(self, version: &str) -> Builder<S> {
        self.set(|plan| plan.config.version = version.to_owned())
    }

    /// A label of the node.
    pub fn label(self, name: &str, value: &str) -> Builder<S> {
        self.set(|plan| plan.config.labels.push((name.to_owned(), value.to_owned())))
    }

    /// The queues that the node serves [default: `default` and the queues of its handlers' jobs].
    /// A handler whose queue no live node serves is logged as a warning at start.
    pub fn queues(self, queues: impl IntoIterator<Item = ServedQueue>) -> Builder<S> {
        self.set(|plan| plan.queues = Some(queues.into_iter().collect()))
    }

    /// The order in which the node claims from its queues when it cannot take all due jobs [default:
    /// weighted]. With [`QueueOrder::Strict`], a queue waits while a queue before it has due jobs.
    ///
    /// ```no_run
    /// # use punctual::{Punctual, QueueOrder, ServedQueue};
    /// # async fn start() -> punctual::Result<()> {
    /// let punctual = Punctual::sqlite("app.db")
    ///     .await?
    ///     .queues([ServedQueue::new("urgent"), ServedQueue::new("default")])
    ///     .queue_order(QueueOrder::Strict)
    ///     .start()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn queue_order(self, order: QueueOrder) -> Builder<S> {
        self.set(|plan| plan.config.order = order)
    }

    /// The most handlers at work at once; 100 unless said otherwise.
    pub fn max_running(self, most: usize) -> Builder<S> {
        self.set(|plan| plan.config.max_running = most)
    }

    /// How long an attempt may take if its job does not say; 15 minutes unless said otherwise.
    pub fn timeout(self, limit: Duration) -> Builder<S> {
        self.set(|plan| plan.config.timeout = limit)
    }

    /// The waits between attempts of jobs whose type does not say.
    pub fn backoff(self, backoff: Backoff) -> Builder<S> {
        self.set(|plan| plan.config.policy = RetryPolicy { backoff })
    }

    /// How long history is kept.
    pub fn retention(self, retention: Retention) -> Builder<S> {
        self.set(|plan| plan.config.retention = retention)
    }

    /// How long running work may go on after the first request to stop; 30 seconds unless said
    /// otherwise.
    pub fn shutdown_grace(self, grace: Duration) -> Builder<S> {
        self.set(|plan| plan.config.shutdown_grace = grace)
    }

    /// Periods and patience, for those who know why.
    pub fn timing(self, timing: Timing) -> Builder<S> {
        self.set(|plan| plan.config.timing = timing)
    }

    /// The node works and never leads: others fire schedules and look after the store.
    pub fn never_leads(self) -> Builder<S> {
        self.set(|plan| (plan.config.maintains, plan.config.schedules) = (false, false))
    }

    /// The node leads and never works: others run jobs.
    pub fn never_works(self) -> Builder<S> {
        self.set(|plan| plan.queues = Some(Vec::new()))
    }

    /// Asked with each order that names no trace: the trace that the caller is in, for instance a
    /// `traceparent` from OpenTelemetry.
    pub fn trace_from(self, trace: fn() -> Option<String>) -> Builder<S> {
        self.set(|plan| plan.shared.trace = Some(trace))
    }

    /// Registers its schedules and starts the node.
    ///
    /// Logs a warning for each handler whose queue no live node serves, and for waiting jobs of
    /// kinds that no live node handles.
    pub async fn start(self) -> Result<Punctual> {
        self.plan.start().await
    }

    #[cfg(feature = "testing")]
    pub(crate) fn plan(self) -> Plan {
        self.plan
    }
}

/// A node that is ready to start.
pub(crate) struct Ready {
    pub(crate) shared: Arc<Shared>,
    pub(crate) config: Config,
    pub(crate) handlers: Handlers,
    pub(crate) known: Known,
    pub(crate) is_producer: bool,
    /// The handlers that the node is to run; none for a node that runs no jobs.
    pub(crate) handler_queues: Vec<HandlerQueue>,
}

impl Plan {
    async fn start(self) -> Result<Punctual> {
        let ready = self.ready().await?;
        let Ready { shared, config, handlers, known, is_producer, handler_queues } = ready;
        let engine = if is_producer {
            None
        } else {
            let (env, store) = (shared.env.clone(), shared.store.clone());
            let timing = config.timing;
            let engine = Engine::start(env.clone(), store.clone(), config, handlers).await?;
            let timeout = env.sleep(timing.call);
            let at = env.at();
            // In the background: counting jobs must not delay the start.
            env.spawn(Box::pin(async move {
                let check = log_warnings(&*store, at, timing.dead, &handler_queues);
                tokio::select! {
                    () = check => {}
                    () = timeout => tracing::warn!("start check timed out"),
                }
            }));
            Some(engine)
        };
        Ok(Punctual::new(shared, known, engine))
    }

    /// Checks all that was said and registers the schedules.
    pub(crate) async fn ready(mut self) -> Result<Ready> {
        if let Some(entry) = self.handlers.first().filter(|_| self.is_producer) {
            return Err(Error::invalid(format!(
                "a producer cannot have handlers, but kind `{}` has one; remove `.producer()` or \
                 the handler",
                entry.kind
            )));
        }
        self.config.queues = self.served();
        self.config.check()?;
        let known = self.known();
        let schedules = std::mem::take(&mut self.schedules);
        let mut definitions = BTreeMap::new();
        for (name, when, order) in schedules {
            let definition = when.makes(self.template(&name, order, &known)?);
            if definitions.insert(name.clone(), definition).is_some() {
                return Err(Error::invalid(format!(
                    "schedule `{name}` is registered twice; rename one of them"
                )));
            }
        }
        let shared = Arc::new(self.shared.clone());
        let handler_queues = self.handler_queues();
        let mut handlers = Handlers::default();
        for Entry { kind, settings, make } in std::mem::take(&mut self.handlers) {
            let service = make(shared.clone());
            let service = self.layers.iter().fold(service, |service, wrap| wrap(service));
            let policy = settings.backoff.map(|backoff| RetryPolicy { backoff });
            if !handlers.add(kind, Registered { service, policy }) {
                return Err(Error::invalid(format!(
                    "kind `{kind}` has two handlers; remove one, or rename the kind of one job with \
                     `#[job(kind = \"…\")]`"
                )));
            }
        }
        // A process without schedules may be another part of an app that has some.
        if !definitions.is_empty() {
            let schedules = Schedules::new(shared.env.clone(), shared.store.clone());
            let (set, generation) = (format!("code:{}", self.set.0), self.set.1);
            let declared = schedules.register("", &set, generation, &definitions).await?;
            if let Declared::Superseded(higher) = declared {
                tracing::info!(
                    set,
                    generation,
                    higher,
                    "schedules not registered: a higher generation is active"
                );
            }
        }
        let Plan { config, is_producer, .. } = self;
        Ok(Ready { shared, config, handlers, known, is_producer, handler_queues })
    }

    /// The queue of each handler, unless the node runs no jobs at all.
    fn handler_queues(&self) -> Vec<HandlerQueue> {
        let handlers = self.handlers.iter().filter(|_| !self.config.queues.is_empty());
        handlers.map(|it| HandlerQueue { kind: it.kind, queue: it.settings.queue }).collect()
    }

    /// The queues that it serves.
    fn served(&self) -> Vec<ServedQueue> {
        if let Some(queues) = &self.queues {
            return queues.clone();
        }
        let own = self.handlers.iter().map(|entry| entry.settings.queue);
        let made = self.schedules.iter().filter_map(|(.., order)| order.queue_name());
        let names: BTreeSet<&str> = own.chain(made).chain(["default"]).collect();
        names.into_iter().map(ServedQueue::new).collect()
    }

    /// The kinds that may be ordered here. A node that works and is to order what it has no
    /// handler for has most likely forgotten one.
    fn known(&self) -> Known {
        if self.is_producer || self.config.queues.is_empty() || self.handlers.is_empty() {
            return Known::Any;
        }
        let own = self.handlers.iter().map(|entry| entry.kind.to_owned());
        Known::These(own.chain(self.elsewhere.iter().cloned()).collect())
    }

    /// The job that a schedule makes, as its definition holds it.
    fn template(&self, name: &str, order: Order, known: &Known) -> Result<Template> {
        let within = |error: Error| error.of_schedule(name);
        known.check(&order).map_err(within)?;
        let job = order.job(self.shared.mint(), || None).map_err(within)?;
        if !(job.owner.is_empty() && job.tenant.is_empty() && job.trace.is_none()) {
            return Err(within(Error::invalid(
                "owner, tenant and trace cannot be set for jobs of a schedule; remove them",
            )));
        }
        if job.unique.is_some() {
            return Err(within(Error::invalid(
                "jobs of a schedule cannot have a unique key; use `.not_unique()`, and `overlap` to \
                 control what happens while an earlier job is unfinished",
            )));
        }
        if job.delay != punctual_store::Delay::None {
            return Err(within(Error::invalid(
                "jobs of a schedule cannot have a delay: they are due at their slot; remove the \
                 delay or use `jitter`",
            )));
        }
        let length = |length: Option<Duration>| length.map(punctual_core::format_duration);
        Ok(Template {
            payload: serde_json::from_str(job.payload.as_str())
                .map_err(|error| within(Error::invalid(error.to_string())))?,
            kind: job.kind,
            queue: job.queue,
            priority: job.priority,
            max_attempts: job.max_attempts,
            timeout: length(job.timeout),
            budget: length(job.budget),
            start_within: length(job.start_within),
            tags: job.tags,
            // Its kind says it, to whichever node runs it.
            backoff: None,
        })
    }
}
