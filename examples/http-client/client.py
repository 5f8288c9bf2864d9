#!/usr/bin/env python3
"""A tour of the HTTP API of punctual in Python. It uses only the standard library.

    punctual serve &
    PUNCTUAL_SERVER=http://127.0.0.1:7347 python3 client.py

It enqueues jobs, runs them with a small worker, retries and cancels them, manages a schedule and
follows events. Each step checks its result; the first failed check ends the program with exit code
1. The API is described in docs/http-api.md and docs/workers.md; worker.py is a complete worker.

If the server requires a token, set PUNCTUAL_TOKEN; rejected tokens are checked too. All names
contain a random suffix, so the script can be repeated. It takes about 20 seconds.
"""

import json
import os
import threading
import time
import urllib.error
import urllib.request
import uuid

SERVER = os.environ.get("PUNCTUAL_SERVER", "http://127.0.0.1:7347").rstrip("/")
TOKEN = os.environ.get("PUNCTUAL_TOKEN")
RUN = uuid.uuid4().hex[:8]
KIND, QUEUE, SCHEDULE = "resize_image", f"images-{RUN}", f"thumbnails-{RUN}"


def open_url(method, path, body=None, headers=None, token=TOKEN):
    """Sends a request and returns the open response. `body` is a JSON value, or bytes."""
    all_headers = {"Authorization": f"Bearer {token}"} if token else {}
    all_headers.update({"Content-Type": "application/json"} if body is not None else {})
    all_headers.update(headers or {})
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    request = urllib.request.Request(SERVER + "/api/v1" + path, data, all_headers, method=method)
    return urllib.request.urlopen(request, timeout=40.0)


def call(method, path, body=None, headers=None, token=TOKEN):
    """Sends a request. Returns the status, the body and the headers of any response."""
    try:
        with open_url(method, path, body, headers, token) as response:
            text = response.read()
            return response.status, json.loads(text) if text else None, response.headers
    except urllib.error.HTTPError as error:  # An error is a JSON object with a stable `code`.
        return error.code, json.loads(error.read()), error.headers


def ok(method, path, body=None, headers=None):
    """Sends a request that must succeed. Returns the body of the response."""
    status, answer, _ = call(method, path, body, headers)
    assert status in (200, 201, 204), f"{method} {path}: {status} {answer}"
    return answer


def rejected(expected, method, path, body=None, headers=None, token=TOKEN):
    """Checks that a request is rejected with this status and code. Returns the problem."""
    status, answer, _ = call(method, path, body, headers, token)
    assert status == expected[0] and answer["code"] == expected[1], f"{path}: {status} {answer}"
    return answer


def until(what, condition):
    """Repeats the check until it returns a true value, and returns this value."""
    end = time.monotonic() + 25.0
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"timed out: {what}")


def finished(job):
    """Waits for a job. The status is 200 even if the job is unfinished: test `finished_at`."""
    answer = ok("GET", f"/jobs/{job}/wait?timeout=20s")
    assert answer["finished_at"], answer
    return answer


def resize(**payload):
    """Returns the body of a request that enqueues a job."""
    return {"kind": KIND, "queue": QUEUE, "payload": payload}


