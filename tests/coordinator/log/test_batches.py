import contextlib
import re
import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.coordinator.log import BatchError, CorruptBatch, InvalidRecords, UnsupportedCompression, batches
from muster.coordinator.log.headers import BatchHeader, read_header, set_crc
from tests.coordinator.log.support import NOW, batch, values

text = st.text(max_size=5)
blob = st.none() | st.binary(max_size=20)
records = st.lists(st.tuples(blob, blob, st.lists(st.tuples(text, blob), max_size=3)), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    records,
    st.sampled_from(list(batches.CODECS.values())),
    st.integers(0, 2**40),
    st.integers(0, 2**31 - 1),
    st.booleans(),
)
def test_aiokafka_reads_what_we_build(
    content: list, codec: int, base_offset: int, epoch: int, append_time: bool
) -> None:
    data = bytes(
        batches.build(
            content,
            timestamp_ms=NOW,
            base_offset=base_offset,
            leader_epoch=epoch,
            compression=codec,
            log_append_time=append_time,
        )
    )
    theirs = MemoryRecords(data).next_batch()
    assert theirs is not None
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in theirs] == [
        (base_offset + index, NOW, key, value, headers) for index, (key, value, headers) in enumerate(content)
    ]
    header = read_header(data)
    assert header.leader_epoch == epoch
    assert header.is_log_append_time == append_time
    ((again, ours),) = batches.read(data)
    assert again == header
    assert [(r.key, r.value, r.headers) for r in ours] == content


def test_a_batch_has_at_least_one_record() -> None:
    with pytest.raises(ValueError, match="at least one"):
        batches.build([], timestamp_ms=NOW)


def test_producer_fields() -> None:
    header = read_header(
        batches.build(
            [(None, b"v")], timestamp_ms=NOW, producer_id=7, producer_epoch=2, base_sequence=11, transactional=True
        )
    )
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 11)
    assert header.is_transactional


@pytest.mark.parametrize("kind", [batches.CONTROL_ABORT, batches.CONTROL_COMMIT])
def test_control_batches(kind: int) -> None:
    data = bytes(
        batches.build_control(
            kind, timestamp_ms=NOW, producer_id=7, producer_epoch=2, coordinator_epoch=4, base_offset=10, leader_epoch=1
        )
    )
    theirs = DefaultRecordBatch(data)
    assert theirs.validate_crc()
    assert theirs.is_control_batch
    assert theirs.is_transactional
    ((header, found),) = batches.read(data)
    assert (header.base_offset, header.leader_epoch, header.base_sequence) == (10, 1, -1)
    (record,) = found
    assert record.key == struct.pack(">hh", 0, kind)
    assert record.value == struct.pack(">hi", 0, 4)
    assert batches.control_kind(record) == kind


def test_control_kind_of_no_marker() -> None:
    ((_, found),) = batches.read(batch(b"v"))
    assert batches.control_kind(found[0]) == -1


def test_read_goes_over_several_batches_and_leaves_a_part() -> None:
    data = bytes(batch(b"a", b"b") + batch(b"c", base_offset=2) + batch(b"d", base_offset=3)[:-1])
    assert values(data) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_read_checks_the_crc_unless_told_not_to() -> None:
    data = batch(b"abc")
    data[-3] ^= 1
    with pytest.raises(CorruptBatch, match="CRC of the batch at offset 0"):
        list(batches.read(data))
    assert len(list(batches.read(data, check_crc=False))) == 1


def test_an_unknown_codec_is_named() -> None:
    data = batch(b"abc")
    data[22] |= 7
    set_crc(data, 0, len(data))
    with pytest.raises(UnsupportedCompression, match="type 7"):
        list(batches.read(data))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(batches.CODECS.values())), st.integers(61, 10_000), st.integers(1, 255), st.integers(0, 60))
def test_damaged_records_raise_only_batch_errors(codec: int, position: int, flip: int, cut: int) -> None:
    data = batches.build([(b"key", b"value" * 20, [("h", b"x")])] * 5, timestamp_ms=NOW, compression=codec)
    position = 61 + position % (len(data) - 61)
    data[position] ^= flip
    if cut:
        del data[-min(cut, len(data) - 62) :]
        struct.pack_into(">i", data, 8, len(data) - 12)
    set_crc(data, 0, len(data))
    with contextlib.suppress(BatchError):
        check(data)
    try:
        wanted = max(record.timestamp for record in batches.checked_records(data, read_header(data), 1 << 20))
    except BatchError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            batches.greatest_timestamp(data, read_header(data), 1 << 20)
    else:
        assert batches.greatest_timestamp(data, read_header(data), 1 << 20) == wanted


def check(data: bytearray, header: BatchHeader | None = None) -> list[bytes | None]:
    return [record.value for record in batches.checked_records(data, header or read_header(data), 1 << 20)]


def test_checked_records_are_those_that_clients_send() -> None:
    assert check(batch(b"a", None, b"c")) == [b"a", None, b"c"]


def test_checked_records_counts() -> None:
    data = batch(b"a", b"b")
    wrong = read_header(data)._replace(record_count=3)
    with pytest.raises(InvalidRecords, match="holds 2 records and says 3"):
        check(data, wrong)


def test_checked_records_wants_consecutive_offsets() -> None:
    data = batch(b"a", b"b")
    # the second record's offset delta: length, attributes and timestamp delta of one byte each come before it
    second = 61 + 1 + data[61] // 2 + 3
    assert data[second] == 2  # zigzag for 1
    data[second] = 6
    with pytest.raises(InvalidRecords, match=r"offset 3 .* where 1"):
        check(data)


@pytest.mark.parametrize("codec", list(batches.CODECS.values()))
def test_recompress_changes_nothing_else(codec: int) -> None:
    content = [(b"k%d" % index, b"v" * 100, [("h", None)]) for index in range(5)]
    source = batches.build(
        content,
        timestamp_ms=NOW,
        compression=batches.GZIP,
        producer_id=3,
        producer_epoch=0,
        base_sequence=9,
        base_offset=70,
    )
    result = batches.recompress(source, read_header(source), codec, 1 << 20)
    before, after = read_header(source), read_header(result)
    assert after.compression == codec
    assert after._replace(length=0, crc=0, attributes=0) == before._replace(length=0, crc=0, attributes=0)
    ((_, found),) = batches.read(result)
    assert [(r.offset, r.key, r.value, r.headers) for r in found] == [(70 + i, *row) for i, row in enumerate(content)]


def test_recompress_keeps_log_append_time() -> None:
    source = batches.build([(None, b"v" * 100)], timestamp_ms=NOW, compression=batches.GZIP, log_append_time=True)
    header = read_header(batches.recompress(source, read_header(source), batches.LZ4, 1 << 20))
    assert header.is_log_append_time
    assert header.max_timestamp == NOW
