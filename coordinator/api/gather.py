"""Puts one answer together from several: for requests whose groups live on more than one shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.protocol.message import Message


class Gather:
    """Waits for `count` parts, in whatever order they come, then calls `done` with all of them in their places."""

    __slots__ = ("_done", "_missing", "_parts")

    def __init__(self, count: int, done: Callable[[list[Any]], None]) -> None:
        """With a count of 0 `done` is called at once."""
        self._parts: list[Message | None] = [None] * count
        self._missing = count
        self._done = done
        if not count:
            done([])

    def part(self, index: int) -> Callable[[Message], None]:
        """What takes the part at `index` (a command's token)."""

        def take(response: Message) -> None:
            self._parts[index] = response
            self._missing -= 1
            if not self._missing:
                self._done(self._parts)

        return take
