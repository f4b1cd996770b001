"""Raw rows from a live cluster, without Spark, by confluent-kafka. All security settings of librdkafka work.

This module finds the ends of the offsets partitions, divides their ranges into shares, and reads ranges. It joins no
group and commits nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it is there

from muster.pipeline.gather import batch_of
from muster.pipeline.schema import OFFSETS_TOPIC, RAW
from muster.pipeline.sources.options import BadOption
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.segments import READ_COMMITTED, Reading, evenly

Offsets = dict[int, int]
"""The offset of each partition."""

ANSWER_TIMEOUT_S: Final = 30.0
FIRST_ANSWER_TIMEOUT_S: Final = 5.0
"""The timeout for a cluster that never answered before: it probably does not exist."""
IDLE_TIMEOUT_S: Final = 120.0
"""If a range gives no row for this time, that is an error."""
BATCH_ROWS: Final = 20_000
POLL_S: Final = 0.1
"""The rows of a batch are collected for this time. With large records that limits the memory."""
_NO_TOPIC: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED)
_HOPELESS: Final = (KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._FATAL)
"""The errors of the client library after which waiting is useless."""
_PLACE: Final = re.compile(r"\S*/\S+?: | \(after [^)]*\)|, [0-9]+ identical error\(s\) suppressed")
"""The parts of the library's messages that are not about the error itself."""
_NO_KAFKA: Final = "Invalid response size"
_CLIENT: Final = {"client.id": "muster-pipeline", "log_level": "0"}
"""The default options. Errors are reported to the caller, so the library need not write them to stderr too."""
_FETCHING: Final = {
    "group.id": "muster-pipeline",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "earliest",
    "enable.partition.eof": "true",
    "fetch.wait.max.ms": "50",
    "queued.max.messages.kbytes": "32768",
}
"""The options for fetching. The library needs the name of a group, but sends it only with a subscription."""


class ClusterError(RuntimeError):
    """The cluster, or the client library, refused a request. The message says what was refused."""


class LogReplaced(ClusterError):
    """The log of a topic lacks records that were already read. The topic was deleted, created anew, or cut."""


class Range(NamedTuple):
    """Offsets of one partition, from `start` to before `end`."""

    partition: int
    start: int
    end: int


class Cluster:
    """The options of a client of one cluster, and the messages of its library."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._complaints: dict[str, None] = {}
        self.is_hopeless = False
        """Whether the library reported that no broker can be reached."""
        self.config: dict[str, Any] = {**_CLIENT, **client, "error_cb": self._complaint}

    def _complaint(self, error: KafkaError) -> None:
        self.is_hopeless |= error.code() in _HOPELESS
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._complaints[_PLACE.sub("", error.str())] = None

    def error(self, what: object) -> ClusterError | BadOption:
        """The error for `what`, with all messages of the library. BadOption means an unknown or impossible option."""
        if isinstance(what, KafkaException):
            what = what.args[0]
        text = what.str() if isinstance(what, KafkaError) else str(what)
        if "configuration property" in text:
            return BadOption(f"{text} (options kafka.* have librdkafka's names)")
        more = "".join(f"; {one}" for one in self._complaints if one != text)
        return ClusterError(f"{self.config['bootstrap.servers']}: {text}{more}")

    def unreachable(self) -> ClusterError:
        """The error for a cluster that does not answer."""
        silent = f"nobody answered for {FIRST_ANSWER_TIMEOUT_S:.0f} s"
        causes = "; ".join(self._complaints) or ("the connection was closed" if self.is_hopeless else silent)
        if _NO_KAFKA in causes:
            causes = "what answered there is no Kafka"
        return ClusterError(
            f"{self.config['bootstrap.servers']} cannot be reached: {causes}: is a broker listening there, and does it "
            f"speak {self.config.get('security.protocol', 'PLAINTEXT')} (-X kafka.security.protocol=...)?"
        )


@contextmanager
def admin_client(client: Mapping[str, str]) -> Iterator[AdminClient]:
    """A client for this block. Errors of its library are raised as ClusterError or BadOption."""
    cluster = Cluster(client)
    try:
        admin = AdminClient(cluster.config)
    except KafkaException as error:
        raise cluster.error(error) from error
    try:
        yield admin
    except KafkaException as error:
        admin.poll(0)  # this call makes the library deliver its messages
        raise cluster.error(error) from error


def check_reachable(client: Mapping[str, str]) -> None:
    """Check that the cluster answers. The library would try for over half a minute. Raises ClusterError, BadOption."""
    cluster = Cluster(client)
    try:
        admin = AdminClient(cluster.config)
        answer = admin.describe_cluster(request_timeout=FIRST_ANSWER_TIMEOUT_S)
        while not answer.done() and not cluster.is_hopeless:
            admin.poll(POLL_S)
        if answer.done():
            answer.result()
            return
    except KafkaException as error:
        found = cluster.error(error)
        if isinstance(found, BadOption):
            raise found from error
    raise cluster.unreachable()


def bounds(client: Mapping[str, str], reading: Reading) -> tuple[Offsets, Offsets]:
    """For each partition of the topic: its first offset, and the end of its readable records.

    The end depends on the isolation level. Raises ClusterError, NoSource.
    """
    with admin_client(client) as admin:
        found, unseen = bounds_of_topics(admin, [reading.topic], reading.isolation)
        if unseen:
            raise NoSource(
                f"{client['bootstrap.servers']} has no topic {reading.topic} ({unseen[reading.topic]}): a cluster has "
                "no offsets topic before its first group, and who may not describe a topic cannot see it"
            )
        return found[reading.topic]


def bounds_of_topics(
    admin: AdminClient, topics: Sequence[str], isolation: str = READ_COMMITTED
) -> tuple[dict[str, tuple[Offsets, Offsets]], dict[str, str]]:
    """The bounds of several topics, as `bounds` has them, and why a topic is not seen. Raises KafkaException."""
    places, unseen = _partitions(admin, topics)
    found: dict[str, tuple[Offsets, Offsets]] = {topic: ({}, {}) for topic in topics if topic not in unseen}
    for side, spec in enumerate((OffsetSpec.earliest(), OffsetSpec.latest())):  # type: ignore[no-untyped-call]  # lacks annotations
        for place, offset in _offsets(admin, places, spec, isolation).items():
            found[place.topic][side][place.partition] = offset
    return found, unseen


def wanted_bounds(client: Mapping[str, str], reading: Reading) -> tuple[Offsets, Offsets]:
    """The same bounds as `bounds`, of the partitions that may have requested rows, from the first new row on.

    Raises ClusterError, NoSource.
    """
    first, last = of_partitions(reading, *bounds(client, reading))
    since_ms = reading.since_ms
    if since_ms is None or not last:
        return first, last
    with admin_client(client) as admin:
        places = [TopicPartition(reading.topic, partition) for partition in last]
        found = _offsets(admin, places, OffsetSpec.for_timestamp(max(since_ms, 0)), reading.isolation)
    newer = {place.partition: offset for place, offset in found.items()}
    begin = {one: last[one] if newer[one] < 0 else max(newer[one], first[one]) for one in last}
    return begin, last


def of_partitions(reading: Reading, first: Offsets, last: Offsets) -> tuple[Offsets, Offsets]:
    """Only the offsets of partitions that may have requested rows. The hash of a group's name is its partition."""
    count = len(first) if reading.topic == OFFSETS_TOPIC else None
    wanted = [partition for partition in last if reading.row_filter.has_partition(partition, count)]
    return {one: first[one] for one in wanted}, {one: last[one] for one in wanted}


