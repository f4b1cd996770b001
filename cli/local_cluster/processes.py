"""The child processes of `muster cluster try`: functions for all of them, and the process of a node."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from muster.coordinator.system.clock import within_s

UMASK: Final = 0o077
"""The umask of nodes: their files contain records of clients, so no other user may read them."""
_PR_SET_PDEATHSIG: Final = 1
STOP_TIMEOUT_S: Final = 30.0
_AT_FREE_PORT: Final = re.compile(r"^(listeners=[^,]+://[^,]*):0$")
"""The property of a node with one listener, which gets a free port."""
_SERVE_PREFIX: Final = "muster serve: "


class Failed(Exception):
    """The cluster cannot start or go on. The text is a sentence that says what failed, and what to do."""


def ended(status: int) -> str:
    """Say how a process with this exit status ended: "was killed by SIGKILL", "ended with status 1"."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by the signal {-status}"


def open_log(path: Path, *, anew: bool) -> BinaryIO:
    """Open a file for the output of a child process. No other user may read it. `anew`: empty the file first."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if anew else os.O_APPEND)
    return open(os.open(path, flags, 0o600), "wb")


def environment() -> dict[str, str]:
    """The environment without PostgreSQL's variables (PG…), which could name another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def ends_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """A `preexec_fn` for Linux: the child gets this signal when its parent dies, even if SIGKILL killed the parent.

    The kernel sends the signal when the thread that made the child ends. So only the main thread may use this function.
    """
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    libc, parent = ctypes.CDLL(None), os.getpid()

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:
            os.kill(os.getpid(), number)

    return ask


def with_port(options: Sequence[str], address: str) -> list[str]:
    """The options for the next start of a node: it keeps the port that it got, which clients know.

    This is known only of a node with one listener, whose address clients get.
    """
    if any(one.startswith("advertised.listeners=") for one in options):
        return list(options)
    return [_AT_FREE_PORT.sub(rf"\g<1>:{address.rpartition(':')[2]}", one) for one in options]


class NodeProcess:
    """The process of a node (`muster serve --cluster`). It can be started again after it has ended."""

    def __init__(self, node_id: int, options: Sequence[str], log_path: Path) -> None:
        """`options`: of `muster serve`; `log_path`: the file for the node's log, which the first start empties."""
        self.node_id = node_id
        self.log_path = log_path
        self.address = ""
        self._options = list(options)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The process id of the node."""
        assert self._process is not None, "the node was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the node's process runs."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the node, and return when clients can connect. Raises `Failed` when the node ends before that."""
        # -P: Python imports no module from the current folder
        words = [sys.executable, "-P", "-m", "muster.cli", "serve", *self._options]
        with open_log(self.log_path, anew=self._process is None) as log:
            self._process = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log,
                env=environment(), umask=UMASK, start_new_session=True, preexec_fn=ends_with_parent(signal.SIGKILL),
            )  # fmt: skip
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode(errors="replace").split()
        if line[:2] != ["muster", "ready"]:
            status = await self._process.wait()
            raise Failed(f"node {self.node_id} {ended(status)} before it was ready{self.last_words()}")
        self.address = line[2]
        self._options = with_port(self._options, self.address)

    async def wait(self) -> int:
        """Wait until the node ends, and return its exit status."""
        assert self._process is not None, "the node was not started"
        return await self._process.wait()

    async def stop(self) -> None:
        """Stop the node: it hands over its partitions, then closes connections. Kill it if that takes too long."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await within_s(STOP_TIMEOUT_S, self._process.wait())
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def kill(self) -> None:
        """Kill the node."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def last_words(self) -> str:
        """The last line of the node's log, as the end of a sentence (": …"); empty if there is no line."""
        try:
            lines = self.log_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            return ""
        if not lines:
            return ""
        return f": {_event(lines[-1]).removeprefix(_SERVE_PREFIX)}"


def _event(line: str) -> str:
    try:
        return str(json.loads(line)["event"])
    except (ValueError, TypeError, KeyError):
        return line
