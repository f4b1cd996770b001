"""Messages of magic 0 and 1 become record batches v2: their records are those that Kafka and aiokafka's reader find."""

from __future__ import annotations

import json
import struct
from typing import Any

import cramjam
import pytest
from aiokafka.codec import gzip_decode, gzip_encode, lz4_decode, snappy_decode
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from muster.protocol import message_sets
from muster.protocol.message_sets import MalformedMessageSet, as_batch, head_of, is_crc_right, runs
from tests.support.old_formats import GOLDEN, GZIP, LZ4, SEGMENT, Row, messages, rows_of, sets, stamped, wrapped

CODECS: tuple[Any, ...] = (None, gzip_decode, snappy_decode, lz4_decode)


def unpack(codec: int, packed: memoryview) -> bytes:
    return bytes(CODECS[codec](bytes(packed)))


def rows_in(data: bytes) -> list[Row]:
    found = []
    for start, end in runs(data):
        batch = as_batch(data[start:end], unpack)
        assert struct.unpack_from(">i", batch, 8)[0] == len(batch) - 12
        for record in DefaultRecordBatch(bytes(batch)):
            found.append(Row(record.offset, record.timestamp, record.key, record.value))
            assert record.headers == []
    return found


def old_part(data: bytes) -> bytes:
    at = 0
    while data[at + 16] < 2:
        head = head_of(data, at)
        assert head is not None
        at += head.size
    return data[:at]


def test_message_sets_of_kafka_are_read_as_kafka_reads_them() -> None:
    lines = [json.loads(line) for line in (GOLDEN / "expected.jsonl").read_text().splitlines()]
    expected = [
        Row(
            line["offset"],
            line["timestamp"],
            *(None if text is None else text.encode() for text in (line["key"], line["value"])),
        )
        for line in lines
    ]
    found = rows_in(old_part(SEGMENT.read_bytes()))
    assert len(found) == 144
    assert found == expected[:144]


@given(sets())
def test_message_sets_of_aiokafka_are_read_unchanged(made: tuple[bytes, list[Row]]) -> None:
    data, expected = made
    assert rows_in(data) == expected


@given(sets())
def test_message_sets_are_read_as_by_aiokafka(made: tuple[bytes, list[Row]]) -> None:
    data = made[0]
    at, found = 0, []
    while at < len(data):
        head = head_of(data, at)
        assert head is not None
        if (head.magic, head.codec) != (0, LZ4):  # aiokafka does not read this
            whole = data[at : at + head.size]
            other = LegacyRecordBatch(whole, head.magic)
            assert other.validate_crc() == is_crc_right(whole, 0, head.size, head.crc)
            theirs = [
                Row(one.offset, -1 if one.timestamp is None else one.timestamp, one.key, one.value) for one in other
            ]
            assert rows_in(whole) == theirs
            found += theirs
        at += head.size


@given(sets(), st.data())
def test_a_changed_byte_in_a_message_set_is_detected(made: tuple[bytes, list[Row]], drawn: st.DataObject) -> None:
    """The CRC covers everything except the offset in front, as in every format."""
    data = made[0]
    head = head_of(data, 0)
    assert head is not None
    bent = bytearray(data[: head.size])
    bent[drawn.draw(st.integers(12, head.size - 1))] ^= drawn.draw(st.integers(1, 255))
    if bent[16] > 1:
        return  # another format
    with pytest.raises(MalformedMessageSet):
        rows_in(bytes(bent))


@given(sets(), st.data())
def test_truncated_message_sets_are_refused(made: tuple[bytes, list[Row]], drawn: st.DataObject) -> None:
    data = made[0]
    head = head_of(data, 0)
    assert head is not None
    with pytest.raises(MalformedMessageSet):
        rows_in(data[: drawn.draw(st.integers(1, head.size - 1))])


@given(st.integers(0, 1), st.binary(max_size=200))
def test_any_content_of_a_compressed_message_is_read_or_refused(magic: int, inside: bytes) -> None:
    try:
        rows_in(wrapped(magic, 50, GZIP, gzip_encode(inside)))
    except MalformedMessageSet:
        return
    assert inside == b"" or len(inside) >= message_sets.MIN_SIZES[0]


