"""One memory limit for the large requests of all connections, from decoding to the answer. A decoded request takes many
times its bytes, because each of 250,000 elements is an object.

Requests above the limit wait until other requests are answered. Clients' addresses are served in turn. Small requests
are neither counted nor delayed. No request waits for a request that itself waits for other clients. JoinGroup and
SyncGroup are counted until the group has their content. A Fetch with many partitions ends early when other requests
need its memory. (Requests of `registry.ONLY_READS` are decoded one at a time; see `api.unsent`.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from muster.coordinator.system.clock import Clock

MAX_BYTES: Final = 128 << 20
"""The limit for all requests together, in bytes. A larger request is decoded when no other request has memory."""
FACTOR: Final = 56
"""A decoded request takes at most 56 times its bytes, usually 10 times. 3 bytes may be an object with lists."""
MAX_OF_ONE: Final = 100 << 20
"""The most memory of one request, in bytes. A request with 250,000 elements needs this much."""
ROW_BYTES: Final = 400
"""The memory that one partition of a waiting Fetch takes, in bytes."""
PAUSE_MS: Final = 5
"""The interval at which the memory is checked while requests wait."""
AT_ONCE: Final = 10
"""The most requests that begin in one iteration of the event loop, and the most waits that end early."""


class Decoded:
    """The memory of one request, which counts until no reference to this object exists. The last reference may end
    after the connection, and in any thread.
    """

    __slots__ = ("_all", "_begin", "bytes", "host")

    def __init__(self, decoded: DecodedRequests, size: int, host: str, *, waits: bool = False) -> None:
        self._all = decoded
        self._begin: Callable[[], object] | None = _nothing if waits else None
        self.bytes = size
        self.host = host

    def release(self) -> None:
        """Release the memory when the request is answered, or the group has its content. A second call does nothing."""
        size, self.bytes = self.bytes, 0
        if size and self._begin is None:
            self._all.released.append(size)

    def when_available(self, begin: Callable[[], object]) -> None:
        """Call `begin` when memory is available, perhaps at once. `leave` cancels this call."""
        if self._begin is None:
            begin()
        else:
            self._begin = begin

    def leave(self) -> None:
        """Cancel a waiting request, because the connection has ended. Other requests release their memory later."""
        if self._begin is not None:
            self._begin = _nothing
            self.bytes = 0

    def begin(self) -> None:
        """Begin the request, because memory is available."""
        begin, self._begin = self._begin, None
        if begin is not None:
            begin()

    def __del__(self) -> None:
        self.release()


class DecodedRequests:
    """The memory of all large requests. `released`: released sizes that are not yet subtracted from `bytes`."""

    def __init__(self, clock: Clock, max_bytes: int = MAX_BYTES) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self.released: deque[int] = deque()
        self._bytes = 0
        self._waiting: dict[str, deque[Decoded]] = {}
        """Waiting requests by address. The address that was served last is at the end."""
        self._parked: dict[Decoded, Callable[[], object]] = {}
        """Requests that wait for other clients, oldest first, with the function that ends the wait early."""
        self._is_asked = False

    @property
    def bytes(self) -> int:
        """The memory in use, in bytes."""
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
        """Count the rows of a small request that begins to wait for other clients."""
        decoded = Decoded(self, rows * ROW_BYTES, host)
        self._bytes += decoded.bytes
        return decoded

    def park(self, decoded: Decoded, end: Callable[[], object]) -> Callable[[], object]:
        """Let `end` end the wait of a request for other clients when memory is needed. To cancel, call the result."""
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
            self._waiting[host] = queue  # the address goes behind the other addresses
        self._bytes += decoded.bytes
        decoded.begin()
        return True


def _nothing() -> None:
    pass
