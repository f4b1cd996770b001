"""The dead-letter queues of share groups: records that were rejected, or delivered too often (KIP-1191).

As on Kafka, a record is archived although it cannot be written, and a log line says why. In a cluster of processes, the
node writes to a partition of the queue that its own process leads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import structlog

from muster.coordinator.log import LogError, batches
from muster.coordinator.log.records import headers
from muster.coordinator.log.records.batches import WithHeaders
from muster.coordinator.log.records.compression import allowed
from muster.coordinator.log.records.reader import Headers
from muster.coordinator.properties.live import Live
from muster.coordinator.runtime.share_partitions.led_partition import LedSharePartition
from muster.coordinator.share.partition import DeadLetter
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, OffloadedWork, PendingResult
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.open_topics import Topic
from muster.coordinator.topics.partition import Partition
from muster.coordinator.topics.topics import Topics
from muster.coordinator.topics.validation import first_batch, only_batch
from muster.protocol.errors import ErrorCode

log = structlog.get_logger("muster.share")

REJECTED: Final = "Offset rejected by client."
DELIVERED_TOO_OFTEN: Final = "Offset delivery count exceeded the threshold."
ENABLED: Final = "errors.deadletterqueue.group.enable"
"""The config of a topic that dead letters may be written to."""
_NEW_CONFIGS: Final[Mapping[str, str | None]] = {ENABLED: "true", "message.timestamp.type": "CreateTime"}
_READ_BYTES: Final = 1 << 20
_RECORD_BYTES: Final = 160
"""More bytes than a record has beside its key, its value, and the names in its headers."""


LETTERS_AT_ONCE: Final = 1_000
"""How many letters of a share partition are written before other partitions have their turn."""
WRITTEN_AT_ONCE: Final = 4
"""For how many share partitions letters are written at the same time. Each takes two record batches of memory."""
_STEP: Final = 200
"""How many letters are made in one step."""


class Copied(NamedTuple):
    """Key and value of a record, as its dead letter has them."""

    key: bytes | None
    value: bytes | None


_WITHOUT_COPY: Final = Copied(None, None)


class _Waiting(NamedTuple):
    """A letter, and the function that takes whether it is in the queue."""

    letter: DeadLetter
    done: Callable[[bool], object]


class DeadLetterQueues:
    """Writes dead letters into the topics of the queues."""

    def __init__(
        self,
        topics: Topics,
        clock: Clock,
        live: Live,
        run_behind: Callable[[Job[None]], object],
    ) -> None:
        self._topics = topics
        self._clock = clock
        self._live = live
        self._run_behind = run_behind
        self._waiting: dict[LedSharePartition, deque[_Waiting]] = {}
        """The letters that nobody writes yet. The first share partition has the next turn."""
        self._busy: set[LedSharePartition] = set()
        """The share partitions whose letters are being written."""

    def queue(self, share: LedSharePartition, letter: DeadLetter, done: Callable[[bool], object]) -> None:
        """See `DeadLetters`."""
        self._waiting.setdefault(share, deque()).append(_Waiting(letter, done))
        self._begin()

    def _begin(self) -> None:
        share = next((one for one in self._waiting if one not in self._busy), None)
        if share is not None and len(self._busy) < WRITTEN_AT_ONCE:
            self._busy.add(share)
            self._run_behind(self._queuing(share))

    def _queuing(self, share: LedSharePartition) -> Job[None]:
        yield None  # so that the letters of one request are written together
        waiting = self._waiting.pop(share)
        some = [waiting.popleft() for _ in range(min(len(waiting), LETTERS_AT_ONCE))]
        if waiting:
            self._waiting[share] = waiting
        left = deque(sorted(some, key=lambda one: one.letter.row))
        try:
            yield from self._writing(share, left)
        except (ApiError, LogError, OSError) as error:
            log.error(
                "records are archived, but not in the dead-letter queue",
                **share.facts(),
                first_offset=left[0].letter.row.first,
                last_offset=left[-1].letter.row.last,
                queue=share.config.dead_letter_topic,
                reason=error.message if isinstance(error, ApiError) else str(error),
            )
            for one in left:
                one.done(False)
        finally:
            self._busy.discard(share)
        self._begin()

    def _writing(self, share: LedSharePartition, left: deque[_Waiting]) -> Job[None]:
        """Write letters, which are in the order of offsets. Those that are in the queue are taken out of `left`."""
        partition = self._partition((yield from self._topic(share)), share.key.partition)
        most, last = partition.log.config.max_message_bytes, left[-1].letter.row.last
        copied: Mapping[int, Copied] = {}
        until = -1 if share.config.copies_records else last
        records: list[WithHeaders] = []
        size, ended = headers.HEADER_SIZE, 0
        for (row, is_rejected), _ in [*left]:
            text = REJECTED if is_rejected else DELIVERED_TOO_OFTEN
            for offset in range(row.first, row.last + 1):
                if offset > until:
                    copied = yield from _copied(share.partition, offset, last)
                    until = max(copied, default=row.last)
                one = copied.get(offset, _WITHOUT_COPY)
                more = _size_of(share, one)
                if records and size + more > most:
                    yield from self._append(partition, records)
                    _take(left, ended)
                    records, size, ended = [], headers.HEADER_SIZE, 0
                size += more
                records.append((*one, _headers(share, offset, row.deliveries, text)))
                if not len(records) % _STEP:
                    yield None
            ended += 1
        yield from self._append(partition, records)
        _take(left, ended)

    def _append(self, partition: Partition, records: Sequence[WithHeaders]) -> Job[None]:
        """Append one batch, and wait until it counts as durable for producers."""
        data = bytes(batches.build(records, timestamp_ms=self._clock.now().wall_ms))
        header = only_batch(data, first_batch(data))
        now = self._clock.now()
        most = allowed(partition.log.config.max_message_bytes)
        checked = partition.check(data, header, now, most)
        appended = partition.append(checked.batch, checked.header, now)
        later = PendingResult()
        partition.log.when_flushed(appended.last_offset + 1, later)
        failure = yield later
        if failure is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure))

    # ---- the topic of the queue

    def _topic(self, share: LedSharePartition) -> Job[Topic]:
        """The topic of the group's queue, which is created if it may be. Raises `ApiError`."""
        name, group = share.config.dead_letter_topic, share.key.group_id
        topic = self._topics.by_name.get(name)
        fault = self._fault(name, group, topic)
        if fault is not None:
            raise ApiError(ErrorCode.INVALID_CONFIG, fault)
        if topic is None:
            try:
                yield from self._topics.creating(NewTopic(name, self._topics.draw_uuid(), configs=_NEW_CONFIGS))
            except ApiError as error:
                if error.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            topic = self._topics.by_name[name]
        return topic

    def _fault(self, name: str, group: str, topic: Topic | None) -> str | None:
        """Why the group may not have this queue, in Kafka's words."""
        prefix = self._live.value("errors.deadletterqueue.topic.name.prefix")
        where = f"for share group: {group}, topic: {name}"
        if not name:
            return f"Configured DLQ topic name in share group: {group} is empty."
        if name.startswith("__"):
            return f"Configured DLQ topic name in share group: {group} cannot start with __, topic: {name}."
        if topic is not None and self._topics.state.topic_configs(name).get(ENABLED) != "true":
            return f"DLQ is not enabled on configured DLQ topic {where}."
        if topic is None and not self._live.value("errors.deadletterqueue.auto.create.topics.enable"):
            return f"DLQ topic does not exist and auto create is disabled on cluster {where}."
        if prefix and not name.startswith(str(prefix)):
            return (
                "Configured DLQ topic name does not comply with the DLQ topic prefix in share group: "
                f"{group}, topic: {name}, prefix: {prefix}."
            )
        return None

    def _partition(self, topic: Topic, number: int) -> Partition:
        """The partition of the queue for the records of a partition. Raises `ApiError`."""
        count = len(topic.partitions)
        places = sorted(range(count), key=lambda index: (index - number) % count)
        here = next((index for index in places if topic.partitions[index] is not None), places[0])
        return topic.existing(here)


