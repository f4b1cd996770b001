"""Compression of batches. A client's megabyte may unpack to many gigabytes, so it is unpacked within a limit."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from mmap import mmap
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NamedTuple

from muster.coordinator.log.errors import CorruptBatch, MoreThanAllowed, UnsupportedCompression
from muster.coordinator.log.records.aiokafka_records import cramjam, lz4_encode, snappy_encode, zstd_encode
from muster.coordinator.log.records.headers import COMPRESSION_MASK, CRC_START, HEADER_SIZE, BatchHeader, Buffer

NO_COMPRESSION, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"uncompressed": NO_COMPRESSION, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
"""The names in `compression.type`, and Kafka's numbers."""

UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""The least limit for the unpacked bytes of a compressed batch."""
UNPACKED_TIMES: Final = 16
"""The limit for topics with large batches, as a multiple of `max.message.bytes`."""
UNPACKED_LIMIT: Final = 1 << 30
BYTES_PER_RECORD: Final = 64
"""A batch may have one record or header per this many bytes of its limit for unpacked bytes."""
REQUEST_UNPACKED_BYTES: Final = 256 * 1024 * 1024
"""The limit of unpacked bytes for all batches of a request together, if the request has more than one batch."""

_FIRST_BYTES = 64 * 1024
_MAPPED_BYTES = 1024 * 1024
"""A larger buffer is memory-mapped: Python would first fill it with zeros, which blocks the event loop."""
_GROWTH = 8
_ATTRIBUTES = Struct(">h")
_BLOCK_SIZE = Struct(">i")
_XERIAL = b"\x82SNAPPY\0" + b"\0\0\0\1" * 2
"""The beginning of a stream of snappy-java: its magic, a version, a compatible version."""
_FULL = "failed to write whole buffer"


class Allowed(NamedTuple):
    """The limits of a client's unpacked batch."""

    unpacked_bytes: int
    parts: int


SMALL: Final = Allowed(1024 * 1024, 2_000)
"""The limits for a batch that is read on the event loop: the read takes some two milliseconds."""


def allowed(max_message_bytes: int) -> Allowed:
    """Return the limits of an unpacked batch in a topic with this `max.message.bytes`."""
    limit = max(UNPACKED_BYTES, UNPACKED_TIMES * max_message_bytes)
    return Allowed(limit, limit // BYTES_PER_RECORD)


class Unpacking:
    """Counts the unpacked bytes of one request's batches."""

    __slots__ = ("_left", "_used", "at_once")

    def __init__(self) -> None:
        self._left = REQUEST_UNPACKED_BYTES
        self._used = False
        self.at_once = SMALL
        """The limits of the next batch, if it is read on the event loop."""

    def allowed(self, max_message_bytes: int) -> Allowed:
        """Return the limits of the next batch. The first batch may always be as large as any single batch."""
        whole = allowed(max_message_bytes)
        if not self._used:
            return whole
        return Allowed(min(whole.unpacked_bytes, self._left), whole.parts)

    def note(self, unpacked_bytes: int) -> None:
        """Add the unpacked bytes of a batch."""
        if unpacked_bytes:
            self._left = max(self._left - unpacked_bytes, 0)
            self._used = True
            if self._left < SMALL.unpacked_bytes:
                self.at_once = Allowed(self._left, SMALL.parts)


def unpack(batch: Buffer, header: BatchHeader, limit: int) -> Buffer:
    """Return the batch with uncompressed records, and its old length and CRC.

    Raises MoreThanAllowed for more than `limit` bytes, or more records than fit into them; CorruptBatch;
    UnsupportedCompression.
    """
    codec = header.compression
    if codec == 0:
        return batch
    if codec >= len(_UNPACK):
        raise UnsupportedCompression(f"unknown compression type {codec} at offset {header.base_offset}")
    if header.record_count > limit // BYTES_PER_RECORD:
        raise MoreThanAllowed(
            f"the compressed batch says that it has {header.record_count} records, it may have at most "
            f"{limit // BYTES_PER_RECORD}"
        )
    try:
        unpacked = _UNPACK[codec](memoryview(batch)[HEADER_SIZE:], limit)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"the compressed records at offset {header.base_offset} cannot be read: {error}") from error
    unpacked[:HEADER_SIZE] = memoryview(batch)[:HEADER_SIZE]
    _ATTRIBUTES.pack_into(unpacked, CRC_START, header.attributes & ~COMPRESSION_MASK)
    return unpacked


