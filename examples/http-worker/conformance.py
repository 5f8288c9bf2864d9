#!/usr/bin/env python3
"""Tests whether a server follows the protocol in docs/workers.md, also with worker.py.

    python3 conformance.py --server http://127.0.0.1:7347

The server needs the role `scheduler` and a database without other clients. The test takes about
half a minute, mostly to wait until a worker is declared dead. With several servers of one database,
the requests go to them in turn, because a server must not depend on its own memory. Exit code 0:
all checks passed.
"""

import argparse
import atexit
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

SERVERS = itertools.cycle([])
QUEUE = f"conformance-{uuid.uuid4()}"


def call(method, path, body=None, timeout=60.0):
    """Sends a request. Returns the status and the body of the response."""
    headers = {"Content-Type": "application/json"}
    if os.environ.get("PUNCTUAL_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["PUNCTUAL_TOKEN"]
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    request = urllib.request.Request(next(SERVERS) + "/api/v1" + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            text = response.read()
            return response.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def ok(method, path, body=None):
    status, response = call(method, path, body)
    assert status in (200, 201, 204), f"{method} {path}: {status} {response}"
    return response


def lost(path, body=None):
    status, response = call("POST", path, body or {})
    assert (status, response["code"]) == (409, "lease_lost"), f"{path}: {status} {response}"


# Some jobs are enqueued before a worker serves their kind.
JOBS = "/jobs?allow_unknown_kind=true"


def enqueue(kind, payload=None, **more):
    ask = {"kind": kind, "payload": payload, "queue": QUEUE, **more}
    return ok("POST", JOBS, ask)["id"]


def job(id):
    return ok("GET", f"/jobs/{id}")


def until(what, condition, timeout=30.0):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"timed out: {what}")


class Node:
    """A worker that sends single requests."""

    def __init__(self, kinds, queue=None):
        self.id, self.kinds, self.queue = str(uuid.uuid4()), kinds, queue or QUEUE

    def ask(self, **more):
        return {
            "node": self.id,
            "name": "conformance",
            "queues": [self.queue],
            "kinds": self.kinds,
            **more,
        }

    def claim(self, **more):
        return ok("POST", "/claims", self.ask(**more))

    def take(self, id):
        """Claims until it gets this job."""
        def one():
            return [it for it in self.claim(wait="2s")["leases"] if it["job"] == id]
        return until(f"job {id} is claimed", one)[0]

    def listed(self):
        nodes = ok("GET", "/nodes")["items"]
        return next((node for node in nodes if node["id"] == self.id), None)


def claims_and_completes():
    node = Node(["a"])
    response = node.claim()
    assert response["leases"] == [] and not response["drain"], response
    assert response["node"] == node.id, response
    listed = node.listed()
    assert listed["is_remote"] and listed["kinds"] == ["a"] and not listed["dead_at"], listed
    id = enqueue("a", {"x": 1}, max_attempts=3, tags=["t"])
    enqueue("b")  # A kind that this node does not claim.
    [lease] = node.claim(max=5)["leases"]
    names = ("job", "kind", "queue", "payload", "attempt", "max_attempts")
    assert [lease[name] for name in names] == [id, "a", QUEUE, {"x": 1}, 1, 3], lease
    assert lease["lease_expires_at"] < lease["deadline_at"] and lease["tags"] == ["t"], lease
    assert job(id)["state"] == "running"
    path = f"/leases/{lease['lease']}"
    heartbeat = ok("POST", f"{path}/heartbeat", {"progress": {"percent": 40, "note": "on it"}})
    assert not heartbeat["cancel"] and not heartbeat["drain"], heartbeat
    assert job(id)["progress"]["percent"] == 40
    lines = b'{"text":"one"}\n{"level":"warn","text":"two"}\n'
    assert ok("POST", f"{path}/logs?first=1", lines)["next"] == 3
    assert ok("POST", f"{path}/logs?first=1", lines)["next"] == 3
    assert ok("POST", f"{path}/logs", b'{"text":"three"}')["next"] == 4
    log = [(line["level"], line["text"]) for line in ok("GET", f"/jobs/{id}/log")["items"]]
    assert log == [("info", "one"), ("warn", "two"), ("info", "three")], log
    assert ok("POST", f"{path}/complete", {"result": {"y": 2}})["state"] == "succeeded"
    assert ok("POST", f"{path}/complete", {"result": {"y": 2}})["state"] == "succeeded"
    assert (job(id)["state"], job(id)["result"]) == ("succeeded", {"y": 2})
    lost(f"{path}/fail", {"error": "too late"})
    lost(f"{path}/heartbeat")
    ok("POST", f"/nodes/{node.id}/leave")


def waits_for_work():
    node, responses = Node(["later"]), []
    claim = threading.Thread(target=lambda: responses.append(node.claim(wait="20s")))
    claim.start()
    until("the claim waits", lambda: node.listed())
    started = time.monotonic()
    id = enqueue("later")
    claim.join()
    assert time.monotonic() - started < 5, "a waiting claim returns when a job is enqueued"
    assert responses[0]["leases"][0]["job"] == id
    ok("POST", f"/nodes/{node.id}/leave")
    released = job(id)
    assert released["state"] == "ready", released
    assert released["counted_attempts"] == 0, "leave uses no attempt"


def fails_and_snoozes():
    node = Node(["f"])
    id = enqueue("f", max_attempts=2)
    first = node.take(id)
    path = f"/leases/{first['lease']}/fail"
    body = {"error": "no luck", "retry_after": "0s"}
    assert ok("POST", path, body)["state"] in ("retrying", "ready")
    ok("POST", path, body)
    second = node.take(id)
    assert second["attempt"] == 2 and second["lease"] != first["lease"]
    lost(f"/leases/{first['lease']}/complete")
    snoozed = ok("POST", f"/leases/{second['lease']}/snooze", {"for": "0s"})
    assert snoozed["state"] in ("retrying", "ready"), snoozed
    third = node.take(id)
    assert third["attempt"] == 3, "every attempt has a new number"
    ended = ok("POST", f"/leases/{third['lease']}/fail", {"error": "out of luck"})
    assert ended["state"] == "failed", "two attempts are counted, the snoozed one is not"
    outcomes = [attempt["outcome"] for attempt in job(id)["attempts"]]
    assert outcomes == ["failed", "snoozed", "failed"], outcomes
    permanent = enqueue("f", max_attempts=9)
    lease = node.take(permanent)["lease"]
    body = {"error": "hopeless", "retry": False}
    assert ok("POST", f"/leases/{lease}/fail", body)["state"] == "failed"
    assert job(permanent)["error"] == "hopeless"
    ok("POST", f"/nodes/{node.id}/leave")


def cancels_and_times_out():
    node = Node(["c"])
    id = enqueue("c")
    lease = node.take(id)["lease"]
    ok("POST", f"/jobs/{id}/cancel")
    assert ok("POST", f"/leases/{lease}/heartbeat")["cancel"]
    assert node.claim(leases=[lease])["cancel"] == [id]
    assert ok("POST", f"/leases/{lease}/fail", {"error": "stopped"})["state"] == "cancelled"
    slow = enqueue("c", timeout="1s", max_attempts=1)
    lease = node.take(slow)["lease"]
    until("the lease is lost", lambda: call("POST", f"/leases/{lease}/heartbeat", {})[0] == 409)
    until("the attempt is ended", lambda: job(slow)["attempts"][0]["outcome"] == "timed_out")
    lost(f"/leases/{lease}/complete")
    ok("POST", f"/nodes/{node.id}/leave")


def survives_lost_responses():
    node = Node(["l"])
    id = enqueue("l")
    first = node.take(id)  # Treated as a lost response.
    again = until("the job is released", lambda: node.claim(leases=[], wait="2s")["leases"])[0]
    assert (again["job"], again["attempt"]) == (id, 2), again
    assert job(id)["counted_attempts"] == 0, "a lost response uses no attempt"
    lost(f"/leases/{first['lease']}/complete")
    assert node.claim(leases=[again["lease"]])["leases"] == []
    assert ok("POST", f"/leases/{again['lease']}/complete")["state"] == "succeeded"
    ok("POST", f"/nodes/{node.id}/leave")


def drained_claim(node, lease):
    response = node.claim(leases=[lease])
    return response if response["drain"] else None


def drains():
    node = Node(["d"])
    id = enqueue("d")
    lease = node.take(id)["lease"]
    drained = ok("POST", f"/nodes/{node.id}/drain")
    assert drained["is_draining"] and ok("GET", f"/nodes/{node.id}/drain")["is_draining"]
    enqueue("d")
    response = until("drain is reported", lambda: drained_claim(node, lease))
    assert response["leases"] == [], "a draining node gets no jobs"
    assert ok("POST", f"/leases/{lease}/heartbeat")["drain"]
    ok("POST", f"/leases/{lease}/complete")
    ok("POST", f"/nodes/{node.id}/leave")
    assert not node.listed()
    status, problem = call("POST", f"/nodes/{node.id}/drain", {})
    assert status == 404, problem


def refuses():
    def rejected(status, code, method, path, body):
        got, problem = call(method, path, body)
        assert (got, problem["code"]) == (status, code), f"{path} {body}: {got} {problem}"
    node = Node(["r"])
    rejected(422, "invalid", "POST", "/claims", node.ask(wait="2m"))
    rejected(422, "invalid", "POST", "/claims", node.ask(max=1000))
    rejected(422, "invalid", "POST", "/claims", node.ask() | {"kinds": []})
    rejected(422, "invalid", "POST", "/claims", node.ask() | {"node": "7"})
    rejected(422, "invalid", "POST", "/claims", node.ask(leases=["x"]))
    rejected(400, "unreadable", "POST", "/leases/x/complete", {})
    rejected(422, "unknown_kind", "POST", "/jobs", {"kind": "unknown-kind"})
    rejected(400, "unknown_parameter", "POST", JOBS + "&unknown=1", {"kind": "r"})
    engine = next(it for it in ok("GET", "/nodes")["items"] if not it["is_remote"])
    rejected(422, "invalid", "POST", "/claims", node.ask() | {"node": engine["id"]})
    rejected(409, "conflict", "POST", f"/nodes/{engine['id']}/drain", {})


def start_worker(name, queue, max_jobs=2):
    flags = ["--server", next(SERVERS), "--name", name, "--queue", queue, "--max", str(max_jobs)]
    here = Path(__file__).with_name("worker.py")
    worker = subprocess.Popen([sys.executable, str(here), *flags], stderr=subprocess.DEVNULL)
    atexit.register(worker.kill)
    return worker


def node_named(name):
    nodes = ok("GET", "/nodes")["items"]
    return next((node for node in nodes if node["name"] == name and not node["dead_at"]), None)


def runs_the_worker():
    queue = f"{QUEUE}-worker"
    worker = start_worker("worker", queue)
    ask = {"queue": queue, "max_attempts": 3}
    greeted = ok("POST", JOBS, {"kind": "greet", "payload": {"name": "Ada"}, **ask})["id"]
    flaky = ok("POST", JOBS, {"kind": "flaky", "payload": {"works_at": 2}, **ask})["id"]
    bad = ok("POST", JOBS, {"kind": "greet", "payload": {}, **ask, "max_attempts": 1})["id"]
    done = ok("GET", f"/jobs/{greeted}/wait?timeout=20s")
    assert done["result"] == {"greeting": "hello, Ada"}, done
    assert ok("GET", f"/jobs/{flaky}/wait?timeout=20s")["result"] == {"attempt": 2}
    assert "KeyError" in ok("GET", f"/jobs/{bad}/wait?timeout=20s")["error"]
    # A draining worker finishes its jobs and exits.
    napping = ok("POST", JOBS, {"kind": "nap", "payload": {"seconds": 2}, **ask})["id"]
    until("the job runs", lambda: job(napping)["state"] == "running")
    ok("POST", f"/nodes/{node_named('worker')['id']}/drain")
    assert worker.wait(30) == 0
    assert job(napping)["state"] == "succeeded", job(napping)
    assert not node_named("worker"), "the worker left"


class Doomed:
    """A killed worker, and a node without heartbeats, while other checks run."""

    def __init__(self):
        self.queue = f"{QUEUE}-doomed"
        self.worker = start_worker("doomed", self.queue)
        ask = {"queue": self.queue, "payload": {"seconds": 60}}
        self.job = ok("POST", JOBS, {"kind": "nap", **ask})["id"]
        until("the job runs", lambda: job(self.job)["state"] == "running")
        self.worker.send_signal(signal.SIGKILL)
        self.worker.wait()
        self.silent = Node(["s"])
        self.held = enqueue("s", max_attempts=1)
        self.lease = self.silent.take(self.held)["lease"]

    def check(self):
        successor = Node(["nap"], self.queue)
        leases = until("the job is reclaimed", lambda: successor.claim(wait="10s")["leases"], 60.0)
        lease = leases[0]
        assert (lease["job"], lease["attempt"]) == (self.job, 2), lease
        first = job(self.job)["attempts"][0]
        assert first["outcome"] == "abandoned" and job(self.job)["counted_attempts"] == 1, first
        assert ok("POST", f"/leases/{lease['lease']}/complete")["state"] == "succeeded"
        ok("POST", f"/nodes/{successor.id}/leave")
        until("the silent node is declared dead", lambda: job(self.held)["state"] == "failed", 60.0)
        lost(f"/leases/{self.lease}/complete")
        lost(f"/leases/{self.lease}/heartbeat")
        status, problem = call("POST", "/claims", self.silent.ask())
        assert (status, problem["code"]) == (409, "node_dead"), problem


class Lasting:
    """A worker whose job runs longer than 15 seconds: heartbeats keep its lease."""

    def __init__(self):
        self.queue = f"{QUEUE}-lasting"
        self.worker = start_worker("lasting", self.queue, 1)
        ask = {"queue": self.queue, "payload": {"seconds": 18}, "max_attempts": 1}
        self.job = ok("POST", "/jobs", {"kind": "nap", **ask})["id"]

    def check(self):
        ok("GET", f"/jobs/{self.job}/wait?timeout=30s")
        done = job(self.job)
        assert (done["state"], len(done["attempts"])) == ("succeeded", 1), done
        self.worker.kill()
        self.worker.wait()


class Stunned:
    """A worker that is stopped until its job is reclaimed, and then continues."""

    def __init__(self):
        self.queue = f"{QUEUE}-stunned"
        self.worker = start_worker("stunned", self.queue, 1)
        ask = {"queue": self.queue, "payload": {"seconds": 600}, "max_attempts": 1}
        self.job = ok("POST", "/jobs", {"kind": "nap", **ask})["id"]
        until("the job runs", lambda: job(self.job)["state"] == "running")
        self.first = node_named("stunned")["id"]
        self.worker.send_signal(signal.SIGSTOP)

    def check(self):
        until("the job is reclaimed", lambda: job(self.job)["state"] == "failed", 60.0)
        self.worker.send_signal(signal.SIGCONT)
        # It runs one job at a time, so it must stop the nap and claim as a new node.
        ask = {"queue": self.queue, "payload": {"name": "Ada"}}
        id = ok("POST", "/jobs", {"kind": "greet", **ask})["id"]
        assert ok("GET", f"/jobs/{id}/wait?timeout=30s")["state"] == "succeeded"
        assert job(self.job)["attempts"][0]["outcome"] == "abandoned", "its late result is rejected"
        assert node_named("stunned")["id"] != self.first
        self.worker.kill()
        self.worker.wait()


CHECKS = [
    claims_and_completes,
    waits_for_work,
    fails_and_snoozes,
    cancels_and_times_out,
    survives_lost_responses,
    drains,
    refuses,
    runs_the_worker,
]


def main():
    global SERVERS
    parser = argparse.ArgumentParser(description="Tests the protocol of remote workers.")
    parser.add_argument("--server", action="append", help="may be repeated")
    servers = parser.parse_args().server or ["http://127.0.0.1:7347"]
    SERVERS = itertools.cycle([server.rstrip("/") for server in servers])
    doomed, lasting, stunned = Doomed(), Lasting(), Stunned()
    for check in CHECKS:
        check()
        print("ok", check.__name__, flush=True)
    doomed.check()
    print("ok reclaims_the_jobs_of_a_dead_worker", flush=True)
    lasting.check()
    print("ok keeps_the_lease_of_a_live_worker", flush=True)
    stunned.check()
    print("ok stops_jobs_with_a_lost_lease", flush=True)


if __name__ == "__main__":
    main()
