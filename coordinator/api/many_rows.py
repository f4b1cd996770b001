"""Functions for handlers of many rows: they ask shards in steps, limit the answer, and wait until changes are durable.

A small request can ask for gigabytes, if it names a large topic or group thousands of times. Rows above the limit are
refused, except the first row. Each API has its `_ROW_BYTES`: the size of a row in an answer without the row's texts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from muster.assignors.java_order import DEFAULT_CAPACITY, spread, string_order, walked
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.api.unsent import Taken
from muster.coordinator.log import LogOffline
from muster.coordinator.system.jobs import Job, PendingResult
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.errors import ErrorCode
from muster.protocol.hashing import java_string_hash
from muster.protocol.message import Message, copied

AT_ONCE: Final = 100
"""How many requests are sent to shards before the first answer is awaited, so that one sync serves them all."""

ROWS_AT_ONCE: Final = 500
"""The most rows of a request that one shard handles in one step, which takes some milliseconds."""

NAMES_AT_ONCE: Final = 100
"""The most names that the authorizer checks in one step."""

T = TypeVar("T")
M = TypeVar("M", bound=Message)
K = TypeVar("K", bound=Hashable)
MAX_ORDERED_NAMES: Final = 500
"""The most names that are put into Kafka's order. More names stay in the request's order: no client depends on it."""
MAX_ORDERED_CHARACTERS: Final = 50_000
"""The most characters of all these names together. Hashing this many characters takes some 5 ms."""
_TOPIC_HASH: Final = java_string_hash(GROUP_OFFSETS_TOPIC)


def _no_pause() -> None:
    pass


def ask_each(
    rows: Iterable[T],
    ask: Callable[[T, PendingResult], object],
    collect: Callable[[T, Message], object],
    pause: Callable[[], PendingResult | None] = _no_pause,
) -> Job[None]:
    """Call `ask(row, token)` for each row, then, in the same order, `collect(row, answer)` and `pause()`."""
    left = iter(rows)
    while True:
        waiting = []
        for row in islice(left, AT_ONCE):  # one by one, because a caller may do much work for each row
            later = PendingResult()
            ask(row, later)
            waiting.append((row, later))
            yield None
        if not waiting:
            return
        for row, later in waiting:
            collect(row, (yield later))
            later_still = pause()
            if later_still is not None:
                yield later_still


def allowed_names(
    node: Node, context: RequestContext, operation: int, resource_type: int, names: Sequence[str]
) -> Job[Container[str]]:
    """The names for which the authorizer allows the operation. Each step checks some names."""
    if len(names) <= NAMES_AT_ONCE:
        return node.authorizer.allowed(context, operation, resource_type, names)
    allowed = set[str]()
    for start in range(0, len(names), NAMES_AT_ONCE):
        some = names[start : start + NAMES_AT_ONCE]
        part = node.authorizer.allowed(context, operation, resource_type, some)
        allowed.update(name for name in some if name in part)
        yield None
    return allowed


def distinct(rows: Iterable[T]) -> Iterator[T]:
    """An iterator over each distinct row once, in the order of the rows."""
    seen: set[T] = set()
    for row in rows:
        if row not in seen:
            seen.add(row)
            yield row


def in_pieces(topics: Iterable[M], rows_field: str) -> Iterator[tuple[bool, list[M]]]:
    """Topics with their rows, in pieces that a shard handles in one step. A topic with too many rows is divided. The
    flag says whether a piece continues the last topic of the previous piece.
    """
    piece: list[M] = []
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
            part = copied(topic)
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
    """Add a topic to `topics`. If the topic is already in the table, only its rows are added."""
    present = topics.setdefault(key, topic)
    if present is not topic:
        add_partitions(present, topic.partitions)  # type: ignore[attr-defined]  # all of these messages have them


def pattern_error(text: str) -> str | None:
    """Why a text is not a regular expression. None means that the text is valid."""
    # imported late: the module loads RE2, which few servers need
    from muster.coordinator.system.patterns import BadPattern, Pattern

    try:
        Pattern(text)
    except BadPattern as error:
        return error.description
    return None


def in_hash_order(names: Collection[str], capacity: int = DEFAULT_CAPACITY) -> Collection[str]:
    """Distinct names, in the order of a Java HashSet that gets them one by one. Many names keep their order.

    Nothing copies many names: a copy of 240,000 names takes too long.
    """
    if len(names) > MAX_ORDERED_NAMES or sum(map(len, names)) > MAX_ORDERED_CHARACTERS:
        return names
    return string_order(names, capacity)


def by_coordinator(
    group_ids: Iterable[str], partition_of: Callable[[str], int], *, is_set: bool = False
) -> Job[list[str]]:
    """Groups in the order in which Kafka asks their coordinators: the groups of one partition of `__consumer_offsets`
    together.

    Within a partition, groups keep their order; with `is_set` they have the order of a HashSet. The partitions have the
    order of a hash table of TopicPartition. In one bucket later partitions are first.
    """
    of_partition: dict[int, list[str]] = {}
    for group_id in group_ids:
        of_partition.setdefault(partition_of(group_id), []).append(group_id)
        yield None
    partitions = [*reversed(of_partition)]
    in_order = walked([spread(31 * (31 + partition) + _TOPIC_HASH) for partition in partitions])
    found: list[str] = []
    for index in in_order:
        together = of_partition[partitions[index]]
        found += in_hash_order(together) if is_set else together
        yield None
    return found


MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of an answer, more than any client asks for. Kafka has no limit. (Fetch has `fetch.max.bytes`.)"""
TOO_LARGE: Final = ErrorCode.INVALID_REQUEST
"""The error of a row above the limit. After this error, a client does not send the same request again."""
TOO_LARGE_TEXT: Final = f"The answer would have more than {MAX_ANSWER_BYTES} bytes: ask for fewer at once"
NO_LIMIT: Final = 1 << 62
COUNTED_FROM_BYTES: Final = 64 * 1024
"""Answers of at least this size share one memory limit (`api.unsent`). A smaller answer is made at once."""
OBJECT_BYTES: Final = 100
"""The memory of a row in bytes, in addition to the row's bytes in the answer."""


