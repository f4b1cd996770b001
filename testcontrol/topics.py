"""The verbs on topics: create, delete, produce, read. Call the verbs from the server's event loop only.

The partition itself appends the records, and wakes readers as for a client's records. No request is made, so no rule of
faults hits these verbs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from typing import Any, Final

from muster.coordinator.log import batches
from muster.coordinator.log.errors import BatchError
from muster.coordinator.log.records.compression import allowed
from muster.coordinator.log.records.headers import read_header
from muster.coordinator.log.records.reader import LogRecord
from muster.coordinator.log.storage.shared_sync import Waiter
from muster.coordinator.server import Server
from muster.coordinator.server.group_snapshots import READ_BYTES
from muster.coordinator.system.jobs import Job, to_its_end
from muster.coordinator.topics.creation import MAX_PARTITIONS_PER_REQUEST, USE_DEFAULT, NewTopic
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.open_topics import Topic
from muster.coordinator.topics.partition import Partition
from muster.protocol.errors import ErrorCode, error_name
from muster.testcontrol import checks
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.waits import pause

BATCH_BYTES: Final = 64
RECORD_BYTES: Final = 40
"""More bytes than the headers of a batch and of a record take."""

LEADER_MS: Final = 10_000
"""How long `produce` waits for a leader, in the machine's time."""
LEADER_CHECK_MS: Final = 20
_NO_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE)


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a log; `timestamp_ms` since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def text(self) -> str | None:
        """The value as UTF-8. Raises UnicodeDecodeError."""
        return None if self.value is None else self.value.decode()


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to append. `partition` None: chosen by the key as Kafka's clients do, or in rotation without a key.
    `timestamp_ms` None: now. Raises WrongValue.
    """

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())
    timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        checks.whole_or_none("partition", self.partition, most=checks.MAX_COUNT)
        checks.whole_or_none("timestamp_ms", self.timestamp_ms)


def topic_of(server: Server, name: str) -> Topic:
    """A topic of a server. Raises CannotBeDone when the topic does not exist."""
    topic = server.topics.by_name.get(name)
    if topic is None:
        raise CannotBeDone(f"there is no topic {name}")
    return topic


class Topics:
    """See the module."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._rotation = 0

    def names(self) -> list[str]:
        """All topics, also those of the coordinators; ascending."""
        return sorted(self._server.topics.by_name)

    async def create(
        self, name: str, partitions: int | None = None, configs: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic; `partitions` None: `num.partitions`. Raises WrongValue, and CannotBeDone if Kafka refuses."""
        checks.whole_or_none("partitions", partitions, least=1, most=MAX_PARTITIONS_PER_REQUEST)
        new = NewTopic(
            name,
            self._server.topics.draw_uuid(),
            USE_DEFAULT if partitions is None else partitions,
            configs=checks.properties("configs", configs),
        )
        await changed(self._server, self._server.topics.creating(new))

    async def grow(self, name: str, partitions: int) -> None:
        """Set a higher number of partitions. Raises CannotBeDone, and WrongValue."""
        count = len(topic_of(self._server, name).partitions)
        checks.whole("partitions", partitions, least=1, most=count + MAX_PARTITIONS_PER_REQUEST)
        await changed(self._server, self._server.topics.growing(name, partitions, None))

    async def delete(self, name: str) -> None:
        """Delete a topic and all its records. Raises CannotBeDone."""
        await changed(self._server, self._server.topics.deleting(topic_of(self._server, name)))

    # ---- records

    async def produce(self, name: str, records: Iterable[NewRecord]) -> list[tuple[int, int]]:
        """Append records, and wait until they can be read. Returns (partition, offset) of each record, in order. Raises
        CannotBeDone: the topic or partition does not exist, or a record is refused.
        """
        topic = topic_of(self._server, name)
        rows = list(records)
        placed: dict[int, list[int]] = {}
        for number, record in enumerate(rows):
            placed.setdefault(self._place(topic, record), []).append(number)
        found: dict[int, tuple[int, int]] = {}
        now_ms = self._server.clock.now().wall_ms
        for index, numbers in placed.items():
            partition = self._partition(topic, index)
            # the records of a batch get the same timestamp
            for stamp, some in groupby(numbers, lambda number: rows[number].timestamp_ms):
                stamp_ms = now_ms if stamp is None else stamp
                for batch in _batches(list(some), rows, partition.log.config.max_message_bytes):
                    base = await self._append(topic, index, [rows[number] for number in batch], stamp_ms)
                    found.update({number: (index, base + place) for place, number in enumerate(batch)})
        return [found[number] for number in range(len(rows))]

    def _place(self, topic: Topic, record: NewRecord) -> int:
        if record.partition is not None:
            return record.partition
        count = len(topic.partitions)
        if record.key is None:
            self._rotation += 1
            return (self._rotation - 1) % count
        # imported here: this import loads a whole client, which few tests need
        from aiokafka.partitioner import murmur2

        return int(murmur2(record.key) & 0x7FFFFFFF) % count

    def _partition(self, topic: Topic, index: int) -> Partition:
        try:
            return topic.existing(index)
        except ApiError as refusal:
            raise CannotBeDone(f"{topic.name}-{index}: {error_name(refusal.error_code)}") from refusal

    async def _append(self, topic: Topic, index: int, records: Sequence[NewRecord], timestamp_ms: int) -> int:
        """Append records, and return the first record's offset. Wait for a leader if none exists (after a kill)."""
        clock = self._server.clock.machine
        due_ms = clock.mono_ms() + LEADER_MS
        while True:
            try:
                return await self._append_once(self._partition(topic, index), records, timestamp_ms)
            except (ApiError, BatchError) as refusal:
                if refusal.error_code not in _NO_LEADER or clock.mono_ms() >= due_ms:
                    words = f"{error_name(refusal.error_code)} {refusal}"
                    raise CannotBeDone(f"{topic.name}-{index} does not take it: {words}") from refusal
            await pause(clock, LEADER_CHECK_MS)

    async def _append_once(self, partition: Partition, records: Sequence[NewRecord], timestamp_ms: int) -> int:
        now = self._server.clock.now()
        pairs: list[Any] = [
            (one.key, one.value, list(one.headers)) if one.headers else (one.key, one.value) for one in records
        ]
        batch = batches.build(pairs, timestamp_ms=timestamp_ms)
        most = allowed(partition.log.config.max_message_bytes)
        checked = partition.check(batch, read_header(batch), now, most)
        appended = partition.append(checked.batch, checked.header, now)
        await _durable(partial(partition.log.when_durable, appended.end_offset))
        return appended.base_offset

    def records(self, name: str, partition: int | None = None, *, since: int = 0, most: int = 10_000) -> list[Record]:
        """The records of a topic, or of one of its partitions, from an offset on. At most `most` records, in the order
        of partitions. Control records are left out. Raises CannotBeDone, and WrongValue.
        """
        checks.whole_or_none("partition", partition, most=checks.MAX_COUNT)
        checks.whole("since", since)
        checks.whole("most", most)
        topic = topic_of(self._server, name)
        found: list[Record] = []
        for index in range(len(topic.partitions)) if partition is None else [partition]:
            found += self._read(self._partition(topic, index), since, most - len(found))
        return found

    def _read(self, partition: Partition, since: int, most: int) -> list[Record]:
        log = partition.log
        offset, end = max(since, log.start_offset), log.durable_offset
        found: list[Record] = []
        while offset < end and len(found) < most:
            before = offset
            for header, rows in batches.read(partition.read(offset, READ_BYTES, True, end)):
                offset = max(offset, header.last_offset + 1)
                if header.is_control:
                    continue
                wanted = (row for row in rows if row.offset >= since)
                found += [_record(partition, row) for row in islice(wanted, most - len(found))]
                if len(found) == most:
                    break
            if offset == before:
                break
        return found

    def end_offsets(self, name: str) -> dict[int, int]:
        """The offset of the next record of each partition. Raises CannotBeDone."""
        topic = topic_of(self._server, name)
        return {one: self._partition(topic, one).log.durable_offset for one in range(len(topic.partitions))}

    def start_offsets(self, name: str) -> dict[int, int]:
        """The offset of the oldest record of each partition. Raises CannotBeDone."""
        topic = topic_of(self._server, name)
        return {one: self._partition(topic, one).log.start_offset for one in range(len(topic.partitions))}


def _batches(numbers: Sequence[int], rows: Sequence[NewRecord], most_bytes: int) -> Iterator[list[int]]:
    batch: list[int] = []
    size = BATCH_BYTES
    for number in numbers:
        one = rows[number]
        parts = (one.value, one.key, *(part for name, value in one.headers for part in (name.encode(), value)))
        own = RECORD_BYTES * (1 + len(one.headers)) + sum(len(part or b"") for part in parts)
        if batch and size + own > most_bytes:
            yield batch
            batch, size = [], BATCH_BYTES
        batch.append(number)
        size += own
    if batch:
        yield batch


async def changed(server: Server, job: Job[Any]) -> None:
    """Run a job of the event loop to its end, and wait until its changes are durable. Raises CannotBeDone."""
    try:
        await to_its_end(server.job_queue, job)
    except ApiError as refusal:
        raise CannotBeDone(refusal.message or error_name(refusal.error_code)) from refusal
    await _durable(server.topics.when_durable)


async def _durable(when_durable: Callable[[Waiter], object]) -> None:
    """Wait until `when_durable` calls the callback that it gets here. Raises the error that the callback gets."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    when_durable(lambda error: done.set_exception(error) if error is not None else done.set_result(None))
    await done


def _record(partition: Partition, row: LogRecord) -> Record:
    headers = tuple((key, None if value is None else bytes(value)) for key, value in row.headers)
    key, value = row.key, row.value
    return Record(
        partition.topic,
        partition.index,
        row.offset,
        row.timestamp,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        headers,
    )
