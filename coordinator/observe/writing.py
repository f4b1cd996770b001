"""Events on their way to be rows of `__group_events`, in their order: small ones at once, those of large groups a few
pieces at a time, with all that came after them behind. Writes nothing itself, sets no timer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from muster.coordinator.groups.interface import Event
from muster.coordinator.observe import schema

PIECES_AT_ONCE: Final = 10
"""Pieces of one event (`schema.pieces`) that are made in one go: some 5 ms."""

Row = tuple[bytes | None, bytes]


class Writing:
    """See the module. `too_large(event, error)` is told of events that cannot be said."""

    def __init__(self, too_large: Callable[[Event, schema.TooLarge], object]) -> None:
        self.rows: list[Row] = []
        """What is ready."""
        self._too_large = too_large
        self._waiting: deque[tuple[Event, int]] = deque()
        self._pieces: Iterator[str | None] | None = None
        self._done: list[bytes] = []
        self._size = 0

    @property
    def is_behind(self) -> bool:
        """Whether `go_on` has something to do."""
        return bool(self._waiting)

    def add(self, event: Event, wall_ms: int) -> None:
        """One more; it is ready at once unless it is a large one, or one such is being made."""
        if not self._waiting:
            try:
                value = schema.short_json(event, wall_ms)
            except schema.TooLarge as error:
                self._too_large(event, error)
                return
            if value is not None:
                self.rows.append((_key(event), value))
                return
        self._waiting.append((event, wall_ms))
        if len(self._waiting) == 1:
            self.go_on()

    def go_on(self, most: int = PIECES_AT_ONCE) -> None:
        """Make so many pieces; those of one event more or less."""
        while self._waiting and most > 0:
            event, wall_ms = self._waiting[0]
            if self._pieces is None:
                self._pieces = schema.pieces(event, wall_ms)
            try:
                made = list(islice(self._pieces, most))
                self._take("".join(filter(None, made)).encode("utf-8", "surrogatepass"))
            except schema.TooLarge as error:
                self._begin_next()
                self._too_large(event, error)
                most -= 1
                continue
            if len(made) < most:
                self.rows.append((_key(event), b"".join(self._done)))
                self._begin_next()
            most -= len(made) + 1

    def finish(self) -> None:
        """Make all that is left."""
        while self._waiting:
            self.go_on()

    def _take(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > schema.MOST_BYTES:
            raise schema.TooLarge(self._size)
        self._done.append(data)

    def _begin_next(self) -> None:
        self._waiting.popleft()
        self._pieces = None
        self._done, self._size = [], 0


def _key(event: Event) -> bytes:
    return event.group_id.encode("utf-8", "surrogatepass")
