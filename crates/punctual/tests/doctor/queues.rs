//! What waits and cannot run.

use punctual::doctor::{Severity, Thresholds};
use punctual_store::{NewJob, QueueChange};

use crate::common::*;
use crate::{codes, look, well};

#[tokio::test]
async fn jobs_that_nobody_can_run_are_told() {
    let diagnosis = on_both(async |world| {
        let (node, fences) = well(world).await;
        for (queue, kind) in [
            ("default", "mail"),
            ("default", "mails"),
            ("default", "mails"),
            ("defualt", "mail"),
            ("defualt", "report"),
        ] {
            let (queue, kind) = (queue.to_owned(), kind.to_owned());
            world.enqueue(NewJob { queue, kind, ..world.new_job() }).await;
        }
        leap(world, 30, node, &fences).await;
        look(world, &Thresholds::default()).await
    })
    .await;
    assert!(!diagnosis.is_healthy());
    assert_eq!(codes(&diagnosis), ["no_node_for_kind", "no_node_for_queue"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: 2 jobs cannot run, the oldest ready for 30s (since 2027-01-01T00:00:00Z): no live node handles kind `mails` in queue `default`: `web-1` handles `mail`; did you mean `mail`?
        → start a node that serves queue `default` and handles kind `mails`
    problem: 2 jobs cannot run, the oldest ready for 30s (since 2027-01-01T00:00:00Z): no live node serves queue `defualt`: `web-1` serves `default`; did you mean `default`?
        → start a node that serves it, or restart one with `--queue default,defualt`
    2 problems, 0 warnings; checked: a database, 1 node, 4 queue/kind pairs and 0 schedules
    ");
}

#[tokio::test]
async fn a_queue_that_is_paused_for_long_may_have_been_forgotten() {
    let diagnosis = on_both(async |world| {
        let (node, fences) = well(world).await;
        change_queue(world, "mail", QueueChange::Pause { until: None }).await;
        let until = Some(world.now() + seconds(30 * 86_400));
        change_queue(world, "night", QueueChange::Pause { until }).await;
        leap(world, 6 * 86_400, node, &fences).await;
        assert_eq!(codes(&look(world, &Thresholds::default()).await), [""; 0]);
        leap(world, 86_400, node, &fences).await;
        look(world, &Thresholds::default()).await
    })
    .await;
    assert!(diagnosis.is_healthy(), "a warning");
    assert_eq!(codes(&diagnosis), ["paused_long"]);
    insta::assert_snapshot!(diagnosis, @"
    warning: queue `mail` is paused by ana for 7d (since 2027-01-01T00:00:00Z): index rebuild; the pause has no end time
        → resume it: `punctual queue resume mail`; or set an end: `punctual queue pause mail --until TIME`
    0 problems, 1 warning; checked: a database, 1 node, 0 queue/kind pairs and 0 schedules
    ");
}

#[tokio::test]
async fn dead_letters_are_counted() {
    let diagnosis = on_both(async |world| {
        let (node, _) = well(world).await;
        for _ in 0..3 {
            fail_one(world, node).await;
        }
        let few = Thresholds { dead_letters: 4, ..Thresholds::default() };
        assert_eq!(codes(&look(world, &few).await), [""; 0]);
        look(world, &Thresholds::default()).await
    })
    .await;
    assert_eq!(diagnosis.findings[0].severity, Severity::Warning);
    insta::assert_snapshot!(diagnosis, @"
    warning: 3 failed jobs: 3 of kind `mail` in queue `default`
        → list them: `punctual job list --state failed`; after fixing the cause, retry all: `punctual job retry --all-matching state:failed`
    0 problems, 1 warning; checked: a database, 1 node, 1 queue/kind pair and 0 schedules
    ");
}

#[tokio::test]
async fn it_stops_at_a_bound_and_says_so() {
    let diagnosis = on_both(async |world| {
        well(world).await;
        for kind in ["mail", "mails", "report"] {
            world.enqueue(NewJob { kind: kind.to_owned(), ..world.new_job() }).await;
        }
        for name in ["a", "b", "c"] {
            schedule(world, name, &every_minute()).await;
        }
        let exact = Thresholds { kinds: 3, schedules: 3, histories: 3, ..Thresholds::default() };
        assert_eq!(look(world, &exact).await.examined.left_out, [""; 0]);
        let few = Thresholds { kinds: 1, schedules: 2, histories: 1, ..Thresholds::default() };
        look(world, &few).await
    })
    .await;
    assert_eq!(diagnosis.examined.left_out.len(), 3);
    insta::assert_snapshot!(diagnosis, @"no problems found; checked: a database, 1 node, 1 queue/kind pair and 2 schedules; not checked: queue/kind pairs after the first 1, schedules after the first 2 and slots and jobs of schedules after the first 1");
}
