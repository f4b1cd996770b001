"""Record batches: good ones of each codec, bombs, batches of old formats, and batches with changed bytes and a correct
checksum.
"""

from __future__ import annotations

import gzip
import struct
from functools import cache
from random import Random
from typing import Final

import cramjam
from google_crc32c import value as crc32c

from muster.coordinator.log import batches
from tests.support import old_formats

NOW_MS: Final = 1_700_000_000_000
CODECS: Final = range(5)
_CRC_AT: Final = 17
_CHECKED_FROM: Final = 21
_HEADER: Final = 61
_ATTRIBUTES_AT: Final = 21
BOMB_BYTES: Final = 96 << 20
"""More than a batch may decompress to (`compression.UNPACKED_BYTES`)."""


def checked(batch: bytes | bytearray) -> bytes:
    """The batch with the correct length and checksum."""
    changed = bytearray(batch)
    if len(changed) >= _HEADER:
        struct.pack_into(">i", changed, 8, len(changed) - 12)
        struct.pack_into(">I", changed, _CRC_AT, crc32c(bytes(changed[_CHECKED_FROM:])))
    return bytes(changed)


def timeless(batch: bytes | bytearray) -> bytes:
    """The data without a time in the header of gzip: the same seed gives the same bytes."""
    if batch[_HEADER : _HEADER + 3] != b"\x1f\x8b\x08":
        return bytes(batch)
    return checked(batch[: _HEADER + 4] + bytes(4) + batch[_HEADER + 8 :])


def with_payload(codec: int, payload: bytes, count: int) -> bytes:
    """A batch of format 2 whose compressed records are these bytes."""
    header = bytearray(batches.build([(None, b"x")], timestamp_ms=NOW_MS)[:_HEADER])
    struct.pack_into(">h", header, _ATTRIBUTES_AT, codec)
    struct.pack_into(">i", header, 23, count - 1)
    struct.pack_into(">i", header, 57, count)
    return checked(header + payload)


@cache
def bombs() -> tuple[bytes, ...]:
    """A few bytes that decompress to very many, for each codec."""
    zeros = bytes(BOMB_BYTES)
    snappy = bytes(cramjam.snappy.compress_raw(zeros))
    xerial = b"\x82SNAPPY\0" + b"\0\0\0\1" * 2 + struct.pack(">i", len(snappy)) + snappy
    payloads = {
        1: gzip.compress(zeros, 9, mtime=0),
        2: xerial,
        3: bytes(cramjam.lz4.compress(zeros)),
        4: bytes(cramjam.zstd.compress(zeros, 19)),
    }
    return tuple(with_payload(codec, payload, 1_000) for codec, payload in payloads.items())


@cache
def liars() -> tuple[bytes, ...]:
    """Batches that claim more than they have: records, headers, lengths."""
    huge = b"\xff\xff\xff\xff\x0f"
    record = b"\0\0\0\1\1" + huge  # no key, no value, two thousand million headers
    return (
        with_payload(0, bytes([2 * len(record)]) + record, 1),
        with_payload(0, huge + b"\0" * 20, 1),
        with_payload(0, b"\x0c\0\0\0\1\1\0" * 50, 2**31 - 1),
        with_payload(0, b"\x0c\0\0\0\1\1\0" * 50, -5),
        with_payload(1, gzip.compress(bytes([2 * len(record)]) + record, mtime=0), 1),
        with_payload(4, b"\x28\xb5\x2f\xfd" + b"\xff" * 30, 1),
        with_payload(2, b"\xff\xff\xff\xff\x0f" + b"\0" * 30, 1),
        with_payload(3, b"\x04\x22\x4d\x18" + b"\xff" * 30, 1),
    )


class Batches:
    """Draws batches."""

    def __init__(self) -> None:
        pairs = [(b"key-%d" % n, b"value %d" % n * 5) for n in range(5)]
        self._good = [timeless(batches.build(pairs, timestamp_ms=NOW_MS, compression=codec)) for codec in CODECS]
        rows = [old_formats.Row(n, NOW_MS, b"key", b"value") for n in range(3)]
        self._old = [
            *(old_formats.messages(1, rows, codec) for codec in (0, 2, 3)),
            *(old_formats.messages(0, [row._replace(timestamp=-1) for row in rows], codec) for codec in (0, 2, 3)),
        ]

    def some(self, rng: Random, producer_id: int, producer_epoch: int) -> bytes:
        """A random batch, sometimes of a producer."""
        chance = rng.random()
        if chance < 0.25:
            return rng.choice(self._good)
        if chance < 0.45:
            transactional = rng.random() < 0.5
            return timeless(batches.build(
                [(b"k", b"v"), (None, b"w")], timestamp_ms=NOW_MS, producer_id=producer_id,
                producer_epoch=producer_epoch, base_sequence=rng.choice((0, 0, 1, 2, 4, 2**31 - 1)),
                transactional=transactional and producer_id >= 0, compression=rng.choice(CODECS),
            ))  # fmt: skip
        if chance < 0.55:
            return rng.choice(self._old)
        if chance < 0.553:
            return rng.choice(bombs())
        if chance < 0.6:
            return rng.choice(liars())
        if chance < 0.65:
            return rng.randbytes(rng.randrange(100))
        if chance < 0.7:
            return rng.choice(self._good) + rng.choice(self._good)
        batch = bytearray(rng.choice(self._good))
        for _ in range(rng.choice((1, 1, 2, 5))):
            batch[rng.randrange(len(batch))] = rng.randrange(256)
        return checked(batch) if rng.random() < 0.8 else bytes(batch)
