"""A PostgreSQL server that crashes, with a standby that can take over, behind a proxy.

The servers under test always connect to the proxy, so a fail-over needs no change of their
configuration. The standby replicates through a proxy of its own, which can go silent: that makes
the standby lag.
"""

import glob
import os
import pwd
import select
import shutil
import socket
import subprocess
import threading
import time

from processes import free_port

START_SECONDS = 60


def binary(name):
    found = shutil.which(name)
    if found:
        return found
    versions = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    if not versions:
        raise RuntimeError(f"{name} not found; install PostgreSQL 15 or newer")
    return versions[-1]


def owner():
    """The user that runs PostgreSQL, which refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwuid(65_534)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def own(path):
    if owner():
        os.chown(path, owner()["user"], owner()["group"])


def run(name, *arguments):
    done = subprocess.run(
        [binary(name), *arguments], capture_output=True, text=True, cwd="/", **owner()
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name}: {done.stderr}")
    return done.stdout.strip()


class Proxy:
    """Forwards connections on `port` to `target`, which can be changed. `silent` drops all data."""

    def __init__(self, target):
        self.target, self.silent = target, False
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.open = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                if self.listener.fileno() < 0:
                    return
                client.close()
                continue
            self.open.add((client, server))
            threading.Thread(target=self.forward, args=(client, server), daemon=True).start()

    def forward(self, client, server):
        other = {client: server, server: client}
        try:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(65_536)
                    if not data:
                        return
                    if not self.silent:
                        other[source].sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            self.open.discard((client, server))
            client.close()
            server.close()

    def cut(self):
        """Closes all connections."""
        for pair in list(self.open):
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.listener.close()
        self.cut()


class Postgres:
    """One server process with its data directory."""

    def __init__(self, directory, port=None):
        self.directory, self.port = directory, port or free_port()
        self.data = os.path.join(directory, "data")
        self.process = None

    @staticmethod
    def create(directory):
        os.makedirs(directory)
        own(directory)
        server = Postgres(directory)
        run("initdb", "-D", server.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")
        server.configure("max_connections = 300", "hot_standby = on", "wal_keep_size = '1GB'")
        return server

    @staticmethod
    def standby_of(proxy, directory, tablespaces=()):
        """A standby that replicates through this proxy. `tablespaces` lists (old, new) directories."""
        os.makedirs(directory)
        own(directory)
        server = Postgres(directory)
        mapping = [f"--tablespace-mapping={old}={new}" for old, new in tablespaces]
        source = f"host=127.0.0.1 port={proxy.port} user=postgres application_name=standby"
        run("pg_basebackup", "-d", source, "-D", server.data, "-R", "--checkpoint=fast", *mapping)
        return server

    def configure(self, *lines):
        with open(os.path.join(self.data, "postgresql.conf"), "a") as file:
            file.write("\n".join(lines) + "\n")

    def start(self):
        log = open(os.path.join(self.directory, "log"), "ab")
        self.process = subprocess.Popen(
            [binary("postgres"), "-D", self.data, "-k", self.directory, "-h", "127.0.0.1"]
            + ["-p", str(self.port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            **owner(),
        )
        log.close()
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            ready = [binary("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
            if subprocess.run(ready, check=False).returncode == 0:
                return
            if self.process.poll() is not None:
                # After a crash the old process group can hold its memory for a moment.
                time.sleep(0.5)
                return self.start()
            time.sleep(0.05)
        raise RuntimeError(f"PostgreSQL did not start, see {self.directory}/log")

    def crash(self):
        """Ends all processes at once, without a checkpoint."""
        run("pg_ctl", "-D", self.data, "stop", "-m", "immediate", "-w", "-s")
        self.process.wait()

    def promote(self):
        run("pg_ctl", "-D", self.data, "promote", "-w", "-s")

    def query(self, text, database="postgres"):
        return run(
            "psql", "-XAtq", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", database,
            "-v", "ON_ERROR_STOP=1", "-c", text,
        )  # fmt: skip

    def stop(self):
        if self.process and self.process.poll() is None:
            self.crash()
