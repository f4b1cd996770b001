import struct
from dataclasses import replace

import pytest

from muster.coordinator.log import (
    BatchError,
    BatchHeader,
    BatchTooLarge,
    CorruptBatch,
    InvalidRecords,
    LogConfig,
    UnsupportedCompression,
    batches,
)
from muster.coordinator.log.records import compression
from muster.coordinator.log.records.headers import Buffer, set_crc
from muster.coordinator.topics.validation import checked, first_batch, only_batch
from tests.coordinator.log.support import NOW, batch


def validate_produce(data: Buffer, *, max_message_bytes: int, allow_zstd: bool = True) -> BatchHeader:
    """All checks of a batch, in the order of Produce."""
    header = only_batch(data, first_batch(data), allow_zstd=allow_zstd)
    config = replace(LogConfig(), max_message_bytes=max_message_bytes)
    checked(data, header, config, NOW, "t", 0, compression.allowed(max_message_bytes))
    return header


def changed(position: int, code: str, value: int, data: bytearray | None = None) -> bytearray:
    """A batch with one changed header field, and a correct CRC."""
    data = batch(b"a", b"b") if data is None else data
    struct.pack_into(">" + code, data, position, value)
    if position >= 21:
        set_crc(data, len(data))
    return data


def test_a_valid_batch_passes() -> None:
    header = validate_produce(bytes(batch(b"a", b"b")), max_message_bytes=1000)
    assert header.record_count == 2


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_batch_in_any_buffer_is_validated(kind: type) -> None:
    assert validate_produce(kind(batch(b"a")), max_message_bytes=1000).record_count == 1


CASES: list[tuple[str, bytes | bytearray, type[BatchError], int, str]] = [
    ("nothing", b"", InvalidRecords, 87, "it has none"),
    ("half a header", batch(b"a")[:40], InvalidRecords, 87, "end before"),
    ("cut off", batch(b"a")[:-1], InvalidRecords, 87, "end before"),
    ("garbage", b"rubbish" * 10, CorruptBatch, 2, "Invalid magic found in record: 98"),
    ("zeros", bytes(70), CorruptBatch, 2, "Record size 0 is less than the minimum record overhead"),
    ("no batch behind", batch(b"a") + b"x" * 17, CorruptBatch, 2, "record: 120"),
    (
        "zeros behind",
        batch(b"a") + bytes(12),
        CorruptBatch,
        2,
        "Record size 0 is less than the minimum record overhead",
    ),
    ("two batches", batch(b"a") + batch(b"b"), InvalidRecords, 87, "exactly one"),
    ("old magic", changed(16, "b", 1), InvalidRecords, 87, "magic 2 only, not 1"),
    ("old magic, cut off", changed(16, "b", 1)[:-1], InvalidRecords, 87, "end before"),
    ("new magic, cut off", changed(16, "b", 3)[:-1], CorruptBatch, 2, "record: 3"),
    ("short length", changed(8, "i", 10), CorruptBatch, 2, "Record size 10"),
    ("length of a message", changed(8, "i", 48), CorruptBatch, 2, "below the minimum 49"),
    ("negative length", changed(8, "i", -5), CorruptBatch, 2, "Record size -5"),
    ("giant length", changed(8, "i", 2**31 - 1), InvalidRecords, 87, "end before"),
    ("offset given", changed(0, "q", 5), InvalidRecords, 87, "base offset"),
    ("wrong crc", changed(17, "I", 1), CorruptBatch, 2, "CRC"),
    ("control", changed(21, "h", 0x20), InvalidRecords, 87, "control"),
    ("unknown codec", changed(21, "h", 5), UnsupportedCompression, 76, "compression type 5"),
    ("negative magic", changed(16, "b", -2), CorruptBatch, 2, "Invalid magic found in record: -2"),
    ("negative offsets", changed(23, "i", -1), InvalidRecords, 87, "range of offsets"),
    ("no records", changed(57, "i", 0), InvalidRecords, 87, "0 records"),
    ("other count", changed(57, "i", 3), InvalidRecords, 87, "3 records"),
    ("no sequence", changed(43, "q", 9), InvalidRecords, 87, "sequence -1"),
]


@pytest.mark.parametrize(
    ("data", "error", "code", "why"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_invalid_batches_are_refused_with_their_error(
    data: bytes, error: type[BatchError], code: int, why: str
) -> None:
    with pytest.raises(error, match=why) as refused:
        validate_produce(data, max_message_bytes=10_000)
    assert refused.value.error_code == code
    assert type(refused.value) is error or issubclass(type(refused.value), error)


def test_max_message_bytes_limits_the_whole_batch() -> None:
    data = batch(b"a")
    validate_produce(data, max_message_bytes=len(data))
    with pytest.raises(BatchTooLarge) as refused:
        validate_produce(data, max_message_bytes=len(data) - 1)
    assert refused.value.error_code == 10


def test_zstd_is_accepted_only_if_allowed() -> None:
    data = batches.build([(b"k", b"v" * 500)], timestamp_ms=NOW, compression=compression.ZSTD)
    assert validate_produce(data, max_message_bytes=1000).compression == compression.ZSTD
    with pytest.raises(UnsupportedCompression):
        validate_produce(data, max_message_bytes=1000, allow_zstd=False)


def test_a_batch_cut_at_any_byte_is_refused() -> None:
    # as in Kafka 4.3: a cut batch counts as none
    data = bytes(batch(b"abc", b"def"))
    for cut in range(len(data)):
        with pytest.raises(InvalidRecords):
            validate_produce(data[:cut], max_message_bytes=1000)


def test_a_partial_batch_behind_a_batch_is_ignored() -> None:
    # Kafka 4.3 trims it
    data = bytes(batch(b"abc", b"def"))
    for cut in range(len(data)):
        assert validate_produce(data + data[:cut], max_message_bytes=len(data)).size == len(data)
    assert validate_produce(data + b"xyz", max_message_bytes=len(data)).size == len(data)
