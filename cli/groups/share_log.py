"""Reads `__share_group_state`, the log of the states of share groups, from any Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.client.fetch import fetch_ranges
from muster.client.kafka_client import KafkaClient
from muster.client.list_offsets import EARLIEST, end_offsets, offsets_at
from muster.coordinator.log import batches
from muster.coordinator.log.records.headers import whole_batches
from muster.coordinator.share_state.record_life import LogEntry
from muster.protocol.message import MalformedMessage
from muster.protocol.records import SHARE_STATE, UnknownRecord

STATE_LOG: Final = "__share_group_state"


def range_of(client: KafkaClient, partition: int) -> tuple[int, int]:
    """The first offset and the end offset of a partition of the state log."""
    place = STATE_LOG, partition
    return offsets_at(client, [place], EARLIEST).get(place, 0), end_offsets(client, [place]).get(place, 0)


def entries(client: KafkaClient, partition: int, between: tuple[int, int]) -> Iterator[LogEntry]:
    """The records of a partition of the state log, between two offsets. Raises RequestFailed."""
    for _, data in fetch_ranges(client, STATE_LOG, {partition: between}).values():
        yield from entries_in(data)


def entries_in(data: bytes) -> Iterator[LogEntry]:
    """The records of the state log in these bytes. An incomplete last batch is ignored."""
    size, _, _ = whole_batches(data)
    for header, records in batches.read(data[:size]):
        for record in () if header.is_control else records:
            try:
                kind, key = SHARE_STATE.decode_key(record.key or b"")
                value = None if record.value is None else SHARE_STATE.decode_value(kind, record.value)[1]
            except (UnknownRecord, MalformedMessage):
                continue  # a later Kafka may have more kinds of records
            yield LogEntry(record.timestamp, key, value)
