"""Faults: kills, freezes, crash loops, clock jumps, database crashes, fail-overs, full disks."""

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter

from postgres import Postgres, Proxy, own

# Longest pause between two faults, in seconds.
PAUSE_SECONDS = 4
# A node is declared dead after 15 s of silence, so some freezes are longer.
FREEZE_SECONDS = 18
CRASH_LOOP_SECONDS = 70
# A full disk stays full for this long.
FULL_SECONDS = 6
# How far a standby lags before an asynchronous fail-over, in seconds.
LAG_SECONDS = 3
# Connections are made again within this time after an outage.
RECOVERY_SECONDS = 10
# Clock jumps of a node on PostgreSQL, whose own clock must not matter, in seconds.
NODE_JUMPS = (-7200, -90, -5, 5, 90, 7200)
# Clock jumps of the host on SQLite. Slots up to a minute late count as fired in time.
HOST_JUMPS = (-30, -5, 5, 30)
# At the end the clock of the host on SQLite is this far ahead, in seconds.
HOST_AHEAD = 7200


class Faults:
    """Runs faults one after the other, and notes when each began and ended."""

    # All kinds of faults that a long run must include.
    KINDS = frozenset()
    # Kinds of faults that follow when everything else is judged.
    LAST = frozenset()
    # Faults during which no server can claim jobs. During the others a due job has no reason to wait
    # for longer than `WAIT_SECONDS_MAX`.
    OUTAGES = frozenset()
    WAIT_SECONDS_MAX = 30
    # A dead node may hold a job for this long: docs/guarantees.md, plus the time in which no process runs.
    HOLD_SECONDS_MAX = 0

    def __init__(self, servers, seed):
        self.servers, self.pick = servers, random.Random(seed)
        self.counts = Counter()
        self.periods = []
        self.jumps = []
        self.losable = []
        self.skipped = []

    def once(self, name, action):
        start = time.time()
        if action() is False:
            return
        self.counts[name] += 1
        if name in self.OUTAGES:
            self.periods.append((start, time.time() + RECOVERY_SECONDS))

    def too_long(self, wait, hold):
        """The waits, in seconds, that are longer than they may be."""
        waits = (("wait", wait, self.WAIT_SECONDS_MAX), ("hold", hold, self.HOLD_SECONDS_MAX))
        return {name: seconds for name, seconds, most in waits if seconds > most}

    def missing(self):
        """The kinds of faults that did not occur."""
        return sorted(self.KINDS - set(self.counts))

    def server(self):
        return self.pick.choice(self.servers)

    def kill(self):
        self.server().kill(self.pick.uniform(0, 3))

    def freeze(self):
        self.server().freeze(self.pick.uniform(0.5, FREEZE_SECONDS))

    def terminate(self):
        self.server().terminate()

    def crash_loop(self):
        """Kills all servers again and again, faster than a lease of a leader expires."""
        end = time.monotonic() + min(CRASH_LOOP_SECONDS, self.length / 6)
        while time.monotonic() < end:
            time.sleep(self.pick.uniform(3, 8))
            for server in self.servers:
                server.kill()

    def run(self, seconds):
        """Causes faults for so long, with the special ones at fixed shares of the time."""
        self.length = seconds
        begin = time.monotonic()
        planned = self.planned()
        while time.monotonic() - begin < seconds:
            share = (time.monotonic() - begin) / seconds
            if planned and share >= planned[0][0]:
                _, name, action = planned.pop(0)
            else:
                name, action = self.random_fault()
            self.once(name, action)
            time.sleep(self.pick.uniform(0, PAUSE_SECONDS))
        for _, name, action in planned:
            self.once(name, action)

    def random_fault(self):
        draw, total = self.pick.random(), 0.0
        for name, weight in self.weights():
            total += weight
            if draw < total:
                return name, getattr(self, name)
        return "kill", self.kill

    def jump_clock(self, server, offsets):
        """Moves the clock of a server away and back. Returns the time through which it went twice, or
        not at all."""
        start, offset = time.time(), self.pick.choice(offsets)
        server.set_clock(offset)
        time.sleep(self.pick.uniform(1, 5))
        server.set_clock(0)
        return start + min(0, offset), time.time() + max(0, offset)


class PostgresFaults(Faults):
    """Three servers on PostgreSQL behind a proxy. While one of them is down, the others work."""

    OUTAGES = frozenset(["cut", "database_crash", "disk_full", "synchronous_failover", "asynchronous_failover"])
    KINDS = OUTAGES | {"crash_loop", "kill", "freeze", "terminate", "node_clock_jump"}
    # 22 s of reachable time, and the time between the processes of a crash loop.
    HOLD_SECONDS_MAX = 45

    def __init__(self, servers, seed, database, has_clock):
        super().__init__(servers, seed)
        self.database, self.has_clock = database, has_clock

    def weights(self):
        clock = [("node_clock_jump", 0.15)] if self.has_clock else []
        return [("kill", 0.3), ("freeze", 0.15), ("terminate", 0.1), ("database_crash", 0.15), ("cut", 0.15)] + clock

    def planned(self):
        return [
            (0.15, "disk_full", self.disk_full),
            (0.3, "crash_loop", self.crash_loop),
            (0.5, "synchronous_failover", self.synchronous_failover),
            (0.75, "asynchronous_failover", self.asynchronous_failover),
            (0.9, "crash_loop", self.crash_loop),
        ]

    def database_crash(self):
        self.database.primary.crash()
        time.sleep(self.pick.uniform(0, 3))
        self.database.primary.start()

    def cut(self):
        self.database.proxy.cut()

    def node_clock_jump(self):
        self.jump_clock(self.server(), NODE_JUMPS)

    def disk_full(self):
        if not self.database.small:
            self.skipped.append("disk_full on PostgreSQL: mounting a small file system needs root")
            return False
        fill(self.database.small)
        return True

    def synchronous_failover(self):
        self.database.fail_over()

    def asynchronous_failover(self):
        # What was acknowledged while the standby received nothing is lost.
        self.losable.append(self.database.fail_over(LAG_SECONDS))


