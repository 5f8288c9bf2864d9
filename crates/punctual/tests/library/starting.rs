//! Warnings at the start of a node.

use punctual::testing::Frozen;
use punctual::{Builder, Punctual, ServedQueue};

use crate::logged::Logged;
use crate::{deliver, frozen, mail, mailing};

/// Another process on the same store.
fn process(on: &Frozen) -> Builder {
    on.beside()
}

#[tokio::test]
async fn a_handler_whose_queue_no_node_serves_is_a_warning_at_start() {
    let logged = Logged::start();
    let queue =
        frozen(Punctual::memory().handle(deliver).queues([ServedQueue::new("other")])).await;
    insta::assert_snapshot!(logged.text().trim(), @r#"WARN no live node serves the queue of these handlers, so their jobs wait; add the queue to `queues` queue="mail" kinds="mail""#);
    // No warning if another worker of the same program serves the queue.
    drop(logged);
    let server = process(&queue).handle(deliver).start_frozen_at(queue.now()).await.unwrap();
    let logged = Logged::start();
    let other = process(&queue).handle(deliver).queues([ServedQueue::new("other")]);
    other.start_frozen_at(server.now()).await.unwrap();
    process(&queue).handle(deliver).never_works().start_frozen_at(server.now()).await.unwrap();
    assert_eq!(logged.text(), "");
}

#[tokio::test]
async fn waiting_jobs_of_a_kind_that_no_live_node_handles_are_a_warning_at_start() {
    let queue = mailing().await;
    queue.enqueue_many([&mail("a"), &mail("b")]).await.unwrap();
    queue.outage("1h");
    let logged = Logged::start();
    let builder = process(&queue).name("web").queues([ServedQueue::new("mail")]);
    builder.start_frozen_at(queue.now()).await.unwrap();
    insta::assert_snapshot!(logged.text().trim(), @r#"WARN waiting jobs cannot run queue="mail" kind="mail" jobs=2 reason="no live node handles kind `mail` in queue `mail`: `web` handles no kinds""#);
    drop(logged);
    let logged = Logged::start();
    process(&queue).handle(deliver).start_frozen_at(queue.now()).await.unwrap();
    assert_eq!(logged.text(), "");
}
