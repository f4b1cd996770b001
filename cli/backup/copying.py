"""Copies the logs of a data directory up to given ends. The server that works on the directory may go on.

A log grows only at its end, so its records before an end do not change. But a compaction replaces older segments, and
may leave out a record because of a later one. So no segment may be replaced between a moment before the ends were
known and the end of the copy. Then the copy is made again.

Indexes, snapshots of producers and recovery points are left out: a start makes them again and checks each batch.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from muster.cli.log.files import segment_files
from muster.coordinator.log import checkpoints
from muster.coordinator.log.checkpoints import Partition, partition_of
from muster.coordinator.log.errors import BatchError
from muster.coordinator.log.file_names import base_offset_of
from muster.coordinator.log.records.headers import HEADER_SIZE, LENGTH_OVERHEAD, read_header

PIECE: Final = 1 << 20
BESIDE: Final = (checkpoints.PARTITION_METADATA, checkpoints.LEADER_EPOCHS)
"""The files of a partition that are copied beside its segments."""
Ends = Mapping[Partition, int]
"""The end of each log: only records before it are copied."""
Seen = Mapping[Partition, Mapping[str, int]]
"""The segments of each log: the number of the file (inode) by its name."""


class Replaced(Exception):
    """A segment was replaced or removed meanwhile. The text has its name."""


def segments_of(directory: Path) -> Seen:
    """The present segments of all logs."""
    found: dict[Partition, dict[str, int]] = {}
    for entry in sorted(os.scandir(directory), key=lambda one: one.name):
        partition = partition_of(entry.name)
        if partition is not None and entry.is_dir():
            names = found[partition] = {}
            for path in segment_files(Path(entry.path)):
                try:
                    names[path.name] = path.stat().st_ino
                except FileNotFoundError:
                    continue  # it was replaced just now, and is not copied by this name
    return found


def copy_directory(source: Path, target: Path, ends: Ends | None, before: Seen) -> dict[Partition, int]:
    """Copy into the new folder `target`. Returns the bytes of each log. Raises Replaced or OSError.

    `ends` None means that no server works on the directory: all is copied. `before`: the segments before that.
    """
    partitions = sorted(before if ends is None else ends)
    target.mkdir()
    starts = _starts(source)
    copied = {one: _copy_log(source, target, one, None if ends is None else ends[one], before.get(one, {}))
              for one in partitions}  # fmt: skip
    for name in (checkpoints.META_PROPERTIES,):
        if (source / name).is_file():
            _copy_file(source / name, target / name)
    kept = {one: offset for one, offset in starts.items() if one in copied}
    _write(target / checkpoints.START_OFFSETS, checkpoints.encode_offsets(kept))
    return copied


def _starts(source: Path) -> dict[Partition, int]:
    path = source / checkpoints.START_OFFSETS
    return checkpoints.decode_offsets(str(path), path.read_bytes()) if path.is_file() else {}


def _copy_log(source: Path, target: Path, partition: Partition, end: int | None, before: Mapping[str, int]) -> int:
    name = f"{partition[0]}-{partition[1]}"
    folder, into = source / name, target / name
    into.mkdir()
    try:
        for beside in BESIDE:
            if (folder / beside).is_file():
                _copy_file(folder / beside, into / beside)
        paths = segment_files(folder)
    except FileNotFoundError as error:
        raise Replaced(name) from error
    size = 0
    wanted = [path for path in paths if end is None or (base_offset_of(path.name) or 0) < end] or paths[:1]
    names = [path.name for path in wanted]
    # retention removes the first segments; what else is gone was replaced
    if gone := [one for one in before if one not in names and names and one > names[0] and _begins_before(one, end)]:
        raise Replaced(f"{name}/{gone[0]}")
    for path in wanted:
        size += _copy_segment(path, into / path.name, end, before.get(path.name), name)
    return size


def _begins_before(name: str, end: int | None) -> bool:
    return end is None or (base_offset_of(name) or 0) < end


def _copy_segment(path: Path, target: Path, end: int | None, inode: int | None, folder: str) -> int:
    """Copy the batches before `end`. `inode`: the number of the file that was there before; None: there was none."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if inode not in (None, found.st_ino):
                raise Replaced(f"{folder}/{path.name}")
            size = found.st_size if end is None else _size_before(file.fileno(), found.st_size, end)
            with target.open("xb") as into:
                left = size
                while left:
                    piece = file.read(min(PIECE, left))
                    if not piece:
                        raise Replaced(f"{folder}/{path.name}")
                    into.write(piece)
                    left -= len(piece)
                into.flush()
                os.fsync(into.fileno())
    except FileNotFoundError as error:
        raise Replaced(f"{folder}/{path.name}") from error
    return size


def _size_before(descriptor: int, size: int, end: int) -> int:
    """The bytes of the batches whose offsets are below `end`."""
    at = 0
    while at < size:
        data = os.pread(descriptor, HEADER_SIZE, at)
        try:
            header = read_header(data)
        except BatchError:
            return at  # an append that is not complete: the end is before it
        if header.base_offset >= end or header.length <= 0:
            return at
        at += header.length + LENGTH_OVERHEAD
    return min(at, size)


def _copy_file(source: Path, target: Path) -> None:
    _write(target, source.read_bytes())


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folders(directory: Path) -> None:
    """Bring the names of all copied files to the disk."""
    for folder in [*(path for path in directory.iterdir() if path.is_dir()), directory]:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_copy(target: Path) -> None:
    """Remove a copy that is not complete."""
    shutil.rmtree(target, ignore_errors=True)
