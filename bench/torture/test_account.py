"""The account accepts a correct run and finds every violation that is planted in it."""

import unittest

import account
from load import IMMEDIATE, ORDER, Journal

START = "2027-01-01T00:00:00.5Z"


def at(second, micro=0):
    return f"2027-01-01T00:00:{second:02}.{micro:06}Z"


def row(second, outcome="fired", job=None, **more):
    basis = {
        "slot": at(second), "end": None, "count": 1, "outcome": outcome, "job": job,
        "decided_at": at(second, 900),
    }  # fmt: skip
    return basis | more


def job(id, second, finished, schedule="id-s", **more):
    basis = {
        "id": id, "state": "succeeded", "schedule": schedule, "slot": at(second), "error": None,
        "created_at": at(second, 900), "finished_at": at(finished), "tags": [], "payload": {},
        "kind": "echo", "attempts": [attempt(1, at(second, 950), at(finished), "succeeded")],
    }  # fmt: skip
    return basis | more


def attempt(number, claimed_at, ended_at, outcome):
    return {"attempt": number, "claimed_at": claimed_at, "ended_at": ended_at, "outcome": outcome}


def jump(first, last):
    return account.micros(at(first)), account.micros(at(last))


def run():
    """A schedule every 2 s: two slots, a pause over two, a slot, one that is skipped, and the end."""
    definition = {"when": ["@every 2s"], "overlap": "skip"}
    schedule = {
        "name": "s", "id": "id-s", "definition": definition,
        "revisions": [{"at": START, "definition": definition}],
        "slots": [
            row(2, job="a"), row(4, job="b"),
            row(6, "skipped_paused", end=at(8), count=2, decided_at=at(9, 5)),
            row(10, job="c"), row(12, "skipped_overlap"),
        ],
    }  # fmt: skip
    actions = [("create", START), ("pause", at(5)), ("resume", at(9)), ("disable", at(13))]
    audit = [
        {"id": number, "at": when, "subject": "s", "action": f"{action} schedule"}
        for number, (action, when) in enumerate(actions, 1)
    ]
    order = job("order", 3, 4, schedule=None, slot=None, tags=[IMMEDIATE, ORDER + "1"])
    later = job("later", 3, 9, schedule=None, slot=None, tags=[ORDER + "2"])
    later["attempts"][0]["claimed_at"] = at(8, 901)
    jobs = [job("a", 2, 3), job("b", 4, 5), job("c", 10, 13), order, later]
    journal = Journal()
    journal.acknowledge_job("1", "order", 1)
    journal.acknowledge_job("2", "later", 1)
    journal.delays["2"] = 5
    journal.acknowledge_change("s", "pause", at(5))
    return journal, account.Records({job["id"]: job for job in jobs}, {"s": schedule}, audit)


def violations(change, **more):
    journal, records = run()
    change(journal, records)
    verdict, _ = account.judge(journal, records, **more)
    return dict(verdict.counts)


