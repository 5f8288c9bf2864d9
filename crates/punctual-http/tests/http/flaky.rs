//! A receiver that does everything wrong, and a ledger of what reached it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use punctual::remote::{Failed, Held};
use punctual::{JobState, Order, Punctual};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{OK, Seen, loopback, node, say};

/// What the receiver does with a request.
#[derive(Clone, Copy, Debug)]
enum Does {
    Answers(&'static str),
    /// Answers that it is busy until a second that is over.
    IsBusyUntil,
    /// Breaks the connection off, before it has answered.
    Resets,
    /// Never answers.
    Hangs,
    /// Says that all is well, and never ends its body.
    Dribbles,
    /// Takes it, completes it later, and says so twice.
    Completes,
    /// Takes it, and says later that it failed.
    Fails,
}

const ERROR: &str = "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
const MANY: &str = "HTTP/1.1 429 Many\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of it";
const FINE: Does = Does::Answers(OK);

/// What each job meets, attempt by attempt; the last one goes on.
const PLANS: [&[Does]; 10] = [
    &[FINE],
    &[Does::Answers(ERROR), FINE],
    &[Does::Resets, Does::Resets, FINE],
    &[Does::Hangs, FINE],
    &[Does::Dribbles, FINE],
    &[Does::Answers(BUSY), Does::Answers(MANY), Does::IsBusyUntil, FINE],
    &[Does::Answers(HALF), FINE],
    &[Does::Answers(""), Does::Answers("HTTP/1.1 nonsense\r\n\r\n"), FINE],
    &[Does::Completes],
    &[Does::Fails, Does::Resets, Does::Completes],
];

/// One request, from when it came to when the receiver had done with it.
#[derive(Debug)]
struct Entry {
    fence: u32,
    is_open: bool,
}

/// What reached the receiver, by job.
#[derive(Default)]
struct Ledger {
    jobs: BTreeMap<String, Vec<Entry>>,
    /// Requests that came while another of the same job was open.
    at_once: Vec<String>,
}

struct Flaky {
    punctual: Punctual,
    ledger: Mutex<Ledger>,
}

impl Flaky {
    async fn serve(self: Arc<Flaky>, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(self.clone().take(stream));
        }
    }

    async fn take(self: Arc<Flaky>, mut stream: TcpStream) {
        let Some(request) = Seen::read(&mut stream).await else { return };
        let job = request.header("idempotency-key").unwrap().to_owned();
        let fence: u32 = request.header("punctual-fence").unwrap().parse().unwrap();
        let number = {
            let mut ledger = self.ledger.lock().unwrap();
            let entries = ledger.jobs.entry(job.clone()).or_default();
            let is_another_open = entries.iter().any(|entry| entry.is_open);
            entries.push(Entry { fence, is_open: true });
            let number = entries.len();
            if is_another_open {
                ledger.at_once.push(job.clone());
            }
            number
        };
        let plan: usize = request.line.split('/').nth(1).unwrap()[..1].parse().unwrap();
        let does = PLANS[plan].get(number - 1).or(PLANS[plan].last()).unwrap();
        let held: Held = request.header("punctual-lease").unwrap().parse().unwrap();
        self.act(*does, &mut stream, held, || self.close(&job, number)).await;
    }

    fn close(&self, job: &str, number: usize) {
        let mut ledger = self.ledger.lock().unwrap();
        ledger.jobs.get_mut(job).unwrap()[number - 1].is_open = false;
    }

    /// A request is over for the receiver before its answer is out, or when the other side has gone.
    async fn act(&self, does: Does, stream: &mut TcpStream, held: Held, close: impl Fn()) {
        match does {
            Does::Answers(answer) => {
                close();
                say(stream, answer).await;
            }
            Does::IsBusyUntil => {
                close();
                let date = httpdate(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
                let busy = format!(
                    "HTTP/1.1 503 Busy\r\nretry-after: {date}\r\ncontent-length: 0\r\n\r\n"
                );
                say(stream, &busy).await;
            }
            Does::Resets => {
                close();
                // With a linger of nothing the connection ends with a reset.
                stream.set_zero_linger().unwrap();
            }
            Does::Hangs => {
                gone(stream).await;
                close();
            }
            Does::Dribbles => {
                let head = "HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n";
                stream.write_all(head.as_bytes()).await.unwrap();
                while stream.write_all(b".").await.is_ok() {
                    let pause = Duration::from_millis(20);
                    if tokio::time::timeout(pause, gone(stream)).await.is_ok() {
                        break;
                    }
                }
                close();
            }
            Does::Completes | Does::Fails => {
                say(stream, ACCEPTED).await;
                let remote = self.punctual.remote();
                // The sender has to have seen the answer before the job may be over; it looks for the
                // end from then on.
                assert!(!remote.heartbeat(&held, None).await.unwrap().cancel);
                remote.write_log(&held, Some(1), Vec::new()).await.unwrap();
                close();
                if matches!(does, Does::Fails) {
                    let failed =
                        Failed { error: "not today".into(), retry: true, retry_after: None };
                    remote.fail(&held, failed).await.unwrap();
                    return;
                }
                for _ in 0..2 {
                    let state =
                        remote.complete(&held, Some(punctual::Json::new(&7).unwrap())).await;
                    assert_eq!(state.unwrap(), JobState::Succeeded);
                }
            }
        }
    }
}

fn httpdate(at: SystemTime) -> String {
    // Only one instant is ever asked for.
    assert_eq!(at, SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    "Sun, 09 Sep 2001 01:46:40 GMT".to_owned()
}

/// Ends when the other side has closed the connection.
async fn gone(stream: &mut TcpStream) {
    let mut rest = [0; 64];
    while stream.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_job_is_delivered_and_never_twice_at_once() {
    const ROUNDS: usize = 6;
    let punctual = node(loopback()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let flaky = Arc::new(Flaky { punctual: punctual.clone(), ledger: Mutex::default() });
    tokio::spawn(flaky.clone().serve(listener));
    let mut jobs = Vec::new();
    for number in 0..ROUNDS * PLANS.len() {
        let plan = number % PLANS.len();
        let payload = json!({
            "url": format!("http://{address}/{plan}"),
            "timeout": "400ms",
            "store_response": true,
        });
        let order = Order::of_kind("http", &payload).max_attempts(6);
        jobs.push((plan, punctual.enqueue(order).await.unwrap().id));
    }
    for (plan, id) in &jobs {
        let finished = punctual.wait(*id).await.unwrap();
        assert_eq!(finished.state, JobState::Succeeded, "plan {plan}: {:?}", finished.error);
        if matches!(PLANS[*plan].last(), Some(Does::Completes)) {
            assert_eq!(finished.result::<u8>().unwrap(), 7, "as the receiver said");
        }
    }
    {
        let ledger = flaky.ledger.lock().unwrap();
        assert_eq!(ledger.at_once, Vec::<String>::new(), "two requests of one job at once");
        assert_eq!(ledger.jobs.len(), jobs.len(), "each job was delivered");
        for (plan, id) in &jobs {
            let entries = &ledger.jobs[&id.to_string()];
            assert_eq!(entries.len(), PLANS[*plan].len(), "plan {plan}: {entries:?}");
            assert!(entries.iter().all(|entry| !entry.is_open));
            assert!(entries.windows(2).all(|two| two[0].fence < two[1].fence), "{entries:?}");
        }
    }
    punctual.stop().await;
}
