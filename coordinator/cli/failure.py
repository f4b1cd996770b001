"""Why the server could not start, as one sentence for the user."""

from __future__ import annotations

import errno
import socket

from muster.coordinator.config import Config
from muster.coordinator.config.listeners import show


def sentence(error: OSError, config: Config) -> str:
    """Which port or directory cannot be used, why, and what to do."""
    if error.filename is not None:
        return f"{error.filename} cannot be used: {_reason(error)}; give a writable directory with --data-dir"
    where = ", ".join(show(one.host, one.port) for one in config.listeners)
    if isinstance(error, socket.gaierror):
        return f"cannot listen on {where}: the host is not known; give an address of this machine with --listen"
    if error.errno == errno.EADDRINUSE:
        return (
            f"cannot listen on {where}: the port is in use; stop the program that has it, or give another with --listen"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return f"cannot listen on {where}: it is not an address of this machine; give one that is with --listen"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"cannot listen on {where}: this user is not allowed to; give a port above 1023 with --listen"
    return f"cannot start: {_reason(error)}"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
