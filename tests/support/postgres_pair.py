"""A PostgreSQL with a synchronous standby, from PyPI's wheel. No commit of the primary is lost when the standby
replaces it. The standby may be cut off: then the sessions of the primary wait for the standby.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from muster.cli.local_cluster.embedded_postgres import find_binaries
from tests.support.held_network import HeldNetwork
from tests.support.servers import free_port_pair

BIN = find_binaries()
USER = "muster"
PATIENCE_S = 60.0
WAITING = "pg_stat_activity WHERE wait_event = 'SyncRep'"
"""The sessions that wait for the standby."""
SETTINGS = {"fsync": "off", "listen_addresses": "127.0.0.1", "wal_level": "replica", "synchronous_commit": "on"}
RECOVERS = ("in recovery mode", "starting up", "not yet accepting connections", "server closed the connection")
"""The errors of PostgreSQL during a recovery. When one of its processes dies, PostgreSQL first closes all connections.
"""


class Pair:
    """The primary and its standby. `url` names both."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.ports = [free_port_pair(), free_port_pair()]
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.url = f"postgresql://{USER}@{hosts}/postgres?target_session_attrs=read-write"
        self.primary = 0
        """The index of the present primary."""
        self.network = HeldNetwork(self.ports[0])
        """The network between primary and standby."""

    def start(self) -> None:
        """Start both, and wait until the standby is in sync."""
        self._run("initdb", "-D", str(self._data[0]), "-A", "trust", "-U", USER)
        self._begin(0)
        self.begin_standby()

    def begin_standby(self) -> None:
        """Start the other server again as the standby, and wait until it is in sync."""
        primary, standby = self.primary, 1 - self.primary
        shutil.rmtree(self._data[standby], ignore_errors=True)
        source = f"host=127.0.0.1 port={self.network.port} user={USER} application_name=standby"
        self._run("pg_basebackup", "-c", "fast", "-D", str(self._data[standby]), "-R", "-d", source)
        self._begin(standby)
        self._sql(primary, "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        self._sql(primary, "SELECT pg_reload_conf()")
        self._until("SELECT sync_state FROM pg_stat_replication", "sync")

    def _until(self, question: str, answer: str) -> None:
        end, found = time.monotonic() + PATIENCE_S, ""
        while found != answer:
            assert time.monotonic() < end, f"{question} is never {answer}"
            time.sleep(0.05)
            with suppress(AssertionError):  # the database recovers
                found = self._sql(self.primary, question).strip()

    def cut_off(self) -> None:
        """Cut the standby off. From now on each session that writes waits."""
        self.network.hold()

    def reconnect(self) -> None:
        """Connect the standby again, which receives what it has missed."""
        self.network.let_go()

    def until_waiting(self) -> None:
        """Wait until a session waits for the standby."""
        self._until(f"SELECT count(*) > 0 FROM {WAITING}", "t")

    def end_waiting(self) -> None:
        """End the sessions that wait for the standby. Their writes can be read from now on."""
        self._sql(self.primary, f"SELECT pg_terminate_backend(pid) FROM {WAITING}")

    def cancel_waiting(self) -> None:
        """Let the waiting sessions continue. They are answered with a warning."""
        self._sql(self.primary, f"SELECT pg_cancel_backend(pid) FROM {WAITING}")

    def crash(self) -> None:
        """Kill a session that waits for the standby. All other sessions end too, and the primary recovers from its
        log.
        """
        for pid in self._sql(self.primary, f"SELECT pid FROM {WAITING} LIMIT 1").split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby. The new primary lacks the writes from which it was cut off."""
        self._control(self.primary, "stop", "-m", "immediate")
        self.network.drop(self.ports[self.primary])
        self.primary = 1 - self.primary
        self._control(self.primary, "promote")
        self.network.target = self.ports[self.primary]

    def stop(self) -> None:
        """Stop the servers that still run."""
        self.network.close()
        for number, data in enumerate(self._data):
            if (data / "postmaster.pid").exists():
                self._control(number, "stop", "-m", "immediate")

    @property
    def _data(self) -> tuple[Path, Path]:
        return self.place / "primary", self.place / "standby"

    def _begin(self, number: int) -> None:
        settings = {**SETTINGS, "port": str(self.ports[number]), "unix_socket_directories": str(self.place)}
        words = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._control(number, "start", "-o", words, "-l", str(self.place / f"log-{number}"))

    def _control(self, number: int, *words: str) -> None:
        self._run("pg_ctl", "-D", str(self._data[number]), "-w", *words)

    def _sql(self, number: int, statement: str) -> str:
        """The answer of the database. The question is repeated while the database recovers from a crash."""
        where = ["-h", "127.0.0.1", "-p", str(self.ports[number]), "-U", USER, "-d", "postgres"]
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._run("psql", *where, "-At", "-c", statement)
            except AssertionError as refused:
                recovers = any(words in str(refused) for words in RECOVERS)
                if not recovers or time.monotonic() > end:
                    raise
            time.sleep(0.05)

    def _run(self, program: str, *words: str) -> str:
        # PostgreSQL does not run as root
        who: dict[str, Any] = {"user": "nobody"} if os.geteuid() == 0 else {}
        with tempfile.TemporaryFile("w+") as out:  # no pipe: processes that pg_ctl starts would keep it open
            done = subprocess.run([BIN / program, *words], stdout=out, stderr=out, cwd=self.place, check=False, **who)
            out.seek(0)
            said = out.read()
        assert done.returncode == 0, f"{program}: {said}"
        return said


@contextmanager
def running_pair() -> Iterator[Pair]:
    """Both servers, removed at the end."""
    place = Path(tempfile.mkdtemp(prefix="muster-pg-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(place, "nobody")
    pair = Pair(place)
    try:
        pair.start()
        yield pair
    finally:
        pair.stop()
        shutil.rmtree(place, ignore_errors=True)
