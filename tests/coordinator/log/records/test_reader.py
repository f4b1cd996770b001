"""Records in a batch are found, put together again, and moved in time; aiokafka's reader is the reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.log import CorruptBatch, batches
from muster.coordinator.log.cleaning.offset_map import OffsetMap, ProducersInLog
from muster.coordinator.log.records.building import assemble, empty, encode_records
from muster.coordinator.log.records.headers import HEADER_SIZE, check_crc, read_header
from muster.coordinator.log.records.reader import count_parts, records_of, varint, views_of

optional = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
records = st.lists(st.tuples(optional, optional, headers), min_size=1, max_size=70)


@given(records)
def test_both_record_readers_read_built_batches(
    content: list[tuple[bytes | None, bytes | None, batches.Headers]],
) -> None:
    batch = bytes(batches.build(content, timestamp_ms=5, base_offset=3))
    header = read_header(batch)
    found = records_of(batch, 3)
    assert [(one.offset, one.key, one.value, one.headers) for one in found] == [
        (3 + index, *row) for index, row in enumerate(content)
    ]
    assert [(view.key, view.value) for view in views_of(batch, header)] == [(key, value) for key, value, _ in content]
    parts, largest = count_parts(batch, len(content), 1000)
    assert parts == len(content) + sum(len(more) for _, _, more in content)
    assert largest == max(varint(encode_records([one], header), 0)[0] for one in found)
    assert encode_records(found, header) == batch[HEADER_SIZE:]
    assert assemble(header, encode_records(found, header), len(found)) == batch


@given(records, st.integers(-(2**40), 2**40))
def test_a_batch_moved_in_time_has_the_same_records(
    content: list[tuple[bytes | None, bytes | None, batches.Headers]], moved_ms: int
) -> None:
    batch = bytes(batches.build(content, timestamp_ms=5))
    header = read_header(batch)
    moved_header = header._replace(base_timestamp=5 + moved_ms)
    moved = assemble(moved_header, encode_records(records_of(batch, 0), moved_header), len(content))
    ((_, found),) = batches.read(moved)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found] == [
        (index, 5, key, value, more) for index, (key, value, more) in enumerate(content)
    ]


usual_key = st.binary(min_size=25, max_size=70)
usual_value = st.none() | st.binary(min_size=35, max_size=45)
odd_row = st.tuples(st.none() | st.binary(max_size=9000), optional)
row = st.tuples(usual_key, usual_value) | odd_row
some_rows = st.lists(st.tuples(usual_key, usual_value), min_size=1, max_size=70) | st.lists(row, min_size=1, max_size=6)


def thinned(batch: bytes, gone: set[int], moved_ms: int) -> bytes:
    """The batch after a compaction, moved in time."""
    header = read_header(batch)
    base = header.base_offset
    left = [one for one in records_of(batch, base) if one.offset - base not in gone]
    moved = header._replace(base_timestamp=header.base_timestamp + moved_ms)
    return assemble(moved, encode_records(left, moved), len(left))


@given(st.lists(st.tuples(some_rows, st.sets(st.integers(0, 5)), st.sampled_from([0, 1, 300])), min_size=1, max_size=4))
def test_the_offset_map_has_the_latest_offsets(
    content: list[tuple[list[batches.Pair], set[int], int]],
) -> None:
    log, base = b"", 10
    expected: dict[bytes, int] = {}
    tombstones: set[int] = set()
    for rows, gone, moved_ms in content:
        gone.discard(len(rows) - 1)
        batch = thinned(bytes(batches.build(rows, timestamp_ms=5, base_offset=base)), gone, moved_ms)
        left = [(base + number, *pair) for number, pair in enumerate(rows) if number not in gone]
        expected |= {key: offset for offset, key, _ in left if key is not None}
        tombstones |= {base} if any(key is not None and value is None for _, key, value in left) else set()
        log, base = log + batch, base + len(rows)
    offset_map = OffsetMap(0, 1000, ProducersInLog(lambda: (), newest_before_ms=0))
    assert offset_map.add(log) == len(log)
    assert (offset_map.offsets, offset_map.tombstones, offset_map.end_offset) == (expected, tombstones, base)


def test_a_batch_kept_for_its_producer_is_empty() -> None:
    batch = bytes(
        batches.build(
            [(b"k", b"v")] * 3, timestamp_ms=5, base_offset=7, producer_id=1, producer_epoch=2, base_sequence=9
        )
    )
    left = empty(read_header(batch))
    header = read_header(left)
    assert check_crc(left, 0, header)
    assert (header.record_count, header.base_offset, header.last_offset, header.last_sequence) == (0, 7, 9, 11)
    assert [found for _, found in batches.read(left)] == [[]]


@pytest.mark.parametrize("position", [HEADER_SIZE, HEADER_SIZE + 4])
def test_malformed_records_are_refused(position: int) -> None:
    batch = bytearray(batches.build([(b"k", b"v"), (b"k", b"v")], timestamp_ms=5))
    batch[position] = 0x7E
    with pytest.raises(CorruptBatch):
        records_of(bytes(batch), 0)
    with pytest.raises(CorruptBatch):
        records_of(bytes(batch[:-4]), 0)