def _partitions(admin: AdminClient, topics: Sequence[str]) -> tuple[list[TopicPartition], dict[str, str]]:
    """The partitions of topics, and why a topic is not seen; this request creates no topic."""
    found, unseen = [], {}
    for topic, asked in admin.describe_topics(TopicCollection([*topics]), request_timeout=ANSWER_TIMEOUT_S).items():
        try:
            found += [TopicPartition(topic, number) for number in sorted(one.id for one in asked.result().partitions)]
        except KafkaException as error:
            if error.args[0].code() not in _NO_TOPIC:
                raise
            unseen[topic] = error.args[0].str()
    return found, unseen


def _offsets(
    admin: AdminClient, places: Sequence[TopicPartition], spec: OffsetSpec, isolation: str
) -> dict[TopicPartition, int]:
    if not places:
        return {}
    level = IsolationLevel.READ_COMMITTED if isolation == READ_COMMITTED else IsolationLevel.READ_UNCOMMITTED
    asked = admin.list_offsets(dict.fromkeys(places, spec), isolation_level=level, request_timeout=ANSWER_TIMEOUT_S)
    return {place: future.result().offset for place, future in asked.items()}


def ranges_between(start: Offsets, end: Offsets, rows: int) -> list[Range]:
    """The offsets from `start` to `end`, divided into ranges of at most `rows` offsets."""
    found: list[Range] = []
    for partition in sorted(end):
        stop = end[partition]
        begins = range(start.get(partition, 0), stop, rows)
        found.extend(Range(partition, at, min(at + rows, stop)) for at in begins)
    return found


