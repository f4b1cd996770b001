from __future__ import annotations

import contextlib
import gzip
import re
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.coordinator.log import BatchError, CorruptBatch, InvalidRecords, UnsupportedCompression, batches
from muster.coordinator.log.errors import MoreThanAllowed
from muster.coordinator.log.records import compression
from muster.coordinator.log.records.batches import LARGE_RECORD_BYTES
from muster.coordinator.log.records.compression import Allowed
from muster.coordinator.log.records.headers import BatchHeader, read_header, set_crc
from muster.coordinator.log.records.markers import build_marker
from muster.coordinator.log.records.reader import LogRecord, count_parts
from tests.coordinator.log.support import NOW, batch, values
from tests.support.markers import build_control

text = st.text(max_size=5)
blob = st.none() | st.binary(max_size=20)
records = st.lists(st.tuples(blob, blob, st.lists(st.tuples(text, blob), max_size=3)), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    records,
    st.sampled_from(list(compression.CODECS.values())),
    st.integers(0, 2**40),
    st.integers(0, 2**31 - 1),
    st.booleans(),
)
def test_aiokafka_reads_batches_that_we_build(
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


def test_a_batch_has_the_producer_fields() -> None:
    header = read_header(
        batches.build(
            [(None, b"v")], timestamp_ms=NOW, producer_id=7, producer_epoch=2, base_sequence=11, transactional=True
        )
    )
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 11)
    assert header.is_transactional


