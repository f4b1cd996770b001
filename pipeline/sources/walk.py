"""From the bytes of a segment file to whole batches with a right CRC, stretch by stretch; tells what it has to pass
over. Knows the 61 bytes in front of a batch (KIP-98) and nothing of records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from google_crc32c import value as crc32c

CHUNK_BYTES: Final = 4 << 20
MAX_BATCH_BYTES: Final = 128 << 20
"""A batch that says to be longer is taken for damage: no broker takes commits of that size."""
HEADER_SIZE: Final = 61
LENGTH_OVERHEAD: Final = 12
MAGIC: Final = 2
_CRC_START: Final = 21
_bounds = struct.Struct(">qi4xbI2xi").unpack_from


class Damage(NamedTuple):
    """Something in a segment that could not be read."""

    offset: int
    """That of the batch, or the next one expected."""
    text: str


class Stretch(NamedTuple):
    """Some whole batches of a file."""

    data: bytes
    batches: list[int]
    """Positions in `data`."""
    damages: list[Damage]


class Walk:
    """The batches of one segment file in order. A torn tail ends it, a batch that is damaged within itself is passed
    over, after bytes that are no batch nothing of the file can be found again; each is told as `Damage`. Zeros at the
    end are room reserved in advance and nothing is said of them, nor of the end of a file that `goes_on` behind `size`.
    """

    def __init__(
        self,
        name: str,
        stream: BinaryIO,
        size: int,
        first_offset: int,
        *,
        check_crc: bool = True,
        goes_on: bool = False,
    ) -> None:
        self._name = name
        self._stream = stream
        self._size = size
        self._next_offset = first_offset
        self._check_crc = check_crc
        self._goes_on = goes_on
        self._done = False

    def __iter__(self) -> Iterator[Stretch]:
        data, before, wanted = b"", 0, CHUNK_BYTES
        while not self._done:
            more = self._stream.read(max(0, min(wanted, self._size - before - len(data))))
            data += more
            if not more:
                self._size = before + len(data)
            stretch, at, lacking = self._stretch(data, before)
            if stretch.batches or stretch.damages:
                yield stretch
            data, before, wanted = data[at:], before + at, max(CHUNK_BYTES, lacking)

    def _stretch(self, data: bytes, before: int) -> tuple[Stretch, int, int]:
        """What lies whole in `data`, which stands at `before` in the file; where it ends, how much the next lacks."""
        found = Stretch(data, [], [])
        at, lacking = 0, 0
        while len(data) - at >= HEADER_SIZE:
            offset, length, magic, crc, last_delta = _bounds(data, at)
            end = at + LENGTH_OVERHEAD + length
            if magic != MAGIC or not HEADER_SIZE <= LENGTH_OVERHEAD + length <= MAX_BATCH_BYTES:
                if not self._pass_over(found, data, at, before, magic, length):
                    return found, len(data), 0
                if end > len(data):
                    return found, at, end - len(data)
            elif end > len(data):
                if before + end <= self._size:
                    return found, at, end - len(data)
                break
            elif self._check_crc and crc32c(data[at + _CRC_START : end]) != crc:
                found.damages.append(
                    Damage(offset, f"{self._name}: the CRC of the batch of {end - at} bytes at {before + at} is wrong")
                )
            else:
                found.batches.append(at)
                self._next_offset = offset + last_delta + 1
            at = end
        if before + len(data) >= self._size:
            self._done = True
            if any(data[at:]) and not self._goes_on:
                text = f"{self._name}: the file ends in the middle of the batch at {before + at} (torn tail)"
                found.damages.append(Damage(self._next_offset, text))
        return found, at, lacking

    def _pass_over(self, found: Stretch, data: bytes, at: int, before: int, magic: int, length: int) -> bool:
        """Tell of bytes that are no batch v2; whether the walk can go on after them."""
        if magic in (0, 1) and 14 <= length <= MAX_BATCH_BYTES and before + at + LENGTH_OVERHEAD + length <= self._size:
            if at + LENGTH_OVERHEAD + length <= len(data):
                text = f"{self._name}: messages of format {magic} at {before + at} (Kafka before 0.11) are not read"
                found.damages.append(Damage(self._next_offset, text))
            return True
        self._done = True
        if any(data[at:]) or self._more_than_zeros():
            text = f"{self._name}: no batch at {before + at} (length {length}, magic {magic}), the rest is not read"
            found.damages.append(Damage(self._next_offset, text))
        return False

    def _more_than_zeros(self) -> bool:
        while more := self._stream.read(CHUNK_BYTES):
            if any(more):
                return True
        return False
