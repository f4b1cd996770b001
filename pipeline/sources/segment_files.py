"""Lists folders and files at a path or URL, with pyarrow's file systems: local, s3, gs, hdfs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import fs

_SEGMENT: Final = re.compile(r"[0-9]{20}\.log")
_FOLDER: Final = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]+)")
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


def partition_of(name: str, topic: str) -> int | None:
    """The partition whose folder has this name; None if it is no folder of this topic."""
    match = _FOLDER.fullmatch(name)
    return int(match["partition"]) if match is not None and match["topic"] == topic else None


def logs_among(entries: list[fs.FileInfo]) -> list[fs.FileInfo]:
    """Those entries that are segment files, in the order of the log."""
    logs = (entry for entry in entries if entry.type == fs.FileType.File and _SEGMENT.fullmatch(entry.base_name))
    return sorted(logs, key=lambda entry: entry.base_name)


def segments_among(partition: int, entries: list[fs.FileInfo]) -> list[SegmentFile]:
    """Those entries that are segment files of a partition."""
    logs = logs_among(entries)
    return [SegmentFile(partition, int(log.base_name[:20]), log.path, log.size or 0) for log in logs]
