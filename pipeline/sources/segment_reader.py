"""Splits the bytes of a segment file, stretch by stretch, into whole batches with a correct CRC and damaged bytes.

It knows the 61 bytes of a batch header (KIP-98), but no records. Here, messages of old formats (magic 0 and 1) become
batches, so no other module knows old formats.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final, NamedTuple

import cramjam
from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode
from aiokafka.errors import UnsupportedCodecError
from google_crc32c import value as crc32c

from muster.protocol import message_sets
from muster.protocol.message_sets import MIN_SIZES, MalformedMessageSet

_CODECS: Final = (bytes, gzip_decode, snappy_decode, lz4_decode, zstd_decode)
UNREADABLE: Final = (
    cramjam.DecompressionError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,
    IndexError,
    OverflowError,
    UnsupportedCodecError,
)
"""The errors that the codecs raise for unreadable bytes."""


def unpacked(codec: int, packed: bytes | memoryview) -> bytes:
    """The uncompressed bytes. `codec` is Kafka's number; 0 means not compressed. Raises one of `UNREADABLE`."""
    if codec >= len(_CODECS):
        raise ValueError(f"unknown compression type {codec}")
    return bytes(_CODECS[codec](bytes(packed)))


CHUNK_BYTES: Final = 4 << 20
MAX_BATCH_BYTES: Final = 128 << 20
"""A larger length of a batch counts as damage: no broker accepts commits of that size."""
HEADER_SIZE: Final = 61
LENGTH_OVERHEAD: Final = 12
MAGIC: Final = 2
_CRC_START: Final = 21
_bounds = struct.Struct(">qi4xbI2xi").unpack_from
_END = struct.Struct(">q15xi").unpack_from
"""Reads two fields of a batch header: base offset and last offset delta."""


class Damage(NamedTuple):
    """A part of a segment that could not be read."""

    offset: int
    """The offset of the damaged batch, or the next expected offset."""
    text: str


class Stretch(NamedTuple):
    """Some whole batches of a file, or messages of an old format in the form of batches."""

    data: bytes
    batches: list[int]
    """The positions of the batches in `data`."""
    damages: list[Damage]