class SqliteFaults(Faults):
    """One server on SQLite."""

    OUTAGES = frozenset(["disk_full", "freeze", "host_clock_jump"])
    LAST = frozenset(["host_clock_ahead"])
    KINDS = OUTAGES | LAST | {"crash_loop", "kill", "terminate"}
    # The lock of the file proves that the process has ended, so this is the time until the next one runs.
    HOLD_SECONDS_MAX = 20

    def __init__(self, servers, seed, small, has_clock):
        super().__init__(servers, seed)
        self.small, self.has_clock = small, has_clock

    def weights(self):
        # A jump makes slots and changes around it hard to judge, so there are few.
        clock = [("host_clock_jump", 0.05)] if self.has_clock else []
        return [("kill", 0.5), ("freeze", 0.25), ("terminate", 0.2)] + clock

    def planned(self):
        return [
            (0.2, "disk_full", self.disk_full),
            (0.4, "crash_loop", self.crash_loop),
            (0.6, "disk_full", self.disk_full),
            (0.8, "crash_loop", self.crash_loop),
        ]

    def disk_full(self):
        if not self.small:
            self.skipped.append("disk_full on SQLite: mounting a small file system needs root")
            return False
        fill(self.small)
        return True

    def host_clock_jump(self):
        self.jumps.append(self.jump_clock(self.server(), HOST_JUMPS))

    def restart_with_clock(self, seconds):
        """Kills the server, which starts again with another clock. A process that starts with a wrong
        clock cannot detect it, so it decides slots by that clock at once."""
        (server,) = self.servers
        server.kill(down_seconds=1)
        server.set_clock(seconds)


def fill(directory):
    """Fills a file system, and frees it again."""
    ballast = os.path.join(directory, "ballast")
    with open(ballast, "wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    try:
        time.sleep(FULL_SECONDS)
    finally:
        os.remove(ballast)


def mount_small(directory, megabytes):
    """A small file system at this directory, or None if it cannot be mounted here."""
    os.makedirs(directory)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", directory]
    if os.geteuid() != 0 or subprocess.run(command, check=False).returncode != 0:
        return None
    own(directory)
    return directory


class Database:
    """A primary with a standby, behind a proxy that always leads to the primary."""

    def __init__(self, directory):
        self.directory, self.generation = directory, 0
        self.primary = Postgres.create(os.path.join(directory, "pg0"))
        self.primary.start()
        self.small = mount_small(os.path.join(directory, "small"), 160)
        if self.small:
            self.primary.query(f"CREATE TABLESPACE small LOCATION '{self.small}'")
        space = " TABLESPACE small" if self.small else ""
        self.primary.query(f"CREATE DATABASE app{space}")
        self.proxy = Proxy(self.primary.port)
        self.replication = Proxy(self.primary.port)
        self.spaces = self.small
        self.renewal = None
        self.add_standby()

    def url(self):
        return f"postgres://postgres@127.0.0.1:{self.proxy.port}/app?sslmode=disable"

    def add_standby(self):
        """A new standby of the primary, to which commits are replicated synchronously."""
        self.generation += 1
        mapping = []
        if self.spaces:
            new = os.path.join(self.directory, f"space{self.generation}")
            os.makedirs(new)
            own(new)
            mapping.append((self.spaces, new))
        directory = os.path.join(self.directory, f"pg{self.generation}")
        self.standby = Postgres.standby_of(self.replication, directory, mapping)
        self.next_space = mapping[0][1] if mapping else None
        self.standby.start()
        end = time.monotonic() + 30
        while self.primary.query("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "0":
            if time.monotonic() > end:
                raise RuntimeError("the standby does not replicate")
            time.sleep(0.2)
        self.set_synchronous("*")

    def set_synchronous(self, names):
        self.primary.query(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.primary.query("SELECT pg_reload_conf()")

    def fail_over(self, lag_seconds=0):
        """Crashes the primary and promotes the standby; a lag loses the last commits. Returns the time in
        which commits were acknowledged that the standby did not receive."""
        if self.renewal:
            # The standby of the last fail-over may still be copying the primary.
            self.renewal.join()
        start = time.time()
        if lag_seconds:
            self.set_synchronous("")
            self.replication.silent = True
            time.sleep(lag_seconds)
        old, self.primary = self.primary, self.standby
        old.crash()
        end = time.time()
        self.replication.cut()
        self.primary.promote()
        self.set_synchronous("")
        self.small, self.spaces = None, self.next_space
        self.proxy.target = self.replication.target = self.primary.port
        self.proxy.cut()
        self.replication.silent = False
        self.renewal = threading.Thread(target=self.add_standby_again, daemon=True)
        self.renewal.start()
        return start, end

    def add_standby_again(self):
        try:
            self.add_standby()
        except RuntimeError as error:
            # A crash of the primary interrupts it; the next fail-over needs a standby, so repeat.
            print(f"standby: {error}", file=sys.stderr, flush=True)
            time.sleep(1)
            self.add_standby_again()

    def stop(self):
        for server in (self.primary, self.standby):
            server.stop()
        self.proxy.close()
        self.replication.close()