def _take(left: deque[_Waiting], count: int) -> None:
    """Take out the first letters, which are in the queue now."""
    for _ in range(count):
        left.popleft().done(True)


def _copied(partition: Partition, first: int, last: int) -> Job[dict[int, Copied]]:
    """Keys and values of the records from `first` on, as far as one read goes. Without them: nothing."""
    try:
        data = partition.read(first, _READ_BYTES, True, partition.log.durable_offset)
        return (yield OffloadedWork(partial(_records, data, first, last)))  # type: ignore[no-any-return]  # a job gets results of any type
    except (LogError, OSError) as error:
        log.warning("dead letters have no copy of their records", topic=partition.topic, reason=str(error))
        return {}


def _records(data: bytes, first: int, last: int) -> dict[int, Copied]:
    found: dict[int, Copied] = {}
    for at, header in headers.iterate(data):
        if header.last_offset < first or header.is_control:
            continue
        if header.base_offset > last:
            break
        for record in batches.each(data[at : at + header.size], header):
            if first <= record.offset <= last:
                found[record.offset] = Copied(_bytes(record.key), _bytes(record.value))
    return found


def _bytes(part: bytes | None) -> bytes | None:
    return None if part is None else bytes(part)


def _headers(share: LedSharePartition, offset: int, deliveries: int, text: str) -> Headers:
    key = share.key
    texts: Iterator[tuple[str, str]] = iter(
        (
            ("topic", share.partition.topic),
            ("partition", str(key.partition)),
            ("offset", str(offset)),
            ("group", key.group_id),
            ("delivery.count", str(deliveries)),
            ("message", text),
        )
    )
    return [(f"__dlq.errors.{name}", value.encode()) for name, value in texts]


def _size_of(share: LedSharePartition, copied: Copied) -> int:
    names = 3 * (len(share.partition.topic) + len(share.key.group_id))
    return _RECORD_BYTES + names + len(copied.key or b"") + len(copied.value or b"") + 2 * len(REJECTED)
