"""Clients that enqueue jobs and operators that change schedules, all through the API.

Both write what the servers acknowledged into a `Journal`, which is all that the account believes.
"""

import random
import threading
import time

from client import NoAnswer

PRODUCERS = 3
EDITORS = 2
# Jobs per second of one producer.
PRODUCER_RATE = 6
# One request in this many is sent again after its acknowledgement, with the same key.
REPEAT_ONE_IN = 10
# An editor changes a schedule this often, in seconds.
EDIT_SECONDS = 0.4
# Changes are aimed at a due time, plus or minus this many seconds.
AIM_SECONDS = 0.03
INTERVALS = (1, 2, 3, 5, 7)
OVERLAPS = ("skip", "allow", "queue_one", "queue_all", "cancel_running")
SCHEDULES = 4 * len(OVERLAPS)
# Jobs of this schedule, whose policy is `allow`, run on this node only.
SELECTIVE, NODE = "s16", "n0"
# The tag of orders that are due at once.
IMMEDIATE = "immediate"
# The number of an order follows in a tag, so that jobs of requests without an answer are known, too.
ORDER = "order-"


class Journal:
    """What the servers acknowledged. Instants are wall-clock seconds of this machine."""

    def __init__(self):
        self.lock = threading.Lock()
        # Number of the order -> (ids that were returned, time of the first acknowledgement).
        self.jobs = {}
        # Number of the order -> delay in seconds.
        self.delays = {}
        # (schedule, action, changed_at as the server returned it, time of the acknowledgement).
        self.changes = []
        self.requests = 0
        self.unanswered = 0
        self.refused = []

    def acknowledge_job(self, number, id, requests):
        with self.lock:
            ids, at = self.jobs.get(number, (set(), time.time()))
            self.jobs[number] = (ids | {id}, at)
            self.requests += requests

    def acknowledge_change(self, schedule, action, changed_at):
        with self.lock:
            self.changes.append((schedule, action, changed_at, time.time()))

    def miss(self):
        with self.lock:
            self.unanswered += 1

    def refuse(self, what):
        with self.lock:
            self.refused.append(what)


class Load:
    """All producers and editors."""

    def __init__(self, client, seed):
        self.client, self.seed = client, seed
        self.journal = Journal()
        self.ending = threading.Event()
        self.deadline = None
        self.threads = []

    def create_schedules(self, deadline):
        pick = random.Random(self.seed)
        self.names = [f"s{k}" for k in range(SCHEDULES)]
        self.definitions = {}
        for k, name in enumerate(self.names):
            overlap = OVERLAPS[k % len(OVERLAPS)]
            # Jobs of `queue_all` must be shorter than every interval, or they queue without end.
            longest = 0.6 if overlap == "queue_all" else 4.0
            seconds = round(pick.uniform(0.0, longest), 1)
            self.definitions[name] = {
                "when": [f"@every {pick.choice(INTERVALS)}s"],
                "overlap": overlap,
                "missed": pick.choice(("all", "latest", "none")),
                "job": {"kind": "sleep", "payload": {"seconds": seconds}},
            }
            if name == SELECTIVE:
                self.definitions[name]["run_on"] = f"node {NODE}"
            self.change(name, "create", "PUT", "", self.definitions[name], lambda: deadline)

    def change(self, name, action, method, path, body, deadline):
        status, answer, _ = self.client.until_answered(
            method, f"/schedules/{name}{path}", body, deadline=deadline
        )
        if status in (200, 201):
            self.journal.acknowledge_change(name, action, answer["changed_at"])
            return answer
        # Another editor was first: that is a conflict and no fault.
        if status != 409:
            self.journal.refuse(f"{action} {name}: {status} {answer}")
        return None

    def start(self):
        for k in range(PRODUCERS):
            self.threads.append(threading.Thread(target=self.produce, args=(k,), daemon=True))
        for k in range(EDITORS):
            self.threads.append(threading.Thread(target=self.edit, args=(k,), daemon=True))
        for thread in self.threads:
            thread.start()

    def produce(self, k):
        pick = random.Random(self.seed * 100 + k)
        count = 0
        while not self.ending.is_set():
            count += 1
            number = f"{k}-{count}"
            tag = ORDER + number
            body = {"kind": "echo", "payload": {"number": number}, "tags": [IMMEDIATE, tag]}
            if pick.random() < 0.2:
                body |= {"kind": "sleep", "payload": {"seconds": round(pick.uniform(0, 2), 1)}}
            elif pick.random() < 0.05:
                body |= {"kind": "fail", "payload": {"message": f"order {number}", "permanent": True}}
            if pick.random() < 0.1:
                self.journal.delays[number] = pick.randint(1, 8)
                body |= {"delay": f"{self.journal.delays[number]}s", "tags": [tag]}
            self.order(number, body)
            if pick.randrange(REPEAT_ONE_IN) == 0:
                self.order(number, body)
            self.ending.wait(pick.expovariate(PRODUCER_RATE))

    def order(self, number, body):
        headers = {"Idempotency-Key": f"order-{number}"}
        try:
            status, answer, requests = self.client.until_answered(
                "POST", "/jobs", body, headers, lambda: self.deadline
            )
        except NoAnswer:
            self.journal.miss()
            return
        if status in (200, 201):
            self.journal.acknowledge_job(number, answer["id"], requests)
        else:
            self.journal.refuse(f"order {number}: {status} {answer}")

    def edit(self, k):
        """Changes schedules; each schedule belongs to one editor, which knows its state."""
        pick = random.Random(self.seed * 200 + k)
        mine = self.names[k::EDITORS]
        paused, disabled = set(), set()
        while not self.ending.wait(pick.uniform(0, 2 * EDIT_SECONDS)):
            name = pick.choice(mine)
            now = time.time()
            self.ending.wait(max(0.0, int(now) + 1 + pick.uniform(-AIM_SECONDS, AIM_SECONDS) - now))
            try:
                if name in paused:
                    self.act(name, "resume", paused.discard)
                elif name in disabled:
                    self.act(name, "enable", disabled.discard)
                else:
                    choice = pick.random()
                    if choice < 0.35:
                        self.act(name, "disable", disabled.add)
                    elif choice < 0.6:
                        self.act(name, "pause", paused.add)
                    else:
                        when = [f"@every {pick.choice(INTERVALS)}s"]
                        body = {**self.definitions[name], "when": when}
                        self.change(name, "edit", "PUT", "", body, lambda: self.deadline)
            except NoAnswer:
                return

    def act(self, name, action, note):
        if self.change(name, action, "POST", f"/{action}", {}, lambda: self.deadline) is not None:
            note(name)

    def stop(self, seconds):
        """Ends the load. Requests without an answer are repeated for at most this long."""
        self.deadline = time.monotonic() + seconds
        self.ending.set()
        for thread in self.threads:
            thread.join(seconds + 30)

    def close_schedules(self, deadline):
        """Ends all pauses, then disables all schedules: after that no slot is due."""
        for name in self.names:
            if self.client.read(f"/schedules/{name}", deadline)["pause"]:
                self.change(name, "resume", "POST", "/resume", {}, lambda: deadline)
            if self.change(name, "disable", "POST", "/disable", {}, lambda: deadline) is None:
                raise RuntimeError(f"{name} could not be disabled")
