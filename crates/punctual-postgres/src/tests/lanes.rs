//! Connections that are kept for a purpose, and the one that listens.

use std::time::Duration;

use punctual_core::job::RetryPolicy;
use punctual_core::{NodeId, Nonce};
use punctual_store::{Acquired, At, Fence, ReapAsk, Store};

use super::{NOW, Schema, node};
use crate::{PostgresStore, wake};

const AT: At = At::Fixed(NOW);

/// Somebody reads as much as may be read at once; slots, timers and roles do not wait for that.
#[tokio::test]
async fn what_leaders_do_waits_behind_nobodys_lists() {
    let schema = Schema::new();
    let options = schema.options().connections(1);
    let store = PostgresStore::connect(&super::url(), options).await.unwrap();
    let id = NodeId::mint(NOW, [1; 10]);
    store.join(AT, &node(id)).await.unwrap();
    let list = store.pool.take().await.unwrap();
    let lead = async {
        let (nonce, lease) = (Nonce::mint(NOW, [2; 10]), Duration::from_secs(5));
        let won = store.acquire(AT, "scheduler/0", id, nonce, lease).await.unwrap();
        let Acquired::Won { term, .. } = won else { panic!("{won:?}") };
        let fence = Fence { role: "scheduler/0".to_owned(), term, nonce };
        store.due(AT, 0, 10).await.unwrap();
        assert!(store.fire(AT, &fence, lease, &[]).await.unwrap().until.is_some());
        store.promote(AT, 10).await.unwrap();
        let (node_lifetime, policy) = (Duration::from_secs(15), RetryPolicy::default());
        let ask = ReapAsk { fence: fence.clone(), lease, node_lifetime, policy, most: 10 };
        assert!(store.reap(AT, &ask).await.unwrap().led);
        assert!(store.resign(AT, &fence).await.unwrap());
    };
    tokio::time::timeout(Duration::from_secs(20), lead).await.expect("it waits for the list");
    drop(list);
}

/// Whoever is not let listen tries again ever more seldom, and not at once for ever.
#[tokio::test]
async fn a_refusal_to_listen_is_an_error() {
    let schema = Schema::new();
    let store = schema.open().await;
    // No channel has an empty name.
    let refused = wake::hear(&store.shared, &store.connector, "").await.unwrap_err();
    assert!(refused.to_string().contains("zero-length"), "{refused}");
}
