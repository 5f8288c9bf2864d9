//! What handlers note: steps, which the next attempt finds, and the lines of their logs.

use punctual_core::JobId;
use punctual_core::job::{JobState, LogLevel, Outcome};
use punctual_store::*;

use crate::World;
use crate::world::{actor, failure, join_all, json};

async fn save(world: &World<'_>, job: &ClaimedJob, name: &str, result: &str) -> StepAnswer {
    let result = json(result);
    world.store().save_step(world.at(), job.id, job.lease, name, &result).await.expect("save_step")
}

async fn steps(world: &World<'_>, job: JobId) -> Vec<String> {
    let steps = world.store().steps(job).await.expect("steps");
    steps.into_iter().map(|step| format!("{} {}", step.name, step.result)).collect()
}

/// A running job.
async fn running(world: &World<'_>) -> ClaimedJob {
    let node = world.join().await;
    world.enqueue_one().await;
    world.claim_one(node).await
}

/// The next attempt need not do again what the last one did.
pub async fn a_step_is_kept_for_the_next_attempt(world: &World<'_>) {
    let job = running(world).await;
    assert_eq!(world.store().steps(job.id).await.unwrap(), []);
    world.pass(1);
    assert_eq!(save(world, &job, "charge", r#"{"id":7}"#).await, StepAnswer::Saved);
    let kept =
        [StepView { name: "charge".to_owned(), result: json(r#"{"id":7}"#), at: world.now() }];
    assert_eq!(world.store().steps(job.id).await.unwrap(), kept);
    world.settle(&job, failure()).await;
    world.pass(5);
    world.store().promote(world.at(), 10).await.unwrap();
    let again = world.claim_one(world.join().await).await;
    assert_eq!((again.id, again.attempt), (job.id, 2));
    assert_eq!(world.store().steps(job.id).await.unwrap(), kept);
    assert_eq!(save(world, &again, "charge", "8").await, StepAnswer::Already(json(r#"{"id":7}"#)));
    world.settle(&again, Outcome::Done).await;
    assert_eq!(steps(world, job.id).await, [r#"charge {"id":7}"#]);
}

/// Whether the answer to the first was lost or somebody else was faster.
pub async fn the_first_result_of_a_step_stays(world: &World<'_>) {
    let job = running(world).await;
    assert_eq!(save(world, &job, "a", "1").await, StepAnswer::Saved);
    world.pass(1);
    for other in ["1", "2"] {
        assert_eq!(save(world, &job, "a", other).await, StepAnswer::Already(json("1")));
    }
    let kept = world.store().steps(job.id).await.unwrap();
    assert_eq!((kept.len(), &kept[0].result), (1, &json("1")));
    assert!(kept[0].at < world.now());
}

/// A handler may do several things at once.
pub async fn of_many_that_save_one_step_one_is_first(world: &World<'_>) {
    let job = running(world).await;
    let texts: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let calls = texts.iter().map(|text| save(world, &job, "a", text));
    let answers = join_all(calls.collect()).await;
    let first = world.store().steps(job.id).await.unwrap().remove(0).result;
    for (text, answer) in texts.iter().zip(answers) {
        match answer {
            StepAnswer::Saved => assert_eq!(json(text), first),
            other => assert_eq!(other, StepAnswer::Already(first.clone())),
        }
    }
}

/// The work of a job is its holder's.
pub async fn a_step_needs_the_lease(world: &World<'_>) {
    let job = running(world).await;
    save(world, &job, "a", "1").await;
    let foreign = ClaimedJob { lease: world.lease_id(), ..job.clone() };
    let unknown = ClaimedJob { id: world.job_id(), ..job.clone() };
    let waiting = ClaimedJob { id: world.enqueue_one().await, ..job.clone() };
    for other in [&foreign, &unknown, &waiting] {
        assert_eq!(save(world, other, "a", "2").await, StepAnswer::Fenced);
        assert_eq!(save(world, other, "b", "2").await, StepAnswer::Fenced);
    }
    world.settle(&job, Outcome::Released).await;
    assert_eq!(save(world, &job, "b", "2").await, StepAnswer::Fenced);
    // What is kept is told to nobody else either: it is not theirs to go on with.
    assert_eq!(save(world, &job, "a", "2").await, StepAnswer::Fenced);
    assert_eq!(steps(world, job.id).await, ["a 1"]);
    assert_eq!(steps(world, waiting.id).await, [""; 0]);
}

/// And by name where they were saved at one instant.
pub async fn steps_are_told_in_the_order_they_were_saved(world: &World<'_>) {
    let job = running(world).await;
    for name in ["c", "é", "a"] {
        save(world, &job, name, "1").await;
    }
    world.pass(1);
    for name in ["B", "0"] {
        save(world, &job, name, "2").await;
    }
    assert_eq!(steps(world, job.id).await, ["a 1", "c 1", "é 1", "0 2", "B 2"]);
}

/// To the last one that may; what is kept can still be asked for.
pub async fn a_job_has_a_bounded_number_of_steps(world: &World<'_>) {
    let job = running(world).await;
    for number in 0..limits::STEPS_MAX {
        assert_eq!(save(world, &job, &number.to_string(), "1").await, StepAnswer::Saved);
    }
    let (store, at) = (world.store(), world.at());
    let more = store.save_step(at, job.id, job.lease, "more", &Json::null()).await;
    let error = more.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("already has 1000 steps, the maximum; "), "{error}");
    assert_eq!(save(world, &job, "7", "2").await, StepAnswer::Already(json("1")));
    assert_eq!(store.steps(job.id).await.unwrap().len(), limits::STEPS_MAX);
}

/// Its name, and what it came to.
pub async fn a_step_out_of_bounds_is_refused(world: &World<'_>) {
    let job = running(world).await;
    let (store, at) = (world.store(), world.at());
    for name in [String::new(), "n".repeat(limits::NAME_BYTES_MAX + 1), "a\u{7}".to_owned()] {
        let saved = store.save_step(at, job.id, job.lease, &name, &Json::null()).await;
        let error = saved.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("; "), "the error has no remedy: {error}");
    }
    let large = |bytes: usize| Json::new(&"x".repeat(bytes - 2)).unwrap();
    let beyond = large(limits::RESULT_BYTES_MAX + 1);
    let error = store.save_step(at, job.id, job.lease, "a", &beyond).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("65537 bytes, maximum 65536; "), "{error}");
    let (name, result) = ("n".repeat(limits::NAME_BYTES_MAX), large(limits::RESULT_BYTES_MAX));
    let saved = store.save_step(at, job.id, job.lease, &name, &result).await.unwrap();
    assert_eq!(saved, StepAnswer::Saved);
    assert_eq!(store.steps(job.id).await.unwrap(), [StepView { name, result, at: world.now() }]);
}

/// Whoever wants it again wants all of it; what it logged stays.
pub async fn a_requeued_job_has_forgotten_its_steps(world: &World<'_>) {
    let job = running(world).await;
    save(world, &job, "a", "1").await;
    write(world, &[line(job.id, 1, 1, "hello")]).await;
    world.settle(&job, Outcome::FailForGood("no".to_owned())).await;
    assert_eq!(steps(world, job.id).await, ["a 1"]);
    let answers = world.store().requeue(world.at(), &[job.id], &actor()).await.unwrap();
    assert_eq!(answers, [RequeueAnswer::Requeued]);
    assert_eq!(steps(world, job.id).await, [""; 0]);
    assert_eq!(log(world, job.id).await, ["1.1 info hello"]);
    let again = world.claim_one(world.join().await).await;
    assert_eq!(save(world, &again, "a", "2").await, StepAnswer::Saved);
}

fn line(job: JobId, attempt: u32, number: u32, text: &str) -> LogLine {
    LogLine { job, attempt, number, level: LogLevel::Info, text: text.to_owned() }
}

async fn write(world: &World<'_>, lines: &[LogLine]) {
    let at = world.store().write_log(world.at(), lines).await.expect("write_log");
    assert_eq!(at, world.now());
}

/// The whole log of a job, as people see it.
async fn log(world: &World<'_>, job: JobId) -> Vec<String> {
    let page = world.store().log(job, None, 500).await.expect("log");
    assert_eq!(page.next, None);
    let shown =
        |view: LogView| format!("{}.{} {} {}", view.attempt, view.number, view.level, view.text);
    page.items.into_iter().map(shown).collect()
}

/// Attempt by attempt, in whatever order the lines came, and each job's by itself.
pub async fn a_log_is_read_in_order_and_in_pages(world: &World<'_>) {
    let (job, other) = (world.enqueue_one().await, world.enqueue_one().await);
    assert_eq!(log(world, job).await, [""; 0]);
    let first_at = world.now();
    write(world, &[line(job, 2, 1, "d"), line(job, 1, 10, "c"), line(other, 1, 1, "x")]).await;
    world.pass(1);
    let lines = [(1, LogLevel::Debug, "a"), (9, LogLevel::Error, "b")];
    let lines = lines.map(|(number, level, text)| LogLine { level, ..line(job, 1, number, text) });
    write(world, &lines).await;
    write(world, &[]).await;
    assert_eq!(log(world, job).await, ["1.1 debug a", "1.9 error b", "1.10 info c", "2.1 info d"]);
    assert_eq!(log(world, other).await, ["1.1 info x"]);

    let page = world.store().log(job, None, 2).await.unwrap();
    assert_eq!(page.next, Some(LogCursor(1, 9)));
    assert_eq!(page.items[1].at, world.now());
    let page = world.store().log(job, page.next, 2).await.unwrap();
    let texts: Vec<&str> = page.items.iter().map(|view| view.text.as_str()).collect();
    assert_eq!((texts, page.next), (vec!["c", "d"], None));
    assert_eq!(page.items[0].at, first_at);
    let end = Some(LogCursor(u32::MAX, u32::MAX));
    assert_eq!(world.store().log(job, end, 2).await.unwrap().items, []);
}

/// Page by page to its beginning, and each job's by itself.
pub async fn a_log_is_read_from_its_end(world: &World<'_>) {
    let (job, other) = (world.enqueue_one().await, world.enqueue_one().await);
    let store = world.store();
    assert_eq!(store.newest_log(job, None, 5).await.unwrap().items, []);
    let last = line(job, i32::MAX as u32, limits::LOG_NUMBER_MAX, "last");
    write(world, &[line(job, 2, 1, "c"), last, line(other, 3, 1, "x")]).await;
    write(world, &[line(job, 1, 1, "a"), line(job, 1, 9, "b")]).await;
    let (mut views, mut before) = (Vec::new(), None);
    for count in [2, 2, 0] {
        let page = store.newest_log(job, before, 2).await.unwrap();
        assert_eq!(page.items.len(), count);
        assert_eq!(page.next.is_some(), views.is_empty());
        before = page.items.last().map(LogView::cursor);
        views.extend(page.items);
    }
    views.reverse();
    assert_eq!(views, store.log(job, None, 10).await.unwrap().items);
    let of_other = store.newest_log(other, None, 1).await.unwrap();
    assert_eq!((of_other.items.len(), of_other.next), (1, None));
    assert_eq!(of_other.items[0].text, "x");
}

/// Its answer was lost, so that it is written again; it is the same line.
pub async fn a_line_that_is_written_again_stays_as_it_was(world: &World<'_>) {
    let job = world.enqueue_one().await;
    write(world, &[line(job, 1, 1, "a"), line(job, 1, 1, "twin")]).await;
    let kept = world.store().log(job, None, 10).await.unwrap();
    world.pass(1);
    write(world, &[line(job, 1, 1, "other"), line(job, 1, 2, "b")]).await;
    assert_eq!(log(world, job).await, ["1.1 info a", "1.2 info b"]);
    assert_eq!(world.store().log(job, None, 10).await.unwrap().items[0], kept.items[0]);
}

/// Nothing would ever drop them.
pub async fn lines_of_a_job_that_is_not_there_are_left_out(world: &World<'_>) {
    let new = world.new_job();
    let job = world.enqueue_one().await;
    write(world, &[line(new.id, 1, 1, "lost"), line(job, 1, 1, "kept")]).await;
    assert_eq!(log(world, job).await, ["1.1 info kept"]);
    world.enqueue(new.clone()).await;
    assert_eq!(log(world, new.id).await, [""; 0]);
}

/// At a character's end, since it is for people.
pub async fn a_long_line_is_cut(world: &World<'_>) {
    let job = world.enqueue_one().await;
    let text = "é".repeat(limits::LOG_LINE_BYTES_MAX);
    write(world, &[line(job, 1, 1, &format!("x{text}")), line(job, 1, 2, "")]).await;
    let views = world.store().log(job, None, 10).await.unwrap().items;
    assert_eq!(views[0].text.len(), limits::LOG_LINE_BYTES_MAX - 1);
    assert_eq!(views[1].text, "");
}

/// Too many at once, and numbers that none has.
pub async fn lines_out_of_bounds_are_refused(world: &World<'_>) {
    let job = world.enqueue_one().await;
    let (store, at) = (world.store(), world.at());
    let many = |count: usize| -> Vec<LogLine> {
        (1..=count).map(|number| line(job, 1, number as u32, "x")).collect()
    };
    let error = store.write_log(at, &many(limits::LOG_LINES_MAX + 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("too many lines: 1001"), "{error}");
    for (attempt, number) in [(0, 1), (1, 0), (u32::MAX, 1), (1, limits::LOG_NUMBER_MAX + 1)] {
        let lines = [line(job, 1, 1, "x"), line(job, attempt, number, "x")];
        let error = store.write_log(at, &lines).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("; "), "the error has no remedy: {error}");
    }
    assert_eq!(log(world, job).await, [""; 0]);
    write(world, &many(limits::LOG_LINES_MAX)).await;
    let last = line(job, i32::MAX as u32, limits::LOG_NUMBER_MAX, "last");
    write(world, &[last]).await;
    let page = store.log(job, Some(LogCursor(1, 999)), 500).await.unwrap();
    assert_eq!(page.items.len(), 2);
}

/// What is noted of a job lives as long as the job.
pub async fn steps_and_logs_are_pruned_with_their_job(world: &World<'_>) {
    let node = world.join().await;
    for _ in 0..2 {
        world.enqueue_one().await;
    }
    let jobs = world.claim(&world.ask(node, 2)).await;
    for job in &jobs {
        save(world, job, "a", "1").await;
        write(world, &[line(job.id, 1, 1, "hello")]).await;
    }
    world.settle(&jobs[0], Outcome::Done).await;
    world.pass(15 * 86_400);
    let pruned = world.store().prune(world.at(), &Retention::default(), 10).await.unwrap();
    assert_eq!(pruned.jobs, 1);
    assert_eq!(steps(world, jobs[0].id).await, [""; 0]);
    assert_eq!(log(world, jobs[0].id).await, [""; 0]);
    assert_eq!(steps(world, jobs[1].id).await, ["a 1"]);
    assert_eq!(log(world, jobs[1].id).await, ["1.1 info hello"]);
    // One with the same id begins anew.
    world.enqueue(NewJob { id: jobs[0].id, ..world.new_job() }).await;
    assert_eq!(world.state(jobs[0].id).await, JobState::Ready);
    assert_eq!(steps(world, jobs[0].id).await, [""; 0]);
    assert_eq!(log(world, jobs[0].id).await, [""; 0]);
}
