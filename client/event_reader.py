"""Reads events from `__group_events` and `__transaction_events` with Fetch requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from muster.client.connection import RequestFailed, sentence
from muster.client.fetch import fetched
from muster.client.kafka_client import NO_TOPIC, KafkaClient
from muster.client.list_offsets import end_offsets
from muster.coordinator.log import batches
from muster.coordinator.log.records.reader import LogRecord
from muster.protocol.errors import ErrorCode
from muster.protocol.hashing import group_partition

WAIT_MS: Final = 500

Value = dict[str, Any]


class History(NamedTuple):
    """A history topic: `__group_events` or `__transaction_events`."""

    topic: str
    name: str
    """The field of an event that has the group or the transactional id."""
    missing: str


OF_GROUPS: Final = History(
    "__group_events", "group", "history and watch need Muster with muster.group.events.enable=true"
)
OF_TRANSACTIONS: Final = History(
    "__transaction_events",
    "transactional_id",
    "history needs Muster with muster.transaction.events.enable=true, and a first transactional id; Apache Kafka keeps "
    "no history (muster analyze shows what its logs still hold)",
)


class Events:
    """A reader of one history topic."""

    def __init__(self, client: KafkaClient, of: History = OF_GROUPS) -> None:
        """Find the leaders of the topic's partitions. Raises RequestFailed when the topic does not exist."""
        self._client = client
        self._of = of
        topic = client.topics([of.topic]).get(of.topic)
        if topic is None and (why := client.topic_error(of.topic)) != NO_TOPIC:
            raise RequestFailed(f"{of.topic} cannot be read: {why}")
        if topic is None:
            raise RequestFailed(f"{client.bootstrap.address} has no topic {of.topic}: {of.missing}")
        self._leaders = {one.partition_index: one.leader_id for one in topic.partitions}

    def partition_of(self, name: str) -> int:
        """The partition that has the events of a group or a transactional id."""
        return group_partition(name, len(self._leaders))

    def ends(self) -> dict[int, int]:
        """The end offset of every partition."""
        found = end_offsets(self._client, [(self._of.topic, partition) for partition in self._leaders])
        return {partition: end for (_, partition), end in found.items()}

    def upto_now(self, name: str) -> Iterator[Value]:
        """All events, up to the present end, of a group or a transactional id."""
        return (value for value in self.of_partition(self.partition_of(name)) if value[self._of.name] == name)

    def newest(self, name: str, count: int) -> Iterator[Value]:
        """The events of a group or a transactional id among the last `count` events of its partition."""
        partition = self.partition_of(name)
        begin = max(self.ends().get(partition, 0) - count, 0)
        return (value for value in self.of_partition(partition, begin) if value[self._of.name] == name)

    def of_partition(self, partition: int, begin: int = 0) -> Iterator[Value]:
        """All events of a partition from offset `begin` up to the present end."""
        end = self.ends().get(partition, 0)
        position = {partition: begin}
        while position[partition] < end:
            before = position[partition]
            yield from self.fetch(position, 0)
            if position[partition] == before:  # the events at this offset were deleted
                return

    def follow(self, position: dict[int, int]) -> Iterator[Value]:
        """Every event from `position` (partition -> offset) on. Waits for new events without end."""
        while True:
            yield from self.fetch(position, WAIT_MS)

    def fetch(self, position: dict[int, int], wait_ms: int) -> list[Value]:
        """The next events from `position` on. `position` then moves behind these events. Leaders wait up to `wait_ms`
        for an event.
        """
        found: list[Value] = []
        for row in fetched(self._client, self._of.topic, self._leaders, position, wait_ms):
            found.extend(self._read(row, position))
        found.sort(key=lambda value: value["time"])
        return found

    def _read(self, row: Any, position: dict[int, int]) -> Iterator[Value]:
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            position[row.partition_index] = max(row.log_start_offset, 0)
            return
        if row.error_code:
            raise RequestFailed(f"{self._of.topic}-{row.partition_index} cannot be read: {sentence(row.error_code)}")
        for _, records in batches.read(bytes(row.records or b"")):
            for record in records:
                if record.offset >= position[row.partition_index]:
                    position[row.partition_index] = record.offset + 1
                    value = event_of(record, self._of)
                    if value is not None:
                        yield value


def event_of(record: LogRecord, of: History = OF_GROUPS) -> Value | None:
    """The event in a record of a history topic. None: Muster did not write this record."""
    try:
        value = json.loads(record.value or b"")
    except ValueError:
        return None
    return value if isinstance(value, dict) and {"kind", of.name, "time"} <= value.keys() else None
