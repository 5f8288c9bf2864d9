#!/usr/bin/env python3
"""Does a server keep what docs/workers.md promises? Drives one, and the worker beside this file.

    python3 conformance.py --server http://127.0.0.1:7347

It needs a server with the scheduler's role, whose database nobody else uses, and takes half a
minute, most of which is the silence after which a worker counts as dead. Given several servers of
one database, it asks them in turn: none may remember what another has to know. Exit 0: it does.
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


def call(method, path, body=None, patience=60.0):
    """The status and the body of an answer."""
    headers = {"Content-Type": "application/json"}
    if os.environ.get("PUNCTUAL_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["PUNCTUAL_TOKEN"]
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(next(SERVERS) + "/api/v1" + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=patience) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def ok(method, path, body=None):
    status, answer = call(method, path, body)
    assert status in (200, 201, 204), f"{method} {path}: {status} {answer}"
    return answer


def lost(path, body=None):
    status, answer = call("POST", path, body or {})
    assert (status, answer["code"]) == (409, "lease_lost"), f"{path}: {status} {answer}"


# Some of these jobs are there before anybody has said that they serve their kind.
JOBS = "/jobs?allow_unknown_kind=true"


def enqueue(kind, payload=None, **more):
    ask = {"kind": kind, "payload": payload, "queue": QUEUE, **more}
    return ok("POST", JOBS, ask)["id"]


def job(id):
    return ok("GET", f"/jobs/{id}")


def until(what, is_so, patience=30.0):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"it never came to be: {what}")


class Node:
    """A worker, call by call."""

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
        """Claims until this job is here."""
        def one():
            return [it for it in self.claim(wait="2s")["leases"] if it["job"] == id]
        return until(f"job {id} is claimed", one)[0]

    def listed(self):
        nodes = ok("GET", "/nodes")["items"]
        return next((node for node in nodes if node["id"] == self.id), None)


def claims_and_completes():
    node = Node(["a"])
    answer = node.claim()
    assert answer["leases"] == [] and answer["node"] == node.id and not answer["drain"], answer
    listed = node.listed()
    assert listed["is_remote"] and listed["kinds"] == ["a"] and listed["dead_at"] is None, listed
    id = enqueue("a", {"x": 1}, max_attempts=3, tags=["t"])
    enqueue("b")  # Nobody asked for it.
    [lease] = node.claim(max=5)["leases"]
    told = [lease[name] for name in ("job", "kind", "queue", "payload", "attempt", "max_attempts")]
    assert told == [id, "a", QUEUE, {"x": 1}, 1, 3], lease
    assert lease["lease_expires_at"] < lease["deadline_at"] and lease["tags"] == ["t"], lease
    assert job(id)["state"] == "running"
    path = f"/leases/{lease['lease']}"
    beaten = ok("POST", f"{path}/heartbeat", {"progress": {"percent": 40, "note": "on it"}})
    assert not beaten["cancel"] and not beaten["drain"], beaten
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
    node, answers = Node(["later"]), []
    claim = threading.Thread(target=lambda: answers.append(node.claim(wait="20s")))
    claim.start()
    until("it waits", lambda: node.listed())
    began = time.monotonic()
    id = enqueue("later")
    claim.join()
    assert time.monotonic() - began < 5, "a waiting claim is told of work"
    assert answers[0]["leases"][0]["job"] == id
    ok("POST", f"/nodes/{node.id}/leave")
    assert job(id)["state"] == "ready" and job(id)["spent"] == 0, "given back, at no cost"


def fails_and_snoozes():
    node = Node(["f"])
    id = enqueue("f", max_attempts=2)
    first = node.take(id)
    path = f"/leases/{first['lease']}/fail"
    assert ok("POST", path, {"error": "no luck", "retry_after": "0s"})["state"] in ("retrying", "ready")
    ok("POST", path, {"error": "no luck", "retry_after": "0s"})
    second = node.take(id)
    assert second["attempt"] == 2 and second["lease"] != first["lease"]
    lost(f"/leases/{first['lease']}/complete")
    snoozed = ok("POST", f"/leases/{second['lease']}/snooze", {"for": "0s"})
    assert snoozed["state"] in ("retrying", "ready"), snoozed
    third = node.take(id)
    assert third["attempt"] == 3, "each start has a number of its own"
    ended = ok("POST", f"/leases/{third['lease']}/fail", {"error": "out of luck"})
    assert ended["state"] == "failed", "two attempts count, the one that was put off does not"
    outcomes = [attempt["outcome"] for attempt in job(id)["attempts"]]
    assert outcomes == ["failed", "snoozed", "failed"], outcomes
    for_good = enqueue("f", max_attempts=9)
    lease = node.take(for_good)["lease"]
    body = {"error": "hopeless", "retry": False}
    assert ok("POST", f"/leases/{lease}/fail", body)["state"] == "failed"
    assert job(for_good)["error"] == "hopeless"
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
    until("it is too late", lambda: call("POST", f"/leases/{lease}/heartbeat", {})[0] == 409)
    assert job(slow)["attempts"][0]["outcome"] == "timed_out", job(slow)
    lost(f"/leases/{lease}/complete")
    ok("POST", f"/nodes/{node.id}/leave")


def survives_lost_answers():
    node = Node(["l"])
    id = enqueue("l")
    first = node.take(id)  # As if this had never arrived.
    again = until("it is given back", lambda: node.claim(leases=[], wait="2s")["leases"])[0]
    assert (again["job"], again["attempt"]) == (id, 2), again
    assert job(id)["spent"] == 0, "a lost answer costs no attempt"
    lost(f"/leases/{first['lease']}/complete")
    assert node.claim(leases=[again["lease"]])["leases"] == []
    assert ok("POST", f"/leases/{again['lease']}/complete")["state"] == "succeeded"
    ok("POST", f"/nodes/{node.id}/leave")


def drains():
    node = Node(["d"])
    id = enqueue("d")
    lease = node.take(id)["lease"]
    drained = ok("POST", f"/nodes/{node.id}/drain")
    assert drained["is_draining"] and ok("GET", f"/nodes/{node.id}/drain")["is_draining"]
    enqueue("d")
    answer = until("it is told", lambda: (lambda it: it["drain"] and it)(node.claim(leases=[lease])))
    assert answer["leases"] == [], "nothing more is claimed"
    assert ok("POST", f"/leases/{lease}/heartbeat")["drain"]
    ok("POST", f"/leases/{lease}/complete")
    ok("POST", f"/nodes/{node.id}/leave")
    assert node.listed() is None
    status, problem = call("POST", f"/nodes/{node.id}/drain", {})
    assert status == 404, problem


def refuses():
    def told(status, code, method, path, body):
        got, problem = call(method, path, body)
        assert (got, problem["code"]) == (status, code), f"{path} {body}: {got} {problem}"
    node = Node(["r"])
    told(422, "invalid", "POST", "/claims", node.ask(wait="2m"))
    told(422, "invalid", "POST", "/claims", node.ask(max=1000))
    told(422, "invalid", "POST", "/claims", node.ask() | {"kinds": []})
    told(422, "invalid", "POST", "/claims", node.ask() | {"node": "7"})
    told(422, "invalid", "POST", "/claims", node.ask(leases=["x"]))
    told(400, "unreadable", "POST", "/leases/x/complete", {})
    told(422, "unknown_kind", "POST", "/jobs", {"kind": "unheard-of"})
    told(400, "unknown_parameter", "POST", JOBS + "&unheard_of=1", {"kind": "r"})
    engine = next(it for it in ok("GET", "/nodes")["items"] if not it["is_remote"])
    told(422, "invalid", "POST", "/claims", node.ask() | {"node": engine["id"]})
    told(409, "conflict", "POST", f"/nodes/{engine['id']}/drain", {})


def start_worker(name, queue, most=2):
    words = ["--server", next(SERVERS), "--name", name, "--queue", queue, "--max", str(most)]
    here = Path(__file__).with_name("worker.py")
    worker = subprocess.Popen([sys.executable, str(here), *words], stderr=subprocess.DEVNULL)
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
    # Told to drain, it finishes what it has and ends.
    napping = ok("POST", JOBS, {"kind": "nap", "payload": {"seconds": 2}, **ask})["id"]
    until("it naps", lambda: job(napping)["state"] == "running")
    ok("POST", f"/nodes/{node_named('worker')['id']}/drain")
    assert worker.wait(30) == 0
    assert job(napping)["state"] == "succeeded", job(napping)
    assert node_named("worker") is None, "it has left"


class Doomed:
    """A worker that is killed, and a node that falls silent, while other things are tried."""

    def __init__(self):
        self.queue = f"{QUEUE}-doomed"
        self.worker = start_worker("doomed", self.queue)
        ask = {"queue": self.queue, "payload": {"seconds": 60}}
        self.job = ok("POST", JOBS, {"kind": "nap", **ask})["id"]
        until("it naps", lambda: job(self.job)["state"] == "running")
        self.worker.send_signal(signal.SIGKILL)
        self.worker.wait()
        self.silent = Node(["s"])
        self.held = enqueue("s", max_attempts=1)
        self.lease = self.silent.take(self.held)["lease"]

    def check(self):
        heir = Node(["nap"], self.queue)
        lease = until("its job returns", lambda: heir.claim(wait="10s")["leases"], 60.0)[0]
        assert (lease["job"], lease["attempt"]) == (self.job, 2), lease
        first = job(self.job)["attempts"][0]
        assert first["outcome"] == "abandoned" and job(self.job)["spent"] == 1, first
        assert ok("POST", f"/leases/{lease['lease']}/complete")["state"] == "succeeded"
        ok("POST", f"/nodes/{heir.id}/leave")
        until("the other counts as dead", lambda: job(self.held)["state"] == "failed", 60.0)
        lost(f"/leases/{self.lease}/complete")
        lost(f"/leases/{self.lease}/heartbeat")
        status, problem = call("POST", "/claims", self.silent.ask())
        assert (status, problem["code"]) == (409, "node_dead"), problem


class Lasting:
    """A worker whose only job takes longer than it may be silent: its heartbeats keep it."""

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
    """A worker that is stopped until its job is another's, and comes back."""

    def __init__(self):
        self.queue = f"{QUEUE}-stunned"
        self.worker = start_worker("stunned", self.queue, 1)
        ask = {"queue": self.queue, "payload": {"seconds": 600}, "max_attempts": 1}
        self.job = ok("POST", "/jobs", {"kind": "nap", **ask})["id"]
        until("it naps", lambda: job(self.job)["state"] == "running")
        self.first = node_named("stunned")["id"]
        self.worker.send_signal(signal.SIGSTOP)

    def check(self):
        until("its job is taken back", lambda: job(self.job)["state"] == "failed", 60.0)
        self.worker.send_signal(signal.SIGCONT)
        # It has one place, so that it has to stop the nap for this, and to claim as another node.
        ask = {"queue": self.queue, "payload": {"name": "Ada"}}
        id = ok("POST", "/jobs", {"kind": "greet", **ask})["id"]
        assert ok("GET", f"/jobs/{id}/wait?timeout=30s")["state"] == "succeeded"
        assert job(self.job)["attempts"][0]["outcome"] == "abandoned", "what it said came too late"
        assert node_named("stunned")["id"] != self.first
        self.worker.kill()
        self.worker.wait()


CHECKS = [
    claims_and_completes,
    waits_for_work,
    fails_and_snoozes,
    cancels_and_times_out,
    survives_lost_answers,
    drains,
    refuses,
    runs_the_worker,
]


def main():
    global SERVERS
    words = argparse.ArgumentParser(description="Checks the protocol of remote workers.")
    words.add_argument("--server", action="append", help="may be given several times")
    given = words.parse_args().server or ["http://127.0.0.1:7347"]
    SERVERS = itertools.cycle([server.rstrip("/") for server in given])
    doomed, lasting, stunned = Doomed(), Lasting(), Stunned()
    for check in CHECKS:
        check()
        print("ok", check.__name__, flush=True)
    doomed.check()
    print("ok returns_the_jobs_of_the_dead", flush=True)
    lasting.check()
    print("ok keeps_what_is_heard_of", flush=True)
    stunned.check()
    print("ok stops_what_is_anothers", flush=True)


if __name__ == "__main__":
    main()
