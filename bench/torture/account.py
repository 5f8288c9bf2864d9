"""Judges the records of the product against the journal of the clients.

It shares no code with punctual. Slots are computed here, from the audit log and the revisions:
`@every N s` is due at each multiple of N seconds since 1970. All instants of the records are read
from the database's clock, as microseconds since 1970.
"""

import re
from collections import Counter, defaultdict
from datetime import datetime, timezone

from load import IMMEDIATE, ORDER

SECOND = 1_000_000
FINAL = {"succeeded", "failed", "cancelled"}
WITH_JOB = ("fired", "caught_up")
# A slot that is decided within this time is on time: it becomes a job, or is skipped.
ON_TIME = 60 * SECOND
# Jobs of these schedules wait for each other.
QUEUED = ("queue_one", "queue_all", "cancel_running")
# A job that its node did not survive this often fails. The only other reason is the kind `fail`.
CRASHED = "its node died 3 times while running it"
# A slot may be skipped because of a job that finished this long before: the database can take a while
# to commit the result of a job, whose instant was read before.
LATE_COMMIT = 30 * SECOND
# A job may still start this long after the instant of the slot that cancels it: that instant is read
# before the jobs are locked.
LATE_CANCEL = 5 * SECOND


def micros(text):
    """Reads an RFC 3339 instant in UTC."""
    date, _, fraction = text.rstrip("Z").partition(".")
    whole = datetime.strptime(date, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return int(whole.timestamp()) * SECOND + int((fraction + "000000")[:6])


def interval(definition):
    """The interval of a definition, in seconds."""
    (when,) = definition["when"]
    return int(re.fullmatch(r"@every (\d+)s", when).group(1))


class Records:
    """Everything that the product says at the end of a run."""

    def __init__(self, jobs, schedules, audit):
        # id -> job with its attempts.
        self.jobs = jobs
        # name -> {"id", "definition", "slots", "revisions"}.
        self.schedules = schedules
        self.audit = audit

    @staticmethod
    def read(client, names, deadline):
        jobs = {}
        for job in client.pages("/jobs", deadline):
            jobs[job["id"]] = client.read(f"/jobs/{job['id']}", deadline)
        schedules = {}
        for name in names:
            schedule = client.read(f"/schedules/{name}", deadline)
            schedule["slots"] = list(client.pages(f"/schedules/{name}/slots", deadline))
            schedule["revisions"] = list(client.pages(f"/schedules/{name}/revisions", deadline))
            schedules[name] = schedule
        return Records(jobs, schedules, list(client.pages("/audit", deadline)))


class Period:
    """A time during which the rule of a schedule did not change. Slots in (start, end] belong to it."""

    def __init__(self, start, end, seconds, is_paused):
        self.start, self.end = start, end
        self.seconds, self.is_paused = seconds, is_paused

    def slots(self):
        step = self.seconds * SECOND
        return range((self.start // step + 1) * step, self.end + 1, step)


def periods(schedule, audit):
    """The periods in which a schedule was enabled, in order of the audit log."""
    rules = {micros(revision["at"]): interval(revision["definition"]) for revision in schedule["revisions"]}
    entries = [entry for entry in audit if entry["subject"] == schedule["name"]]
    found, since, seconds = [], None, None
    is_enabled, is_paused = True, False
    for entry in sorted(entries, key=lambda entry: entry["id"]):
        at, action = micros(entry["at"]), entry["action"].split()[0]
        if since is not None and is_enabled and at > since:
            found.append(Period(since, at, seconds, is_paused))
        since = at
        if action in ("create", "edit"):
            seconds = rules[at]
        elif action in ("enable", "disable"):
            is_enabled = action == "enable"
        elif action in ("pause", "resume"):
            is_paused = action == "pause"
        else:
            raise RuntimeError(f"unknown action in the audit log: {entry['action']}")
    if is_enabled:
        raise RuntimeError(f"{schedule['name']} is still enabled")
    return found


class Verdict:
    """Counts of violations, with the first examples of each."""

    def __init__(self):
        self.counts = Counter()
        self.examples = defaultdict(list)

    def add(self, what, example):
        self.counts[what] += 1
        if len(self.examples[what]) < 5:
            self.examples[what].append(example)


def covered(row, seconds):
    """The slots that one row of the ledger decides."""
    first = micros(row["slot"])
    last = micros(row["end"]) if row["end"] else first
    return range(first, last + 1, seconds * SECOND)


def is_jumping(jumps, first, last):
    """Whether a jump of the clock touches the time between these instants, so that they cannot be
    compared. `jumps` lists periods (start, end) through which the clock went twice, or not at all."""
    return any(first <= end and start <= last for start, end in jumps)


def joined(jumps):
    """The same periods, as one where they overlap: what is unclear in one of them is so in all."""
    found = []
    for start, end in sorted(jumps):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def judge_slots(verdict, name, schedule, audit, jumps):
    """Every due slot has exactly one outcome; none is early, none is decided that was not due. The
    outcome fits the state of the schedule and the time of the decision."""
    due = {}
    for period in periods(schedule, audit):
        for slot in period.slots():
            due[slot] = period
    # Two rules can meet at the same instant only if a change happens exactly at a slot.
    edges = {micros(entry["at"]) for entry in audit if entry["subject"] == name}
    # In these periods the audit log does not say in which order changes and slots came.
    unclear = [jump for jump in jumps if any(jump[0] <= edge <= jump[1] for edge in edges)]
    pauses = [period for period in periods(schedule, audit) if period.is_paused]
    decided = Counter()
    for row in schedule["slots"]:
        first = micros(row["slot"])
        period = due.get(first)
        end = micros(row["end"] or row["slot"])
        if is_jumping(unclear, first, end):
            decided.update(slot for slot in due if first <= slot <= end)
            continue
        if period is None:
            if first not in edges:
                verdict.add("slot_not_due", f"{name} {row['slot']} {row['outcome']}")
            continue
        slots = covered(row, period.seconds)
        if len(slots) != row["count"]:
            verdict.add("wrong_count", f"{name} {row['slot']} {row['end']} counts {row['count']}")
        decided_at, last, outcome = micros(row["decided_at"]), slots[-1], row["outcome"]
        if decided_at < last:
            verdict.add("early", f"{name} {row['slot']} {row['end']} decided {row['decided_at']}")
        if period.is_paused and outcome in WITH_JOB:
            verdict.add("fired_in_pause", f"{name} {row['slot']} {outcome}")
        # A pause that begins before the slots of the last one were written down continues it.
        was_paused = any(0 <= first - pause.end <= ON_TIME for pause in pauses)
        if outcome == "skipped_paused" and not period.is_paused and not was_paused:
            verdict.add("not_paused", f"{name} {row['slot']} {outcome}")
        # A change decides what is due at its own instant.
        is_late = decided_at - last >= ON_TIME or decided_at in edges
        if outcome in ("missed", "coalesced") and not is_late and not is_jumping(jumps, last, decided_at):
            verdict.add("missed_on_time", f"{name} {row['slot']} {row['end']} decided {row['decided_at']}")
        decided.update(slots)
    for slot in due:
        if slot in edges or is_jumping(unclear, slot, slot):
            continue
        if decided[slot] == 0:
            verdict.add("without_outcome", f"{name} {slot // SECOND}")
        elif decided[slot] > 1:
            verdict.add("duplicate", f"{name} {slot // SECOND}: {decided[slot]} rows")
    return len(due)


def judge_slot_jobs(verdict, name, schedule, jobs):
    """Every slot with a job has exactly one, which exists; every job of a slot is in the ledger."""
    expected = {row["job"]: row["slot"] for row in schedule["slots"] if row["outcome"] in WITH_JOB}
    for id, slot in expected.items():
        if id not in jobs:
            verdict.add("lost", f"{name} {slot}: job {id}")
    fired = Counter()
    for job in jobs:
        if jobs[job]["schedule"] != schedule["id"] or not jobs[job]["slot"]:
            continue
        slot = jobs[job]["slot"]
        fired[slot] += 1
        if fired[slot] > 1:
            verdict.add("duplicate", f"{name} {slot}: {fired[slot]} jobs")
        elif expected.get(job) != slot:
            verdict.add("job_of_no_slot", f"{name} {slot}: job {job}")


def jobs_of(schedule, jobs):
    """The finished jobs of a schedule."""
    return [job for job in jobs.values() if job["schedule"] == schedule["id"] and job["finished_at"]]


def judge_overlap(verdict, name, schedule, jobs, jumps):
    """With `overlap = skip` no slot fires while an earlier job of the schedule is unfinished. With
    the other policies but `allow` no job starts while an earlier one is unfinished."""
    overlap = schedule["definition"]["overlap"]
    spans = []
    for job in jobs_of(schedule, jobs):
        start = micros(job["created_at"])
        if overlap in QUEUED:
            if not job["attempts"]:
                continue
            start = micros(job["attempts"][0]["claimed_at"])
        elif overlap != "skip":
            return
        spans.append((micros(job["slot"] or job["created_at"]), start, micros(job["finished_at"]), job["id"]))
    latest = None
    for _, start, end, id in sorted(spans):
        is_early = latest is not None and latest[1] > start
        if is_early and not is_jumping(jumps, min(start, latest[0]), latest[1]):
            verdict.add("overlap", f"{name}: {id} while {latest[2]} was unfinished")
        if latest is None or end > latest[1]:
            latest = (start, end, id)


def judge_cancels(verdict, name, schedule, jobs, jumps):
    """With `overlap = cancel_running` a slot cancels the earlier jobs: none of them starts after it. No
    other job is cancelled."""
    is_cancelling = schedule["definition"]["overlap"] == "cancel_running"
    later = None
    for job in sorted(jobs_of(schedule, jobs), key=lambda job: micros(job["slot"] or job["created_at"]), reverse=True):
        if job["state"] == "cancelled" and not (is_cancelling and later is not None):
            verdict.add("cancelled_without_slot", f"{name}: {job['id']}")
        for attempt in job["attempts"] if is_cancelling and later is not None else ():
            claimed = micros(attempt["claimed_at"])
            if claimed > later + LATE_CANCEL and not is_jumping(jumps, later, claimed):
                verdict.add("started_after_cancel", f"{name}: {job['id']} claimed {attempt['claimed_at']}")
        created = micros(job["created_at"])
        later = created if later is None else min(later, created)


def judge_attempts(verdict, jobs, jumps):
    """No attempt of a job begins before the one before it has ended. An attempt that lost its lease has
    ended when the lease was taken back, so its node cannot explain an overlap."""
    for id, job in jobs.items():
        attempts = sorted(job["attempts"], key=lambda attempt: attempt["attempt"])
        numbers = [attempt["attempt"] for attempt in attempts]
        if numbers != list(range(1, len(numbers) + 1)):
            verdict.add("attempt_numbers", f"{id}: {numbers}")
        for earlier, later in zip(attempts, attempts[1:]):
            claimed = micros(later["claimed_at"])
            ended = micros(earlier["ended_at"]) if earlier["ended_at"] else None
            if ended is not None and (claimed >= ended or is_jumping(jumps, claimed, ended)):
                continue
            what = f"claimed {later['claimed_at']}, the one before ended {earlier['ended_at']}"
            verdict.add("attempts_overlap", f"{id} attempt {later['attempt']} {what}")


def judge_skips(verdict, name, schedule, jobs, jumps):
    """A slot is skipped only because of an unfinished job, or with `cancel_running` because a later slot
    was due at the same time. A schedule that waits for a job that no longer exists would skip all
    slots."""
    is_cancelling = schedule["definition"]["overlap"] == "cancel_running"
    fired = [(micros(row["slot"]), row["decided_at"]) for row in schedule["slots"] if row["outcome"] in WITH_JOB]
    spans = [(micros(job["created_at"]), micros(job["finished_at"])) for job in jobs_of(schedule, jobs)]
    for row in schedule["slots"]:
        at = micros(row["decided_at"])
        if row["outcome"] != "skipped_overlap" or is_jumping(jumps, at - LATE_COMMIT, at):
            continue
        if is_cancelling:
            first = micros(row["slot"])
            is_right = any(slot > first and decided_at == row["decided_at"] for slot, decided_at in fired)
        else:
            is_right = any(start <= at <= end + LATE_COMMIT for start, end in spans)
        if not is_right:
            verdict.add("skipped_without_job", f"{name} {row['slot']} decided {row['decided_at']}")


def judge_jobs(verdict, journal, records, losable, jumps):
    """Every acknowledged job exists once and is finished. `losable` lists periods (wall clock)
    before a fail-over to a standby that lagged: what was acknowledged in them may be lost."""
    known = set()
    orders = Counter(order_of(job) for job in records.jobs.values())
    for number, count in orders.items():
        if number is not None and count > 1:
            verdict.add("duplicate_job", f"order {number}: {count} jobs")
    for number, (ids, at) in journal.jobs.items():
        known |= ids
        missing = [id for id in ids if id not in records.jobs]
        is_losable = any(start <= at <= end for start, end in losable)
        if missing:
            what = "lost_in_failover" if is_losable else "lost"
            verdict.add(what, f"order {number}: {missing}")
        if len(ids) > 1 and not is_losable:
            verdict.add("two_ids", f"order {number}: {sorted(ids)}")
    for id, job in records.jobs.items():
        if job["state"] not in FINAL:
            verdict.add("unfinished", f"{id} {job['state']}")
        has_failed, must_fail = job["state"] == "failed", job["kind"] == "fail"
        if has_failed and not must_fail and job["error"] != CRASHED:
            verdict.add("failed_without_reason", f"{id} {job['error']}")
        if must_fail and job["state"] == "succeeded":
            verdict.add("wrong_outcome", f"{id} {job['state']}")
        if job["schedule"] is None and job["state"] == "cancelled":
            verdict.add("cancelled_without_slot", id)
        if job["schedule"] is None and id not in known and journal.unanswered == 0:
            verdict.add("job_of_no_order", id)
        due = micros(job["slot"] or job["created_at"])
        due += journal.delays.get(order_of(job), 0) * SECOND
        for attempt in job["attempts"][:1]:
            claimed = micros(attempt["claimed_at"])
            if claimed < due and not is_jumping(jumps, claimed, due):
                verdict.add("early", f"{id} claimed {attempt['claimed_at']}, due {due / SECOND}")


def order_of(job):
    """The number of the order that the job was created for, or None."""
    numbers = [tag[len(ORDER):] for tag in job["tags"] if tag.startswith(ORDER)]
    return numbers[0] if numbers else None


def judge_changes(verdict, journal, records, losable):
    """Every acknowledged change of a schedule is in the audit log."""
    recorded = {(entry["subject"], micros(entry["at"])) for entry in records.audit}
    for name, action, changed_at, at in journal.changes:
        is_losable = any(start <= at <= end for start, end in losable)
        # A request that changes nothing returns the instant of the last change.
        if (name, micros(changed_at)) not in recorded and not is_losable:
            verdict.add("lost_change", f"{action} {name} at {changed_at}")


def failures(jobs):
    """How many jobs failed for each reason. Numbers and ids are removed to group them."""
    reasons = Counter()
    for job in jobs.values():
        if job["state"] == "failed":
            reason = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+(\.\d+)?", "N", job["error"] or "none")
            reasons[reason] += 1
    return dict(reasons)


def outside(periods, start, end):
    """How much of the time from `start` to `end` is in none of these periods, which are in order."""
    total, begin = 0, start
    for first, last in periods:
        total += max(0, min(first, end) - begin)
        begin = max(begin, min(last, end))
    return total + max(0, end - begin)


def waits(job):
    """The periods in which a job was due and nothing ran it: before its first attempt, and after each
    attempt that the death or the stop of its node ended."""
    since = job["created_at"]
    for attempt in job["attempts"]:
        if since:
            yield micros(since), micros(attempt["claimed_at"])
        since = attempt["ended_at"] if attempt["outcome"] in ("abandoned", "released") else None


def longest_wait(records, faults):
    """The longest time, in seconds, that a due job waited outside of `faults`: periods (start, end) of
    the database's clock in microseconds in which no server could claim jobs. Jobs that are not due at
    once, or that wait for an earlier job of their schedule or for one node, are left out."""
    longest = (0.0, "")
    definitions = [(s["id"], s["definition"]) for s in records.schedules.values()]
    free = {id for id, d in definitions if d["overlap"] not in QUEUED and d.get("run_on", "any") == "any"}
    for job in records.jobs.values():
        if IMMEDIATE not in job["tags"] and job["schedule"] not in free:
            continue
        for start, end in waits(job):
            longest = max(longest, (outside(faults, start, end) / SECOND, job["id"]))
    return longest


def longest_hold(records, faults):
    """The longest time, in seconds, that a dead node held a job outside of `faults`: from the end of
    the work, had the node not died, until another attempt was allowed."""
    longest = (0.0, "")
    for job in records.jobs.values():
        work = micros_of(job["payload"])
        for attempt in job["attempts"]:
            if attempt["outcome"] == "abandoned":
                start, end = micros(attempt["claimed_at"]) + work, micros(attempt["ended_at"])
                longest = max(longest, (outside(faults, start, max(start, end)) / SECOND, job["id"]))
    return longest


def micros_of(payload):
    """How long a job with this payload runs."""
    seconds = payload.get("seconds", 0) if isinstance(payload, dict) else 0
    return int(seconds * SECOND)


def acknowledged_within(journal, losable):
    """How many jobs were acknowledged in these periods, in which a fail-over may lose them."""
    return sum(any(start <= at <= end for start, end in losable) for _, at in journal.jobs.values())


def judge_realigned(verdict, name, ahead, after, schedule):
    """A schedule whose clock was ahead, as it was read while it waited and some time after it was
    realigned, with its slots. From the realignment on each slot fires once, at its time."""
    if ahead["ahead_until"] is None:
        verdict.add("not_ahead", f"{name} {ahead['last_slot']}")
    if schedule["ahead_until"] is not None:
        verdict.add("still_ahead", f"{name} until {schedule['ahead_until']}")
    step = interval(schedule["definition"]) * SECOND
    after, last = micros(after), micros(schedule["last_slot"])
    decided = Counter()
    for row in schedule["slots"]:
        slot, at = micros(row["slot"]), micros(row["decided_at"])
        end = micros(row["end"] or row["slot"])
        if end <= after:
            continue
        decided[slot] += 1
        if not slot <= at < slot + ON_TIME:
            verdict.add("not_at_its_time", f"{name} {row['slot']} {row['end']} decided {row['decided_at']}")
        if row["outcome"] != "fired":
            verdict.add("not_fired", f"{name} {row['slot']} {row['outcome']}")
    for slot in range((after // step + 1) * step, last + 1, step):
        if decided[slot] != 1:
            verdict.add("not_once", f"{name} {slot // SECOND}: {decided[slot]} rows")
    if not decided:
        verdict.add("not_realigned", f"{name} has no slot after its realignment")


def judge(journal, records, losable=(), jumps=()):
    """The verdict, and the number of due slots."""
    jumps = joined(jumps)
    verdict = Verdict()
    slots = 0
    for name, schedule in records.schedules.items():
        slots += judge_slots(verdict, name, schedule, records.audit, jumps)
        judge_slot_jobs(verdict, name, schedule, records.jobs)
        judge_overlap(verdict, name, schedule, records.jobs, jumps)
        judge_skips(verdict, name, schedule, records.jobs, jumps)
        judge_cancels(verdict, name, schedule, records.jobs, jumps)
    judge_attempts(verdict, records.jobs, jumps)
    judge_jobs(verdict, journal, records, losable, jumps)
    judge_changes(verdict, journal, records, losable)
    return verdict, slots
