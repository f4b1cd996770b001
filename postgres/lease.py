"""What a node may rely on: its lease, and rows that it has read in the database (`ReadBarrier`). `outcome`
says what has become of a database write.

A node counts its lease from the moment in which it *sent* the extension, by its own clock. The database counts from the
later moment in which it stored the extension. So the lease ends first for the node, if both clocks are equally fast. No
clock decides whether a write counts: the epoch decides that.

A process may be suspended (SIGSTOP, a virtual machine that is moved). When the process continues, it finds old requests
in its sockets, and timers that are due. The process would answer before it learns that others lead its partitions. So
each answer checks the clock when it is sent. After the end of the lease nothing is sent, and the connection is cut.

A row that can be read need not be durable. A database session may end while it waits for a synchronous standby. Then
all readers see its rows, and the standby may never get them. A later write is durable only if all writes before it are.
So a node that has read something writes a number to its own registration, over the same connection. When the database
answers that write, the rows that were read are durable. The number stays in the registration, and each database write
of the node counts only where the number is found. So a node never writes to a standby that has lost what it read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from enum import Enum
from typing import Any

from muster.coordinator.system.clock import Clock
from muster.postgres.store import NodeRegistration, Store, StoreAway


class Outcome(Enum):
    """The state of a database write that was refused, or whose answer was lost."""

    SEEN = "it can be read, and need not last: only the answer to a later write says so"
    AGAIN = "it does not count, and may be sent again"
    LOST = "it never counts: the node no longer has the registration, or the database has lost earlier writes"


def outcome(
    found: NodeRegistration | None, epoch: int, before: Container[int], sent: Container[int], barrier: int
) -> Outcome:
    """The state of a database write of `epoch`, by the registration that the database has. `sent`: the numbers of the
    write and of the writes that were to prove it. `before`: the numbers that the write may follow. The write may still
    be under way in the database: sent again, it counts once. `barrier`: the registration's least number.
    """
    if found is None or found.epoch != epoch or found.barrier < barrier:
        return Outcome.LOST
    if found.write_no in sent:
        return Outcome.SEEN
    # the number is not in `before`: a process has written that this node does not know
    return Outcome.AGAIN if found.write_no in before else Outcome.LOST


class Lease:
    """How long the registration is held, by the monotonic clock of its node."""

    __slots__ = ("ends_ms", "length_ms")

    def __init__(self, length_ms: int, since_ms: int) -> None:
        """`since_ms`: when the registration was requested."""
        self.length_ms = length_ms
        self.ends_ms = since_ms + length_ms
        """From this time on another process may hold the registration. Each answer reads this field.
        """

    @property
    def renew_ms(self) -> int:
        """From this time on the lease has to be extended, even without records to write."""
        return self.ends_ms - self.length_ms + self.length_ms // 4

    def extended(self, sent_ms: int) -> None:
        """Note that a request that was sent at `sent_ms` has extended the lease."""
        self.ends_ms = max(self.ends_ms, sent_ms + self.length_ms)

    def is_over(self, now_ms: int) -> bool:
        """Whether another process may hold the registration."""
        return now_ms >= self.ends_ms


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


NOT_REGISTERED = "other nodes have declared this node dead, or the database has lost what this node has read or written"
"""Why a node must register again."""


class ReadBarrier:
    """The read barrier of one node session. `number`, `write_no`: the last answered number and database write."""

    def __init__(self, store: Store, registration: NodeRegistration) -> None:
        """`store`: the connection over which the node reads."""
        self._store = store
        self._registration = registration
        self.lost: Callable[[str], object] = lambda _: None
        """Called when the node must give up its registration."""
        self.number = registration.barrier
        self.write_no = registration.write_no
        self._sent = registration.barrier
        self._asked = 0
        """How many calls of `passed` were made; `_covered`: how many of them a written number covers."""
        self._covered = 0
        self._session = -1
        self._one_at_a_time = asyncio.Lock()

    @property
    def session(self) -> int:
        """The present connection for reads: take it before the first request, and give it to `passed`."""
        return self._store.session

    @property
    def is_new(self) -> bool:
        """Whether no number was written over the present connection yet: its server may have lost something."""
        return self._store.session != self._session

    async def passed(self, session: int) -> bool:
        """Wait until all that was read since `session` was taken is durable. False: the connection was replaced since,
        so read again. Raises StoreAway or StoreRefused.
        """
        self._asked += 1
        request = self._asked
        async with self._one_at_a_time:
            if self._covered < request and self._store.session == session:
                requests = self._asked
                self._sent += 1
                number = self._sent
                node_id, epoch = self._registration.node_id, self._registration.epoch
                if not await self._store.barrier(node_id, epoch, number, after=self.number, write_no=self.write_no):
                    self.lost(NOT_REGISTERED)
                    raise StoreAway(NOT_REGISTERED)
                self.number, self._session = number, session
                if self._store.session == session:
                    self._covered = requests
            return self._store.session == session
