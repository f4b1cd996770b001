"""Requests that name many groups or rows. Their shards handle some of them at a time."""

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
"""So many requests are sent to shards before the first answer is awaited. Requests that wait for the disk then wait
together, and the waiting requests take little memory.
"""

ROWS_AT_ONCE: Final = 500
"""One shard handles so many rows of a request in one step: some milliseconds."""

NAMES_AT_ONCE: Final = 100
"""The authorizer checks so many names in one step. With many entries each name takes some microseconds."""

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
    """Call `ask(thing, token)` for each thing. Then call `take(thing, answer)` in the same order, with `pause` after
    each.
    """
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
    """The names for which the authorizer allows the operation. Each step checks some of them."""
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
    """Each distinct thing once, in their order. It is lazy."""
    seen: set[T] = set()
    for thing in things:
        if thing not in seen:
            seen.add(thing)
            yield thing


def in_pieces(topics: Iterable[T], rows_field: str) -> Iterator[tuple[bool, list[T]]]:
    """Topics with their rows, in their order, in pieces that a shard can handle in one step. A topic with too many rows
    is divided. The flag before each piece says whether the piece continues the last topic of the piece before.
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
    """Append rows to a topic without a copy of its present rows: a request may name a topic 100,000 times."""
    rows = topic.partitions
    if not isinstance(rows, list):
        rows = topic.partitions = [*rows]
    rows += more


def add_topic(topics: dict[K, T], key: K, topic: T) -> None:
    """Add a topic to others. If the topic is already in the table, only its rows are added."""
    present = topics.setdefault(key, topic)
    if present is not topic:
        add_partitions(present, topic.partitions)  # type: ignore[attr-defined]  # all of these messages have them
