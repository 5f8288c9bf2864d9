#!/usr/bin/env python3
"""A worker for punctual in Python, with nothing but the standard library.

    python3 worker.py --server http://127.0.0.1:7347 --name py-1 --queue default

Copy it, and put your own functions into HANDLERS. What it does, and why, is in docs/workers.md:
one thread claims, one says every few seconds that the worker is alive, and each job has its own.
SIGTERM or Ctrl-C: it claims no more, finishes what it has, and leaves. A second one: it gives back
what it has, which costs no job an attempt, and leaves at once.
"""

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
import uuid

VERSION = "example-1"


class Gone(Exception):
    """The lease, or the whole node, is another's by now: stop, and report nothing."""


class Permanent(Exception):
    """Raise it if no further attempt can mend it."""


class RetryAfter(Exception):
    """Raise it to be tried again after this long, such as `30s`."""

    def __init__(self, wait, why):
        super().__init__(why)
        self.wait = wait


class Snooze(Exception):
    """Raise it to be called again after this long; it costs no attempt."""

    def __init__(self, wait):
        super().__init__(wait)
        self.wait = wait


class Api:
    """Calls a server; a call that cannot be answered now is made again."""

    def __init__(self, server, token=None):
        self.base = server.rstrip("/") + "/api/v1"
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def post(self, path, body=None, patience=10.0):
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.base + path, data, self.headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=patience) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            problem = json.loads(error.read() or b"{}")
            if problem.get("code") in ("lease_lost", "node_dead"):
                raise Gone(problem["code"]) from None
            if error.code in (502, 503, 504):
                raise ConnectionError(problem.get("detail", error.reason)) from None
            raise RuntimeError(f"{error.code} {problem.get('detail', error.reason)}") from None

    def insist(self, path, body, until):
        """For what must not be lost: repeats the call until it is answered, or it is too late."""
        wait = 0.2
        while True:
            try:
                return self.post(path, body)
            except OSError as error:  # Every trouble of a connection is one.
                if time.monotonic() + wait > until:
                    raise
                print(f"{path}: {error}; again in {wait:.1f}s", file=sys.stderr)
                time.sleep(wait)
                wait = min(wait * 2, 5.0)


class Job:
    """One attempt at a job."""

    def __init__(self, api, told):
        self.api = api
        self.told = told
        self.id, self.lease, self.attempt = told["job"], told["lease"], told["attempt"]
        self.stop = threading.Event()  # Set when the job was called off, or is another's.
        self.is_gone = False
        self.said = None
        self.lines = 0

    def progress(self, percent, note=""):
        """Tells how far it is, with the next heartbeat."""
        self.said = {"percent": percent, "note": note}

    def log(self, text, level="info"):
        """Writes a line to the job's log. Its number makes the call repeatable."""
        self.lines += 1
        line = json.dumps({"level": level, "text": text}).encode()
        self.api.post(f"/leases/{self.lease}/logs?first={self.lines}", line)

    def beat(self):
        said, self.said = self.said, None
        try:
            answer = self.api.post(
                f"/leases/{self.lease}/heartbeat", {"progress": said} if said else {}
            )
        except Gone:
            self.is_gone = True
            self.stop.set()
            return False
        if answer["cancel"]:
            self.stop.set()
        return answer["drain"]


