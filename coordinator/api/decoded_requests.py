"""One memory limit for the large requests of all connections, from decoding to the answer. A decoded request takes many
times its bytes: each of 250,000 elements is an object.

Requests that do not fit wait, and are decoded when others were answered. Addresses are served in turn. Small requests
are neither counted nor delayed. No request waits for one that itself waits for other clients. JoinGroup and SyncGroup
are counted until the group has their content. A Fetch with many partitions ends early when others need its memory.
(Requests of `registry.ONLY_READS` are decoded one at a time; see `api.unsent`.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from muster.coordinator.system.clock import Clock

MAX_BYTES: Final = 128 << 20
"""The limit for all requests together. A larger request is decoded when no other request has memory."""
FACTOR: Final = 56
"""A decoded request takes at most 56 times its bytes: each 3 bytes may be an object with lists. Usual are 10 times."""
MAX_OF_ONE: Final = 100 << 20
"""The memory of one request at most. A request with 250,000 elements takes it."""
ROW_BYTES: Final = 400
"""The memory that one partition of a waiting Fetch takes."""
PAUSE_MS: Final = 5
"""How often the memory is checked while requests wait."""
AT_ONCE: Final = 10
"""The most requests that begin in one iteration of the event loop. As many may end early."""


class Decoded:
    """The memory of one request. It counts until nothing refers to this object: perhaps after the end of the
    connection, and in any thread.
    """

    __slots__ = ("_all", "_begin", "bytes", "host")

    def __init__(self, decoded: DecodedRequests, size: int, host: str, *, waits: bool = False) -> None:
        self._all = decoded
        self._begin: Callable[[], object] | None = _nothing if waits else None
        self.bytes = size
        self.host = host

    def release(self) -> None:
        """Release the memory: the request was answered, or the group holds its content. A second call has no effect."""
        size, self.bytes = self.bytes, 0
        if size and self._begin is None:
            self._all.released.append(size)

    def when_available(self, begin: Callable[[], object]) -> None:
        """Call `begin` when memory is available, perhaps at once. `leave` cancels this."""
        if self._begin is None:
            begin()
        else:
            self._begin = begin

    def leave(self) -> None:
        """The connection has ended. A waiting request is not decoded. Others release their memory themselves."""
        if self._begin is not None:
            self._begin = _nothing
            self.bytes = 0

    def begin(self) -> None:
        """Memory is available: the request begins."""
        begin, self._begin = self._begin, None
        if begin is not None:
            begin()

    def __del__(self) -> None:
        self.release()


class DecodedRequests:
    """See the module. `bytes`: the memory in use. `released`: released sizes that are not yet subtracted."""

    def __init__(self, clock: Clock, max_bytes: int = MAX_BYTES) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self.released: deque[int] = deque()
        self._bytes = 0
        self._waiting: dict[str, deque[Decoded]] = {}
        """Waiting requests by address. The address that was served last is at the end."""
        self._parked: dict[Decoded, Callable[[], object]] = {}
        """Requests that wait for others, oldest first, with the function that ends the wait early."""
        self._is_asked = False

    @property
    def bytes(self) -> int:
        """The memory in use."""
        while self.released:
            self._bytes -= self.released.popleft()
        return self._bytes

    def take(self, size: int, host: str) -> Decoded:
        """Return the memory of a request of `size` bytes. `when_available` reports when the request may be decoded."""
        taken = min(size * FACTOR, MAX_OF_ONE, self._max_bytes)
        if not self._waiting and self.bytes + taken <= self._max_bytes:
            self._bytes += taken
            return Decoded(self, taken, host)
        decoded = Decoded(self, taken, host, waits=True)
        self._waiting.setdefault(host, deque()).append(decoded)
        self._ask()
        return decoded

    def count(self, rows: int, host: str) -> Decoded:
        """Count the rows of a small request that begins to wait for others."""
        decoded = Decoded(self, rows * ROW_BYTES, host)
        self._bytes += decoded.bytes
        return decoded

    def park(self, decoded: Decoded, end: Callable[[], object]) -> Callable[[], object]:
        """The request waits for others. `end` ends the wait when memory is needed. The result cancels that."""
        self._parked[decoded] = end
        if self._waiting or self.bytes > self._max_bytes:
            self._ask()
        return lambda: self._parked.pop(decoded, None)

    def _ask(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._clock.call_soon(self._serve)

    def _serve(self) -> None:
        self._is_asked = False
        for _ in range(AT_ONCE):
            if not self._waiting or not self._begin_next():
                break
        if not self._waiting and self.bytes <= self._max_bytes:
            return
        missing = self.bytes - self._max_bytes
        if self._waiting:
            missing += self._waiting[next(iter(self._waiting))][0].bytes
        for decoded in list(islice(self._parked, AT_ONCE)):
            if missing <= 0:
                break
            missing -= decoded.bytes
            self._parked.pop(decoded)()
        if self._waiting or self._parked:
            self._is_asked = True
            self._clock.call_at(self._clock.mono_ms() + PAUSE_MS, self._serve)

    def _begin_next(self) -> bool:
        host = next(iter(self._waiting))
        queue = self._waiting[host]
        if self.bytes + queue[0].bytes > self._max_bytes:
            return False
        del self._waiting[host]
        decoded = queue.popleft()
        if queue:
            self._waiting[host] = queue  # behind the other addresses
        self._bytes += decoded.bytes
        decoded.begin()
        return True


def _nothing() -> None:
    pass
