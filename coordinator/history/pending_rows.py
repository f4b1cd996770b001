"""Events that become rows of `__group_events`, in order. It writes nothing itself and sets no timer.

Rows of small events are made at once. Those of large groups are made a few pieces at a time; later events wait for
them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from math import ceil
from typing import Final

from muster.coordinator.groups.common.events import Event
from muster.coordinator.history import schema
from muster.coordinator.history.event_writer import Row, record_key

PIECES_AT_ONCE: Final = 10
"""Pieces of one event (`schema.pieces`) that are made at once: some 5 ms."""

A_SHORT_ONE: Final = 0.01
"""The least number of pieces that an event of one member counts for.

So the events that wait for a large one do not grow without limit.
"""
BYTES_AS_A_PIECE: Final = 64 * 1024
"""Text of events of one member that counts for a piece. Most of it is metadata, which is encoded fast."""
MOST_ROWS_WAITING: Final = 100_000
"""Limit for the members of all waiting events.

So a group that rebalances faster than its events are made does not fill the memory.
"""


class PendingRows:
    """See the module. `lost(event, why)` is called for events that cannot be written."""

    def __init__(self, lost: Callable[[Event, str], object]) -> None:
        self.rows: list[Row] = []
        """The finished rows."""
        self._lost = lost
        self._waiting: deque[tuple[Event, int]] = deque()
        self._rows_waiting = 0
        self._pieces: Iterator[str | None] | None = None
        self._done: list[bytes] = []
        self._size = 0
        self._left = float(PIECES_AT_ONCE)
        """Pieces that may still be made in this iteration of the event loop."""

    @property
    def is_behind(self) -> bool:
        """Whether `go_on` has something to do."""
        return bool(self._waiting)

    def add(self, event: Event, wall_ms: int) -> None:
        """Add an event. Its rows are ready at once unless the event is large, or a large event is being made."""
        if not self._waiting and self._left > 0 and self._make_short(event, wall_ms):
            return
        rows = _rows(event)
        if self._rows_waiting and self._rows_waiting + rows > MOST_ROWS_WAITING:
            self._lost(event, f"events of {self._rows_waiting} members are before it, and not written yet")
            return
        self._rows_waiting += rows
        self._waiting.append((event, wall_ms))
        if len(self._waiting) == 1:
            self._go_on()

    def go_on(self) -> None:
        """A new iteration: make as many pieces as are allowed at once. The last event may exceed that a little."""
        self._left = float(PIECES_AT_ONCE)
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._left > 0:
            event, wall_ms = self._waiting[0]
            if self._pieces is None:
                if self._make_short(event, wall_ms):
                    self._begin_next()
                    continue
                self._pieces = schema.pieces(event, wall_ms)
            most = ceil(self._left)
            try:
                made = list(islice(self._pieces, most))
                self._take("".join(filter(None, made)).encode("utf-8", "surrogatepass"))
            except schema.TooLarge as error:
                self._begin_next()
                self._lost(event, str(error))
                self._left -= 1
                continue
            if len(made) < most:
                self.rows.append((record_key(event.group_id), b"".join(self._done)))
                self._begin_next()
            self._left -= len(made)

    def _make_short(self, event: Event, wall_ms: int) -> bool:
        """Whether the event is short, and done: its row is made, or the event is lost."""
        try:
            value = schema.short_json(event, wall_ms)
        except schema.TooLarge as error:
            self._lost(event, str(error))
            return True
        if value is None:
            return False
        self._left -= max(A_SHORT_ONE, len(value) / BYTES_AS_A_PIECE)
        self.rows.append((record_key(event.group_id), value))
        return True

    def finish(self) -> None:
        """Make all remaining rows."""
        while self._waiting:
            self.go_on()

    def _take(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > schema.MOST_BYTES:
            raise schema.TooLarge(self._size)
        self._done.append(data)

    def _begin_next(self) -> None:
        self._rows_waiting -= _rows(self._waiting.popleft()[0])
        self._pieces = None
        self._done, self._size = [], 0


def _rows(event: Event) -> int:
    members = event.facts.get("changes", event.facts.get("members"))
    return max(len(members), 1) if isinstance(members, tuple) else 1
