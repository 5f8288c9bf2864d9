//! `tower` layers around handlers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use punctual::{Call, Ended, HandlerService, JobState, Punctual};
use tower::{Layer, Service, ServiceBuilder};

use crate::{deliver, frozen, mail};

/// Notes what passes.
#[derive(Clone)]
struct Noting {
    name: &'static str,
    noted: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
struct Noted<T> {
    inner: T,
    layer: Noting,
}

impl<T> Layer<T> for Noting {
    type Service = Noted<T>;

    fn layer(&self, inner: T) -> Noted<T> {
        Noted { inner, layer: self.clone() }
    }
}

impl<T: Service<Call, Response = Ended>> Service<Call> for Noted<T> {
    type Response = Ended;
    type Error = T::Error;
    type Future = T::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), T::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> T::Future {
        let Noting { name, noted } = &self.layer;
        noted.lock().unwrap().push(format!("{name}: {} {}", call.kind(), call.job().attempt));
        self.inner.call(call)
    }
}

#[tokio::test]
async fn layers_see_every_attempt_the_last_one_first() {
    let noted = Arc::<Mutex<Vec<String>>>::default();
    let noting = |name| Noting { name, noted: noted.clone() };
    let builder = Punctual::memory().handle(deliver).layer(noting("inner")).layer(noting("outer"));
    let queue = frozen(builder).await;
    queue.perform(&mail("a")).await.unwrap();
    assert_eq!(*noted.lock().unwrap(), ["outer: mail 1", "inner: mail 1"]);
}

#[tokio::test]
async fn the_layers_of_tower_itself_fit_and_their_errors_are_failures() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let count = tower::layer::layer_fn(move |inner: HandlerService| {
        let calls = counted.clone();
        tower::util::MapRequest::new(inner, move |call: Call| {
            calls.fetch_add(1, Ordering::Relaxed);
            call
        })
    });
    let builder = Punctual::memory()
        .handle(deliver)
        .layer(ServiceBuilder::new().concurrency_limit(4).layer(count).into_inner());
    let queue = frozen(builder).await;
    assert_eq!(queue.perform(&mail("a")).await.unwrap().state, JobState::Succeeded);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_error_of_a_layer_is_a_failure_of_the_attempt() {
    let builder =
        Punctual::memory().handle(deliver).layer(tower::filter::FilterLayer::new(|call: Call| {
            match call.job().attempt {
                1 => Err(tower::BoxError::from("not allowed yet")),
                _ => Ok(call),
            }
        }));
    let queue = frozen(builder).await;
    let id = queue.enqueue(&mail("a")).await.unwrap().id;
    assert_eq!(queue.drain().await.failed, 1);
    assert_eq!(queue.advance("1h").await.succeeded, 1);
    let job = queue.admin().job(id).await.unwrap();
    assert_eq!(job.attempts[0].error.as_deref(), Some("not allowed yet"));
}
