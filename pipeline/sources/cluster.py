"""Raw rows from a live cluster, without Spark: how far the offsets partitions reach, ranges of them shared out, each
range read with confluent-kafka (librdkafka: all its security settings work; no group is joined, nothing committed).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it is there

from muster.pipeline.schema import RAW
from muster.pipeline.sources.places import NoSource
from muster.pipeline.sources.segments import READ_COMMITTED, Reading

Offsets = dict[int, int]
"""Of each partition."""

ANSWER_TIMEOUT_S: Final = 30.0
IDLE_TIMEOUT_S: Final = 120.0
"""So long a range may bring nothing at all."""
BATCH_ROWS: Final = 20_000
POLL_S: Final = 1.0
_FETCHING: Final = {
    "group.id": "muster-pipeline",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "fetch.wait.max.ms": "50",
    "queued.max.messages.kbytes": "32768",
}
"""A client library wants the name of a group; without a subscription it is never sent."""


class ClusterError(RuntimeError):
    """The cluster, or the client library, refused something; the message says what."""


class Range(NamedTuple):
    """Offsets of one partition: from `start` on, before `end`."""

    partition: int
    start: int
    end: int


def bounds(client: Mapping[str, str], reading: Reading) -> tuple[Offsets, Offsets]:
    """The first offset of each partition of the topic, and the one after the last that can be read at the isolation.

    Raises ClusterError, NoSource.
    """
    try:
        admin = AdminClient(dict(client))
        metadata = admin.list_topics(reading.topic, timeout=ANSWER_TIMEOUT_S).topics[reading.topic]
        if metadata.error is not None or not metadata.partitions:
            raise NoSource(
                f"{client['bootstrap.servers']} has no topic {reading.topic} ({metadata.error}): a cluster has none "
                "before the first group, and who may not describe it cannot see it"
            )
        places = [TopicPartition(reading.topic, number) for number in sorted(metadata.partitions)]
        first = _offsets(admin, places, OffsetSpec.earliest(), reading)  # type: ignore[no-untyped-call]  # lacks annotations
        last = _offsets(admin, places, OffsetSpec.latest(), reading)  # type: ignore[no-untyped-call]  # lacks annotations
        return first, last
    except KafkaException as error:
        raise _refused(error, client) from error


def _offsets(admin: AdminClient, places: Sequence[TopicPartition], spec: OffsetSpec, reading: Reading) -> Offsets:
    committed = reading.isolation == READ_COMMITTED
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    asked = admin.list_offsets(dict.fromkeys(places, spec), isolation_level=level, request_timeout=ANSWER_TIMEOUT_S)
    return {place.partition: future.result().offset for place, future in asked.items()}


def _refused(error: KafkaException, client: Mapping[str, str]) -> ClusterError:
    cause = error.args[0]
    text = cause.str() if isinstance(cause, KafkaError) else str(cause)
    return ClusterError(f"{client['bootstrap.servers']}: {text}")


def ranges_between(start: Offsets, end: Offsets, rows: int) -> list[Range]:
    """What lies between, in ranges of at most `rows` offsets."""
    found: list[Range] = []
    for partition in sorted(end):
        stop = end[partition]
        begins = range(start.get(partition, 0), stop, rows)
        found.extend(Range(partition, at, min(at + rows, stop)) for at in begins)
    return found


def share_ranges(start: Offsets, end: Offsets, count: int) -> list[list[Range]]:
    """At most `count` shares of about as many offsets; a partition with many is split. Empty when there is nothing."""
    total = sum(max(0, stop - start.get(partition, 0)) for partition, stop in end.items())
    ranges = ranges_between(start, end, max(1, -(-total // count)))
    shares: list[list[Range]] = [[] for _ in range(min(count, len(ranges)))]
    loads = [(0, index) for index in range(len(shares))]
    for one in sorted(ranges, key=lambda one: (one.start - one.end, one)):
        load, index = heapq.heappop(loads)
        shares[index].append(one)
        heapq.heappush(loads, (load + one.end - one.start, index))
    return [sorted(share) for share in shares]


def bounded(start: Offsets, end: Offsets, rows: int) -> Offsets:
    """How far to read so that it is about `rows` offsets: of each partition its part, and at least one of something."""
    lags = {partition: max(0, stop - start.get(partition, 0)) for partition, stop in end.items()}
    total = sum(lags.values())
    if total <= rows:
        return {partition: max(stop, start.get(partition, 0)) for partition, stop in end.items()}
    left = rows
    reached: Offsets = {}
    for partition in sorted(lags):
        part = min(-(-lags[partition] * rows // total), left)
        left -= part
        reached[partition] = start.get(partition, 0) + part
    return reached


def read_ranges(client: Mapping[str, str], reading: Reading, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """The rows of some ranges (of one partition only one after the other), in the order of each partition.

    Raises ClusterError.
    """
    waves: list[dict[int, Range]] = []
    for one in ranges:
        for wave in waves:
            if one.partition not in wave:
                wave[one.partition] = one
                break
        else:
            waves.append({one.partition: one})
    try:
        consumer = Consumer({**client, **_FETCHING, "isolation.level": reading.isolation})
    except KafkaException as error:
        raise _refused(error, client) from error
    try:
        for wave in waves:
            yield from _read_wave(consumer, client, reading.topic, wave)
    except KafkaException as error:
        raise _refused(error, client) from error
    finally:
        consumer.close()


def _read_wave(
    consumer: Consumer, client: Mapping[str, str], topic: str, wave: dict[int, Range]
) -> Iterator[pa.RecordBatch]:
    consumer.assign([TopicPartition(topic, one.partition, one.start) for one in wave.values()])
    open_ends = {one.partition: one.end for one in wave.values()}
    idle_s = 0.0
    while open_ends:
        messages = consumer.consume(BATCH_ROWS, POLL_S)
        idle_s = 0.0 if messages else idle_s + POLL_S
        if idle_s > IDLE_TIMEOUT_S:
            partitions = ", ".join(map(str, open_ends))
            raise ClusterError(
                f"{client['bootstrap.servers']}: nothing came for {IDLE_TIMEOUT_S:.0f} s from {topic} {partitions}"
            )
        before = set(open_ends)
        batch = _batch(_wanted(messages, open_ends, client), topic)
        if done := [TopicPartition(topic, partition) for partition in sorted(before - open_ends.keys())]:
            consumer.pause(done)
        if batch.num_rows:
            yield batch
    consumer.unassign()


def _wanted(messages: Sequence[Any], open_ends: dict[int, int], client: Mapping[str, str]) -> list[Any]:
    """The messages that lie within the ranges; a partition leaves `open_ends` when its end is reached."""
    wanted: list[Any] = []
    for message in messages:
        partition = message.partition()
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                open_ends.pop(partition, None)
            elif not error.retriable():
                raise ClusterError(f"{client['bootstrap.servers']}: {error.str()}")
            continue
        end = open_ends.get(partition)
        if end is None:
            continue
        if message.offset() < end:
            wanted.append(message)
        if message.offset() >= end - 1:
            del open_ends[partition]
    return wanted


def _batch(messages: Sequence[Any], topic: str) -> pa.RecordBatch:
    count = len(messages)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(topic), count),
            pa.array([message.partition() for message in messages], pa.int32()),
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([message.timestamp()[1] for message in messages], pa.int64()),
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            pa.nulls(count, pa.int64()),
            pa.nulls(count, pa.int16()),
            pa.nulls(count, pa.bool_()),
            pa.nulls(count, pa.string()),
        ],
        schema=RAW,
    )
