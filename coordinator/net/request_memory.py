"""How many bytes of large unfinished requests lie in memory (queued.max.request.bytes), and which connection is closed
when others wait for that memory.

Counts, and tells connections to go on or to end; reads no socket. Why answers have another budget: see `api.unsent`.
"""

from __future__ import annotations

from typing import Final, Protocol

from muster.coordinator.clock import Clock, Timer
from muster.coordinator.malloc import expect
from muster.coordinator.net.connection_core import ConnectionCore

LOOK_EVERY_MS: Final = 1_000
STALLED_MS: Final = 5_000
"""While others wait: a connection of whose request nothing comes for so long is closed."""
MOST_MS: Final = 30_000
"""While others wait and no request has stalled: the connection whose request began first is closed at this age."""


class Holder(Protocol):
    """A connection with large requests (more than `connection_core.SMALL_BYTES`; smaller ones are not counted)."""

    core: ConnectionCore

    def memory_granted(self) -> None:
        """There may be memory for its unfinished request now: ask again."""

    def close_stalled(self) -> None:
        """Others wait for the memory that it has."""


class _Grant:
    __slots__ = ("came", "changed_ms", "since_ms", "size")

    def __init__(self, size: int, came: int, now_ms: int) -> None:
        self.size = size
        self.came = came
        self.since_ms = self.changed_ms = now_ms


class RequestMemory:
    """As Kafka's SimpleMemoryPool: a connection that asks while anything is left gets all it needs, so that a request
    that has begun can always be finished. On Kafka a client that never finishes keeps its memory; here its connection
    is closed when others wait.
    """

    def __init__(self, clock: Clock, most_bytes: int) -> None:
        self._clock = clock
        self.left = most_bytes
        self._grants: dict[Holder, _Grant] = {}
        self._waiting: dict[Holder, None] = {}  # in the order in which they came
        self._timer: Timer | None = None

    def take(self, holder: Holder, size: int) -> bool:
        """Whether `holder` may gather `size` more bytes; if not, `holder.memory_granted` says when to ask again."""
        if self.left <= 0:
            self._waiting[holder] = None
            self._arm()
            return False
        self._waiting.pop(holder, None)
        self.left -= size
        expect(size)
        grant = self._grants.get(holder)
        if grant is None:
            self._grants[holder] = _Grant(size, 0, self._clock.mono_ms())
        else:
            grant.size += size
        return True

    def give(self, holder: Holder, size: int) -> None:
        """`size` bytes of its requests have left the memory; it needs no more than it still has."""
        self._waiting.pop(holder, None)
        if size:
            grant = self._grants[holder]
            grant.size -= size
            if not grant.size:
                del self._grants[holder]
            self.left += size
            self._hand_out()

    def leave(self, holder: Holder) -> None:
        """It has ended; harmless when it holds nothing."""
        self._waiting.pop(holder, None)
        grant = self._grants.pop(holder, None)
        if grant is not None:
            self.left += grant.size
            self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self.left > 0:
            holder = next(iter(self._waiting))
            del self._waiting[holder]
            holder.memory_granted()

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.mono_ms() + LOOK_EVERY_MS, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        now_ms = self._clock.mono_ms()
        oldest: Holder | None = None
        for holder, grant in list(self._grants.items()):
            came = holder.core.unfinished_bytes
            if came < 0 or came != grant.came:
                grant.came, grant.changed_ms = came, now_ms
            elif now_ms - grant.changed_ms >= STALLED_MS:
                oldest = holder
                break
            if came >= 0 and oldest is None and now_ms - grant.since_ms >= MOST_MS:
                oldest = holder
        if oldest is not None:
            oldest.close_stalled()
        self._arm()

    def stop(self) -> None:
        """No timer rings from now on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
