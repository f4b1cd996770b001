"""One memory limit for the answers of all connections, until clients have read them
(`muster.queued.max.response.bytes`). This module decides how large a further answer may be, and which connection ends.

Connections report what they could not send. Fetch asks this module before it reads. Other requests wait while they make
a large answer (`api.many_rows`). The memory of requests (`net.request_memory`) has its own limit and rules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.memory import expect_block

NO_LIMIT: Final = 1 << 62
SHARE: Final = 4
"""One answer takes at most a quarter of the remaining memory, so that memory remains for the next answer."""
SHORT_BELOW: Final = 8
"""Memory is short for Fetch when less than an eighth of the limit remains."""
CHECK_EVERY_MS: Final = 1_000
STALLED_MS: Final = 10_000
WAITED_FOR_MS: Final = 3_000
NEXT_MS: Final = 1_000
STALLED_BYTES: Final = 16 * 1024
"""While memory is short, a connection that reads fewer bytes than this in `STALLED_MS` is closed. If other connections
wait for memory, the time is only `WAITED_FOR_MS`. After one connection was closed, the time is `NEXT_MS`, because
hundreds may be slow.
"""
KEPT_BYTES: Final = 32 << 20
"""Unread answers leave this many bytes, but at most half of the limit, to the next waiting answer."""
WAITED_MS: Final = 15_000
"""If other answers have waited longer than this time, each check closes the connection that reads most slowly."""
GIVEN_UP_AT_ONCE: Final = 1_000
"""The most answers without a waiting client that are skipped in one iteration of the event loop."""
PAUSE_MS: Final = 20
"""The pause between two waiting answers. The first answer must reach its connection, which counts the bytes."""


class Reader(Protocol):
    """A connection whose peer reads more slowly than the node answers."""

    @property
    def unsent_bytes(self) -> int:
        """How many bytes of answers are in memory for the connection."""

    @property
    def unread_bytes(self) -> int:
        """`unsent_bytes`, and the bytes that the operating system has not delivered yet."""

    def close_stalled(self) -> None:
        """Close the connection, because other connections need the memory."""


class _SlowReader:
    """A slow reader. `began_ms`, `began_unread`: when the peer began to read slowly, and the bytes that were unread.
    `since_ms`, `unread`: time and unread bytes at the last check that saw progress.
    """

    __slots__ = ("began_ms", "began_unread", "bytes", "since_ms", "unread")

    def __init__(self, unread: int, now_ms: int) -> None:
        self.bytes = 0
        self.unread = self.began_unread = unread
        self.since_ms = self.began_ms = now_ms


class Taken:
    """The memory of one answer while the answer is made. Later the connection counts the unread bytes."""

    __slots__ = ("_resume", "_unsent", "bytes", "host")

    def __init__(self, unsent: Unsent, host: str = "") -> None:
        self._unsent = unsent
        self._resume: Callable[[], object] | None = None
        self.host = host
        self.bytes = 0

    def set(self, size: int) -> None:
        """Note that the answer now has `size` bytes. 0: the answer was handed over or dropped."""
        expect_block(size)
        self._unsent.bytes += size - self.bytes
        self.bytes = size

    @property
    def may_grow(self) -> bool:
        """Whether the answer has at most its share, or is the one answer that may exceed the share."""
        return self._unsent.may_grow(self)

    def when_it_may(self, resume: Callable[[], object]) -> None:
        """Call `resume` when the answer may grow."""
        self._resume = resume
        self._unsent.wait(self.host, self.goes_on)

    def goes_on(self) -> bool:
        """Let the answer exceed its share until `release`. Returns False if the answer was dropped."""
        resume, self._resume = self._resume, None
        if resume is None:
            return False
        self._unsent.growing = self
        resume()
        return True

    def release(self) -> None:
        """Note that the answer was handed over, or dropped."""
        self.set(0)
        self._resume = None
        if self._unsent.growing is self:
            self._unsent.growing = None
            self._unsent.serve_later()


class Unsent:
    """The memory of all answers. `bytes`: the bytes of answers that are being made, and of unread answers."""

    def __init__(self, clock: Clock, most_bytes: int = -1) -> None:
        """`most_bytes`: the limit. A number that is not positive means no limit."""
        self._clock = clock
        self._most = most_bytes if most_bytes > 0 else NO_LIMIT
        self._held: dict[Reader, _SlowReader] = {}
        self._held_bytes = 0
        self.bytes = 0
        self.growing: Taken | None = None
        """The answer that may exceed its share."""
        self._waiting: dict[str, deque[tuple[int, Callable[[], bool]]]] = {}
        """Waiting answers by address: since when, and the function to call. The last served address is at the end."""
        self._short_since_ms: int | None = None
        self._ended_ms = -STALLED_MS
        self._timer: Timer | None = None
        self._pause: Timer | None = None

    # ---- connections

    def hold(self, reader: Reader) -> None:
        """Note that `reader` cannot take more bytes now."""
        held = self._held.get(reader)
        if held is None:
            held = self._held[reader] = _SlowReader(reader.unread_bytes, self._clock.mono_ms())
        self._count(held, reader.unsent_bytes)
        if self._is_short:
            self._arm()

    def release(self, reader: Reader) -> None:
        """Note that `reader` has read all bytes, or has ended. Without an earlier `hold` this call has no effect."""
        held = self._held.pop(reader, None)
        if held is not None:
            self._count(held, 0)
            if self._waiting:
                self.serve_later()

    def _count(self, held: _SlowReader, size: int) -> None:
        self.bytes += size - held.bytes
        self._held_bytes += size - held.bytes
        held.bytes = size

    # ---- answers

    def room(self) -> int:
        """How many bytes a further answer may have. 0 means that no answer may be made."""
        left = self._most - self.bytes
        if left * SHORT_BELOW < self._most:
            self._recount()
            left = self._most - self.bytes
            if left * SHORT_BELOW < self._most:
                if self._short_since_ms is None:
                    self._short_since_ms = self._clock.mono_ms()
                self._arm()
        return max(left // SHARE, 1) if left > 0 else 0

    def may_grow(self, taken: Taken) -> bool:
        """Whether an answer has at most its share, or is the one answer that may exceed the share."""
        # answers that are being made may have one half, unread answers the other half
        made = self.bytes - self._held_bytes
        return taken is self.growing or taken.bytes * SHARE <= min(self._most - self.bytes, self._most // 2 - made)

    @property
    def must_wait(self) -> bool:
        """Whether a large answer has to wait (see `wait`) before it is made."""
        return bool(self._waiting) or self._is_full

    @property
    def _is_short(self) -> bool:
        return self._held_bytes * 2 > self._most

    @property
    def _is_full(self) -> bool:
        """Whether unread answers have so many bytes that the next large answer has to wait."""
        return self._held_bytes > max(self._most - KEPT_BYTES, self._most // 2)

    def wait(self, host: str, go_on: Callable[[], bool]) -> None:
        """Call `go_on` when unread answers leave enough memory, and no answer exceeds its share. Addresses are served
        in turn. `go_on` returns whether the client still waits for the answer.
        """
        self._waiting.setdefault(host, deque()).append((self._clock.mono_ms(), go_on))
        self.serve_later()
        self._arm()

    def serve_later(self) -> None:
        """Serve the waiting answers in a later iteration of the event loop, because memory may be available."""
        if self._waiting and self._pause is None:
            self._pause = self._clock.call_at(self._clock.mono_ms() + PAUSE_MS, self._serve)

    def _serve(self) -> None:
        self._pause = None
        if not self._waiting or self.growing is not None or self._is_full:
            return
        for _ in range(GIVEN_UP_AT_ONCE):
            host = next(iter(self._waiting))
            queue = self._waiting.pop(host)
            _, go_on = queue.popleft()
            if queue:
                self._waiting[host] = queue  # the address goes behind the other addresses
            if go_on() or not self._waiting:
                break
        if self.growing is None:
            self.serve_later()

    # ---- connections that do not read

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.mono_ms() + CHECK_EVERY_MS, self._check)

    def _recount(self) -> None:
        for reader, held in self._held.items():
            left = reader.unsent_bytes
            if left < held.bytes:
                self._count(held, left)

    def _check(self) -> None:
        """Check whether memory is short, and close connections that read nothing or too little."""
        self._timer = None
        now_ms = self._clock.mono_ms()
        self._recount()
        if self._short_since_ms is not None and (self._most - self.bytes) * SHORT_BELOW >= self._most:
            self._short_since_ms = None
        if not (self._waiting or self._is_short or self._short_since_ms is not None):
            return
        patience_ms = STALLED_MS
        if self._waiting and self._is_full:
            patience_ms = WAITED_FOR_MS if now_ms - self._ended_ms > WAITED_FOR_MS else NEXT_MS
        for reader, held in list(self._held.items()):
            unread = reader.unread_bytes
            if held.unread - unread >= STALLED_BYTES or unread > held.unread:
                held.unread, held.since_ms = unread, now_ms
            elif now_ms - held.since_ms >= patience_ms:
                self._end(reader)
        if self._held and self._waited_ms(now_ms) >= WAITED_MS:
            self._end(min(self._held, key=lambda one: self._rate(one, now_ms)))
        self.serve_later()
        self._arm()

    def _waited_ms(self, now_ms: int) -> int:
        since = [queue[0][0] for queue in self._waiting.values()]
        if self._short_since_ms is not None:
            since.append(self._short_since_ms)
        # if memory is not short, answers wait for the growing answer, not for a slow reader
        return now_ms - min(since) if since and (self._is_full or self._short_since_ms is not None) else 0

    def _rate(self, reader: Reader, now_ms: int) -> float:
        held = self._held[reader]
        return (held.began_unread - reader.unread_bytes) / max(now_ms - held.began_ms, 1)

    def _end(self, reader: Reader) -> None:
        self._ended_ms = self._clock.mono_ms()
        self.release(reader)
        reader.close_stalled()

    def stop(self) -> None:
        """Stop all timers."""
        for timer in (self._timer, self._pause):
            if timer is not None:
                timer.cancel()
        self._timer = self._pause = None
