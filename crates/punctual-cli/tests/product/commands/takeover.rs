//! A server that crashes again and again reclaims the jobs of its earlier lives.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Place, ended, enqueue, until};
use crate::process::Serving;

const PATIENCE: Duration = Duration::from_secs(20);

/// How often the server is killed.
const KILLS: usize = 3;

fn nodes(server: &Serving) -> Vec<Value> {
    server.ask(&["node", "list"])["items"].as_array().unwrap().clone()
}

/// The id of the server's node, once it has joined.
fn live_node(server: &Serving) -> Value {
    let is_live = |node: &Value| node["dead_at"].is_null();
    until("the node has joined", PATIENCE, || nodes(server).iter().any(is_live));
    let live: Vec<Value> = nodes(server).into_iter().filter(is_live).collect();
    assert_eq!(live.len(), 1, "the lock of the file proves that earlier nodes are dead: {live:?}");
    live[0]["id"].clone()
}

#[test]
fn a_server_that_is_killed_again_and_again_reclaims_the_job_of_its_first_life() {
    let place = Place::new("[command]\nallow_api_argv = true\n");
    let mut server = place.serve();
    let job = enqueue(&server, &json!({ "argv": ["/bin/sleep", "3600"] }), &[]);
    let is_running = || server.ask(&["job", "show", &job])["state"] == "running";
    until("the job runs", PATIENCE, is_running);
    for _ in 0..KILLS {
        let killed = live_node(&server);
        server.kill();
        server = place.serve();
        assert_ne!(live_node(&server), killed);
    }
    let job = ended(&server, &job);
    assert_eq!(job["state"], "failed", "{job}");
    assert_eq!(job["attempts"][0]["outcome"], "abandoned", "{job}");
}
