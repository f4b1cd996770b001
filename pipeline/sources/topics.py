"""The topics of a source: the ends of their logs, with a rough history, and their names by id. Without Spark.

In a data directory, ends come from time indexes and last batches, and names from `partition.metadata`. A live cluster
is asked for both. A row of ends (topic, partition, end_offset, time_ms) says: from time_ms on, the log reached
end_offset. The rows of a partition are its history, and the largest end_offset is the present end. Records of KIP-848
groups have only topic ids. The name of a deleted topic may be in old records.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it is there
from pyarrow import fs

from muster.pipeline.clock import now_ms
from muster.pipeline.schema import columns
from muster.pipeline.sources.cluster import ANSWER_TIMEOUT_S, admin_client
from muster.pipeline.sources.segment_files import READERS, Folder, NoSource, folders_among, listed
from muster.pipeline.sources.segment_reader import Stretch, Walk

ENDS: Final = pa.schema(columns("topic string, partition int, end_offset long, time_ms long"))

INTERNAL: Final = frozenset(
    (
        "__cluster_metadata",
        "__consumer_offsets",
        "__group_events",
        "__share_group_state",
        "__transaction_events",
        "__transaction_state",
    )
)
"""Internal topics, whose ends are not needed."""
HISTORY_ROWS: Final = 200
"""The largest number of rows of one partition. They are spread evenly over the entries of its time indexes."""
HISTORY_MS: Final = (60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000)
"""A live cluster is asked for its present ends, and for its ends this long ago."""

_LOG: Final = re.compile(r"[0-9]{20}\.log")
_INDEX_ENTRY: Final = 8
_TIME_ENTRY: Final = np.dtype([("time_ms", ">i8"), ("offset", ">i4")])
_END_OF_BATCH: Final = struct.Struct(">q15xi8xq").unpack_from
"""Reads three fields of a batch header: base offset, last offset delta, greatest timestamp."""
_UNSEEN: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
)
"""If the request for a partition's end fails with one of these errors, the end is not known."""

Row = tuple[str, int, int, int]


def ends_of_path(path: str, until_ms: int | None = None) -> pa.Table | None:
    """The rows (ENDS) of the partitions that have a folder in a data directory or a copy of it. A URL is possible.

    Ends from `until_ms` on are left out. The result is None if only internal topics exist. Raises NoSource if the path
    cannot be listed.
    """
    system, _, entries = listed(path)
    folders = [folder for folder in folders_among(entries) if folder.topic not in INTERNAL]
    with ThreadPoolExecutor(READERS) as readers:
        found = readers.map(lambda folder: _rows_of_folder(system, folder), folders)
        return _table(row for rows in found for row in rows if until_ms is None or row[3] < until_ms)


class Reach(NamedTuple):
    """The ends of partitions of a live cluster at one request."""

    at_ms: int
    """The time just before the request, by the clock of this machine."""
    ends: Mapping[tuple[str, int], int]
    """The ends by topic and partition. Partitions that do not exist, or are not visible, are left out."""


def reach_of_cluster(client: Mapping[str, str]) -> Reach:
    """The present ends of all topics but internal ones. `client`: options by librdkafka's names.

    This function must be called before the log of the groups is read. Otherwise a group may have committed for later
    records. Raises ClusterError, BadOption.
    """
    with admin_client(client) as admin:
        places = [TopicPartition(*place) for place in _all_places(admin)]
        at_ms = now_ms()
        return Reach(at_ms, _offsets(admin, places, OffsetSpec.latest()))  # type: ignore[no-untyped-call]


