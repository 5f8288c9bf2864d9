#!/usr/bin/env python3
"""A worker for punctual in Python. It uses only the standard library.

    python3 worker.py --server http://127.0.0.1:7347 --name py-1 --queue default

If the server requires a token, set PUNCTUAL_TOKEN. PUNCTUAL_SERVER is the default of --server.

Copy it, and add your own functions to HANDLERS. The protocol is described in docs/workers.md. One
thread claims jobs, one thread sends heartbeats, and each job runs in its own thread.

On SIGTERM or Ctrl-C the worker stops claiming, finishes its jobs and leaves. On a second signal it
leaves immediately: the server releases its jobs, and they use no attempt.
"""

import argparse
import json
import os
import re
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


class LeaseLost(Exception):
    """The lease is lost or the node was declared dead: stop the job and report nothing."""


class Permanent(Exception):
    """Raise it to fail the job without another attempt."""


class RetryAfter(Exception):
    """Raise it to fail the attempt and retry the job after this duration, such as `30s`."""

    def __init__(self, wait, error):
        super().__init__(error)
        self.wait = wait


class Snooze(Exception):
    """Raise it to run the job again after this duration. The attempt is not counted."""

    def __init__(self, wait):
        super().__init__(wait)
        self.wait = wait


class Api:
    """Sends requests to a server."""

    def __init__(self, server, token=None):
        self.base = server.rstrip("/") + "/api/v1"
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def post(self, path, body=None, timeout=10.0):
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.base + path, data, self.headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                text = response.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            problem = json.loads(error.read() or b"{}")
            if problem.get("code") in ("lease_lost", "node_dead"):
                raise LeaseLost(problem["code"]) from None
            if error.code in (502, 503, 504):
                raise ConnectionError(problem.get("detail", error.reason)) from None
            raise RuntimeError(f"{error.code} {problem.get('detail', error.reason)}") from None

    def post_with_retry(self, path, body, until):
        """Repeats the request until it is answered, or until the given time."""
        wait = 0.2
        while True:
            try:
                return self.post(path, body)
            except OSError as error:  # Includes all connection errors.
                if time.monotonic() + wait > until:
                    raise
                print(f"{path}: {error}; retrying in {wait:.1f}s", file=sys.stderr)
                time.sleep(wait)
                wait = min(wait * 2, 5.0)


class Job:
    """One attempt of a job."""

    def __init__(self, api, claimed):
        self.api = api
        self.kind, self.payload = claimed["kind"], claimed["payload"]
        self.id, self.lease, self.attempt = claimed["job"], claimed["lease"], claimed["attempt"]
        self.stop = threading.Event()  # Set when the job is cancelled or its lease is lost.
        self.is_lost = False
        self.reported = None
        self.lines = 0

    def progress(self, percent, note=""):
        """Reports the progress with the next heartbeat."""
        self.reported = {"percent": percent, "note": note}

    def log(self, text, level="info"):
        """Writes a line to the job log. The line number makes the request repeatable."""
        self.lines += 1
        line = json.dumps({"level": level, "text": text}).encode()
        self.api.post(f"/leases/{self.lease}/logs?first={self.lines}", line)

    def heartbeat(self):
        """Sends a heartbeat. Returns whether the worker should drain."""
        progress, self.reported = self.reported, None
        try:
            response = self.api.post(
                f"/leases/{self.lease}/heartbeat", {"progress": progress} if progress else {}
            )
        except LeaseLost:
            self.is_lost = True
            self.stop.set()
            return False
        if response["cancel"]:
            self.stop.set()
        return response["drain"]


