//! What a node cannot be told, in words that say what would do.

use std::sync::Arc;

use punctual_engine::{Config, Engine, EngineError, Handlers, ServedQueue, Timing};
use punctual_store::limits;

use crate::world::*;

async fn refused(change: impl FnOnce(&mut Config)) -> String {
    let world = World::new();
    let mut config = Config::default();
    change(&mut config);
    match Engine::start(world.env.clone(), Arc::new(world.memory.clone()), config, on("mail", done))
        .await
    {
        Err(EngineError::Config(message)) => {
            assert_eq!(world.nodes().await, [], "nothing was begun");
            message
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it starts"),
    }
}

async fn refused_timing(change: impl FnOnce(&mut Timing)) -> String {
    refused(|config| change(&mut config.timing)).await
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_be_say_what_can() {
    let twice = || vec![ServedQueue::new("mail"), ServedQueue::new("mail")];
    insta::assert_snapshot!(refused(|config| config.name = String::new()).await, @"node name must not be empty; set a value");
    insta::assert_snapshot!(refused(|config| config.name = "a\nb".to_owned()).await, @r"node name `a\nb` contains the control character '\n'; remove it");
    insta::assert_snapshot!(refused(|config| config.max_running = 0).await, @"max_running must be at least 1 for a node that serves queues, got 0; raise it, or serve no queues");
    insta::assert_snapshot!(refused(|config| config.max_running = 10_000).await, @"max_running must be at most 8200, got 10000; run more nodes instead");
    insta::assert_snapshot!(refused(|config| config.timeout = s(0)).await, @"timeout must be greater than zero");
    insta::assert_snapshot!(refused(|config| config.queues = twice()).await, @"queue `mail` is listed twice; list it once");
    insta::assert_snapshot!(refused(|config| config.queues[0].name = String::new()).await, @"queue must not be empty; set a value");
    insta::assert_snapshot!(refused(|config| config.queues[0].weight = 0).await, @"queue `default`: weight must be at least 1, got 0; raise it, or do not serve the queue");
    insta::assert_snapshot!(refused(|config| config.queues[0].max_running = Some(0)).await, @"queue `default`: max_running must be at least 1, got 0; pause the queue, or do not serve it");
}

#[tokio::test(start_paused = true)]
async fn times_that_do_not_fit_together_say_which() {
    insta::assert_snapshot!(refused_timing(|timing| timing.beat = s(10)).await, @"beat must be shorter than give_up (10s), got 10s");
    insta::assert_snapshot!(refused_timing(|timing| timing.dead = s(13)).await, @"give_up + cancel_grace must be shorter than dead (13s), got 13s");
    insta::assert_snapshot!(refused_timing(|timing| timing.leader_lease = s(2)).await, @"beat + leader_margin must be shorter than leader_lease (2s), got 2s");
    for (name, zero) in [
        ("beat", Timing { beat: s(0), ..timing() }),
        ("call", Timing { call: s(0), ..timing() }),
        ("reap", Timing { reap: s(0), ..timing() }),
        ("promote", Timing { promote: s(0), ..timing() }),
        ("prune", Timing { prune: s(0), ..timing() }),
        ("roll_up", Timing { roll_up: s(0), ..timing() }),
        ("poll", Timing { poll: s(0), ..timing() }),
    ] {
        let message = refused_timing(|timing| *timing = zero).await;
        assert_eq!(message, format!("{name} must be greater than zero"));
    }
}

#[tokio::test(start_paused = true)]
async fn more_kinds_than_a_claim_can_ask_for_are_refused_at_the_start() {
    let world = World::new();
    let mut handlers = Handlers::default();
    for number in 0..=limits::KINDS_MAX {
        assert!(handlers.add(&format!("kind {number}"), done));
    }
    let store = Arc::new(world.memory.clone());
    let start = Engine::start(world.env.clone(), store, Config::default(), handlers).await;
    insta::assert_snapshot!(start.err().unwrap(), @"too many kinds with a handler: 501, maximum 500; split them across several nodes");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_at_the_start_is_an_error() {
    let world = World::new();
    let line = Arc::new(Line::default());
    line.cut();
    let passes = line.clone();
    let store =
        punctual_conformance::Faulty::new(world.memory.clone(), move |method| passes.pass(method));
    let start =
        Engine::start(world.env.clone(), Arc::new(store), Config::default(), on("mail", done))
            .await;
    insta::assert_snapshot!(start.err().unwrap(), @"the connection was lost; it is unknown whether the request was applied");
}

#[test]
fn a_kind_has_one_handler() {
    let mut handlers = on("mail", done);
    assert!(!handlers.add("mail", hangs));
    assert_eq!(handlers.kinds(), ["mail"]);
}