class Worker:
    def __init__(self, api, name, queues, handlers, most):
        self.api, self.name, self.queues = api, name, queues
        self.handlers, self.most = handlers, most
        self.node = str(uuid.uuid4())
        self.jobs = {}
        self.lock = threading.Lock()
        self.room = threading.Semaphore(most)
        self.draining = threading.Event()
        self.over = threading.Event()
        self.every = 5.0

    def run(self):
        threading.Thread(target=self.keep_alive, daemon=True).start()
        while not self.draining.is_set():
            # Claim no more than can start at once: what waits here nobody else can take.
            if not self.room.acquire(timeout=0.5):
                continue
            self.room.release()
            self.claim_once()
        print("claims no more, and finishes what it has", file=sys.stderr)
        while self.held() and not self.over.is_set():
            time.sleep(0.05)
        self.over.set()
        try:
            # Whatever is not finished is given back.
            self.api.post(f"/nodes/{self.node}/leave")
        except (OSError, RuntimeError, Gone) as error:
            print(f"could not leave: {error}", file=sys.stderr)

    def held(self):
        with self.lock:
            return list(self.jobs.values())

    def claim_once(self):
        held = self.held()
        ask = {
            "node": self.node,
            "name": self.name,
            "version": VERSION,
            "queues": self.queues,
            "kinds": sorted(self.handlers),
            "max": self.most - len(held),
            "wait": "25s",
            # All that has reached us: what the server holds for us beyond is given back.
            "leases": [job.lease for job in held],
        }
        try:
            claimed = self.api.post("/claims", ask, patience=40.0)
        except Gone:
            # Silent for too long: all our jobs are another's. We come back as a new node.
            for job in held:
                job.is_gone = True
                job.stop.set()
            self.node = str(uuid.uuid4())
            return
        except OSError as error:
            print(f"cannot claim: {error}", file=sys.stderr)
            self.draining.wait(1.0)
            return
        self.every = seconds(claimed["heartbeat_every"])
        for job in held:
            if job.id in claimed["cancel"]:
                job.stop.set()
        for told in claimed["leases"]:
            job = Job(self.api, told)
            self.room.acquire()
            with self.lock:
                self.jobs[job.lease] = job
            threading.Thread(target=self.work, args=(job,), daemon=True).start()
        if claimed["drain"]:
            self.draining.set()

    def keep_alive(self):
        while not self.over.wait(self.every / 2):
            for job in self.held():
                try:
                    if job.beat():
                        self.draining.set()
                except (OSError, RuntimeError) as error:
                    print(f"cannot say that we live: {error}", file=sys.stderr)

    def work(self, job):
        try:
            path, body = self.attempt(job)
            if not job.is_gone:
                # As long as the lease could hold, and a little more: a repeat is no mistake.
                self.api.insist(f"/leases/{job.lease}/{path}", body, time.monotonic() + 20.0)
        except Gone:
            print(f"{job.id}: another has it by now", file=sys.stderr)
        except (OSError, RuntimeError) as error:
            print(f"{job.id}: could not be settled: {error}", file=sys.stderr)
        finally:
            with self.lock:
                self.jobs.pop(job.lease, None)
            self.room.release()

    def attempt(self, job):
        """Calls the handler. The answer is what to report, and how."""
        try:
            result = self.handlers[job.told["kind"]](job.told["payload"], job)
            return "complete", {"result": result}
        except Snooze as error:
            return "snooze", {"for": error.wait}
        except RetryAfter as error:
            return "fail", {"error": str(error), "retry_after": error.wait}
        except Permanent as error:
            return "fail", {"error": str(error), "retry": False}
        except Gone:
            raise
        except Exception as error:  # Whatever it is, the job has failed with it.
            traceback.print_exc()
            return "fail", {"error": f"{type(error).__name__}: {error}"}


def seconds(length):
    """The length of a time such as `5s` or `1m30s`."""
    units, total, number = {"h": 3600, "m": 60, "s": 1}, 0.0, ""
    for letter in length:
        if letter in units:
            total, number = total + float(number) * units[letter], ""
        else:
            number += letter
    return total


def greet(payload, job):
    job.log(f"greets {payload['name']}")
    return {"greeting": f"hello, {payload['name']}"}


def nap(payload, job):
    parts = 20
    for part in range(parts):
        job.progress(100 * part // parts, f"slept {part} of {parts} parts")
        if job.stop.wait(payload["seconds"] / parts):
            raise RuntimeError("woken up")


def flaky(payload, job):
    if job.attempt < payload["works_at"]:
        raise RetryAfter("0s", f"attempt {job.attempt} fails")
    return {"attempt": job.attempt}


HANDLERS = {"greet": greet, "nap": nap, "flaky": flaky}


def main():
    words = argparse.ArgumentParser(description="A worker for punctual.")
    words.add_argument("--server", default="http://127.0.0.1:7347")
    words.add_argument("--name", default=socket.gethostname())
    words.add_argument("--queue", action="append", help="may be given several times")
    words.add_argument("--max", type=int, default=4, help="jobs at once")
    args = words.parse_args()
    api = Api(args.server, os.environ.get("PUNCTUAL_TOKEN"))
    worker = Worker(api, args.name, args.queue or ["default"], HANDLERS, args.max)

    def stop(*_):
        if worker.draining.is_set():
            worker.over.set()
        worker.draining.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    worker.run()


if __name__ == "__main__":
    main()
