"""Answers that clients do not read: how many bytes of them lie in memory, and how large a further one may be.

Knows neither sockets nor messages: connections say what they could not send, Fetch asks before it reads.

The memory of unfinished requests (`net.request_memory`) is a budget of its own, with other rules. A request has one
size, and waits in a queue until it gets all of that. An answer waits for nothing: Fetch makes it smaller. Both close
connections that do not move while memory is short.
"""

from __future__ import annotations

from typing import Final, Protocol

from muster.coordinator.clock import Clock
from muster.coordinator.malloc import expect

NO_LIMIT: Final = 1 << 62
SHARE: Final = 4
"""One answer takes at most this part of what is left, so that something is left for the next."""
LOOK_EVERY_MS: Final = 1_000
STALLED_MS: Final = 10_000
"""While memory is short: a connection that has not read a byte for so long is closed."""


class Reader(Protocol):
    """A connection whose peer does not read as fast as it is answered."""

    @property
    def unsent_bytes(self) -> int:
        """How many bytes are in memory for it."""

    def close_stalled(self) -> None:
        """Others need the memory: the connection ends."""


class _Held:
    __slots__ = ("bytes", "since_ms")

    def __init__(self, size: int, now_ms: int) -> None:
        self.bytes = size
        self.since_ms = now_ms


class Taken:
    """The memory of one answer while it is made. After that its connection counts what is not read."""

    __slots__ = ("_unsent", "bytes")

    def __init__(self, unsent: Unsent) -> None:
        self._unsent = unsent
        self.bytes = 0

    def set(self, size: int) -> None:
        """The answer has so many bytes now; 0 when it was handed over or given up."""
        expect(size)
        self._unsent.bytes += size - self.bytes
        self.bytes = size


class Unsent:
    """See the module. `muster.queued.max.response.bytes` is what all connections together may hold."""

    def __init__(self, clock: Clock, most_bytes: int = -1) -> None:
        """`most_bytes`: a number that is not positive is no limit."""
        self._clock = clock
        self._most = most_bytes if most_bytes > 0 else NO_LIMIT
        self._held: dict[Reader, _Held] = {}
        self.bytes = 0
        self._looked_ms = 0

    def hold(self, reader: Reader) -> None:
        """`reader` reads no more for now."""
        self.release(reader)
        held = self._held[reader] = _Held(reader.unsent_bytes, self._clock.mono_ms())
        self.bytes += held.bytes

    def release(self, reader: Reader) -> None:
        """`reader` has read all, or has ended; harmless when it was not held."""
        held = self._held.pop(reader, None)
        if held is not None:
            self.bytes -= held.bytes

    def room(self) -> int:
        """How many bytes a further answer may have; 0: there must be none."""
        if self.bytes * 2 > self._most:
            self._look()
        left = self._most - self.bytes
        return max(left // SHARE, 1) if left > 0 else 0

    def _look(self) -> None:
        """Memory is short: count what was sent meanwhile, and close connections that read nothing."""
        now_ms = self._clock.mono_ms()
        if now_ms - self._looked_ms < LOOK_EVERY_MS and self.bytes < self._most:
            return
        self._looked_ms = now_ms
        for reader, held in list(self._held.items()):
            left = reader.unsent_bytes
            if left < held.bytes:
                self.bytes -= held.bytes - left
                held.bytes, held.since_ms = left, now_ms
            elif now_ms - held.since_ms >= STALLED_MS:
                self.release(reader)
                reader.close_stalled()
