"""How much of unfinished requests lies in memory (queued.max.request.bytes), and who must go when others wait for it.

Counts, and tells connections to go on or to end; reads no socket.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from muster.coordinator.clock import Clock, Timer
from muster.coordinator.malloc import expect

SMALL_BYTES: Final = 64 * 1024
"""Requests of no more bytes are not counted: each connection may have that much, and a heartbeat never waits."""
LOOK_EVERY_MS: Final = 1_000
STALLED_MS: Final = 5_000
"""A request of which nothing comes for so long gives way to one that waits."""
MOST_MS: Final = 30_000
"""So does the one that was begun first, when nobody else gives way and it is as old as this."""


class Holder(Protocol):
    """A connection with large requests."""

    @property
    def unfinished_bytes(self) -> int:
        """How much has come of its request; negative while that is being worked on, and not the client's affair."""

    def memory_granted(self) -> None:
        """There is room for its unfinished request now."""

    def close_stalled(self) -> None:
        """Others wait for what it holds."""


class _Grant:
    __slots__ = ("came", "changed_ms", "since_ms", "size")

    def __init__(self, size: int, came: int, now_ms: int) -> None:
        self.size = size
        self.came = came
        self.since_ms = self.changed_ms = now_ms


class RequestMemory:
    """As Kafka's SimpleMemoryPool: whoever comes while anything is left gets all it needs, so that a request that was
    begun can always be finished. Kafka lets a client that never finishes keep it; here it ends when others wait.
    """

    def __init__(self, clock: Clock, most_bytes: int) -> None:
        self._clock = clock
        self.left = most_bytes
        self._grants: dict[Holder, _Grant] = {}
        self._waiting: deque[Holder] = deque()
        self._timer: Timer | None = None

    def take(self, holder: Holder, size: int) -> bool:
        """Whether `holder` may gather `size` more bytes; if not, `holder.memory_granted` says when to ask again."""
        if self.left <= 0:
            self._waiting.append(holder)
            self._arm()
            return False
        self.left -= size
        expect(size)
        grant = self._grants.get(holder)
        if grant is None:
            self._grants[holder] = _Grant(size, 0, self._clock.mono_ms())
        else:
            grant.size += size
        return True

    def give(self, holder: Holder, size: int) -> None:
        """`size` bytes of its requests have left the memory."""
        grant = self._grants[holder]
        grant.size -= size
        if not grant.size:
            del self._grants[holder]
        self.left += size
        self._hand_out()

    def leave(self, holder: Holder) -> None:
        """It has ended; harmless when it holds nothing."""
        if holder in self._waiting:
            self._waiting.remove(holder)
        grant = self._grants.pop(holder, None)
        if grant is not None:
            self.left += grant.size
            self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self.left > 0:
            self._waiting.popleft().memory_granted()

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
            came = holder.unfinished_bytes
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