class AnswerSize:
    """How many bytes an answer may still grow. A job adds the size of each row, and then yields `pause()`."""

    __slots__ = ("_bytes", "_context", "_is_first", "_node", "_taken", "is_used_up", "left")

    def __init__(self, node: Node, context: RequestContext, max_bytes: int = MAX_ANSWER_BYTES) -> None:
        """`max_bytes`: the limit; `NO_LIMIT` for an answer whose size is limited elsewhere."""
        self.left = max_bytes
        self.is_used_up = False
        """Whether a row was refused."""
        self._is_first = True
        self._node = node
        self._context = context
        self._taken: Taken | None = None
        self._bytes = 0

    def add(self, size: int) -> bool:
        """Count a row of about `size` bytes. Returns False, and counts nothing, if the answer has no room for it."""
        if size > self.left and not self._is_first:
            self.is_used_up = True
            return False
        self.left -= size
        self._is_first = False
        self._bytes += size + OBJECT_BYTES
        if self._bytes > COUNTED_FROM_BYTES:
            self._count()
        return True

    def pause(self) -> PendingResult | None:
        """What a job yields after a row: None, or a pending result that completes when the answer may grow further."""
        taken = self._taken
        if taken is None or taken.may_grow:
            return None
        later = PendingResult()
        taken.when_it_may(lambda: later(None))
        return later

    def _count(self) -> None:
        channel = self._context.channel
        if not channel.closed:
            self._taken = channel.answer_memory(self._node.unsent)
            self._taken.set(self._bytes)


_READ_AT_ONCE: Final = 500
"""How many rows are read in one step."""


def timed_out(timeout_ms: int) -> bool:
    """Whether the request's timeout has passed. Changes are made at once, so only a timeout of 0 or less has passed."""
    return timeout_ms <= 0


def until_durable(node: Node, rows: Sequence[Any]) -> Job[None]:
    """Wait until the changes that the `rows` of an answer report are durable. A row with an error reports no change.

    When the disk fails, rows of changes get KAFKA_STORAGE_ERROR. The change is in force, but a power cut may undo it.
    """
    changed = yield from _without_error(rows)
    if not changed:
        return
    later = PendingResult()
    node.topics.when_durable(later)
    failure: LogOffline | None = yield later
    if failure is None:
        return
    for row in changed:
        row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        if hasattr(row, "error_message"):
            row.error_message = str(failure)
        yield None


def _without_error(rows: Sequence[Any]) -> Job[list[Any]]:
    changed: list[Any] = []
    for number, row in enumerate(rows, 1):
        if not row.error_code:
            changed.append(row)
        if not number % _READ_AT_ONCE:
            yield None
    return changed
