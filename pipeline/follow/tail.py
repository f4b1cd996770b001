"""Reads the log of a live cluster in batches, each from where the last one ended. This process decodes the rows.

With Structured Streaming, 10,000 rows took four jobs of Spark, 350 calls into Java, and 5 s of CPU.
Nearly all of it were plans and processes: the tasks themselves took 0.4 s. A whole batch took 9 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import pyarrow as pa
from confluent_kafka.admin import AdminClient

from muster.pipeline.decode import decode_all
from muster.pipeline.gather import batch_of
from muster.pipeline.schema import DECODED, OFFSETS_TOPIC
from muster.pipeline.sources.cluster import (
    LogReplaced,
    Offsets,
    Range,
    bounded,
    bounds_of_topics,
    ranges_between,
    read_ranges,
    readable_end,
)
from muster.pipeline.sources.segments import Reading
from muster.pipeline.tables.inputs import EVENTS_TOPIC
from muster.pipeline.tables.share_states import STATE_TOPIC as SHARE_TOPIC
from muster.pipeline.tables.transactions import EVENTS_TOPIC as TRANSACTION_EVENTS_TOPIC
from muster.pipeline.tables.transactions import STATE_TOPIC

EVENT: Final = "event"
"""The kind of the rows of `__group_events` in the staged log. Their bytes are in raw_key and raw_value."""
OF_TRANSACTIONS: Final = {"transaction_state": STATE_TOPIC, "transaction_event": TRANSACTION_EVENTS_TOPIC}
"""The kinds of rows about transactions, with their topics. Their bytes are in raw_key and raw_value.

These rows belong to no group.
"""
SHARE_STATE: Final = "share_state"
"""The kind of the rows of `__share_group_state`. Their bytes are in raw_key and raw_value."""
KIND_OF: Final = {
    EVENTS_TOPIC: EVENT,
    SHARE_TOPIC: SHARE_STATE,
    **{name: kind for kind, name in OF_TRANSACTIONS.items()},
}
"""The kinds of rows whose bytes are decoded only when the tables are made, by topic."""
TOPICS: Final = (OFFSETS_TOPIC, *KIND_OF)
AS_IT_IS: Final = ("log_partition", "log_offset", "log_timestamp_ms", "group", "reason", "raw_key", "raw_value")
"""The columns that rows of these kinds fill."""

_HEAD: Final = 4
"""The bytes before the name of the group in a key of `__share_group_state`: its type, and the name's length."""

Position = Mapping[str, Offsets]
"""The next offset of each partition, by topic."""


class Batch(NamedTuple):
    """The next rows of the log."""

    position: dict[str, Offsets]
    """The position behind the batch."""
    rows: Iterator[pa.RecordBatch]
    """The rows (schema.DECODED). They are read when they are taken. Raises ClusterError."""
    is_last: bool
    """Whether the log had no more rows."""


class Tail:
    """The readable end of the log of a cluster."""

    def __init__(self, admin: AdminClient, kafka: Mapping[str, str], max_rows: int, *, once: bool) -> None:
        """`once`: nothing behind the present ends is read. A topic that does not exist yet is waited for."""
        self._admin = admin
        self._kafka = kafka
        self._max_rows = max_rows
        self._target = self._ends() if once else None

    def _ends(self) -> dict[str, Offsets]:
        found, _ = bounds_of_topics(self._admin, TOPICS)
        return {topic: last for topic, (_, last) in found.items()}

    def next(self, position: Position) -> Batch | None:
        """The rows behind a position, about `max_rows` of each topic; None without rows. Raises LogReplaced."""
        found, _ = bounds_of_topics(self._admin, TOPICS)
        ends: dict[str, Offsets] = {}
        ranges: dict[str, list[Range]] = {}
        is_last = True
        for topic in TOPICS:
            within = found.get(topic, ({}, {}))
            # what was deleted before the first start is not missed
            read = dict(position.get(topic) or within[0])
            target = None if self._target is None else self._target.get(topic, {})
            try:
                whole = readable_end(topic, read, within, target)
            except LogReplaced as error:
                raise LogReplaced(f"{error}; follow into another folder") from None
            end = bounded(read, whole, self._max_rows)
            is_last &= end == whole
            if end:
                ends[topic] = end
                ranges[topic] = ranges_between(read, end, self._max_rows)
        return Batch(ends, self._rows(ranges), is_last) if any(ranges.values()) else None

    def _rows(self, ranges: Mapping[str, Sequence[Range]]) -> Iterator[pa.RecordBatch]:
        for topic, some in ranges.items():
            if some:
                batches = read_ranges(self._kafka, Reading(topic), some)
                yield from decode_all(batches) if topic == OFFSETS_TOPIC else _as_it_is(batches, topic)


def _as_it_is(batches: Iterator[pa.RecordBatch], topic: str) -> Iterator[pa.RecordBatch]:
    """The rows of a topic whose bytes are decoded only when the tables are made."""
    kind, group_of = KIND_OF[topic], _GROUP_OF.get(topic)
    for batch in batches:
        keys = batch.column("key")
        known = {
            "kind": pa.repeat(kind, batch.num_rows),
            "log_partition": batch.column("partition"),
            "log_offset": batch.column("offset"),
            "log_timestamp_ms": batch.column("timestamp_ms"),
            "reason": batch.column("damage"),
            "raw_key": keys,
            "raw_value": batch.column("value"),
        }
        if group_of is not None:
            known["group"] = pa.array([None if key is None else group_of(key) for key in keys.to_pylist()], pa.string())
        yield batch_of(DECODED, batch.num_rows, known)


def _group_of_event(key: bytes) -> str:
    return key.decode(errors="replace")


def _group_of_state(key: bytes) -> str | None:
    """The group in a key of `__share_group_state`. It stands after the type and its own length, both of two bytes."""
    with suppress(UnicodeDecodeError):
        return key[_HEAD : _HEAD + int.from_bytes(key[_HEAD - 2 : _HEAD], "big")].decode()
    return None


_GROUP_OF: Final[Mapping[str, Callable[[bytes], str | None]]] = {
    EVENTS_TOPIC: _group_of_event,
    SHARE_TOPIC: _group_of_state,
}
