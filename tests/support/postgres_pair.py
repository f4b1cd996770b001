"""A PostgreSQL with a synchronous standby, from PyPI's wheel: nothing that the primary has committed is lost when the
standby takes its place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from muster.coordinator.cli.local_cluster.embedded_postgres import find_binaries
from tests.support.servers import free_port_pair

BIN = find_binaries()
USER = "muster"
PATIENCE_S = 60.0
SETTINGS = {"fsync": "off", "listen_addresses": "127.0.0.1", "wal_level": "replica", "synchronous_commit": "on"}


class Pair:
    """See the module. `url`: of both, for clients that want the one that writes."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.ports = [free_port_pair(), free_port_pair()]
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.url = f"postgresql://{USER}@{hosts}/postgres?target_session_attrs=read-write"

    def start(self) -> None:
        """Both run, and the standby is in sync."""
        primary, standby = self._data
        self._run("initdb", "-D", str(primary), "-A", "trust", "-U", USER)
        self._begin(0)
        source = f"host=127.0.0.1 port={self.ports[0]} user={USER} application_name=standby"
        self._run("pg_basebackup", "-D", str(standby), "-R", "-d", source)
        self._begin(1)
        self._sql(0, "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        self._sql(0, "SELECT pg_reload_conf()")
        end = time.monotonic() + PATIENCE_S
        while self._sql(0, "SELECT sync_state FROM pg_stat_replication").strip() != "sync":
            assert time.monotonic() < end, "the standby is never in sync"
            time.sleep(0.05)

    def fail_over(self) -> None:
        """The primary dies, and the standby takes its place."""
        self._control(0, "stop", "-m", "immediate")
        self._control(1, "promote")

    def stop(self) -> None:
        """What still runs."""
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
        where = ["-h", "127.0.0.1", "-p", str(self.ports[number]), "-U", USER, "-d", "postgres"]
        return self._run("psql", *where, "-At", "-c", statement)

    def _run(self, program: str, *words: str) -> str:
        # PostgreSQL does not run as root
        who: dict[str, Any] = {"user": "nobody"} if os.geteuid() == 0 else {}
        with tempfile.TemporaryFile("w+") as out:  # not a pipe: what pg_ctl starts would keep it open
            done = subprocess.run([BIN / program, *words], stdout=out, stderr=out, cwd=self.place, check=False, **who)
            out.seek(0)
            said = out.read()
        assert done.returncode == 0, f"{program}: {said}"
        return said


@contextmanager
def running_pair() -> Iterator[Pair]:
    """Both are gone at the end."""
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
