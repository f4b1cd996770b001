"""Asking the shards of many groups for one answer, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from muster.coordinator.slices import Job, Later
from muster.protocol.message import Message

AT_ONCE: Final = 100
"""So many are asked before the first answer is waited for: those that wait for the disk wait together, and what waits
takes little memory.
"""

ROWS_AT_ONCE: Final = 500
"""Rows of a request that one shard looks at in one go: some milliseconds."""

T = TypeVar("T")
R = TypeVar("R")


def ask_each(things: Iterable[T], ask: Callable[[T, Later], object], take: Callable[[T, Message], object]) -> Job[None]:
    """`ask(thing, token)` for each, then `take(thing, answer)` in the same order."""
    left = iter(things)
    while some := [*islice(left, AT_ONCE)]:
        waiting = []
        for thing in some:
            later = Later()
            ask(thing, later)
            waiting.append(later)
            yield None
        for thing, later in zip(some, waiting, strict=True):
            take(thing, (yield later))


def distinct(things: Iterable[T]) -> Iterator[T]:
    """Each of them once, in their order; nothing is done before it is asked for."""
    seen: set[T] = set()
    for thing in things:
        if thing not in seen:
            seen.add(thing)
            yield thing


def in_pieces(
    topics: Iterable[T], rows_of: Callable[[T], Sequence[R]], with_rows: Callable[[T, Sequence[R]], T]
) -> Iterator[tuple[bool, list[T]]]:
    """Topics with their rows, in their order, so many at a time that a shard may look at them in one go. One with too
    many rows is cut: `with_rows(topic, rows)` is the same topic with some of them. Beside each piece: whether it begins
    with more of the topic that the last one ended in.
    """
    piece: list[T] = []
    left = ROWS_AT_ONCE
    for topic in topics:
        rows = rows_of(topic)
        if len(rows) + 1 > left and piece:
            yield False, piece
            piece, left = [], ROWS_AT_ONCE
        if len(rows) < ROWS_AT_ONCE:
            piece.append(topic)
            left -= len(rows) + 1
            continue
        for start in range(0, len(rows), ROWS_AT_ONCE):
            yield start > 0, [with_rows(topic, rows[start : start + ROWS_AT_ONCE])]
    if piece:
        yield False, piece


def add_partitions(topic: Any, more: Sequence[Any]) -> None:
    """Put rows behind those of a topic, without a copy of those that are there: a request may name it 100,000 times."""
    rows = topic.partitions
    if not isinstance(rows, list):
        rows = topic.partitions = [*rows]
    rows += more
