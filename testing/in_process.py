"""A server as a process of its own: `muster serve`, asked by Kafka's own requests and by its control over HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Final

from muster.coordinator.config.listeners import parse_address, show
from muster.coordinator.rehearsal.errors import CannotBeDone
from muster.testing.against import Against, ClusterVerbs
from muster.testing.controlled_verbs import ControlledVerbs
from muster.testing.portal import Portal
from muster.testing.server_lines import Line, ServerLines
from muster.testing.settings import Given, config_of
from muster.testing.verbs import Runner

CONTROL_LINE: Final = "the control listens"
"""What `rehearsal.http.server` logs."""
STOP_S: Final = 30.0
"""How long a process that is told to stop may take."""


class InProcess(Runner):
    """See the module."""

    def __init__(self, given: Given, directory: Path | None) -> None:
        """Raises ConfigError."""
        self._given = given
        self._directory = directory
        self._lines = ServerLines()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._against = Against("")
        self._listen = given.listen_option
        # what is wrong is said at once
        config_of(given, directory)

    @property
    def portal(self) -> Portal:
        """See `Runner`, as all below."""
        return self._against.portal

    @property
    def lines(self) -> ServerLines:
        """What it has logged."""
        return self._lines

    @property
    def bootstrap_servers(self) -> str:
        """Where the first node listens: clients learn of the others."""
        return self._against.bootstrap_servers

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process. Raises CannotBeDone when there is none."""
        if self._process is None:
            raise CannotBeDone("the server does not run")
        return self._process.pid

    def start(self) -> None:
        """Raises OSError when it does not start, with what it said."""
        if self._process is not None:
            raise CannotBeDone("the server runs already")
        given, words = self._given, [sys.executable, "-m", "muster.testing.beside", "serve"]
        words += ["--control", "127.0.0.1:0"]
        words += ["--in-memory"] if self._directory is None else ["--data-dir", str(self._directory)]
        words += ["--listen", self._listen] if self._listen is not None else []
        words += ["--nodes", str(given.nodes)] if given.nodes > 1 else []
        for topic in given.topic_options:
            words += ["--topic", topic]
        for name, value in given.properties.items():
            words += ["--override", f"{name}={value}"]
        # the process ends when its stdin does: see muster.testing.beside
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        before = self._lines.count
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), name="muster-lines", daemon=True)
        self._reader.start()
        self._process = process
        told = process.stdout.readline().decode().split()
        if told[:2] != ["muster", "ready"]:
            self._gone()
            raise OSError("\n".join(["muster serve did not start:", *map(str, self._lines.since(before))]))
        first = parse_address(told[2], "the server")
        control = self._control_of(before)
        self._against = Against(show(*first), lambda cluster: ControlledVerbs(cluster, control))
        if given.nodes == 1 and self._listen is not None:
            self._listen = told[2]
        self._against.start()

    def _control_of(self, before: int) -> str:
        """Where its control listens: it says so in its log, which is read by another thread."""
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
                line = Line(0, facts.pop("level"), facts.pop("logger"), facts.pop("event"), facts)
            except (ValueError, KeyError, AttributeError):
                line = Line(0, "error", "muster", raw.decode("utf-8", "replace").rstrip())
            self._lines.add(line)

    def stop(self) -> None:
        """SIGTERM; members are told, and logs are flushed."""
        if self._process is not None:
            self._against.stop()
            self._process.send_signal(signal.SIGTERM)
            self._gone()

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is None:
            raise CannotBeDone("the server does not run")
        self._against.stop()
        self._process.kill()
        self._gone()

    def _gone(self) -> None:
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

    def verbs(self) -> ClusterVerbs:
        """As of any cluster, and what only Muster can do."""
        return self._against.verbs()
