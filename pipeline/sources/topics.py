"""The topics of a data directory: the ends of their logs, with a rough history, and their names by id. Without Spark.

Ends come from time indexes and last batches, and names from `partition.metadata`. Records of KIP-848 groups have only
topic ids. The name of a deleted topic may be in old records.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import fs

from muster.pipeline.clock import now_ms
from muster.pipeline.gather import Ints
from muster.pipeline.sources.batches import headers_of
from muster.pipeline.sources.data_folders import data_folders, fullest
from muster.pipeline.sources.ends import Between, Place, Reach, Row, history_times, is_reached, rows_of_ends
from muster.pipeline.sources.log_ends import last_end, logs_in, read_file
from muster.pipeline.sources.segment_files import READERS, NoSource
from muster.pipeline.sources.segment_reader import Walk
from muster.pipeline.sources.sent import UNKNOWN, sent_by

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
WHOLE_BYTES: Final = 1 << 19
"""A segment of at most this size is read for the history. Of a larger one, only the time index is read."""

_TIME_ENTRY: Final = np.dtype([("time_ms", ">i8"), ("offset", ">i4")])


class PathReach(NamedTuple):
    """The present ends of the partitions in a data directory."""

    reach: Reach
    system: fs.FileSystem
    segments: Mapping[Place, list[fs.FileInfo]]
    """The segment files of each partition, in the order of the log."""

    def of(self, places: Collection[Place]) -> PathReach:
        """Only the ends of these partitions."""
        return self._replace(reach=self.reach.of(places))


def reach_of_path(path: str) -> PathReach:
    """The present ends of the partitions that have a folder at a path or URL (see `data_folders`).

    Internal topics are left out. This function must be called before the log of the groups is read. Otherwise a group
    may have committed for later records. Raises NoSource if the path cannot be listed.
    """
    at_ms = now_ms()
    system, _, _, folders = data_folders(path)
    folders = fullest(system, [folder for folder in folders if folder.topic not in INTERNAL])
    with ThreadPoolExecutor(READERS) as readers:
        found = readers.map(lambda folder: logs_in(system, folder.path), folders)
        segments = {(one.topic, one.partition): files for one, files in zip(folders, found, strict=True) if files}
        last = dict(zip(segments, readers.map(lambda files: last_end(system, files), segments.values()), strict=True))
    since = {place: time_ms for place, (_, time_ms) in last.items() if 0 <= time_ms <= at_ms}
    return PathReach(Reach(at_ms, {place: end for place, (end, _) in last.items()}, since), system, segments)


def ends_of_path(found: PathReach, between: Between | None, until_ms: int | None = None) -> pa.Table | None:
    """The rows (ENDS) of the partitions of `found`. None means that no end is known.

    `between`: None means that nobody committed, and that no history is needed.
    """
    history: list[Row] = []
    if between is not None:
        times = np.array(history_times(found.reach, between, until_ms), np.int64)
        with ThreadPoolExecutor(READERS) as readers:
            places = [*found.reach.ends]
            some = readers.map(lambda place: _history(found.system, found.segments[place], times), places)
            history = [(*place, *row) for place, rows in zip(places, some, strict=True) for row in rows]
    return rows_of_ends(found.reach, history, between, until_ms)


_Then = tuple[int, int, int | None]
"""The end of a partition at an earlier time: the columns of a row after topic and partition."""


def _history(system: fs.FileSystem, segments: list[fs.FileInfo], times: Ints) -> list[_Then]:
    """The ends of a partition at these rising times: (offset of the first batch then or later, time, surely).

    From a time index come (end, since when, None) instead.
    """
    rows: list[_Then] = []
    done = 0
    for segment in segments:
        if done == len(times):
            break
        with suppress(FileNotFoundError):
            index = None if (segment.size or 0) <= WHOLE_BYTES else _index_of(system, segment)
            found, done = _lookups(system, segment, times, done) if index is None else _of_index(index, times, done)
            rows += found
    first = int(segments[0].base_name[:20])
    return [row for row in rows if is_reached(row[0], first)]


def _lookups(system: fs.FileSystem, segment: fs.FileInfo, times: Ints, done: int) -> tuple[list[_Then], int]:
    """The ends at the times from number `done` on that are in a segment. Also how many times are done now.

    A producer that does not reach the broker keeps its records. So a whole batch came after its newest record.
    """
    rows: list[_Then] = []
    with system.open_input_file(segment.path) as stream:
        base_offset = int(segment.base_name[:20])
        for stretch in Walk(segment.path, stream, stream.size(), base_offset, check_crc=False, goes_on=True):
            batches = headers_of(stretch)
            greatest = np.maximum.accumulate(batches.max_timestamp)
            if not len(greatest):
                continue
            # the first batch that has a record of this time or later
            stop = done + int(np.searchsorted(times[done:], greatest[-1], "right"))
            at = np.searchsorted(greatest, times[done:stop], "left")
            sent = np.append(UNKNOWN, sent_by(batches))[at].tolist()
            surely = (None if since_ms == UNKNOWN else since_ms for since_ms in sent)
            rows += zip(batches.base_offset[at].tolist(), times[done:stop].tolist(), surely, strict=True)
            done = stop
    return rows, done


def _index_of(system: fs.FileSystem, segment: fs.FileInfo) -> tuple[Ints, Ints] | None:
    """The entries of a segment's time index, as ends and times. Zeros, or values that do not rise, end it.

    None: it has no entry.
    """
    try:
        data = read_file(system, segment.path.removesuffix(".log") + ".timeindex")
    except FileNotFoundError:
        return None
    entries = np.frombuffer(data, _TIME_ENTRY, len(data) // _TIME_ENTRY.itemsize)
    times, offsets = entries["time_ms"].astype(np.int64), entries["offset"].astype(np.int64)
    is_bad = (times <= 0) | np.concatenate(([False], (np.diff(offsets) < 0) | (np.diff(times) < 0)))[: len(times)]
    count = int(np.argmax(is_bad)) if is_bad.any() else len(times)
    return (offsets[:count] + int(segment.base_name[:20]) + 1, times[:count]) if count else None


def _of_index(index: tuple[Ints, Ints], times: Ints, done: int) -> tuple[list[_Then], int]:
    """Does what `_lookups` does, with the entries of a time index: the last entry before each time."""
    ends, since = index
    stop = done + int(np.searchsorted(times[done:], since[-1], "right"))
    at = np.searchsorted(since, times[done:stop], "left") - 1
    if stop < len(times):
        # the next time may be before the first entry of the next segment
        at = np.append(at, len(since) - 1)
    return [(int(ends[one]), int(since[one]), None) for one in np.unique(at) if one >= 0], stop


_ID: Final = re.compile(rb"^topic_id: ([A-Za-z0-9_-]{22})$", re.MULTILINE)


def names_of_path(path: str) -> dict[str, str]:
    """The names of the topics with a folder at a path (see `data_folders`), by their ids (in Kafka's text form)."""
    try:
        system, _, _, folders = data_folders(path)
    except NoSource:
        return {}
    first: dict[str, str] = {}
    for folder in folders:
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
