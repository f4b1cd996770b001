"""Runs a server as a process (`muster serve`), and uses it by Kafka's own requests and its test control."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Final

from muster.coordinator.config.listeners import parse_address
from muster.testcontrol.errors import CannotBeDone
from muster.testing import beside
from muster.testing.against import Against, ClusterVerbs, refused
from muster.testing.controlled_faults import Control, NoAnswer
from muster.testing.controlled_verbs import ControlledVerbs
from muster.testing.loop_bridge import Lifecycle, LoopBridge
from muster.testing.server_lines import Line, ServerLines
from muster.testing.settings import Given, config_of, ports_to_keep
from muster.testing.verbs import Runner

CONTROL_LINE: Final = "the control listens"
"""The log line with which `testcontrol.http.server` reports the address of the test control."""
STOP_S: Final = 30.0
"""How long a process may take to end after SIGTERM."""
DYING_S: Final = 1.0
"""How long to wait for the end of a process that no longer answers: perhaps it is ending."""
MAX_WARNINGS: Final = 10
"""The most warnings that the text about an ended server quotes."""


class InProcess(Runner):
    """See the module."""

    def __init__(self, given: Given, directory: Path | None) -> None:
        """`directory` None: a temporary directory, which lasts as long as this object. Raises ConfigError."""
        self._given = given
        self._directory = directory
        self._is_temporary = directory is None
        self._lines = ServerLines()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        # one bridge for all starts, because a test keeps its objects of topics and groups
        self._bridge = LoopBridge(self._why_not)
        self._against = Against("", bridge=self._bridge)
        self._ports: list[int] = []
        self._control = ""
        self._life = Lifecycle()
        # a wrong setting is reported now, not when the server starts
        self._config = config_of(given, directory)

    @property
    def bridge(self) -> LoopBridge:
        return self._bridge

    @property
    def lines(self) -> ServerLines:
        """The log lines of the server."""
        return self._lines

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the nodes, for clients."""
        return self._against.bootstrap_servers

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and not self._life.is_elsewhere and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the server. Raises CannotBeDone when the server does not run."""
        if self._process is None:
            raise CannotBeDone("the server does not run")
        return self._process.pid

    @property
    def control(self) -> str:
        """HOST:PORT of the server's test control (docs/testcontrol.md); empty before the first start."""
        return self._control

    def start(self) -> None:
        """Start the server. If it does not start, raises OSError with the output of the process."""
        with self._life.changing():
            if self._process is not None:
                if self._process.poll() is None:
                    raise CannotBeDone("the server runs already")
                self._end()  # another process has killed the server
            try:
                self._start()
            except BaseException:
                if self._process is not None:
                    self._process.kill()
                    self._end()
                raise

    def _start(self) -> None:
        # in a session of its own, the server gets no Ctrl-C; the test gets it, and stops the server
        process = self._process = subprocess.Popen(
            self._words(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,
        )
        self._life.began()
        assert process.stdout is not None
        assert process.stderr is not None
        before = self._lines.count
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), name="muster-lines", daemon=True)
        self._reader.start()
        words = process.stdout.readline().decode().split()
        if words[:2] != ["muster", "ready"]:
            self._end()
            raise OSError("\n".join(["muster serve did not start:", *map(str, self._lines.since(before))]))
        control = self._control = self._control_of(before)
        asked = Control(control)
        rows = asked.ask("GET", "/v1/nodes")["nodes"]
        self._ports = ports_to_keep(self._config, [[_port(one) for one in row["addresses"]] for row in rows])
        where = asked.ask("GET", "/v1/server")["bootstrap_servers"]
        self._against = Against(where, lambda cluster: ControlledVerbs(cluster, control), self._bridge)
        self._against.start()

    def _words(self) -> list[str]:
        given = self._given
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="muster-"))
            weakref.finalize(self, _delete, self._directory, os.getpid())
        words = [sys.executable, "-m", "muster.testing.beside", ",".join(map(str, self._ports)) or beside.NONE]
        words += [str(self._directory) if self._is_temporary else beside.NONE, "serve"]
        words += ["--control", "127.0.0.1:0", "--data-dir", str(self._directory)]
        words += ["--listen", given.listen_option] if given.listen_option is not None else []
        words += ["--nodes", str(given.nodes)] if given.nodes > 1 else []
        for topic in given.topic_options:
            words += ["--topic", topic]
        for name, value in given.properties.items():
            words += ["--override", f"{name}={value}"]
        return words

    def _why_not(self, failure: Exception) -> CannotBeDone | None:
        meant = refused(failure)
        if meant is None and not isinstance(failure, CannotBeDone):
            return None
        is_unanswered = meant is not None or isinstance(failure, NoAnswer)
        ended = self._ended(DYING_S if is_unanswered else 0)
        return CannotBeDone(ended) if ended else meant

    def _ended(self, within_s: float = 0) -> str:
        process = self._process
        if process is None:
            return ""
        with suppress(subprocess.TimeoutExpired):
            process.wait(within_s)
        status = process.poll()
        if status is None:
            return ""
        how = f"it was killed by {signal.Signals(-status).name}" if status < 0 else f"its exit status was {status}"
        return "\n".join(
            [f"the process of the server has ended: {how}", *map(str, self._lines.warnings()[-MAX_WARNINGS:])]
        )

    def _control_of(self, before: int) -> str:
        """The address of the test control. Another thread reads it in the server's log."""
        due_s = time.monotonic() + STOP_S
        while time.monotonic() < due_s:
            for line in self._lines.since(before):
                if line.text == CONTROL_LINE:
                    return str(line.facts["address"])
            time.sleep(0.005)
        raise OSError("muster serve does not say where its control listens")

    def _read(self, stream: IO[bytes]) -> None:
        for raw in stream:
            try:
                facts = json.loads(raw)
                wall_ms = round(datetime.fromisoformat(facts.pop("timestamp")).timestamp() * 1000)
                line = Line(wall_ms, facts.pop("level"), facts.pop("logger"), facts.pop("event"), facts)
            except (ValueError, KeyError, AttributeError, TypeError):
                line = Line(time.time_ns() // 1_000_000, "error", "muster", raw.decode("utf-8", "replace").rstrip())
            self._lines.add(line)

    def stop(self) -> None:
        """Stop the server by SIGTERM: members are informed, and logs are flushed."""
        if self._life.is_elsewhere:
            return  # only the process that owns the server stops it
        with self._life.changing():
            if self._process is not None:
                self._against.stop()
                self._process.send_signal(signal.SIGTERM)
                self._end()

    def kill(self) -> None:
        """End the server by SIGKILL."""
        with self._life.changing():
            if self._process is None:
                raise CannotBeDone("the server does not run")
            ended = self._ended()
            if ended:
                raise CannotBeDone(ended)
            self._against.stop()
            self._process.kill()
            self._end()

    def _end(self) -> None:
        """End the process if it runs, and delete the files that it has left."""
        self._against.stop()
        process, self._process = self._process, None
        assert process is not None
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._reader is not None:
            self._reader.join()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        self._life.ended()

    def take_failure(self) -> None:
        """See `Runner`. Returns None, because no test code runs in the server's process."""

    def verbs(self) -> ClusterVerbs:
        """The verbs that any cluster has, and those that only Muster has."""
        ended = "" if self._life.is_elsewhere else self._ended()
        if ended:
            raise CannotBeDone(ended)
        return self._against.verbs()


def _port(address: str) -> int:
    return parse_address(address, "a node").port


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_") and name != "CLUSTER_ID"}


def _delete(directory: Path, pid: int) -> None:
    """Delete the directory, but only in the process that made it, not in a fork of that process."""
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)