def ends_of_cluster(
    client: Mapping[str, str],
    reach: Reach,
    places: Collection[tuple[str, int]] | None = None,
    *,
    until_ms: int | None = None,
) -> pa.Table | None:
    """The rows (ENDS) of the partitions `places` (None: of all) of a live cluster.

    They have the ends at the time of `reach` and before. The time is `until_ms` instead, if that is earlier. The
    earlier times are those of HISTORY_MS before. `client`: as for `reach_of_cluster`. The result is None if nothing is
    known of any partition. Raises ClusterError, BadOption.
    """
    latest = {place: end for place, end in reach.ends.items() if places is None or place in places}
    rows: list[Row] = []
    if until_ms is None or until_ms > reach.at_ms:
        rows = [(*place, end, reach.at_ms) for place, end in latest.items()]
        times = [reach.at_ms - ago_ms for ago_ms in HISTORY_MS]
    else:
        times = [until_ms - ago_ms for ago_ms in (0, *HISTORY_MS)]
    with admin_client(client) as admin:
        for then_ms in times:
            then = OffsetSpec.for_timestamp(then_ms)
            found = _offsets(admin, [TopicPartition(*place) for place in latest], then)
            # offset -1: no record of that time or later exists. An offset beyond the end: the record is newer than the
            # request
            rows += [
                (*place, latest[place] if offset < 0 else min(offset, latest[place]), then_ms)
                for place, offset in found.items()
            ]
    return _table(rows)


def _table(rows: Iterable[Row]) -> pa.Table | None:
    columns = list(zip(*sorted(rows), strict=True))
    if not columns:
        return None
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ENDS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ENDS)


# ---- a live cluster


def _all_places(admin: AdminClient) -> list[tuple[str, int]]:
    topics = admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics
    return [(name, number) for name in sorted(topics.keys() - INTERNAL) for number in sorted(topics[name].partitions)]


def _offsets(admin: AdminClient, places: Sequence[TopicPartition], spec: OffsetSpec) -> dict[tuple[str, int], int]:
    if not places:
        return {}
    asked = admin.list_offsets(dict.fromkeys(places, spec), request_timeout=ANSWER_TIMEOUT_S)
    found: dict[tuple[str, int], int] = {}
    for place, future in asked.items():
        try:
            found[place.topic, place.partition] = future.result().offset
        except KafkaException as error:
            if error.args[0].code() not in _UNSEEN:
                raise
    return found


# ---- folders


def _rows_of_folder(system: fs.FileSystem, folder: Folder) -> list[Row]:
    """The present end of one partition, and its history.

    They are empty if the partition has no segment, or if the folder is removed meanwhile.
    """
    try:
        entries = {entry.base_name: entry for entry in system.get_file_info(fs.FileSelector(folder.path))}
        logs = sorted(name for name in entries if _LOG.fullmatch(name))
        history: list[tuple[int, int]] = []
        for name in logs:
            times = entries.get(f"{name[:20]}.timeindex")
            if times is not None:
                history += _times(_read(system, times.path), int(name[:20]))
        end = _last_end(system, [entries[name] for name in logs])
    except FileNotFoundError:
        return []
    if end is None:
        return []
    # a time in the future is not used: it comes from a producer whose clock was wrong
    history = [one for one in history if one[1] <= now_ms()]
    steps = [one for one in _thinned(history) if one[0] < end[0]]
    return [(folder.topic, folder.partition, *one) for one in (*steps, end)]


