"""The plan of the faults: nothing that did not happen is counted."""

import unittest

from faults import PostgresFaults, SqliteFaults


class Plan(unittest.TestCase):
    def test_a_fault_that_cannot_run_here_is_missing(self):
        faults = SqliteFaults([], 1, None, True)
        faults.once("disk_full", faults.disk_full)
        self.assertEqual(faults.counts["disk_full"], 0)
        self.assertIn("disk_full", faults.missing())
        self.assertEqual(len(faults.skipped), 1)

    def test_only_an_outage_excuses_a_wait(self):
        faults = PostgresFaults([], 1, None, True)
        faults.once("kill", lambda: None)
        self.assertEqual(faults.periods, [])
        faults.once("database_crash", lambda: None)
        self.assertEqual(len(faults.periods), 1)
        self.assertEqual(dict(faults.counts), {"kill": 1, "database_crash": 1})

    def test_waits_and_holds_have_a_bound(self):
        faults = PostgresFaults([], 1, None, True)
        self.assertEqual(faults.too_long(29.9, 44.9), {})
        self.assertEqual(faults.too_long(30.1, 45.1), {"wait": 30.1, "hold": 45.1})

    def test_every_random_and_planned_fault_is_a_kind(self):
        for faults in (PostgresFaults([], 1, None, True), SqliteFaults([], 1, None, True)):
            names = {name for name, _ in faults.weights()} | {name for _, name, _ in faults.planned()}
            self.assertEqual(names | faults.LAST, faults.KINDS)


if __name__ == "__main__":
    unittest.main()
