import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from muster.coordinator.log import CorruptBatch, TruncatedBatch
from muster.coordinator.log.records.headers import (
    HEADER_SIZE,
    check_crc,
    iterate,
    read_header,
    set_log_append_time,
    stamp,
)
from tests.coordinator.log.support import NOW, batch


def test_a_header_has_the_fields_of_its_batch() -> None:
    header = read_header(
        batch(b"a", b"b", b"c", base_offset=7, leader_epoch=3, producer_id=9, producer_epoch=1, base_sequence=5)
    )
    assert (header.base_offset, header.last_offset, header.next_offset) == (7, 9, 10)
    assert (header.leader_epoch, header.magic, header.record_count) == (3, 2, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (9, 1, 5, 7)
    assert header.producer_id != -1
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW)
    assert (header.is_control, header.is_transactional, header.is_log_append_time) == (False, False, False)
    assert header.compression == 0


def test_the_last_sequence_wraps_to_zero() -> None:
    header = read_header(batch(b"a", b"b", b"c", producer_id=9, producer_epoch=1, base_sequence=2**31 - 2))
    assert header.last_sequence == 0


def test_a_batch_without_a_producer_has_no_sequence() -> None:
    header = read_header(batch(b"a", b"b"))
    assert header.last_sequence == -1
    assert header.producer_id == -1


def test_too_few_bytes_for_a_header_are_refused() -> None:
    with pytest.raises(TruncatedBatch, match="61 bytes, 60 are left"):
        read_header(batch(b"a")[: HEADER_SIZE - 1])


def test_iterate_ends_before_a_partial_batch() -> None:
    first, second = batch(b"a"), batch(b"b", base_offset=1)
    for cut in range(len(second)):
        found = list(iterate(bytes(first + second[:cut])))
        assert [(at, header.base_offset) for at, header in found] == [(0, 0)]
    assert [at for at, _ in iterate(first + second)] == [0, len(first)]


def test_iterate_stays_within_its_bounds() -> None:
    first, second = batch(b"a"), batch(b"b", base_offset=1)
    data = first + second
    assert [header.base_offset for _, header in iterate(data, len(first))] == [1]
    assert [header.base_offset for _, header in iterate(data, 0, len(data) - 1)] == [0]


@pytest.mark.parametrize(
    ("position", "value", "why"), [(8, b"\0\0\0\x30", "length 48"), (16, b"\3", "magic 3"), (23, b"\xff", "delta")]
)
def test_iterate_refuses_malformed_batches(position: int, value: bytes, why: str) -> None:
    data = batch(b"a")
    data[position : position + len(value)] = value
    with pytest.raises(CorruptBatch, match=why):
        list(iterate(data))


def test_the_crc_covers_all_from_the_attributes_on() -> None:
    data = batch(b"abc")
    header = read_header(data)
    assert check_crc(data, 0, header)
    for position in range(21, len(data)):
        wrong = bytearray(data)
        wrong[position] ^= 1
        assert not check_crc(wrong, 0, header)
    assert not check_crc(data[:-1], 0, header)


def test_stamping_a_batch_updates_its_crc() -> None:
    data = batch(b"abc")
    stamp(data, 0, 123456789012, len(data) - 12, 42)
    header = read_header(data)
    assert (header.base_offset, header.leader_epoch) == (123456789012, 42)
    assert DefaultRecordBatch(bytes(data)).validate_crc()


@pytest.mark.parametrize("head", [None, HEADER_SIZE])
def test_log_append_time_is_seen_by_readers(head: int | None) -> None:
    data = batch(b"a", b"b")
    first, rest = (data, b"") if head is None else (data[:head], bytes(data[head:]))
    set_log_append_time(first, 5, rest)
    read = DefaultRecordBatch(bytes(first + rest) if head else bytes(first))
    assert read.validate_crc()
    assert [(record.timestamp, record.timestamp_type) for record in read] == [(5, 1), (5, 1)]
