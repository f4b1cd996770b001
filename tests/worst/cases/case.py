"""A case, and how much a request may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from muster.protocol.message import Message
from tests.worst.state import State

ELEMENTS: Final = 250_000
"""Elements of a request (`protocol/wire.py` MAX_ELEMENTS)."""
BYTES: Final = 32 * 1024 * 1024
"""Bytes of a request without records (`api/registry.py` MAX_BYTES)."""
CAPTURES: Final = "(.*)" * 100 + "b"
"""A pattern with many groups, which would be slow if they captured; a pattern may be ten times as long."""
LONG_TOPICS: Final = BYTES // 260
LONG_GROUPS: Final = BYTES // 510
MANY: Final = 20_000
"""No limit exists for the number of topics and groups: this is more than clusters have."""


class Case(NamedTuple):
    """One case of this module. `rows`: the things that the request or the state has many of."""

    rows: str
    most: int
    make: Callable[[State, int], Iterator[Message]]
    oldest: int | None = None
    """The first version that has all these fields; None: the oldest version that is served."""
    known: int = 0
    """The instructions that the case is known to need, if they are more than `judging.LIMIT`."""


_NEW = iter(range(1_000_000, 9_000_000))
"""Numbers of names that are new."""


def fresh(count: int) -> list[int]:
    """Return `count` new numbers."""
    return [next(_NEW) for _ in range(count)]


def wide(count: int) -> range:
    """Partitions of the topic with many partitions. Partitions above its size do not exist."""
    return range(count)


def one(make: Callable[[], Message]) -> Callable[[State, int], Iterator[Message]]:
    """A request without rows."""

    def asked(s: State, n: int) -> Iterator[Message]:
        yield make()

    return asked