def share_ranges(start: Offsets, end: Offsets, count: int) -> list[list[Range]]:
    """At most `count` shares of about the same number of offsets.

    A partition with many offsets is split. The result is empty without offsets.
    """
    total = sum(max(0, stop - start.get(partition, 0)) for partition, stop in end.items())
    ranges = ranges_between(start, end, max(1, -(-total // count)))
    shares = evenly(ranges, count, lambda one: one.end - one.start)
    return [sorted(share) for share in shares]


def bounded(start: Offsets, end: Offsets, rows: int) -> Offsets:
    """The ends for reading about `rows` offsets: a part of each partition, and at least one offset in all."""
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


def readable_end(topic: str, read: Offsets, within: tuple[Offsets, Offsets], target: Offsets | None) -> Offsets:
    """The end up to which a reader may read that has read the offsets `read`.

    `within`: the bounds of the log. `target`: nothing behind these offsets is read; None: all may be read. Raises
    LogReplaced if the log ends before rows that were read.
    """
    first, last = within
    if read and not first:
        raise LogReplaced(f"{topic} was deleted")
    at = {partition: read.get(partition, 0) for partition in first}
    for partition, stop in last.items():
        if stop < at[partition]:
            raise LogReplaced(
                f"{topic}-{partition} ends at {stop}, but all before offset {at[partition]} was read already: "
                "the topic was created anew or cut"
            )
    return last if target is None else {one: max(target.get(one, 0), at[one]) for one in at}


def read_ranges(client: Mapping[str, str], reading: Reading, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """The rows of some ranges. Those of one partition are in order. Raises ClusterError.

    If offsets were deleted meanwhile, a row with `damage` says which.
    """
    waves: list[dict[int, Range]] = []
    for one in ranges:
        for wave in waves:
            if one.partition not in wave:
                wave[one.partition] = one
                break
        else:
            waves.append({one.partition: one})
    cluster = Cluster(client)
    try:
        consumer = Consumer({**cluster.config, **_FETCHING, "isolation.level": reading.isolation})
        try:
            for wave in waves:
                yield from _Wave(cluster, consumer, reading, wave).read()
        finally:
            consumer.close()
    except KafkaException as error:
        raise cluster.error(error) from error


class _Wave:
    """Ranges that are read at the same time. Each belongs to another partition."""

    def __init__(self, cluster: Cluster, consumer: Consumer, reading: Reading, wave: dict[int, Range]) -> None:
        self._cluster = cluster
        self._consumer = consumer
        self._reading = reading
        self._open = {one.partition: one.end for one in wave.values()}
        self._ranges = wave
        self._next = {one.partition: one.start for one in wave.values()}
        self._late: list[int] = []
        """Partitions whose first message came after the requested start. They were compacted, or records were deleted.
        """

    def read(self) -> Iterator[pa.RecordBatch]:
        """All rows, batch by batch."""
        topic = self._reading.topic
        self._consumer.assign([TopicPartition(topic, one.partition, one.start) for one in self._ranges.values()])
        idle_s = 0.0
        while self._open:
            lacking = sum(end - self._next[partition] for partition, end in self._open.items())
            messages = self._consumer.consume(max(1, min(BATCH_ROWS, lacking)), POLL_S)
            idle_s = 0.0 if messages else idle_s + POLL_S
            if idle_s > IDLE_TIMEOUT_S:
                partitions = ", ".join(map(str, self._open))
                raise self._cluster.error(f"nothing came for {IDLE_TIMEOUT_S:.0f} s from {topic} {partitions}")
            before = set(self._open)
            wanted = self._wanted(messages)
            if done := [TopicPartition(topic, partition) for partition in sorted(before - self._open.keys())]:
                self._consumer.pause(done)
            if self._late:
                yield from self._deleted()
            if wanted:
                yield self._reading.row_filter.of_raw(_batch(wanted, topic))
        self._consumer.unassign()

    def _wanted(self, messages: Sequence[Any]) -> list[Any]:
        """The messages within the ranges. When the end of a range is reached, its partition is closed."""
        wanted: list[Any] = []
        for message in messages:
            error = message.error()
            partition = message.partition()
            end = self._open.get(partition)
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                if not error.retriable():
                    raise self._cluster.error(error)
            elif end is not None:
                offset = message.offset()
                next_offset = self._next[partition]
                if offset > next_offset and next_offset == self._ranges[partition].start:
                    self._late.append(partition)
                if error is None and offset < end:
                    wanted.append(message)
                self._next[partition] = offset + 1
                if offset >= end - 1 or error is not None:
                    del self._open[partition]
        return wanted

    def _deleted(self) -> Iterator[pa.RecordBatch]:
        """A row for each partition whose log now begins only after the start of its range.

        The row reports the deleted offsets.
        """
        late, self._late = self._late, []
        topic, causes = self._reading.topic, []
        for partition in late:
            start, end = self._ranges[partition].start, self._ranges[partition].end
            first, _ = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), ANSWER_TIMEOUT_S)
            if first > start:
                gone = f"offsets {start} to {min(first, end) - 1} of {topic}-{partition}"
                text = f"{gone} were deleted before they were read"
                if self._reading.fail_on_damage:
                    raise self._cluster.error(text)
                causes.append({"topic": topic, "partition": partition, "offset": start, "damage": text})
        if causes:
            yield self._reading.row_filter.of_raw(pa.RecordBatch.from_pylist(causes, schema=RAW))


def _batch(messages: Sequence[Any], topic: str) -> pa.RecordBatch:
    columns = {
        "topic": pa.repeat(pa.scalar(topic), len(messages)),
        "partition": pa.array([message.partition() for message in messages], pa.int32()),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
        "timestamp_ms": pa.array([message.timestamp()[1] for message in messages], pa.int64()),
        "key": pa.array([message.key() for message in messages], pa.binary()),
        "value": pa.array([message.value() for message in messages], pa.binary()),
    }
    return batch_of(RAW, len(messages), columns)
