"""A client's compressed batch unpacked within a bound: a megabyte on the wire may say that it is many gigabytes.

Knows the codecs and nothing of records. `batches` reads what comes out of here.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import Final

import cramjam

from muster.coordinator.log.errors import BatchTooLarge, CorruptBatch, UnsupportedCompression
from muster.coordinator.log.headers import CRC_START, HEADER_SIZE, BatchHeader, Buffer

UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""What a compressed batch may unpack to, at least."""
UNPACKED_TIMES: Final = 16
"""And where a topic takes large batches: so many times `max.message.bytes`."""
BYTES_PER_RECORD: Final = 64
"""How many records a compressed batch may hold: one for each so many bytes that it may unpack to."""

_FIRST_BYTES = 64 * 1024
_GROWTH = 8
_CODEC_BITS = 0x07
_ATTRIBUTES = Struct(">h")
_BLOCK_SIZE = Struct(">i")
_XERIAL = b"\x82SNAPPY\0" + b"\0\0\0\1" * 2
"""How a stream of snappy-java begins: its magic, a version, a compatible version."""
_FULL = "failed to write whole buffer"
"""What cramjam says when the bytes do not fit where they should go."""

DecompressInto = Callable[[Buffer, memoryview], int]


def unpacked_limit(max_message_bytes: int) -> int:
    """How many bytes of records a compressed batch of a topic with this `max.message.bytes` may hold."""
    return max(UNPACKED_BYTES, UNPACKED_TIMES * max_message_bytes)


def unpack(batch: Buffer, header: BatchHeader, limit: int) -> Buffer:
    """The same batch with its records uncompressed, its length and CRC as they were; itself when it is not compressed.

    Takes little more memory than `limit` (twice that for zstd and snappy) whatever the batch claims. Raises
    BatchTooLarge when the records take more than `limit` bytes or are more than fit there, CorruptBatch when the codec
    refuses them, UnsupportedCompression for an unknown one.
    """
    codec = header.compression
    if codec == 0:
        return batch
    if codec >= len(_UNPACK):
        raise UnsupportedCompression(f"unknown compression type {codec} at offset {header.base_offset}")
    if header.record_count > limit // BYTES_PER_RECORD:
        raise BatchTooLarge(
            f"the compressed batch says that it has {header.record_count} records, it may have at most "
            f"{limit // BYTES_PER_RECORD}"
        )
    try:
        unpacked = _UNPACK[codec](memoryview(batch)[HEADER_SIZE:], limit)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"the compressed records at offset {header.base_offset} cannot be read: {error}") from error
    unpacked[:HEADER_SIZE] = memoryview(batch)[:HEADER_SIZE]
    _ATTRIBUTES.pack_into(unpacked, CRC_START, header.attributes & ~_CODEC_BITS)
    return unpacked


def _stream(decompress_into: DecompressInto) -> Callable[[memoryview, int], bytearray]:
    """For a codec that does not say beforehand how much comes out: try with ever more room, up to the limit."""

    def unpack_stream(packed: memoryview, limit: int) -> bytearray:
        room = max(_FIRST_BYTES, len(packed) * _GROWTH)
        while True:
            room = min(room, limit)
            out = bytearray(HEADER_SIZE + room)
            try:
                with memoryview(out) as view:
                    size = decompress_into(packed, view[HEADER_SIZE:])
            except cramjam.DecompressionError as error:
                if room < limit:
                    # too little room or damage: with more room the difference shows
                    room *= _GROWTH
                    continue
                if _FULL in str(error):
                    raise _too_large(limit) from error
                raise
            del out[HEADER_SIZE + size :]
            return out

    return unpack_stream


def _unpack_snappy(packed: memoryview, limit: int) -> bytearray:
    """Blocks that each begin with their unpacked size: a stream of snappy-java, or one block as librdkafka sends it."""
    out = bytearray(HEADER_SIZE)
    for block in _snappy_blocks(packed):
        if len(out) - HEADER_SIZE + cramjam.snappy.decompress_raw_len(block) > limit:
            raise _too_large(limit)
        out += cramjam.snappy.decompress_raw(block)
    return out


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


def _too_large(limit: int) -> BatchTooLarge:
    return BatchTooLarge(f"the compressed batch unpacks to more than {limit} bytes")


_UNPACK: Final[tuple[Callable[[memoryview, int], bytearray], ...]] = (
    lambda packed, _: bytearray(packed),
    _stream(cramjam.gzip.decompress_into),
    _unpack_snappy,
    _stream(cramjam.lz4.decompress_into),
    _stream(cramjam.zstd.decompress_into),
)
"""By Kafka's codec number."""