@pytest.mark.parametrize("magic", [0, 1])
def test_an_empty_compressed_message_is_a_batch_without_records(magic: int) -> None:
    data = wrapped(magic, 7, GZIP, gzip_encode(b""))
    batch = as_batch(data, unpack)
    assert rows_in(data) == []
    assert struct.unpack_from(">q15xi", batch) == (7, 0)
    assert struct.unpack_from(">57xi", batch) == (0,)


NESTED = messages(1, rows_of(1, 0, 3), GZIP)
PLAIN = messages(1, rows_of(1, 0, 3))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (wrapped(1, 7, GZIP, None), "the compressed message at offset 7 has no value"),
        (wrapped(1, 7, GZIP, gzip_encode(NESTED)), "the compressed message at offset 7 holds a compressed message"),
        (wrapped(1, 7, GZIP, gzip_encode(PLAIN[:-1])), "contains an incomplete message"),
        (wrapped(1, 7, GZIP, gzip_encode(PLAIN[:20])), "contains an incomplete message"),
        (wrapped(1, 7, GZIP, gzip_encode(b"no message at all, but long")), "contains bytes that are no message"),
        (wrapped(1, 1, GZIP, gzip_encode(PLAIN)), "the message at offset 1 holds messages from offset -1 on"),
        (wrapped(0, 1, GZIP, gzip_encode(messages(0, rows_of(0, 9, 3)[::-1]))), "holds messages from offset 11 on"),
        (PLAIN[:10], "10 bytes are no message"),
    ],
    # not named by the data: gzip writes the time into it, and processes that share the tests must use the same names
    ids=["no-value", "nested", "cut", "cut-short", "other-bytes", "before-zero", "out-of-order", "no-message"],
)
def test_impossible_message_sets_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(MalformedMessageSet, match=why):
        rows_in(data)


def test_inner_messages_of_the_older_format_are_read() -> None:
    """A cleaner of Kafka 0.10 left such messages (KAFKA-4298)."""
    inside = messages(0, [Row(0, -1, b"a", b"1"), Row(2, -1, b"b", b"2")])
    assert rows_in(wrapped(1, 12, GZIP, gzip_encode(inside), timestamp=5)) == [
        (10, -1, b"a", b"1"),
        (12, -1, b"b", b"2"),
    ]


def test_plain_messages_of_one_kind_share_a_batch() -> None:
    rows = rows_of(1, 5, 40)
    assert len(list(runs(messages(1, rows)))) == 1
    assert len(list(runs(messages(1, rows) + messages(0, rows_of(0, 90, 3))))) == 2
    assert len(list(runs(messages(1, rows, append_time_ms=5) + messages(1, rows_of(1, 90, 3), append_time_ms=6)))) == 2
    far = [*rows, Row(2**31 + 5, 0, None, None)]
    assert len(list(runs(messages(1, far)))) == 2
    assert rows_in(messages(1, far)) == far
    large = [Row(offset, 0, None, b"x" * 1000) for offset in range(64)]
    assert len(list(runs(messages(1, large)))) == 5
    assert rows_in(messages(1, large, append_time_ms=77)) == stamped(large, 77)


def test_lz4_of_magic_0_is_read_with_any_header_checksum() -> None:
    rows = rows_of(0, 3, 9)
    data = messages(0, rows, LZ4)
    value = data[26:]
    with pytest.raises(cramjam.DecompressionError):
        cramjam.lz4.decompress(value)
    assert rows_in(data) == rows


def test_an_lz4_frame_with_the_right_checksum_is_not_changed() -> None:
    for size in (0, 5, 70_000):
        frame = bytes(cramjam.lz4.compress(b"x" * size))
        assert message_sets._with_right_checksum(frame) == frame


@pytest.mark.parametrize("frame", [b"", b"\x04\x22\x4d\x18", b"\x04\x22\x4d\x18\x68\x40", b"something else"])
def test_bytes_that_are_no_lz4_frame_are_not_changed(frame: bytes) -> None:
    assert message_sets._with_right_checksum(frame) == frame