@pytest.mark.parametrize("kind", [batches.CONTROL_ABORT, batches.CONTROL_COMMIT])
def test_control_batches_have_their_kind(kind: int) -> None:
    data = bytes(
        build_control(
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


def test_a_plain_batch_has_no_control_kind() -> None:
    ((_, found),) = batches.read(batch(b"v"))
    assert batches.control_kind(found[0]) == -1


def test_read_reads_several_batches_and_ignores_a_partial_one() -> None:
    data = bytes(batch(b"a", b"b") + batch(b"c", base_offset=2) + batch(b"d", base_offset=3)[:-1])
    assert values(data) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_read_checks_the_crc_unless_switched_off() -> None:
    data = batch(b"abc")
    data[-3] ^= 1
    with pytest.raises(CorruptBatch, match="CRC of the batch at offset 0"):
        list(batches.read(data))
    assert len(list(batches.read(data, check_crc=False))) == 1


def test_an_unknown_codec_is_named() -> None:
    data = batch(b"abc")
    data[22] |= 7
    set_crc(data, len(data))
    with pytest.raises(UnsupportedCompression, match="type 7"):
        list(batches.read(data))


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(list(compression.CODECS.values())), st.integers(61, 10_000), st.integers(1, 255), st.integers(0, 60)
)
def test_damaged_records_raise_only_batch_errors(codec: int, position: int, flip: int, cut: int) -> None:
    data = batches.build([(b"key", b"value" * 20, [("h", b"x")])] * 5, timestamp_ms=NOW, compression=codec)
    position = 61 + position % (len(data) - 61)
    data[position] ^= flip
    if cut:
        del data[-min(cut, len(data) - 62) :]
        struct.pack_into(">i", data, 8, len(data) - 12)
    set_crc(data, len(data))
    with contextlib.suppress(BatchError):
        check(data)
    try:
        wanted = max(record.timestamp for record in records(data))
    except BatchError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            greatest(data)
    else:
        assert greatest(data) == wanted


SOME = Allowed(1 << 20, 10_000)


def records(data: bytearray, header: BatchHeader | None = None) -> Iterator[LogRecord]:
    header = header or read_header(data)
    return batches.checked_records(batches.plain(data, header, SOME))


def greatest(data: bytearray) -> int:
    header = read_header(data)
    return batches.greatest_timestamp(batches.plain(data, header, SOME))


def recompress(data: bytearray, codec: int) -> bytes:
    header = read_header(data)
    return batches.recompress(batches.plain(data, header, SOME), codec)


def check(data: bytearray, header: BatchHeader | None = None) -> list[bytes | None]:
    return [record.value for record in records(data, header)]


def test_valid_records_of_clients_pass_the_check() -> None:
    assert check(batch(b"a", None, b"c")) == [b"a", None, b"c"]


def test_a_batch_with_a_wrong_record_count_is_refused() -> None:
    data = batch(b"a", b"b")
    wrong = read_header(data)._replace(record_count=3)
    with pytest.raises(InvalidRecords, match="holds 2 records and says 3"):
        check(data, wrong)


def test_a_batch_with_a_gap_in_its_offsets_is_refused() -> None:
    data = batch(b"a", b"b")
    # the second record's offset delta: length, attributes and timestamp delta of one byte each come before it
    second = 61 + 1 + data[61] // 2 + 3
    assert data[second] == 2  # zigzag for 1
    data[second] = 6
    with pytest.raises(InvalidRecords, match=r"offset 3 .* where 1"):
        check(data)


@pytest.mark.parametrize("codec", list(compression.CODECS.values()))
def test_recompression_changes_only_the_codec(codec: int) -> None:
    content = [(b"k%d" % index, b"v" * 100, [("h", None)]) for index in range(5)]
    source = batches.build(
        content,
        timestamp_ms=NOW,
        compression=compression.GZIP,
        producer_id=3,
        producer_epoch=0,
        base_sequence=9,
        base_offset=70,
    )
    result = recompress(source, codec)
    before, after = read_header(source), read_header(result)
    assert after.compression == codec
    assert after._replace(length=0, crc=0, attributes=0) == before._replace(length=0, crc=0, attributes=0)
    ((_, found),) = batches.read(result)
    assert [(r.offset, r.key, r.value, r.headers) for r in found] == [(70 + i, *row) for i, row in enumerate(content)]


def test_gzip_output_equals_kafkas() -> None:
    # the records of a batch in a topic with compression.type=gzip, and what Kafka 4.3 stored of them
    record = bytes.fromhex("1400000001087633353700")
    kafkas = bytes.fromhex("1f8b08000000000000ff1361606060e428333635670000134a27190b000000")
    assert compression.compress(record, compression.GZIP) == kafkas
    assert gzip.decompress(kafkas) == record


def test_recompression_keeps_log_append_time() -> None:
    source = batches.build([(None, b"v" * 100)], timestamp_ms=NOW, compression=compression.GZIP, log_append_time=True)
    header = read_header(recompress(source, compression.LZ4))
    assert header.is_log_append_time
    assert header.max_timestamp == NOW


# ---- records with many headers


def with_headers(*counts: int, filler: int = 0) -> bytearray:
    headers: list[tuple[str, bytes | None]] = [("", None)]
    content = [(b"k" * 300, b"v" * filler, headers * count) for count in counts]
    return batches.build(content, timestamp_ms=NOW)


def parts(data: bytearray, most: int = 10**9) -> int:
    return count_parts(data, read_header(data).record_count, most)[0]


def test_records_and_headers_are_counted_without_decoding() -> None:
    assert parts(with_headers(0)) == 1
    assert parts(with_headers(3, 0, 700, filler=20_000)) == 3 + 703
    assert parts(batch(None, b"")) == 2
    # a record whose header claims records, and has none
    claims = with_headers(1)
    claims[-3] = 126  # zigzag for 63
    assert parts(claims) == 1 + 63


def test_counting_stops_above_the_limit() -> None:
    assert parts(with_headers(500, 500, 500), most=600) == 3 + 1_000


@settings(max_examples=100)
@given(position=st.integers(61, 400), flip=st.integers(1, 255), cut=st.integers(0, 200))
def test_counting_stops_at_damaged_records(position: int, flip: int, cut: int) -> None:
    data = with_headers(2, 2)
    data[min(position, len(data) - 1)] ^= flip
    count_parts(data[: len(data) - cut], 2, 10**9)  # raises nothing


def test_a_batch_of_too_many_headers_is_too_large() -> None:
    few, many = with_headers(9_990, 8, filler=70_000), with_headers(9_990, 9, filler=70_000)
    assert sum(1 for _ in records(few)) == 2
    with pytest.raises(MoreThanAllowed, match="2 records with 9999 headers or more, it may have at most 10000"):
        records(many)
    packed = batches.recompress(batches.Plain(many, read_header(many), False), compression.ZSTD)
    with pytest.raises(MoreThanAllowed, match="headers"):
        batches.plain(packed, read_header(packed), SOME)


def test_small_batches_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def count(data: bytes, records: int, most: int) -> tuple[int, int]:
        counted.append(len(data))
        return count_parts(data, records, most)

    monkeypatch.setattr(batches, "count_parts", count)
    small, wide, large = (batches.build([(None, bytes(1_000))] * n, timestamp_ms=NOW) for n in (100, 900, 1_100))
    for data, most, counts in (
        (small, Allowed(1 << 20, 2_000), False),
        (wide, Allowed(1 << 20, 2_000), True),
        (wide, Allowed(1 << 26, 1 << 20), False),
        (large, Allowed(1 << 26, 1 << 20), True),
    ):
        counted.clear()
        assert batches.plain(data, read_header(data), most).header.record_count
        assert bool(counted) == counts


def both(data: bytearray) -> tuple[Any, Any]:
    """What aiokafka's reader finds, and what is found without a copy: records, or an error."""
    header = read_header(data)
    found: list[Any] = []
    for has_large in (False, True):
        try:
            read = [*batches.checked_records(batches.Plain(data, header, has_large))]
        except InvalidRecords:
            found.append("refused")
        else:
            found.append([(r.offset, r.timestamp, r.key, r.value) for r in read])
    return found[0], found[1]


CONTENT = [(b"k", None, [("h", None), ("name", b"x" * 70)]), (None, b"v" * 200, []), (b"", b"", [("", b"")])]


@pytest.mark.parametrize("log_append_time", [False, True])
def test_large_records_are_read_without_a_copy(log_append_time: bool) -> None:
    data = batches.build(CONTENT, timestamp_ms=NOW, log_append_time=log_append_time)
    copied, seen = both(data)
    assert copied == seen
    assert [(key, value) for _, _, key, value in seen] == [row[:2] for row in CONTENT]
    header = read_header(data)
    assert not batches.plain(data, header, SOME).has_large
    large = batches.build([(None, bytes(LARGE_RECORD_BYTES + 1))], timestamp_ms=NOW)
    found = batches.plain(large, read_header(large), SOME)
    assert found.has_large
    assert batches.greatest_timestamp(found) == NOW


@settings(max_examples=300, deadline=None)
@given(position=st.integers(61, 420), flip=st.integers(1, 255), cut=st.integers(0, 60))
@example(position=63, flip=128, cut=0)  # the attributes of a record
def test_both_record_readers_refuse_the_same_bytes(position: int, flip: int, cut: int) -> None:
    data = batches.build(CONTENT, timestamp_ms=NOW)
    data[min(position, len(data) - 1)] ^= flip
    if cut:
        del data[-cut:]
        struct.pack_into(">i", data, 8, len(data) - 12)
    copied, seen = both(data)
    assert copied == seen


@pytest.mark.parametrize("codec", list(compression.CODECS.values()))
def test_the_records_of_a_batch_can_be_read_one_by_one(codec: int) -> None:
    content = [*CONTENT, (None, bytes(LARGE_RECORD_BYTES + 1), [])]
    data = batches.build(content, timestamp_ms=NOW, compression=codec, base_offset=7)
    found = [*batches.each(data, read_header(data))]
    assert [(r.offset, r.timestamp, r.key, r.value) for r in found] == [
        (7 + index, NOW, key, value) for index, (key, value, _) in enumerate(content)
    ]
    assert isinstance(found[-1].value, memoryview)
    data[-1] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        next(batches.each(data, read_header(data)))
    set_crc(data, len(data))
    data = data[:-5] + b"\xff" * 5
    struct.pack_into(">i", data, 8, len(data) - 12)
    set_crc(data, len(data))
    with pytest.raises(CorruptBatch):
        [*batches.each(data, read_header(data))]


@pytest.mark.parametrize("kind", [batches.CONTROL_ABORT, batches.CONTROL_COMMIT])
def test_a_marker_packed_in_one_step_has_the_same_bytes(kind: int) -> None:
    for producer_id, epoch, coordinator_epoch in ((0, 0, 0), (7, 2, 4), (2**62, 2**15 - 1, 2**31 - 1)):
        made = build_marker(producer_id, epoch, NOW, is_committed=kind == 1, coordinator_epoch=coordinator_epoch)
        assert made == build_control(
            kind, timestamp_ms=NOW, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=coordinator_epoch
        )