class Account(unittest.TestCase):
    def check(self, expected, change, **more):
        self.assertEqual(violations(change, **more), expected)

    def test_a_correct_run_has_no_violations(self):
        self.check({}, lambda journal, records: None)
        journal, records = run()
        self.assertEqual(account.judge(journal, records)[1], 6)

    def test_slots(self):
        slots = lambda records: records.schedules["s"]["slots"]
        self.check({"without_outcome": 1, "job_of_no_slot": 1}, lambda _, records: slots(records).pop(1))
        self.check({"without_outcome": 1}, lambda _, records: slots(records).pop(4))
        late = {"decided_at": at(2, 900).replace("T00:00", "T00:02")}
        self.check({}, lambda _, records: self.drop(records, "a", "missed", **late))
        self.check({"missed_on_time": 1}, lambda _, records: self.drop(records, "a", "missed"))
        self.check({"missed_on_time": 1}, lambda _, records: self.drop(records, "a", "coalesced"))
        self.check({"not_paused": 1}, lambda _, records: self.drop(records, "a", "skipped_paused"))
        self.check({"duplicate": 1}, lambda _, records: slots(records).append(row(12, "skipped_overlap")))
        self.check({"slot_not_due": 1}, lambda _, records: slots(records).append(row(11, "missed")))
        self.check({"early": 1}, lambda _, records: slots(records)[0].update(decided_at=at(1)))
        self.check({"early": 1}, lambda _, records: slots(records)[2].update(decided_at=at(7)))
        self.check({"wrong_count": 1}, lambda _, records: slots(records)[2].update(count=3))
        fire = lambda _, records: slots(records)[2].update(outcome="fired", job="x")
        self.check({"fired_in_pause": 1, "lost": 1}, fire)

    def drop(self, records, id, outcome, **more):
        """Decides the slot of a job otherwise, so that there is no such job."""
        del records.jobs[id]
        (found,) = [row for row in records.schedules["s"]["slots"] if row["job"] == id]
        found.update(outcome=outcome, job=None, **more)

    def test_a_disable_leaves_no_due_slot_undecided(self):
        late = lambda _, records: records.audit[3].update(at=at(14, 7))
        self.check({"without_outcome": 1}, late)

    def test_every_slot_has_one_job(self):
        self.check({"lost": 1}, lambda _, records: records.jobs.pop("a"))
        again = lambda _, records: records.jobs.update(x=job("x", 4, 5) | {"created_at": at(5, 1)})
        self.check({"duplicate": 1}, again)
        other = lambda _, records: records.jobs["a"].update(slot=at(1))
        self.check({"job_of_no_slot": 1}, other)

    def test_a_slot_is_skipped_only_during_a_job(self):
        gone = lambda _, records: self.drop(records, "c", "skipped_overlap")
        self.check({}, gone)
        late = lambda _, records: records.schedules["s"]["slots"][4].update(decided_at=at(50, 1))
        self.check({"skipped_without_job": 1}, late)
        self.check({}, late, jumps=[jump(40, 41)])

    def test_jobs(self):
        jobs = lambda records: records.jobs
        self.check({"lost": 1}, lambda _, records: jobs(records).pop("order"))
        self.check({"lost": 1}, lambda _, records: jobs(records).pop("later"))
        self.check({"unfinished": 1}, lambda _, records: jobs(records)["a"].update(state="running"))
        two = lambda journal, _: journal.acknowledge_job("1", "a", 1)
        self.check({"two_ids": 1}, two)
        # A second job of a request whose first answer was lost.
        again = job("again", 6, 7, schedule=None, slot=None, tags=[IMMEDIATE, ORDER + "1"])
        unknown = lambda journal, records: jobs(records).update(again=again) or journal.miss()
        self.check({"duplicate_job": 1}, unknown)
        soon = lambda _, records: jobs(records)["later"]["attempts"][0].update(claimed_at=at(8))
        self.check({"early": 1}, soon)
        unknown = lambda _, records: jobs(records).update(x=job("x", 6, 7, schedule=None, slot=None))
        self.check({"job_of_no_order": 1}, unknown)
        early = lambda _, records: jobs(records)["a"]["attempts"][0].update(claimed_at=at(1))
        self.check({"early": 1}, early)

    def test_only_a_failover_may_lose_a_job(self):
        lose = lambda _, records: records.jobs.pop("order")
        self.check({"lost_in_failover": 1}, lose, losable=[(0, float("inf"))])

    def test_overlap(self):
        late = lambda _, records: records.jobs["a"].update(finished_at=at(4, 901))
        self.check({"overlap": 1}, late)
        self.check({}, late, jumps=[jump(3, 5)])
        definition = lambda records: records.schedules["s"]["definition"]

        def allowed(journal, records):
            definition(records).update(overlap="allow")
            late(journal, records)

        self.check({}, allowed)

    def test_queued_jobs_run_one_after_the_other(self):
        def queue(claimed_at):
            def change(_, records):
                records.schedules["s"]["definition"].update(overlap="queue_all")
                records.jobs["a"].update(finished_at=at(7))
                records.jobs["b"]["attempts"][0].update(claimed_at=claimed_at)

            return change

        self.check({}, queue(at(7, 1)))
        self.check({"overlap": 1}, queue(at(6, 999)))

    def cancel_running(self, records, claimed_at=None, **more):
        """Job `a` runs until the slot of `b` cancels it."""
        records.schedules["s"]["definition"].update(overlap="cancel_running")
        records.schedules["s"]["slots"].pop()
        records.audit[3].update(at=at(11))
        records.jobs["a"].update(state="cancelled", finished_at=at(4, 910), **more)
        records.jobs["a"]["attempts"][0].update(outcome="cancelled", ended_at=at(4, 910))
        if claimed_at:
            records.jobs["a"]["attempts"][0].update(claimed_at=claimed_at)

    def test_a_slot_cancels_the_job_before_it(self):
        self.check({}, lambda _, records: self.cancel_running(records))
        self.check({"cancelled_without_slot": 1}, lambda _, records: records.jobs["a"].update(state="cancelled"))
        self.check({"cancelled_without_slot": 1}, lambda _, records: records.jobs["order"].update(state="cancelled"))

        def last(_, records):
            self.cancel_running(records)
            records.jobs["c"].update(state="cancelled")

        self.check({"cancelled_without_slot": 1}, last)

        def late(_, records):
            self.cancel_running(records)
            records.jobs["a"]["attempts"].append(attempt(2, at(9, 911), at(9, 920), "succeeded"))
            records.jobs["a"].update(state="succeeded", finished_at=at(9, 920))

        # The job of the next slot did not wait for it, either.
        self.check({"started_after_cancel": 1, "overlap": 1}, late)
        self.check({}, late, jumps=[jump(3, 8)])

        def running(_, records):
            self.cancel_running(records)
            records.jobs["b"]["attempts"][0].update(claimed_at=at(4, 905))

        self.check({"overlap": 1}, running)

    def test_a_slot_is_replaced_only_by_a_later_one(self):
        def replaced(decided_at):
            def change(_, records):
                self.cancel_running(records)
                self.drop(records, "a", "skipped_overlap", decided_at=decided_at)

            return change

        self.check({}, replaced(at(4, 900)))
        self.check({"skipped_without_job": 1}, replaced(at(4, 800)))

    def test_attempts_of_a_job_do_not_overlap(self):
        def attempts(*attempts):
            return lambda _, records: records.jobs["order"].update(attempts=list(attempts))

        first = attempt(1, at(3, 950), at(5), "abandoned")
        self.check({}, attempts(first, attempt(2, at(5), at(6), "succeeded")))
        early = attempts(first, attempt(2, at(4, 999), at(6), "succeeded"))
        self.check({"attempts_overlap": 1}, early)
        self.check({}, early, jumps=[jump(5, 5)])
        endless = attempt(1, at(3, 950), None, None)
        self.check({"attempts_overlap": 1}, attempts(endless, attempt(2, at(5), at(6), "succeeded")))
        again = attempt(1, at(5), at(6), "succeeded")
        self.check({"attempt_numbers": 1}, attempts(first, again))

    def realigned(self, change, ahead_until=at(50)):
        """A schedule that is realigned at 00:04, when slots up to 00:50 were decided."""
        schedule = {
            "definition": {"when": ["@every 2s"]}, "ahead_until": None, "last_slot": at(10),
            "slots": [row(2), row(4, "missed"), row(6), row(8), row(10)],
        }  # fmt: skip
        change(schedule)
        verdict = account.Verdict()
        ahead = {"ahead_until": ahead_until, "last_slot": at(50)}
        account.judge_realigned(verdict, "s", ahead, at(4, 7), schedule)
        return dict(verdict.counts)

    def test_after_a_realignment_each_slot_fires_once_at_its_time(self):
        slots = lambda schedule: schedule["slots"]
        self.assertEqual(self.realigned(lambda schedule: None), {})
        self.assertEqual(self.realigned(lambda schedule: None, ahead_until=None), {"not_ahead": 1})
        still = lambda schedule: schedule.update(ahead_until=at(50))
        self.assertEqual(self.realigned(still), {"still_ahead": 1})
        self.assertEqual(self.realigned(lambda schedule: slots(schedule).pop(3)), {"not_once": 1})
        twice = lambda schedule: slots(schedule).append(row(8))
        self.assertEqual(self.realigned(twice), {"not_once": 1})
        kept = lambda schedule: slots(schedule)[3].update(decided_at=at(7))
        self.assertEqual(self.realigned(kept), {"not_at_its_time": 1})
        missed = lambda schedule: slots(schedule)[3].update(outcome="missed")
        self.assertEqual(self.realigned(missed), {"not_fired": 1})
        none = lambda schedule: schedule.update(slots=slots(schedule)[:2], last_slot=at(4))
        self.assertEqual(self.realigned(none), {"not_realigned": 1})

    def test_jobs_that_a_failover_may_lose_are_counted(self):
        journal, _ = run()
        self.assertEqual(account.acknowledged_within(journal, [(0, float("inf"))]), 2)
        self.assertEqual(account.acknowledged_within(journal, [(0, 1)]), 0)

    def test_acknowledged_changes(self):
        lost = lambda journal, _: journal.acknowledge_change("s", "edit", at(7))
        self.check({"lost_change": 1}, lost)

    def test_the_longest_wait_leaves_out_faults(self):
        _, records = run()
        records.jobs["order"]["attempts"][0]["claimed_at"] = at(9, 900)
        self.assertEqual(account.longest_wait(records, []), (6.0, "order"))
        faults = [(account.micros(at(4)), account.micros(at(8)))]
        self.assertEqual(account.longest_wait(records, faults), (2.0, "order"))

    def test_the_longest_wait_includes_jobs_of_schedules_that_wait_for_no_other(self):
        _, records = run()
        records.jobs["b"]["attempts"][0]["claimed_at"] = at(5, 900)
        self.assertEqual(account.longest_wait(records, []), (1.0, "b"))
        records.schedules["s"]["definition"]["overlap"] = "queue_all"
        self.assertEqual(account.longest_wait(records, [])[1], "order")

    def test_the_longest_wait_includes_the_time_after_a_lost_attempt(self):
        _, records = run()
        lost, last = attempt(1, at(3), at(5), "abandoned"), attempt(2, at(9), at(10), "succeeded")
        records.jobs["order"]["attempts"] = [lost, last]
        self.assertEqual(account.longest_wait(records, []), (4.0, "order"))
        # A retry waits for its delay.
        lost["outcome"] = "failed"
        self.assertEqual(account.longest_wait(records, []), (0.00005, "c"))

    def test_the_longest_hold_is_counted_from_the_end_of_the_work(self):
        _, records = run()
        records.jobs["order"]["payload"] = {"seconds": 1.5}
        records.jobs["order"]["attempts"][0] = attempt(1, at(3), at(9), "abandoned")
        self.assertEqual(account.longest_hold(records, []), (4.5, "order"))
        faults = [(account.micros(at(5)), account.micros(at(8)))]
        self.assertEqual(account.longest_hold(records, faults), (1.5, "order"))

    def test_a_job_fails_only_if_it_must_or_its_nodes_died(self):
        fail = lambda error, **more: lambda _, records: records.jobs["order"].update(
            state="failed", error=error, **more
        )
        self.check({"failed_without_reason": 1}, fail("expired"))
        self.check({}, fail(account.CRASHED))
        self.check({}, fail("requested", kind="fail"))
        self.check({"wrong_outcome": 1}, lambda _, records: records.jobs["order"].update(kind="fail"))

    def test_a_job_without_an_order_is_found_after_a_failover_too(self):
        other = job("other", 3, 4, schedule=None, slot=None, tags=[IMMEDIATE])
        add = lambda _, records: records.jobs.update(other=other)
        self.check({"job_of_no_order": 1}, add)
        self.check({"job_of_no_order": 1}, add, losable=[(0, 1)])

    def test_a_jump_of_the_clock_hides_only_changes_and_slots_of_its_time(self):
        lose = lambda _, records: records.schedules["s"]["slots"].pop(4)
        self.check({"without_outcome": 1}, lose, jumps=[jump(3, 5)])
        # There is no change of the schedule in this time.
        self.check({"without_outcome": 1}, lose, jumps=[jump(12, 12)])
        self.check({}, lose, jumps=[jump(11, 14)])

    def test_what_is_unclear_in_one_jump_is_unclear_in_the_next(self):
        lose = lambda _, records: records.schedules["s"]["slots"].pop(1)
        apart, overlapping = [jump(3, 4), jump(5, 6)], [jump(3, 5), jump(5, 6)]
        gone = {"without_outcome": 1, "job_of_no_slot": 1}
        self.check(gone, lose, jumps=apart)
        self.check({"job_of_no_slot": 1}, lose, jumps=overlapping)

    def test_a_claim_is_not_compared_with_a_due_time_near_a_jump(self):
        early = lambda _, records: records.jobs["later"]["attempts"][0].update(claimed_at=at(7))
        self.check({"early": 1}, early)
        self.check({}, early, jumps=[jump(6, 7)])

    def test_time_outside_of_outages_is_added_up(self):
        self.assertEqual(account.outside([(2, 5), (4, 6), (9, 20)], 0, 10), 5)

    def test_reasons_of_failures_are_grouped(self):
        failed = {k: {"state": "failed", "error": f"exit code {k}"} for k in (1, 2)}
        self.assertEqual(account.failures(failed), {"exit code N": 2})


if __name__ == "__main__":
    unittest.main()
