"""Finds the segment files at a path or URL, with pyarrow's file systems: local, s3, gs, hdfs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import fs

_SEGMENT: Final = re.compile(r"[0-9]{20}\.log")
_FOLDER: Final = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]+)")
_MAX_LISTED: Final = 100
_NAMED: Final = 3
"""A message names at most this many folders."""
READERS: Final = 8
"""This many folders are listed at once, because a remote store answers slowly."""


class NoSource(ValueError):
    """A path has nothing to read. The message says what was expected there."""


class Folder(NamedTuple):
    """The folder of a partition."""

    topic: str
    partition: int
    path: str


class SegmentFile(NamedTuple):
    """One segment file of a partition."""

    partition: int
    base_offset: int
    path: str
    size: int


def file_system(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URL, and the path in it. Raises NoSource."""
    try:
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path):
            found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(path)
            return found
        return fs.LocalFileSystem(), str(Path(path).resolve())
    except (pa.ArrowException, OSError) as error:
        raise NoSource(f"{path} cannot be opened: {error}") from error


def why(error: BaseException) -> str:
    """The reason of an error of pyarrow; that of a local file is the operating system's own word."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else str(error)


def listed(path: str) -> tuple[fs.FileSystem, str, list[fs.FileInfo]]:
    """The content of a folder: its file system, its path there, and its entries. Raises NoSource."""
    system, root = file_system(path)
    try:
        return system, root, system.get_file_info(fs.FileSelector(root))
    except (pa.ArrowException, OSError) as error:
        raise NoSource(f"{path} cannot be listed: {why(error)}") from error


def folders_among(entries: list[fs.FileInfo]) -> list[Folder]:
    """Those entries that are folders of partitions, by topic and partition."""
    found: list[Folder] = []
    for entry in entries:
        match = _FOLDER.fullmatch(entry.base_name)
        if entry.type == fs.FileType.Directory and match is not None:
            found.append(Folder(match["topic"], int(match["partition"]), entry.path))
    return sorted(found)


def find_segments(path: str, topic: str) -> list[SegmentFile]:
    """The segment files of `topic`, by partition and offset, in a data directory or in the folder of one partition.

    Raises NoSource if no segment file exists, or if all are empty.
    """
    system, root, entries = listed(path)
    own = _partition(root.rstrip("/").rpartition("/")[2], topic)
    found: list[SegmentFile] = []
    if own is not None:
        found = _segments(own, entries)
    for folder in folders_among(entries):
        if folder.topic == topic:
            found += _segments(folder.partition, system.get_file_info(fs.FileSelector(folder.path)))
    if not found:
        below = _folders_with(system, entries, topic)
        if below:
            raise NoSource(
                f"{path} itself holds no segments of {topic}, but {' and '.join(below[:_NAMED])} in it do"
                f"{' (and others)' if len(below) > _NAMED else ''}: one analysis is of one cluster; give one of them"
            )
        raise NoSource(
            f"{path} holds no segments of {topic}: give a broker's data directory, a folder with copies of its folders "
            f"{topic}-N, or one of those"
        )
    if not any(segment.size for segment in found):
        raise NoSource(f"{path} holds nothing: all {len(found)} segments of {topic} are empty")
    return sorted(found)


def _folders_with(system: fs.FileSystem, entries: list[fs.FileInfo], topic: str) -> list[str]:
    """The folders one level below that have folders of this topic. They are data directories of clusters or brokers."""
    some = sorted(entry.path for entry in entries if entry.type == fs.FileType.Directory)[:_MAX_LISTED]
    found = []
    for one in some:
        below = folders_among(system.get_file_info(fs.FileSelector(one)))
        if any(folder.topic == topic for folder in below):
            found.append(one.rpartition("/")[2])
    return found


def _partition(name: str, topic: str) -> int | None:
    match = _FOLDER.fullmatch(name)
    return int(match["partition"]) if match is not None and match["topic"] == topic else None


def _segments(partition: int, entries: list[fs.FileInfo]) -> list[SegmentFile]:
    return [
        SegmentFile(partition, int(entry.base_name[:20]), entry.path, entry.size or 0)
        for entry in entries
        if entry.type == fs.FileType.File and _SEGMENT.fullmatch(entry.base_name)
    ]
