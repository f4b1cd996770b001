"""Two PostgreSQL servers under Patroni, with etcd, all from Debian's packages (patroni, etcd-server, postgresql).

Patroni decides which server is the primary. When the primary dies, the synchronous standby takes its place. When the
old primary returns, it follows the new one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.servers import free_port_pair

USER = "muster"
TTL_S = 8
"""After this time without a sign of the primary the standby takes its place: Patroni's loop, and two of its retries."""
PATIENCE_S = 120.0
_PARAMETERS = {"fsync": "off", "synchronous_commit": "on", "max_connections": 50}


def missing() -> str:
    """The names of missing programs; empty when all are installed."""
    programs = [name for name in ("patroni", "etcd") if shutil.which(name) is None]
    if not _postgres_folders():
        programs.append("PostgreSQL's server (/usr/lib/postgresql)")
    return ", ".join(programs)


def _postgres_folders() -> list[Path]:
    return sorted(path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres"))


class Member:
    """One PostgreSQL with its Patroni."""

    def __init__(self, place: Path, name: str, etcd_port: int) -> None:
        self.name = name
        self.port, self._rest_port = free_port_pair(), free_port_pair()
        self._place = place
        self._config = place / f"{name}.json"
        self._config.write_text(json.dumps(self._settings(etcd_port)))  # JSON is valid YAML
        self._process: subprocess.Popen[bytes] | None = None

    def _settings(self, etcd_port: int) -> dict[str, Any]:
        return {
            "scope": "muster",
            "name": self.name,
            "restapi": {"listen": f"127.0.0.1:{self._rest_port}", "connect_address": f"127.0.0.1:{self._rest_port}"},
            "etcd3": {"host": f"127.0.0.1:{etcd_port}"},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL_S,
                    "loop_wait": 1,
                    "retry_timeout": 3,
                    "synchronous_mode": True,
                    "postgresql": {"use_pg_rewind": True, "use_slots": True, "parameters": _PARAMETERS},
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"],
                "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": f"127.0.0.1:{self.port}",
                "data_dir": str(self._data),
                "bin_dir": str(_postgres_folders()[-1]),
                "pgpass": str(self._place / f"{self.name}.pgpass"),
                "remove_data_directory_on_rewind_failure": True,
                "authentication": {
                    "superuser": {"username": USER, "password": "of-the-test"},
                    "replication": {"username": "follower", "password": "of-the-test"},
                },
                "parameters": {"unix_socket_directories": str(self._place)},
            },
        }

    @property
    def _data(self) -> Path:
        return self._place / self.name

    @property
    def running(self) -> bool:
        """Whether its Patroni runs."""
        return self._process is not None

    def start(self) -> None:
        """Start Patroni, which starts its PostgreSQL; do not wait."""
        with (self._place / f"{self.name}.log").open("ab") as out:
            self._process = subprocess.Popen(
                ["patroni", str(self._config)], stdout=out, stderr=out, cwd=self._place, **_nobody()
            )

    def kill(self) -> None:
        """Kill both, as when the machine loses its power."""
        self._end_patroni()
        pids = self._pids()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _until_gone(pids)

    def end(self) -> None:
        """Stop both, without a failover in between."""
        self._end_patroni()
        pids = self._pids()
        for pid in pids[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT)  # at once, and the memory that its processes share is freed
        _until_gone(pids)

    def _end_patroni(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def _pids(self) -> list[int]:
        """The processes of its PostgreSQL: the postmaster is the first."""
        try:
            postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
            children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        except (OSError, ValueError, IndexError):
            return []
        return [postmaster, *map(int, children)]

    def ask(self, path: str, body: Any = None) -> Any:
        """The answer of Patroni's own interface. Raises OSError."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self._rest_port}{path}", data)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.read().decode()

    def log(self) -> str:
        """The end of Patroni's log."""
        return (self._place / f"{self.name}.log").read_text(errors="replace")[-3_000:]


class Patroni:
    """The two members of this module. `url` names both, for clients that want the primary."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._etcd_port = free_port_pair()
        self._etcd: subprocess.Popen[bytes] | None = None
        self._members = [Member(place, name, self._etcd_port) for name in ("east", "west")]
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self._members)
        self.url = f"postgresql://{USER}:of-the-test@{hosts}/postgres?target_session_attrs=read-write"

    def start(self) -> None:
        """Start both, and wait until the standby is in sync."""
        clients, peers = (f"http://127.0.0.1:{self._etcd_port + more}" for more in (0, 1))
        etcd = ["etcd", "--data-dir", str(self._place / "etcd"), "--unsafe-no-fsync"]
        etcd += ["--listen-client-urls", clients, "--advertise-client-urls", clients]
        etcd += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        etcd += ["--initial-cluster", f"default={peers}"]
        with (self._place / "etcd.log").open("ab") as out:
            self._etcd = subprocess.Popen(etcd, stdout=out, stderr=out, cwd=self._place, **_nobody())
        for member in self._members:
            member.start()
        self.until_in_sync()

    def roles(self) -> dict[str, str]:
        """The roles of the running members, as Patroni reports them: leader, sync_standby, replica. Empty if nobody
        answers.
        """
        for member in self._members:
            if member.running:
                with suppress(OSError, ValueError):
                    rows = json.loads(member.ask("/cluster"))["members"]
                    return {row["name"]: row["role"] for row in rows if row.get("state") in ("running", "streaming")}
        return {}

    def until_in_sync(self) -> None:
        """Wait until one member leads, and the other is its synchronous standby."""
        self._until(lambda: sorted(self.roles().values()) == ["leader", "sync_standby"], "a standby in sync")

    def kill_primary(self) -> None:
        """Kill the primary's PostgreSQL and its Patroni. The standby becomes the primary when Patroni notices."""
        self._primary().kill()

    def until_taken_over(self) -> None:
        """Wait until the remaining member leads."""
        self._until(lambda: self._leader() in {one.name for one in self._members if one.running}, "another primary")

    def bring_back(self) -> None:
        """Start the killed member again: it follows the new primary."""
        for member in self._members:
            if not member.running:
                member.start()
        self.until_in_sync()

    def switch_over(self) -> None:
        """Exchange the roles of standby and primary, as for an upgrade of the machine."""
        before = self._leader()
        assert before is not None
        primary = self._primary()
        self._until(lambda: _has_changed(primary, before), "a switchover")
        self._until(lambda: self._leader() not in (None, before), "another primary")
        self.until_in_sync()

    def stop(self) -> None:
        """Stop everything that still runs."""
        for member in self._members:
            if member.running:
                member.end()
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait()

    def _leader(self) -> str | None:
        return next((name for name, role in self.roles().items() if role == "leader"), None)

    def _primary(self) -> Member:
        name = self._leader()
        return next(member for member in self._members if member.name == name)

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not is_so():
            logs = "\n".join(f"--- {member.name}\n{member.log()}" for member in self._members)
            assert time.monotonic() < end, f"never: {what}; {self.roles()}\n{logs}"
            time.sleep(0.1)


def _has_changed(primary: Member, before: str) -> bool:
    """Ask for the exchange. Patroni refuses while its standby is not known to be in sync."""
    try:
        primary.ask("/switchover", {"leader": before})
    except urllib.error.HTTPError as refused:
        return refused.code not in (412, 503)
    return True


def _until_gone(pids: list[int]) -> None:
    end = time.monotonic() + PATIENCE_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end, f"PostgreSQL does not end: {pids}"
        time.sleep(0.02)


def _nobody() -> dict[str, Any]:
    """The user for PostgreSQL, which does not run as root."""
    return {"user": "nobody"} if os.geteuid() == 0 else {}


@contextmanager
def running_patroni() -> Iterator[Patroni]:
    """Patroni with both members, removed at the end."""
    place = Path(tempfile.mkdtemp(prefix="muster-patroni-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(place, "nobody")
    patroni = Patroni(place)
    try:
        patroni.start()
        yield patroni
    finally:
        patroni.stop()
        shutil.rmtree(place, ignore_errors=True)
