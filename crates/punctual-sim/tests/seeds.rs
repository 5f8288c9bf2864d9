//! Hundreds of clusters, and no promise broken.

use punctual_sim::{Backend, Faults, Plan, Proof, prove, silence_planned_panics};

fn check(seeds: u64, plan: Plan) -> Proof {
    silence_planned_panics();
    let proof = prove(1..1 + seeds, plan).expect("the simulator runs");
    let failed: Vec<String> = proof
        .failed
        .iter()
        .map(|verdict| {
            format!("{}\n  {}", plan.replay(verdict.seed), verdict.violations.join("\n  "))
        })
        .collect();
    assert!(failed.is_empty(), "promises were broken; see them again by\n{}", failed.join("\n"));
    assert_eq!(proof.fickle, [] as [u64; 0], "these seeds went another way the second time");
    proof
}

#[test]
fn five_hundred_clusters_keep_every_promise() {
    let plan =
        Plan { seconds: 30, backend: Backend::Memory, faults: Faults::Mixed, is_told: false };
    let proof = check(500, plan);
    assert_eq!(proof.replayed, 100);
    assert!(proof.exercised, "some fault never happened: {:?}", proof.counts);
}

#[test]
fn clusters_on_sqlite_keep_every_promise() {
    check(
        10,
        Plan { seconds: 10, backend: Backend::Sqlite, faults: Faults::Mixed, is_told: false },
    );
}

#[test]
fn jobs_of_dead_nodes_are_reclaimed_in_time_while_servers_crash_again_and_again() {
    let faults = Faults::CrashLoop;
    let proof = check(30, Plan { seconds: 60, backend: Backend::Memory, faults, is_told: false });
    assert!(proof.exercised, "{:?}", proof.counts);
}

#[test]
fn a_restarted_server_on_sqlite_reclaims_the_jobs_of_its_predecessor_at_once() {
    let faults = Faults::CrashLoop;
    let proof = check(4, Plan { seconds: 30, backend: Backend::Sqlite, faults, is_told: false });
    assert!(proof.exercised, "{:?}", proof.counts);
}

#[test]
fn slots_fire_again_after_a_clock_jumped_ahead_and_back() {
    let faults = Faults::ClockJump;
    for (backend, seeds) in [(Backend::Memory, 10), (Backend::Sqlite, 2)] {
        let proof = check(seeds, Plan { seconds: 190, backend, faults, is_told: false });
        assert!(proof.exercised, "{backend:?}: {:?}", proof.counts);
    }
}
