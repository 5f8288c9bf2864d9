//! Schedules in code: cron in a time zone, a fixed interval, policies for missed and overlapping
//! slots, and the calls to inspect schedules. Run it: `cargo run -p punctual --example schedules`.

use std::sync::Arc;
use std::time::Duration;

use punctual::{Ctx, Job, Missed, Overlap, Punctual, cron, every};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

#[derive(Default, Serialize, Deserialize, Job)]
struct Digest;

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "upkeep", timeout = "1m")]
struct Clean {
    older_than_days: u32,
}

async fn digest(_: Digest, cx: Ctx) {
    let Some(fired) = cx.fired() else { return };
    println!("digest for {:?}, {:?} late", fired.slot, fired.late_by);
}

async fn clean(job: Clean, cx: Ctx<Arc<Notify>>) {
    println!("deleting data older than {} days", job.older_than_days);
    cx.state().notify_one();
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let cleaned = Arc::new(Notify::new());
    let punctual = Punctual::memory()
        .handle(digest)
        .state(cleaned.clone())
        .handle(clean)
        // The name of this program's set of schedules. If a later version no longer registers a
        // schedule of the set, that schedule is paused.
        .app("example")
        .generation(1)
        .schedule("digest", cron("0 8 * * MON-FRI").tz("Europe/Paris"), &Digest)
        .schedule(
            "clean",
            // After an outage, the latest missed slot fires if it is at most 6 hours old. While a
            // job is unfinished, the next one waits.
            every(Duration::from_secs(1))
                .missed(Missed::Latest)
                .missed_window(Duration::from_secs(6 * 3_600))
                .overlap(Overlap::QueueOne),
            &Clean { older_than_days: 30 },
        )
        .start()
        .await?;

    let admin = punctual.admin().by("example", "demonstration");
    for slot in admin.next_slots("digest", 3).await? {
        println!("next digest: {slot}");
    }
    // Run it manually, in addition to its slots.
    let manual = admin.run_now("digest").await?;
    punctual.wait(manual).await?;

    // The ledger has one row for every slot, with its outcome.
    cleaned.notified().await;
    cleaned.notified().await;
    for slot in admin.slots("clean", None, 10).await?.items {
        println!("{} {}", slot.slot, slot.outcome);
    }
    admin.pause_schedule("clean", None).await?;
    punctual.stop().await;
    Ok(())
}
