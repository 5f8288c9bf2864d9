// usage: node harness.mjs <peer> <measure> <jobs> <concurrency> [variant]
// The same measures as in ../rust/harness.rs; ../README.md says what they are.
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

const [peer, measure, jobsText, concurrencyText, variant] = process.argv.slice(2);
const jobs = Number(jobsText), concurrency = Number(concurrencyText);
const connectionString = process.env.DATABASE_URL;
const MANY = 1000, ENQUEUE_MS = 2000, PICKUPS = 205, WARM = 5, PICKUPS_MAX_MS = 15000, DRAIN_MAX_MS = 120000;

const now = () => Number(process.hrtime.bigint()) / 1e6;
const payload = (id) => ({ id, padding: "x".repeat(80) });
const payloads = (first, end) => Array.from({ length: end - first }, (_, i) => payload(first + i));
const tell = (said) => console.log(JSON.stringify(said));

let done = 0, lastStart = 0, wake = () => {};
function handled() {
  lastStart = now();
  done += 1;
  wake();
}

async function graphile() {
  const { Logger, makeWorkerUtils, run } = await import("graphile-worker");
  const pool = new pg.Pool({ connectionString, max: 12 });
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  const logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  await utils.migrate();
  // As its page on performance has it.
  const fastest = { maxPoolSize: concurrency + 1, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
  const usual = { maxPoolSize: Math.max(10, concurrency + 2) };
  const worker = { connectionString, concurrentJobs: concurrency, logger, ...(variant === "fastest" ? fastest : usual) };
  return {
    enqueue: (id) => utils.addJob("noop", payload(id)),
    enqueueMany: (first, end) => utils.addJobs(payloads(first, end).map((payload) => ({ identifier: "noop", payload }))),
    work: () => run({ preset: { worker }, logger, noHandleSignals: true, parsedCronItems: [], taskList: { noop: async () => handled() } }),
    remaining: async () => Number((await pool.query("SELECT count(*) n FROM graphile_worker._private_jobs")).rows[0].n),
  };
}

async function pgBoss() {
  const { PgBoss } = await import("pg-boss");
  const pool = new pg.Pool({ connectionString, max: 2 });
  const notify = variant === "notify" ? { useListenNotify: true } : {};
  const boss = new PgBoss({ connectionString, ...notify });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  await boss.createQueue("noop", variant === "notify" ? { notify: true } : {});
  // Batches of 500, fetched at once while they are full; else the shortest period it allows.
  const often = { pollingIntervalSeconds: 0.5 };
  const drain = { ...often, batchSize: 500, burstWhenBatchFull: true, localConcurrency: concurrency };
  const options = { drain, latency: often }[measure] ?? {};
  return {
    enqueue: (id) => boss.send("noop", payload(id)),
    enqueueMany: (first, end) => boss.insert("noop", payloads(first, end).map((data) => ({ data }))),
    work: () => boss.work("noop", options, async (batch) => batch.forEach(handled)),
    remaining: async () => Number((await pool.query("SELECT count(*) n FROM pgboss.job WHERE name = 'noop' AND state <> 'completed'")).rows[0].n),
  };
}

async function writeMany(queue) {
  for (let first = 0; first < jobs; first += MANY) await queue.enqueueMany(first, Math.min(jobs, first + MANY));
}

async function enqueue(queue, producers) {
  for (let id = 0; id < 20; id++) await queue.enqueue(id);
  const start = now();
  let written = 0;
  const produce = async () => {
    for (; now() - start < ENQUEUE_MS; written++) await queue.enqueue(written);
  };
  await Promise.all(Array.from({ length: producers }, produce));
  tell({ value: (written * 1000) / (now() - start) });
}

const measures = {
  enqueue1: (queue) => enqueue(queue, 1),
  enqueue8: (queue) => enqueue(queue, 8),
  bulk: async (queue) => {
    const start = now();
    await writeMany(queue);
    const value = (jobs * 1000) / (now() - start);
    const remaining = await queue.remaining();
    if (remaining !== jobs) throw new Error(`${remaining} of ${jobs} jobs are in the database`);
    tell({ value });
  },
  drain: async (queue) => {
    await writeMany(queue);
    const start = now();
    await queue.work();
    while (done < jobs && now() - start < DRAIN_MAX_MS) await sleep(1);
    for (;;) {
      // What counts is when the database was asked, not when it answered.
      const took = now() - start, remaining = await queue.remaining();
      if (remaining === 0 && done >= jobs) return tell({ value: (jobs * 1000) / took, again: done - jobs });
      if (now() - start > DRAIN_MAX_MS) throw new Error(`${done} handled and ${remaining} left of ${jobs} jobs`);
      await sleep(10);
    }
  },
  latency: async (queue) => {
    await queue.work();
    await sleep(2000);
    const began = now(), seen = [];
    for (let id = 0; id < PICKUPS && now() - began < PICKUPS_MAX_MS; id++) {
      const picked = new Promise((resolve) => (wake = resolve)), start = now();
      await queue.enqueue(id);
      await picked;
      if (id >= WARM) seen.push(lastStart - start);
      await sleep(5 + Math.random() * 20);
    }
    seen.sort((a, b) => a - b);
    const at = (share) => seen[Math.floor(seen.length * share)];
    tell({ value: at(0.5), p99: at(0.99), samples: seen.length });
  },
  idle: async (queue) => {
    await queue.work();
    console.log("READY");
    await sleep(600000);
  },
};

await measures[measure](await { graphile, "pg-boss": pgBoss }[peer]());
process.exit(0);
