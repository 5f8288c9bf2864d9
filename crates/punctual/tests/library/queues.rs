//! The order in which a node serves its queues.

use std::sync::{Arc, Mutex};

use punctual::{Builder, Order, Punctual, QueueOrder, ServedQueue};

use crate::{Mail, frozen, mail};

/// The queues of 16 jobs, in the order in which a node that runs one at a time has run them.
async fn run_order(settings: impl FnOnce(Builder) -> Builder) -> Vec<String> {
    let ran = Arc::<Mutex<Vec<String>>>::default();
    let seen = ran.clone();
    let note = move |job: Mail| {
        seen.lock().unwrap().push(job.to);
        std::future::ready(())
    };
    let queues = ["urgent", "default"].map(ServedQueue::new);
    let builder = Punctual::memory().queues(queues).max_running(1);
    let queue = frozen(settings(builder).handle(note)).await;
    for name in ["default", "urgent"].repeat(8) {
        queue.enqueue(Order::from(&mail(name)).queue(name)).await.unwrap();
    }
    queue.drain().await;
    let ran = ran.lock().unwrap().clone();
    assert_eq!(ran.len(), 16);
    ran
}

#[tokio::test]
async fn in_strict_order_a_queue_waits_for_those_before_it() {
    let ran = run_order(|builder| builder.queue_order(QueueOrder::Strict)).await;
    assert!(ran.is_sorted_by(|a, b| a >= b), "{ran:?}");
}

#[tokio::test]
async fn by_default_each_queue_gets_its_share() {
    let ran = run_order(|builder| builder).await;
    assert!(ran[..8].iter().any(|queue| queue == "default"), "{ran:?}");
}