class Worker(threading.Thread):
    """Claims and runs one job at a time. It holds no lease when it claims, so it omits `leases`.

    Its jobs take less than the heartbeat interval, except the slow one, which sends heartbeats.
    """

    node, is_fixed, error = str(uuid.uuid4()), False, None
    registered, stopping = threading.Event(), threading.Event()

    def run(self):
        try:
            ask = {"node": self.node, "name": f"py-{RUN}", "queues": [QUEUE], "kinds": [KIND]}
            while not self.stopping.is_set():
                claimed = ok("POST", "/claims", {**ask, "wait": "1s"})
                self.registered.set()  # The first claim registers the worker and its kind.
                for lease in claimed["leases"]:
                    self.work(f"/leases/{lease['lease']}", lease["payload"])
            ok("POST", f"/nodes/{self.node}/leave")
        except BaseException as error:  # Reported by the main thread at the end.
            self.error = error

    def work(self, path, payload):
        line = json.dumps({"level": "info", "text": f"resizing {payload['src']}"}).encode()
        ok("POST", f"{path}/logs?first=1", line)
        while payload.get("slow"):  # Runs until it is cancelled.
            if ok("POST", f"{path}/heartbeat", {"progress": {"percent": 50}})["cancel"]:
                # Without `retry: False`, so that the job is cancelled and not failed.
                return ok("POST", f"{path}/fail", {"error": "stopped"})
            time.sleep(0.3)
        if payload.get("broken") and not self.is_fixed:
            # `retry: False` fails the job without another attempt.
            ok("POST", f"{path}/fail", {"error": "not an image", "retry": False})
        else:
            ok("POST", f"{path}/complete", {"result": {"width": payload.get("width", 100)}})
        return None


class Events(threading.Thread):
    """Follows the event stream and stores the states of finished jobs."""

    states, connected = {}, threading.Event()

    def run(self):
        with open_url("GET", "/events?topics=jobs") as stream:
            for line in stream:
                self.connected.set()  # The first lines arrive at once; new events follow.
                if line.startswith(b"data:"):
                    job = json.loads(line[5:]).get("job") or {}
                    self.states[job.get("id")] = job.get("state")


def errors():
    """Rejected requests: the status, and the `code` for programs."""
    if ok("GET", "/capabilities")["requires_token"]:
        rejected((401, "no_access"), "GET", "/jobs", token=None)
        rejected((401, "no_access"), "GET", "/jobs", token="wrong")
    problem = rejected((422, "unknown_kind"), "POST", "/jobs", {"kind": f"no-such-kind-{RUN}"})
    assert problem["errors"][0]["pointer"] == "/kind" and "worker" in problem["hint"]
    rejected((422, "invalid"), "POST", "/jobs", {"kind": "echo", "delay_seconds": 3})
    rejected((422, "invalid"), "POST", "/jobs", {"kind": "echo", "payload": "x" * 300_000})
    rejected((400, "unknown_parameter"), "GET", "/jobs?stat=failed")


def enqueueing():
    """Idempotency keys, delays, unique keys, batches, results and logs."""
    body, key = resize(src="a.png", width=200), {"Idempotency-Key": f"order-{RUN}"}
    first = ok("POST", "/jobs", body, key)
    status, again, headers = call("POST", "/jobs", body, key)
    assert (status, again["id"], headers["Idempotency-Replayed"]) == (200, first["id"], "true")
    rejected((422, "key_reused"), "POST", "/jobs", resize(src="b.png"), key)
    assert finished(first["id"])["result"] == {"width": 200}
    # A delayed job holds its unique key until it is finished.
    unique = {**resize(src="c.png"), "unique_key": f"c-{RUN}", "delay": "3s"}
    job = ok("POST", "/jobs", unique)["id"]
    assert ok("GET", f"/jobs/{job}")["state"] == "scheduled"
    assert ok("POST", "/jobs", unique) == {"id": job, "is_new": False}
    rejected((409, "conflict"), "POST", "/jobs", {**unique, "payload": {"src": "d.png"}})
    # The status of a batch is 200 even if jobs are rejected: check each result.
    batch = ok("POST", "/jobs:batch", {"jobs": [resize(src="1.png"), unique, resize(src="2.png")]})
    assert [item["error"] for item in batch["jobs"]] == [None] * 3, batch
    assert [item["is_new"] for item in batch["jobs"]] == [True, False, True], batch
    assert all(finished(item["id"])["state"] == "succeeded" for item in batch["jobs"])
    log = ok("GET", f"/jobs/{job}/log")["items"]
    assert [(line["number"], line["text"]) for line in log] == [(1, "resizing c.png")], log
    return job


