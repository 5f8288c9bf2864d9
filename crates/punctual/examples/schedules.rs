//! Schedules from code: cron in a zone, an interval, policies for what was missed and for what
//! overlaps; and how to look at them. Run it: `cargo run -p punctual --example schedules`.

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
    println!("what is older than {} days goes", job.older_than_days);
    cx.state().notify_one();
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let cleaned = Arc::new(Notify::new());
    let punctual = Punctual::memory()
        .handle(digest)
        .state(cleaned.clone())
        .handle(clean)
        // One program, one set: what a later version no longer registers is paused.
        .app("example")
        .generation(1)
        .schedule("digest", cron("0 8 * * MON-FRI").tz("Europe/Paris"), &Digest)
        .schedule(
            "clean",
            // After an outage the newest missed slot is caught up, if it is not older than 6 hours;
            // while one runs, the next one waits.
            every(Duration::from_secs(1))
                .missed(Missed::Latest)
                .missed_window(Duration::from_secs(6 * 3_600))
                .overlap(Overlap::QueueOne),
            &Clean { older_than_days: 30 },
        )
        .start()
        .await?;

    let admin = punctual.admin().by("example", "to show it");
    for slot in admin.next_slots("digest", 3).await? {
        println!("the next digest is at {slot}");
    }
    // A run by hand, beside the slots.
    let by_hand = admin.run_now("digest").await?;
    punctual.wait(by_hand).await?;

    // The ledger has one row for every slot, whatever became of it.
    cleaned.notified().await;
    cleaned.notified().await;
    for slot in admin.slots("clean", None, 10).await?.items {
        println!("{} {}", slot.slot, slot.outcome);
    }
    admin.pause_schedule("clean", None).await?;
    punctual.stop().await;
    Ok(())
}
