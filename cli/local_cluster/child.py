"""The common part of all child processes of `muster cluster try`."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

UMASK: Final = 0o077
"""The files of nodes have records of users, so no other user may read them."""
_PR_SET_PDEATHSIG: Final = 1


class Failed(Exception):
    """A sentence that says what failed, and what to do."""


def ended(status: int) -> str:
    """How a process ended, from its exit status: "was killed by SIGKILL", "ended with status 1"."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by the signal {-status}"


def open_log(path: Path, *, anew: bool) -> BinaryIO:
    """A file for the output of a child, which no other user may read."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if anew else os.O_APPEND)
    return open(os.open(path, flags, 0o600), "wb")


def environment() -> dict[str, str]:
    """The environment of this process without PostgreSQL's variables: they could lead to another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def ends_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """A `preexec_fn`: the child gets this signal when its parent dies, even by SIGKILL. Linux only; elsewhere None.

    The kernel sends the signal when the thread that made the child ends. So only the main thread asks for it.
    """
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    libc, parent = ctypes.CDLL(None), os.getpid()

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:
            os.kill(os.getpid(), number)

    return ask