class Worker:
    def __init__(self, api, name, queues, handlers, max_jobs):
        self.api, self.name, self.queues = api, name, queues
        self.handlers, self.max_jobs = handlers, max_jobs
        self.node = str(uuid.uuid4())
        self.jobs = {}
        self.lock = threading.Lock()
        self.permits = threading.Semaphore(max_jobs)
        self.draining = threading.Event()
        self.stopped = threading.Event()
        self.heartbeat_interval = 5.0

    def run(self):
        threading.Thread(target=self.send_heartbeats, daemon=True).start()
        while not self.draining.is_set():
            # Claim only jobs that can start now: other workers cannot run a job that waits here.
            if not self.permits.acquire(timeout=0.5):
                continue
            self.permits.release()
            self.claim_once()
        print("draining: finishing the current jobs", file=sys.stderr)
        while self.held() and not self.stopped.is_set():
            time.sleep(0.05)
        self.stopped.set()
        try:
            # The server releases unfinished jobs.
            self.api.post(f"/nodes/{self.node}/leave")
        except (OSError, RuntimeError, LeaseLost) as error:
            print(f"leave failed: {error}", file=sys.stderr)

    def held(self):
        with self.lock:
            return list(self.jobs.values())

    def claim_once(self):
        held = self.held()
        request = {
            "node": self.node,
            "name": self.name,
            "version": VERSION,
            "queues": self.queues,
            "kinds": sorted(self.handlers),
            "max": self.max_jobs - len(held),
            "wait": "25s",
            # All leases that this worker holds. The server releases all others of this node.
            "leases": [job.lease for job in held],
        }
        try:
            claimed = self.api.post("/claims", request, timeout=40.0)
        except LeaseLost:
            # The node was declared dead and its jobs were reclaimed. Continue as a new node.
            for job in held:
                job.is_lost = True
                job.stop.set()
            self.node = str(uuid.uuid4())
            return
        except OSError as error:
            print(f"claim failed: {error}", file=sys.stderr)
            self.draining.wait(1.0)
            return
        self.heartbeat_interval = seconds(claimed["heartbeat_interval"])
        for job in held:
            if job.id in claimed["cancel"]:
                job.stop.set()
        for lease in claimed["leases"]:
            job = Job(self.api, lease)
            self.permits.acquire()
            with self.lock:
                self.jobs[job.lease] = job
            threading.Thread(target=self.work, args=(job,), daemon=True).start()
        if claimed["drain"]:
            self.draining.set()

    def send_heartbeats(self):
        while not self.stopped.wait(self.heartbeat_interval / 2):
            for job in self.held():
                try:
                    if job.heartbeat():
                        self.draining.set()
                except (OSError, RuntimeError) as error:
                    print(f"heartbeat failed: {error}", file=sys.stderr)

    def work(self, job):
        try:
            path, body = self.run_handler(job)
            if not job.is_lost:
                # A little longer than the lease can last. Repeated requests are safe.
                until = time.monotonic() + 20.0
                self.api.post_with_retry(f"/leases/{job.lease}/{path}", body, until)
        except LeaseLost:
            print(f"{job.id}: lease lost", file=sys.stderr)
        except (OSError, RuntimeError) as error:
            print(f"{job.id}: settling failed: {error}", file=sys.stderr)
        finally:
            with self.lock:
                self.jobs.pop(job.lease, None)
            self.permits.release()

    def run_handler(self, job):
        """Calls the handler. Returns the path and the body of the request that settles the job."""
        try:
            result = self.handlers[job.kind](job.payload, job)
            return "complete", {"result": result}
        except Snooze as error:
            return "snooze", {"for": error.wait}
        except RetryAfter as error:
            return "fail", {"error": str(error), "retry_after": error.wait}
        except Permanent as error:
            return "fail", {"error": str(error), "retry": False}
        except LeaseLost:
            raise
        except Exception as error:  # Every other error fails the attempt.
            traceback.print_exc()
            return "fail", {"error": f"{type(error).__name__}: {error}"}


def seconds(duration):
    """Converts a duration such as `5s`, `1m30s` or `500ms` to seconds."""
    units = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
    parts = re.findall(r"([0-9.]+)(ms|us|µs|[dhms])", duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(f"invalid duration: {duration}")
    return sum(float(number) * units[unit] for number, unit in parts)


def greet(payload, job):
    job.log(f"greeting {payload['name']}")
    return {"greeting": f"hello, {payload['name']}"}


def nap(payload, job):
    parts = 20
    for part in range(parts):
        job.progress(100 * part // parts, f"slept {part} of {parts} parts")
        if job.stop.wait(payload["seconds"] / parts):
            raise RuntimeError("stopped")


def flaky(payload, job):
    if job.attempt < payload["works_at"]:
        raise RetryAfter("0s", f"attempt {job.attempt} fails")
    return {"attempt": job.attempt}


HANDLERS = {"greet": greet, "nap": nap, "flaky": flaky}


def main():
    parser = argparse.ArgumentParser(description="A worker for punctual.")
    server = os.environ.get("PUNCTUAL_SERVER", "http://127.0.0.1:7347")
    parser.add_argument("--server", default=server, help="[env: PUNCTUAL_SERVER]")
    parser.add_argument("--name", default=socket.gethostname())
    parser.add_argument("--queue", action="append", help="may be repeated [default: default]")
    parser.add_argument("--max", type=int, default=4, help="maximum concurrent jobs [default: 4]")
    args = parser.parse_args()
    api = Api(args.server, os.environ.get("PUNCTUAL_TOKEN"))
    worker = Worker(api, args.name, args.queue or ["default"], HANDLERS, args.max)

    def stop(*_):
        if worker.draining.is_set():
            worker.stopped.set()
        worker.draining.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    worker.run()


if __name__ == "__main__":
    main()
