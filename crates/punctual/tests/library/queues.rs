//! The order in which a node serves its queues.

use std::sync::{Arc, Mutex};

use punctual::{Builder, Order, Punctual, QueueOrder, ServedQueue};

use crate::{Mail, frozen, mail};

/// How often jobs of two queues compete. In weighted order, the odds that the same queue is first each
/// time are 1 to 2^63.
const ROUNDS: usize = 64;

/// The queue that was served first in each round.
async fn first_served(settings: impl FnOnce(Builder) -> Builder) -> Vec<String> {
    let ran = Arc::<Mutex<Vec<String>>>::default();
    let seen = ran.clone();
    let note = move |job: Mail| {
        seen.lock().unwrap().push(job.to);
        std::future::ready(())
    };
    let queues = ["urgent", "default"].map(ServedQueue::new);
    let builder = Punctual::memory().queues(queues).max_running(1);
    let queue = frozen(settings(builder).handle(note)).await;
    let mut first = Vec::new();
    for _ in 0..ROUNDS {
        for name in ["default", "urgent"] {
            queue.enqueue(Order::from(&mail(name)).queue(name)).await.unwrap();
        }
        queue.drain().await;
        let round = std::mem::take(&mut *ran.lock().unwrap());
        assert_eq!(round.len(), 2);
        first.push(round[0].clone());
    }
    first
}

#[tokio::test]
async fn in_strict_order_a_queue_waits_for_those_before_it() {
    let first = first_served(|builder| builder.queue_order(QueueOrder::Strict)).await;
    assert!(first.iter().all(|queue| queue == "urgent"), "{first:?}");
}

#[tokio::test]
async fn by_default_each_queue_gets_its_share() {
    let first = first_served(|builder| builder).await;
    for queue in ["urgent", "default"] {
        assert!(first.iter().any(|found| found == queue), "{first:?}");
    }
}