def unpack_set(codec: int, packed: memoryview, limit: int) -> memoryview:
    """Unpack a compressed message of an old format. Raises as `unpack` does."""
    if not 0 < codec < len(_UNPACK):
        raise UnsupportedCompression(f"unknown compression type {codec}")
    try:
        return _UNPACK[codec](packed, limit)[HEADER_SIZE:]
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"the compressed messages cannot be read: {error}") from error


def _stream(codec: str) -> Callable[[memoryview, int], memoryview]:
    """Return an unpacker for a codec that does not know the unpacked size: it tries ever larger buffers."""

    def unpack_stream(packed: memoryview, limit: int) -> memoryview:
        decompress_into = getattr(cramjam, codec).decompress_into
        room = max(_FIRST_BYTES, len(packed) * _GROWTH)
        while True:
            room = min(room, limit)
            out = _room(HEADER_SIZE + room)
            try:
                size = decompress_into(packed, out[HEADER_SIZE:])
            except cramjam.DecompressionError as error:
                del out  # the traceback of an error would keep the buffer
                if room < limit:
                    # the buffer is too small, or the bytes are damaged: a larger buffer shows which
                    room *= _GROWTH
                    continue
                if _FULL in str(error):
                    raise _too_large(limit) from error
                raise
            return out[: HEADER_SIZE + size]

    return unpack_stream


def _unpack_snappy(packed: memoryview, limit: int) -> memoryview:
    """Unpack blocks that begin with their unpacked size: a stream of snappy-java, or one block of librdkafka."""
    blocks = [(block, cramjam.snappy.decompress_raw_len(block)) for block in _snappy_blocks(packed)]
    size = sum(length for _, length in blocks)
    if size > limit:
        raise _too_large(limit)
    out, at = _room(HEADER_SIZE + size), HEADER_SIZE
    for block, length in blocks:
        # a block never gives more or fewer bytes than it says
        cramjam.snappy.decompress_raw_into(block, out[at : at + length])
        at += length
    return out


def _room(size: int) -> memoryview:
    return memoryview(mmap(-1, size) if size > _MAPPED_BYTES else bytearray(size))


def _snappy_blocks(packed: memoryview) -> list[memoryview]:
    if packed[: len(_XERIAL)] != _XERIAL:
        return [packed]
    blocks, at = [], len(_XERIAL)
    while at < len(packed):
        try:
            size = _BLOCK_SIZE.unpack_from(packed, at)[0]
        except struct_error as error:
            raise CorruptBatch("a snappy stream ends in the size of a block") from error
        at += _BLOCK_SIZE.size
        if not 0 <= size <= len(packed) - at:
            raise CorruptBatch(f"a block of {size} bytes in a snappy stream with {len(packed) - at} bytes left")
        blocks.append(packed[at : at + size])
        at += size
    return blocks


def _too_large(limit: int) -> MoreThanAllowed:
    return MoreThanAllowed(f"the compressed batch unpacks to more than {limit} bytes")


_UNPACK: Final[tuple[Callable[[memoryview, int], memoryview], ...]] = (
    lambda packed, _: packed,
    _stream("gzip"),
    _unpack_snappy,
    _stream("lz4"),
    _stream("zstd"),
)


_GZIP_HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
"""The gzip header that Java writes: no time, no name, no system."""
_GZIP_TRAILER = Struct("<II")


def _gzip(records: Buffer) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    trailer = _GZIP_TRAILER.pack(zlib.crc32(records), len(records) & 0xFFFF_FFFF)
    return b"".join((_GZIP_HEADER, packer.compress(records), packer.flush(), trailer))


_COMPRESS: tuple[Callable[[Any], bytes], ...] = (
    bytes,
    _gzip,
    snappy_encode,
    lambda records: lz4_encode(bytes(records)),  # the function takes only bytes
    zstd_encode,
)


def compress(records: Buffer, codec: int) -> bytes:
    """Compress the records of a batch with this codec (Kafka's number)."""
    return _COMPRESS[codec](records)
