"""Reads a segment batch by batch after an unclean stop: finds the valid batches, and the reason for their end.

The bytes after the last whole batch are a *torn tail* when an incomplete append may have left them. A torn tail is cut.
Other bytes are *damage*, and are set aside first. Before a whole batch, or in an unknown format, nothing is cut.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from muster.coordinator.log.errors import CorruptBatch, TruncatedBatch
from muster.coordinator.log.records.headers import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    MIN_BATCH_SIZE,
    MIN_LENGTH,
    OLD_MAGIC,
    BatchHeader,
    check_crc,
    check_shape,
    is_old,
    read_header,
    unpack_header,
)
from muster.coordinator.log.segments.index import MAX_RELATIVE_OFFSET
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.storage.interfaces import File
from muster.protocol.message_sets import MIN_SIZES, may_be_message

MAX_TORN_BYTES = 128 * 1024 * 1024
"""The limit for a torn tail in bytes: no batch is that large."""
_CHUNK = 1024 * 1024
_SECTOR = 512
_MAGIC_BYTES = bytes([*OLD_MAGIC, MAGIC])
_MIN_UNKNOWN_LENGTH = 14
"""The least length field of a batch of any format."""


class Checked(NamedTuple):
    """The result of `check_segment`."""

    next_offset: int
    left: int
    """Bytes after the last whole batch; 0 when the file ends with it."""
    reason: str
    """Why no valid batch follows; "" when no bytes follow, or only zeros (reserved room)."""
    is_short: bool
    """Whether an append did not reach the disk: its bytes end early, or are zeros to the end."""
    is_torn: bool
    is_unknown: bool


def check_segment(
    segment: Segment, file_size: int, next_offset: int, note: Callable[[BatchHeader], object], *, has_room: bool = False
) -> Checked:
    """Rebuild `segment` from its file, up to the first batch that is not valid.

    `next_offset`: the least offset of the first batch. `note` gets each batch. `has_room`: zeros at the end are room.
    """
    segment.reset_indexes()
    file = segment.file
    whole = WholeBatches(file, 0, file_size, next_offset, segment.base_offset)
    for _, header in whole:
        segment.note(header.size, header.last_offset, header.max_timestamp)
        note(header)
    position, next_offset, reason = whole.position, whole.next_offset, whole.reason
    if reason and (has_room or segment.config.preallocate) and only_zeros(file, position, file_size):
        reason = ""
    is_short = position < file_size and _is_short(file, position, file_size, next_offset)
    if has_room and reason and not is_short:
        is_short = _is_torn_in_room(file, position, file_size, segment.base_offset)
    is_unknown = bool(reason) and unknown_format(file, position, next_offset, segment.base_offset) is not None
    torn = is_short or (position < file_size and is_torn(file, position, file_size, next_offset))
    return Checked(next_offset, file_size - position, reason, is_short, torn, is_unknown)


class WholeBatches:
    """Yields the batches of a segment file up to the first batch that is not valid. Every CRC is checked."""

    def __init__(self, file: File, position: int, size: int, next_offset: int, base_offset: int) -> None:
        """`next_offset`: the lowest offset of the first batch. `base_offset`: the segment's."""
        self.position = position
        """The end of the last yielded batch."""
        self.next_offset = next_offset
        self.reason = ""
        """Why the next batch is not whole; "" when no batch follows."""
        self._file = file
        self._size = size
        self._base_offset = base_offset

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        wanted = _CHUNK
        while self.position < self._size and not self.reason:
            start, left = self.position, self._size - self.position
            data = self._file.pread(min(wanted, left), start)
            wanted, at = _CHUNK, 0
            while at < len(data):
                header, self.reason = check_batch(data, at, left, self.next_offset, self._base_offset)
                if header is None:
                    break
                at += header.length + LENGTH_OVERHEAD
                self.position, self.next_offset = start + at, header.next_offset
                yield start + at - header.size, header
            if at == 0 and not self.reason:  # a batch is larger than a chunk
                wanted = read_header(data).size


def is_torn(file: File, position: int, end: int, next_offset: int) -> bool:
    """Whether the end of a file may be an append that was cut short, or that lost some blocks."""
    if end - position > MAX_TORN_BYTES:
        return only_zeros(file, position, end)
    return _is_short(file, position, end, next_offset) or _has_empty_sector(file, position, end)


