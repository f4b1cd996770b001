"""The verbs on topics, done with Kafka's own requests, for a cluster that this program has not started."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from muster.client.connection import Connection, RequestFailed, sentence
from muster.client.kafka_client import KafkaClient
from muster.coordinator.log import batches
from muster.coordinator.log.records.reader import LogRecord
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from muster.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from muster.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from muster.protocol.messages.delete_topics import DeleteTopicsRequest
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from muster.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from muster.testcontrol import checks
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.topics import NewRecord, Record

LATEST: Final = -1
EARLIEST: Final = -2
"""The timestamps in ListOffsets that mean the start and the end of a partition."""
FETCH_BYTES: Final = 1024 * 1024
TIMEOUT_MS: Final = 30_000
PATIENCE_S: Final = 15.0
"""How long a call waits for leaders. Brokers get a new topic one by one; a dead leader is replaced."""
CHECK_S: Final = 0.02
"""The pause between two checks of a wait."""
_ELSEWHERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class AdminTopics:
    """The verbs on topics: see `testcontrol.topics.Topics`."""

    def __init__(self, cluster: KafkaClient) -> None:
        self._cluster = cluster
        self._turn = 0

    def names(self) -> list[str]:
        return sorted(self._cluster.topics(None))

    def create(self, name: str, partitions: int | None = None, configs: Mapping[str, object] | None = None) -> None:
        checks.whole_or_none("partitions", partitions, least=1, most=checks.MAX_COUNT)
        rows = [CreatableTopicConfig(*one) for one in checks.properties("configs", configs).items()]
        topic = CreatableTopic(name, -1 if partitions is None else partitions, -1, (), rows)
        answer = self._cluster.bootstrap.ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic], TIMEOUT_MS))
        _check(name, answer.topics[0])
        self._wait_led(name, 1 if partitions is None else partitions)

    def grow(self, name: str, partitions: int) -> None:
        checks.whole("partitions", partitions, least=1, most=checks.MAX_COUNT)
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, partitions, None)], TIMEOUT_MS)
        _check(name, self._cluster.bootstrap.ask(ApiKey.CREATE_PARTITIONS, request).results[0])
        self._wait_led(name, partitions)

    def _wait_led(self, name: str, partitions: int) -> None:
        due_s = time.monotonic() + PATIENCE_S
        while not self._is_led(name, partitions):
            if time.monotonic() > due_s:
                raise CannotBeDone(f"topic {name} has no leaders after {PATIENCE_S:g} s")
            time.sleep(CHECK_S)

    def _is_led(self, name: str, partitions: int) -> bool:
        found = self._cluster.topics([name]).get(name)
        rows = [] if found is None else found.partitions
        return len(rows) >= partitions and all(one.leader_id >= 0 and not one.error_code for one in rows)

    def delete(self, name: str) -> None:
        """Delete the topic and all its records. Returns when the topic no longer exists."""
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)
        _check(name, self._cluster.bootstrap.ask(ApiKey.DELETE_TOPICS, request).responses[0])
        due_s = time.monotonic() + PATIENCE_S
        while name in self._cluster.topics([name]):
            if time.monotonic() > due_s:
                raise CannotBeDone(f"topic {name} is still there after {PATIENCE_S:g} s")
            time.sleep(CHECK_S)

    def topic_id(self, name: str) -> bytes:
        found = self._cluster.topics([name]).get(name)
        if found is None:
            raise CannotBeDone(f"there is no topic {name}")
        return bytes(found.topic_id)

    def trim(self, name: str) -> None:
        for index, end in self.end_offsets(name).items():
            rows = [DeleteRecordsTopic(name, [DeleteRecordsPartition(index, end)])]
            request = DeleteRecordsRequest(rows, TIMEOUT_MS)
            self._led(name, index, partial(_trimmed, request), is_repeatable=True)

    def _leaders(self, name: str) -> dict[int, int]:
        found = self._cluster.topics([name]).get(name)
        if found is None:
            raise CannotBeDone(f"there is no topic {name}")
        return {one.partition_index: one.leader_id for one in sorted(found.partitions, key=_index)}

    def produce(self, name: str, records: Iterable[NewRecord]) -> list[tuple[int, int]]:
        """Append records. Returns when all replicas have acknowledged them."""
        leaders = self._leaders(name)
        found: list[tuple[int, int]] = []
        for record in records:
            index = self._place(record, len(leaders))
            if index not in leaders:
                raise CannotBeDone(f"there is no partition {name}-{index}")
            stamp = time.time_ns() // 1_000_000 if record.timestamp_ms is None else record.timestamp_ms
            row: Any = (record.key, record.value, list(record.headers))
            batch = bytes(batches.build([row], timestamp_ms=stamp))
            found.append((index, self._append(name, index, batch)))
        return found

    def _append(self, name: str, index: int, batch: bytes) -> int:
        data = [TopicProduceData(name, partition_data=[PartitionProduceData(index, batch)])]
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=data)

        def ask(leader: Connection) -> Any:
            return leader.ask(ApiKey.PRODUCE, request).responses[0].partition_responses[0]

        return int(self._led(name, index, ask).base_offset)

    def _place(self, record: NewRecord, count: int) -> int:
        if record.partition is not None:
            return record.partition
        if record.key is None:
            self._turn += 1
            return (self._turn - 1) % count
        from aiokafka.partitioner import murmur2

        return int(murmur2(record.key) & 0x7FFFFFFF) % count

    def records(self, name: str, partition: int | None = None, *, since: int = 0, most: int = 10_000) -> list[Record]:
        checks.whole_or_none("partition", partition)
        checks.whole("since", since)
        checks.whole("most", most)
        ends, starts = self.end_offsets(name), self.start_offsets(name)
        if partition is not None and partition not in ends:
            raise CannotBeDone(f"there is no partition {name}-{partition}")
        found: list[Record] = []
        for index in ends if partition is None else [partition]:
            offset = max(since, starts[index])
            while offset < ends[index] and len(found) < most:
                row = FetchPartition(index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
                request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(name, partitions=[row])])
                data = self._read(name, index, request)
                before = offset
                for header, rows in batches.read(bytes(data.records or b"")):
                    offset = max(offset, header.last_offset + 1)
                    if not header.is_control:
                        found += [_record(name, index, one) for one in rows if one.offset >= since]
                if offset == before:
                    break
        return found[:most]

    def end_offsets(self, name: str) -> dict[int, int]:
        return self._offsets(name, LATEST)

    def start_offsets(self, name: str) -> dict[int, int]:
        return self._offsets(name, EARLIEST)

    def _offsets(self, name: str, which: int) -> dict[int, int]:
        return {index: self._offset(name, index, which) for index in self._leaders(name)}

    def _read(self, name: str, index: int, request: FetchRequest) -> Any:
        return self._led(
            name, index, lambda leader: leader.ask(ApiKey.FETCH, request).responses[0].partitions[0], is_repeatable=True
        )

    def _offset(self, name: str, index: int, which: int) -> int:
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, [ListOffsetsPartition(index, -1, which)])])

        def ask(leader: Connection) -> Any:
            return leader.ask(ApiKey.LIST_OFFSETS, request).topics[0].partitions[0]

        return int(self._led(name, index, ask, is_repeatable=True).offset)

    def _led(self, name: str, index: int, ask: Callable[[Connection], Any], *, is_repeatable: bool = False) -> Any:
        """Ask the leader of a partition, and return its row. The request is repeated while the leader moves, or does
        not know the topic yet. `is_repeatable`: also if the connection is lost before the answer. Raises RequestFailed,
        CannotBeDone.
        """
        due_s = time.monotonic() + PATIENCE_S
        while True:
            is_over = time.monotonic() > due_s
            leader_id = self._leaders(name)[index]
            if leader_id >= 0 or is_over:
                try:
                    leader = self._cluster.node(leader_id)
                except RequestFailed:
                    if is_over:
                        raise
                else:
                    row = self._asked(leader, ask, is_repeatable and not is_over)
                    if row is not None and (is_over or row.error_code not in _ELSEWHERE):
                        _check(f"{name}-{index}", row)
                        return row
            time.sleep(CHECK_S)

    @staticmethod
    def _asked(leader: Connection, ask: Callable[[Connection], Any], is_repeatable: bool) -> Any:
        try:
            return ask(leader)
        except RequestFailed:
            if not is_repeatable or leader.is_open:
                raise
            return None


def _trimmed(request: DeleteRecordsRequest, leader: Connection) -> Any:
    return leader.ask(ApiKey.DELETE_RECORDS, request).topics[0].partitions[0]


def _index(row: Any) -> int:
    return int(row.partition_index)


def _check(what: str, row: Any) -> None:
    if row.error_code:
        raise CannotBeDone(f"{what}: {sentence(row.error_code, getattr(row, 'error_message', None))}")


def _record(name: str, index: int, row: LogRecord) -> Record:
    key, value = row.key, row.value
    headers = tuple((name, None if one is None else bytes(one)) for name, one in row.headers)
    return Record(
        name,
        index,
        row.offset,
        row.timestamp,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        headers,
    )
