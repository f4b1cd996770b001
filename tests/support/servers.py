"""Servers under test as subprocesses: Muster, and a real Apache Kafka for the same tests. Each has `start()`, `stop()`
(SIGTERM; the exit status is checked) and `kill()` (SIGKILL). While it runs, it has `bootstrap` (host:port) and `pid`.
A server that is started again uses its old ports and data. This module may not import the product: here a server is
its command line.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support import wire
from tests.support.unseen_faults import end_log, watch_log

REPOSITORY = Path(__file__).resolve().parents[2]
KAFKA_SCRIPTS = REPOSITORY / "tests" / "kafka"
CONNECT_VERSION = "4.3.1"
"""The version of Connect: the last with file connectors in the registry."""

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "10",
    "transaction.state.log.num.partitions": "5",
}
"""Settings with which groups settle at once and members may expire soon."""


class ServerError(Exception):
    """The server did not start or end as it should. The text has the end of its log."""


class ServerProcess:
    """A server as a subprocess, with its log in a file of `workdir`."""

    name = "server"
    start_timeout_s = 120.0
    stop_timeout_s = 120.0
    expected_exit_status = 0
    cwd: Path | None = None
    """The working directory of the process; None means `workdir`."""

    def __init__(self, workdir: Path, properties: Mapping[str, str] | None = None) -> None:
        self.workdir = workdir
        self.properties = dict(properties or {})
        self.bootstrap = ""
        self._process: subprocess.Popen[bytes] | None = None
        workdir.mkdir(parents=True, exist_ok=True)
        self.log_path = workdir / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "the server does not run"
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first broker."""
        return self.addresses[0]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each broker."""
        pairs = [one.rsplit(":", 1) for one in self.bootstrap.split(",")]
        return [(host, int(port)) for host, port in pairs]

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def command(self) -> Sequence[str | Path]:
        """The command line of the process."""
        raise NotImplementedError

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> str:
        """Wait until the server can be reached, and return its address."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the server, and return when it is ready. Raises `ServerError` when it ends or is too long silent."""
        assert self._process is None, "the server runs already"
        watch_log(self.log_path)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=subprocess.PIPE, stderr=log, cwd=self.cwd or self.workdir
            )
        try:
            self.bootstrap = self.wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise

    def stop(self, signal_number: int = signal.SIGTERM) -> bytes:
        """Stop the server as an operator would, and return its stdout since it was ready. Raises `ServerError` when it
        does not end in time or ends with another status.
        """
        process = self._take()
        process.send_signal(signal_number)
        try:
            out, _ = process.communicate(timeout=self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise ServerError(
                f"{self.name} still ran {self.stop_timeout_s:.0f} s after the signal\n{self.log_tail()}"
            ) from None
        end_log(self.log_path)
        if process.returncode != self.expected_exit_status:
            raise self._error(f"ended with status {process.returncode}")
        return out

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        process = self._take()
        process.kill()
        process.communicate()
        end_log(self.log_path)

    def log_tail(self, lines: int = 40) -> str:
        """The end of the server's log."""
        return "\n".join(self.log().splitlines()[-lines:])

    def log(self) -> str:
        """All of the server's log."""
        return self.log_path.read_text(errors="replace")

    def _error(self, what: str) -> ServerError:
        return ServerError(f"{self.name} {what}; the end of its log:\n{self.log_tail()}")

    def _take(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server does not run"
        process, self._process = self._process, None
        return process


class MusterServer(ServerProcess):
    """`muster serve` of the interpreter's own environment. Without `listen` it uses a free port of 127.0.0.1, also
    after a restart. Its data lie in `workdir`/data, unless it is `in_memory`.
    """

    name = "muster"

    def __init__(
        self,
        workdir: Path,
        properties: Mapping[str, str] | None = None,
        *,
        in_memory: bool = False,
        arguments: Sequence[str] = (),
        executable: Path | None = None,
    ) -> None:
        super().__init__(workdir, properties)
        self.in_memory = in_memory
        self.arguments = list(arguments)
        self.executable = executable or Path(sys.executable).parent / "muster"

    def command(self) -> Sequence[str | Path]:
        """`muster serve` with the settings as --override."""
        storage = ["--in-memory"] if self.in_memory else ["--data-dir", str(self.workdir / "data")]
        listen = [] if "listeners" in self.properties else ["--listen", self.bootstrap or "127.0.0.1:0"]
        overrides = [word for name, value in self.properties.items() for word in ("--override", f"{name}={value}")]
        return [self.executable, "serve", *listen, *storage, *overrides, *self.arguments]

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> str:
        """Read the one line `muster ready HOST:PORT`."""
        line = self._first_line(process)
        words = line.split()
        if len(words) != 3 or words[:2] != ["muster", "ready"]:
            raise self._error(f"said {line!r} instead of being ready")
        return words[2]

    def log_lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """The lines of the server's log; with `event`, only those of that event."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line for line in lines if event is None or line["event"] == event]

    def address_of(self, listener: str) -> str:
        """The address of a listener, from the log."""
        (found,) = (
            line["address"] for line in self.log_lines() if line.get("listener") == listener and "address" in line
        )
        return str(found)

    def _first_line(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        deadline, line = time.monotonic() + self.start_timeout_s, b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(deadline - time.monotonic()):
                    raise self._error(f"was not ready after {self.start_timeout_s:.0f} s")
                # one byte at a time: what follows the line belongs to stop()
                byte = os.read(process.stdout.fileno(), 1)
                if not byte:
                    raise ServerError(
                        f"muster ended with status {process.wait()} before it was ready\n{self.log_tail()}"
                    )
                line += byte
        return line.decode()


class NodesServer(MusterServer):
    """`muster serve --nodes 3`: some brokers in one process, controlled by `muster nodes`. `bootstrap` has all
    addresses.
    """

    def __init__(
        self,
        workdir: Path,
        properties: Mapping[str, str] | None = None,
        *,
        number: int = 3,
        listen: str = "",
        arguments: Sequence[str] = (),
    ) -> None:
        super().__init__(workdir, properties, arguments=["--nodes", str(number), *arguments])
        self.bootstrap = listen

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> str:
        """Wait until one broker is ready, then ask for the others."""
        super().wait_until_ready(process)
        return ",".join(row["addresses"][0] for row in self.nodes("list"))

    def nodes(self, verb: str, *node: int) -> list[dict[str, Any]]:
        """The brokers after a command to one of them. Raises CalledProcessError."""
        output = subprocess.run(
            [self.executable, "nodes", verb, *map(str, node), "--json", "--data-dir", self.workdir / "data"],
            capture_output=True,
            text=True,
            check=True,
        )
        return [json.loads(line) for line in output.stdout.splitlines()]

    def stop_node(self, node: int) -> None:
        """Stop one broker in an orderly way."""
        self.nodes("stop", node)

    def kill_node(self, node: int) -> None:
        """Stop one broker as SIGKILL would."""
        self.nodes("kill", node)

    def start_node(self, node: int) -> None:
        """Start a broker again on its old port."""
        self.nodes("return", node)


class KafkaServer(ServerProcess):
    """One node of Apache Kafka 4.4 (KRaft), run by the scripts of tests/kafka. It needs Java 17+ and Maven."""

    name = "kafka"
    start_timeout_s = 300.0  # a busy machine may take minutes to start a JVM
    expected_exit_status = 143  # the status of a JVM that SIGTERM ended

    def command(self) -> Sequence[str | Path]:
        """The start script on a free pair of ports."""
        port = int(self.bootstrap.rsplit(":", 1)[1]) if self.bootstrap else free_port_pair()
        self.bootstrap = f"127.0.0.1:{port}"
        properties = [f"{name}={value}" for name, value in self.properties.items()]
        return [KAFKA_SCRIPTS / "run-kafka.sh", str(port), self.workdir / "data", *properties]

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> str:
        """Wait until groups are served: an open port is not yet a coordinator."""
        deadline = time.monotonic() + self.start_timeout_s
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise self._error(f"ended with status {process.returncode}")
            if self._serves_groups():
                return self.bootstrap
            time.sleep(0.05)
        raise self._error(f"was not ready after {self.start_timeout_s:.0f} s")

    def _serves_groups(self) -> bool:
        try:
            with socket.create_connection(self.address, timeout=10) as connection:
                return wire.coordinator_is_ready(connection, "ready?")
        except (OSError, EOFError):
            return False


class KafkaCluster(KafkaServer):
    """Three nodes of Apache Kafka 4.4, each broker and controller, on the ports P, P+2 and P+4."""

    name = "kafka"
    expected_exit_status = 0

    def __init__(
        self, workdir: Path, properties: Mapping[str, str] | None = None, *, racks: Sequence[str] = ()
    ) -> None:
        """`racks` has the rack of each node; it is empty without racks."""
        super().__init__(workdir, properties)
        self._racks = racks
        self._again: list[subprocess.Popen[bytes]] = []
        """The scripts of nodes that were started again."""

    def command(self) -> Sequence[str | Path]:
        """The start script on free ports."""
        port = free_port_pair()
        self.bootstrap = ",".join(f"127.0.0.1:{port + 2 * place}" for place in range(3))
        properties = [f"{name}={value}" for name, value in self.properties.items()]
        racks = f"RACKS={','.join(self._racks)}"
        return ["env", racks, KAFKA_SCRIPTS / "run-kafka-cluster.sh", str(port), self._data, *properties]

    def kill(self) -> None:
        """Kill all nodes: the script ends them on a signal."""
        process = self._take()
        process.terminate()
        process.communicate()
        for again in self._again:
            again.wait()

    @property
    def _data(self) -> Path:
        return self.workdir / "data"

    def _serves_groups(self) -> bool:
        try:
            for address in self.addresses:
                with socket.create_connection(address, timeout=10) as connection:
                    if wire.read_error(wire.call(connection, wire.find_coordinator("ready?"))) != 0:
                        return False
        except (OSError, EOFError):
            return False
        return True

    def stop_node(self, node: int) -> None:
        """Stop one node with SIGTERM, and return when it has ended."""
        self._signal(node, signal.SIGTERM)

    def kill_node(self, node: int) -> None:
        """Kill one node with SIGKILL."""
        self._signal(node, signal.SIGKILL)

    def start_node(self, node: int) -> None:
        """Start a node again on its old ports. It ends with the other nodes."""
        script = str(KAFKA_SCRIPTS / "run-kafka-cluster.sh")
        command = [script, str(self.address[1]), str(self._data), "--node", str(node)]
        before = self._pid(node)
        with self.log_path.open("ab") as log:
            self._again.append(subprocess.Popen(command, stdout=log, stderr=log))
        while self._pid(node) == before:
            time.sleep(0.02)

    def _signal(self, node: int, number: signal.Signals) -> None:
        pid = self._pid(node)
        os.kill(pid, number)
        deadline = time.monotonic() + self.stop_timeout_s
        while Path(f"/proc/{pid}").exists() and _state(pid) != "Z":
            if time.monotonic() > deadline:
                raise self._error(f"node {node} does not end")
            time.sleep(0.02)

    def _pid(self, node: int) -> int:
        path = self._data / f"node-{node}.pid"
        while not (text := path.read_text().strip()):  # the script writes it at the moment
            time.sleep(0.01)
        return int(text)


def _state(pid: int) -> str:
    """The state of a process. Z: it has ended, and its parent has not yet read its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def kafka_available() -> bool:
    """Whether a real Kafka can run on this machine."""
    return shutil.which("java") is not None and shutil.which("mvn") is not None


def kafka_jars(version: str = "") -> str:
    """The directory with the jars of this version of Kafka (by default the reference). Maven fills it."""
    chosen = {**os.environ, "KAFKA_VERSION": version} if version else None
    script = [KAFKA_SCRIPTS / "fetch-jars.sh"]
    return subprocess.run(script, stdout=subprocess.PIPE, text=True, check=True, env=chosen).stdout.strip()


def free_port_pair() -> int:
    """A port P of 127.0.0.1 such that P and P+1 are free now: Kafka's scripts use both."""
    return free_ports(2)


def free_ports(number: int) -> int:
    """The first of some consecutive ports of 127.0.0.1 that are free now. They lie below the range of outgoing
    connections, which could otherwise use a port in the meantime.
    """
    while True:
        first = random.randrange(15000, 30000)
        try:
            with ExitStack() as stack:
                for port in range(first, first + number):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
