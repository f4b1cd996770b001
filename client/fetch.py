"""Reads ranges of partitions with Fetch requests, as the bytes of record batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.client.connection import RequestFailed, sentence
from muster.client.kafka_client import KafkaClient, Partition
from muster.coordinator.log import batches
from muster.coordinator.log.records.headers import whole_batches
from muster.coordinator.log.records.reader import LogRecord
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH_BYTES: Final = 4 * 1024 * 1024
_TRIES: Final = 3
"""After this many answers without a record, a partition has no more records before its end: they were deleted."""


def fetched(
    client: KafkaClient,
    topic: str,
    leaders: Mapping[int, int],
    position: Mapping[int, int],
    wait_ms: int = 0,
    max_bytes: int = FETCH_BYTES,
) -> Iterator[Any]:
    """The answer's row of each partition (FetchResponse's PartitionData), from the offsets `position` on.

    `leaders`: the leader of each partition. The leaders wait up to `wait_ms`, together, for a record. `max_bytes`: of
    one partition; a leader sends at least one batch.
    """
    by_leader: dict[int, list[int]] = {}
    for partition in position:
        by_leader.setdefault(leaders.get(partition, -1), []).append(partition)
    for leader, partitions in by_leader.items():
        rows = [FetchPartition(one, -1, position[one], -1, -1, max_bytes) for one in partitions]
        request = FetchRequest(
            max_wait_ms=wait_ms // len(by_leader), min_bytes=1, max_bytes=4 * max_bytes,
            topics=[FetchTopic(topic, partitions=rows)],
        )  # fmt: skip
        for answered in client.node(leader).ask(ApiKey.FETCH, request).responses:
            yield from answered.partitions


def _refused(topic: str, partition: int, error: int) -> str:
    if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"{topic} cannot be read: this user needs the right READ for this topic ({error_name(error)})"
    return f"{topic}-{partition} cannot be read: {sentence(error)}"


def first_record(client: KafkaClient, place: Partition, leader: int, offset: int) -> LogRecord | None:
    """The first record of a partition from `offset` on. None: there is none, or it cannot be read."""
    topic, partition = place
    for _ in range(_TRIES):
        (row,) = fetched(client, topic, {partition: leader}, {partition: offset}, max_bytes=1)
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and row.log_start_offset > offset:
            offset = row.log_start_offset
            continue
        data = b"" if row.error_code else bytes(row.records or b"")
        size, _, after = whole_batches(data)
        for header, records in batches.read(data[:size]):
            found = None if header.is_control else next((one for one in records if one.offset >= offset), None)
            if found is not None:
                return found
        offset = max(offset, after)
    return None


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
        for row in fetched(client, topic, leaders, position):
            partition, data = row.partition_index, bytes(row.records or b"")
            if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and row.log_start_offset > position[partition]:
                position[partition] = row.log_start_offset
            elif row.error_code:
                raise RequestFailed(_refused(topic, partition, row.error_code))
            found[partition].append(data)
            _, _, after = whole_batches(data)
            if after > position[partition]:
                position[partition], tries[partition] = after, _TRIES
            else:
                tries[partition] -= 1
            if position[partition] >= ranges[partition][1] or not tries[partition]:
                del position[partition]
    return {partition: (ranges[partition][0], b"".join(parts)) for partition, parts in found.items()}