def failing(worker):
    """Failed jobs: why, retry, bulk operations; and the cancellation of a running job."""
    tagged = [{**resize(src=f"{i}.txt", broken=True), "tags": [f"bad-{RUN}"]} for i in range(3)]
    jobs = [item["id"] for item in ok("POST", "/jobs:batch", {"jobs": tagged})["jobs"]]
    assert [finished(job)["state"] for job in jobs] == ["failed"] * 3
    why = ok("GET", f"/why/jobs/{jobs[0]}")
    assert why["reasons"][0]["code"] == "failed_permanently" and "not an image" in why["text"]
    worker.is_fixed = True  # Retry one job, then all others with a bulk operation.
    # The worker can be faster than the response.
    assert ok("POST", f"/jobs/{jobs[0]}/retry")["state"] in ("ready", "running", "succeeded")
    assert finished(jobs[0])["attempt"] == 2
    ask = {"action": "retry", "q": f"state:failed tag:bad-{RUN}", "why": "the worker is fixed"}
    operation = ok("POST", "/operations", ask)["id"]
    finished(operation)  # An operation is also a job.
    assert ok("GET", f"/operations/{operation}")["result"]["done"] == 2
    assert [finished(job)["state"] for job in jobs] == ["succeeded"] * 3
    slow = ok("POST", "/jobs", resize(src="slow.png", slow=True))["id"]
    until("the job runs", lambda: ok("GET", f"/jobs/{slow}")["state"] == "running")
    assert ok("POST", f"/jobs/{slow}/cancel")["state"] in ("running", "cancelled")
    assert finished(slow)["state"] == "cancelled"
    return slow


def scheduling(path):
    """The ledger, pause and resume, conditional changes, and deletion."""

    def outcome(name):  # Reads the ledger and returns the newest slot with this outcome.
        slots = ok("GET", path + "/slots")["items"]
        return next((slot for slot in slots if slot["outcome"] == name), None)

    slot = until("a slot fires", lambda: outcome("fired"))
    assert finished(slot["job"])["slot"] == slot["slot"]
    old = ok("GET", path)
    assert ok("POST", path + "/pause", {"why": "maintenance"})["pause"]["why"] == "maintenance"
    assert ok("GET", f"/why/schedules/{SCHEDULE}")["state"] == "paused"
    time.sleep(10.5)  # One slot passes. Slots during a pause are recorded after it ends.
    assert not ok("POST", path + "/resume?why=done")["pause"]
    skipped = until("the skipped slot is recorded", lambda: outcome("skipped_paused"))
    assert "maintenance" in skipped["reason"], skipped
    # The pause changed the ETag, so a change with the old one is rejected.
    edit = {"job": {"payload": {"src": "new.png"}}}  # A merge patch: other fields are kept.
    rejected((412, "stale"), "PATCH", path, edit, {"If-Match": old["etag"]})
    current = ok("GET", path)
    edited = ok("PATCH", path + "?why=new+file", edit, {"If-Match": current["etag"]})
    assert edited["revision"] == current["revision"] + 1, edited
    ok("DELETE", path + "?why=tour+ends")
    rejected((404, "not_found"), "GET", path)


def main():
    errors()
    worker, events, path = Worker(daemon=True), Events(daemon=True), f"/schedules/{SCHEDULE}"
    events.start()
    assert events.connected.wait(10), "no event stream"
    worker.start()
    assert worker.registered.wait(10), f"the worker did not start: {worker.error}"
    definition = {"when": ["@every 10s"], "job": resize(src="cron.png")}
    assert call("PUT", path, definition, {"If-None-Match": "*"})[0] == 201
    rejected((412, "exists"), "PUT", path, definition, {"If-None-Match": "*"})
    expected = {enqueueing(): "succeeded", failing(worker): "cancelled"}
    scheduling(path)
    until("the events arrive", lambda: expected.items() <= events.states.items())
    worker.stopping.set()
    worker.join(10)
    assert not worker.is_alive() and not worker.error, worker.error
    print("All steps passed.")


if __name__ == "__main__":
    main()
