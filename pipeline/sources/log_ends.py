"""The segment files of a partition, and where its log ends, by the last batch and the offset index."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from pyarrow import fs

from muster.pipeline.sources.segment_files import logs_among
from muster.pipeline.sources.segment_reader import Stretch, Walk

_INDEX_ENTRY: Final = 8
_END_OF_BATCH: Final = struct.Struct(">q15xi8xq").unpack_from
"""Reads three fields of a batch header: base offset, last offset delta, greatest timestamp."""


def logs_in(system: fs.FileSystem, folder: str) -> list[fs.FileInfo]:
    """The segment files in the folder of a partition, in the order of the log. The folder may be gone: no file."""
    try:
        entries = system.get_file_info(fs.FileSelector(folder))
    except FileNotFoundError:
        return []
    return logs_among(entries)


def last_end(system: fs.FileSystem, logs: list[fs.FileInfo]) -> tuple[int, int]:
    """The end of a partition, and since when it is the end.

    Both come from the last batch. Without a batch, the newest segment's start is the end, and the time is -1.
    """
    for log in reversed(logs):
        if log.size:
            found = _last_batch(system, log)
            if found is not None:
                return max(found[0], int(logs[-1].base_name[:20])), found[1]
    return int(logs[-1].base_name[:20]), -1


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
    return found


def _end_of(stretch: Stretch) -> tuple[int, int]:
    """The offset after the last batch of a stretch, and its greatest timestamp."""
    at = stretch.batches[-1]
    base_offset, last_delta, max_timestamp = _END_OF_BATCH(stretch.data, at)
    return base_offset + last_delta + 1, max_timestamp


def _last_position(system: fs.FileSystem, log: fs.FileInfo) -> int:
    """The last position in the offset index; 0 if the index does not exist."""
    try:
        data = read_file(system, log.path.removesuffix(".log") + ".index")
    except FileNotFoundError:
        return 0
    data = data[: len(data) - len(data) % _INDEX_ENTRY]
    pairs = np.frombuffer(data, ">i4").reshape(-1, 2)
    positions = pairs[:, 1]
    return int(positions.max(initial=0))


def read_file(system: fs.FileSystem, path: str) -> bytes:
    """The content of a file."""
    with system.open_input_stream(path) as stream:
        data: bytes = stream.read()
    return data