def _has_empty_sector(file: File, position: int, end: int) -> bool:
    """Whether a sector of the bytes is all zeros, as a disk reads where nothing was written."""
    start = -(-position // _SECTOR) * _SECTOR
    while start < end:
        data = file.pread(min(_CHUNK, end - start), start)
        if any(not any(data[at : at + _SECTOR]) for at in range(0, len(data), _SECTOR)):
            return True
        start += len(data)
    return False


def _is_short(file: File, position: int, end: int, next_offset: int) -> bool:
    try:
        header = read_header(file.pread(HEADER_SIZE, position))
        check_shape(header, position)
    except TruncatedBatch:
        return True
    except CorruptBatch:
        return only_zeros(file, position, end)
    is_cut = header.size > end - position and header.base_offset >= next_offset
    return is_cut or only_zeros(file, position, end)


def unknown_format(file: File, position: int, next_offset: int, base_offset: int) -> BatchHeader | None:
    """Return the header at `position`, if it may be of an unknown format and fits its place in the log."""
    data = file.pread(HEADER_SIZE, position)
    if len(data) < HEADER_SIZE:
        return None
    header = BatchHeader._make(unpack_header(data))
    is_here = next_offset <= header.base_offset <= base_offset + MAX_RELATIVE_OFFSET
    return header if header.magic > MAGIC and header.length >= _MIN_UNKNOWN_LENGTH and is_here else None


def _is_torn_in_room(file: File, position: int, end: int, base_offset: int) -> bool:
    """Whether the bytes are part of a write into the reserved room of a file, mostly still zeros."""
    room = max(end - HEADER_SIZE, position)
    data = file.pread(HEADER_SIZE, position)  # the batch must have format v2: room is reserved in no other format
    if len(data) == HEADER_SIZE:
        header = BatchHeader._make(unpack_header(data))
        if header.magic == MAGIC and header.length >= MIN_LENGTH and position + header.size < end:
            room = max(room, position + header.size)
    return only_zeros(file, room, end) and whole_batch_follows(file, position, end, base_offset) is None


def check_batch(data: bytes, at: int, left: int, next_offset: int, base_offset: int) -> tuple[BatchHeader | None, str]:
    """Check the batch at `at` of `data`; the file has `left` bytes from its start on.

    Returns the header of a whole and valid batch, or None and the reason; "" when `data` ends too early.
    """
    rest = len(data) - at
    if rest >= HEADER_SIZE:
        header = BatchHeader._make(unpack_header(data, at))
    elif len(data) < left:
        return None, ""
    if rest < HEADER_SIZE or header.magic != MAGIC:
        found, reason = _header_of_any(data, at)
        if found is None:
            return None, reason
        header = found
    elif header.length < MIN_LENGTH:
        return None, f"impossible batch length {header.length}"
    size = header.length + LENGTH_OVERHEAD
    if size > rest:
        return None, "" if size <= left - at else f"only {left - at} of the {size} bytes of a batch are there"
    if header.last_offset_delta < 0:
        return None, f"last offset delta {header.last_offset_delta}"
    if header.base_offset < next_offset:
        return None, f"offset {header.base_offset} where {next_offset} or more was expected"
    if header.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        return None, f"offset {header.last_offset} is out of the reach of a segment that begins at {base_offset}"
    if not check_crc(data, at, header):
        return None, f"the CRC of the batch at offset {header.base_offset} is wrong"
    return header, ""


def _header_of_any(data: bytes, at: int) -> tuple[BatchHeader | None, str]:
    if not is_old(data, at):
        if len(data) - at < HEADER_SIZE:
            return None, f"{len(data) - at} bytes are no batch header"
        return None, f"magic {unpack_header(data, at)[3]}, only 0, 1 and 2 are known"
    try:
        header = read_header(data, at)
    except TruncatedBatch:
        return None, f"{len(data) - at} bytes are no batch header"
    if header.size < MIN_SIZES[header.magic]:
        return None, f"impossible batch length {header.length}"
    return header, ""


def only_zeros(file: File, position: int, end: int) -> bool:
    """Whether all bytes are zeros: reserved room."""
    while position < end:
        data = file.pread(min(_CHUNK, end - position), position)
        if data.count(0) != len(data):
            return False
        position += len(data)
    return True


def whole_batch_at(file: File, position: int, end: int) -> BatchHeader | None:
    """Return the header at `position` when its batch is whole and its CRC right. No torn append leaves such a batch."""
    try:
        header = read_header(file.pread(HEADER_SIZE, position))
        check_shape(header, position)
    except CorruptBatch:
        return None
    is_whole = header.size <= end - position and check_crc(file.pread(header.size, position), 0, header)
    return header if is_whole else None


def whole_batch_follows(file: File, position: int, end: int, base_offset: int) -> int | None:
    """Return the position of the next valid batch of the segment after the bad batch at `position`, or None."""
    start = position + 1
    looks_like_header = _header_pattern(base_offset)
    while end - start >= MIN_BATCH_SIZE:
        data = file.pread(min(_CHUNK, end - start), start)
        # the last bytes are read again with the next chunk: a header may cross the border
        fresh = max(len(data) - HEADER_SIZE + 1, 1) if end - start > len(data) else len(data)
        for match in looks_like_header.finditer(data, 0, min(fresh + MAGIC_POSITION, len(data))):
            begin = match.start()
            if begin < fresh and _is_whole(file, data, begin, start, end, base_offset):
                return start + begin
        start += fresh
    return None


def _is_whole(file: File, data: bytes, begin: int, start: int, end: int, base_offset: int) -> bool:
    """Whether a whole batch with an offset of the segment begins at `begin` of `data`, which begins at `start`."""
    try:
        header = read_header(data, begin)
        check_shape(header, begin)
    except CorruptBatch:
        return False
    return (
        base_offset <= header.base_offset <= base_offset + MAX_RELATIVE_OFFSET
        and header.size <= end - start - begin
        and (header.magic == MAGIC or may_be_message(data, begin, header.size))
        and check_crc(file.pread(header.size, start + begin), 0, header)
    )


def _header_pattern(base_offset: int) -> re.Pattern[bytes]:
    """Match a possible header of the segment: the upper half of its offset, a length, and the magic byte.

    Length 0 does not match, because no batch has it. Else each zero byte of reserved room would match.
    """
    halves = {struct.pack(">q", offset)[:4]: None for offset in (base_offset, base_offset + MAX_RELATIVE_OFFSET)}
    upper = b"|".join(re.escape(half) for half in halves)
    length = b".{4}(?!\\0{4}).{%d}" % (MAGIC_POSITION - 8)
    return re.compile(b"(?s)(?=(?:" + upper + b")" + length + b"[" + re.escape(_MAGIC_BYTES) + b"])")
