import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.log.errors import InsaneIndex
from muster.coordinator.log.segments.index import OffsetIndex, TimeIndex

rising = st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=30).map(sorted)


def offset_index(pairs: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex()
    for offset, position in pairs:
        index.append(offset, position)
    return index


@given(rising, rising)
def test_the_offset_index_equals_kafkas(offsets: list[int], positions: list[int]) -> None:
    pairs = list(zip(offsets, positions, strict=False))
    data = offset_index(pairs).encode()
    assert data == b"".join(struct.pack(">ii", *pair) for pair in pairs)
    again = OffsetIndex.decode(data, 2**31)
    assert list(zip(again.offsets, again.positions, strict=True)) == pairs


@given(rising, st.integers(0, 2**31 - 1))
def test_lookup_finds_the_last_entry_not_above(offsets: list[int], wanted: int) -> None:
    pairs = [(offset, index * 10 + 5) for index, offset in enumerate(offsets)]
    expected = max((position for offset, position in pairs if offset <= wanted), default=0)
    assert offset_index(pairs).lookup(wanted) == expected


def test_truncate_drops_what_begins_at_or_after() -> None:
    index = offset_index([(1, 10), (5, 20), (9, 30)])
    index.truncate(20)
    assert list(index.offsets) == [1]


@pytest.mark.parametrize(
    "data",
    [
        b"1234567",
        struct.pack(">4i", 5, 10, 5, 20),
        struct.pack(">4i", 5, 10, 6, 10),
        struct.pack(">2i", -1, 0),
        struct.pack(">2i", 5, 100),
        struct.pack(">4i", 5, 10, 0, 0),
    ],
    ids=["length", "same offset", "same position", "negative", "beyond the log", "zeros"],
)
def test_invalid_offset_indexes_are_refused(data: bytes) -> None:
    with pytest.raises(InsaneIndex):
        OffsetIndex.decode(data, 100)


@given(st.lists(st.integers(0, 2**62), unique=True, max_size=30).map(sorted), rising)
def test_the_time_index_equals_kafkas(timestamps: list[int], offsets: list[int]) -> None:
    pairs = list(zip(timestamps, offsets, strict=False))
    index = TimeIndex()
    for timestamp, offset in pairs:
        index.maybe_append(timestamp, offset)
    data = index.encode()
    assert data == b"".join(struct.pack(">qi", *pair) for pair in pairs)
    again = TimeIndex.decode(data)
    assert list(zip(again.timestamps, again.offsets, strict=True)) == pairs


def test_only_a_greater_timestamp_is_added_to_the_time_index() -> None:
    index = TimeIndex()
    for timestamp, offset in [(-1, 0), (5, 1), (5, 2), (4, 3), (6, 4)]:
        index.maybe_append(timestamp, offset)
    assert list(index.timestamps) == [5, 6]
    assert list(index.offsets) == [1, 4]
    assert [index.lookup(timestamp) for timestamp in (4, 5, 6, 7)] == [0, 1, 4, 4]
    index.truncate(4)
    assert list(index.timestamps) == [5]


@pytest.mark.parametrize(
    "data", [b"1" * 11, struct.pack(">qiqi", 5, 1, 5, 2), struct.pack(">qiqi", 5, 3, 6, 2), struct.pack(">qi", 1, -1)]
)
def test_invalid_time_indexes_are_refused(data: bytes) -> None:
    with pytest.raises(InsaneIndex):
        TimeIndex.decode(data)
