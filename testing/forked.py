"""A process that is forked from one with servers gets copies of their sockets, and closes them.

With such a copy a connection would stay open after the server has closed it. The server also could not bind its port
again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

Descriptors = Callable[[], Iterable[int]]

_SERVERS: dict[int, Descriptors] = {}


def has_sockets(server: object, descriptors: Descriptors) -> None:
    """From now on a forked process closes the sockets of this server."""
    if not _SERVERS and not _IS_HEEDED:
        os.register_at_fork(after_in_child=_give_up)
        _IS_HEEDED.append(True)
    _SERVERS[id(server)] = descriptors


def has_none(server: object) -> None:
    """The server has ended."""
    _SERVERS.pop(id(server), None)


_IS_HEEDED: list[bool] = []


def _give_up() -> None:
    """Runs in the new process. Its objects still know the numbers, so each number gets another file instead of none."""
    found = {one for descriptors in _SERVERS.values() for one in descriptors() if one >= 0}
    _SERVERS.clear()
    if not found:
        return
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in found:
        with suppress(OSError):
            os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)
