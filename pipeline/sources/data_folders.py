"""Finds partitions at a path: in a data directory, or in those of several brokers of one cluster.

Several brokers have copies of the same partition. The copy with the highest end is read, since another broker may have
been away. Of copies with the same end, the largest one is read, since it is the least compacted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import fs

from muster.pipeline.schema import OFFSETS_TOPIC
from muster.pipeline.sources.log_ends import last_end, logs_in, read_file
from muster.pipeline.sources.segment_files import (
    READERS,
    Folder,
    NoSource,
    SegmentFile,
    folders_among,
    listed,
    partition_of,
    segments_among,
)

_CLUSTER_ID: Final = re.compile(rb"^cluster\.id\s*=\s*(\S+)\s*$", re.MULTILINE)
_MAX_LISTED: Final = 100
"""At most this many folders below a path are looked at."""
_NAMED: Final = 3
"""A message names at most this many folders."""


class DataFolders(NamedTuple):
    """What is at a path."""

    system: fs.FileSystem
    name: str
    """The name of the folder itself."""
    entries: list[fs.FileInfo]
    folders: list[Folder]
    """The folders of partitions. Those of several brokers may be copies of the same partition."""


def data_folders(path: str) -> DataFolders:
    """The folders of partitions at a path, or in the brokers' data directories below. Raises NoSource.

    Folders below count only if their meta.properties have the same cluster id.
    """
    system, root, entries = listed(path)
    folders = folders_among(entries)
    if all(folder.topic != OFFSETS_TOPIC for folder in folders):
        # brokers' folders may look like those of partitions: kafka-logs-1
        below = _below(system, entries)
        ids = {_cluster_id(system, one) for one in below}
        if len(ids) == 1 and None not in ids:
            folders = sorted(folder for some in below.values() for folder in some)
    return DataFolders(system, root.rstrip("/").rpartition("/")[2], entries, folders)


def fullest(system: fs.FileSystem, folders: Sequence[Folder]) -> list[Folder]:
    """One folder of each partition, by topic and partition: the copy that is to be read."""
    copies: dict[tuple[str, int], list[Folder]] = {}
    for folder in folders:
        copies.setdefault((folder.topic, folder.partition), []).append(folder)
    with ThreadPoolExecutor(READERS) as readers:
        return list(readers.map(lambda some: _fullest(system, some), copies.values()))


def _fullest(system: fs.FileSystem, copies: list[Folder]) -> Folder:
    if len(copies) == 1:
        return copies[0]

    def fullness(folder: Folder) -> tuple[int, int]:
        logs = logs_in(system, folder.path)
        return (last_end(system, logs)[0], sum(log.size or 0 for log in logs)) if logs else (-1, 0)

    return max(copies, key=fullness)


def find_segments(path: str, topic: str) -> list[SegmentFile]:
    """The segment files of `topic` at a path, by partition and offset. The path may be the folder of one partition.

    Raises NoSource if no segment file exists, or if all are empty.
    """
    system, name, entries, folders = data_folders(path)
    own = partition_of(name, topic)
    found = [] if own is None else segments_among(own, entries)
    for folder in fullest(system, [folder for folder in folders if folder.topic == topic]):
        found += segments_among(folder.partition, system.get_file_info(fs.FileSelector(folder.path)))
    if not found:
        with_topic = [
            one.rpartition("/")[2]
            for one, some in _below(system, entries).items()
            if any(folder.topic == topic for folder in some)
        ]
        if with_topic:
            raise NoSource(
                f"{path} itself holds no segments of {topic}, but {' and '.join(with_topic[:_NAMED])} in it do"
                f"{' (and others)' if len(with_topic) > _NAMED else ''}, and their meta.properties do not have one "
                "cluster.id: one analysis is of one cluster; give one of them"
            )
        raise NoSource(
            f"{path} holds no segments of {topic}: give a broker's data directory, a folder with copies of its folders "
            f"{topic}-N, one of those, or a folder with the data directories of a cluster's brokers"
        )
    if not any(segment.size for segment in found):
        raise NoSource(f"{path} holds nothing: all {len(found)} segments of {topic} are empty")
    return sorted(found)


def _below(system: fs.FileSystem, entries: list[fs.FileInfo]) -> dict[str, list[Folder]]:
    """The folders one level below that have folders of partitions, by path: data directories of clusters or brokers."""
    some = sorted(entry.path for entry in entries if entry.type == fs.FileType.Directory)[:_MAX_LISTED]
    found = {one: folders_among(system.get_file_info(fs.FileSelector(one))) for one in some}
    return {one: folders for one, folders in found.items() if folders}


def _cluster_id(system: fs.FileSystem, folder: str) -> bytes | None:
    try:
        match = _CLUSTER_ID.search(read_file(system, f"{folder}/meta.properties"))
    except (pa.ArrowException, OSError):
        return None
    return None if match is None else match[1]
