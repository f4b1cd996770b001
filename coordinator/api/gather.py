"""Requests that name many groups or rows: their shards are asked for some at a time."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from copy import copy
from itertools import islice
from typing import Any, Final, TypeVar

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.message import Message

AT_ONCE: Final = 100
"""So many questions are asked before the first answer is awaited: those that wait for the disk wait together, and
what waits takes little memory.
"""

ROWS_AT_ONCE: Final = 500
"""Rows of a request that one shard looks at in one go: some milliseconds."""

NAMES_AT_ONCE: Final = 100
"""Names that the authorizer is asked about in one step: with many entries each takes some microseconds."""

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def _no_pause() -> None:
    pass


def ask_each(
    things: Iterable[T],
    ask: Callable[[T, PendingResult], object],
    take: Callable[[T, Message], object],
    pause: Callable[[], PendingResult | None] = _no_pause,
) -> Job[None]:
    """`ask(thing, token)` for each, then `take(thing, answer)` in the same order, and `pause` after each."""
    left = iter(things)
    while some := [*islice(left, AT_ONCE)]:
        waiting = []
        for thing in some:
            later = PendingResult()
            ask(thing, later)
            waiting.append(later)
            yield None
        for thing, later in zip(some, waiting, strict=True):
            take(thing, (yield later))
            later_still = pause()
            if later_still is not None:
                yield later_still


def allowed_names(
    node: Node, context: RequestContext, operation: int, resource_type: int, names: Sequence[str]
) -> Job[Container[str]]:
    """Those of the names for which the authorizer allows the operation. It is asked about some at a time."""
    if len(names) <= NAMES_AT_ONCE:
        return node.authorizer.allowed(context, operation, resource_type, names)
    allowed = set[str]()
    for start in range(0, len(names), NAMES_AT_ONCE):
        some = names[start : start + NAMES_AT_ONCE]
        part = node.authorizer.allowed(context, operation, resource_type, some)
        allowed.update(name for name in some if name in part)
        yield None
    return allowed


def distinct(things: Iterable[T]) -> Iterator[T]:
    """Each of them once, in their order; nothing is done before it is asked for."""
    seen: set[T] = set()
    for thing in things:
        if thing not in seen:
            seen.add(thing)
            yield thing


def in_pieces(topics: Iterable[T], rows_field: str) -> Iterator[tuple[bool, list[T]]]:
    """Topics with their rows, in their order, in pieces that a shard may handle in one go. A topic with too many rows
    is divided. Before each piece: whether it begins with further rows of the topic that the piece before ended with.
    """
    piece: list[T] = []
    left = ROWS_AT_ONCE
    for topic in topics:
        rows = getattr(topic, rows_field)
        if len(rows) + 1 > left and piece:
            yield False, piece
            piece, left = [], ROWS_AT_ONCE
        if len(rows) < ROWS_AT_ONCE:
            piece.append(topic)
            left -= len(rows) + 1
            continue
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = copy(topic)
            setattr(part, rows_field, rows[start : start + ROWS_AT_ONCE])
            yield start > 0, [part]
    if piece:
        yield False, piece


def add_partitions(topic: Any, more: Sequence[Any]) -> None:
    """Add rows to a topic without a copy of those that are there: a request may name a topic 100,000 times."""
    rows = topic.partitions
    if not isinstance(rows, list):
        rows = topic.partitions = [*rows]
    rows += more


def add_topic(topics: dict[K, T], key: K, topic: T) -> None:
    """Put a topic among others; of one that is there already only the rows are added."""
    present = topics.setdefault(key, topic)
    if present is not topic:
        add_partitions(present, topic.partitions)  # type: ignore[attr-defined]  # all of these messages have them
