"""usage: harness.py <peer> <measure> <jobs> <concurrency>

The same measures as in ../rust/harness.rs; ../README.md says what they are.
"""

import asyncio
import json
import os
import random
import sys
import time

PEER, MEASURE, JOBS, CONCURRENCY = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
URL = os.environ["DATABASE_URL"]
MANY, ENQUEUE_S, PICKUPS, WARM, PICKUPS_MAX_S, DRAIN_MAX_S = 1000, 2, 205, 5, 15, 120
PADDING = "x" * 80
now = time.perf_counter


class Seen:
    done = 0
    last_start = 0.0
    picked = asyncio.Event()


def handled():
    Seen.last_start = now()
    Seen.done += 1
    Seen.picked.set()


def tell(**said):
    print(json.dumps(said), flush=True)


class Procrastinate:
    async def open(self):
        import procrastinate

        connector = procrastinate.PsycopgConnector(conninfo=URL, min_size=2, max_size=CONCURRENCY + 10)
        self.app = procrastinate.App(connector=connector)

        @self.app.task(name="noop", queue="default")
        async def noop(id, padding):
            handled()

        self.noop = noop
        await self.app.open_async()
        await self.app.schema_manager.apply_schema_async()

    async def enqueue(self, id):
        await self.noop.defer_async(id=id, padding=PADDING)

    async def enqueue_many(self, ids):
        await self.noop.batch_defer_async(*[dict(id=id, padding=PADDING) for id in ids])

    async def work(self):
        await self.app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)

    async def remaining(self):
        async with self.app.connector.pool.connection() as connection:
            count = "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'"
            return (await (await connection.execute(count)).fetchone())[0]


class PgQueuer:
    async def open(self):
        import asyncpg
        from pgqueuer import PgQueuer
        from pgqueuer.db import AsyncpgPoolDriver
        from pgqueuer.queries import Queries

        self.pool = await asyncpg.create_pool(URL, min_size=2, max_size=10)
        self.queries = Queries(AsyncpgPoolDriver(self.pool))
        await self.queries.install()
        self.worker = PgQueuer.from_asyncpg_pool(await asyncpg.create_pool(URL, min_size=2, max_size=10))

        @self.worker.entrypoint("noop")
        async def noop(job):
            handled()

    def body(self, id):
        return json.dumps(dict(id=id, padding=PADDING)).encode()

    async def enqueue(self, id):
        await self.queries.enqueue("noop", self.body(id))

    async def enqueue_many(self, ids):
        await self.queries.enqueue(["noop"] * len(ids), [self.body(id) for id in ids], [0] * len(ids))

    async def work(self):
        await self.worker.run(batch_size=100 if MEASURE == "drain" else 10)

    async def remaining(self):
        return await self.pool.fetchval("SELECT count(*) FROM pgqueuer")


async def write_many(queue):
    for first in range(0, JOBS, MANY):
        await queue.enqueue_many(range(first, min(JOBS, first + MANY)))


async def enqueue(queue, producers):
    for id in range(20):
        await queue.enqueue(id)
    start, written = now(), 0

    async def produce():
        nonlocal written
        while now() - start < ENQUEUE_S:
            await queue.enqueue(written)
            written += 1

    await asyncio.gather(*[produce() for _ in range(producers)])
    tell(value=written / (now() - start))


async def bulk(queue):
    start = now()
    await write_many(queue)
    value = JOBS / (now() - start)
    remaining = await queue.remaining()
    if remaining != JOBS:
        sys.exit(f"{remaining} of {JOBS} jobs are in the database")
    tell(value=value)


async def drain(queue):
    await write_many(queue)
    start = now()
    worker = asyncio.create_task(queue.work())
    while Seen.done < JOBS and now() - start < DRAIN_MAX_S and not worker.done():
        await asyncio.sleep(0.001)
    while True:
        # What counts is when the database was asked, not when it answered.
        took, remaining = now() - start, await queue.remaining()
        if remaining == 0 and Seen.done >= JOBS:
            return tell(value=JOBS / took, again=Seen.done - JOBS)
        if worker.done() or now() - start > DRAIN_MAX_S:
            sys.exit(f"{Seen.done} handled and {remaining} left of {JOBS} jobs: {worker}")
        await asyncio.sleep(0.01)


async def latency(queue):
    worker = asyncio.create_task(queue.work())
    await asyncio.sleep(2)
    began, seen = now(), []
    for id in range(PICKUPS):
        if now() - began > PICKUPS_MAX_S or worker.done():
            break
        Seen.picked.clear()
        start = now()
        await queue.enqueue(id)
        await Seen.picked.wait()
        if id >= WARM:
            seen.append((Seen.last_start - start) * 1000)
        await asyncio.sleep(0.005 + random.random() * 0.02)
    seen.sort()
    tell(value=seen[len(seen) // 2], p99=seen[int(len(seen) * 0.99)], samples=len(seen))


async def idle(queue):
    print("READY", flush=True)
    await queue.work()


async def main():
    queue = {"procrastinate": Procrastinate, "pgqueuer": PgQueuer}[PEER]()
    await queue.open()
    match MEASURE:
        case "enqueue1":
            await enqueue(queue, 1)
        case "enqueue8":
            await enqueue(queue, 8)
        case _:
            await {"bulk": bulk, "drain": drain, "latency": latency, "idle": idle}[MEASURE](queue)
    # Neither of them is asked to stop: what they would still do is not measured.
    sys.stdout.flush()
    os._exit(0)


asyncio.run(main())
