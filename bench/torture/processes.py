"""`punctual serve` as a process that is killed, frozen, stopped and started again."""

import os
import signal
import socket
import subprocess
import threading
import time

# Debian's package `faketime` puts it in a directory per architecture.
FAKETIME_DIRECTORY = "/usr/lib"
FAKETIME_NAME = "libfaketimeMT.so.1"
# A process that exits by itself, for example because the database is unreachable, starts again
# after this time, as a supervisor would do it.
SUPERVISOR_SECONDS = 0.5


def faketime():
    """The path of libfaketime, or None."""
    for directory, _, files in os.walk(FAKETIME_DIRECTORY):
        if directory.endswith("/faketime") and FAKETIME_NAME in files:
            return os.path.join(directory, FAKETIME_NAME)
    return None


def free_port():
    """A free port below those that the system assigns to clients. It stays free while its server is
    down: no other run takes it, because an abstract socket of its name exists until this process ends."""
    for port in range(21_000, 32_000):
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0punctual-torture-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            reservation.close()
            continue
        free_port.reservations.append(reservation)
        return port
    raise RuntimeError("no free port")


free_port.reservations = []


class Server:
    """One server with a permanent name and port. It runs until `stop`, whatever kills it."""

    def __init__(self, binary, name, database, directory, with_clock):
        self.name, self.port = name, free_port()
        self.log = open(os.path.join(directory, f"{name}.log"), "ab")
        self.clock_file = os.path.join(directory, f"{name}.clock")
        self.arguments = [binary, "serve", "--database", database, "--name", name]
        self.arguments += ["--listen", f"127.0.0.1:{self.port}"]
        own = {name: value for name, value in os.environ.items() if not name.startswith("PUNCTUAL_")}
        self.environment = {**own, "RUST_LOG": "info"}
        if with_clock:
            self.set_clock(0)
            self.environment |= {
                "LD_PRELOAD": with_clock,
                "FAKETIME_TIMESTAMP_FILE": self.clock_file,
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "FAKETIME_DISABLE_SHM": "1",
            }
        self.process = None
        self.exits = {}
        self.wanted = True
        self.started = threading.Event()
        self.hold_until = 0.0
        self.supervisor = threading.Thread(target=self.supervise, daemon=True)
        self.supervisor.start()
        self.started.wait()

    def set_clock(self, seconds):
        """Moves the wall clock of the process. Monotonic clocks are not affected."""
        with open(self.clock_file + ".new", "w") as file:
            file.write(f"{seconds:+d}\n")
        os.replace(self.clock_file + ".new", self.clock_file)

    def supervise(self):
        while self.wanted:
            if time.monotonic() < self.hold_until:
                time.sleep(0.02)
                continue
            self.process = subprocess.Popen(
                self.arguments,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
            )
            self.started.set()
            code = self.process.wait()
            self.exits[code] = self.exits.get(code, 0) + 1
            if self.wanted:
                time.sleep(SUPERVISOR_SECONDS)

    def signal(self, number):
        process = self.process
        if process is not None and process.poll() is None:
            process.send_signal(number)

    def kill(self, down_seconds=0.0):
        """Kills the process. The supervisor starts it again after `down_seconds`."""
        self.hold_until = time.monotonic() + down_seconds
        self.signal(signal.SIGKILL)

    def freeze(self, seconds):
        self.signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.signal(signal.SIGCONT)

    def terminate(self):
        """Stops the process in the regular way; the supervisor starts it again."""
        self.signal(signal.SIGTERM)

    def stop(self):
        """Stops it for good. Returns the exit code."""
        self.wanted = False
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = None
        self.supervisor.join(10)
        self.log.close()
        return code
