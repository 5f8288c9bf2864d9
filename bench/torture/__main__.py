"""Tortures servers and judges what they recorded.

    python3 bench/torture --punctual target/release/punctual --seconds 600

Three `punctual serve` processes on PostgreSQL, then one on SQLite, are killed, frozen and restarted;
their clocks jump; the database crashes and fails over; disks fill up. All the time clients enqueue
jobs and operators change schedules through the API. In the end the account (`account.py`) judges
every acknowledged job and every due slot. Prints one line of JSON per database and exits with 1 if
a guarantee was violated. Clock jumps need Debian's package `faketime`, full disks need root.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import account
from client import Client, NoAnswer
from faults import HOST_AHEAD, Database, PostgresFaults, SqliteFaults, mount_small
from load import Load
from processes import Server, faketime

# Time that the cluster has to finish all work once the faults have stopped.
DRAIN_SECONDS = 300
SERVERS = 3
# Schedules follow each change of the host's clock within this time.
CLOCK_SECONDS = 60
# A run of this length includes every kind of fault; one that does not shows less than it says.
LONG_SECONDS = 300


def drain(client, deadline):
    """Waits until all jobs are finished. Returns the seconds it took."""
    begin = time.monotonic()
    for state in ("scheduled", "ready", "running", "retrying", "blocked"):
        while client.read(f"/jobs?state={state}&limit=1", deadline)["items"]:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.5)
    return round(time.monotonic() - begin, 1)


def await_schedules(client, names, is_reached):
    """Reads schedules again and again until a condition holds for each. Returns them by name."""
    deadline = time.monotonic() + CLOCK_SECONDS
    while True:
        found = {name: client.read(f"/schedules/{name}", deadline) for name in names}
        if all(is_reached(name, schedule) for name, schedule in found.items()):
            return found
        if time.monotonic() > deadline:
            raise NoAnswer(f"the schedules did not get there: {found}")
        time.sleep(0.3)


def is_decided_after(schedule, instant):
    return schedule["last_slot"] is not None and account.micros(schedule["last_slot"]) > instant


def put_clock_ahead(client, faults, verdict):
    """Sets the clock of the host two hours ahead and back, and realigns the schedules, as docs/time.md
    describes. It has schedules of its own: the jobs that others plan by the wrong clock would be due
    in two hours."""
    deadline = time.monotonic() + 4 * CLOCK_SECONDS
    names = [f"ahead{step}" for step in (1, 2)]
    for step, name in enumerate(names, 1):
        # Without `missed` the slots that the clock jumps over create no jobs.
        body = {"when": [f"@every {step}s"], "overlap": "allow", "missed": "none", "job": {"kind": "echo"}}
        status, answer, _ = client.until_answered("PUT", f"/schedules/{name}", body, deadline=lambda: deadline)
        if status != 201:
            raise NoAnswer(f"{name}: {status} {answer}")
    normal = int(time.time() * account.SECOND)
    await_schedules(client, names, lambda _, schedule: is_decided_after(schedule, normal))
    faults.restart_with_clock(HOST_AHEAD)
    ahead = normal + HOST_AHEAD * account.SECOND
    await_schedules(client, names, lambda _, schedule: is_decided_after(schedule, ahead))
    faults.restart_with_clock(0)
    waiting = await_schedules(client, names, lambda _, schedule: schedule["ahead_until"] is not None)
    findings = client.read("/doctor", deadline)["findings"]
    if "schedules_ahead" not in [finding["code"] for finding in findings]:
        verdict.add("ahead_not_reported", str(findings))
    after = {}
    for name in names:
        path = f"/schedules/{name}/realign?why=wrong+clock"
        status, answer, _ = client.until_answered("POST", path, {}, deadline=lambda: deadline)
        if status != 200:
            raise NoAnswer(f"{name}: {status} {answer}")
        after[name] = answer["after"]
    enough = {name: account.micros(text) + 5 * account.SECOND for name, text in after.items()}
    await_schedules(client, names, lambda name, schedule: is_decided_after(schedule, enough[name]))
    for name in names:
        schedule = client.read(f"/schedules/{name}", deadline)
        schedule["slots"] = list(client.pages(f"/schedules/{name}/slots", deadline))
        account.judge_realigned(verdict, name, waiting[name], after[name], schedule)


def torture(name, servers, faults, seconds, seed):
    """Runs the load and the faults; returns the result as a JSON object."""
    client = Client([("127.0.0.1", server.port) for server in servers])
    load = Load(client, seed)
    load.create_schedules(time.monotonic() + 60)
    load.start()
    began = int(time.time() * account.SECOND)
    faults.run(seconds)
    load.stop(60)
    deadline = time.monotonic() + DRAIN_SECONDS
    load.close_schedules(deadline)
    # Two passes: a job can leave a state that was empty when it was read.
    drained = [drain(client, deadline), drain(client, deadline)]
    ended = int(time.time() * account.SECOND)
    records = account.Records.read(client, load.names, time.monotonic() + DRAIN_SECONDS)
    jumps = [(int(a * account.SECOND), int(b * account.SECOND) + account.SECOND) for a, b in faults.jumps]
    verdict, slots = account.judge(load.journal, records, faults.losable, jumps)
    outages = [(int(a * account.SECOND), int(b * account.SECOND)) for a, b in faults.periods]
    excused = sorted(outages + jumps)
    waited, waiting = account.longest_wait(records, excused)
    held, holding = account.longest_hold(records, excused)
    is_long = seconds >= LONG_SECONDS
    too_long = faults.too_long(waited, held) if is_long else {}
    for refused in load.journal.refused:
        verdict.add("refused", refused)
    doctor = client.read("/doctor", deadline + 60)
    codes = [finding["code"] for finding in doctor["findings"]]
    if faults.losable and "failover_detected" not in codes:
        verdict.add("failover_not_reported", doctor["text"])
    if faults.LAST and faults.has_clock:
        try:
            faults.once("host_clock_ahead", lambda: put_clock_ahead(client, faults, verdict))
        except NoAnswer as error:
            verdict.add("clock_ahead", str(error))
    violations = {what: n for what, n in verdict.counts.items() if what != "lost_in_failover"}
    outcomes = account.Counter(row["outcome"] for s in records.schedules.values() for row in s["slots"])
    return {
        "database": name,
        "seconds": seconds,
        "seed": seed,
        "faults": dict(faults.counts),
        "not_run": faults.skipped,
        "exits": {server.name: server.exits for server in servers},
        "acknowledged_jobs": len(load.journal.jobs),
        "requests": load.journal.requests,
        "unanswered": load.journal.unanswered,
        "changes": len(load.journal.changes),
        "jobs": len(records.jobs),
        "slots": slots,
        "outcomes": dict(outcomes),
        "violations": violations,
        "examples": dict(verdict.examples),
        "acknowledged_before_lagging_failover": account.acknowledged_within(load.journal, faults.losable),
        "lost_in_failover": verdict.counts["lost_in_failover"],
        "failed_jobs": account.failures(records.jobs),
        "longest_wait_without_outage_seconds": round(waited, 3),
        "longest_wait_job": waiting,
        "longest_hold_by_a_dead_node_seconds": round(held, 3),
        "longest_hold_job": holding,
        "too_long": too_long,
        "seconds_without_outage": round(account.outside(excused, began, ended) / account.SECOND),
        "drained_seconds": drained,
        "missing_faults": faults.missing(),
        "is_ok": not violations and not too_long and None not in drained and not (is_long and faults.missing()),
    }


def on_postgres(arguments, directory, clock):
    database = Database(directory)
    servers = []
    try:
        for k in range(SERVERS):
            servers.append(Server(arguments.punctual, f"n{k}", database.url(), directory, clock))
        faults = PostgresFaults(servers, arguments.seed, database, clock)
        return torture("postgres", servers, faults, arguments.seconds, arguments.seed)
    finally:
        for server in servers:
            server.stop()
        database.stop()


def on_sqlite(arguments, directory, clock):
    small = mount_small(os.path.join(directory, "small"), 160)
    place = small or directory
    # The database and the files for the clock are apart: a full disk must not stop the clock.
    server = Server(arguments.punctual, "n0", f"sqlite://{place}/a.db", directory, clock)
    try:
        faults = SqliteFaults([server], arguments.seed, small, clock)
        return torture("sqlite", [server], faults, arguments.seconds, arguments.seed)
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(prog="torture", description="Torture servers and judge their records")
    parser.add_argument("--punctual", required=True, help="the binary to test")
    parser.add_argument("--seconds", type=int, default=600, help="duration of the faults per database")
    parser.add_argument("--seed", type=int, default=1, help="seed of faults and load")
    parser.add_argument("--database", choices=("postgres", "sqlite", "both"), default="both")
    parser.add_argument("--keep", action="store_true", help="keep logs and data")
    arguments = parser.parse_args()
    arguments.punctual = os.path.abspath(arguments.punctual)
    clock = faketime()
    is_ok = True
    for name, run in (("postgres", on_postgres), ("sqlite", on_sqlite)):
        if arguments.database not in (name, "both"):
            continue
        directory = tempfile.mkdtemp(prefix="punctual-torture-")
        os.chmod(directory, 0o755)
        try:
            result = run(arguments, directory, clock)
        finally:
            subprocess.run(["umount", "-q", os.path.join(directory, "small")], check=False)
            if arguments.keep:
                print(f"kept {directory}", file=sys.stderr)
            else:
                shutil.rmtree(directory, ignore_errors=True)
        if not clock:
            result["not_run"].append("clock jumps: install Debian's package faketime")
        print(json.dumps(result), flush=True)
        is_ok &= result["is_ok"]
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
