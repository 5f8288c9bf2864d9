//! Handlers: plain asynchronous functions, each a `tower` service once it is registered.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use punctual_core::job::{Outcome as Decided, RetryPolicy};
use punctual_engine::{Attempt, Boxed, Ended};
use tower_layer::Layer;
use tower_service::Service;

use crate::ctx::{Ctx, Shared};
use crate::job::Job;
use crate::outcome::{BoxError, IntoEnded, failed};

/// An asynchronous function that does the work of a kind: of the job alone, or of the job and a
/// [`Ctx`].
///
/// ```
/// # use punctual::{Ctx, Job};
/// # #[derive(serde::Serialize, serde::Deserialize, Job)]
/// # struct SendEmail { to: String }
/// # #[derive(Clone)] struct Mailer;
/// async fn plain(job: SendEmail) {}
/// async fn with_state(job: SendEmail, cx: Ctx<Mailer>) -> Result<(), std::io::Error> { Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is `async fn(job)` or `async fn(job, cx: Ctx<State>)`, where `job` implements `Job` and `State` is the type passed to `.state(…)` before `.handle(…)`; it returns `()`, `Outcome`, `Done<T>`, or a `Result` of these"
)]
pub trait Handler<S, Shape>: Clone + Send + Sync + 'static {
    /// The job that it handles.
    type Job: Job;

    /// Makes one attempt.
    fn call(&self, job: Self::Job, cx: Ctx<S>) -> Boxed<Ended>;
}

impl<S, J, F, Fut, R> Handler<S, (J,)> for F
where
    S: 'static,
    J: Job,
    F: Fn(J) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoEnded,
{
    type Job = J;

    fn call(&self, job: J, _: Ctx<S>) -> Boxed<Ended> {
        let work = self(job);
        Box::pin(async move { work.await.into_ended() })
    }
}

impl<S, J, F, Fut, R> Handler<S, (J, Ctx<S>)> for F
where
    S: Send + 'static,
    J: Job,
    F: Fn(J, Ctx<S>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoEnded,
{
    type Job = J;

    fn call(&self, job: J, cx: Ctx<S>) -> Boxed<Ended> {
        let work = self(job, cx);
        Box::pin(async move { work.await.into_ended() })
    }
}

/// One attempt, as `tower` layers around handlers see it.
pub struct Call {
    pub(crate) attempt: Attempt,
}

impl Call {
    /// The kind of the job.
    pub fn kind(&self) -> &str {
        &self.attempt.job.kind
    }

    /// The job, and where it stands.
    pub fn job(&self) -> &punctual_store::ClaimedJob {
        &self.attempt.job
    }
}

/// What a `tower` layer wraps: the handler of a kind, as a service from [`Call`] to its end.
pub struct HandlerService {
    inner: Box<dyn CloneService>,
}

trait CloneService: Send + Sync {
    fn call(&self, call: Call) -> Boxed<Result<Ended, BoxError>>;
    fn clone_box(&self) -> Box<dyn CloneService>;
}

struct Wrapped<T>(T);

impl<T> CloneService for Wrapped<T>
where
    T: Service<Call, Response = Ended> + Clone + Send + Sync + 'static,
    T::Error: Into<BoxError>,
    T::Future: Send + 'static,
{
    fn call(&self, call: Call) -> Boxed<Result<Ended, BoxError>> {
        let mut service = self.0.clone();
        Box::pin(async move {
            std::future::poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
            service.call(call).await.map_err(Into::into)
        })
    }

    fn clone_box(&self) -> Box<dyn CloneService> {
        Box::new(Wrapped(self.0.clone()))
    }
}

impl Clone for HandlerService {
    fn clone(&self) -> HandlerService {
        HandlerService { inner: self.inner.clone_box() }
    }
}

impl Service<Call> for HandlerService {
    type Response = Ended;
    type Error = BoxError;
    type Future = Boxed<Result<Ended, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Boxed<Result<Ended, BoxError>> {
        self.inner.call(call)
    }
}

impl HandlerService {
    /// The handler with a layer around it.
    pub(crate) fn within<L>(self, layer: &L) -> HandlerService
    where
        L: Layer<HandlerService>,
        L::Service: Service<Call, Response = Ended> + Clone + Send + Sync + 'static,
        <L::Service as Service<Call>>::Error: Into<BoxError>,
        <L::Service as Service<Call>>::Future: Send + 'static,
    {
        HandlerService { inner: Box::new(Wrapped(layer.layer(self))) }
    }
}

/// The innermost service: reads the payload and calls the function.
pub(crate) struct Innermost<H, S> {
    pub(crate) handler: H,
    pub(crate) state: S,
    pub(crate) shared: Arc<Shared>,
}

impl<H: Clone, S: Clone> Innermost<H, S> {
    pub(crate) fn service<Shape: 'static>(self) -> HandlerService
    where
        H: Handler<S, Shape>,
        S: Send + Sync + 'static,
    {
        let run = Run { inner: self, shape: std::marker::PhantomData };
        HandlerService { inner: Box::new(run) }
    }
}

struct Run<H, S, Shape> {
    inner: Innermost<H, S>,
    shape: std::marker::PhantomData<fn() -> Shape>,
}

impl<H, S, Shape> CloneService for Run<H, S, Shape>
where
    H: Handler<S, Shape>,
    S: Clone + Send + Sync + 'static,
    Shape: 'static,
{
    fn call(&self, Call { attempt }: Call) -> Boxed<Result<Ended, BoxError>> {
        let payload = attempt.job.payload.as_str();
        let job: H::Job = match serde_json::from_str(payload) {
            Ok(job) => job,
            Err(error) => {
                let kind = &attempt.job.kind;
                // A node of another version may be able to read it.
                let why = format!(
                    "invalid payload for kind `{kind}`: {error}; enqueue the job with a valid payload, \
                     or change the job type so that it accepts this one"
                );
                return Box::pin(async { Ok(Decided::Fail(why).into()) });
            }
        };
        let cx = Ctx::new(attempt, self.inner.state.clone(), self.inner.shared.clone());
        let end = cx.end();
        let work = self.inner.handler.call(job, cx);
        Box::pin(async move { Ok(end.with(work.await)) })
    }

    fn clone_box(&self) -> Box<dyn CloneService> {
        let Innermost { handler, state, shared } = &self.inner;
        let inner =
            Innermost { handler: handler.clone(), state: state.clone(), shared: shared.clone() };
        Box::new(Run { inner, shape: std::marker::PhantomData })
    }
}

/// A handler as the engine runs it.
pub(crate) struct Registered {
    pub(crate) service: HandlerService,
    pub(crate) policy: Option<RetryPolicy>,
}

impl punctual_engine::Handler for Registered {
    fn run(&self, attempt: Attempt) -> Boxed<Ended> {
        let call = self.service.inner.call(Call { attempt });
        Box::pin(async move { call.await.unwrap_or_else(|error| failed(&*error).into()) })
    }

    fn policy(&self) -> Option<&RetryPolicy> {
        self.policy.as_ref()
    }
}
