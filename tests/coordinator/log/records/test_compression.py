"""Batches that decompress to more than allowed, with every codec, and batches that only claim so."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
from collections.abc import Callable

import cramjam
import pytest

from muster.coordinator.log import BatchTooLarge, CorruptBatch, UnsupportedCompression, batches
from muster.coordinator.log.records import compression
from muster.coordinator.log.records.compression import BYTES_PER_RECORD, UNPACKED_BYTES, allowed, unpack
from muster.coordinator.log.records.headers import HEADER_SIZE, read_header, set_crc
from tests.coordinator.log.support import NOW, batch

MIB = 1 << 20
XERIAL = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"


def xerial(*blocks: bytes) -> bytes:
    return XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def _snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


PACK: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (1, lambda data: gzip.compress(data)),
    "gzip members": (1, lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:])),
    "snappy": (2, _snappy),
    "snappy-java": (2, lambda data: xerial(*(_snappy(data[at : at + 32768]) for at in range(0, len(data), 32768)))),
    "lz4": (3, lambda data: bytes(cramjam.lz4.compress(data))),
    "lz4 frames": (3, lambda data: bytes(cramjam.lz4.compress(data[:100])) + bytes(cramjam.lz4.compress(data[100:]))),
    "zstd": (4, lambda data: bytes(cramjam.zstd.compress(data))),
    "zstd frames": (
        4,
        lambda data: bytes(cramjam.zstd.compress(data[:100])) + bytes(cramjam.zstd.compress(data[100:])),
    ),
}


def packed(codec: int, records: bytes, count: int = 1) -> bytearray:
    """A batch whose compressed records are these bytes."""
    data = batch(b"a")[:HEADER_SIZE] + records
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, codec)
    struct.pack_into(">i", data, 23, count - 1)
    struct.pack_into(">i", data, 57, count)
    set_crc(data, len(data))
    return data


def unpack_all(data: bytearray, limit: int = UNPACKED_BYTES) -> bytes:
    return bytes(unpack(data, read_header(data), limit))[HEADER_SIZE:]


@pytest.mark.parametrize("name", PACK)
@pytest.mark.parametrize("size", [101, 70_000, 3 * MIB])
def test_a_batch_is_unpacked_up_to_the_limit(name: str, size: int) -> None:
    codec, pack = PACK[name]
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    assert unpack_all(packed(codec, pack(data)), size) == data
    with pytest.raises(BatchTooLarge) as refused:
        unpack_all(packed(codec, pack(data)), size - 1)
    assert refused.value.error_code == 10


@pytest.mark.parametrize("name", ["gzip", "snappy", "snappy-java", "lz4", "zstd"])
def test_a_damaged_batch_is_not_reported_as_too_large(name: str) -> None:
    codec, pack = PACK[name]
    whole = pack(b"0123456789" * 30)
    for cut in range(1, len(whole) - 1, 7):
        with pytest.raises(CorruptBatch):
            unpack_all(packed(codec, whole[:-cut]), MIB)
    for nonsense in (b"", b"\0", b"\xff" * 40):
        with pytest.raises(CorruptBatch):
            unpack_all(packed(codec, nonsense + b"\xff" if codec == 2 else nonsense), MIB)


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (b"\xff\xff\xff\xff\x0f", BatchTooLarge),
        (xerial(b"\xff\xff\xff\xff\x0f"), BatchTooLarge),
        (xerial(*[b"\x80\x80\x08\0"] * 9, b"\x80\x80\xc0\x07"), BatchTooLarge),
        (xerial(_snappy(bytes(MIB)), _snappy(b"x")), BatchTooLarge),
        (XERIAL + struct.pack(">i", -4), CorruptBatch),
        (XERIAL + struct.pack(">i", 5) + b"abcd", CorruptBatch),
        (XERIAL + b"\0\0", CorruptBatch),
    ],
    ids=["giant", "giant block", "claims", "many blocks", "negative block", "long block", "half a size"],
)
def test_a_false_size_claim_of_snappy_is_refused(records: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        unpack_all(packed(2, records), MIB)


def test_batches_without_a_codec_pass_and_unknown_codecs_are_refused() -> None:
    plain = batch(b"a", b"b")
    assert unpack(plain, read_header(plain), 1) is plain
    with pytest.raises(UnsupportedCompression):
        unpack_all(packed(5, b"x"))


def test_an_unpacked_batch_is_the_batch_without_a_codec() -> None:
    source = batches.build([(b"k", b"v" * 500)], timestamp_ms=NOW, compression=compression.ZSTD, producer_id=7)
    header = read_header(source)
    assert read_header(unpack(source, header, MIB)) == header._replace(attributes=header.attributes & ~7)


def test_records_are_counted_before_they_are_unpacked() -> None:
    most = UNPACKED_BYTES // BYTES_PER_RECORD
    assert unpack_all(packed(4, bytes(cramjam.zstd.compress(b"x")), most)) == b"x"
    with pytest.raises(BatchTooLarge, match="records"):
        unpack_all(packed(4, b"", most + 1))


def test_topics_with_a_large_maximum_batch_may_unpack_more() -> None:
    assert allowed(1_048_588) == (64 * MIB, MIB)
    assert allowed(100 * MIB) == (1600 * MIB, 25 * MIB)


BOMBS = """
import gzip, resource, sys
import cramjam
from muster.coordinator.log import (BatchTooLarge)
from muster.coordinator.log import batches
from muster.coordinator.log.records.headers import read_header
from muster.coordinator.log.records.compression import allowed
from tests.coordinator.log.records.test_compression import packed, xerial

zeros = bytes(32 << 20)
bombs = {
    "gzip": (1, gzip.compress(zeros) * 32),
    "snappy": (2, xerial(*[bytes(cramjam.snappy.compress_raw(zeros[: 1 << 20]))] * 100)),
    "lz4": (3, bytes(cramjam.lz4.compress(zeros)) * 8),
    "zstd": (4, bytes(cramjam.zstd.compress(zeros)) * 500),
}
del zeros
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
for name, (codec, records) in bombs.items():
    data = packed(codec, records)
    try:
        batches.plain(data, read_header(data), allowed(0))
    except BatchTooLarge:
        print(name, len(data), "refused")
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
print(grown if grown > 160 else "little")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB, and RLIMIT_AS kept, on Linux")
def test_compression_bombs_use_little_memory() -> None:
    # in a process of its own, whose peak no other test has raised; the bombs hold 1 GiB, 100 MiB, 256 MiB and 15 GiB
    output = subprocess.run(
        [sys.executable, "-c", BOMBS], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    lines = output.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["gzip", "snappy", "lz4", "zstd"]
    assert lines[-1] == "little"