@dataclass(slots=True)
class Walk:
    """The batches of one segment file, in their order.

    `Damage` reports a torn tail, a damaged batch (which is skipped), and bytes that are no batch. After such bytes, no
    further batch of the file can be found. Zeros at the end are reserved space and no damage. The end of a file that
    `goes_on` after `size` is no damage either.
    """

    name: str
    stream: BinaryIO
    size: int
    next_offset: int
    check_crc: bool = field(default=True, kw_only=True)
    goes_on: bool = field(default=False, kw_only=True)
    _done: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[Stretch]:
        data, before, wanted = b"", 0, CHUNK_BYTES
        while not self._done:
            if wanted:
                more = self.stream.read(max(0, min(wanted, self.size - before - len(data))))
                data += more
                if not more:
                    self.size = before + len(data)
            stretch, at, lacking = self._old_stretch(data, before) if _is_old(data, 0) else self._stretch(data, before)
            if stretch.batches or stretch.damages:
                yield stretch
            data, before = data[at:], before + at
            wanted = max(CHUNK_BYTES - len(data) if at else CHUNK_BYTES, lacking, 0)

    def _stretch(self, data: bytes, before: int) -> tuple[Stretch, int, int]:
        """The whole batches in `data`, which is at `before` in the file.

        Also the end of these batches, and how many bytes the next batch lacks.
        """
        found = Stretch(data, [], [])
        at, lacking = 0, 0
        while len(data) - at >= HEADER_SIZE:
            offset, length, magic, crc, last_delta = _bounds(data, at)
            end = at + LENGTH_OVERHEAD + length
            if magic != MAGIC or not HEADER_SIZE <= LENGTH_OVERHEAD + length <= MAX_BATCH_BYTES:
                if _is_old(data, at):
                    return found, at, 0
                self._give_up(found, data, at, before, magic, length)
                return found, len(data), 0
            if end > len(data):
                if before + end <= self.size:
                    return found, at, end - len(data)
                break
            if self.check_crc and crc32c(data[at + _CRC_START : end]) != crc:
                found.damages.append(
                    Damage(offset, f"{self.name}: the CRC of the batch of {end - at} bytes at {before + at} is wrong")
                )
            else:
                found.batches.append(at)
                self.next_offset = offset + last_delta + 1
            at = end
        if not _is_old(data, at):
            self._end_at(found, data, at, before)
        return found, at, lacking

    def _end_at(self, found: Stretch, data: bytes, at: int, before: int) -> None:
        """No whole batch follows at `at` in `data`. If that is the end of the file, report the remaining bytes."""
        if before + len(data) < self.size:
            return
        self._done = True
        if any(data[at:]) and not self.goes_on:
            text = f"{self.name}: the file ends in the middle of the batch at {before + at} (torn tail)"
            found.damages.append(Damage(self.next_offset, text))

    def _old_stretch(self, data: bytes, before: int) -> tuple[Stretch, int, int]:
        """Does what `_stretch` does, for messages of an old format at the start of `data`.

        The result is the run of messages there, as batches.
        """
        end, lacking = 0, 0
        while _is_old(data, end):
            size = LENGTH_OVERHEAD + int.from_bytes(data[end + 8 : end + 12], "big")
            if end + size > len(data):
                lacking = end + size - len(data) if before + end + size <= self.size else 0
                break
            end += size
        parts: list[bytes] = []
        found, size, at = Stretch(b"", [], []), 0, 0
        for start, at in message_sets.runs(data[:end]):
            for batch in self._as_batches(data[start:at], before + start, found):
                found.batches.append(size)
                parts.append(batch)
                size += len(batch)
            if size >= CHUNK_BYTES:
                break
        if not end and not lacking:
            self._end_at(found, data, 0, before)
        return found._replace(data=b"".join(parts)), at, lacking if at == end else 0

    def _as_batches(self, run: bytes, position: int, found: Stretch) -> Iterator[bytes]:
        """One run of messages as a batch. If one message is damaged, each message becomes a batch of its own."""
        last = message_sets.head_of(run, 0)
        assert last is not None  # a run consists of whole messages
        try:
            batch = bytes(message_sets.as_batch(run, unpacked))
        except (MalformedMessageSet, *UNREADABLE) as error:
            if last.size == len(run):
                text = f"{self.name}: the message at {position} cannot be read: {error}"
                found.damages.append(Damage(last.offset, text))
                self.next_offset = last.offset + 1
                return
            at = 0
            while at < len(run):
                head = message_sets.head_of(run, at)
                assert head is not None
                yield from self._as_batches(run[at : at + head.size], position + at, found)
                at += head.size
            return
        offset, last_delta = _END(batch, 0)
        self.next_offset = offset + last_delta + 1
        yield batch

    def _give_up(self, found: Stretch, data: bytes, at: int, before: int, magic: int, length: int) -> None:
        """Report bytes that are no batch. After them, no batch can be found."""
        self._done = True
        if any(data[at:]) or self._more_than_zeros():
            text = f"{self.name}: no batch at {before + at} (length {length}, magic {magic}), the rest is not read"
            found.damages.append(Damage(self.next_offset, text))

    def _more_than_zeros(self) -> bool:
        while more := self.stream.read(CHUNK_BYTES):
            if any(more):
                return True
        return False


def _is_old(data: bytes, at: int) -> bool:
    """Whether a message of an old format begins at `at`, by its magic and its size."""
    if len(data) - at < MIN_SIZES[0]:
        return False
    magic = data[at + message_sets.MAGIC_POSITION]
    length = int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
    return magic in (0, 1) and MIN_SIZES[magic] <= LENGTH_OVERHEAD + length <= MAX_BATCH_BYTES
