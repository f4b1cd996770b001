"""A node sends answers only while it holds its lease.

A process may be suspended (SIGSTOP, a virtual machine that is moved). When it continues, it finds old requests in its
sockets, and timers that are due. It would answer them before it learns that others lead what it led. So each answer
checks the clock when it is sent. After the end of the lease nothing is sent, and the connection is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.coordinator.system.clock import Clock
from muster.postgres.lease import Lease


class LeasedTransport:
    """The transport of one connection; see the module. Everything except writing goes to the transport below."""

    __slots__ = ("_abort", "_lease", "_mono_ms", "_transport")

    def __init__(self, transport: Any, abort: Callable[[], object], clock: Clock, lease: Lease) -> None:
        """`abort`: ends the connection."""
        self._transport = transport
        self._abort = abort
        self._mono_ms = clock.mono_ms
        self._lease = lease

    def write(self, data: bytes | memoryview) -> None:
        """Send some bytes, or end the connection."""
        if self._mono_ms() < self._lease.ends_ms:
            self._transport.write(data)
        else:
            self._abort()

    def writelines(self, data: list[bytes | memoryview]) -> None:
        """Send some parts, or end the connection."""
        if self._mono_ms() < self._lease.ends_ms:
            self._transport.writelines(data)
        else:
            self._abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