def _times(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """The entries of a time index, as (end offset, time). After them come zeros, or values that do not rise."""
    entries = np.frombuffer(data, _TIME_ENTRY, len(data) // _TIME_ENTRY.itemsize)
    entries = entries[: int(np.argmin(entries["time_ms"] > 0))] if (entries["time_ms"] <= 0).any() else entries
    offsets = entries["offset"].astype(np.int64)
    rising = np.concatenate(([True], (np.diff(offsets) >= 0) & (np.diff(entries["time_ms"].astype(np.int64)) >= 0)))
    count = len(entries) if rising.all() else int(np.argmin(rising))
    ends = offsets[:count] + base_offset + 1
    return list(zip(ends.tolist(), entries["time_ms"][:count].astype(np.int64).tolist(), strict=True))


def _thinned(history: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most HISTORY_ROWS - 1 entries, the first and the last among them. Their times rise with the offsets."""
    if not history:
        return []
    ends = np.array([end for end, _ in history], np.int64)
    times = np.maximum.accumulate(np.array([at_ms for _, at_ms in history], np.int64))
    kept = np.unique(np.linspace(0, len(ends) - 1, min(len(ends), HISTORY_ROWS - 1)).astype(np.int64))
    return list(zip(ends[kept].tolist(), times[kept].tolist(), strict=True))


def _last_end(system: fs.FileSystem, logs: list[fs.FileInfo]) -> tuple[int, int] | None:
    """The end of a partition, and since when it is the end.

    Both come from the last batch. Without a batch, the newest segment's start is the end.
    """
    if not logs:
        return None
    for log in reversed(logs):
        if log.size:
            found = _last_batch(system, log)
            if found is not None:
                return max(found[0], int(logs[-1].base_name[:20])), found[1]
    return int(logs[-1].base_name[:20]), (logs[-1].mtime_ns or 0) // 1_000_000


def _last_batch(system: fs.FileSystem, log: fs.FileInfo) -> tuple[int, int] | None:
    """The offset after the last whole batch of a segment, and its greatest timestamp.

    The batch is found with the offset index.
    """
    base_offset = int(log.base_name[:20])
    at = _last_position(system, log)
    found: tuple[int, int] | None = None
    with system.open_input_file(log.path) as stream:
        size = stream.size()
        for start in (at, 0) if 0 < at < size else (0,):
            stream.seek(start)
            for stretch in Walk(log.path, stream, size - start, base_offset, check_crc=False):
                if stretch.batches:
                    found = _end_of(stretch)
            if found is not None:
                break
    if found is not None and not 0 <= found[1] <= now_ms():
        found = found[0], (log.mtime_ns or 0) // 1_000_000
    return found


def _end_of(stretch: Stretch) -> tuple[int, int]:
    """The offset after the last batch of a stretch, and its greatest timestamp."""
    at = stretch.batches[-1]
    base_offset, last_delta, max_timestamp = _END_OF_BATCH(stretch.data, at)
    return base_offset + last_delta + 1, max_timestamp


def _last_position(system: fs.FileSystem, log: fs.FileInfo) -> int:
    """The last position in the offset index; 0 if the index does not exist."""
    try:
        data = _read(system, log.path.removesuffix(".log") + ".index")
    except FileNotFoundError:
        return 0
    data = data[: len(data) - len(data) % _INDEX_ENTRY]
    pairs = np.frombuffer(data, ">i4").reshape(-1, 2)
    positions = pairs[:, 1]
    return int(positions.max(initial=0))


def _read(system: fs.FileSystem, path: str) -> bytes:
    with system.open_input_stream(path) as stream:
        data: bytes = stream.read()
    return data


_ID: Final = re.compile(rb"^topic_id: ([A-Za-z0-9_-]{22})$", re.MULTILINE)


def names_of_path(path: str) -> dict[str, str]:
    """The names of the topics that have a folder in a data directory, by their ids (in Kafka's text form)."""
    try:
        system, _, entries = listed(path)
    except NoSource:
        return {}
    first: dict[str, str] = {}
    for folder in folders_among(entries):
        first.setdefault(folder.topic, f"{folder.path}/partition.metadata")
    with ThreadPoolExecutor(READERS) as readers:
        ids = list(readers.map(lambda file: _id_in(system, file), first.values()))
    return {topic_id: topic for topic, topic_id in zip(first, ids, strict=True) if topic_id is not None}


def _id_in(system: fs.FileSystem, file: str) -> str | None:
    try:
        with system.open_input_stream(file) as stream:
            match = _ID.search(stream.read())
    except (pa.ArrowException, OSError):
        return None
    return None if match is None else match[1].decode()


def names_of_cluster(client: Mapping[str, str]) -> dict[str, str]:
    """The names of the visible topics of a live cluster, by their ids. Raises ClusterError."""
    found: dict[str, str] = {}
    with admin_client(client) as admin:
        topics = sorted(admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics)
        asked = admin.describe_topics(TopicCollection(topics), request_timeout=ANSWER_TIMEOUT_S) if topics else {}
        for topic, answer in asked.items():
            # the topic was deleted meanwhile, or is not visible
            with suppress(KafkaException):
                found[str(answer.result().topic_id)] = topic
    return found
