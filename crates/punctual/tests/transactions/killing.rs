//! A process that is killed before its commit has written nothing, and after it everything.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use punctual::transaction::Backend;
use punctual_core::JobId;
use punctual_postgres::InTransaction;
use punctual_store::{At, EnqueueAnswer, KeyLifetime, KeyScope, NewJob, UniqueKey};

use crate::drivers::{Driver, End, Scene, Step, hang};
use crate::with_each_driver;
use crate::world::{World, job};

with_each_driver! {
    a_kill_before_the_commit_leaves_no_job,
    a_kill_after_the_commit_leaves_it,
}

/// What the child is to do: its driver, where, until when, and the job's id.
const ORDER: &str = "PUNCTUAL_TEST_CHILD";

fn keyed(id: JobId) -> NewJob {
    let (scope, lifetime) = (KeyScope::Tenant, KeyLifetime::Job);
    let unique = Some(UniqueKey { key: "k".to_owned(), scope, lifetime, is_by_payload: false });
    NewJob { id, unique, payload: punctual_store::Json::null(), ..job() }
}

/// The process that is killed; without an order it is a test that passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let words: Vec<&str> = order.split(' ').collect();
    let [driver, place, moment, id] = words[..] else { panic!("{order}") };
    let driver =
        Driver::ALL.into_iter().find(|known| format!("{known:?}") == driver).expect("it works");
    let backend = match driver.is_sqlite() {
        true => Backend::Sqlite(place.into()),
        false => Backend::Postgres(InTransaction::new(place).expect("it works")),
    };
    let scene = Scene { driver, place: place.to_owned(), backend };
    let id: JobId = id.parse().expect("it works");
    let mut steps = vec![Step::Effect(id), Step::Enqueue(vec![keyed(id)])];
    if moment == "enqueued" {
        steps.push(Step::Hang);
    }
    let said = scene.transact(steps, End::Commit).await;
    assert_eq!(said.into_iter().nth(1).expect("it works").answers(), [EnqueueAnswer::Created]);
    hang("committed");
}

/// Lets a child come to this moment, and kills it.
fn kill(world: &World, moment: &str, id: JobId) {
    let Scene { driver, place, .. } = &world.scene;
    let mut child = Command::new(std::env::current_exe().expect("it works"))
        .args(["--exact", "killing::child", "--nocapture"])
        .env(ORDER, format!("{driver:?} {place} {moment} {id}"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it works");
    let mut lines = BufReader::new(child.stdout.take().expect("it works")).lines();
    let came = lines.any(|line| line.expect("it works").contains(moment));
    child.kill().expect("it works");
    assert_eq!(child.wait().expect("it works").code(), None, "a signal ended it");
    assert!(came, "the child did not come to its {moment}");
}

async fn a_kill_before_the_commit_leaves_no_job(driver: Driver) {
    let world = World::new(driver).await;
    let (lost, next) = (job().id, job().id);
    kill(&world, "enqueued", lost);
    // Whoever wants the key waits until the database has noticed, and gets it.
    let enqueued = world.store.enqueue(At::Database, &[keyed(next)]).await.expect("it works");
    assert_eq!(enqueued.answers, [EnqueueAnswer::Created]);
    assert_eq!((world.job(lost).await, world.effects(lost).await), (None, 0));
}

async fn a_kill_after_the_commit_leaves_it(driver: Driver) {
    let world = World::new(driver).await;
    let (kept, next) = (job().id, job().id);
    kill(&world, "committed", kept);
    let enqueued = world.store.enqueue(At::Database, &[keyed(next)]).await.expect("it works");
    assert_eq!(enqueued.answers, [EnqueueAnswer::Duplicate(kept)]);
    assert!(world.job(kept).await.is_some());
    assert_eq!(world.effects(kept).await, 1);
}
