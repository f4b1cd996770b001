"""Going through a segment batch by batch after a stop that was not clean: what holds together, where it ends, and
why.

A segment that ends in bytes after which no whole batch follows has a *torn tail*: an append that never came to its
end; it is cut. When a whole batch does follow, the *middle* is damaged and nothing is cut: that would drop what was
acknowledged.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import NamedTuple

from muster.coordinator.log.headers import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MIN_LENGTH,
    BatchHeader,
    check_crc,
    unpack_header,
)
from muster.coordinator.log.segment import MAX_RELATIVE_OFFSET, Segment
from muster.coordinator.log.storage import File

_CHUNK = 1024 * 1024
_MAGIC_POSITION = 16
_MAGIC_BYTE = bytes([MAGIC])


class Checked(NamedTuple):
    """What `check_segment` found."""

    next_offset: int
    """The offset after the last whole batch."""
    left: int
    """Bytes after the last whole batch; 0: all of the file is batches."""
    reason: str
    """Why the batch there does not hold together; "" when nothing is left or only zeros (room reserved in advance)."""
    is_short: bool
    """The bytes end before the batch does, or are zeros up to the end: an append that did not reach the disk, and no
    other damage.
    """


def check_segment(
    segment: Segment,
    file_size: int,
    next_offset: int,
    note: Callable[[BatchHeader], object],
    *,
    has_room: bool = False,
) -> Checked:
    """Rebuild `segment` from its file, with every CRC checked, up to the first batch that does not hold together.

    `next_offset`: the lowest offset its first batch may have. `note` is called with each batch, in order. `has_room`:
    zeros at the end are room that was reserved in advance.
    """
    segment.reset_indexes()
    file = segment.file
    position = 0
    reason = ""
    while position < file_size and not reason:
        data = file.pread(min(_CHUNK, file_size - position), position)
        at = 0
        while at < len(data):
            header, reason = check_batch(data, at, file_size - position, next_offset, segment.base_offset)
            if header is None:
                break
            segment.note(header.size, header.last_offset, header.max_timestamp)
            note(header)
            next_offset = header.next_offset
            at += header.length + LENGTH_OVERHEAD
        if at == 0 and not reason:  # a batch larger than a chunk: take it whole
            size = BatchHeader._make(unpack_header(data)).size
            header, reason = check_batch(
                file.pread(size, position), 0, file_size - position, next_offset, segment.base_offset
            )
            if header is not None:
                segment.note(header.size, header.last_offset, header.max_timestamp)
                note(header)
                next_offset = header.next_offset
                at = header.size
        position += at
    if reason and (has_room or segment.config.preallocate) and only_zeros(file, position, file_size):
        reason = ""
    is_short = position < file_size and _is_short(file, position, file_size)
    if has_room and reason and not is_short:
        is_short = _is_torn_in_room(file, position, file_size, next_offset)
    return Checked(next_offset, file_size - position, reason, is_short)


def _is_short(file: File, position: int, end: int) -> bool:
    data = file.pread(HEADER_SIZE, position)
    if len(data) < HEADER_SIZE:
        return True
    header = BatchHeader._make(unpack_header(data))
    ends_early = header.magic == MAGIC and header.length >= MIN_LENGTH and header.size > end - position
    return ends_early or only_zeros(file, position, end)


def _is_torn_in_room(file: File, position: int, end: int, next_offset: int) -> bool:
    """Part of a write into the room at the end of a file, most of which is there still."""
    room = max(end - HEADER_SIZE, position)
    data = file.pread(HEADER_SIZE, position)
    if len(data) == HEADER_SIZE:
        header = BatchHeader._make(unpack_header(data))
        if header.magic == MAGIC and header.length >= MIN_LENGTH and position + header.size < end:
            room = max(room, position + header.size)
    return only_zeros(file, room, end) and whole_batch_follows(file, position, end, next_offset) is None


def check_batch(data: bytes, at: int, left: int, next_offset: int, base_offset: int) -> tuple[BatchHeader | None, str]:
    """The batch at `at` of a segment that begins at `base_offset`, when `left` bytes are in its file from the start
    of `data` on: its header when it is whole in `data` and right; otherwise None and why, or None and "" when `data`
    ends too early.
    """
    if left - at < HEADER_SIZE:
        return None, f"{left - at} bytes are no batch header"
    if len(data) - at < HEADER_SIZE:
        return None, ""
    header = BatchHeader._make(unpack_header(data, at))
    if header.magic != MAGIC:
        return None, f"magic {header.magic} where {MAGIC} was expected"
    if header.length < MIN_LENGTH:
        return None, f"impossible batch length {header.length}"
    if header.size > left - at:
        return None, f"a batch of {header.size} bytes, of which {left - at} are there"
    if header.size > len(data) - at:
        return None, ""
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        return None, f"offset {header.base_offset} where {next_offset} or more was expected"
    if header.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        return None, f"offset {header.last_offset} is out of the reach of a segment that begins at {base_offset}"
    if not check_crc(data, at, header):
        return None, f"the CRC of the batch at offset {header.base_offset} is wrong"
    return header, ""


def only_zeros(file: File, position: int, end: int) -> bool:
    """Nothing was ever written there: room reserved in advance."""
    while position < end:
        data = file.pread(min(_CHUNK, end - position), position)
        if data.count(0) != len(data):
            return False
        position += len(data)
    return True


def whole_batch_follows(file: File, position: int, end: int, next_offset: int) -> int | None:
    """Where, after the bad batch at `position`, the next batch with a right CRC and a later offset begins; None:
    nowhere.
    """
    start = position + 1
    looks_like_header = _header_pattern(next_offset)
    while end - start >= HEADER_SIZE:
        data = file.pread(min(_CHUNK, end - start), start)
        for match in looks_like_header.finditer(data, 0, len(data) - HEADER_SIZE + _MAGIC_POSITION + 1):
            begin = match.start()
            header = BatchHeader._make(unpack_header(data, begin))
            if (
                header.length >= MIN_LENGTH
                and next_offset <= header.base_offset <= next_offset + MAX_RELATIVE_OFFSET
                and header.size <= end - start - begin
                and check_crc(file.pread(header.size, start + begin), 0, header)
            ):
                return start + begin
        # the last bytes again with the next chunk: a header may lie across the border
        start += max(len(data) - HEADER_SIZE + 1, 1)
    return None


def _header_pattern(next_offset: int) -> re.Pattern[bytes]:
    """Where a header with an offset near `next_offset` may begin: upper half of the offset, and the magic byte."""
    halves = {struct.pack(">q", offset)[:4]: None for offset in (next_offset, next_offset + MAX_RELATIVE_OFFSET)}
    upper = b"|".join(re.escape(half) for half in halves)
    return re.compile(b"(?s)(?=(?:" + upper + b").{%d}" % (_MAGIC_POSITION - 4) + re.escape(_MAGIC_BYTE) + b")")
