"""Reads ranges of partitions with Fetch requests, as the bytes of record batches."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from muster.client.connection import RequestFailed, sentence
from muster.client.kafka_client import KafkaClient
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH_BYTES: Final = 4 * 1024 * 1024
_PER_REQUEST: Final = 4 * FETCH_BYTES
_HEAD: Final = struct.Struct(">qi")
_LAST_DELTA: Final = struct.Struct(">i")
_LENGTH_OVERHEAD: Final = 12
_LAST_DELTA_AT: Final = 23
_TRIES: Final = 3
"""After so many answers without a record, a partition has no more records before its end: they were deleted."""


def fetch_ranges(
    client: KafkaClient, topic: str, ranges: Mapping[int, tuple[int, int]]
) -> dict[int, tuple[int, bytes]]:
    """The record batches of each partition, and the offset of the first one.

    `ranges`: the first offset of each partition, and the offset before which the reading ends. Raises RequestFailed.
    """
    known = client.topics([topic]).get(topic)
    leaders = {} if known is None else {one.partition_index: one.leader_id for one in known.partitions}
    position = {partition: start for partition, (start, end) in ranges.items() if start < end}
    found: dict[int, list[bytes]] = {partition: [] for partition in position}
    tries = dict.fromkeys(position, _TRIES)
    while position:
        by_leader: dict[int, list[int]] = {}
        for partition in position:
            by_leader.setdefault(leaders.get(partition, -1), []).append(partition)
        for leader, partitions in by_leader.items():
            rows = [FetchPartition(one, -1, position[one], -1, -1, FETCH_BYTES) for one in partitions]
            request = FetchRequest(
                max_wait_ms=0, min_bytes=0, max_bytes=_PER_REQUEST, topics=[FetchTopic(topic, partitions=rows)]
            )
            answer = client.node(leader).ask(ApiKey.FETCH, request)
            for row in (row for one in answer.responses for row in one.partitions):
                partition, data = row.partition_index, bytes(row.records or b"")
                if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and row.log_start_offset > position[partition]:
                    position[partition] = row.log_start_offset
                elif row.error_code:
                    raise RequestFailed(f"{topic}-{partition} cannot be read: {sentence(row.error_code)}")
                found[partition].append(data)
                after = _end_of(data, position[partition])
                tries[partition] = _TRIES if after > position[partition] else tries[partition] - 1
                position[partition] = after
                if after >= ranges[partition][1] or not tries[partition]:
                    del position[partition]
    return {partition: (ranges[partition][0], b"".join(parts)) for partition, parts in found.items()}


def _end_of(data: bytes, start: int) -> int:
    """The offset behind the last whole batch."""
    at, end = 0, start
    while at + _LENGTH_OVERHEAD <= len(data):
        offset, length = _HEAD.unpack_from(data, at)
        if at + _LENGTH_OVERHEAD + length > len(data):
            break
        end = offset + _LAST_DELTA.unpack_from(data, at + _LAST_DELTA_AT)[0] + 1
        at += _LENGTH_OVERHEAD + length
    return end
